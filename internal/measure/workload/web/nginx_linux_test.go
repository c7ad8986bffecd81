package web

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

func needNginx(t testing.TB) {
	t.Helper()
	if _, err := proc.LookPath("nginx"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("nginx is not installed, and TARE_REQUIRE is set")
		}
		t.Skip("nginx is not installed")
	}
}

// gone tells whether none of a trial's servers runs any more.
func gone(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("nginx %d still runs: %v", pid, err)
	}
}

func TestNginxServes(t *testing.T) {
	needNginx(t)
	for _, c := range []struct {
		given map[string]string
		work  int64
		page  string
	}{
		{nil, 2000, "16384 bytes 224e674870f47205b042e29307b2eada"},
		{map[string]string{"connections": "32"}, 2000, "16384 bytes 224e674870f47205b042e29307b2eada"},
		{map[string]string{"connections": "5", "threads": "3", "size": "200KiB"}, 301, ""},
		{map[string]string{"keepalive": "no", "size": "1"}, 300, ""},
		{map[string]string{"connections": "8", "threads": "2"}, 3, ""}, // less work than connections
	} {
		b := trialtest.Run(t, trialtest.Named(t, Kinds(), "http.get"), c.given, c.work)
		if c.page != "" && b.Checks["page"] != c.page {
			t.Errorf("%v: checks %v", c.given, b.Checks)
		}
		if !strings.HasPrefix(b.State["server"], "nginx/") || b.State["connections_reopened"] != "0" {
			t.Errorf("%v: state %v", c.given, b.State)
		}
		for _, name := range []string{"client_cpu_share", "server_cpu_share"} {
			if v, err := strconv.ParseFloat(b.State[name], 64); err != nil || v < 0 || v > 1 {
				t.Errorf("%v: %s is %q", c.given, name, b.State[name])
			}
		}
	}
}

func TestColdPage(t *testing.T) {
	needNginx(t)
	for _, cache := range []string{cacheCold, cacheWarm} {
		b, err := trialtest.Try(t, trialtest.Named(t, Kinds(), "http.cold"), map[string]string{"cache": cache}, 3)
		if f, ok := errors.AsType[*record.Failure](err); ok && f.Kind == "cache-state" && cache == cacheCold &&
			strings.Contains(f.Message, "tmpfs") {
			continue // where temporary files are kept in memory, that they cannot be cold is the answer
		}
		if err != nil {
			t.Fatalf("cache=%s: %v", cache, err)
		}
		if len(b.Samples["first_seconds"]) != 3 || b.Checks["page"] != "16384 bytes 224e674870f47205b042e29307b2eada" ||
			(b.State["cache_dropped_by"] != "") != (cache == cacheCold) {
			t.Errorf("cache=%s: %+v", cache, b)
		}
		for _, m := range trialtest.Named(t, Kinds(), "http.cold").Metrics {
			if !(b.Metrics[m.Name] > 0) {
				t.Errorf("cache=%s: %s is %v", cache, m.Name, b.Metrics[m.Name])
			}
		}
		if m := b.Metrics; m["connect_seconds"] > m["first_byte_seconds"] ||
			m["first_byte_seconds"] > m["first_seconds"] {
			t.Errorf("cache=%s: the phases are out of order: %v", cache, m)
		}
	}
}

