package sql

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/promise"
	"tare/internal/unit"
)

// small are the parameters of the tests of sql.oltp, for all of which one server is enough.
func small(server map[string]string, more ...string) map[string]string {
	given := map[string]string{"tables": "2", "rows": "2000", "rand": "uniform", "lanes": "3"}
	maps.Copy(given, server)
	for i := 0; i < len(more); i += 2 {
		given[more[i]] = more[i+1]
	}
	return given
}

// oltpServer returns the service of sql.oltp and a connection to its server.
func oltpServer(t *testing.T, server map[string]string) (workload.Serving, client) {
	t.Helper()
	k := oltpKind()
	p := resolved(t, k.Params, small(server))
	serving := shared(t, k.Service(p))
	to, err := newTarget(p)
	if err == nil {
		err = to.find(&workload.Bench{Service: serving})
	}
	if err != nil {
		t.Fatal(err)
	}
	to.untold = false
	c, err := dial(t.Context(), to, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close() })
	return serving, c
}

// transact runs a trial.
func transact(t *testing.T, serving workload.Serving, given map[string]string, work int64) *workload.Bench {
	t.Helper()
	k := oltpKind()
	b := &workload.Bench{Dir: t.TempDir(), Work: work, Seed: 42, Service: serving}
	trial, err := k.New(resolved(t, k.Params, given))
	if err == nil {
		err = workload.Drive(t.Context(), trial, b)
	}
	if err != nil {
		t.Fatalf("%v: %v", given, err)
	}
	trialtest.CheckFigures(t, &k, given, b)
	return b
}

// TestOLTP checks that equal seeds give equal checks on all servers, with any number of lanes.
func TestOLTP(t *testing.T) {
	checks := map[string]map[string]string{} // by mix
	each(t, func(t *testing.T, server map[string]string) {
		k := oltpKind()
		serving := started(t, k.Service(resolved(t, k.Params, small(server)))) // its data is as new
		for _, c := range []struct {
			mix            string
			perTransaction int64
			// So many that the ticks in which the time of ended processes is counted do not matter.
			work int64
		}{ // the writes last
			{mixPoint, 1, 2000}, {mixReadOnly, 16, 60}, {mixReadWrite, 20, 60}, {mixWriteOnly, 6, 60},
		} {
			mix, work := c.mix, c.work
			b := transact(t, serving, small(server, "mix", mix), work)
			want := strconv.FormatInt(work*c.perTransaction, 10)
			if b.Checks["statements of "+unit.Plural(work, "transaction")] != want {
				t.Errorf("%s: %v, want %s statements", mix, b.Checks, want)
			}
			if checks[mix] == nil {
				checks[mix] = b.Checks
			}
			if !maps.Equal(checks[mix], b.Checks) {
				t.Errorf("%s: checks %v, elsewhere %v", mix, b.Checks, checks[mix])
			}
			one := transact(t, serving, small(server, "mix", mix, "lanes", "1"), work)
			if !maps.Equal(one.Checks, b.Checks) {
				t.Errorf("%s: checks %v with one lane, %v with three", mix, one.Checks, b.Checks)
			}
		}
		losesItsServer(t, server, serving)
	})
}

