package plan

import (
	"maps"
	"slices"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/suggest"
)

// Neighbour is a load that runs in other environments of the run while trials are timed.
//
// For each target that it disturbs the plan has another one, named TARGET+NEIGHBOUR: the same environment or mount,
// with the neighbour at work beside it, compared with the target as it is alone.
type Neighbour struct {
	Name   string          `yaml:"name" json:"name"`     // unique in the plan
	Label  string          `yaml:"label" json:"label"`   // what it does, as reports show it: "cpu.prime threads=8"
	Kind   string          `yaml:"kind" json:"kind"`     // of its work
	Params workload.Params `yaml:"params" json:"params"` // of its work, resolved
	// In has for each target that it disturbs the environment or mount in which it runs meanwhile.
	In map[string]string `yaml:"in" json:"in"`
}

// Work is what the neighbour does, as a workload without targets.
func (n *Neighbour) Work() *Workload {
	return &Workload{Label: n.Label, Kind: n.Kind, Params: n.Params}
}

// Neighbour returns the neighbour of that name.
func (p *Plan) Neighbour(name string) (*Neighbour, bool) {
	for i := range p.Beside {
		if p.Beside[i].Name == name {
			return &p.Beside[i], true
		}
	}
	return nil, false
}

// Measured tells whether any work is measured in a target: an environment may be there for a neighbour only.
func (p *Plan) Measured(target string) bool {
	return slices.ContainsFunc(p.Workloads, func(w Workload) bool { return w.On(target) })
}

// Bounds of neighbours.
const (
	maxNeighbours = 32
	// maxTargets bounds the targets of a plan with those that have a neighbour.
	maxTargets = 4 * maxEnvironments
)

// neighbour is a neighbour as written.
type neighbour struct {
	Neighbour
	place               string   // where it runs; "" if In says that for each target
	targets             []string // what it disturbs, where place is set; nil: all environments that are measured
	at, inAt, targetsAt pos
}

// neighbourKeys are the keys of a neighbour.
var neighbourKeys = []string{"in", "workload", "targets"}

const neighbourForm = "{ in: ENVIRONMENT, workload: KIND }"

// beside reads the neighbours.
func (r *reader) beside(d *draft, n *node) {
	if n.kind != mapping {
		r.p.add(n.at, "expected a mapping of names to neighbours, such as `hog: %s`, found %s", neighbourForm, n.kind)
		return
	}
	if len(n.keys) > maxNeighbours {
		r.p.add(n.at, "%d neighbours are more than %d", len(n.keys), maxNeighbours)
		return
	}
	for _, e := range n.keys {
		if err := env.CheckName(e.key); err != nil {
			r.p.add(e.at, "%v", err)
			continue
		}
		if nb, ok := r.neighbour(e); ok {
			d.beside = append(d.beside, nb)
		}
	}
}

func (r *reader) neighbour(e *entry) (nb neighbour, ok bool) {
	nb = neighbour{Neighbour: Neighbour{Name: e.key}, at: e.at, inAt: e.at, targetsAt: e.at}
	if e.value.kind != mapping {
		r.p.add(e.value.at, "neighbour %s: expected %s, found %s", e.key, neighbourForm, e.value.kind)
		return nb, false
	}
	ok = true
	var work *node
	for _, k := range e.value.keys {
		switch k.key {
		case "in":
			nb.inAt = k.value.at
			ok = r.neighbourIn(&nb, k.value) && ok
		case "targets":
			nb.targetsAt, nb.targets = k.value.at, r.names(k.value)
			ok = ok && nb.targets != nil
		case "workload":
			work = k.value
		default:
			r.p.add(k.at, "neighbour %s: there is no key %q%s", e.key, k.key,
				suggest.MeantOrAll(k.key, neighbourKeys, "there are:"))
			ok = false
		}
	}
	switch {
	case !ok:
		return nb, false
	case work == nil || nb.place == "" && nb.In == nil:
		r.p.add(e.at, "neighbour %s: write what it does and where: %s", e.key, neighbourForm)
		return nb, false
	case nb.In != nil && nb.targets != nil:
		r.p.add(nb.targetsAt, "neighbour %s: the keys of in already name the targets; leave targets out", e.key)
		return nb, false
	}
	all, _ := r.workload(work)
	return nb, r.does(&nb, all, work.at)
}

