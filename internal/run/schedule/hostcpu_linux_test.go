package schedule

import (
	"context"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// hosted is an environment for which processes of this machine work.
type hosted struct {
	env.Env
	own, servers []int
}

func (h hosted) Processes() []int { return h.own }

func (h hosted) Servers() []int { return h.servers }

// TestHostThreadsOfRealProcesses has a shell work for an environment, and a dd serve it.
func TestHostThreadsOfRealProcesses(t *testing.T) {
	start := func(argv ...string) *proc.Stream {
		s, err := proc.Start(proc.Command(context.Background(), argv...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	own := start("sh", "-c", "while :; do :; done")
	server := start("dd", "if=/dev/zero", "of=/dev/null", "bs=1M")
	other := start("dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=1")
	<-other.Done()
	opened := hosted{own: []int{own.Pid()}, servers: []int{server.Pid(), other.Pid()}}
	watched := watchHost(hostThreads(opened))
	used := watched.used()
	for end := time.Now().Add(time.Minute); used["sh"] == 0 || used["dd"] == 0; used = watched.used() {
		if time.Now().After(end) {
			t.Fatalf("what worked is %v", used)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if len(used) != 2 {
		t.Errorf("what worked is %v", used)
	}
	own.Kill()
	<-own.Done()
	if used := watched.used(); used != nil {
		t.Errorf("of a process that has ended is known %v", used)
	}
	if hostThreads(struct{ env.Env }{}) != nil {
		t.Error("an environment without processes here has threads here")
	}
}
