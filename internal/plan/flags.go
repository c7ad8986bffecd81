package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/suggest"
)

// Flags is what the command line says of a run. The zero value says nothing.
type Flags struct {
	// Environments are the values of -e: NAME[=DRIVER[:ARG][?key=value&...]]. When all of them are bare names of the
	// plan's environments they select these; otherwise they are added, or replace the plan's of the same name. One that
	// has mounts by itself, such as a project's machine, selects: see ownFolders.
	Environments []string
	// Mounts are the values of -m: ENVIRONMENT:NAME[=KIND[:ARG][?key=value&...]]. They are added, or replace the plan's
	// of the same name.
	Mounts   []string
	Baseline string // -b
	// Workloads are the values of -w: KIND[:key=value,...]. When all of them are bare labels or kinds of the plan's
	// workloads they select these; otherwise they are added. A value may hold a comma as `\,` and a backslash as `\\`,
	// or be quoted (key="a,b"); the value of command= is everything that follows it.
	Workloads []string
	// Beside are the values of --beside: [NAME=]ENVIRONMENT:KIND[:key=value,...]. They are added, or replace the plan's
	// neighbours of the same name.
	Beside []string
	// Copies is the value of --copies: the greatest number of copies, or all numbers with commas between; "" leaves the
	// plan's.
	Copies string
	// CopiesFlag is the name of that flag where it has another one, for messages: "--max".
	CopiesFlag string
	Floor      string // --floor: 0.5 or 50%; "" leaves the plan's
	// Energy is the value of --energy: auto, rapl, battery or meter:COMMAND, whose words are split as a shell does; ""
	// leaves the plan's.
	Energy string
	// Set are the values of --set: WORKLOAD:key=value,... They change parameters of the plan's workloads with that
	// label or of that kind.
	Set    []string
	Mode   Mode           // --quick, --full; "" leaves the plan's
	Budget *time.Duration // --budget; 0 means no bound
	Blocks int            // --blocks: most blocks; 0 leaves the plan's looks
	// Sessions is how often the environments are opened: --sessions; 0 leaves the plan's.
	Sessions int
	Seed     uint64 // --seed; 0 leaves the plan's
	// SeedElse is the seed where neither Seed nor the plan says one; with 0 one is drawn.
	SeedElse uint64
}

// ParseWithFlags is Parse with the command line laid over the file before anything is filled in: what the file does not
// say follows the flags, and when it names no environments, those of the flags are all there are.
func ParseWithFlags(file string, src []byte, f Flags, t Tables) (*Plan, error) {
	p := &problems{}
	d := readDraft(file, src, &t, p)
	if p.any() {
		return nil, p.err()
	}
	d.resolveLabels(&t, p)
	return d.withFlags(f, &t, p)
}

// FromFlags makes a plan of the command line alone (base nil) or lays it over base, which is not changed. With another
// mode, what has the old mode's default takes the new mode's. The error is of type Errors and names the flag.
func FromFlags(base *Plan, f Flags, t Tables) (*Plan, error) {
	d := &draft{envAt: map[string]pos{}, againAt: map[string]pos{}, looksAt: pos{file: "looks"},
		sessionsAt: pos{file: "sessions"}}
	if base != nil {
		d.Plan = clone(base)
		d.alone()
		if slices.Equal(d.Looks, base.defaultLooks()) {
			d.Looks = nil
		}
		if f.Mode != "" && f.Mode != base.Mode {
			if d.Trial == DefaultTrial(base.Mode) {
				d.Trial = 0
			}
			if d.MostSessions > 1 { // it was not the plan that said how often
				d.Sessions, d.MostSessions = 0, 0
			}
		}
	}
	return d.withFlags(f, &t, &problems{})
}

