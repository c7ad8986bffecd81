package cli

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/run/schedule"
)

var drawsAlways = []mpb.ContainerOption{mpb.WithAutoRefresh(), mpb.WithRefreshRate(20 * time.Microsecond)}

// within fails a test whose function does not return in time.
func within(t *testing.T, limit time.Duration, what string, do func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		do()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Fatalf("%s took more than %v", what, limit)
	}
}

// TestLiveNeverWaitsForItself sends events while the line is being drawn all the time: the display has a goroutine that
// draws, and a run whose measuring goroutine and this one wait for each other stands still for ever.
func TestLiveNeverWaitsForItself(t *testing.T) {
	l := newLive(t.Context(), io.Discard, time.Minute, 30, drawsAlways...)
	within(t, time.Minute, "sending events", func() {
		for n, began := 0, time.Now(); n < 1000 || time.Since(began) < 500*time.Millisecond; n++ {
			l.event(schedule.Event{Kind: schedule.TrialBegin, Target: "host", Workload: "null", Block: n,
				Left: time.Second})
			l.event(schedule.Event{Kind: schedule.OpenFailed, Target: "host", Failure: &record.Failure{Message: "no"}})
		}
		l.close()
	})
}

// held is a terminal that shows nothing, as after Ctrl-S.
type held chan struct{}

func (h held) Write(p []byte) (int, error) {
	<-h
	return len(p), nil
}

func TestLiveNeverWaitsForTheTerminal(t *testing.T) {
	h := make(held)
	defer close(h)
	s := &screen{w: h}
	l := newLive(t.Context(), s, 0, 30, drawsAlways...)
	within(t, time.Minute, "a run on a terminal that is held", func() {
		for n := range 1000 {
			l.event(schedule.Event{Kind: schedule.TrialBegin, Target: "host", Workload: "null", Block: n,
				Left: time.Second})
			l.event(schedule.Event{Kind: schedule.Opened, Target: "host"})
			io.WriteString(s, "a warning\n")
		}
		l.close()
	})
}

// collected is what was written, for one reader and one writer.
type collected struct {
	text chan string
}

func TestWhatIsWrittenBesideTheDisplayStays(t *testing.T) {
	r, w := io.Pipe()
	c := collected{make(chan string, 1)}
	go func() {
		b, _ := io.ReadAll(r)
		c.text <- string(b)
	}()
	s := &screen{w: w}
	l := newLive(t.Context(), s, 0, 30, drawsAlways...)
	io.WriteString(s, "\nstopping: in\ntwo lines\n")
	l.event(schedule.Event{Kind: schedule.Dropped, Target: "vm", Failure: &record.Failure{Message: "the agent ended"}})
	l.event(schedule.Event{Kind: schedule.Dropped, Target: "vm", Workload: "null",
		Failure: &record.Failure{Message: "too slow"}})
	l.close()
	io.WriteString(s, "afterwards\n")
	w.Close()
	text := <-c.text
	at := 0
	for _, want := range []string{"stopping: in\n", "two lines\n", "gave up on vm: the agent ended\n",
		"gave up on null in vm: too slow\n", "afterwards\n"} {
		n := strings.Index(text[at:], want)
		if n < 0 {
			t.Fatalf("%q is not in what follows %d bytes of %q", want, at, text)
		}
		at += n + len(want)
	}
}

func TestLineFitsAndKeepsWhatMatters(t *testing.T) {
	began := time.Now()
	now := began.Add(75 * time.Second)
	s := liveState{
		began: began, budget: 10 * time.Minute, maxBlocks: 30, left: 200 * time.Second,
		leftAt: began.Add(70 * time.Second),
		target: "web-server-under-test", work: "fs.randread size=64MiB bs=4KiB direct=true", block: 17, decided: 3,
		toTell: 12,
	}
	for width := 20; width <= 250; width++ {
		line := s.line(width, now)
		if got := runewidth.StringWidth(line); got > width {
			t.Fatalf("at %d columns the line has %d: %q", width, got, line)
		}
		if !strings.Contains(line, "block 17/30") || !strings.Contains(line, "1:15") {
			t.Fatalf("at %d columns the line lacks the block or the time: %q", width, line)
		}
	}
	for width, want := range map[int][]string{
		44:  {"web", "fs.", "1:15"},
		80:  {"web", "left", "budget 8:45"},
		100: {"web-server", "fs.randread", "left", "budget 8:45", "3 of 12 verdicts"},
		200: {"web-server-under-test", s.work, "about 3 min 15 s left", "budget 8:45", "3 of 12 verdicts", "[=", "-]"},
	} {
		line := s.line(width, now)
		for _, w := range want {
			if !strings.Contains(line, w) {
				t.Errorf("at %d columns %q is not in %q", width, w, line)
			}
		}
	}
	s.doing = "warming up"
	if line := s.line(80, now); !strings.Contains(line, "warming up") {
		t.Errorf("a warm-up: %q", line)
	}
	s.stopping = true
	if line := s.line(80, now); !strings.Contains(line, "stopping") {
		t.Errorf("a stop: %q", line)
	}
	empty := liveState{began: began, doing: "starting"}
	if line := empty.line(80, began); !strings.HasPrefix(line, "starting ") || strings.Contains(line, "[") {
		t.Errorf("the first line: %q", line)
	}
	wide := liveState{began: began, target: "測定環境", work: strings.Repeat("仮想", 40), block: 1}
	if got := runewidth.StringWidth(wide.line(60, now)); got > 60 {
		t.Errorf("wide characters: %d columns", got)
	}
}

func TestLiveSaysThatTheRunIsStopping(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := newLive(ctx, io.Discard, 0, 30, drawsAlways...)
	defer l.close()
	cancel()
	for began := time.Now(); !strings.Contains(l.line(80), "stopping"); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the line is %q", l.line(80))
		}
	}
}

func TestLinesRoundAsTheReport(t *testing.T) {
	cell := func(v record.Verdict, center, low, high float64) verdict.Cell {
		return verdict.Cell{Target: "box", Workload: "w" + string(v), Primary: true,
			Ratio: record.Ratio{Verdict: v, Center: center, Low: low, High: high, Level: 0.95}}
	}
	var out strings.Builder
	l := newLines(&out)
	l.event(schedule.Event{Kind: schedule.BlockDone, Workload: "w", Block: 30})
	l.event(schedule.Event{Kind: schedule.Looked, Result: &verdict.Result{Cells: []verdict.Cell{
		cell(record.Different, 1234.5, 1100, 1300), cell(record.Equivalent, 1, 0.999, 1.004),
		cell(record.Measured, 1.1, 1.0001, 1.2)}}})
	for _, want := range []string{"block 30 of w done\n", "costs 1234x [1100, 1300]",
		"costs the same: 1.00x [1.00, 1.00]", "costs 1.10x [1.00, 1.20]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
