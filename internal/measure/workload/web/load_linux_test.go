package web

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
)

// TestLoadOnNginx: each way of load on the environment's own server.
func TestLoadOnNginx(t *testing.T) {
	needNginx(t)
	const page = "16384 bytes 224e674870f47205b042e29307b2eada"
	for _, c := range []struct {
		given map[string]string
		page  string
	}{
		{nil, page},
		{map[string]string{"connections": "32", "threads": "3"}, page},
		{map[string]string{"keepalive": "no"}, page},
		{map[string]string{"rate": "2000", "connections": "4", "threads": "2"}, page},
		{map[string]string{"rate": "2000.5", "arrivals": "poisson", "keepalive": "no"}, page},
		{map[string]string{"verify": "hash", "every": "7"}, "1 page, masked 224e674870f47205b042e29307b2eada"},
		{map[string]string{"verify": "status", "length": "16384"}, ""},
		{map[string]string{"connections": "1000"}, page},
	} {
		b, err := trialtest.Try(t, trialtest.Named(t, Kinds(), "http.load"), c.given, 600)
		if err != nil {
			t.Errorf("%v: %v", c.given, err)
			continue
		}
		trialtest.CheckFigures(t, trialtest.Named(t, Kinds(), "http.load"), c.given, b)
		m := b.Metrics
		if b.Checks["page"] != c.page || m["p99_us"] > m["p999_us"] || m["p999_us"] > m["p9999_us"] ||
			m["p9999_us"] > m["max_us"] {
			t.Errorf("%v: checks %v, figures %v", c.given, b.Checks, m)
		}
		if m["schedule_max_us"] != 0 && m["schedule_max_us"] < m["max_us"] {
			t.Errorf("%v: since they were due %v us, since they were sent %v", c.given, m["schedule_max_us"],
				m["max_us"])
		}
	}
	b, err := loaded(t, map[string]string{"method": "HEAD"}, 100)
	if err != nil || b.Metrics["mib_per_second"] != 0 {
		t.Errorf("HEAD: %v, %v", b.Metrics, err)
	}
}

// TestPagesOfNginx: several pages with weights, and a redirect that is nginx's own, on a server of the user's.
func TestPagesOfNginx(t *testing.T) {
	needNginx(t)
	n, err := findNginx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Dir: t.TempDir(), Seed: 42}
	if err := n.furnish(b, 100); err != nil {
		t.Fatal(err)
	}
	if err := n.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer n.stop()
	if err := os.Mkdir(filepath.Join(n.root, "wiki"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"a.html": 5000, "b.html": 70000, "wiki/index.html": 300} {
		if err := os.WriteFile(filepath.Join(n.root, name), []byte(strings.Repeat("x", size)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := fmt.Sprintf("http://%s", n.addr)
	list := filepath.Join(t.TempDir(), "pages")
	if err := os.WriteFile(list, []byte("# weights\n3 /a.html\n"+server+"/b.html # the large one\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, given := range []map[string]string{
		{"url": server, "urls": "file:" + list},
		{"urls": "3 " + server + "/a.html 1 /b.html", "connections": "6", "threads": "3"},
		{"url": server + "/nothing", "urls": "/b.html 3 /a.html", "rate": "3000"},
	} {
		b, err := loaded(t, given, 1200)
		if err != nil {
			t.Errorf("%v: %v", given, err)
			continue
		}
		got := b.Metrics["mib_per_second"] * b.Elapsed.Seconds() * (1 << 20)
		if want := 900*5000.0 + 300*70000; math.Abs(got-want) > 1e-3*want || !strings.HasPrefix(b.Checks["page"],
			"2 pages, 75000 bytes ") {
			t.Errorf("%v: %v bytes, want %v; checks %v", given, got, want, b.Checks)
		}
		// It is a server of the user's that runs here, as one process.
		if v, err := strconv.ParseFloat(b.State["server_cpu_share"], 64); err != nil || v < 0 || v > 1 ||
			b.State["server_processes"] != "1" || !(b.Metrics["server_cpu_us"] > 0) {
			t.Errorf("%v: state %v, figures %v", given, b.State, b.Metrics)
		}
	}
	for redirects, want := range map[string]string{"fail": "a redirect to " + server + "/wiki/", "follow": ""} {
		b, err := loaded(t, map[string]string{"url": server + "/wiki", "redirects": redirects}, 100)
		if want == "" && (err != nil || b.State["redirects_followed"] != "100" ||
			!strings.HasPrefix(b.Checks["page"], "300 bytes ")) {
			t.Errorf("followed: %v, %v", err, b)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("not followed: %v, want %q", err, want)
		}
	}
	if _, err := loaded(t, map[string]string{"urls": "/a.html /nothing", "url": server}, 1); err == nil ||
		!strings.Contains(err.Error(), "/nothing: the server answers 404") {
		t.Errorf("a page that is not there: %v", err)
	}
}