// withFlags lays the flags over the draft and resolves it.
func (d *draft) withFlags(f Flags, t *Tables, p *problems) (*Plan, error) {
	switch f.Mode {
	case "":
	case Quick, Full:
		d.Mode = f.Mode
	default:
		p.add(pos{file: "mode " + string(f.Mode)}, "expected quick or full")
	}
	if f.Blocks < 0 || f.Blocks > MostBlocks {
		p.add(pos{file: "--blocks"}, "expected a whole number from 1 to %d, found %d", MostBlocks, f.Blocks)
	}
	if f.Blocks > 0 {
		d.blocks, d.blocksAt = f.Blocks, pos{file: "--blocks"}
	}
	if f.Sessions < 0 || f.Sessions > MaxSessions {
		p.add(pos{file: "--sessions"}, "expected a whole number from 1 to %d, found %d", MaxSessions, f.Sessions)
	}
	if f.Sessions > 0 {
		d.Sessions, d.MostSessions, d.sessionsAt = f.Sessions, 0, pos{file: "--sessions"}
	}
	if f.Budget != nil {
		d.Budget = *f.Budget
		if d.Budget < 0 || d.Budget > maxBudget {
			p.add(pos{file: "--budget"}, "%v is out of range: expected a duration up to %v", d.Budget, maxBudget)
		}
	}
	if f.Seed != 0 {
		d.Seed = f.Seed
	}
	if d.Seed == 0 {
		d.Seed = f.SeedElse
	}
	named, planned := len(d.Targets) > 0, slices.Clone(d.Targets)
	d.flagEnvironments(f.Environments, &reader{t, p})
	if len(f.Mounts) > 0 && len(d.Targets) == 0 {
		d.here(t, p)
	}
	d.ownFolders(f, &reader{t, p})
	for _, text := range f.Mounts {
		if !d.bringBack(planned, text) {
			d.addMount(&reader{t, p}, text, pos{file: "-m " + text})
		}
	}
	if len(f.Environments) > 0 {
		d.forget() // not before -m has brought back mounts
	}
	for _, e := range planned {
		if _, ok := d.Target(e.Name); !ok {
			d.leftOut([]string{e.Name})
		}
	}
	d.flagBeside(f.Beside, t, p)
	d.flagCopies(&f, p)
	d.flagEnergy(f.Energy, p)
	if f.Baseline != "" {
		d.Baseline, d.baselineAt = f.Baseline, pos{file: "-b " + f.Baseline}
	} else if _, ok := d.Target(d.Baseline); !ok && named && len(f.Environments) > 0 {
		d.Baseline = "" // the plan's baseline was not selected
	}
	d.flagWorkloads(f.Workloads, t, p)
	d.setAll(f.Set, t, p)
	if len(d.Workloads) == 0 && !p.any() {
		p.add(pos{file: "-w"}, "name at least one workload; `tare list workloads` shows them")
	}
	if !p.any() {
		d.resolve(t, p)
	}
	if p.any() {
		return nil, p.err()
	}
	return &d.Plan, nil
}

// defaultLooks are the looks the plan would have had without a word about them, or nil when it is refused.
func (p *Plan) defaultLooks() []int {
	d := &draft{Plan: *p}
	d.Looks = nil
	if d.MostSessions > 1 {
		d.Sessions = 1 // as it was before the run found out
	}
	var refused problems
	d.chooseLooks(&refused)
	return d.Looks
}

func clone(p *Plan) Plan {
	c := *p
	c.Looks = slices.Clone(p.Looks)
	c.Targets = slices.Clone(p.Targets)
	for i := range c.Targets {
		c.Targets[i].Spec.Settings = maps.Clone(c.Targets[i].Spec.Settings)
	}
	c.Beside, c.Copies, c.Slurm = cloneBeside(p.Beside), p.Copies.clone(), p.Slurm.clone()
	c.Workloads = slices.Clone(p.Workloads)
	for i := range c.Workloads {
		w := &c.Workloads[i]
		w.Params, w.Targets, w.Work = maps.Clone(w.Params), slices.Clone(w.Targets), maps.Clone(w.Work)
		w.Vary = cloneVary(w.Vary)
	}
	return c
}

func cloneVary(vary map[string]workload.Params) map[string]workload.Params {
	out := maps.Clone(vary)
	for target, p := range out {
		out[target] = maps.Clone(p)
	}
	return out
}

func (d *draft) flagEnvironments(texts []string, r *reader) {
	if len(texts) == 0 {
		return
	}
	mounts := d.mountsMeant(texts, r.t)
	var selected []Target
	given := map[string]bool{}
	for _, text := range texts {
		// What the plan has is meant by its whole name: vm and vm:9p are two.
		name := text
		if e, ok := d.Target(text); ok {
			selected = append(selected, *e)
		} else if s, err := env.ParseSpec(text); err == nil && !mounts[text] {
			name = s.Name
		}
		if given[name] {
			r.p.add(pos{file: "-e " + text}, "environment %s is given twice", name)
		}
		given[name] = true
	}
	if len(selected) == len(texts) {
		d.Targets = d.withPlaces(d.withHosts(selected))
		for i := range d.Targets {
			if e := &d.Targets[i]; e.Against != "" {
				if _, ok := d.Target(e.Against); !ok {
					e.Against = "" // it was not selected, so the baseline has to do
				}
			}
		}
		return
	}
	for _, text := range texts {
		switch _, ok := d.Target(text); {
		case ok:
		case mounts[text]:
			r.p.add(pos{file: "-e " + text}, "the plan has no mount of that name; -m %s adds one", text)
		default:
			d.addEnvironment(r, text, pos{file: "-e " + text})
		}
	}
	if len(d.Targets) > maxEnvironments {
		r.p.add(pos{file: "-e"}, "%d environments are more than %d", len(d.Targets), maxEnvironments)
	}
}

