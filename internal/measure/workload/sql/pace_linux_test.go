package sql_test

import (
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/sql"
	"tare/internal/sys/sql/trace"
)

// TestPace compares paces with each other and with the schedule. A busy machine may be late, but never early.
func TestPace(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		r := recording(t, server)
		log := written(t, server, "shop", "SELECT 1", []int64{0, 100, 400}, []int64{200, 300}, []int64{60_350, 60_360})
		took := func(more map[string]string) time.Duration {
			more["lanes"], more["whole"] = "session", "yes"
			b, err := r.drive(t, 1, more, log)
			if err != nil {
				t.Fatal(err)
			}
			if b.Metrics["behind_p99"] <= 0 || b.State["behind_because"] == "" {
				t.Errorf("%v, %v", b.Metrics, b.State)
			}
			return b.Elapsed
		}
		slow := took(map[string]string{"pace": "original", "idle-wait": "200ms"})
		// The server may be late for reasons of its own, but not every time.
		fast := slow
		for try := 0; fast >= slow && try < 5; try++ {
			fast = took(map[string]string{"pace": "10", "idle-wait": "200ms"})
		}
		if slow < 610*time.Millisecond || fast < 61*time.Millisecond || fast >= slow {
			t.Errorf("in original time %v, ten times as fast %v", slow, fast)
		}
		gaps := took(map[string]string{"pace": "flat", "think": "1"})
		if gaps < 400*time.Millisecond {
			t.Errorf("with the pauses within sessions only, %v", gaps)
		}
		// The second session waits for the end of the first, much longer than any server takes for a statement, unless
		// the machine is very busy.
		log = written(t, server, "shop", "SELECT 1", []int64{0, 3000}, []int64{10, 20})
		why := ""
		for try := 0; !strings.HasPrefix(why, "lanes") && try < 5; try++ {
			late, err := r.drive(t, 1, map[string]string{"pace": "1", "lanes": "1", "whole": "yes"}, log)
			if err != nil {
				t.Fatal(err)
			}
			why = late.State["behind_because"]
		}
		if !strings.HasPrefix(why, "lanes") {
			t.Errorf("with one lane it is behind because of %s", why)
		}
		if r.postgres() { // others do not wait for a table when they prepare
			r.checkPreparation(t)
		}
	})
}

// checkPreparation has the server take longer for a preparation than there is time until the next statement.
func (r *recorded) checkPreparation(t *testing.T) {
	t.Helper()
	log := withEvents(t, r.params, []trace.Event{{Op: trace.Connect, Database: []byte("shop")},
		{Op: trace.Prepare, Statement: 1, Text: []byte("SELECT title FROM item")},
		{Op: trace.Query, Text: []byte("SELECT 1"), At: 50_000}})
	c := r.connect(t, "shop")
	c.Word(t, "BEGIN; LOCK TABLE item")
	done := make(chan *workload.Bench, 1)
	go func() {
		b, err := r.drive(t, 1, map[string]string{"lanes": "1", "pace": "original", "warm": "no"}, log)
		if err != nil {
			t.Error(err)
		}
		done <- b
	}()
	for end := time.Now().Add(time.Minute); c.Word(t, "SELECT COUNT(*) FROM pg_locks WHERE NOT granted") == "0"; {
		if time.Sleep(5 * time.Millisecond); time.Now().After(end) {
			t.Fatal("no preparation waits")
		}
	}
	time.Sleep(200 * time.Millisecond) // by which the statement is late
	c.Word(t, "COMMIT")
	c.Quit(t)
	if b := <-done; !strings.HasPrefix(b.State["behind_because"], "server") {
		t.Errorf("it is behind because of %s", b.State["behind_because"])
	}
}