// neighbourIn reads where a neighbour runs: a name, or a mapping of what it disturbs to where it runs meanwhile.
func (r *reader) neighbourIn(nb *neighbour, n *node) bool {
	if n.kind != mapping {
		var ok bool
		nb.place, ok = r.value(n, "the name of an environment, or a mapping such as { box: box-2, vm: vm-2 }")
		return ok
	}
	nb.In = map[string]string{}
	for _, e := range n.keys {
		place, ok := r.value(e.value, "the name of an environment")
		if !ok {
			return false
		}
		nb.In[e.key] = place
	}
	if len(nb.In) == 0 {
		r.p.add(n.at, "neighbour %s: in is empty; name an environment in which it runs", nb.Name)
	}
	return len(nb.In) > 0
}

// does gives a neighbour its work, of what was read of it, and tells whether it can do that.
func (r *reader) does(nb *neighbour, all []Workload, at pos) bool {
	if len(all) == 0 {
		return false // the mistake has been told
	}
	w := &all[0]
	switch {
	case len(all) > 1:
		r.p.add(at, "neighbour %s: it does one thing; the lists and ranges of parameters give %d workloads", nb.Name,
			len(all))
		return false
	case len(w.Targets) > 0 || w.Baseline != "" || w.Trial > 0 || len(w.Vary) > 0 || len(w.Work) > 0:
		r.p.add(at, "neighbour %s: its workload has a kind and parameters, and nothing else", nb.Name)
		return false
	}
	nb.Kind, nb.Params, nb.Label = w.Kind, w.Params, w.Label
	if r.t == nil {
		if nb.Label == "" { // a resolved plan has it
			nb.Label = w.Kind
		}
		return true
	}
	k := r.t.kind(w.Kind)
	if nb.Label == "" {
		nb.Label = autoLabel(k, w.Params)
	}
	if why := notBeside(k); why != "" {
		r.p.add(at, "neighbour %s: %s cannot be a neighbour: %s", nb.Name, w.Kind, why)
		return false
	}
	return true
}

// notBeside says why work of a kind cannot be a neighbour; "" if it can.
func notBeside(k *workload.Kind) string {
	switch {
	case k.Controller:
		return "the controller does it itself, which is busy with the trial"
	case k.Needs.Peer:
		return "its other end is a process of the run's, which is there for what is measured"
	case k.SameWork:
		return "it replays a log from beginning to end, and a neighbour works for as long as a trial takes"
	}
	return ""
}

// flagBeside adds the neighbours of the command line: [NAME=]ENVIRONMENT:KIND[:key=value,...].
func (d *draft) flagBeside(texts []string, t *Tables, p *problems) {
	r := &reader{t, p}
	for _, text := range texts {
		at := pos{file: "--beside " + text}
		name, rest, named := strings.Cut(text, "=")
		if !named || strings.Contains(name, ":") {
			name, rest = "", text
		}
		place, work, ok := d.cutPlace(rest)
		if !ok {
			p.add(at, "expected [NAME=]ENVIRONMENT:WORKLOAD, such as other:cpu.prime:threads=2")
			continue
		}
		nb := neighbour{Neighbour: Neighbour{Name: name}, place: place, at: at, inAt: at, targetsAt: at}
		if kind, _, _ := strings.Cut(work, ":"); name == "" {
			nb.Name = kind
		}
		if err := env.CheckName(nb.Name); err != nil {
			p.add(at, "%v", err)
			continue
		}
		all, err := parseWork(work, t)
		if err != nil {
			p.add(at, "%s", oneLine(err.Error()))
			continue
		}
		if !r.does(&nb, all, at) {
			continue
		}
		i := slices.IndexFunc(d.beside, func(x neighbour) bool { return x.Name == nb.Name })
		switch {
		case i < 0:
			d.beside = append(d.beside, nb)
		case strings.HasPrefix(d.beside[i].at.file, "--beside "):
			p.add(at, "neighbour %s is given twice; give one of them a name: --beside NAME=%s", nb.Name, rest)
		default:
			d.beside[i] = nb // as -e replaces the plan's environment of that name
		}
	}
	if len(d.beside) > maxNeighbours {
		p.add(pos{file: "--beside"}, "%d neighbours are more than %d", len(d.beside), maxNeighbours)
	}
}

