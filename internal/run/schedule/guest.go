package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

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
		g.why += plainText(fmt.Sprintf("%s: %v", way, err))
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
	plainTrace(a.Trace)
	return a.Trace, err
}

// plainTrace makes sure of what a trace from elsewhere promises: its calls are sorted, and its names can be printed.
func plainTrace(t *trace.Trace) {
	if t == nil {
		return
	}
	for _, calls := range [][]trace.Call{t.Work, t.Serving} {
		for i := range calls {
			calls[i].Name = plainText(calls[i].Name)
			errnos := map[string]int64{}
			for name, n := range calls[i].Errnos {
				errnos[plainText(name)] += n
			}
			calls[i].Errnos = errnos
		}
		slices.SortStableFunc(calls, func(a, b trace.Call) int { return cmp.Compare(a.Name, b.Name) })
	}
	for i := range t.Stack {
		t.Stack[i].Call = plainText(t.Stack[i].Call)
		for j, frame := range t.Stack[i].Frames {
			t.Stack[i].Frames[j] = plainText(frame)
		}
	}
}

// longestName bounds a name in a trace from elsewhere, in bytes, as a reason why there is none.
const longestName = 1000

func plainText(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s[:min(len(s), longestName)])
}
