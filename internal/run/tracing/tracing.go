// Package tracing traces trials that are repeated to explain a figure: it chooses the way, finds the agents of a run
// among the processes of this machine, and holds the process that stops others at their calls.
package tracing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"tare/internal/sys/proc"
	"tare/internal/sys/trace"
)

// The ways to trace.
const (
	Auto   = "auto" // BPF, else ptrace
	BPF    = trace.WayBPF
	Ptrace = trace.WayPtrace
)

// Ways lists what Open takes.
func Ways() []string { return []string{Auto, BPF, Ptrace} }

// Tracer is an open way to trace.
type Tracer struct {
	trace.Tracer
	Way    string // BPF or Ptrace
	Chosen bool   // no other way will do
	// Lost lists the data that the way cannot tell, and why it was chosen; "" if nothing is lost.
	Lost string
}

// LostByPtrace lists the data that ptrace does not tell.
const LostByPtrace = "tracing by ptrace stops the work at each call, so times, sleeps and page faults are not told; " +
	"nor are the calls of services and servers"

// Open opens a way. ctx is that of the whole run. With Auto the error says why neither way is possible.
func Open(ctx context.Context, way string) (*Tracer, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("system calls are traced on Linux only")
	}
	var refused error
	if way != Ptrace {
		t, err := trace.OpenBPF()
		if err == nil {
			return &Tracer{Tracer: t, Way: BPF, Chosen: way == BPF}, nil
		}
		if refused = fmt.Errorf("BPF: %w", err); way == BPF {
			return nil, refused
		}
	}
	h, err := openHelper(ctx)
	if err != nil {
		return nil, errors.Join(refused, fmt.Errorf("ptrace: %w", err))
	}
	t := &Tracer{Tracer: h, Way: Ptrace, Chosen: way == Ptrace, Lost: LostByPtrace}
	if refused != nil {
		t.Lost = refused.Error() + "; " + t.Lost
	}
	return t, nil
}

// helper is the process that stops others at their calls. It is started anew after a trial that it did not see to its
// end.
type helper struct {
	ctx     context.Context
	program string
	child   *proc.Stream
	talk    *trace.Talk
}

func openHelper(ctx context.Context) (*helper, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &helper{ctx: ctx, program: program}
	return h, h.start()
}

func (h *helper) start() (err error) {
	if h.child, err = proc.Start(proc.Command(h.ctx, h.program, trace.Role)); err != nil {
		return err
	}
	h.talk = trace.NewTalk(h.child, mostAnswers)
	if _, err = h.ask(trace.Request{Op: trace.OpOpen, Way: Ptrace}); err != nil && h.child != nil {
		err = h.broken(err)
	}
	return err
}

const (
	// mostAnswers bounds the helper's output, in bytes.
	mostAnswers = 64 << 20
	// answerTime bounds the wait for an answer that is due.
	answerTime = 20 * time.Second
)

// Start implements trace.Tracer.
func (h *helper) Start(r trace.Roots, marked bool) error {
	if r.Agent == 0 || !marked {
		return errors.New("ptrace follows the workers of an agent on this machine, and there is none")
	}
	if h.child == nil {
		if err := h.start(); err != nil {
			return err
		}
	}
	_, err := h.ask(trace.Request{Op: trace.OpStart, Roots: trace.Roots{Agent: r.Agent}})
	return err
}

// ask makes a request and returns its answer.
func (h *helper) ask(q trace.Request) (trace.Answer, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), answerTime, errors.New("it does not answer"))
	defer cancel()
	var a trace.Answer
	said, err := h.talk.Ask(ctx, q)
	if err == nil {
		err = json.Unmarshal(said, &a)
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return a, h.broken(err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// broken ends a helper that cannot go on; the kernel lets go of what it has stopped.
func (h *helper) broken(why error) error {
	why = fmt.Errorf("the process that traces (ptrace): %w", why)
	if h.child != nil {
		_ = h.child.Kill()
		_ = h.child.Close()
		h.child = nil
	}
	return why
}

// Mark implements trace.Tracer.
func (h *helper) Mark(bool) error { return errors.ErrUnsupported }

// Stop implements trace.Tracer.
func (h *helper) Stop() (*trace.Trace, error) {
	if h.child == nil {
		return nil, errors.New("nothing is traced")
	}
	a, err := h.ask(trace.Request{Op: trace.OpStop})
	if err == nil && a.Trace == nil {
		err = h.broken(errors.New("it told nothing"))
	}
	return a.Trace, err
}

// Close implements trace.Tracer.
func (h *helper) Close() error {
	if h.child == nil {
		return nil
	}
	child := h.child
	h.child = nil
	return child.Close()
}
