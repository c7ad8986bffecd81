package schedule

import (
	"context"
	"errors"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// hostedEnv is an environment for which processes of this machine work.
type hostedEnv struct {
	env.Env
	own, servers []int
}

func (h hostedEnv) Processes() []int { return h.own }

func (h hostedEnv) Servers() []int { return h.servers }

// agentOnlyEnv is an environment in which nothing works but the agent, and engineEnv a container, which an engine
// serves.
type agentOnlyEnv struct{ env.Env }

func (agentOnlyEnv) AgentProcess() int { return 1 }

type engineEnv struct {
	agentOnlyEnv
	servers []int
}

func (e engineEnv) Servers() []int { return e.servers }

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
	opened := hostedEnv{own: []int{own.Pid()}, servers: []int{server.Pid(), other.Pid()}}
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
	// One of several that ends while they are read takes nothing away from the others.
	two := hostedEnv{own: []int{other.Pid(), own.Pid()}}
	if times, err := hostThreads(two)(); err != nil || len(times) == 0 {
		t.Errorf("beside one that has ended: %v, %v", times, err)
	}
	own.Kill()
	<-own.Done()
	if used := watched.used(); used != nil {
		t.Errorf("of a process that has ended is known %v", used)
	}
	if !errors.Is(watched.err, errHostEnded) {
		t.Errorf("of a process that has ended is said %v", watched.err)
	}
	if hostThreads(agentOnlyEnv{}) != nil {
		t.Error("an environment that is nothing but its agent has threads here")
	}
	for name, opened := range map[string]env.Env{"a driver that does not tell": struct{ env.Env }{},
		"an engine elsewhere": engineEnv{}} {
		if all, err := hostThreads(opened)(); !errors.Is(err, errHostUnknown) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	if all, err := hostThreads(engineEnv{servers: []int{server.Pid()}})(); err != nil || len(all) != 1 {
		t.Errorf("what serves a container is %v, %v", all, err)
	}
}
