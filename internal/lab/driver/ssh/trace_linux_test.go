package ssh

import (
	"os"
	"testing"

	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/envtest"
	"tare/internal/measure/wire"
	"tare/internal/sys/trace"
)

// The agent that tare why sends over ssh traces its workers there, and nothing of it stays.
func TestTraceOverSSH(t *testing.T) {
	s := startServer(t)
	dir := t.TempDir()
	o := s.options(t, s.spec("dir", dir))
	o.Agents = agenttest.Tracers(t)
	e, conn := envtest.Open(t, driver{}, o)
	ask := func(q trace.Request) (a trace.Answer) {
		if err := conn.Trace(t.Context(), q, &a); err != nil || a.Error != "" {
			t.Fatalf("%s: %v %s", q.Op, err, a.Error)
		}
		return a
	}
	ask(trace.Request{Op: trace.OpOpen, Way: trace.WayPtrace})
	ask(trace.Request{Op: trace.OpStart})
	job := wire.Job{Kind: "syscall", Params: map[string]string{"op": "null"}, Cell: "c", Seed: 1}
	if _, err := conn.Run(t.Context(), wire.Run{Job: job, Work: 1}); err != nil {
		t.Fatal(err)
	}
	seen := false
	got := ask(trace.Request{Op: trace.OpStop}).Trace
	for _, c := range got.Work {
		seen = seen || c.Name == "getppid" && c.Count > 0
	}
	if !got.Seen || !seen {
		t.Errorf("%+v", got)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
