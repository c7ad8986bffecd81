package cli

import (
	"fmt"
	"io"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/run/schedule"
	"tare/internal/show/report"
)

// display shows a run's progress. Its event method is called from the measuring goroutine between trials, so it must be
// quick; nothing is drawn while a trial runs but the clock.
type display interface {
	event(schedule.Event)
	close()
}

// silent says only why a run ended without any result.
type silent struct{ w io.Writer }

func (s silent) event(e schedule.Event) {
	if e.Kind == schedule.Looked && e.Text != "" && e.Result != nil && !verdict.HasFigures(e.Result) {
		fmt.Fprintf(s.w, "tare: %s\n", printableLine(e.Text))
	}
}

func (silent) close() {}

// lines says one line for each block: what a log file or a CI system wants.
type lines struct {
	w     io.Writer
	began time.Time
	said  map[string]record.Verdict
}

func newLines(w io.Writer) *lines {
	return &lines{w: w, began: time.Now(), said: map[string]record.Verdict{}}
}

func (l *lines) close() {}

func (l *lines) event(e schedule.Event) {
	at := clock(time.Since(l.began))
	switch e.Kind {
	case schedule.Opened:
		fmt.Fprintf(l.w, "%s  %s is open after %s\n", at, e.Target, seconds(e.Elapsed))
	case schedule.Trying:
		fmt.Fprintf(l.w, "%s  testing how files behave in %s\n", at, e.Target)
	case schedule.OpenFailed:
		fmt.Fprintf(l.w, "%s  %s did not open: %s\n", at, e.Target, printableLine(e.Failure.Message))
	case schedule.Dropped:
		fmt.Fprintf(l.w, "%s  %s\n", at, dropped(e))
	case schedule.Forecasted:
		fmt.Fprintf(l.w, "%s  %s is calibrated%s\n", at, e.Workload, left(e.Left))
		if e.Text != "" {
			fmt.Fprintf(l.w, "%s  %s\n", at, e.Text)
		}
	case schedule.SessionsFound:
		fmt.Fprintf(l.w, "%s  %s%s\n", at, e.Text, left(e.Left))
	case schedule.BlockDone:
		fmt.Fprintf(l.w, "%s  block %d of %s done%s\n", at, e.Block, e.Workload, left(e.Left))
	case schedule.Screened:
		fmt.Fprintf(l.w, "%s  %s %s%s\n", at, e.Workload, e.Text, left(e.Left))
	case schedule.BlockLost:
		fmt.Fprintf(l.w, "%s  block %d of %s discarded: %s\n", at, e.Block, e.Workload, e.Text)
	case schedule.Looked:
		if e.Text != "" {
			fmt.Fprintf(l.w, "%s  %s\n", at, e.Text)
		}
		for _, s := range newVerdicts(l.said, e.Result) {
			fmt.Fprintf(l.w, "%s  %s\n", at, s)
		}
	}
}

// dropped is the sentence about an environment, or its part in a workload, that is given up.
func dropped(e schedule.Event) string {
	what := e.Target
	if e.Workload != "" {
		what = e.Workload + " in " + e.Target
	}
	return fmt.Sprintf("gave up on %s: %s", what, printableLine(e.Failure.Message))
}

// newVerdicts returns a sentence for each primary cell that has a verdict it did not have before.
func newVerdicts(said map[string]record.Verdict, r *verdict.Result) []string {
	var s []string
	if r == nil {
		return nil
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		key := c.Workload + "\x00" + c.Target
		if !c.Primary || said[key] == c.Verdict || c.Verdict == record.Inconclusive || c.Verdict == "" {
			continue
		}
		said[key] = c.Verdict
		s = append(s, verdictSentence(c))
	}
	return s
}

func verdictSentence(c *verdict.Cell) string {
	// Rounded as in the report, which is read next.
	ratio := fmt.Sprintf("%sx [%s, %s]", report.RatioText(c.Ratio.Center), report.RatioText(c.Low),
		report.RatioText(c.High))
	switch c.Verdict {
	case record.Withheld:
		return fmt.Sprintf("? %s %s: verdict withheld", c.Target, c.Workload)
	case record.Failed:
		return fmt.Sprintf("✕ %s %s: no figures", c.Target, c.Workload)
	case record.Equivalent:
		return fmt.Sprintf("= %s %s costs the same: %s", c.Target, c.Workload, ratio)
	case record.Measured:
		if c.UnlikeFlushes() {
			return fmt.Sprintf("≠ %s %s costs %s, and is not ranked: the sides flush differently", c.Target,
				c.Workload, ratio)
		}
		return fmt.Sprintf("≈ %s %s costs %s", c.Target, c.Workload, ratio)
	}
	glyph := "▲"
	if c.Ratio.Center < 1 {
		glyph = "▼"
	}
	return fmt.Sprintf("%s %s %s costs %s", glyph, c.Target, c.Workload, ratio)
}

// clock writes a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// seconds writes a duration in words short enough for a line.
func seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// left is the remaining time in words; "" after the last block.
func left(d time.Duration) string {
	if d < 50*time.Millisecond {
		return ""
	}
	return ", about " + seconds(d) + " left"
}
