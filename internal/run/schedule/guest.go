package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tare/internal/record"
	"tare/internal/run/tracing"
	"tare/internal/sys/trace"
)

// guestTime bounds each request for a trace in an environment. An emulated machine needs seconds to read what its
// kernel says of itself.
const guestTime = 2 * time.Minute

// guest is an environment with a kernel of its own, in which the agent traces.
type guest struct {
	agent interface {
		Trace(ctx context.Context, request, answer any) error
	}
	way string // by which it traces; "" if it cannot
	why string // why it cannot, or not by the way that was preferred
}

// guest is the environment of a target, if its agent traces; else nil.
func (x *again) guest(target string) *guest {
	if g := x.within[x.table.targets[target].Agent]; g != nil && g.way != "" {
		return g
	}
	return nil
}

// guestOf has the agent of a target open a way to trace: the one by which this machine is traced or, unless the user
// has chosen, ptrace. The targets of an environment have one agent.
func (x *again) guestOf(ctx context.Context, target string) *guest {
	agent := x.table.targets[target].Agent
	if g := x.within[agent]; g != nil {
		return g
	}
	g := &guest{}
	x.within[agent] = g
	var ok bool
	if g.agent, ok = agent.(interface {
		Trace(ctx context.Context, request, answer any) error
	}); !ok {
		g.why = "several agents do the work"
		return g
	}
	ways := []string{x.Tracer.Way}
	if !x.Tracer.Chosen && x.Tracer.Way != tracing.Ptrace {
		ways = append(ways, tracing.Ptrace)
	}
	for _, way := range ways {
		_, err := g.ask(ctx, trace.Request{Op: trace.OpOpen, Way: way})
		if err == nil {
			g.way = way
			return g
		}
		if g.why != "" {
			g.why += "; "
		}
		g.why += fmt.Sprintf("%s: %v", way, err)
	}
	return g
}

// ask makes a request and returns its answer.
func (g *guest) ask(ctx context.Context, q trace.Request) (a trace.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, guestTime)
	defer cancel()
	err = g.agent.Trace(ctx, q, &a)
	if f, ok := errors.AsType[*record.Failure](err); ok && f.Kind == "refused" {
		err = errors.New("its agent has no tracer")
	} else if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

func (g *guest) start(ctx context.Context) error {
	_, err := g.ask(ctx, trace.Request{Op: trace.OpStart})
	return err
}

func (g *guest) stop(ctx context.Context) (*trace.Trace, error) {
	a, err := g.ask(ctx, trace.Request{Op: trace.OpStop})
	if err == nil && a.Trace == nil {
		err = errors.New("the agent told nothing")
	}
	return a.Trace, err
}
