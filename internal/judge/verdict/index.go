package verdict

import (
	"cmp"
	"slices"

	"tare/internal/record"
)

// blockKey names a block of a workload.
type blockKey struct{ session, block int }

func (a blockKey) compare(b blockKey) int {
	return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.block, b.block))
}

// seriesKey names the trials of one workload in one target and slot.
type seriesKey struct{ workload, target, slot string }

// series are the trials of one key.
type series struct {
	used      map[blockKey]*record.Trial // figures to compare
	discarded map[blockKey]*record.Trial // figures of discarded blocks
	failed    []*record.Trial            // in the order they happened; the warm-up and the calibration included
	missing   map[blockKey]*record.Trial // the failed trials of kept blocks that have no figure for it
	keys      []blockKey                 // of used, ascending
	// groups are those of used, by ID.
	groups map[blockKey]map[string]*record.Group
}

type index struct {
	series   map[seriesKey]*series
	rules    map[string]map[blockKey]string // discarded blocks of a workload: the rule
	sessions map[int]bool                   // sessions with usable trials
	last     map[string]*record.Trial       // the last trial of each target, failed ones included
	texts    map[string]map[string]string   // of a workload's groups, by ID
	shown    map[shownKey]string            // what came back from executions
	failed   int
}

var noSeries = &series{}

func newIndex(trials []record.Trial) *index {
	x := &index{
		series: map[seriesKey]*series{}, rules: map[string]map[blockKey]string{}, sessions: map[int]bool{},
		last: map[string]*record.Trial{}, texts: map[string]map[string]string{},
		shown: map[shownKey]string{},
	}
	for i := range trials {
		if t := &trials[i]; t.Discarded != "" {
			if x.rules[t.Workload] == nil {
				x.rules[t.Workload] = map[blockKey]string{}
			}
			x.rules[t.Workload][blockKey{t.Session, t.Block}] = t.Discarded
		}
	}
	for i := range trials {
		x.add(&trials[i])
	}
	for k, s := range x.series {
		s.keys = sortedKeys(s.used)
		for _, t := range s.failed {
			at := blockKey{t.Session, t.Block}
			if !t.Warmup() && s.used[at] == nil && x.rules[k.workload][at] == "" {
				s.missing[at] = t
			}
		}
	}
	return x
}

func (x *index) add(t *record.Trial) {
	if t.Target == "" {
		return // the line that marks a block as discarded
	}
	x.last[t.Target] = t
	x.addTexts(t)
	for _, s := range t.Shown[:min(len(t.Shown), record.MostShown)] {
		x.shown[shownKey{t.Workload, t.Target, s.Number}] = s.Text
	}
	k := seriesKey{t.Workload, t.Target, t.Slot}
	s := x.series[k]
	if s == nil {
		s = &series{used: map[blockKey]*record.Trial{}, discarded: map[blockKey]*record.Trial{},
			missing: map[blockKey]*record.Trial{}, groups: map[blockKey]map[string]*record.Group{}}
		x.series[k] = s
	}
	at := blockKey{t.Session, t.Block}
	switch {
	case t.Error != nil:
		s.failed = append(s.failed, t)
		if t.Error.Kind != kindBelowFloor {
			x.failed++
		}
	case t.Warmup():
	case x.rules[t.Workload][at] != "":
		s.discarded[at] = t
	default:
		s.used[at] = t
		if len(t.Groups) > 0 {
			s.groups[at] = groupsByID(t)
		}
		x.sessions[t.Session] = true
	}
}

// of returns the series of a target; never nil.
func (x *index) of(workload, target, slot string) *series {
	if s := x.series[seriesKey{workload, target, slot}]; s != nil {
		return s
	}
	return noSeries
}

// has tells whether a trial of a target that counts has a figure of a metric.
func (x *index) has(workload, target, metric string) bool {
	for _, t := range x.of(workload, target, "").used {
		if _, ok := t.Metrics[metric]; ok {
			return true
		}
	}
	return false
}

// mostBlocks counts the blocks that a workload completed, of the workload with most. What a run was stopped in the
// midst of is no block: a candidate's trial without its baseline's gives no ratio, and the run that goes on begins a
// new one. A baseline that has no candidate beside it is counted by itself.
func (x *index) mostBlocks(against func(workload, target string) string) int {
	paired, alone := 0, 0
	for k, s := range x.series {
		alone = max(alone, len(s.used))
		b := against(k.workload, k.target)
		if k.slot != "" || k.target == b {
			continue
		}
		base, n := x.of(k.workload, b, ""), 0
		for at := range s.used {
			if base.used[at] != nil {
				n++
			}
		}
		paired = max(paired, n)
	}
	if paired > 0 {
		return paired
	}
	return alone
}

func (x *index) discardedBlocks() int {
	n := 0
	for _, w := range x.rules {
		n += len(w)
	}
	return n
}

// late tells whether the trial of a block ran into its deadline: its figure is not known, but it is worse than that.
func (s *series) late(k blockKey) bool {
	t := s.missing[k]
	return t != nil && t.Error.Kind == kindTimeout
}

// begun lists the kept blocks in which one of two series has a trial, failed or not.
func begun(a, b *series) []blockKey {
	all := map[blockKey]bool{}
	for _, s := range []*series{a, b} {
		for k := range s.used {
			all[k] = true
		}
		for k := range s.missing {
			all[k] = true
		}
	}
	return sortedKeys(all)
}

func sortedKeys[V any](m map[blockKey]V) []blockKey {
	keys := make([]blockKey, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, blockKey.compare)
	return keys
}