// TestOLTPAtAddress works with a server that tare has not started.
func TestOLTPAtAddress(t *testing.T) {
	each(t, func(t *testing.T, server map[string]string) {
		serving, c := oltpServer(t, server)
		var e endpoint
		if err := json.Unmarshal([]byte(serving.Endpoint), &e); err != nil {
			t.Fatal(err)
		}
		at := map[string]string{"server": server["server"], "address": e.Address, "user": e.User,
			"database": e.Database}
		there := transact(t, workload.Serving{}, small(at), 20)
		lax := map[string]string{"postgresql": " fsync=off "}[server["server"]]
		if lax == "" {
			lax = " innodb_flush_log_at_trx_commit=0 "
		}
		if got := there.State[promise.State]; !strings.Contains(got, lax) {
			t.Errorf("the server promises %q, not%s", got, lax)
		}
		if got := there.State[promise.DiskState]; got != promise.OnTarget { // of all tests
			t.Errorf("the server's data is on %q", got)
		}
		if !slices.ContainsFunc(promise.FlushCounters, func(c string) bool { return there.State[c] != "" }) {
			t.Errorf("the server's flushes are not told: %v", there.State)
		}
		if own := transact(t, serving, small(server), 20); !maps.Equal(there.Checks, own.Checks) {
			t.Errorf("the same tables give %v and %v", there.Checks, own.Checks)
		}
		// One table more, which is not there.
		k := oltpKind()
		more := small(at, "tables", "3")
		if _, err := trialtest.Try(t, &k, more, 1); err == nil || !strings.Contains(err.Error(), "sbtest3") {
			t.Errorf("a table that is missing gives %v", err)
		}
		if _, err := trialtest.Try(t, &k, small(at, "rows", "1"), 1); err == nil ||
			!strings.Contains(err.Error(), "2000 rows") {
			t.Errorf("too large a table gives %v", err)
		}
		if _, err := trialtest.Try(t, &k, small(at, "mix", mixWriteOnly), 1); err == nil ||
			!strings.Contains(err.Error(), "disposable") {
			t.Errorf("writes give %v", err)
		}
		transact(t, workload.Serving{}, small(at, "tables", "3", "disposable", "yes", "mix", mixReadWrite), 20)
		statement(t, c, "DROP TABLE sbtest3")
	})
}

// TestOLTPConflicts has lanes change many rows at a time, so that a server ends transactions because of conflicts. All
// are completed nevertheless.
func TestOLTPConflicts(t *testing.T) {
	each(t, func(t *testing.T, server map[string]string) {
		serving, c := oltpServer(t, server)
		b := transact(t, serving, small(server, "mix", mixWriteOnly, "lanes", "16", "delete-inserts", "20"), 200)
		t.Logf("%s transactions repeated", b.State["repeated"])
		if got := word(t, c, "SELECT COUNT(*) FROM sbtest1"); got != "2000" {
			t.Errorf("the table has %s rows", got)
		}
	})
}

// TestOLTPAllocatesNothing checks the timed loop, with text and with prepared statements.
func TestOLTPAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, server map[string]string) {
		serving, _ := oltpServer(t, server)
		for _, prepared := range []string{"no", "yes"} {
			k := oltpKind()
			w, err := k.New(resolved(t, k.Params, small(server, "mix", mixReadWrite, "prepared", prepared, "lanes",
				"1")))
			if err != nil {
				t.Fatal(err)
			}
			b := &workload.Bench{Seed: 42, Service: serving}
			if err := w.Setup(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			l := w.(*oltp).lanes[0]
			n := int64(0)
			perTransaction := testing.AllocsPerRun(100, func() {
				if err = l.transaction(n); err != nil {
					t.Fatal(err)
				}
				n++
			})
			if err := w.Cleanup(b); err != nil {
				t.Fatal(err)
			}
			if perTransaction > 0 {
				t.Errorf("prepared=%s: %v allocations in a transaction", prepared, perTransaction)
			}
		}
	})
}

// losesItsServer kills the server while a trial runs.
func losesItsServer(t *testing.T, server map[string]string, serving workload.Serving) {
	t.Helper()
	k := oltpKind()
	w, err := k.New(resolved(t, k.Params, small(server)))
	if err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Seed: 42, Service: serving, Work: 1 << 40}
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- w.Measure(t.Context(), b) }()
	for w.(*oltp).next.Load() < 10 {
		runtime.Gosched()
	}
	process, err := os.FindProcess(w.(*oltp).target.PID)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, sql.ErrGone) {
		t.Errorf("the trial ends with %v", err)
	}
	if err := w.Cleanup(b); err != nil {
		t.Error(err)
	}
}

func TestDraw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, middle := range map[string]float64{randUniform: 0.02, randSpecial: 0.75} {
		const n, times = 5000, 100_000
		inside := 0
		for range times {
			v := drawOf(name)(rng, n)
			if v < 1 || v > n {
				t.Fatalf("%s gives %d of %d", name, v, n)
			}
			if v > n/2-n/100 && v <= n/2+n/100 {
				inside++
			}
		}
		if share := float64(inside) / times; share < middle-0.01 || share > middle+0.1 {
			t.Errorf("%s: %v of the rows are in the middle", name, share)
		}
		for range 100 {
			if v := drawOf(name)(rng, 1); v != 1 {
				t.Errorf("%s gives %d of 1", name, v)
			}
		}
	}
}
