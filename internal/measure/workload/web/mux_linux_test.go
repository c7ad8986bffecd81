package web

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/sys/proc"
)

// TestHTTP2OnNginx: each way of load on the environment's own server, by HTTP/2 with prior knowledge.
func TestHTTP2OnNginx(t *testing.T) {
	needNginx(t)
	const page = "16384 bytes 224e674870f47205b042e29307b2eada"
	for _, c := range []struct {
		given map[string]string
		page  string
	}{
		{nil, page},
		{map[string]string{"streams": "10"}, page},
		{map[string]string{"connections": "32", "threads": "3", "streams": "1000"}, page},
		{map[string]string{"size": "1MiB", "streams": "7"}, ""},
		{map[string]string{"keepalive": "no"}, page},
		{map[string]string{"rate": "2000", "connections": "4", "threads": "2", "streams": "3"}, page},
		{map[string]string{"rate": "2000.5", "arrivals": "poisson", "keepalive": "no"}, page},
		{map[string]string{"verify": "hash", "every": "7", "streams": "3"},
			"1 page, masked 224e674870f47205b042e29307b2eada"},
		{map[string]string{"verify": "status", "length": "16384"}, ""},
	} {
		given := with(c.given, "http", "2")
		b, err := trialtest.Try(t, trialtest.Named(t, Kinds(), "http.load"), given, 600)
		if err != nil {
			t.Errorf("%v: %v", given, err)
			continue
		}
		trialtest.CheckFigures(t, trialtest.Named(t, Kinds(), "http.load"), given, b)
		m := b.Metrics
		if c.page != "" && b.Checks["page"] != c.page || m["p99_us"] > m["max_us"] || b.State["http"] != "HTTP/2" ||
			b.State["connections_reopened"] != "0" {
			t.Errorf("%v: checks %v, state %v, figures %v", given, b.Checks, b.State, m)
		}
	}
	b, err := loaded(t, map[string]string{"method": "HEAD", "http": "2"}, 100)
	if err != nil || b.Metrics["mib_per_second"] != 0 {
		t.Errorf("HEAD: %v, %v", b.Metrics, err)
	}
}

