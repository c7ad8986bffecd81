package live

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/schedule"
	"tare/internal/show/report"
	"tare/internal/sys/proc"
)

// How often a report is made, and for whom.
const (
	leastPause = 10 * time.Second // from one report to the next
	share      = 100              // and this many times the time of the last one
	lookedAway = 15 * time.Second // nobody watches when nothing was asked for so long
	maxLog     = 200              // lines of the log; the oldest go
	maxText    = 400              // bytes of a line of the log
)

// Watch follows one run. Its methods are called from the measuring goroutine; requests are answered meanwhile from the
// last published report.
type Watch struct {
	config schedule.Config
	bundle string
	began  time.Time
	now    func() time.Time

	// Only the measuring goroutine touches these.
	trials   []record.Trial
	envs     []record.Environment
	changed  map[string]bool // workloads with trials that no report has yet
	due      bool            // there is something to report
	notUntil time.Time       // the next report

	mu       sync.Mutex
	seen     time.Time // last request
	shown    bool      // the last state was delivered
	progress progress
	left     time.Duration
	leftAt   time.Time
	report   encodedReport
}

// progress is the part of the page above the report.
type progress struct {
	Phase     phase              `json:"phase"`
	Now       string             `json:"now"`       // the current step, in words
	Elapsed   float64            `json:"elapsed_s"` // since the run began
	Left      float64            `json:"left_s"`    // forecast; 0 unknown
	Poll      int                `json:"poll_ms"`   // when to ask again
	Workloads []workloadProgress `json:"workloads"` // in the plan's order
	Log       []logEntry         `json:"log"`       // the oldest first
}

type phase string

const (
	starting    phase = "starting"
	opening     phase = "opening"
	calibrating phase = "calibrating"
	measuring   phase = "measuring"
	ended       phase = "ended"
	stopped     phase = "stopped" // before its end
)

// workloadProgress is the number of complete blocks of a workload, and whether it gets more.
type workloadProgress struct {
	Label   string `json:"label"`
	Blocks  int    `json:"blocks"`  // complete, in this session
	Settled bool   `json:"settled"` // it gets no more
}

type logEntry struct {
	At   float64 `json:"at_s"`
	Text string  `json:"text"`
}

// encodedReport is a report, encoded. Its parts are never changed, only replaced.
type encodedReport struct {
	version int
	data    json.RawMessage
	targets []string
	series  []series // in the plan's order
}

// series are the encoded trials of a workload and the version of the report that brought them.
type series struct {
	workload string
	version  int
	encoded  json.RawMessage
}

// newWatch prepares to follow the run that c describes, with the trials before it. Nothing is published yet.
func newWatch(c *schedule.Config, bundle string) *Watch {
	w := &Watch{config: *c, bundle: bundle, began: time.Now(), now: time.Now, changed: map[string]bool{}}
	w.trials = append(w.trials, c.Prior...)
	w.envs = append(w.envs, c.PriorTargets...)
	w.progress = progress{Phase: starting, Poll: int(pollEvery / time.Millisecond), Log: []logEntry{},
		Workloads: []workloadProgress{}}
	for i := range c.Plan.Workloads {
		label := c.Plan.Workloads[i].Label
		w.progress.Workloads = append(w.progress.Workloads, workloadProgress{Label: label})
		w.changed[label] = true
	}
	return w
}

// Plan implements schedule.Sink.
func (w *Watch) Plan(p *plan.Plan) error { return w.config.Sink.Plan(p) }

// Environments implements schedule.Sink.
func (w *Watch) Environments(envs []record.Environment) error {
	w.envs = append(w.envs[:0:0], envs...)
	return w.config.Sink.Environments(envs)
}

// Append implements schedule.Sink. The disk comes first: a trial that could not be kept is not shown.
func (w *Watch) Append(t *record.Trial) error {
	if err := w.config.Sink.Append(t); err != nil {
		return err
	}
	w.trials = append(w.trials, *t)
	w.changed[t.Workload] = true
	return nil
}

// event updates the progress, and between blocks brings the report up to date.
func (w *Watch) event(e schedule.Event) {
	w.note(e)
	switch e.Kind {
	case schedule.Forecasted, schedule.BlockDone, schedule.BlockLost:
		w.due = true
		w.bringUp(nil)
	case schedule.Looked:
		w.due = true
		w.bringUp(e.Result)
	}
}

func (w *Watch) note(e schedule.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.progress
	if e.Left > 0 {
		w.left, w.leftAt = e.Left, w.now()
	}
	switch e.Kind {
	case schedule.Opening:
		p.Phase, p.Now = opening, "opening "+e.Target
	case schedule.Trying:
		p.Phase, p.Now = opening, "testing files in "+e.Target
	case schedule.Opened:
		w.log("%s is open after %s", e.Target, e.Elapsed.Round(time.Millisecond))
	case schedule.OpenFailed:
		w.log("%s did not open: %s", e.Target, e.Failure.Message)
	case schedule.Forecasted:
		p.Phase = measuring
	case schedule.TrialBegin:
		switch {
		case !e.Warmup:
			p.Phase, p.Now = measuring, fmt.Sprintf("%s in %s, block %d", e.Workload, e.Target, e.Block)
		case e.Text != "":
			p.Phase, p.Now = calibrating, fmt.Sprintf("%s in %s", e.Workload, e.Target)
		default:
			p.Now = fmt.Sprintf("%s in %s, warming up", e.Workload, e.Target)
		}
	case schedule.BlockDone:
		for i := range p.Workloads {
			if p.Workloads[i].Label == e.Workload {
				p.Workloads[i].Blocks = e.Block
			}
		}
	case schedule.SessionsFound:
		w.log("%s", e.Text)
	case schedule.BlockLost:
		w.log("block %d of %s is discarded: %s", e.Block, e.Workload, e.Text)
	case schedule.Screened:
		w.log("%s %s", e.Workload, e.Text)
	case schedule.Dropped:
		what := e.Target
		if e.Workload != "" {
			what = e.Workload + " in " + e.Target
		}
		w.log("gave up on %s: %s", what, e.Failure.Message)
	case schedule.Looked:
		if e.Text != "" {
			w.log("%s", e.Text)
		}
		for i := range p.Workloads {
			p.Workloads[i].Settled = p.Workloads[i].Settled ||
				e.Result != nil && p.Workloads[i].Blocks > 0 && verdict.Settled(e.Result, p.Workloads[i].Label)
		}
	}
}