// bringBack selects a mount of the plan by its bare name, with its settings and with what it is compared with.
func (d *draft) bringBack(planned []Target, name string) bool {
	i := slices.IndexFunc(planned, func(e Target) bool { return e.IsMount() && e.Name == name })
	if i < 0 {
		return false
	}
	e := planned[i]
	if parent, ok := d.Target(e.Of); !ok || parent.IsMount() {
		return false
	}
	if _, ok := d.Target(name); ok {
		return true
	}
	if _, ok := d.Target(e.Against); !ok {
		e.Against = "" // it was not selected, so the baseline has to do
	}
	d.Targets = append(d.Targets, e)
	return true
}

// ownFolders adds the mounts that environments given by -e have by themselves, unless -m names some in them. The
// question of a plan is then asked about these: workloads that the plan limits to some mounts go to them, too, and
// environments of the plan that -e does not name are not selected.
func (d *draft) ownFolders(f Flags, r *reader) {
	if r.t.Declared == nil {
		return
	}
	var added []string
	keep := map[string]bool{}
	for _, text := range f.Environments {
		var s env.Spec
		if e, ok := d.Target(text); ok { // one that the plan names
			keep[e.Place()] = true
			if e.IsMount() {
				continue
			}
			s = e.Spec
		} else {
			var err error
			s, err = env.ParseSpec(text)
			if e, ok := d.Target(s.Name); err != nil || !ok || e.Text != s.String() {
				continue
			}
		}
		keep[s.Name] = true
		if slices.ContainsFunc(f.Mounts, func(m string) bool { return strings.HasPrefix(m, s.Name+":") }) ||
			len(d.Mounts(s.Name)) > 0 {
			continue
		}
		own, err := r.t.Declared(s)
		if err != nil {
			r.p.add(pos{file: "-e " + text}, "%v", err)
		}
		for _, m := range own {
			name := s.Name + ":" + m.Name
			d.Targets = append(d.Targets, Target{Name: name, Of: s.Name, Spec: m, Text: m.String(), Against: s.Name})
			added = append(added, name)
		}
		if len(own) > 0 {
			added = append(added, s.Name)
		}
	}
	if len(added) == 0 {
		return
	}
	d.Targets = slices.DeleteFunc(d.Targets, func(e Target) bool { return !keep[e.Place()] })
	for i := range d.Workloads {
		w := &d.Workloads[i]
		if slices.ContainsFunc(w.Targets, func(n string) bool { _, _, mount := env.CutMount(n); return mount }) {
			for _, name := range added {
				if !slices.Contains(w.Targets, name) {
					w.Targets = append(w.Targets, name)
				}
			}
		}
	}
}

// mountsMeant are the values of -e that read as mounts which the plan does not have: what stands before the colon is an
// environment of the plan or of the command line, and no driver.
func (d *draft) mountsMeant(texts []string, t *Tables) map[string]bool {
	given := map[string]bool{}
	for _, text := range texts {
		if s, err := env.ParseSpec(text); err == nil {
			if _, ok := t.Drivers.Lookup(s.Driver); ok {
				given[s.Name] = true
			}
		}
	}
	meant := map[string]bool{}
	for _, text := range texts {
		of, _, ok := env.CutMount(text)
		if _, planned := d.Target(text); !ok || planned {
			continue
		}
		_, driver := t.Drivers.Lookup(of)
		_, environment := d.Target(of)
		meant[text] = !driver && (environment || given[of])
	}
	return meant
}

// withHosts adds to a selection the environments that selected mounts are in.
func (d *draft) withHosts(selected []Target) []Target {
	if !slices.ContainsFunc(selected, func(s Target) bool { return s.IsMount() }) {
		return selected
	}
	var out []Target
	for i := range d.Targets {
		e := &d.Targets[i]
		if slices.ContainsFunc(selected, func(s Target) bool { return s.Name == e.Name || s.Of == e.Name }) {
			out = append(out, *e)
		}
	}
	return out
}

