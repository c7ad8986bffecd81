package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Role is the first argument of a process that traces for another one.
const Role = "tracer"

// IsRole tells whether args, with the program's name first, are those of that process.
func IsRole(args []string) bool { return len(args) == 2 && args[1] == Role }

// Request asks that process for something. Each request is answered before the next one may be sent.
type Request struct {
	Op    string `json:"op"`             // OpOpen, OpStart or OpStop
	Way   string `json:"way,omitempty"`  // of OpOpen: WayBPF or WayPtrace
	Roots Roots  `json:"roots,omitzero"` // of OpStart; the worker's own marks say when the timed part is
}

// What may be asked for.
const (
	OpOpen  = "open"  // open a way, instead of the one that is open
	OpStart = "start" // begin to trace a trial whose worker the agent is about to start
	OpStop  = "stop"  // end that, and send the trace; the worker has ended, or ends
)

// Answer answers a request.
type Answer struct {
	Error string `json:"error,omitempty"`
	Trace *Trace `json:"trace,omitempty"` // the trace, after OpStop
}

// Talk is a conversation with that process.
type Talk struct {
	to   *json.Encoder
	from *json.Decoder
}

// NewTalk begins one over the process's standard streams, of whose output no more than most bytes are read.
func NewTalk(process io.ReadWriter, most int64) *Talk {
	return &Talk{json.NewEncoder(process), json.NewDecoder(io.LimitReader(process, most))}
}

// Ask makes a request and returns its answer as it came. If ctx ends first, or with any other error, the conversation
// is over, and the process has to be ended: that also ends what still waits for it.
func (t *Talk) Ask(ctx context.Context, q Request) (json.RawMessage, error) {
	type got struct {
		answer json.RawMessage
		err    error
	}
	back := make(chan got, 1)
	go func() {
		var g got
		if g.err = t.to.Encode(q); g.err == nil {
			g.err = t.from.Decode(&g.answer)
		}
		back <- g
	}()
	select {
	case g := <-back:
		return g.answer, g.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errNothing is the error of what can only be asked for after something else.
var errNothing = errors.New("nothing is traced")

// Main is that process: it reads requests and writes answers, as JSON, until there are no more requests. If it is
// killed, the kernel lets go of all that it has stopped, and removes its programs.
func Main(in io.Reader, out io.Writer) int {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	var s traceServer
	defer s.close()
	for {
		var q Request
		if err := requests.Decode(&q); err != nil {
			return 0
		}
		var a Answer
		var err error
		if a.Trace, err = s.serve(&q); err != nil {
			a = Answer{Error: err.Error()}
		}
		if answers.Encode(a) != nil {
			return 1
		}
	}
}

// traceServer answers requests with the tracer that open returns.
type traceServer struct{ open Tracer }

func (s *traceServer) close() {
	if s.open != nil {
		_ = s.open.Close() // this process ends, or opens another way
	}
	s.open = nil
}

func (s *traceServer) serve(q *Request) (t *Trace, err error) {
	if q.Op == OpOpen {
		s.close()
		switch q.Way {
		case WayBPF:
			s.open, err = OpenBPF()
		case WayPtrace:
			s.open, err = OpenPtrace()
		default:
			err = fmt.Errorf("there is no way %q to trace", q.Way)
		}
		if err != nil {
			s.open = nil
		}
		return nil, err
	}
	switch {
	case s.open == nil:
		return nil, errNothing
	case q.Op == OpStart:
		return nil, s.open.Start(q.Roots, true)
	case q.Op == OpStop:
		return s.open.Stop()
	}
	return nil, fmt.Errorf("a tracer does not serve %q", q.Op)
}
