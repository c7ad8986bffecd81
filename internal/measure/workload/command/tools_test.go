//go:build unix

package command

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

// need skips the test, with the reason, when a program is not installed.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := proc.LookPath(program)
	if err != nil {
		missing(t, "%s is not installed: %v", program, err)
	}
	return path
}

// positive wants figures above zero under the given names.
func positive(t *testing.T, given map[string]string, names ...string) map[string]float64 {
	t.Helper()
	b := must(t, t.TempDir(), 1, given)
	for _, name := range append(names, "seconds") {
		if !(b.Metrics[name] > 0) {
			t.Errorf("%s: %s is %v of %v", given["command"], name, b.Metrics[name], b.Metrics)
		}
	}
	return b.Metrics
}

func TestRealFIO(t *testing.T) {
	need(t, "fio")
	m := positive(t, map[string]string{"preset": "fio", "shell": "none",
		"command": "fio --name=tare --filename=f --size=4m --bs=4k --rw=randrw --ioengine=psync --invalidate=0 " +
			"--output-format=json"},
		"fio_iops", "fio_mib_per_second", "fio_read_iops", "fio_write_iops", "fio_read_latency_ns", "fio_write_p99_ns")
	if got, want := m["fio_mib_per_second"], m["fio_iops"]*4096/(1<<20); got < 0.95*want || got > 1.05*want {
		t.Errorf("%v MiB/s and %v operations of 4 KiB do not agree", got, m["fio_iops"])
	}
	f := failed(t, map[string]string{"preset": "fio",
		"command": "fio --name=tare --ioengine=nosuchengine --filename=f --size=4m --rw=read --output-format=json"})
	if !strings.Contains(f.Message, "exit code 1") {
		t.Errorf("%+v", f)
	}
}

func TestRealSysbench(t *testing.T) {
	need(t, "sysbench")
	m := positive(t, map[string]string{"preset": "sysbench",
		"command": "sysbench cpu --time=1 --cpu-max-prime=5000 run"}, "sysbench_events_per_second")
	if m["seconds"] < 0.9 || m["seconds"] > 30 {
		t.Errorf("a test of one second took %v s", m["seconds"])
	}
	positive(t, map[string]string{"preset": "sysbench",
		"command": "sysbench memory --time=1 --memory-total-size=100M run"}, "sysbench_events_per_second",
		"sysbench_transferred_mib_per_second")
}

// iperf3Server starts a server and returns its port. That it listens it says itself: dialling would be a test to it.
func iperf3Server(t *testing.T, path string) string {
	t.Helper()
	for range 5 { // another may take a port before the server does
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		l.Close()
		server, err := proc.Start(proc.Command(t.Context(), path, "-s", "-B", "127.0.0.1", "-p", port, "--forceflush"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Kill(); server.Close() })
		lines := bufio.NewScanner(server)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Server listening") {
				go io.Copy(io.Discard, server)
				return port
			}
		}
		t.Logf("iperf3 does not listen at port %s: %s", port, server.Diagnose())
	}
	t.Fatal("no iperf3 server listens")
	return ""
}

func TestRealIperf3(t *testing.T) {
	path := need(t, "iperf3")
	client := "iperf3 -c 127.0.0.1 -t 1 -J -p " + iperf3Server(t, path)
	positive(t, map[string]string{"preset": "iperf3", "command": client}, "iperf3_bits_per_second")
	m := positive(t, map[string]string{"preset": "iperf3", "command": client + " -u -b 10M"}, "iperf3_bits_per_second")
	if v := m["iperf3_bits_per_second"]; v < 2e6 || v > 50e6 {
		t.Errorf("10 Mbit/s were asked for and %v bit/s arrived", v)
	}
	f := failed(t, map[string]string{"preset": "iperf3", "command": "iperf3 -c 127.0.0.1 -t 1 -J -p 1; true"})
	if !strings.Contains(f.Message, "Connection refused") {
		t.Errorf("%+v", f)
	}
}

func TestRealWrk(t *testing.T) {
	need(t, "wrk")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			_, _ = w.Write([]byte("hello"))
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	positive(t, map[string]string{"preset": "wrk", "command": "wrk -t1 -c2 -d1s --latency " + server.URL + "/"},
		"wrk_requests_per_second", "wrk_bytes_per_second", "wrk_latency_ms", "wrk_p50_ms", "wrk_p99_ms")
	b := must(t, t.TempDir(), 1, map[string]string{"preset": "wrk",
		"command": "wrk -t1 -c2 -d1s " + server.URL + "/missing"})
	if len(b.Warnings) != 1 || b.Warnings[0].Code != "http-errors" {
		t.Errorf("nothing but 404s gave %v", b.Warnings)
	}
}

// TestRealPgbench starts a PostgreSQL of its own on a socket, as the user that the package made when this one is root.
func TestRealPgbench(t *testing.T) {
	bin := "/usr/lib/postgresql"
	versions, err := os.ReadDir(bin)
	if err != nil || len(versions) == 0 {
		missing(t, "PostgreSQL is not installed: %v", err)
	}
	bin += "/" + versions[len(versions)-1].Name() + "/bin/"
	need(t, bin+"pgbench")
	dir, err := os.MkdirTemp("", "tare-pgbench")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := func(argv ...string) {
		t.Helper()
		if os.Geteuid() == 0 {
			argv = append([]string{"runuser", "-u", "postgres", "--"}, argv...)
		}
		if _, err := proc.Run(t.Context(), nil, argv...); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		if _, err := proc.Run(t.Context(), nil, "chown", "postgres", dir); err != nil {
			missing(t, "there is no user postgres to run the server as: %v", err)
		}
	}
	as(bin+"initdb", "-D", dir+"/data", "-A", "trust", "-N", "-U", "postgres")
	as(bin+"pg_ctl", "-D", dir+"/data", "-l", dir+"/log", "-w", "-o",
		"-k '"+dir+"' -c listen_addresses= -c fsync=off", "start")
	defer as(bin+"pg_ctl", "-D", dir+"/data", "-m", "immediate", "stop")
	as(bin+"pgbench", "-h", dir, "-U", "postgres", "-q", "-i", "-s", "1", "postgres")
	pgbench := bin + "pgbench -h '" + dir + "' -U postgres "
	positive(t, map[string]string{"preset": "pgbench", "command": pgbench + "-T 1 postgres"}, "pgbench_tps",
		"pgbench_latency_ms", "pgbench_connect_ms")
	positive(t, map[string]string{"preset": "pgbench", "command": pgbench + "-S -C -t 20 postgres"}, "pgbench_tps",
		"pgbench_latency_ms")
	f := failed(t, map[string]string{"preset": "pgbench", "command": pgbench + "-t 1 nodatabase"})
	if !strings.Contains(f.Evidence, "nodatabase") {
		t.Errorf("%+v", f)
	}
}

// missing skips a test for want of a program, and fails it where everything must be there.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format+", and TARE_REQUIRE is set", args...)
	}
	t.Skipf(format, args...)
}
