package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"tare/internal/lab/env"
	"tare/internal/suggest"
)

// Defaults of method.md.
const (
	DefaultAlpha      = 0.05 // simultaneous error level
	DefaultMargin     = 0.02
	DefaultTailMargin = 0.05
	DefaultPrecision  = 0.01
)

// DefaultTrial is the shortest length of a trial in a mode.
func DefaultTrial(m Mode) time.Duration {
	if m == Full {
		return time.Second
	}
	return 300 * time.Millisecond
}

// DefaultLooks are the numbers of blocks at which a run of that mode decides, before attainability is considered.
func DefaultLooks(m Mode) []int {
	if m == Full {
		return []int{10, 15, 20, 30, 45, 60}
	}
	return []int{10, 15, 20, 30}
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// resolve fills in what was not written and checks what only makes sense together.
func (d *draft) resolve(t *Tables, p *problems) {
	orDefault(&d.Schema, Schema)
	orDefault(&d.Mode, Quick)
	orDefault(&d.Trial, DefaultTrial(d.Mode))
	// Whether it is left open how often the environments are opened.
	left := d.Sessions == 0 && d.MostSessions == 0 && d.Mode == Full && d.Screen == 0
	orDefault(&d.Sessions, 1)
	orDefault(&d.Alpha, DefaultAlpha)
	orDefault(&d.Margin, DefaultMargin)
	orDefault(&d.TailMargin, DefaultTailMargin)
	orDefault(&d.Precision, DefaultPrecision)
	if d.Seed == 0 {
		// Below 2^32, so that it is easy to type and survives readers of JSON that know only doubles.
		d.Seed = 1 + rand.Uint64N(1<<32-1)
	}
	if len(d.Targets) == 0 {
		d.here(t, p)
	}
	d.leaveOut(t)
	d.chooseBaseline(p)
	named := d.explicit()
	d.spareMounts(t, p)
	d.placeNeighbours(named, p)
	d.placeCrowds(t, named, p)
	d.disturb(p)
	d.placeCopies(t, p)
	d.resolveTargets(p)
	d.checkReach(t, p)
	d.resolveLabels(t, p)
	if !p.any() {
		d.chooseLooks(p)
	}
	switch {
	case p.any():
	case left:
		d.MostSessions = d.sessionsOf()
	default:
		d.checkMost(p)
	}
}

// here takes the environments of this machine when the plan names none.
func (d *draft) here(t *Tables, p *problems) {
	texts := []string{env.Host}
	if t.Here != nil {
		texts = t.Here()
	}
	r := &reader{t, p}
	for _, text := range texts {
		d.addEnvironment(r, text, pos{file: "this machine"})
	}
}

// leaveOut drops what this machine does not have from a plan that allows it, and what depends on that. A baseline that
// is dropped gives way to the first environment that is left.
func (d *draft) leaveOut(t *Tables) {
	if d.Missing != Skip || t.Available == nil {
		return
	}
	gone := map[string]string{}
	for i := range d.Targets {
		if e := &d.Targets[i]; !e.IsMount() {
			if ok, why := t.Available(e.Spec, nil); !ok {
				gone[e.Name] = why
			}
		}
	}
	for i := range d.Targets {
		e := &d.Targets[i]
		parent, ok := d.Target(e.Of)
		if !ok {
			continue
		}
		if gone[e.Of] != "" {
			gone[e.Name] = "its environment is not available here"
		} else if ok, why := t.Available(parent.Spec, &e.Spec); !ok {
			gone[e.Name] = why
		}
	}
	if len(gone) == 0 {
		return
	}
	var kept []Target
	for _, e := range d.Targets {
		if why := gone[e.Name]; why != "" {
			if t.LeftOut != nil {
				t.LeftOut(e.Name, why)
			}
			continue
		}
		if gone[e.Against] != "" {
			e.Against = ""
		}
		kept = append(kept, e)
	}
	d.Targets = kept
	d.leftOut(slices.Collect(maps.Keys(gone)))
	if gone[d.Baseline] != "" {
		d.Baseline = ""
	}
	d.forget()
}

// leftOut notes targets that are not in the plan any more.
func (d *draft) leftOut(names []string) {
	if d.gone == nil {
		d.gone = map[string]bool{}
	}
	for _, n := range names {
		d.gone[n] = true
	}
}

func (d *draft) names() []string {
	names := make([]string, len(d.Targets))
	for i := range d.Targets {
		names[i] = d.Targets[i].Name
	}
	return names
}

func (d *draft) chooseBaseline(p *problems) {
	names := d.names()
	if len(names) == 0 {
		p.add(d.baselineAt, "the plan has no environment; name at least one, such as `host: local`")
		return
	}
	if d.Baseline == "" {
		d.Baseline, d.assumed = names[0], true
		if contains(names, env.Host) {
			d.Baseline = env.Host
		}
	}
	if !contains(names, d.Baseline) {
		p.add(d.baselineAt, "baseline: there is no target %s in the plan%s", quote(d.Baseline),
			suggest.MeantOrAll(d.Baseline, names, "there are:"))
	}
	d.checkAgainst(names, p)
}

// checkAgainst holds that what targets are compared with exists and is itself compared with the baseline, or with what
// is.
func (d *draft) checkAgainst(names []string, p *problems) {
	for i := range d.Targets {
		e := &d.Targets[i]
		base, ok := d.Target(e.Against)
		switch {
		case e.Against == "":
		case !ok:
			p.add(place(d.againAt, e.Name, d.baselineAt),
				"%s: against: there is no target %s in the plan%s", e.Name, quote(e.Against),
				suggest.MeantOrAll(e.Against, names, "there are:"))
		case e.Against == e.Name || base.Against != "" && d.turns(e):
			p.add(place(d.againAt, e.Name, d.baselineAt),
				"%s: against: %s must be another target that leads to the baseline", e.Name, e.Against)
		case e.Name == d.Baseline:
			p.add(place(d.againAt, e.Name, d.baselineAt), "%s is the baseline: leave out its against", e.Name)
		}
		if e.Against == d.Baseline {
			e.Against = ""
		}
	}
}

// turns tells whether what a target is compared with leads back to it, or never ends.
func (d *draft) turns(e *Target) bool {
	at := e
	for range d.Targets {
		next, ok := d.Target(at.Against)
		if !ok {
			return false // it ends at the baseline, or at what is not there
		}
		at = next
	}
	return true
}

// resolveTargets puts targets in the order of the environments, the baseline among them; all of them are written as
// none.
func (d *draft) resolveTargets(p *problems) {
	names := d.names()
	for i := range d.Workloads {
		w := &d.Workloads[i]
		for _, n := range w.Targets {
			if !contains(names, n) {
				p.add(d.place(d.targetsAt, i), "targets: there is no target %s in the plan%s", quote(n),
					suggest.MeantOrAll(n, names, "there are:"))
			}
		}
		for _, n := range slices.Sorted(maps.Keys(w.Vary)) {
			if !contains(names, n) {
				p.add(d.place(d.workAt, i), "vary: there is no target %s in the plan%s", quote(n),
					suggest.MeantOrAll(n, names, "there are:"))
			}
		}
		for n := range w.Work {
			if !contains(names, n) {
				p.add(d.place(d.workAt, i), "work: there is no target %s in the plan%s", quote(n),
					suggest.MeantOrAll(n, names, "there are:"))
			}
		}
		if w.Baseline != "" && !contains(names, w.Baseline) {
			p.add(d.place(d.targetsAt, i), "baseline: there is no target %s in the plan%s", quote(w.Baseline),
				suggest.MeantOrAll(w.Baseline, names, "there are:"))
		}
		if w.Baseline == d.Baseline {
			w.Baseline = ""
		}
		if len(w.Targets) == 0 {
			continue
		}
		// What they are compared with takes part, and what that is compared with.
		base, all := d.Base(w), slices.Clone(w.Targets)
		for n := 0; n < len(all); n++ {
			if a := d.Against(all[n]); all[n] != base && !contains(all, a) && (a != d.Baseline || w.Baseline == "") {
				all = append(all, a)
			}
		}
		for j := range d.Targets { // a neighbour is beside it in all of its work, and copies do all of it
			if e := &d.Targets[j]; e.Like != "" && (e.Like == base || contains(all, e.Like)) {
				all = append(all, e.Name)
			}
		}
		w.Targets = slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			return n != base && !contains(all, n)
		})
		if len(w.Targets) == len(names) {
			w.Targets = nil
		}
	}
}

