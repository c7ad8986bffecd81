package schedule

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// TestIdleCostOfRealProcesses watches processes that work, that sleep, and that have ended.
func TestIdleCostOfRealProcesses(t *testing.T) {
	ctx := context.Background()
	start := func(argv ...string) *proc.Stream {
		s, err := proc.Start(proc.Command(ctx, argv...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	busy, asleep, ended := start("sh", "-c", "while :; do :; done"), start("sleep", "1000"), start("true")
	<-ended.Done()
	share := func(e env.Env) (float64, error) {
		return idleCPU(ctx, func() (own, others []int, err error) { return hostFamily(e) }, 0, 50*time.Millisecond)
	}
	worker := hostedEnv{own: []int{asleep.Pid()}, servers: []int{ended.Pid(), busy.Pid()}}
	for end := time.Now().Add(time.Minute); ; {
		if got, err := share(worker); err != nil || got > 0 {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("a server that works costs nothing")
		}
	}
	if got, err := share(hostedEnv{own: []int{asleep.Pid()}}); err != nil || got != 0 {
		t.Errorf("a process that sleeps costs %g, %v", got, err)
	}
	if _, err := share(hostedEnv{own: []int{ended.Pid()}}); !errors.Is(err, errHostEnded) {
		t.Errorf("of one that has ended: %v", err)
	}
	if own, others, err := hostFamily(worker); err != nil {
		t.Error(err)
	} else if m, n, err := memoryOf(own, others); err != nil || n != 2 || m.Resident <= 0 {
		t.Errorf("two processes are %d, with %+v: %v", n, m, err)
	}
	for name, e := range map[string]env.Env{"nothing": struct{ env.Env }{}, "no process": hostedEnv{}} {
		var facts record.Facts
		idle(ctx, e, t.TempDir(), &facts)
		if got := facts.Extra["idle.cpu"]; !strings.HasPrefix(got, record.NotMeasured) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