// cutPlace parts ENVIRONMENT:WORK. What stands before the work may be a mount of the plan, which has a colon as well.
func (d *draft) cutPlace(text string) (place, work string, ok bool) {
	for i := range d.Targets {
		if e := &d.Targets[i]; e.IsMount() {
			if work, ok = strings.CutPrefix(text, e.Name+":"); ok && work != "" {
				return e.Name, work, true
			}
		}
	}
	place, work, ok = strings.Cut(text, ":")
	return place, work, ok && place != "" && work != ""
}

// alone takes the neighbours and copies of a resolved plan apart again, so that flags can be laid over it.
func (d *draft) alone() {
	for _, n := range d.Beside {
		at := pos{file: "plan"}
		d.beside = append(d.beside, neighbour{Neighbour: n, at: at, inAt: at, targetsAt: at})
	}
	d.Beside = nil
	d.Targets = slices.DeleteFunc(d.Targets, func(e Target) bool { return e.Like != "" })
}

// withPlaces adds to a selection the environments in which the neighbours of selected targets run.
func (d *draft) withPlaces(selected []Target) []Target {
	has := func(name string) bool {
		return slices.ContainsFunc(selected, func(e Target) bool { return e.Name == name })
	}
	wanted := map[string]bool{}
	for i := range d.beside {
		nb := &d.beside[i]
		for target, place := range nb.In {
			wanted[place] = wanted[place] || has(target)
		}
		if nb.place != "" {
			wanted[nb.place] = wanted[nb.place] || nb.targets == nil || slices.ContainsFunc(nb.targets, has)
		}
	}
	for i := range d.Targets {
		if e := &d.Targets[i]; e.IsMount() && wanted[e.Name] {
			wanted[e.Of] = true
		}
	}
	for i := range d.Targets {
		if e := &d.Targets[i]; wanted[e.Name] && !has(e.Name) {
			selected = append(selected, *e)
		}
	}
	return selected
}

// explicit tells of each workload whether its targets were named.
func (d *draft) explicit() []bool {
	named := make([]bool, len(d.Workloads))
	for i := range d.Workloads {
		named[i] = len(d.Workloads[i].Targets) > 0
	}
	return named
}

// onlyPlaces are the targets that are there for neighbours: the plan says nothing else of them.
func (d *draft) onlyPlaces(named []bool) map[string]bool {
	only := map[string]bool{}
	place := func(name string) {
		only[name] = true
		if e, ok := d.Target(name); ok && e.IsMount() {
			only[e.Of] = true
		}
	}
	for i := range d.beside {
		nb := &d.beside[i]
		if nb.place != "" {
			place(nb.place)
		}
		for _, name := range nb.In {
			place(name)
		}
	}
	for i := range d.beside {
		for target := range d.beside[i].In {
			delete(only, target)
		}
		for _, target := range d.beside[i].targets {
			delete(only, target)
		}
	}
	delete(only, d.Baseline)
	for i := range d.Targets {
		delete(only, d.Targets[i].Against)
	}
	for i := range d.Workloads {
		delete(only, d.Workloads[i].Baseline)
		for _, target := range d.Workloads[i].Targets {
			if named == nil || named[i] {
				delete(only, target)
			}
		}
	}
	return only
}

