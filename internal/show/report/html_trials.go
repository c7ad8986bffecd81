package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/record"
)

// Marks of a trial in the page's columns, as bits.
const (
	markNull = 1 << iota
	markWarmup
	markDiscarded
	markFailed
	markNoisy
)

// Bounds of the data that one workload puts into the page beside its figures.
const (
	maxPageError  = 300 // bytes of a trial's error
	maxStateTexts = 4   // different values of a state before they are only counted
	sketch        = 100 // quantiles of the samples within trials, less one
)

// htmlTrials is the page's second data block: the trials in columns, because thousands of small objects with the same
// names would be most of the file.
type htmlTrials struct {
	Targets []string      `json:"targets"`
	Series  []*htmlSeries `json:"series"`
}

// htmlSeries are the trials of a workload in the order they ran.
type htmlSeries struct {
	Workload string            `json:"workload"`
	Seq      []int             `json:"seq"`
	Start    column            `json:"start"` // seconds since the first trial of the run
	Session  []int             `json:"session"`
	Block    []int             `json:"block"`
	Target   []int             `json:"target"` // index into htmlTrials.Targets
	Mark     []int             `json:"mark"`
	Metrics  map[string]column `json:"metrics"`
	Errors   map[string]string `json:"errors,omitempty"` // by position in the columns
	Samples  []htmlSamples     `json:"samples,omitempty"`
	State    []htmlState       `json:"state,omitempty"`
}

// htmlSamples is the distribution of the samples within a target's used trials.
type htmlSamples struct {
	Target    int    `json:"target"`
	Metric    string `json:"metric"`
	Count     int    `json:"count"`
	Quantiles column `json:"quantiles"` // 0 %, 1 %, ... 100 %
}

// htmlState has the states that a target's trials reported, in one text.
type htmlState struct {
	Target int    `json:"target"`
	Key    string `json:"key"`
	Text   string `json:"text"`
}

// column is a column of figures with six significant digits, which is finer than any trial repeats. NaN, where a trial
// has no figure, is null.
type column []float64

// MarshalJSON implements json.Marshaler.
func (c column) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 8*len(c)+2)
	b = append(b, '[')
	for i, v := range c {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, v, 'g', 6, 64)
	}
	return append(b, ']'), nil
}

// pageBlock names a block, which is discarded as a whole.
type pageBlock struct {
	workload       string
	session, block int
}

// seriesMaker gathers all but the columns while the trials are read.
type seriesMaker struct {
	*htmlSeries
	samples map[samplesKey][]float64
	states  map[samplesKey][]string
}

type samplesKey struct {
	target int
	name   string // of a metric or a state
}

// pageTrials arranges the trials of the workloads that only admits; nil admits all.
func pageTrials(m *Model, only func(workload string) bool) *htmlTrials {
	out := &htmlTrials{Targets: []string{}, Series: []*htmlSeries{}}
	index := map[string]int{}
	for i := range m.Targets {
		index[m.Targets[i].Name] = i
		out.Targets = append(out.Targets, m.Targets[i].Name)
	}
	discarded := map[pageBlock]bool{}
	for i := range m.Trials {
		if t := &m.Trials[i]; t.Discarded != "" {
			discarded[pageBlock{t.Workload, t.Session, t.Block}] = true
		}
	}
	makers := map[string]*seriesMaker{}
	var order []*seriesMaker
	var first *record.Trial
	for i := range m.Trials {
		t := &m.Trials[i]
		target, ok := index[t.Target]
		if !ok {
			continue // the line that marks a block as discarded, or a target that the plan does not name
		}
		if first == nil {
			first = t
		}
		if only != nil && !only(t.Workload) {
			continue
		}
		s := makers[t.Workload]
		if s == nil {
			s = &seriesMaker{&htmlSeries{Workload: t.Workload, Metrics: map[string]column{}},
				map[samplesKey][]float64{}, map[samplesKey][]string{}}
			makers[t.Workload] = s
			order = append(order, s)
		}
		s.add(t, target, t.Start.Sub(first.Start).Seconds(), discarded[pageBlock{t.Workload, t.Session, t.Block}])
	}
	for _, s := range order {
		s.finish()
		out.Series = append(out.Series, s.htmlSeries)
	}
	return out
}

func (s *seriesMaker) add(t *record.Trial, target int, start float64, discarded bool) {
	n := len(s.Seq)
	mark := 0
	for _, m := range []struct {
		holds bool
		bit   int
	}{{t.Slot == record.NullSlot, markNull}, {t.Warmup(), markWarmup}, {discarded, markDiscarded},
		{t.Error != nil, markFailed}, {t.Host != nil && !t.Host.Quiet, markNoisy}} {
		if m.holds {
			mark |= m.bit
		}
	}
	s.Seq, s.Session, s.Block = append(s.Seq, t.Seq), append(s.Session, t.Session), append(s.Block, t.Block)
	s.Start = append(s.Start, math.Round(start*1000)/1000)
	s.Target, s.Mark = append(s.Target, target), append(s.Mark, mark)
	for name := range t.Metrics {
		if s.Metrics[name] == nil {
			s.Metrics[name] = none(n)
		}
	}
	for name, c := range s.Metrics {
		v, ok := t.Metrics[name]
		if !ok {
			v = math.NaN()
		}
		s.Metrics[name] = append(c, v)
	}
	if t.Error != nil {
		if s.Errors == nil {
			s.Errors = map[string]string{}
		}
		s.Errors[strconv.Itoa(n)] = clip(t.Error.Message, maxPageError)
	}
	if mark&^(markNoisy|markNull) != 0 {
		return
	}
	for name, v := range t.Samples {
		k := samplesKey{target, name}
		s.samples[k] = append(s.samples[k], v...)
	}
	for name, v := range t.State {
		k := samplesKey{target, name}
		s.states[k] = append(s.states[k], v)
	}
}

func none(n int) column {
	c := make(column, n)
	for i := range c {
		c[i] = math.NaN()
	}
	return c
}

func (s *seriesMaker) finish() {
	for k, v := range s.samples {
		v = slices.DeleteFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
		if len(v) == 0 {
			continue
		}
		slices.Sort(v)
		q := make(column, sketch+1)
		for i := range q {
			q[i] = v[int(math.Round(float64(i)/sketch*float64(len(v)-1)))]
		}
		s.Samples = append(s.Samples, htmlSamples{k.target, k.name, len(v), q})
	}
	for k, v := range s.states {
		s.State = append(s.State, htmlState{k.target, k.name, stateText(v)})
	}
	slices.SortFunc(s.Samples, func(a, b htmlSamples) int {
		return cmp.Or(cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Target, b.Target))
	})
	slices.SortFunc(s.State, func(a, b htmlState) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Target, b.Target))
	})
}

// stateText sums up the values of a state over trials: the one value, the few there were, or the span of numbers.
func stateText(values []string) string {
	slices.Sort(values)
	low, high, numbers := math.Inf(1), math.Inf(-1), true
	for _, v := range values {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(x) {
			numbers = false
			break
		}
		low, high = min(low, x), max(high, x)
	}
	distinct := slices.Compact(values)
	switch {
	case len(distinct) == 1:
		return clip(distinct[0], maxPageError)
	case numbers:
		return strconv.FormatFloat(low, 'g', 6, 64) + " to " + strconv.FormatFloat(high, 'g', 6, 64)
	case len(distinct) <= maxStateTexts:
		return clip(strings.Join(distinct, ", "), maxPageError)
	}
	return fmt.Sprintf("%d different values, as %s", len(distinct), clip(distinct[0], maxPageError/2))
}

// clip cuts a text at a number of bytes and says that it did.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
