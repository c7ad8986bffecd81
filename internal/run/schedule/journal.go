package schedule

import (
	"fmt"
	"slices"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// journal holds the trials and environments of the run, and the sink to which each trial is written before anything
// else happens.
type journal struct {
	plan    *plan.Plan
	kinds   func(name string) (*workload.Kind, bool)
	header  verdict.Run
	started time.Time
	sink    Sink

	session int
	seq     int // of the last trial
	trials  []record.Trial
	envs    []record.Environment
}

// append numbers a trial, puts it on disk and keeps it.
func (j *journal) append(t *record.Trial) error {
	j.seq++
	t.Seq, t.Session = j.seq, j.session
	if err := j.sink.Append(t); err != nil {
		return fmt.Errorf("write trial %d: %w", t.Seq, err)
	}
	j.trials = append(j.trials, *t)
	return nil
}

// evaluate computes the state of all cells from all trials.
func (j *journal) evaluate() *verdict.Result { return j.evaluateOf(j.trials) }

// upTo are the trials without those of a workload that came after its first n blocks, as far as these were not
// discarded.
func (j *journal) upTo(label string, n int) []record.Trial {
	discarded, blocks := map[int]bool{}, map[int]bool{}
	for i := range j.trials {
		if t := &j.trials[i]; t.Workload == label && t.Discarded != "" {
			discarded[t.Block] = true
		}
	}
	var out []record.Trial
	for i := range j.trials {
		t := &j.trials[i]
		if t.Workload == label && !t.Warmup() && !discarded[t.Block] {
			if !blocks[t.Block] && len(blocks) == n {
				continue
			}
			blocks[t.Block] = true
		}
		out = append(out, *t)
	}
	return out
}

// evaluateOf is evaluate for some of the trials.
func (j *journal) evaluateOf(trials []record.Trial) *verdict.Result {
	h := j.header
	h.Seconds += time.Since(j.started).Seconds()
	return verdict.Evaluate(verdict.Input{
		Plan: j.plan, Environments: j.envs, Trials: trials, Kinds: j.kinds, Run: h,
	})
}

// measured tells whether there is a figure, from this run or from before it was interrupted, or a failed trial: then it
// is not for want of time that there is none. A block that was begun and not completed gives none.
func (j *journal) measured(res *verdict.Result) bool {
	return verdict.HasFigures(res) || slices.ContainsFunc(j.trials, func(t record.Trial) bool { return t.Error != nil })
}