// spareMounts keeps workloads that touch no files out of mounts, where they would measure the environment once more.
func (d *draft) spareMounts(t *Tables, p *problems) {
	var environments []string
	for i := range d.Targets {
		if !d.Targets[i].IsMount() {
			environments = append(environments, d.Targets[i].Name)
		}
	}
	if len(environments) == len(d.Targets) {
		return
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		k := t.kind(w.Kind)
		if k == nil || k.Needs.FS || k.Needs.Shell {
			continue
		}
		if len(w.Targets) == 0 {
			w.Targets = environments
			continue
		}
		for _, n := range w.Targets {
			if _, _, mount := env.CutMount(n); mount {
				p.add(d.place(d.targetsAt, i),
					"%s uses no files, so it cannot measure the mount %s; name its environment", w.Kind, n)
			}
		}
	}
}

func (d *draft) place(places []pos, i int) pos {
	if i < len(places) {
		return places[i]
	}
	return pos{file: "plan"}
}

// resolveLabels makes labels where none was given and holds that each is unique.
func (d *draft) resolveLabels(t *Tables, p *problems) {
	first := map[string]int{}
	for i := range d.Workloads {
		if d.Workloads[i].Label != "" {
			d.claim(first, i, d.Workloads[i].Label, p)
		}
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		if w.Label != "" {
			continue
		}
		k := t.kind(w.Kind)
		if k == nil {
			p.add(d.place(d.workAt, i), "there is no workload %s", quote(w.Kind))
			continue
		}
		w.Label = autoLabel(k, w.Params)
		// A shortened label may stand for two workloads; the same workload twice may not.
		for n := 2; n <= len(d.Workloads); n++ {
			j, taken := first[w.Label]
			if !taken || SameWork(w, &d.Workloads[j]) {
				break
			}
			w.Label = fmt.Sprintf("%s #%d", autoLabel(k, w.Params), n)
		}
		d.claim(first, i, w.Label, p)
	}
}

