package fleet

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/stats"
	"tare/internal/unit"
)

// mostFacts bounds what is offered as an explanation of one host in one cell.
const mostFacts = 6

// telling are the facts that most often explain a difference between hosts of one kind, the most telling first. They
// break ties: of two facts that are equally peculiar to a host, this one comes first. A name stands for all that begin
// with it.
var telling = []string{
	"cpu.measured_mhz", "cpu.mhz", "during.throttle_events", "during.steal_percent", "cpu.microcode", "machine.bios",
	"cpu.mitigations.", "memory.modules", "memory", "cpu.governor", "cpu.no_turbo", "cpu.boost", "cpu.smt", "processor",
	"kernel", "hypervisor", "clock source", "memory.thp", "work.disk.", "file system", "distribution",
}

func rank(name string) int {
	if _, rest, ok := strings.Cut(name, ": "); ok {
		name = rest
	}
	for i, t := range telling {
		if name == t || strings.HasSuffix(t, ".") && strings.HasPrefix(name, t) {
			return i
		}
	}
	return len(telling)
}

// figures are facts whose size counts and not their text: no two hosts have the same.
var figures = []string{"cpu.measured_mhz", "cpu.mhz", "during.throttle_events", "during.steal_percent",
	"during.not_quiet_percent"}

func isFigure(name string) bool {
	if _, rest, ok := strings.Cut(name, ": "); ok {
		name = rest
	}
	return slices.Contains(figures, name)
}

// explain lists the hosts that lie apart, the farthest first, with what they differ in from those that do not.
func explain(a *Admitted, cells []*cell) []Odd {
	out := []Odd{}
	odd := map[string]bool{} // hosts that lie apart anywhere
	for _, c := range cells {
		for i, h := range c.hosts {
			if c.liesApart(i) {
				odd[h.Name] = true
			}
		}
	}
	if len(odd) == 0 {
		return out
	}
	var rest []*Host
	for _, c := range a.Hosts {
		if !odd[c.Host.Name] {
			rest = append(rest, c.Host)
		}
	}
	for _, c := range cells {
		for _, more := range []bool{true, false} {
			var group []int
			for i := range c.hosts {
				if c.liesApart(i) && (c.apart[i].Shift > 0) == more {
					group = append(group, i)
				}
			}
			var like []*Host
			for _, i := range group {
				like = append(like, c.hosts[i])
			}
			for _, i := range group {
				m := c.measures[i]
				out = append(out, Odd{Host: c.hosts[i].Name, Key: c.Key, IsRatio: c.IsRatio,
					Value: c.shown(m.Center), Unit: c.Unit, Against: finite(math.Exp(c.apart[i].Shift)),
					Q: c.claimed[i], Differs: differs(c.hosts[i], like, rest, c.Target)})
			}
		}
	}
	slices.SortStableFunc(out, func(x, y Odd) int {
		return -cmp.Compare(math.Abs(math.Log(x.Against)), math.Abs(math.Log(y.Against)))
	})
	return out
}

// differs ranks the facts that a host does not share with most of the rest. like are the hosts, this one among them,
// that lie apart on its side. Facts of targets other than the cell's and the host's say nothing of it.
func differs(h *Host, like, rest []*Host, target string) []Fact {
	out := []Fact{}
	for name, value := range h.Facts {
		if of, _, ok := strings.Cut(name, ": "); ok && of != target {
			continue
		}
		f, ok := compare(name, value, like, rest)
		if ok {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(x, y Fact) int {
		return cmp.Or(cmp.Compare(x.P, y.P), cmp.Compare(rank(x.Name), rank(y.Name)), cmp.Compare(x.Name, y.Name))
	})
	return out[:min(len(out), mostFacts)]
}

// mostChance is the p value beyond which a fact is not offered: that of a lone host whose fact a quarter of the others
// have is a little above a quarter.
const mostChance = 0.3

// mostShare is the share of the other hosts that may have a fact which is still offered as an explanation.
const mostShare = 0.25

// compare counts who has a fact. ok is false where it explains nothing: too many others have it, or no two others
// share theirs.
func compare(name, value string, like, rest []*Host) (f Fact, ok bool) {
	f = Fact{Name: name, Value: value, LikeOf: len(like)}
	var same func(*Host) bool
	if isFigure(name) {
		v, err := strconv.ParseFloat(value, 64)
		var all []float64
		for _, o := range rest {
			if x, err := strconv.ParseFloat(o.Facts[name], 64); err == nil {
				all = append(all, x)
			}
		}
		middle := stats.Median(all)
		if err != nil || math.IsNaN(middle) || v == middle {
			return f, false
		}
		f.Usual = unit.Number(middle)
		same = func(o *Host) bool {
			x, err := strconv.ParseFloat(o.Facts[name], 64)
			return err == nil && (v > middle && x >= v || v < middle && x <= v)
		}
		// Those that lie apart share it where they lie beyond all but few of the rest, not where they reach this one.
		f.Like = 0
		for _, o := range like {
			x, err := strconv.ParseFloat(o.Facts[name], 64)
			if err == nil && beyond(x, v, middle, all) {
				f.Like++
			}
		}
	} else {
		var shared int
		f.Usual, shared = commonest(name, rest)
		if f.Usual == value || shared*2 < len(rest) {
			return f, false
		}
		same = func(o *Host) bool { return o.Facts[name] == value }
		for _, o := range like {
			if same(o) {
				f.Like++
			}
		}
	}
	for _, o := range rest {
		if o.Facts[name] == "" {
			continue
		}
		f.OthersOf++
		if same(o) {
			f.Others++
		}
	}
	if f.OthersOf == 0 || float64(f.Others) > mostShare*float64(f.OthersOf) {
		return f, false
	}
	f.P = fisher(f.Like, f.LikeOf, f.Others, f.OthersOf)
	return f, f.P <= mostChance
}

// beyond tells whether x lies on the side of v from the middle, and beyond all but few of the rest.
func beyond(x, v, middle float64, rest []float64) bool {
	if (x > middle) != (v > middle) || x == middle {
		return false
	}
	n := 0
	for _, r := range rest {
		if x > middle && r >= x || x < middle && r <= x {
			n++
		}
	}
	return float64(n) <= mostShare*float64(len(rest))
}

// commonest is the value of a fact that most hosts have, and how many have it.
func commonest(name string, hosts []*Host) (value string, n int) {
	count := map[string]int{}
	for _, h := range hosts {
		count[h.Facts[name]]++
	}
	for v, c := range count {
		if v != "" && (c > n || c == n && v < value) {
			value, n = v, c
		}
	}
	return value, n
}

// fisher is the one-sided p value of Fisher's exact test: the chance that of a + c with the fact at least a are among
// the first m, of m + n in all.
func fisher(a, m, c, n int) float64 {
	with, all := a+c, m+n
	var p float64
	for x := a; x <= min(m, with); x++ {
		p += math.Exp(choose(m, x) + choose(n, with-x) - choose(all, with))
	}
	return min(p, 1)
}

// choose is the logarithm of a binomial coefficient; -Inf where it is 0.
func choose(n, k int) float64 {
	if k < 0 || k > n {
		return math.Inf(-1)
	}
	g := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
	return g(n) - g(k) - g(n-k)
}