// TestHTTP2OverTLS: the server must agree to it, and its certificate is verified as over HTTP/1.1.
func TestHTTP2OverTLS(t *testing.T) {
	needNginx(t)
	cert, key := certified(t, "127.0.0.1")
	url := "https://" + nginxWith(t, "ssl http2", "http2_max_concurrent_streams 16;"+overTLS(cert, key)) + "/page.bin"
	for _, given := range []map[string]string{nil, {"connections": "32", "threads": "2", "streams": "4"},
		{"keepalive": "no"}, {"rate": "500", "arrivals": "poisson", "streams": "2"},
		{"verify": "hash", "match": "page page"}, {"method": "HEAD"}, {"keepalive": "no", "rate": "300"}} {
		b, err := loaded(t, with(given, "url", url, "ca", cert, "http", "2"), 300)
		if err != nil {
			t.Errorf("%v: %v", given, err)
			continue
		}
		if !strings.HasPrefix(b.State["tls"], "TLS 1.3 TLS_") || b.State["http"] != "HTTP/2" || given == nil &&
			!strings.HasPrefix(b.Checks["page"], "40000 bytes ") {
			t.Errorf("%v: state %v, checks %v", given, b.State, b.Checks)
		}
	}
	other, _ := certified(t, "127.0.0.1")
	first := "https://" + sealedNginx(t, cert, key) + "/page.bin"
	for name, c := range map[string]struct{ url, ca, streams, want string }{
		"a server of HTTP/1.1":        {first, cert, "1", "does not agree to h2 (ALPN)"},
		"a certificate of others":     {url, other, "1", "TLS with"},
		"more streams than there are": {url, cert, "17", "allows 16 streams at a time"},
	} {
		_, err := loaded(t, map[string]string{"url": c.url, "ca": c.ca, "http": "2", "streams": c.streams}, 20)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// overTLS is nginx's directives for TLS 1.3.
func overTLS(cert, key string) string {
	return fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s; ssl_protocols TLSv1.3;", cert, key)
}

// TestHTTP2Leaves: an nginx that ends each connection after some requests, as all do, takes no request with it: those
// that it has not taken are sent again, and others finish.
func TestHTTP2Leaves(t *testing.T) {
	needNginx(t)
	url := "http://" + nginxWith(t, "http2", "sendfile off; keepalive_requests 50; "+
		"location /post { return 200 hello; } location = /old { return 301 /page.bin; }")
	for _, c := range []struct {
		given map[string]string
		bytes float64
	}{
		{nil, 40000},
		{map[string]string{"connections": "3", "streams": "20"}, 40000},
		{map[string]string{"connections": "4", "threads": "2", "streams": "7", "rate": "4000"}, 40000},
		{map[string]string{"method": "POST", "body": "here", "streams": "5"}, 5},
		{map[string]string{"urls": "3 /page.bin 1 /other.bin", "streams": "9"}, (3*40000 + 70000) / 4},
	} {
		given := with(c.given, "url", url+"/page.bin", "http", "2")
		if given["body"] != "" {
			given["body"] = "file:" + filepath.Join(t.TempDir(), "body")
			if err := os.WriteFile(given["body"][5:], make([]byte, 900<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			given["url"] = url + "/post"
		}
		b, err := loaded(t, given, 2000)
		if err != nil {
			t.Errorf("%v: %v", given, err)
			continue
		}
		got := b.Metrics["mib_per_second"] * b.Elapsed.Seconds() * (1 << 20)
		if want := 2000 * c.bytes; math.Abs(got-want) > 1e-3*want {
			t.Errorf("%v: %v bytes, want %v", given, got, want)
		}
		if n := b.State["connections_reopened"]; n < "30" || len(n) != 2 {
			t.Errorf("%v: %s connections were reopened", given, n)
		}
	}
	for redirects, want := range map[string]string{"fail": "a redirect to ", "follow": ""} {
		b, err := loaded(t, map[string]string{"url": url + "/old", "http": "2", "redirects": redirects, "streams": "4"},
			100)
		if want == "" && (err != nil || b.State["redirects_followed"] != "100" ||
			!strings.HasPrefix(b.Checks["page"], "40000 bytes ")) {
			t.Errorf("followed: %v, %v", err, b)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("not followed: %v, want %q", err, want)
		}
	}
	if _, err := loaded(t, map[string]string{"url": url + "/nothing", "http": "2"}, 1); err == nil ||
		!strings.Contains(err.Error(), "the server answers 404") {
		t.Errorf("a page that is not there: %v", err)
	}
	// A server that does not speak it says so in HTTP/1.1, or ends the connection.
	one := "http://" + nginxWith(t, "", "") + "/page.bin"
	if _, err := loaded(t, map[string]string{"url": one, "http": "2"}, 1); err == nil ||
		!strings.Contains(err.Error(), "it does not speak HTTP/2 here") {
		t.Errorf("a server of HTTP/1.1: %v", err)
	}
}

// TestHTTP2OnApache: another server, which refers to the fields that it has sent before.
func TestHTTP2OnApache(t *testing.T) {
	const modules = "/usr/lib/apache2/modules/"
	if _, err := os.Stat(modules + "mod_http2.so"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("apache2-bin is not installed, and TARE_REQUIRE is set")
		}
		t.Skip("apache2-bin is not installed")
	}
	program, err := proc.LookPath("apache2")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	cert, key := certified(t, "127.0.0.1")
	sealed, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("ServerRoot %[1]s\nServerName localhost\nPidFile %[1]s/pid\nErrorLog %[1]s/log\n"+
		"DefaultRuntimeDir %[1]s\nListen 127.0.0.1:%[2]d\nListen 127.0.0.1:%[3]d\nDocumentRoot %[1]s\n"+
		"ProtocolsHonorOrder On\nProtocols h2 h2c http/1.1\nH2MaxSessionStreams 40\nUser www-data\n"+
		"MaxKeepAliveRequests 70\nHeader set X-Page one\nHeader add Set-Cookie seen=yes\n"+
		"<VirtualHost 127.0.0.1:%[3]d>\nSSLEngine on\nSSLCertificateFile %[4]s\nSSLCertificateKeyFile %[5]s\n"+
		"</VirtualHost>\n", dir, port, sealed, cert, key)
	for _, m := range []string{"mpm_event", "authz_core", "headers", "http2", "ssl"} {
		config = fmt.Sprintf("LoadModule %s_module %smod_%s.so\n", m, modules, m) + config
	}
	for name, text := range map[string]string{"page.bin": strings.Repeat("page ", 8000), "conf": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	begin(t, addr, program, "-X", "-f", filepath.Join(dir, "conf"))
	for _, given := range []map[string]string{nil, {"streams": "25", "connections": "3"}, {"keepalive": "no"},
		{"url": fmt.Sprintf("https://127.0.0.1:%d/page.bin", sealed), "ca": cert, "streams": "5"},
		{"verify": "hash", "match": "page page", "rate": "3000", "streams": "3"}} {
		if given["url"] == "" {
			given = with(given, "url", "http://"+addr+"/page.bin")
		}
		b, err := loaded(t, with(given, "http", "2"), 500)
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Errorf("%v: %v; %s", given, err, log)
			continue
		}
		got := b.Metrics["mib_per_second"] * b.Elapsed.Seconds() * (1 << 20)
		if want := 500 * 40000.0; math.Abs(got-want) > 1e-3*want {
			t.Errorf("%v: %v bytes, want %v", given, got, want)
		}
	}
}

// TestHTTP2LoopAllocatesNothing: nor with many streams, nor in the open model.
func TestHTTP2LoopAllocatesNothing(t *testing.T) {
	needNginx(t)
	for _, given := range []map[string]string{{}, {"streams": "10"}, {"rate": "20000", "streams": "3"}} {
		k := trialtest.Named(t, Kinds(), "http.load")
		p, err := k.Resolve(with(given, "http", "2"))
		if err != nil {
			t.Fatal(err)
		}
		trial, err := k.New(p)
		if err != nil {
			t.Fatal(err)
		}
		b := &workload.Bench{Dir: t.TempDir(), Work: 1, Seed: 42}
		err = trial.Setup(t.Context(), b)
		if err == nil {
			lane := trial.(*loadTrial).crew.lanes[0]
			least := uint64(math.MaxUint64)
			for try := 0; try < 10 && err == nil && least > 200; try++ {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err = lane.run(2000)
				runtime.ReadMemStats(&after)
				least = min(least, after.Mallocs-before.Mallocs)
			}
			if least > 200 {
				t.Errorf("%v: %d allocations in 2000 requests", given, least)
			}
		}
		if err := errors.Join(err, trial.Cleanup(b)); err != nil {
			t.Fatal(err)
		}
	}
}
