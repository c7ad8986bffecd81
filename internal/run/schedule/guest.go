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

// guestTime bounds each request for a trace in an environment. An emulated machine needs seconds to read its kernel's
// description of itself.
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
func (x *repeater) guest(target string) *guest {
	if g := x.within[x.table.targets[target].Agent]; g != nil && g.way != "" {
		return g
	}
	return nil
}

// guestOf has the agent of a target open a way to trace: the one by which this machine is traced or, unless the user
// has chosen, ptrace. The targets of an environment have one agent.
func (x *repeater) guestOf(ctx context.Context, target string) *guest {
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
	} else if ok {
		err = errors.New(plainText(f.Message))
	} else if err == nil && a.Error != "" {
		err = errors.New(plainText(a.Error))
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
	if err == nil {
		err = plainTrace(a.Trace)
	}
	return a.Trace, err
}

// Bounds of a trace from elsewhere. A tracer sends at most 512 calls in a list, 40 stacks, and as many frames as the
// kernel tells.
const (
	mostCalls  = 1024 // of a list
	mostErrnos = 256  // of a call
	mostStacks = 64
	mostFrames = 128 // of a stack
)

// plainTrace checks a trace from elsewhere: it is not too large, no number is negative, its calls are sorted, and its
// names can be printed.
func plainTrace(t *trace.Trace) error {
	if len(t.Work) > mostCalls || len(t.Serving) > mostCalls || len(t.Stack) > mostStacks {
		return fmt.Errorf("the agent told %d and %d calls and %d stacks, more than %d, %d and %d", len(t.Work),
			len(t.Serving), len(t.Stack), mostCalls, mostCalls, mostStacks)
	}
	for _, calls := range [][]trace.Call{t.Work, t.Serving} {
		for i := range calls {
			if err := plainCall(&calls[i]); err != nil {
				return err
			}
		}
		slices.SortStableFunc(calls, func(a, b trace.Call) int { return cmp.Compare(a.Name, b.Name) })
	}
	for i := range t.Stack {
		s := &t.Stack[i]
		s.Call = plainText(s.Call)
		switch {
		case len(s.Frames) > mostFrames:
			return fmt.Errorf("the agent told a stack of %d frames, more than %d", len(s.Frames), mostFrames)
		case s.NS < 0 || s.Count < 0:
			return fmt.Errorf("the agent told a negative number of a stack of %s", s.Call)
		}
		for j, frame := range s.Frames {
			s.Frames[j] = plainText(frame)
		}
	}
	return nil
}

func plainCall(c *trace.Call) error {
	c.Name = plainText(c.Name)
	switch {
	case len(c.Errnos) > mostErrnos:
		return fmt.Errorf("the agent told %d errors of %s, more than %d", len(c.Errnos), c.Name, mostErrnos)
	case c.Count < 0 || c.NS < 0 || c.Bytes < 0:
		return fmt.Errorf("the agent told a negative number of %s", c.Name)
	case len(c.Errnos) == 0:
		return nil
	}
	errnos := map[string]int64{}
	for name, n := range c.Errnos {
		errnos[plainText(name)] += n
	}
	c.Errnos = errnos
	return nil
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