// TestPageIsKept: a session's trials find the page; one that was changed is made anew, and nothing else is left.
func TestPageIsKept(t *testing.T) {
	needNginx(t)
	k := trialtest.Named(t, Kinds(), "http.get")
	b := &workload.Bench{Dir: t.TempDir(), Home: t.TempDir(), Work: 10, Seed: 42}
	page := filepath.Join(b.Dir, "www", "page.bin")
	var first unix.Stat_t
	for i, spoil := range []bool{false, false, true} {
		if spoil {
			if err := os.WriteFile(page, make([]byte, 16<<10), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := k.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		trial, err := k.New(p)
		if err != nil {
			t.Fatal(err)
		}
		err = trial.Setup(t.Context(), b)
		pid := trial.(*loadTrial).nginx.process.Pid()
		if err = errors.Join(err, trial.Cleanup(b)); err != nil {
			t.Fatal(err)
		}
		gone(t, pid)
		if left, err := os.ReadDir(b.Home); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(page, &st); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = st
		} else if (st.Mtim != first.Mtim) != spoil {
			t.Errorf("trial %d: the page was written again: %t", i, st.Mtim != first.Mtim)
		}
	}
}

// TestNginxDies: one that is killed in the middle of a trial is a failure that says so, with what it said.
func TestNginxDies(t *testing.T) {
	needNginx(t)
	for _, given := range []map[string]string{{}, {"keepalive": "no"}} {
		k := trialtest.Named(t, Kinds(), "http.get")
		p, err := k.Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		trial, err := k.New(p)
		if err != nil {
			t.Fatal(err)
		}
		b := &workload.Bench{Dir: t.TempDir(), Work: 1 << 40, Seed: 42}
		if err := errors.Join(trial.Setup(t.Context(), b)); err != nil {
			t.Fatal(errors.Join(err, trial.Cleanup(b)))
		}
		pid := trial.(*loadTrial).nginx.process.Pid()
		time.AfterFunc(50*time.Millisecond, func() { unix.Kill(pid, unix.SIGKILL) })
		err = trial.Measure(t.Context(), b)
		f, ok := err.(*record.Failure)
		if !ok || f.Kind != "measure" || !strings.Contains(f.Message, "[nginx: signal: killed]") {
			t.Errorf("%v: %T %v", given, err, err)
		}
		if err := trial.Cleanup(b); err != nil {
			t.Error(err)
		}
	}
}

// TestNginxThatDoesNotStart: its own words are the message, and a port that somebody else takes first is not the end.
func TestNginxThatDoesNotStart(t *testing.T) {
	t.Parallel() // most of it is a wait
	needNginx(t)
	n, err := findNginx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Dir: t.TempDir(), Seed: 42}
	if err := n.furnish(b, 100); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n.addr = netip.MustParseAddrPort(l.Addr().String())
	err = n.launch(t.Context())
	f, ok := err.(*record.Failure)
	if !ok || f.Kind != "setup" || !strings.Contains(f.Message, "Address already in use") || n.process != nil {
		t.Errorf("a port in use: %T %v", err, err)
	}
	n.root = `/"; nonsense "`
	err = n.start(t.Context())
	f, ok = err.(*record.Failure)
	if !ok || f.Kind != "setup" || !strings.Contains(f.Message, `its log says: [emerg]`) ||
		!strings.Contains(f.Message, "nonsense") || n.process != nil {
		t.Errorf("a configuration that it does not read: %T %v", err, err)
	}
	b.Dir = filepath.Join(t.TempDir(), `a"b`)
	if err := os.Mkdir(b.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if f, ok := n.furnish(b, 100).(*record.Failure); !ok || f.Kind != "refused" {
		t.Errorf("a name that nginx cannot be told: %v", f)
	}
}

func TestNoNginx(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := proc.LookPath("nginx"); err == nil {
		// It is found in the sbin folders whatever PATH says; containers without it have a test of their own.
		t.Log("nginx is found without PATH")
		return
	}
	_, err := findNginx(context.Background())
	if f, ok := err.(*record.Failure); !ok || f.Kind != "refused" || !strings.Contains(f.Message, "nginx-light") {
		t.Errorf("%v", err)
	}
}

// TestLoopAllocatesNothing: neither with kept connections nor with new ones, nor in the open model.
func TestLoopAllocatesNothing(t *testing.T) {
	needNginx(t)
	for _, given := range []map[string]string{{}, {"keepalive": "no"}, {"rate": "20000"},
		{"verify": "hash", "match": "^"}} {
		k := trialtest.Named(t, Kinds(), "http.load")
		p, err := k.Resolve(given)
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
			// What runs beside it in this process allocates as well: the fewest of some tries are the loop's.
			least := uint64(math.MaxUint64)
			for try := 0; try < 10 && err == nil && least > 200; try++ {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err = lane.run(2000)
				runtime.ReadMemStats(&after)
				least = min(least, after.Mallocs-before.Mallocs)
			}
			if bound := map[bool]uint64{true: 200, false: 10000}[given["verify"] == ""]; least > bound {
				t.Errorf("%v: %d allocations in 2000 requests", given, least)
			}
		}
		if err := errors.Join(err, trial.Cleanup(b)); err != nil {
			t.Fatal(err)
		}
	}
}
