package flame

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"tare/internal/record"
)

// least is the share of the wider side below which a function is no pixel of a page.
const least = 1.0 / 5000

// Graph returns the picture in the form that a bundle keeps: its widest functions, and how many more there were. It
// returns ErrNothing if a side has no samples. Workload and Made are the caller's to fill in.
func Graph(p *Picture) (*record.Flame, error) {
	root, err := p.tree()
	if err != nil {
		return nil, err
	}
	rounds := min(len(p.Base.Rounds), len(p.Side.Rounds))
	f := &record.Flame{Target: p.Side.Name, Baseline: p.Base.Name, Unit: p.Unit, Rounds: rounds,
		Inside: p.Side.Inside, BaselineInside: p.Base.Inside}
	all := root.below(0, nil)
	// No function is wider than its caller, and with equals the caller comes first: the part that is kept hangs
	// together.
	slices.SortStableFunc(all, func(a, b depthNode) int {
		return cmp.Or(cmp.Compare(b.wide(), a.wide()), cmp.Compare(a.depth, b.depth))
	})
	kept := map[*node]bool{}
	for _, n := range all {
		if len(kept) < record.MostFlameFrames && n.wide() >= least*root.wide() && n.depth <= record.MostFlameDepth {
			kept[n.node] = true
			continue
		}
		f.LeftOut++
		f.LeftOutNS = max(f.LeftOutNS, n.wide())
	}
	for _, n := range root.below(0, nil) {
		if !kept[n.node] {
			continue
		}
		f.Frames = append(f.Frames, record.FlameFrame{Depth: n.depth, Name: named(n.name), Kernel: n.kernel,
			NS: n.sum[1], BaseNS: n.sum[0], Shown: n.depth > 0 && n.shown(rounds)})
	}
	return f, f.Check()
}

// depthNode is a function with its depth: the number of functions above it in the stack.
type depthNode struct {
	*node
	depth int
}

// below lists a function and its callees in the order of their places, each before its own callees.
func (n *node) below(depth int, all []depthNode) []depthNode {
	all = append(all, depthNode{n, depth})
	for _, k := range n.sorted() {
		all = k.below(depth+1, all)
	}
	return all
}

// wide is its time on the side where that is longer, ns.
func (n *node) wide() float64 { return max(n.sum[0], n.sum[1]) }

// named is a function's name of at most so many bytes as a graph takes.
func named(name string) string {
	name = printable(name)
	for len(name) > record.MostFlameName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}
