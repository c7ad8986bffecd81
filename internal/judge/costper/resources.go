package costper

import (
	"fmt"
	"math"
	"strconv"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// resources are the cores, threads, clock, power and price of a target, from its recorded facts.
type resources struct {
	name         string
	cores        int     // physical cores visible; 0 unknown
	threads      int     // hardware threads usable; 0 unknown
	limit        float64 // processors that a control group grants; 0 for no limit below threads
	nominal      float64 // MHz as told by the system; 0 unknown
	measured     float64 // MHz as measured; 0 not measured
	emulated     bool
	watts        float64 // 0 unknown
	pricePerHour float64 // 0 unknown
	currency     string
}

// resourcesOf reads the facts of a target. A mount has the processors of the environment it is in, and also its price
// and power where it has none of its own.
func resourcesOf(r *verdict.Result, name string, given map[string]map[string]string) resources {
	out := resources{name: name}
	t := lookup(r, name)
	if t == nil {
		return out
	}
	machine := t
	if of := lookup(r, t.Place()); of != nil {
		machine = of
	}
	in := &machine.Inside
	out.cores, out.threads, out.nominal = in.Cores, in.Threads, in.MHz
	if out.threads > 0 && out.cores > out.threads {
		out.cores = out.threads // the agent is confined to some of the cores it sees
	}
	out.measured = positive(in.Extra[MeasuredMHz])
	for _, text := range []string{in.Extra[CPULimit], machine.Outside.Extra[CPULimit]} {
		if l := positive(text); l > 0 && l < float64(out.threads) && (out.limit == 0 || l < out.limit) {
			out.limit = l
		}
	}
	out.emulated = t.Emulated || machine.Emulated
	for _, facts := range []map[string]string{given[name], t.Outside.Extra, given[machine.Name],
		machine.Outside.Extra} {
		if out.watts == 0 {
			out.watts = positive(facts[Watts])
		}
		if out.pricePerHour == 0 {
			out.pricePerHour, out.currency = positive(facts[PricePerHour]), facts[Currency]
		}
	}
	return out
}

func lookup(r *verdict.Result, name string) *verdict.Target {
	for i := range r.Targets {
		if r.Targets[i].Name == name {
			return &r.Targets[i]
		}
	}
	return nil
}

// positive reads a fact; 0 for anything that is no positive number of a size that products of it stay finite.
func positive(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 1/largest) || v > largest {
		return 0
	}
	return v
}

// topology is the number of cores and threads, in words.
func (r *resources) topology() string {
	s := fmt.Sprintf("%s / %s", unit.Plural(r.cores, "core"), unit.Plural(r.threads, "thread"))
	if r.cores == 0 {
		s = unit.Plural(r.threads, "thread") + " on an unknown number of cores"
	}
	if r.limit > 0 {
		s += fmt.Sprintf(", limited to %.3g CPUs", r.limit)
	}
	return s
}

// unequal returns the reason why two topologies cannot be divided by each other; "" when they can. A thread that shares
// its core does not do the work of a core, and how much it does depends on the work: no factor is right.
func unequal(a, b *resources) string {
	switch {
	case a.cores == 0 || b.cores == 0 || a.threads == 0 || b.threads == 0:
	case a.limit > 0 && a.threads != a.cores || b.limit > 0 && b.threads != b.cores: // a limit counts threads
	case a.threads*b.cores != b.threads*a.cores:
	default:
		return ""
	}
	return fmt.Sprintf("%s has %s and %s %s", a.name, a.topology(), b.name, b.topology())
}

// usable is the number of cores that work of so many threads can keep busy; threads 0 stands for all there are.
func (r *resources) usable(threads int) float64 {
	n := float64(r.cores)
	if n == 0 {
		n = float64(r.threads)
	}
	if r.limit > 0 {
		n = math.Min(n, r.limit)
	}
	if threads > 0 {
		n = math.Min(n, float64(threads))
	}
	return n
}

// clocks picks the clock rate of both sides, MHz, from one kind of source.
func clocks(a, b *resources) (mhzA, mhzB float64, source string) {
	switch {
	case a.measured > 0 && b.measured > 0:
		return a.measured, b.measured, "measured"
	case a.nominal > 0 && b.nominal > 0:
		return a.nominal, b.nominal, "nominal"
	}
	return 0, 0, ""
}

// usableCell tells whether a cell has a ratio to restate.
func usableCell(c *verdict.Cell) bool {
	switch c.Verdict {
	case record.Withheld, record.Failed:
		return false
	}
	return c.Ratio.Center > 0 && !c.UnlikeFlushes()
}
