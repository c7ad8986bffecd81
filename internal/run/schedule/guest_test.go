package schedule

import (
	"testing"

	"tare/internal/sys/trace"
)

// A trace comes from an environment that may send what it likes.
func TestTraceFromElsewhereIsPlain(t *testing.T) {
	got := &trace.Trace{Work: []trace.Call{{Name: "write"},
		{Name: "re\x1b[2Jad\n", Errnos: map[string]int64{"E\a": 2}}},
		Stack: []trace.Stack{{Call: "a\tb", Frames: []string{"f\rg"}}}}
	plainTrace(got)
	if c := got.Work[0]; c.Name != "re?[2Jad?" || c.Errnos["E?"] != 2 || got.Work[1].Name != "write" {
		t.Errorf("%+v", got.Work)
	}
	if s := got.Stack[0]; s.Call != "a?b" || s.Frames[0] != "f?g" {
		t.Errorf("%+v", s)
	}
	plainTrace(nil)
}
