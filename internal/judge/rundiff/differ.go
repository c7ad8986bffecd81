package rundiff

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// list collects differences.
type list struct{ all []Difference }

func (l *list) add(area, where, name, from, to string) {
	if from != to {
		l.all = append(l.all, Difference{Area: area, Where: where, Name: name, From: from, To: to})
	}
}

// differences lists what the two sides do not share, the widest first: tare, plan, work, host, targets.
func differences(from, to *Side) []Difference {
	l := &list{all: []Difference{}}
	l.add("tare", "", "version", from.Result.Run.Version, to.Result.Run.Version)
	l.add("tare", "", "build", from.Result.Run.Build, to.Result.Run.Build)
	l.plan(from.Plan, to.Plan)
	l.work(from.Plan, to.Plan)
	a, ok := host(from)
	b, too := host(to)
	if ok && too {
		l.facts("host", "", a, b)
	}
	l.targets(from, to)
	if from.Redacted != to.Redacted {
		// A name and its pseudonym are no difference.
		l.all = slices.DeleteFunc(l.all, func(d Difference) bool { return d.Name == "host name" })
	}
	return l.all
}

func (l *list) plan(a, b *plan.Plan) {
	share := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	l.add("plan", "", "baseline", a.Baseline, b.Baseline)
	l.add("plan", "", "seed", fmt.Sprint(a.Seed), fmt.Sprint(b.Seed))
	l.add("plan", "", "mode", string(a.Mode), string(b.Mode))
	l.add("plan", "", "trial", a.Trial.String(), b.Trial.String())
	l.add("plan", "", "budget", a.Budget.String(), b.Budget.String())
	l.add("plan", "", "sessions", fmt.Sprint(a.Sessions), fmt.Sprint(b.Sessions))
	l.add("plan", "", "looks", looksText(a.Looks), looksText(b.Looks))
	l.add("plan", "", "alpha", share(a.Alpha), share(b.Alpha))
	l.add("plan", "", "margin", share(a.Margin), share(b.Margin))
	l.add("plan", "", "tail margin", share(a.TailMargin), share(b.TailMargin))
	l.add("plan", "", "precision", share(a.Precision), share(b.Precision))
}

// work compares the workloads by label, and the frozen amount in each target.
func (l *list) work(a, b *plan.Plan) {
	for _, label := range union(a.Workloads, b.Workloads, func(w plan.Workload) string { return w.Label }) {
		x, ok := a.Workload(label)
		y, too := b.Workload(label)
		if !ok || !too {
			l.add("work", label, "workload", present(ok), present(too))
			continue
		}
		l.add("work", label, "kind", x.Kind, y.Kind)
		for _, k := range keys(x.Params, y.Params) {
			l.add("work", label, k, x.Params[k], y.Params[k])
		}
		for _, target := range keys(x.Vary, y.Vary) {
			for _, k := range keys(x.Vary[target], y.Vary[target]) {
				l.add("work", label, k+" in "+target, x.Vary[target][k], y.Vary[target][k])
			}
		}
		l.add("work", label, "trial", x.Trial.String(), y.Trial.String())
		var from, to []string
		for _, t := range keys(x.Work, y.Work) {
			if m, n := x.Work[t], y.Work[t]; m != n && m > 0 && n > 0 {
				from, to = append(from, fmt.Sprintf("%s %d", t, m)), append(to, fmt.Sprintf("%s %d", t, n))
			}
		}
		l.add("work", label, "units in a trial", strings.Join(from, ", "), strings.Join(to, ", "))
	}
}

func present(ok bool) string {
	if ok {
		return "there"
	}
	return ""
}

func (l *list) targets(from, to *Side) {
	name := func(t verdict.Target) string { return t.Name }
	for _, n := range union(from.Result.Targets, to.Result.Targets, name) {
		i := slices.IndexFunc(from.Result.Targets, func(t verdict.Target) bool { return t.Name == n })
		j := slices.IndexFunc(to.Result.Targets, func(t verdict.Target) bool { return t.Name == n })
		if i < 0 || j < 0 {
			l.add("target", n, "target", present(i >= 0), present(j >= 0))
			continue
		}
		a, b := &from.Result.Targets[i], &to.Result.Targets[j]
		l.add("target", n, "spec", a.Spec, b.Spec)
		l.add("target", n, "emulated", strconv.FormatBool(a.Emulated), strconv.FormatBool(b.Emulated))
		if isHost(from, n) && isHost(to, n) {
			continue // told as the host
		}
		l.facts("target", n, &a.Inside, &b.Inside)
		l.settings(n, a.Outside.Settings, b.Outside.Settings)
		l.mount(n, a.Mount, b.Mount)
	}
}

