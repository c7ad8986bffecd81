// Package tracer starts the process that traces the trials of an agent, beside the agent, and passes requests on to it.
package tracer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"tare/internal/measure/agent"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
	"tare/internal/sys/trace"
)

// mostAnswers bounds what is read of the process that traces, in bytes.
const mostAnswers = 256 << 20

// helper implements agent.Tracer.
type helper struct {
	child *proc.Stream // nil: there is none
	talk  *trace.Talk
}

// New returns a tracer for the agent of this process. It starts this program once more, in the role trace.Role, when it
// is asked to open a way.
func New() agent.Tracer { return &helper{} }

// Pid implements agent.Tracer.
func (h *helper) Pid() int {
	if h.child == nil {
		return 0
	}
	return h.child.Pid()
}

// Close implements agent.Tracer.
func (h *helper) Close() {
	if h.child == nil {
		return
	}
	_ = h.child.Kill() // the kernel lets go of all that it has stopped, and removes its programs
	_ = h.child.Close()
	h.child = nil
}

// Ask implements agent.Tracer.
func (h *helper) Ask(request []byte) *agent.Trace {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t := &agent.Trace{Done: done, Cancel: cancel}
	go func() {
		defer close(done)
		defer cancel()
		t.Answer, t.Err = h.ask(ctx, request)
	}()
	return t
}

// ask serves a request. When ctx ends, so does the process that traces.
func (h *helper) ask(ctx context.Context, request []byte) ([]byte, error) {
	var q trace.Request
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, fmt.Errorf("decode a request for a trace: %w", err)
	}
	if q.Op == trace.OpOpen {
		h.Close()
		if err := h.start(); err != nil {
			return nil, fmt.Errorf("start the process that traces: %w", err)
		}
	}
	if h.child == nil {
		return nil, errors.New("no way to trace is open")
	}
	if q.Op == trace.OpStart {
		q.Roots = h.roots()
	}
	answer, err := h.talk.Ask(ctx, q)
	if err == nil && len(answer) > wire.MaxPayload {
		err = fmt.Errorf("its answer has %d bytes, more than %d", len(answer), wire.MaxPayload)
	}
	if err != nil {
		said := proc.Printable(h.child.Stderr())
		h.Close()
		if said != "" {
			err = fmt.Errorf("%w; its last output: %s", err, said)
		}
		return nil, fmt.Errorf("the process that traces: %w", err)
	}
	return answer, nil
}

// start starts the process. The kernel ends it when the thread that started it ends, so that one is kept.
func (h *helper) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		self = "/proc/self/exe" // valid even if the file is removed
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		child, err := proc.Start(proc.Command(context.Background(), self, trace.Role))
		if err == nil {
			h.child, h.talk = child, trace.NewTalk(child, mostAnswers)
		}
		started <- err
		if err == nil {
			<-child.Done()
		}
	}()
	return <-started
}

// roots are the agent, whose workers are traced, and what it has started before: what serves the trials.
func (h *helper) roots() trace.Roots {
	r := trace.Roots{Agent: os.Getpid()}
	tracing := proc.Family(h.child.Pid())
	for _, pid := range proc.Family(r.Agent)[1:] {
		if !slices.Contains(tracing, pid) {
			r.Services = append(r.Services, pid)
		}
	}
	return r
}
