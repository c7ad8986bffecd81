package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/schedule"
	"tare/internal/unit"
)

// sink keeps what reaches the disk, and fails when it is full.
type sink struct {
	trials, environments int
	full                 error
}

func (s *sink) Plan(*plan.Plan) error                     { return s.full }
func (s *sink) Environments(e []record.Environment) error { s.environments = len(e); return s.full }
func (s *sink) Append(*record.Trial) error {
	if s.full == nil {
		s.trials++
	}
	return s.full
}

var kinds = []workload.Kind{{Name: "cpu.prime", Family: "cpu",
	Metrics: []unit.Metric{{Name: "rate", Unit: "ev/s", Better: unit.Higher, Primary: true}}}}

// course is a run of two workloads in two targets that the test drives block by block, on a clock of its own.
type course struct {
	*testing.T
	*Watch
	sink  *sink
	disk  schedule.Sink
	clock time.Time
	seq   int
}

func newCourse(t *testing.T) *course {
	p := &plan.Plan{Schema: 1, Baseline: "host", Seed: 7, Mode: plan.Quick, Sessions: 1, Looks: []int{10}, Alpha: 0.05,
		LookAlpha: 0.05, Margin: 0.02, TailMargin: 0.05, Precision: 0.01}
	for _, n := range []string{"host", "box"} {
		p.Targets = append(p.Targets, plan.Target{Name: n, Spec: env.Spec{Name: n, Driver: "local"}, Text: "local"})
	}
	for _, l := range []string{"a", "b"} {
		p.Workloads = append(p.Workloads, plan.Workload{Label: l, Kind: "cpu.prime", Params: workload.Params{}})
	}
	c := &course{T: t, sink: &sink{}, clock: time.Now()}
	c.Watch = newWatch(&schedule.Config{Plan: p, Sink: c.sink,
		Kinds: func(string) (*workload.Kind, bool) { return &kinds[0], true }}, "out")
	c.disk = c.Watch
	c.now = func() time.Time { return c.clock }
	if err := c.disk.Environments([]record.Environment{{Target: record.Target{Name: "host"}, Session: 1},
		{Target: record.Target{Name: "box"}, Session: 1}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// block runs a block of a workload: the box costs 1.5 times as much as the host.
func (c *course) block(label string, n int) {
	c.Helper()
	for i, target := range []string{"host", "host", "box"} {
		c.seq++
		slot, v := "", 100*(1+0.001*math.Sin(float64(c.seq)))
		if i == 1 {
			slot = record.NullSlot
		}
		if target == "box" {
			v /= 1.5
		}
		c.event(schedule.Event{Kind: schedule.TrialBegin, Workload: label, Target: target, Block: n})
		err := c.disk.Append(&record.Trial{Seq: c.seq, Session: 1, Block: n, Workload: label, Target: target,
			Slot: slot, Work: 1, AgentNS: 3e8, ControllerNS: 3e8, RTTNS: 1e5,
			Figures: record.Figures{Metrics: map[string]float64{"rate": v}}})
		if err != nil {
			c.Fatal(err)
		}
		c.event(schedule.Event{Kind: schedule.TrialDone, Workload: label, Target: target, Block: n})
	}
	c.event(schedule.Event{Kind: schedule.BlockDone, Workload: label, Block: n, Left: time.Minute})
}

// answer decodes what a page that has a version would be told.
type answer struct {
	Progress progress
	Report   int
	Data     *struct{ Result verdict.Result }
	Trials   *struct {
		Targets []string
		Series  []struct {
			Workload string
			Seq      []int
		}
	}
}

func (c *course) ask(has int) answer {
	c.Helper()
	b, err := json.Marshal(c.state(has))
	if err != nil {
		c.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(b, &a); err != nil {
		c.Fatal(err)
	}
	return a
}

// lengths says how many trials of which workloads an answer brought.
func (a *answer) lengths() string {
	s := ""
	if a.Trials != nil {
		for _, x := range a.Trials.Series {
			s += fmt.Sprintf("%s:%d ", x.Workload, len(x.Seq))
		}
	}
	return strings.TrimSpace(s)
}

// TestNobodyWatches holds that a run without a page pays for none.
func TestNobodyWatches(t *testing.T) {
	c := newCourse(t)
	for n := 1; n <= 5; n++ {
		c.clock = c.clock.Add(20 * time.Second)
		c.block("a", n)
	}
	if c.report.version != 0 {
		t.Errorf("%d reports were made, and nobody watches", c.report.version)
	}
	if c.sink.trials != 15 || c.sink.environments != 2 {
		t.Errorf("%d trials and %d environments reached the disk, want 15 and 2", c.sink.trials, c.sink.environments)
	}
	a := c.ask(0)
	if a.Progress.Workloads[0].Blocks != 5 || a.Data != nil {
		t.Errorf("the first look shows %+v", a)
	}
	c.block("a", 6)
	if a = c.ask(0); a.Report != 1 || a.lengths() != "a:18" {
		t.Errorf("after the next block: report %d with %q, want 1 with a:18", a.Report, a.lengths())
	}
	if r := a.Data.Result.Cells[0]; r.Target != "box" || math.Abs(r.Ratio.Center-1.5) > 0.01 || r.Blocks != 6 {
		t.Errorf("the report says %+v", r)
	}
}

// TestDeltas holds that a page gets what it lacks, all of it, and nothing twice.
func TestDeltas(t *testing.T) {
	c := newCourse(t)
	next := func(label string, n int) {
		c.clock = c.clock.Add(14 * time.Second)
		c.block(label, n)
	}
	c.ask(0)
	next("a", 1)
	first := c.ask(0)
	if first.Report != 1 || first.lengths() != "a:3" {
		t.Fatalf("first: %d %q", first.Report, first.lengths())
	}
	if again := c.ask(1); again.Data != nil || again.Trials != nil || again.Report != 1 {
		t.Errorf("nothing is new, and the page is told %+v", again)
	}
	next("b", 1)
	if second := c.ask(1); second.Report != 2 || second.lengths() != "b:3" {
		t.Errorf("second: %d %q", second.Report, second.lengths())
	}
	next("a", 2)
	if third := c.ask(2); third.lengths() != "a:6" {
		t.Errorf("third: %q, want a whole", third.lengths())
	}
	for _, has := range []int{0, 99} {
		if all := c.ask(has); all.lengths() != "a:6 b:3" {
			t.Errorf("a page with version %d gets %q", has, all.lengths())
		}
	}
}

// TestPace holds that reports come no more often than they may.
func TestPace(t *testing.T) {
	c := newCourse(t)
	for n := 1; n <= 100; n++ {
		c.ask(0)
		c.clock = c.clock.Add(time.Second)
		c.block("a", n)
	}
	if v := c.report.version; v < 9 || v > 11 {
		t.Errorf("%d reports in 100 s, want one in 10 s", v)
	}
	c.notUntil = c.clock // the next may be made, and takes as long as the clock says
	slow := 0
	c.now = func() time.Time {
		slow++
		return c.clock.Add(time.Duration(slow) * time.Second)
	}
	c.seen = c.clock
	c.due = true
	c.bringUp(nil)
	if wait := c.notUntil.Sub(c.clock); wait < share*time.Second {
		t.Errorf("after a report of seconds the next is allowed after %v", wait)
	}
}

// TestEnd holds that the last word reaches the page, whatever pace was kept, and that the server waits for it no longer
// than somebody watches.
func TestEnd(t *testing.T) {
	c := newCourse(t)
	if c.waiting() {
		t.Error("it waits for nobody")
	}
	c.ask(0)
	c.block("a", 1)
	c.block("b", 1)
	h := c.config.Header
	r := verdict.Evaluate(verdict.Input{Plan: c.config.Plan, Environments: c.envs, Trials: c.trials,
		Kinds: c.config.Kinds, Run: h})
	c.finish(r, nil)
	if !c.waiting() {
		t.Error("the end comes before the page was told of it")
	}
	a := c.ask(1)
	if a.Progress.Phase != ended || a.lengths() != "b:3" || a.Progress.Left != 0 {
		t.Errorf("at the end the page is told %+v", a)
	}
	if c.waiting() {
		t.Error("it waits for a page that knows")
	}
	c = newCourse(t)
	c.finish(nil, errors.New("no \x1b[31mspace"))
	if a := c.ask(0); a.Progress.Phase != stopped || !strings.Contains(a.Progress.Log[0].Text, "no ") ||
		strings.Contains(a.Progress.Log[0].Text, "\x1b") {
		t.Errorf("a run that was stopped says %+v", a.Progress)
	}
}

// TestDiskFirst holds that what could not be kept is not shown, and that the run hears of it.
func TestDiskFirst(t *testing.T) {
	c := newCourse(t)
	c.sink.full = errors.New("disk full")
	if err := c.disk.Append(&record.Trial{Workload: "a", Target: "host"}); !errors.Is(err, c.sink.full) ||
		len(c.trials) != 0 {
		t.Errorf("%v, %d trials", err, len(c.trials))
	}
	if c.disk.Plan(nil) == nil || c.disk.Environments(nil) == nil {
		t.Error("errors of the disk are lost")
	}
}

// TestLogIsBounded holds that a run of days fills no memory with words.
func TestLogIsBounded(t *testing.T) {
	c := newCourse(t)
	long := strings.Repeat("x", 1<<16)
	for n := range 1000 {
		c.event(schedule.Event{Kind: schedule.Dropped, Target: fmt.Sprint("t", n),
			Failure: &record.Failure{Message: long}})
	}
	a := c.ask(0)
	if len(a.Progress.Log) != maxLog || len(a.Progress.Log[0].Text) > maxText+3 ||
		!strings.HasPrefix(a.Progress.Log[maxLog-1].Text, "gave up on t999") {
		t.Errorf("%d lines; the last %.60q", len(a.Progress.Log), a.Progress.Log[len(a.Progress.Log)-1].Text)
	}
}