// placeNeighbours finds for each neighbour what it disturbs and where it runs. What flags or this machine have left out
// of the plan takes its neighbours with it.
func (d *draft) placeNeighbours(named []bool, p *problems) {
	d.Beside = nil
	if len(d.beside) == 0 {
		return
	}
	only := d.onlyPlaces(named)
	names := d.names()
	for i := range d.beside {
		nb := &d.beside[i]
		n, out := nb.Neighbour, false
		there := func(name string, at pos) bool {
			if contains(names, name) {
				return true
			}
			if !d.gone[name] {
				p.add(at, "neighbour %s: there is no environment %s in the plan%s", nb.Name, quote(name),
					suggest.MeantOrAll(name, names, "there are:"))
			}
			out = true
			return false
		}
		n.In = map[string]string{}
		pairs := nb.In
		if nb.place != "" {
			pairs = map[string]string{}
			for _, target := range d.victims(nb, only) {
				pairs[target] = nb.place
			}
			there(nb.place, nb.inAt)
		}
		for _, target := range slices.Sorted(maps.Keys(pairs)) {
			place := pairs[target]
			if !there(target, nb.targetsAt) || !there(place, nb.inAt) {
				continue
			}
			victim, _ := d.Target(target)
			in, _ := d.Target(place)
			if victim.Place() == in.Place() {
				p.add(nb.inAt, "neighbour %s: it cannot run in %s while %s is measured, because an environment does "+
					"one thing at a time; add another one like it for the neighbour", nb.Name, place, target)
				out = true
				continue
			}
			n.In[target] = place
		}
		switch {
		case len(n.In) > 0:
			d.Beside = append(d.Beside, n)
		case !out:
			p.add(nb.inAt, "neighbour %s disturbs nothing: no other environment than %s is measured; add one for the "+
				"neighbour, such as -e other=local", nb.Name, nb.place)
		}
	}
	d.leaveToNeighbours(named, only)
}

// victims are what a neighbour disturbs that runs in one place.
func (d *draft) victims(nb *neighbour, only map[string]bool) []string {
	if nb.targets != nil {
		return nb.targets
	}
	in, ok := d.Target(nb.place)
	if !ok {
		return nil
	}
	var all []string
	for i := range d.Targets {
		if e := &d.Targets[i]; e.Opens() && !only[e.Name] && e.Name != in.Place() {
			all = append(all, e.Name)
		}
	}
	return all
}

// leaveToNeighbours keeps work that does not name its targets out of those that are there for neighbours only.
func (d *draft) leaveToNeighbours(named []bool, only map[string]bool) {
	if len(only) == 0 || named == nil {
		return
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		if named[i] {
			continue
		}
		if len(w.Targets) == 0 {
			w.Targets = d.names()
		}
		w.Targets = slices.DeleteFunc(slices.Clone(w.Targets), func(n string) bool { return only[n] })
	}
}

// disturb makes a target of each that a neighbour disturbs, behind it.
func (d *draft) disturb(p *problems) {
	if len(d.Beside) == 0 {
		return
	}
	var all []Target
	for _, e := range d.Targets {
		all = append(all, e)
		for i := range d.Beside {
			n := &d.Beside[i]
			if n.In[e.Name] == "" {
				continue
			}
			v := d.like(&e, besideName(e.Name, n.Name))
			v.Of, v.Beside = e.Of, n.Name
			all = append(all, v)
		}
	}
	if len(all) > maxTargets {
		p.add(d.beside[0].at, "with their neighbours there are %d targets, more than %d", len(all), maxTargets)
		return
	}
	d.Targets = all
}

// like makes another target of what e is made of, with the same variations. It is compared with e.
func (d *draft) like(e *Target, name string) Target {
	v := Target{Name: name, Spec: e.Spec, Text: e.Text, Like: e.Name}
	v.Spec.Settings = maps.Clone(e.Spec.Settings)
	if e.Name != d.Baseline {
		v.Against = e.Name
	}
	for i := range d.Workloads {
		if vary, ok := d.Workloads[i].Vary[e.Name]; ok {
			d.Workloads[i].Vary[name] = maps.Clone(vary)
		}
	}
	return v
}

// besideName is the name of a target with a neighbour. No other name has a plus sign.
func besideName(target, neighbour string) string { return target + "+" + neighbour }

func cloneBeside(all []Neighbour) []Neighbour {
	out := slices.Clone(all)
	for i := range out {
		out[i].Params, out[i].In = maps.Clone(out[i].Params), maps.Clone(out[i].In)
	}
	return out
}

// besideWithout leaves targets out of what neighbours disturb and of where they run. What is left without a neighbour
// is added to targets, which grows.
func (p *Plan) besideWithout(targets map[string]bool) []Neighbour {
	lost := func(name string) bool {
		e, ok := p.Target(name)
		return !ok || targets[name] || targets[e.Of]
	}
	var out []Neighbour
	for _, n := range cloneBeside(p.Beside) {
		for target, place := range n.In {
			if lost(target) || lost(place) {
				delete(n.In, target)
				targets[besideName(target, n.Name)] = true
			}
		}
		if len(n.In) > 0 {
			out = append(out, n)
		}
	}
	return out
}
