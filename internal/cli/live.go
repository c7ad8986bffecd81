package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"tare/internal/record"
	"tare/internal/run/schedule"
)

// live is the display on a terminal: one line that says what runs now and how far the run is, and what happened above
// it.
//
// The run never waits for it. A terminal may show nothing for an hour (Ctrl-S), and the goroutine that measures would
// stand still with it; so what it has to say is kept here, and goroutines of the display's own bring it to the
// terminal.
type live struct {
	progress *mpb.Progress
	bar      *mpb.Bar
	screen   *screen // takes what others write meanwhile; may be nil
	wake     chan struct{}
	drained  chan struct{} // closed when the last line was handed over

	mu      sync.Mutex
	state   liveState
	said    map[string]record.Verdict
	waiting []string // lines for above
	closing bool
}

// liveState has the content of the line.
type liveState struct {
	began           time.Time
	budget          time.Duration
	maxBlocks       int
	left            time.Duration
	leftAt          time.Time
	target, work    string // of the trial under way
	doing           string // what is done, when it is no block
	block           int
	decided, toTell int // primary cells
	stopping        bool
}

// newLive begins to draw. At the end of ctx the line says that the run is stopping. maxBlocks is the plan's.
func newLive(ctx context.Context, w io.Writer, budget time.Duration, maxBlocks int, o ...mpb.ContainerOption) *live {
	l := &live{
		said: map[string]record.Verdict{}, wake: make(chan struct{}, 1), drained: make(chan struct{}),
		state: liveState{began: time.Now(), budget: budget, maxBlocks: maxBlocks, doing: "starting"},
	}
	if s, ok := w.(*screen); ok {
		l.screen, w = s, s.w
	}
	// Four frames a second: enough to look alive, too little to be seen by a trial.
	o = append([]mpb.ContainerOption{mpb.WithOutput(w), mpb.WithRefreshRate(250 * time.Millisecond)}, o...)
	l.progress = mpb.New(o...)
	l.bar = l.progress.MustAdd(1, mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
		_, err := io.WriteString(w, l.line(s.AvailableWidth))
		return err
	}), mpb.BarRemoveOnComplete(), mpb.BarFillerTrim())
	if l.screen != nil {
		l.screen.show(l)
	}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.state.stopping = true
	})
	go l.drain()
	return l
}

// above puts text above the line. It reports false when the display is closing and takes nothing any more.
func (l *live) above(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return false
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			l.waiting = append(l.waiting, line)
		}
	}
	l.nudge()
	return true
}

func (l *live) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// drain hands lines over to the terminal, as fast as that takes them.
func (l *live) drain() {
	defer close(l.drained)
	for range l.wake {
		l.mu.Lock()
		lines, last := l.waiting, l.closing
		l.waiting = nil
		l.mu.Unlock()
		for _, line := range lines {
			fmt.Fprintln(l.progress, line)
		}
		if last {
			return
		}
	}
}

func (l *live) event(e schedule.Event) {
	l.mu.Lock()
	s := &l.state
	if e.Left > 0 {
		s.left, s.leftAt = e.Left, time.Now()
	}
	switch e.Kind {
	case schedule.Opening:
		s.target, s.work, s.doing = e.Target, "", "opening"
	case schedule.Trying:
		s.target, s.work, s.doing = e.Target, "", "testing files"
	case schedule.TrialBegin:
		s.target, s.work, s.doing, s.block = e.Target, e.Workload, "", e.Block
		if e.Warmup {
			s.doing = "warming up"
		}
	case schedule.SessionsFound:
		s.maxBlocks = e.Block
	case schedule.Looked:
		if e.Result != nil {
			s.count(e)
		}
	}
	l.mu.Unlock()
	switch e.Kind {
	case schedule.Opened:
		l.above(fmt.Sprintf("%s is open after %s", e.Target, seconds(e.Elapsed)))
	case schedule.OpenFailed:
		l.above(fmt.Sprintf("%s did not open: %s", e.Target, printableLine(e.Failure.Message)))
	case schedule.Dropped:
		l.above(dropped(e))
	case schedule.Forecasted:
		if e.Text != "" {
			l.above(fmt.Sprintf("%s: %s", e.Workload, e.Text))
		}
	case schedule.SessionsFound:
		l.above(e.Text)
	case schedule.BlockLost:
		l.above(fmt.Sprintf("block %d of %s discarded: %s", e.Block, e.Workload, e.Text))
	case schedule.Looked:
		if e.Text != "" {
			l.above(e.Text)
		}
		for _, s := range newVerdicts(l.said, e.Result) {
			l.above(s)
		}
	}
}

