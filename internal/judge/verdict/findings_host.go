package verdict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// From these shares on, what was seen of the host before trials is told.
const (
	stealTold     = 0.01 // median share of CPU stolen
	stealBad      = 0.05 // a trial that lost this much
	badTrials     = 0.10 // share of trials that lost it, or were throttled, to be told as a warning
	unquietTrials = 0.50 // share of trials that began without quiet
)

// hostStates lists what was seen of the host before each trial whose figures count.
func (e *finder) hostStates() []*record.HostState {
	var out []*record.HostState
	for _, s := range e.index.series {
		for _, t := range s.used {
			if t.Host != nil {
				out = append(out, t.Host)
			}
		}
	}
	return out
}

func stealFindings(e *finder, _ *Result) []Finding {
	var steal []float64
	bad := 0
	for _, g := range e.hostStates() {
		if g.Steal < 0 {
			continue
		}
		steal = append(steal, g.Steal)
		if g.Steal >= stealBad {
			bad++
		}
	}
	if len(steal) == 0 {
		return nil
	}
	median := medianOf(steal)
	if median < stealTold && float64(bad) < badTrials*float64(len(steal)) {
		return nil
	}
	return []Finding{{
		Text: fmt.Sprintf("this host is itself a guest, and other guests take CPU time from it: %s stolen in the "+
			"median trial, %s in the worst, at least %s in %d of %d trials",
			percent(median), percent(slices.Max(steal)), percent(stealBad), bad, len(steal)),
		Remedy: "run where the CPU is not shared; ratios suffer less from it than absolute figures, because targets " +
			"take turns",
	}}
}

func throttleFindings(e *finder, _ *Result) []Finding {
	n, hit := 0, 0
	for _, g := range e.hostStates() {
		if g.Throttle < 0 {
			continue
		}
		n++
		if g.Throttle > 0 {
			hit++
		}
	}
	if hit == 0 {
		return nil
	}
	f := Finding{
		Text: fmt.Sprintf("the processors were throttled before %d of %d trials: the machine is too hot or short "+
			"of power", hit, n),
		Remedy: "cool the machine, plug it in, or fix the clock below the limit (cpupower frequency-set); do not " +
			"quote absolute figures",
	}
	if float64(hit) < badTrials*float64(n) {
		f.Severity = Info
	}
	return []Finding{f}
}

func busyFindings(e *finder, _ *Result) []Finding {
	states := e.hostStates()
	busy := 0
	reasons := map[string]int{}
	for _, g := range states {
		if !g.Quiet {
			busy++
			reasons[g.Reason]++
		}
	}
	if busy == 0 || float64(busy) < unquietTrials*float64(len(states)) {
		return nil
	}
	top := ""
	for r, n := range reasons {
		if r != "" && (top == "" || n > reasons[top] || n == reasons[top] && r < top) {
			top = r
		}
	}
	text := fmt.Sprintf("%d of %d trials began while the host was busy", busy, len(states))
	if top != "" {
		text += "; most often: " + top
	}
	return []Finding{{Text: text,
		Remedy: "stop other programs on this host; the null control shows how much they disturb"}}
}

// The facts in which an environment's standing cost is kept, as the controller measured it after the environment had
// been left alone.
const (
	idleCPU       = "idle.cpu"        // share of one CPU of the host, or why it is not known
	idleRSS       = "idle.rss_bytes"  // memory of the host
	idlePSS       = "idle.pss_bytes"  // the same, each shared page in equal parts for those that share it
	idleProcesses = "idle.processes"  // how many of the host's processes have this memory
	idleDisk      = "idle.disk_bytes" // space of its own files
)

// idleTold is the share of one CPU from which the cost of doing nothing is a warning.
const idleTold = 0.05

