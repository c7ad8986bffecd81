package schedule

import (
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
)

// TestForecastOfSessions: every session gets the blocks of the first look and no more, so there is no least and most; a
// plan out of an older bundle may name looks all the same.
func TestForecastOfSessions(t *testing.T) {
	kinds := func(string) (*workload.Kind, bool) { return &simKind, true }
	p := simPlan("host", "box")
	p.Sessions = 5
	f := NewForecast(p, kinds)
	if f.Sessions != 5 || f.MinBlocks != 10 || f.MaxBlocks != 10 || f.Least != f.Most || f.Cells != 2 {
		t.Errorf("%+v", f)
	}
	once := *p
	once.Sessions = 1
	one := NewForecast(&once, kinds)
	if one.MaxBlocks != 30 || one.Most <= one.Least || f.Least != 5*one.Least {
		t.Errorf("one session takes %v and five %v: %+v", one.Least, f.Least, one)
	}
	p.Budget = time.Second
	if f := NewForecast(p, kinds); f.Most != time.Second {
		t.Errorf("a budget of 1 s: %v", f.Most)
	}
}

// TestLongBlocksAreSaid: the method holds for blocks of up to about two minutes.
func TestLongBlocksAreSaid(t *testing.T) {
	kinds := func(string) (*workload.Kind, bool) { return &simKind, true }
	p := simPlan("host", "box", "vm")
	p.Workloads[1].Trial = 25 * time.Second
	if f := NewForecast(p, kinds); len(f.Long) != 0 {
		t.Errorf("four trials of 25 s: %v", f.Long)
	}
	p.Targets[2].Against = "box"
	if f := NewForecast(p, kinds); len(f.Long) != 1 || f.Long[0].Workload != "two" ||
		f.Long[0].Length < 125*time.Second {
		t.Errorf("five trials of 25 s, as there are two null controls: %v", f.Long)
	}
	r := newRunner(Config{Plan: p}, nil)
	r.table.ready = map[string]bool{"one": true, "two": true}
	r.table.targets = map[string]*target{"host": {}, "box": {}}
	for key, d := range map[cellKey]time.Duration{{"one", "host"}: 30 * time.Second, {"one", "box"}: 61 * time.Second,
		{"two", "host"}: 20 * time.Second, {"two", "box"}: 70 * time.Second} {
		r.table.cells[key] = &cell{expected: d}
	}
	if got := r.forecast.longBlock(&p.Workloads[0]); !strings.HasPrefix(got,
		"a block of it takes about 2m1s: in blocks over two minutes") {
		t.Errorf("two trials of 30 s and one of 61 s: %q", got)
	}
	if got := r.forecast.longBlock(&p.Workloads[1]); got != "" {
		t.Errorf("two trials of 20 s and one of 70 s: %q", got)
	}
}
