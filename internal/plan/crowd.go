package plan

import (
	"cmp"
	"slices"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/stack"
	"tare/internal/suggest"
)

// Crowd returns the environments that offer a workload's load together, in the place of its targets; nil where each
// target does its work alone.
func (w *Workload) Crowd() []workload.Share {
	hosts, err := workload.ParseFrom(w.Params[workload.FromParam])
	if err != nil {
		return nil // a plan that was resolved has none such
	}
	return hosts
}

// offeredBy tells whether one of some environments offers a workload's load.
func (w *Workload) offeredBy(environments map[string]bool) bool {
	return slices.ContainsFunc(w.Crowd(), func(h workload.Share) bool { return environments[h.Name] })
}

// Alone tells whether a workload is measured in its baseline only, which then stands against itself: it is the only
// target, or the others are there to offer its load.
func (p *Plan) Alone(w *Workload) bool {
	return len(p.Targets) == 1 || len(w.Targets) == 1 && w.Params[workload.FromParam] != ""
}

// Offers tells whether an environment offers load, with others, to a server elsewhere.
func (p *Plan) Offers(environment string) bool {
	return slices.ContainsFunc(p.Workloads, func(w Workload) bool {
		return w.offeredBy(map[string]bool{environment: true})
	})
}

// Helps tells whether nothing is measured in a target, which is there for a neighbour or offers load.
func (p *Plan) Helps(target string) bool {
	return (len(p.Beside) > 0 || p.Offers(target)) && !p.Measured(target)
}

// placeCrowds holds that what offers a load are environments of the plan, and gives such workloads their targets where
// none were named: all environments that do not offer it or, where one server is loaded that is there already, one.
func (d *draft) placeCrowds(t *Tables, named []bool, p *problems) {
	for i := range d.Workloads {
		w := &d.Workloads[i]
		hosts, err := workload.ParseFrom(w.Params[workload.FromParam])
		if err != nil {
			p.add(d.place(d.workAt, i), "%s: from: %v", w.Kind, err)
		}
		if len(hosts) == 0 || !d.hostsThere(i, hosts, p) {
			continue
		}
		offers := func(name string) bool {
			e, ok := d.Target(name)
			return slices.ContainsFunc(hosts, func(h workload.Share) bool { return ok && h.Name == e.Place() })
		}
		k := t.kind(w.Kind)
		peered := k != nil && k.Needs.Peer
		if peered && (w.Params["server"] != "" || w.Params[workload.ToParam] != "") {
			p.add(d.place(d.workAt, i), "%s: with from, the target is the other end: leave out server and to", w.Kind)
			continue
		}
		url := w.Params["url"]
		there := url != "" && !stack.Names(url) || w.Params["urls"] != "" || w.Params["address"] != ""
		if !named[i] {
			w.Targets = nil
			for _, name := range d.environments() {
				if !offers(name) {
					w.Targets = append(w.Targets, name)
				}
			}
			if there {
				w.Targets = d.oneOf(w.Targets)
			}
		}
		if len(w.Targets) == 0 {
			p.add(d.place(d.workAt, i), "%s: from: all environments offer the load, and none is left for the server; "+
				"add one, or name a server that is there with %s=", w.Kind, thereBy(k))
			continue
		}
		if base := cmp.Or(w.Baseline, d.Baseline); !slices.Contains(w.Targets, base) && (!named[i] || offers(base)) {
			w.Baseline = w.Targets[0]
		}
		for _, name := range w.Targets {
			if offers(name) && !there {
				p.add(d.place(d.targetsAt, i), "%s: %s cannot offer the load and serve it, because an environment "+
					"does "+
					"one thing at a time; leave it out of from or of the targets", w.Kind, name)
			}
			if e, ok := d.Target(name); ok && e.IsMount() && offers(name) {
				p.add(d.place(d.targetsAt, i), "%s: %s is a folder in what offers the load; name its environment",
					w.Kind, name)
			}
		}
	}
	d.leadCrowds()
}

// leadCrowds makes the baseline of all work the plan's, where nobody named one and others offer the load of all of it:
// nothing is compared with what stands there.
func (d *draft) leadCrowds() {
	if !d.assumed || len(d.Workloads) == 0 || d.Workloads[0].Baseline == "" {
		return
	}
	base := d.Workloads[0].Baseline
	other := func(w Workload) bool { return w.Baseline != base || len(w.Crowd()) == 0 }
	if !slices.ContainsFunc(d.Workloads, other) {
		d.Baseline = base
	}
}

// thereBy is the parameter by which work of a kind names a server that is there.
func thereBy(k *workload.Kind) string {
	named := func(p workload.Param) bool { return p.Name == "address" }
	if k != nil && slices.ContainsFunc(k.Params, named) {
		return "address"
	}
	return "url"
}

// oneOf is the baseline, or else the first, of some environments or, if these are none, of all.
func (d *draft) oneOf(names []string) []string {
	if len(names) == 0 {
		names = d.environments()
	}
	if slices.Contains(names, d.Baseline) {
		return []string{d.Baseline}
	}
	return names[:min(1, len(names))]
}

// hostsThere holds that each host of a crowd is an environment of the plan, and is not busy as a neighbour.
func (d *draft) hostsThere(i int, hosts []workload.Share, p *problems) bool {
	w := &d.Workloads[i]
	ok := true
	for _, h := range hosts {
		e, there := d.Target(h.Name)
		if !there || e.IsMount() || e.Like != "" {
			p.add(d.place(d.workAt, i), "%s: from: there is no environment %s in the plan%s", w.Kind, quote(h.Name),
				suggest.MeantOrAll(h.Name, d.environments(), "there are:"))
			ok = false
			continue
		}
		for j := range d.Beside {
			for _, place := range d.Beside[j].In {
				if in, known := d.Target(place); known && in.Place() == h.Name {
					p.add(d.place(d.workAt, i), "%s: from: the neighbour %s works in %s, and an environment does one "+
						"thing at a time", w.Kind, d.Beside[j].Name, h.Name)
					ok = false
				}
			}
		}
	}
	return ok
}
