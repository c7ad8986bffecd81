package schedule

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"tare/internal/record"
	"tare/internal/sys/trace"
)

// A trace comes from an environment that may send what it likes.
func TestTraceFromElsewhereIsPlain(t *testing.T) {
	got := &trace.Trace{Work: []trace.Call{{Name: "write"},
		{Name: "re\x1b[2Jad\n", Errnos: map[string]int64{"E\a": 2}}},
		Stack: []trace.Stack{{Call: "a\tb", Frames: []string{"f\rg"}}}}
	if err := plainTrace(got); err != nil {
		t.Fatal(err)
	}
	if c := got.Work[0]; c.Name != "re?[2Jad?" || c.Errnos["E?"] != 2 || got.Work[1].Name != "write" {
		t.Errorf("%+v", got.Work)
	}
	if s := got.Stack[0]; s.Call != "a?b" || s.Frames[0] != "f?g" {
		t.Errorf("%+v", s)
	}
	many := map[string]int64{}
	for i := range 257 {
		many[strconv.Itoa(i)] = 1
	}
	for want, bad := range map[string]*trace.Trace{
		"1025 and 0 calls":   {Work: make([]trace.Call, 1025)},
		"0 and 1025 calls":   {Serving: make([]trace.Call, 1025)},
		"65 stacks":          {Stack: make([]trace.Stack, 65)},
		"129 frames":         {Stack: []trace.Stack{{Frames: make([]string, 129)}}},
		"number of a stack":  {Stack: []trace.Stack{{NS: -1}}},
		"number of read?":    {Work: []trace.Call{{Name: "read\a", Count: -1}}},
		"number of write":    {Serving: []trace.Call{{Name: "write", NS: -1}}},
		"number of pwrite64": {Work: []trace.Call{{Name: "pwrite64", Bytes: -1}}},
		"257 errors of open": {Work: []trace.Call{{Name: "open", Errnos: many}}},
	} {
		if err := plainTrace(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// fakeTracer is an agent that answers what it likes.
type fakeTracer struct {
	answer trace.Answer
	err    error
}

func (h fakeTracer) Trace(_ context.Context, _, answer any) error {
	*answer.(*trace.Answer) = h.answer
	return h.err
}

// What an agent gives as a reason goes to the terminal.
func TestReasonsFromElsewhereArePlain(t *testing.T) {
	for want, h := range map[string]fakeTracer{
		"no ?[2J tracer":           {answer: trace.Answer{Error: "no \x1b[2J tracer"}},
		"broken?pipe":              {err: &record.Failure{Kind: "measure", Message: "broken\apipe"}},
		"its agent has no tracer":  {err: &record.Failure{Kind: "refused", Message: "\a"}},
		context.Canceled.Error():   {err: context.Canceled},
		"the agent told nothing":   {},
		"1025 and 0 calls and 0 s": {answer: trace.Answer{Trace: &trace.Trace{Work: make([]trace.Call, 1025)}}},
	} {
		if _, err := (&guest{agent: h}).stop(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
