package cli

import (
	"fmt"
	"io"
	"strings"

	"tare/internal/plan"
	"tare/internal/run/schedule"
	"tare/internal/unit"
)

// forecast describes the run before anything is started.
func (cat *catalog) forecast(w io.Writer, p *plan.Plan, say bool) {
	if !say {
		return
	}
	f := schedule.NewForecast(p, cat.kind)
	names := []string{}
	for _, e := range p.Targets {
		n := e.Name
		if e.Like != "" || len(p.Beside) > 0 && !p.Measured(n) || p.Helps(n) {
			continue // told with the neighbours, the copies or the load
		}
		if n == p.Baseline {
			n += " (baseline)"
		}
		names = append(names, n)
	}
	fmt.Fprintf(w, "targets    %s\n", strings.Join(names, ", "))
	if len(p.Beside) > 0 {
		fmt.Fprintf(w, "neighbours %s\n", strings.TrimSpace(wrap(neighbours(p), 11, 100)))
	}
	if text := loads(p); text != "" {
		fmt.Fprintf(w, "load       %s\n", strings.TrimSpace(wrap(text, 11, 100)))
	}
	if c := p.Copies; c != nil {
		fmt.Fprintf(w, "copies     %s\n", strings.TrimSpace(wrap(fmt.Sprintf("1, %s at once of %s, until each does "+
			"far "+
			"less than %s of what one does alone", joinInts(c.Steps), strings.Join(c.Targets, ", "), percent(c.Floor)),
			11, 100)))
	}
	labels := []string{}
	for _, wl := range p.Workloads {
		labels = append(labels, wl.Label)
	}
	fmt.Fprintf(w, "workloads  %s\n", strings.TrimSpace(wrap(strings.Join(labels, ", "), 11, 100)))
	fmt.Fprintf(w, "cells      %s\n", strings.TrimSpace(wrap(fmt.Sprintf("%d to decide, ", f.Cells)+
		blocksText(p, &f), 11, 100)))
	if f.Disk > 0 {
		fmt.Fprintf(w, "disk       up to %d MiB in each target\n", (f.Disk+1<<20-1)>>20)
	}
	switch {
	case p.Budget > 0 && f.FirstLook > p.Budget:
		fmt.Fprintf(w, "time       at most about %s: the budget may end before the first look, which takes about %s "+
			"for all cells;\n", seconds(f.Most), seconds(f.FirstLook))
		fmt.Fprintf(w, "           then nothing is decided\n")
	case f.Sessions > 1 || f.Least == f.Most && f.MostSessions == 0:
		fmt.Fprintf(w, "time       about %s\n", seconds(f.Least))
	case f.MostSessions > 0:
		fmt.Fprintf(w, "time       about %s in %d sessions; in one, about %s if every cell is decided at its first "+
			"look,\n           at most about %s\n", seconds(f.InSessions), f.MostSessions, seconds(f.Least),
			seconds(f.Most))
	default:
		fmt.Fprintf(w, "time       about %s if every cell is decided at its first look, at most about %s\n",
			seconds(f.Least), seconds(f.Most))
	}
	if len(f.Long) > 0 {
		text := []string{}
		for _, b := range f.Long {
			text = append(text, fmt.Sprintf("%s take about %s", b.Workload, seconds(b.Length)))
		}
		fmt.Fprintf(w, "blocks     %s\n", strings.TrimSpace(wrap("of "+strings.Join(text, ", of ")+": "+
			schedule.LongBlock, 11, 100)))
	}
	fmt.Fprintf(w, "seed       %d\n\n", p.Seed)
}

// blocksText has the number of a cell's blocks, and the looks at them.
func blocksText(p *plan.Plan, f *schedule.Forecast) string {
	once := fmt.Sprintf("%s each, one look after the last", unit.Plural(f.MaxBlocks, "block"))
	switch {
	case f.Sessions > 1:
		return fmt.Sprintf("%s each in each of %d sessions, one look after the last block",
			unit.Plural(f.MaxBlocks, "block"), f.Sessions)
	case f.MinBlocks < f.MaxBlocks:
		once = fmt.Sprintf("%d to %d blocks each, looks at %s", f.MinBlocks, f.MaxBlocks, joinInts(p.Looks))
	}
	if f.MostSessions > 0 {
		return fmt.Sprintf("%s each in each of %d sessions if beginning them takes at most %.0f %% of the run, which "+
			"the first round shows; else %s", unit.Plural(f.SessionBlocks, "block"), f.MostSessions,
			100*schedule.MostOpening, once)
	}
	return once
}

// neighbours writes the work of the neighbours, their places, and the targets beside them.
func neighbours(p *plan.Plan) string {
	var all []string
	for i := range p.Beside {
		n := &p.Beside[i]
		text := n.Name
		if n.Label != n.Name {
			text += " (" + n.Label + ")"
		}
		var pairs []string
		for j := range p.Targets { // in the plan's order
			if place := n.In[p.Targets[j].Name]; place != "" {
				pairs = append(pairs, p.Targets[j].Name+" in "+place)
			}
		}
		all = append(all, text+" beside "+strings.Join(pairs, ", "))
	}
	return strings.Join(all, "; ")
}

// loads says which workloads' load several environments offer.
func loads(p *plan.Plan) string {
	var all []string
	for i := range p.Workloads {
		var names []string
		for _, h := range p.Workloads[i].Crowd() {
			names = append(names, h.Name)
		}
		if len(names) > 0 {
			text := p.Workloads[i].Label + ": " + strings.Join(names, ", ")
			if len(names) > 1 {
				text += " together"
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

func joinInts(n []int) string {
	s := []string{}
	for _, i := range n {
		s = append(s, fmt.Sprint(i))
	}
	return strings.Join(s, ", ")
}