// forget removes what workloads say of environments that were not selected. A workload whose only target was the
// baseline's company is gone with it, and so is one whose load comes from an environment that is gone.
func (d *draft) forget() {
	kept := d.Workloads[:0]
	d.workAt, d.targetsAt = nil, nil
	for _, w := range d.Workloads {
		maps.DeleteFunc(w.Work, func(name string, _ int64) bool { _, ok := d.Target(name); return !ok })
		if len(w.Work) == 0 {
			w.Work = nil
		}
		maps.DeleteFunc(w.Vary, func(name string, _ workload.Params) bool { _, ok := d.Target(name); return !ok })
		had := len(w.Targets)
		w.Targets = slices.DeleteFunc(w.Targets, func(name string) bool { _, ok := d.Target(name); return !ok })
		if _, ok := d.Target(w.Baseline); !ok && w.Baseline != "" { // another one of them takes its place
			w.Baseline = d.leader(w.Targets)
		}
		// One that offers load was no company: a workload that had but one target keeps it.
		alone := len(w.Crowd()) == 0 || had > len(w.Targets)
		if had > 0 && len(w.Targets) == 0 || !d.has(w.Crowd()) ||
			len(d.Targets) > 1 && alone && slices.Equal(w.Targets, []string{w.Baseline}) {
			continue
		}
		kept = append(kept, w)
	}
	d.Workloads = kept
}

// has tells whether all of some hosts are environments of the plan.
func (d *draft) has(hosts []workload.Share) bool {
	return !slices.ContainsFunc(hosts, func(h workload.Share) bool { _, ok := d.Target(h.Name); return !ok })
}

// leader is what the first of some targets is compared with in the end, but for the plan's baseline.
func (d *draft) leader(targets []string) string {
	if len(targets) == 0 {
		return ""
	}
	name := targets[0]
	for range d.Targets {
		if e, ok := d.Target(name); ok && e.Against != "" {
			name = e.Against
		}
	}
	return name
}

// setAll changes parameters of workloads. Labels that were made of the parameters are made again of the new ones.
func (d *draft) setAll(texts []string, t *Tables, p *problems) {
	var made []*Workload
	for i := range d.Workloads {
		w := &d.Workloads[i]
		if k := t.kind(w.Kind); k != nil && len(texts) > 0 && w.Label == autoLabel(k, w.Params) {
			made = append(made, w)
		}
	}
	for _, text := range texts {
		if err := d.set(text, t); err != nil {
			p.add(pos{file: "--set " + text}, "%s", oneLine(err.Error()))
		}
	}
	for _, w := range made {
		w.Label = ""
	}
}

// set changes parameters of the workloads that a value of --set means.
func (d *draft) set(text string, t *Tables) error {
	var names []string
	meant := func(w *Workload) (pairs string, ok bool) {
		for _, name := range []string{w.Label, w.Kind} {
			if rest, ok := strings.CutPrefix(text, name+":"); ok {
				return rest, true
			}
		}
		names = append(names, w.Kind)
		return "", false
	}
	found := false
	for i := range d.Workloads {
		w := &d.Workloads[i]
		rest, ok := meant(w)
		if !ok {
			continue
		}
		found = true
		pairs, err := splitPairs(rest)
		if err != nil {
			return err
		}
		if len(pairs) == 0 {
			return fmt.Errorf("expected key=value after %s", text)
		}
		k := t.kind(w.Kind)
		params := maps.Clone(map[string]string(w.Params))
		for _, kv := range pairs {
			params[kv[0]] = kv[1]
		}
		if w.Params, err = k.Resolve(params); err != nil {
			return err
		}
		if err := together(k, w.Params); err != nil {
			return err
		}
		if err := w.resolveVary(k); err != nil {
			return err
		}
		w.Work = nil // it was frozen for other parameters
	}
	if !found {
		name, _, _ := strings.Cut(text, ":")
		slices.Sort(names)
		return fmt.Errorf("expected WORKLOAD:key=value with a kind or a label of the plan's workloads%s",
			suggest.MeantOrAll(name, slices.Compact(names), "the kinds are"))
	}
	return nil
}

func (d *draft) flagWorkloads(texts []string, t *Tables, p *problems) {
	if len(texts) == 0 {
		return
	}
	var selected []Workload
	all := true
	for _, text := range texts {
		found := false
		for _, w := range d.Workloads {
			if w.Label == text || w.Kind == text {
				found = true
				if !slices.ContainsFunc(selected, func(s Workload) bool { return s.Label == w.Label }) {
					selected = append(selected, w)
				}
			}
		}
		all = all && found
	}
	if all {
		d.Workloads = selected
		d.workAt, d.targetsAt = nil, nil // they are the places of workloads that are no longer there
		return
	}
	for len(d.workAt) < len(d.Workloads) {
		d.workAt = append(d.workAt, pos{file: "plan"})
	}
	for _, text := range texts {
		at := pos{file: "-w " + text}
		all, err := parseWork(text, t)
		if err != nil {
			p.add(at, "%s", oneLine(err.Error()))
			continue
		}
		for _, w := range all {
			d.Workloads = append(d.Workloads, w)
			d.workAt = append(d.workAt, at)
		}
	}
	if len(d.Workloads) > maxWorkloads {
		p.add(pos{file: "-w"}, "%d workloads are more than %d", len(d.Workloads), maxWorkloads)
	}
}