func (d *draft) claim(first map[string]int, i int, label string, p *problems) {
	if j, twice := first[label]; twice {
		where := ""
		if at := d.place(d.workAt, j); at.line > 0 {
			where = fmt.Sprintf(" (the first is in line %d)", at.line)
		}
		p.add(d.place(d.workAt, i), "workload %s is given twice%s; give one of them another label", quote(label), where)
		return
	}
	first[label] = i
}

// addEnvironment adds or replaces one environment given as text, as on the command line.
func (d *draft) addEnvironment(r *reader, text string, at pos) {
	spec, err := env.ParseSpec(text)
	if err != nil {
		r.p.add(at, "%v", err)
		return
	}
	var others []string
	for i := range d.Targets {
		others = append(others, d.Targets[i].Name)
	}
	r.checkSpec(&written{name: spec.Name, at: at, spec: spec}, others)
	e := Target{Name: spec.Name, Spec: spec, Text: spec.String()}
	for i := range d.Targets {
		if d.Targets[i].Name == e.Name {
			d.Targets[i] = e
			return
		}
	}
	d.Targets = append(d.Targets, e)
}

// addMount adds or replaces one mount given as text, as on the command line.
func (d *draft) addMount(r *reader, text string, at pos) {
	of, spec, err := env.ParseMount(text)
	if err != nil {
		r.p.add(at, "%v", err)
		return
	}
	parent, ok := d.Target(of)
	if !ok || parent.IsMount() {
		r.p.add(at, "mount %s: there is no such environment in the plan%s", text,
			suggest.MeantOrAll(of, d.names(), "there are:"))
		return
	}
	e := Target{Name: of + ":" + spec.Name, Of: of, Spec: spec, Text: spec.String()}
	r.checkMount(&written{name: e.Name, at: at, spec: spec}, parent.Spec)
	for i := range d.Targets {
		if d.Targets[i].Name == e.Name {
			d.Targets[i] = e
			return
		}
	}
	d.Targets = append(d.Targets, e)
}

// check holds that a plan out of a bundle is complete; nothing is filled in, because a default of this build need not
// be the one the run had.
func (d *draft) check(p *problems) {
	at := d.baselineAt
	at.line, at.col = max(1, at.line), max(1, at.col)
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"schema", d.Schema == 0}, {"baseline", d.Baseline == ""}, {"seed", d.Seed == 0}, {"mode", d.Mode == ""},
		{"trial", d.Trial == 0}, {"sessions", d.Sessions == 0}, {"looks", len(d.Looks) == 0}, {"alpha", d.Alpha == 0},
		{"look_alpha", d.LookAlpha == 0}, {"margin", d.Margin == 0}, {"tail_margin", d.TailMargin == 0},
		{"precision", d.Precision == 0}, {"environments", len(d.Targets) == 0},
	} {
		if f.missing {
			p.add(at, "%s is missing; a resolved plan has it", f.name)
		}
	}
	if d.Baseline != "" {
		d.chooseBaseline(p)
	}
	d.placeNeighbours(nil, p)
	d.disturb(p)
	d.placeCopies(nil, p)
	d.resolveTargets(p)
	first := map[string]int{}
	for i := range d.Workloads {
		if d.Workloads[i].Label == "" {
			p.add(d.place(d.workAt, i), "this workload has no label; a resolved plan has it")
			continue
		}
		d.claim(first, i, d.Workloads[i].Label, p)
	}
}
