package agent

import (
	"context"

	"tare/internal/measure/wire"
)

// Tracer traces the trials of this program's agent. It is used by one goroutine at a time.
type Tracer interface {
	// Ask begins to serve a request of package sys/trace, as JSON.
	Ask(request []byte) *Trace
	// Pid is the child of this process that traces, which outlives the trials; 0 if there is none.
	Pid() int
	Close()
}

// Trace is a request that a Tracer serves.
type Trace struct {
	Done   <-chan struct{}    // closed when it has been served
	Cancel context.CancelFunc // ends it, and with it the process that traces
	// Answer, as JSON, and Err are valid after Done is closed.
	Answer []byte
	Err    error
}

// Tracing is set by programs whose agents can trace. Those in environments have no room for the
// tracer: only cmd/tare-tracer has it.
var Tracing Tracer

// trace passes a request on to the tracer.
func (a *server) trace(f wire.Frame) error {
	t := Tracing.Ask(f.Payload)
	if gone := a.attend(t.Done, t.Cancel, "a trace is being made"); gone != nil {
		return gone
	}
	if t.Err != nil {
		return a.refuse(f, "trace", t.Err.Error())
	}
	f.Payload = t.Answer
	return a.out.Write(f)
}
