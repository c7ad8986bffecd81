package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"tare/internal/stats"
	"tare/internal/unit"
)

// Grouping is a fact by whose values the hosts fall into groups, and what these cost in the cell in which they differ
// most.
type Grouping struct {
	// Facts are the names of all facts that divide the hosts in this way: by the hosts alone they cannot be told apart.
	Facts []string `json:"facts"`
	Key
	IsRatio bool `json:"is_ratio"`
	// Share is the part of what hosts differ by in the cell that the groups explain, 0 to 1.
	Share float64 `json:"share"`
	P     float64 `json:"p"` // of "the groups are alike in the cell" (analysis of variance)
	Q     float64 `json:"q"` // with all facts and cells counted in
	// Cells is in how many primary cells the groups differ at that rate.
	Cells  int     `json:"cells"`
	Groups []Group `json:"groups"` // that with most hosts first
}

// Group are the hosts that share the value of a fact.
type Group struct {
	Value string `json:"value"`
	Hosts int    `json:"hosts"` // with a value in the cell
	Apart int    `json:"apart"` // of them, those that lie apart in the cell
	// Against is the mean cost of the group divided by that of the fleet, with its interval at 95 %.
	Against float64 `json:"against"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// Differ tells whether it is shown that the groups differ.
func (g *Grouping) Differ() bool { return g.Q <= FalseClaims }

const (
	leastGroup = 2  // hosts in a group
	mostGroups = 12 // of a fact
	// leastKnown is the share of the hosts that must have a fact.
	leastKnown = 0.8
)

// always are facts whose groups are shown even if they do not differ: administrators ask for them.
var always = []string{"machine.product", "processor", "kernel", "distribution"}

// partition is a way in which facts divide the hosts.
type partition struct {
	names  []string
	values []string // one for each group, that with most hosts first
	of     []int    // of each host: its group, or -1
}

// partitions are the ways in which the hosts' facts divide them. A fact that differs on nearly every host divides
// nothing.
func partitions(hosts []*Host) []*partition {
	names := map[string]int{}
	for _, h := range hosts {
		for name := range h.Facts {
			names[name]++
		}
	}
	at := map[string]*partition{}
	var out []*partition
	sorted := []string{}
	for name, n := range names {
		if !isFigure(name) && float64(n) >= leastKnown*float64(len(hosts)) {
			sorted = append(sorted, name)
		}
	}
	// The host's own facts come before what its environments say of the same.
	within := func(name string) bool { return strings.Contains(name, ": ") }
	slices.SortFunc(sorted, func(x, y string) int {
		return cmp.Or(compareBool(within(x), within(y)), cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
	})
	for _, name := range sorted {
		p := partitionBy(hosts, name)
		if p == nil {
			continue
		}
		key := fmt.Sprint(p.of)
		if same := at[key]; same != nil {
			same.names = append(same.names, name)
			continue
		}
		at[key] = p
		out = append(out, p)
	}
	return out
}

// partitionBy divides the hosts by one fact; nil where that makes no two groups.
func partitionBy(hosts []*Host, name string) *partition {
	count := map[string]int{}
	for _, h := range hosts {
		if v := h.Facts[name]; v != "" {
			count[v]++
		}
	}
	p := &partition{names: []string{name}}
	for v, n := range count {
		if n >= leastGroup {
			p.values = append(p.values, v)
		}
	}
	if len(p.values) < 2 || len(p.values) > mostGroups {
		return nil
	}
	slices.SortFunc(p.values, func(x, y string) int {
		return cmp.Or(-cmp.Compare(count[x], count[y]), cmp.Compare(x, y))
	})
	group := map[string]int{}
	for i, v := range p.values {
		group[v] = i
	}
	for _, h := range hosts {
		i, ok := group[h.Facts[name]]
		if !ok {
			i = -1
		}
		p.of = append(p.of, i)
	}
	return p
}

// groupings says by which facts the hosts fall into groups that differ in cost, those that differ most surely first.
func groupings(a *Admitted, cells []*cell) []Grouping {
	out := []Grouping{}
	var hosts []*Host
	index := map[*Host]int{}
	for i, c := range a.Hosts {
		hosts, index[c.Host] = append(hosts, c.Host), i
	}
	parts := partitions(hosts)
	type test struct {
		part, cell int
		share, p   float64
	}
	var tests []test
	var p []float64
	for i, part := range parts {
		for j, c := range cells {
			if !c.Primary {
				continue
			}
			if share, value, ok := part.variance(c, index); ok {
				tests, p = append(tests, test{i, j, share, value}), append(p, value)
			}
		}
	}
	qs := stats.BenjaminiHochberg(p, len(p))
	for i, part := range parts {
		best, differ := -1, 0
		for n, x := range tests {
			if x.part != i {
				continue
			}
			if qs[n] <= FalseClaims {
				differ++
			}
			if best < 0 || x.p < tests[best].p || x.p == tests[best].p && x.share > tests[best].share {
				best = n
			}
		}
		if best < 0 || differ == 0 && !slices.ContainsFunc(part.names, func(n string) bool {
			return slices.Contains(always, n)
		}) {
			continue
		}
		x := tests[best]
		c := cells[x.cell]
		out = append(out, Grouping{Facts: part.names, Key: c.Key, IsRatio: c.IsRatio, Share: x.share, P: x.p,
			Q: qs[best], Cells: differ, Groups: part.groups(c, index)})
	}
	slices.SortStableFunc(out, func(x, y Grouping) int { return cmp.Compare(x.Q, y.Q) })
	return out
}

// variance is the part of what hosts differ by that the groups explain (adjusted for their number), and the p value of
// "the groups are alike". ok is false where fewer than two groups have two hosts with a value.
func (p *partition) variance(c *cell, index map[*Host]int) (share, value float64, ok bool) {
	sum, n := make([]float64, len(p.values)), make([]float64, len(p.values))
	each := func(do func(g int, v float64)) {
		for i, h := range c.hosts {
			if g := p.of[index[h]]; g >= 0 {
				do(g, c.measures[i].Center)
			}
		}
	}
	each(func(g int, v float64) { sum[g], n[g] = sum[g]+v, n[g]+1 })
	var all, k, groups, within, total float64
	for g := range n {
		if n[g] >= leastGroup {
			groups, all, k = groups+1, all+sum[g], k+n[g]
		}
	}
	if groups < 2 || k-groups < 2 {
		return 0, 1, false
	}
	each(func(g int, v float64) {
		if n[g] >= leastGroup {
			d, e := v-sum[g]/n[g], v-all/k
			within, total = within+d*d, total+e*e
		}
	})
	if !(total > 0) || math.IsInf(total, 0) {
		return 0, 1, false
	}
	df1, df2 := groups-1, k-groups
	share = max(0, 1-within/df2/(total/(k-1)))
	if !(within > 0) {
		return 1, 0, true
	}
	f := (total - within) / df1 / (within / df2)
	return share, min(1, max(0, distuv.F{D1: df1, D2: df2}.Survival(f))), true
}

// groups returns the cost of each group of hosts in a cell.
func (p *partition) groups(c *cell, index map[*Host]int) []Group {
	out := make([]Group, len(p.values))
	units := make([][]stats.Measured, len(p.values))
	all := c.units()
	for i, h := range c.hosts {
		g := p.of[index[h]]
		if g < 0 {
			continue
		}
		units[g] = append(units[g], all[i])
		if c.liesApart(i) {
			out[g].Apart++
		}
	}
	for g := range out {
		out[g].Value, out[g].Hosts = p.values[g], len(units[g])
		if len(units[g]) == 0 {
			continue
		}
		pooled := stats.Pool(units[g], FalseClaims)
		out[g].Against = finite(math.Exp(pooled.Center - c.pooled.Center))
		out[g].Low = finite(math.Exp(pooled.Low - c.pooled.Center))
		out[g].High = finite(math.Exp(pooled.High - c.pooled.Center))
		if out[g].High == 0 {
			out[g].Low = 0
		}
	}
	return out
}

// mostGroupsSaid bounds the groups that a sentence names.
const mostGroupsSaid = 4

// Sentence names the groups and their costs.
func (g *Grouping) Sentence() string {
	c := Cell{Key: g.Key, IsRatio: g.IsRatio}
	names := g.Facts
	if len(names) > 3 {
		names = append(slices.Clone(names[:3]), fmt.Sprintf("%d more facts", len(g.Facts)-3))
	}
	var parts []string
	for i := range g.Groups {
		x := &g.Groups[i]
		if i == mostGroupsSaid {
			parts = append(parts, fmt.Sprintf("%d more", len(g.Groups)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%s) %s", x.Value, unit.Plural(x.Hosts, "host"), against(x.Against)))
	}
	text := fmt.Sprintf("%s: %s in %s", strings.Join(names, ", "), strings.Join(parts, ", "),
		subject(&c, g.Workload))
	if !g.Differ() {
		return text + "; that they differ is not shown"
	}
	return fmt.Sprintf("%s; explains %s of what hosts differ by", text, percent(g.Share))
}
