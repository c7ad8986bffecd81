package qemu

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/microvm"
	"tare/internal/sys/trace"
)

// The agent that tare why boots traces its workers in the guest's kernel, by both ways: by programs in that kernel, and
// by stopping processes, though its own process is the system's first. It works on when the trace is over.
func TestTraceInTheGuest(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "cpus", "1", "memory", "256MiB", "disk", "64MiB"))
	o.Agents = agenttest.Tracers(t)
	_, s := open(t, driver{}, o)
	for _, way := range []string{trace.WayBPF, trace.WayPtrace} {
		ask(t, s, trace.Request{Op: trace.OpOpen, Way: way})
		for range 2 {
			ask(t, s, trace.Request{Op: trace.OpStart})
			if err := work(t, s, "fs.seqwrite", "", map[string]string{"size": "1MiB", "bs": "64KiB"}); err != nil {
				t.Fatal(err)
			}
			got := ask(t, s, trace.Request{Op: trace.OpStop}).Trace
			if got == nil || !got.Seen || got.Timed != (way == trace.WayBPF) {
				t.Fatalf("%s: %+v", way, got)
			}
			var c trace.Call
			for _, x := range got.Work {
				if x.Name == "pwrite64" {
					c = x
				}
			}
			if c.Count != 3 || c.Bytes != c.Count*64<<10 || c.Errors != 0 || (c.NS > 0) != got.Timed {
				t.Errorf("%s: three writes of 64 KiB: %+v", way, c)
			}
		}
	}
	nullTrial(t, s)
}

// ask makes a request for a trace.
func ask(t *testing.T, s *deploy.Conn, q trace.Request) (a trace.Answer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := s.Trace(ctx, q, &a)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		t.Fatalf("%s %s: %s", q.Op, q.Way, strings.TrimSpace(err.Error()))
	}
	return a
}
