package schedule

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
)

// Overheads assumed before anything has been measured, taken from runs on a two-core machine; the forecast after
// calibration replaces them by measured ones. They only ever feed a forecast.
const (
	// a fresh worker, its set-up, the wait for a quiet host and the write to disk
	assumedTrialOverhead = 80 * time.Millisecond
	assumedOpen          = 3 * time.Second
	// time that a neighbour adds to a trial beside half of its length: its first work, and its last round
	assumedNeighbour = 400 * time.Millisecond
)

// longBlock bounds the time that a block should take: a ratio is of trials that ran close together, and over a longer
// time the host may change between them.
const longBlock = 2 * time.Minute

// LongBlock is the warning about a block that takes too long, with its remedy.
const LongBlock = "in blocks over two minutes the host may change between trials, which widens the intervals; " +
	"shorten the trials, reduce the work, or compare fewer targets"

// Block is how long one block of a workload takes.
type Block struct {
	Workload string
	Length   time.Duration
}

// Forecast is the expected length of a run, as far as it can be told beforehand.
type Forecast struct {
	Targets   int
	Workloads int
	Cells     int // candidate x workload, primary metrics: the family that Holm's correction covers
	Sessions  int
	MinBlocks int // blocks at the first look, in each session
	MaxBlocks int
	// FirstLook is how long it takes until every workload had its first look, whatever the budget.
	FirstLook time.Duration
	Least     time.Duration // every cell settled at the first look; never more than the budget
	Most      time.Duration // no cell settled before the last; never more than the budget
	// MostSessions is over how many sessions the run is spread where it finds that affordable, with SessionBlocks
	// blocks each, and InSessions how long it takes then; 0 where nothing is left to it. The rest is for one session.
	MostSessions  int
	SessionBlocks int
	InSessions    time.Duration
	Disk          int64   // most bytes needed below one target's work directory
	Long          []Block // blocks that are expected to take too long, see LongBlock
}

// NewForecast computes the forecast of a plan.
func NewForecast(p *plan.Plan, kinds func(string) (*workload.Kind, bool)) Forecast {
	f := Forecast{Targets: len(p.Targets), Workloads: len(p.Workloads), Sessions: p.Sessions, MinBlocks: p.Looks[0],
		MaxBlocks: p.MaxBlocks()}
	var perBlock, later time.Duration // later: of a block after candidates were screened
	for i := range p.Workloads {
		w := &p.Workloads[i]
		slots, beside, candidates, more := len(p.Bases(w)), 0, 0, 0 // the null controls
		for _, e := range p.Targets {
			if !w.On(e.Name) {
				continue
			}
			slots++
			if e.Name != p.Base(w) || len(p.Targets) > 1 && p.Alone(w) {
				f.Cells++
				candidates++
			}
			if e.Beside != "" {
				beside++
			}
			if e.Copies > 0 {
				more += (e.Copies - 1) / runtime.NumCPU()
			}
		}
		length := time.Duration(slots)*(trialLength(p, w)+assumedTrialOverhead) +
			time.Duration(beside)*(trialLength(p, w)+assumedNeighbour) + time.Duration(more)*trialLength(p, w)
		if length > longBlock {
			f.Long = append(f.Long, Block{w.Label, length})
		}
		perBlock += length
		later += length
		if p.Screen > 0 && candidates > p.Screen {
			later -= time.Duration(candidates-p.Screen) * (trialLength(p, w) + assumedTrialOverhead)
		}
		if k, ok := kinds(w.Kind); ok && k.Space != nil {
			// A cell's files live as long as the session, so they add up.
			f.Disk += k.Space(w.Params)
		}
	}
	opened := 0
	for i := range p.Targets {
		if p.Targets[i].Like == "" {
			opened++
		}
	}
	if c := p.Copies; c != nil {
		opened += len(c.Targets) * (c.Steps[len(c.Steps)-1] - 1)
	}
	fixed := time.Duration(opened) * assumedOpen
	// Calibration and warm-up cost about two blocks more.
	length := func(blocks int) time.Duration {
		whole := blocks
		if p.Screen > 0 {
			whole = min(blocks, plan.ScreenBlocks)
		}
		return time.Duration(p.Sessions) *
			(fixed + time.Duration(whole+2)*perBlock + time.Duration(blocks-whole)*later)
	}
	f.FirstLook, f.Most = length(f.MinBlocks), length(f.MaxBlocks)
	f.Least = f.FirstLook
	if p.LeftOpen() {
		f.MostSessions, f.SessionBlocks = p.MostSessions, p.BlocksIn(p.MostSessions)
		// Nothing is calibrated twice.
		f.InSessions = perBlock + time.Duration(f.MostSessions)*(fixed+time.Duration(f.SessionBlocks+1)*perBlock)
		if p.Budget > 0 && f.InSessions > p.Budget {
			f.MostSessions, f.SessionBlocks, f.InSessions = 0, 0, 0 // it is not
		}
	}
	if p.Budget > 0 {
		f.Least, f.Most = min(f.Least, p.Budget), min(f.Most, p.Budget)
	}
	return f
}

// filled is the factor on the bytes of a workload's files that must be free, as the agent has it: a file system that is
// full to the brim is slower than itself.
const filled = 1.05

// CheckFreeSpace finds the workloads that cannot fit, as far as that can be told before anything is opened. The error
// is of workloads that do not fit into the baseline, or that fit into none of the others: nothing could be compared;
// lacking lists where the others are given up. Space that only the inside knows is left to the agent, and so are
// mounts. Each workload is looked at alone, because not all of them keep their files until the others come.
func CheckFreeSpace(p *plan.Plan, kinds func(string) (*workload.Kind, bool), drivers *env.Registry,
	scratch string) (lacking []string, err error) {
	has := map[string]env.FreeSpace{}
	for i := range p.Targets {
		e := &p.Targets[i]
		has[e.Name] = env.FreeSpace{Bytes: -1}
		if info, ok := drivers.Lookup(e.Spec.Driver); ok && e.Opens() && info.FreeSpace != nil {
			has[e.Name] = info.FreeSpace(e.Spec, scratch)
		}
	}
	var errs []error
	for i := range p.Workloads {
		w := &p.Workloads[i]
		k, ok := kinds(w.Kind)
		if !ok || k.Space == nil {
			continue
		}
		need := float64(k.Space(w.Params))
		var short []string
		fits, base := 0, false
		for j := range p.Targets {
			name := p.Targets[j].Name
			r := has[name]
			switch {
			case !w.On(name) || p.Targets[j].Like != "":
			case r.Bytes >= 0 && need*filled > float64(r.Bytes):
				short = append(short, fmt.Sprintf("%s needs %s in %s, and %s has %s free; choose a smaller size, or %s",
					w.Label, room(need), name, r.Where, room(float64(r.Bytes)/filled), r.Remedy))
			case name == p.Base(w):
				base = true
			default:
				fits++
			}
		}
		if base && (fits > 0 || p.Alone(w)) {
			lacking = append(lacking, short...)
			continue
		}
		for _, s := range short {
			errs = append(errs, errors.New(s))
		}
	}
	return lacking, errors.Join(errs...)
}

// room is a number of bytes in words, to four digits.
func room(bytes float64) string {
	const units = "KMGTP"
	n, unit := bytes/1024, 0
	for ; n >= 1024 && unit < len(units)-1; unit++ {
		n /= 1024
	}
	return fmt.Sprintf("%.4g %ciB", n, units[unit])
}

func trialLength(p *plan.Plan, w *plan.Workload) time.Duration {
	if w.Trial > 0 {
		return w.Trial
	}
	return p.Trial
}