func isHost(s *Side, name string) bool {
	e, ok := s.Plan.Target(name)
	return ok && e.IsHost()
}

func (l *list) mount(target string, a, b *record.Mount) {
	if a == nil || b == nil {
		l.add("target", target, "mount", present(a != nil), present(b != nil))
		return
	}
	l.add("target", target, "mount", a.Kind, b.Kind)
	l.add("target", target, "mount type", a.Type, b.Type)
	l.add("target", target, "mount options", a.Options, b.Options)
	l.add("target", target, "mount server", a.Server, b.Server)
}

// private are settings and facts that are another each time, or say only where a run kept its files.
var private = []string{
	"kernel.uptime_s", "work.free_bytes", "work.free_inodes", "work.mount", "work.root", "memory.available_bytes",
	"memory.free_bytes",
	"dir", "socket", "id", "name", "pid",
}

func (l *list) settings(target string, a, b map[string]string) {
	for _, k := range keys(a, b) {
		if !slices.Contains(private, k) {
			l.add("target", target, k, a[k], b[k])
		}
	}
}

func (l *list) facts(area, where string, a, b *record.Facts) {
	l.add(area, where, "host name", a.Hostname, b.Hostname)
	l.add(area, where, "system", a.OS+"/"+a.Arch, b.OS+"/"+b.Arch)
	l.add(area, where, "distribution", a.Distro, b.Distro)
	l.add(area, where, "kernel", a.Kernel, b.Kernel)
	l.add(area, where, "processor", a.CPU, b.CPU)
	l.add(area, where, "cores", count(a.Cores), count(b.Cores))
	l.add(area, where, "threads", count(a.Threads), count(b.Threads))
	// The clock as told by the system is often that of the moment, and what was measured is never twice the same.
	l.clock(area, where, "MHz", a.MHz, b.MHz, 0.1)
	l.clock(area, where, "MHz measured", number(a.Extra[measured]), number(b.Extra[measured]), 0.03)
	l.add(area, where, "memory", unit.Format(float64(a.MemoryBytes), "B"), unit.Format(float64(b.MemoryBytes), "B"))
	l.add(area, where, "hypervisor", a.Hypervisor, b.Hypervisor)
	l.add(area, where, "clock source", a.Clock, b.Clock)
	l.add(area, where, "file system", a.WorkFS, b.WorkFS)
	for _, k := range keys(a.Extra, b.Extra) {
		if k != measured && !slices.Contains(private, k) && !volatile(k) {
			l.add(area, where, k, a.Extra[k], b.Extra[k])
		}
	}
}

// measured is the clock at which the agent saw its processor run, MHz.
const measured = "cpu.measured_mhz"

// clock adds two clock rates where both are known and further apart than a share of the larger.
func (l *list) clock(area, where, name string, a, b, share float64) {
	if a > 0 && b > 0 && math.Abs(a-b) > share*max(a, b) {
		l.add(area, where, name, fmt.Sprintf("%.0f", a), fmt.Sprintf("%.0f", b))
	}
}

// number reads a fact; 0 for one that is missing or no number.
func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return v
}

// volatile tells facts that are another at each look.
func volatile(name string) bool {
	for _, part := range []string{"uptime", "free", "available", "load", "pid", "boot_id"} {
		if strings.Contains(name, part) && name != "clock.available" {
			return true
		}
	}
	return false
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func keys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// union lists the names of a and then those only b has, in their order.
func union[T any](a, b []T, name func(T) string) []string {
	var out []string
	for _, list := range [][]T{a, b} {
		for _, t := range list {
			if n := name(t); !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// looksText lists the blocks at which a plan decides.
func looksText(looks []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(looks), " ", ", "), "[]")
}