// count counts the cells that the run is about.
func (s *liveState) count(e schedule.Event) {
	s.decided, s.toTell = 0, 0
	for i := range e.Result.Cells {
		if c := &e.Result.Cells[i]; c.Primary {
			s.toTell++
			if c.Verdict != record.Inconclusive && c.Verdict != "" {
				s.decided++
			}
		}
	}
}

// closeTime bounds the wait at the end of a run for a terminal that shows nothing.
const closeTime = 2 * time.Second

func (l *live) close() {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.nudge()
	gone := make(chan struct{})
	go func() {
		<-l.drained
		l.bar.Abort(true)
		l.progress.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(closeTime):
	}
	if l.screen != nil {
		l.screen.show(nil)
	}
}

func (l *live) line(width int) string {
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	return s.line(width, time.Now())
}

// minBar is the least width at which a bar tells anything.
const minBar = 12

// line has the current step, then the progress of the run, in a width. In a narrow one, names are shortened first and
// then the bar, the verdicts, the budget and the forecast are left out, in this order; the block and the time always
// stay.
func (s *liveState) line(width int, now time.Time) string {
	facts := s.facts(now)
	const least = 30 // what stays of names and block
	n := len(facts)
	for n > 1 && runewidth.StringWidth(strings.Join(facts[:n], ", "))+1+least > width {
		n--
	}
	right := strings.Join(facts[:n], ", ")
	room := width - runewidth.StringWidth(right) - 1
	left := s.now(max(room, 0))
	space := room - runewidth.StringWidth(left)
	bar := ""
	if n == len(facts) && space > minBar+1 && s.share(now) >= 0 {
		w := min(space-1, 40)
		full := int(float64(w-2) * s.share(now))
		bar = "[" + strings.Repeat("=", full) + strings.Repeat("-", w-2-full) + "]"
		space -= w + 1
		bar += " "
	}
	return runewidth.Truncate(left+strings.Repeat(" ", max(space, 0)+1)+bar+right, width, "")
}

// facts are the parts of the run's progress, the most important first.
func (s *liveState) facts(now time.Time) []string {
	f := []string{clock(now.Sub(s.began))}
	if left := s.left - now.Sub(s.leftAt); s.left > 0 && left > 0 {
		f = append(f, "about "+seconds(left)+" left")
	}
	if s.budget > 0 {
		if left := s.budget - now.Sub(s.began); left > 0 {
			f = append(f, "budget "+clock(left))
		} else {
			f = append(f, "budget spent")
		}
	}
	if s.toTell > 0 {
		f = append(f, fmt.Sprintf("%d of %d verdicts", s.decided, s.toTell))
	}
	return f
}

// share is the part of the run that is over, by its forecast; negative when that is not known.
func (s *liveState) share(now time.Time) float64 {
	if s.left <= 0 {
		return -1
	}
	passed := now.Sub(s.began)
	left := max(s.left-now.Sub(s.leftAt), 0)
	return min(1, float64(passed)/float64(passed+left+1))
}

// now is the current step, in a width. The last part is never shortened: it is the one that changes.
func (s *liveState) now(width int) string {
	last := s.doing
	if last == "" {
		last = fmt.Sprintf("block %d", s.block)
		if s.block <= s.maxBlocks { // discarded ones are made again, and have numbers too
			last += fmt.Sprintf("/%d", s.maxBlocks)
		}
	}
	if s.stopping {
		last = "stopping"
	}
	names := []string{}
	for _, n := range []string{s.target, s.work} {
		if n != "" {
			names = append(names, printableLine(n))
		}
	}
	const between = " · "
	room := width - runewidth.StringWidth(last) - len(names)*runewidth.StringWidth(between)
	if len(names) == 2 {
		// The environment's name is short and says most; it gets half of the room at least.
		target := min(runewidth.StringWidth(names[0]), max(room-runewidth.StringWidth(names[1]), room/2))
		names[1] = short(names[1], room-target)
		names[0] = short(names[0], target)
	} else if len(names) == 1 {
		names[0] = short(names[0], room)
	}
	parts := []string{}
	for _, n := range names {
		if n != "" {
			parts = append(parts, n)
		}
	}
	return runewidth.Truncate(strings.Join(append(parts, last), between), width, "")
}

// short cuts a name to a width; what would be less than three columns says nothing and is left out.
func short(name string, width int) string {
	if runewidth.StringWidth(name) <= width {
		return name
	}
	if width < 3 {
		return ""
	}
	return runewidth.Truncate(name, width, "…")
}