// log adds a line; the caller holds the lock. Foreign text is cut and loses its control characters here, and the page
// shows it as text.
func (w *Watch) log(format string, args ...any) {
	text, more := fmt.Sprintf(format, args...), ""
	if len(text) > maxText {
		text, more = strings.ToValidUTF8(text[:maxText], ""), "..."
	}
	p := &w.progress
	p.Log = append(p.Log, logEntry{At: w.now().Sub(w.began).Seconds(), Text: proc.Printable([]byte(text)) + more})
	if len(p.Log) > maxLog {
		p.Log = append(p.Log[:0:0], p.Log[len(p.Log)-maxLog:]...)
	}
}

// bringUp makes a report when somebody watches and it is time. It runs between two blocks.
func (w *Watch) bringUp(r *verdict.Result) {
	w.mu.Lock()
	watched := w.now().Sub(w.seen) < lookedAway
	w.mu.Unlock()
	if !w.due || !watched || w.now().Before(w.notUntil) {
		return
	}
	began := w.now()
	w.publish(r)
	// Memory that was allocated here must not be collected during a trial.
	runtime.GC()
	took := w.now().Sub(began)
	w.notUntil = w.now().Add(max(leastPause, share*took))
	if w.config.Log != nil {
		w.config.Log.Debug("live page updated", "took", took)
	}
}

// publish encodes the state of all cells and the trials that came since the last report. With a nil result it computes
// one.
func (w *Watch) publish(r *verdict.Result) {
	if r == nil {
		h := w.config.Header
		h.Seconds += w.now().Sub(w.began).Seconds()
		r = verdict.Evaluate(verdict.Input{Plan: w.config.Plan, Environments: w.envs, Trials: w.trials,
			Kinds: w.config.Kinds, Run: h})
	}
	m := report.NewModel(r)
	m.Trials, m.Plan, m.Bundle = w.trials, w.config.Plan, w.bundle
	live, err := report.Live(m, func(workload string) bool { return w.changed[workload] })
	if err != nil {
		// The page keeps its figures; the run and its report on the terminal are not touched by it.
		w.mu.Lock()
		w.log("this report could not be updated: %v", err)
		w.mu.Unlock()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next := encodedReport{version: w.report.version + 1, data: live.Data, targets: live.Targets}
	for i := range w.config.Plan.Workloads {
		label := w.config.Plan.Workloads[i].Label
		if s, ok := live.Series[label]; ok {
			next.series = append(next.series, series{label, next.version, s})
			continue
		}
		for _, s := range w.report.series {
			if s.workload == label {
				next.series = append(next.series, s)
			}
		}
	}
	w.report = next
	w.due = false
	clear(w.changed)
}

// finish publishes the result of a run that is over; r is nil when there is none. why is the reason that stopped it,
// nil at its end.
func (w *Watch) finish(r *verdict.Result, why error) {
	if r != nil {
		w.publish(r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.progress
	p.Phase, p.Now, w.left = ended, "", 0
	if why != nil {
		p.Phase = stopped
		w.log("the run stopped before its end: %v", why)
	}
	p.Elapsed = w.now().Sub(w.began).Seconds()
}

// state is the answer to a poll: the progress of the run, and the parts of the report that are newer than the page's
// version.
type state struct {
	Format   int             `json:"format"`
	Progress progress        `json:"progress"`
	Report   int             `json:"report"`
	Data     json.RawMessage `json:"data,omitempty"`
	Trials   *trialsDelta    `json:"trials,omitempty"`
}

type trialsDelta struct {
	Targets []string          `json:"targets"`
	Series  []json.RawMessage `json:"series"` // of the workloads that have more trials than the page knows of
}

// state answers a page that has a version of the report; 0 is none.
func (w *Watch) state(has int) state {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = w.now()
	s := state{Format: report.PageFormat, Progress: w.progress, Report: w.report.version}
	s.Progress.Log = append([]logEntry{}, w.progress.Log...)
	s.Progress.Workloads = append([]workloadProgress{}, w.progress.Workloads...)
	if p := w.progress.Phase; p == ended || p == stopped {
		w.shown = true
	} else {
		s.Progress.Elapsed = w.now().Sub(w.began).Seconds()
		s.Progress.Left = max(0, (w.left - w.now().Sub(w.leftAt)).Seconds())
	}
	if w.report.version == 0 || has == w.report.version {
		return s
	}
	s.Data, s.Trials = w.report.data, &trialsDelta{Targets: w.report.targets, Series: []json.RawMessage{}}
	for _, x := range w.report.series {
		if x.version > has || has > w.report.version {
			s.Trials.Series = append(s.Trials.Series, x.encoded)
		}
	}
	return s
}

// waiting tells whether somebody watches who has not been told that the run is over.
func (w *Watch) waiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.shown && w.now().Sub(w.seen) < lookedAway
}