func idleFindings(_ *finder, r *Result) []Finding {
	var out []Finding
	nothing := map[string]int{} // the finding of those of which nothing is known, by the reason
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.IsMount() {
			continue
		}
		bytes := func(fact string) int64 {
			n, err := strconv.ParseInt(t.Outside.Extra[fact], 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
		cpu, err := strconv.ParseFloat(t.Outside.Extra[idleCPU], 64)
		known := err == nil && cpu >= 0
		var parts []string
		if known {
			parts = append(parts, percent(cpu)+" of one CPU while it does nothing")
		}
		in := ""
		switch n := bytes(idleProcesses); {
		case n == 1:
			in = " in 1 process"
		case n > 1:
			in = fmt.Sprintf(" in %d processes", n)
		}
		if rss, pss := bytes(idleRSS), bytes(idlePSS); pss > 0 {
			parts = append(parts, fmt.Sprintf("%d MiB of memory%s, or %d MiB with its share of shared pages",
				rss>>20, in, pss>>20))
		} else if rss > 0 {
			parts = append(parts, fmt.Sprintf("%d MiB of memory%s", rss>>20, in))
		}
		if disk := bytes(idleDisk); disk >= 1<<20 {
			parts = append(parts, fmt.Sprintf("%d MiB of disk space for its own files", disk>>20))
		}
		why, unknown := strings.CutPrefix(t.Outside.Extra[idleCPU], record.NotMeasured)
		if len(parts) == 0 {
			if !unknown {
				continue
			}
			at, told := nothing[why]
			if !told {
				at, nothing[why] = len(out), len(out)
				out = append(out, Finding{Remedy: "look on the machine that runs it, such as with `top`"})
			}
			f := &out[at]
			f.Targets = append(f.Targets, t.Name)
			f.Text = fmt.Sprintf("what %s costs the host while it is idle is not known: %s",
				few(f.Targets), why)
			continue
		}
		f := Finding{Targets: []string{t.Name},
			Text: fmt.Sprintf("%s costs the host %s", t.Name, strings.Join(parts, ", and "))}
		if unknown {
			f.Text += "; what it takes of the processors is not known: " + why
		}
		f.Remedy = "stop the environment when you do not use it"
		if known && cpu >= idleTold {
			f.Severity = Attend
			f.Remedy += "; look for periodic timers (an old guest kernel, a USB tablet device, a missing " +
				"paravirtual clock)"
		}
		out = append(out, f)
	}
	return out
}

// cpuFindings finds the pairs of targets with different numbers of processors that a workload could have used. An
// environment and the mounts in it have the same, so they share a finding.
func cpuFindings(e *finder, r *Result) []Finding {
	var out []Finding
	at := map[string]int{}
	for i := range r.Targets {
		t := &r.Targets[i]
		b := r.target(e.Plan.Against(t.Name))
		if t.Baseline || b == nil {
			continue
		}
		mine, theirs := cpusOf(r, t), cpusOf(r, b)
		if mine == "" || theirs == "" || mine == theirs {
			continue
		}
		root := t.Place()
		n, known := at[root]
		if !known {
			n = len(out)
			out = append(out, Finding{Remedy: "give both sides the same number (cpus= of a virtual machine or a " +
				"container), or restate the costs per core: --per core"})
		}
		f := &out[n]
		for j := range r.Cells {
			c := &r.Cells[j]
			w, ok := e.Plan.Workload(c.Workload)
			if !ok || !c.Primary || c.Target != t.Name || !ManyThreads(w) {
				continue
			}
			addWorkload(f, c.Workload)
			if !slices.Contains(f.Targets, t.Name) {
				f.Targets = append(f.Targets, t.Name)
			}
			if c.Verdict == record.Different {
				f.Severity = Attend
			}
		}
		if len(f.Workloads) == 0 {
			out = out[:n]
			continue
		}
		at[root] = n
		f.Text = fmt.Sprintf("%s has %s and %s %s: %s can use more than one thread, so its ratio may only reflect "+
			"the number of processors", root, mine, b.Name, theirs, few(f.Workloads))
	}
	return out
}

// cpusOf has the number of a target's processors, as text; "" when that is not known.
func cpusOf(r *Result, t *Target) string {
	if t.Inside.Threads == 0 && t.IsMount() {
		if of := r.target(t.Of); of != nil {
			t = of
		}
	}
	f := &t.Inside
	switch {
	case f.Threads == 0:
		return ""
	case f.Cores > 0:
		return fmt.Sprintf("%s with %s", unit.Plural(f.Cores, "core"), unit.Plural(f.Threads, "thread"))
	}
	return unit.Plural(f.Threads, "thread")
}

// ManyThreads tells whether a workload may use more than one processor. Of foreign programs that is not known, so they
// count as if they could.
func ManyThreads(w *plan.Workload) bool {
	if w.Params["threads"] != "" {
		return whole(w.Params, "threads") > 1
	}
	return is(w).Parallel
}
