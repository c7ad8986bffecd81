package web

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
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
		{map[string]string{"connections": "1200"}, page}, // more than nginx keeps open by itself
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
		if b.State["connections_reopened"] != "0" && c.given["keepalive"] != "no" {
			t.Errorf("%v: %s connections were opened again", c.given, b.State["connections_reopened"])
		}
		if _, open := c.given["rate"]; b.State["lull"] == "" || open && b.State["lull"] != "no: open model" {
			t.Errorf("%v: the state lull is %q", c.given, b.State["lull"])
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

// TestClientShare: the client's share is of the processors that its threads can have at the same time, so that one with
// more threads than processors can be seen to be the limit.
func TestClientShare(t *testing.T) {
	needNginx(t)
	defer func(was func() int) { processors = was }(processors)
	for _, c := range []struct {
		cpus, threads string
		of            float64
		shared        bool
	}{{"2", "4", 2, false}, {"2", "1", 1, false}, {"8", "4", 4, false}, {"1", "3", 1, true}} {
		n, _ := strconv.Atoi(c.cpus)
		processors = func() int { return n }
		b, err := loaded(t, map[string]string{"connections": "4", "threads": c.threads, "size": "1"}, 4000)
		if err != nil {
			t.Fatal(err)
		}
		used := b.Metrics["client_cpu_us"] / 1e6 * float64(b.Work) / b.Elapsed.Seconds()
		got, err := strconv.ParseFloat(b.State["client_cpu_share"], 64)
		if want := min(used/c.of, 1); err != nil || math.Abs(got-want) > 0.001 {
			t.Errorf("%s threads on %s processors kept %.4f busy: the share is %s, want %.4f", c.threads, c.cpus, used,
				b.State["client_cpu_share"], want)
		}
		said := slices.ContainsFunc(b.Warnings, func(w record.Warning) bool { return w.Code == "shared-processor" })
		if said != c.shared {
			t.Errorf("%s threads on %s processors: warnings %v", c.threads, c.cpus, b.Warnings)
		}
	}
}

// sited is a trial of a stack that is what endpoint says.
type sited struct {
	workload.Trial
	endpoint string
}

func (s sited) Setup(ctx context.Context, b *workload.Bench) error {
	b.Service.Endpoint = s.endpoint
	return s.Trial.Setup(ctx, b)
}

func (s sited) Report(b *workload.Bench) error { return s.Trial.(workload.Reporter).Report(b) }

// TestPatternOfASite: a page of a stack's own must have what it should, without match=. TestStack of the drivers asks
// real ones.
func TestPatternOfASite(t *testing.T) {
	url, _ := serveText(t, func(c net.Conn, _ int64, text string) {
		switch {
		case strings.Contains(text, "Cookie: session=1"):
			pageOf(c, "the front page of (Reader)")
		case strings.Contains(text, "/front") || strings.Contains(text, "/any"):
			pageOf(c, "the front page")
		default:
			pageOf(c, "<b>Fatal error</b>: Uncaught Error")
		}
	})
	at, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	cookie := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(cookie, []byte("session=1"), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint := fmt.Sprintf(`{"name":"it","host":"x","apache":%q,"cookie":%q,"front":"/front","heavy":"/heavy",`+
		`"pattern":"page","user":"(Reader)"}`, at, cookie)
	for _, kind := range []string{"http.get", "http.load"} {
		for _, c := range []struct {
			want  string
			given map[string]string
		}{
			{"", map[string]string{"url": "stack:@front"}},
			{"", map[string]string{"url": "stack:@front", "cookie": "user"}},
			{"", map[string]string{"url": "stack:/heavy"}}, // what it contains is not known
			{"has nothing that match=page matches", map[string]string{"url": "stack:@heavy"}},
		} {
			trial := trialtest.New(t, Kinds(), kind, c.given)
			_, err := trialtest.TryTrial(t, sited{trial, endpoint}, 20)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s %v: %v, want %q", kind, c.given, err, c.want)
			}
		}
	}
	// The user who has logged in must be seen as one.
	out := strings.Replace(endpoint, "(Reader)", "(Writer)", 1)
	trial := trialtest.New(t, Kinds(), "http.load", map[string]string{"url": "stack:@front", "cookie": "user"})
	if _, err := trialtest.TryTrial(t, sited{trial, out}, 20); err == nil ||
		!strings.Contains(err.Error(), `match=\(Writer\)`) {
		t.Errorf("a user who is not logged in: %v", err)
	}
	trial = trialtest.New(t, Kinds(), "http.load", map[string]string{"url": "stack:@heavy", "match": "Fatal"})
	if _, err := trialtest.TryTrial(t, sited{trial, endpoint}, 20); err != nil {
		t.Errorf("match= does not replace the pattern: %v", err)
	}
}
