package schedule

import (
	"time"

	"tare/internal/plan"
	"tare/internal/stats"
	"tare/internal/workload"
)

// Overheads assumed before anything has been measured, taken from runs on a two-core machine; the forecast after
// calibration replaces them by what was seen. They only ever feed a forecast.
const (
	assumedTrialOverhead = 80 * time.Millisecond // a fresh worker, its set-up, the gate and the write to disk
	assumedOpen          = 3 * time.Second
)

// Forecast is what a run will take, as far as it can be told beforehand.
type Forecast struct {
	Targets   int
	Workloads int
	Cells     int // candidate x workload, primary metrics: the family that Holm's correction covers
	MinBlocks int // blocks at the first look
	MaxBlocks int
	// Attainable is the least number of blocks at which this many cells can be told apart at all.
	Attainable int
	Least      time.Duration // every cell settled at the first look
	Most       time.Duration // no cell settled before the last; never more than the budget
	Disk       int64         // most bytes needed below one target's work directory
}

// NewForecast computes the forecast of a plan.
func NewForecast(p *plan.Plan, kinds func(string) (*workload.Kind, bool)) Forecast {
	f := Forecast{Targets: len(p.Environments), Workloads: len(p.Workloads), MinBlocks: p.Looks[0], MaxBlocks: p.MaxBlocks()}
	var perBlock time.Duration
	for i := range p.Workloads {
		w := &p.Workloads[i]
		slots := 1 // the null control
		for _, e := range p.Environments {
			if !w.On(e.Name) {
				continue
			}
			slots++
			if e.Name != p.Baseline {
				f.Cells++
			}
		}
		perBlock += time.Duration(slots) * (trialLength(p, w) + assumedTrialOverhead)
		if k, ok := kinds(w.Kind); ok && k.Space != nil {
			// A cell's files live as long as the session, so they add up.
			f.Disk += k.Space(w.Params)
		}
	}
	fixed := time.Duration(f.Targets) * assumedOpen
	// Calibration and warm-up cost about two blocks more.
	f.Least = time.Duration(p.Sessions) * (fixed + time.Duration(f.MinBlocks+2)*perBlock)
	f.Most = time.Duration(p.Sessions) * (fixed + time.Duration(f.MaxBlocks+2)*perBlock)
	if p.Budget > 0 {
		f.Most = min(f.Most, p.Budget)
	}
	f.Attainable = stats.MinBlocks(max(1, f.Cells), p.LookAlpha)
	return f
}

func trialLength(p *plan.Plan, w *plan.Workload) time.Duration {
	if w.Trial > 0 {
		return w.Trial
	}
	return p.Trial
}
