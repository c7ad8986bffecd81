package plan

import (
	"fmt"
	"slices"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/suggest"
)

// checkReach holds that work on the network has a way from each of its targets to the run's peer, as far as the
// settings tell. A plan that leaves out what is missing leaves those targets out of the workload.
func (d *draft) checkReach(t *Tables, p *problems) {
	for i := range d.Workloads {
		w := &d.Workloads[i]
		k := t.kind(w.Kind)
		if k == nil || !k.NeedsPeer(w.Params) {
			continue
		}
		if to := w.Params[workload.ToParam]; to != "" {
			d.checkOtherEnd(i, to, p)
			continue
		}
		var ways []string
		for j := range d.Targets {
			e := &d.Targets[j]
			if e.IsMount() || !w.On(e.Name) {
				continue
			}
			why := unreached(t, e)
			switch {
			case why == nil:
				ways = append(ways, e.Name)
			case d.Missing == Skip && e.Name != d.Baseline:
				if t.LeftOut != nil {
					t.LeftOut(e.Name+" in "+w.Kind, why.Error())
				}
			default:
				p.add(d.place(d.targetsAt, i),
					"%s must reach this machine's loopback, where its other end runs: %v, or leave it out with targets",
					w.Kind, why)
			}
		}
		if d.Missing == Skip && !slices.Equal(ways, d.environmentsOf(w)) {
			w.Targets = ways
		}
	}
}

// checkOtherEnd holds that the other end of a workload is an environment of the plan.
func (d *draft) checkOtherEnd(i int, to string, p *problems) {
	if e, ok := d.Target(to); !ok || e.IsMount() {
		p.add(d.place(d.targetsAt, i), "%s: to: there is no environment %s in the plan%s", d.Workloads[i].Kind,
			quote(to), suggest.MeantOrAll(to, d.environments(), "there are:"))
	}
}

// environments are the names of the plan's environments.
func (d *draft) environments() (names []string) {
	for i := range d.Targets {
		if !d.Targets[i].IsMount() {
			names = append(names, d.Targets[i].Name)
		}
	}
	return names
}

// environmentsOf are the environments among a workload's targets.
func (d *draft) environmentsOf(w *Workload) (names []string) {
	for i := range d.Targets {
		if e := &d.Targets[i]; !e.IsMount() && w.On(e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// unreached says why this machine's loopback is not reached from an environment.
func unreached(t *Tables, e *Target) error {
	info, ok := t.Drivers.Lookup(e.Spec.Driver)
	switch {
	case !ok:
		return nil // said elsewhere
	case info.Reach == nil:
		return fmt.Errorf("%s (%s) cannot; "+env.Ways, e.Name, info.Name)
	}
	return info.Reach(e.Spec)
}
