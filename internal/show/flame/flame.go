// Package flame draws where two targets spend their time on processors, as flame graphs that show the difference: one
// picture of each target on one scale, in which functions that take more time than in the other are red and marked with
// +, and those that take less are blue and marked with -. The file stands alone: no script, nothing from elsewhere.
package flame

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"

	"tare/internal/run/perf"
)

// Round are the samples of a trial, and how much work they are of.
type Round struct {
	Profile *perf.Profile
	Work    int64 // units
}

// Side are the trials of a target.
type Side struct {
	Name   string
	Rounds []Round
	// Inside says that the work itself was sampled; else its servers on this machine were.
	Inside bool
}

// Picture is a pair of flame graphs with their title.
type Picture struct {
	Title string // the workload and the targets
	Unit  string // of work
	Base  Side
	Side  Side
}

// ErrNothing says that a side has no samples.
var ErrNothing = errors.New("no samples")

const (
	// mostNodes bounds the boxes that are told apart.
	mostNodes = 200_000
	// mostDepth bounds how deep a stack is drawn.
	mostDepth = 100
	// tare's own worker has a name that depends on how it got there.
	own = "tare"
)

// node is a function on a path of calls, with the time for each unit of work of all that it calls, in ns.
type node struct {
	name   string
	kernel bool
	sum    [2]float64   // by side: the mean of the rounds
	rounds [2][]float64 // by side and round
	kids   map[string]*node
}

// tree adds the stacks of both sides up.
func (p *Picture) tree() (*node, error) {
	root := &node{name: "all"}
	sides := [2]*Side{&p.Base, &p.Side}
	// Where the programs of a side show no names, those of the other would stand apart from all of it.
	named := known(sides[0]) && known(sides[1])
	nodes := 0
	for i, s := range sides {
		total := int64(0)
		for r, round := range s.Rounds {
			if round.Profile == nil || round.Work <= 0 {
				continue
			}
			total += round.Profile.Samples
			for _, stack := range round.Profile.Stacks {
				ns := float64(stack.Count) * 1e9 / perf.Rate / float64(round.Work)
				at := root
				at.add(i, r, len(s.Rounds), ns)
				for _, f := range frames(stack.Frames, named) {
					kid := at.kids[f.Name]
					if kid == nil {
						if nodes >= mostNodes {
							break
						}
						nodes++
						if at.kids == nil {
							at.kids = map[string]*node{}
						}
						kid = &node{name: f.Name, kernel: f.Kernel}
						at.kids[f.Name] = kid
					}
					kid.add(i, r, len(s.Rounds), ns)
					at = kid
				}
			}
		}
		if total == 0 {
			return nil, ErrNothing
		}
	}
	root.mean(len(p.Base.Rounds), len(p.Side.Rounds))
	return root, nil
}

func (n *node) add(side, round, rounds int, ns float64) {
	if n.rounds[side] == nil {
		n.rounds[side] = make([]float64, rounds)
	}
	n.rounds[side][round] += ns
}

// mean turns the sums of the rounds into means.
func (n *node) mean(base, side int) {
	for i, count := range []int{base, side} {
		for _, v := range n.rounds[i] {
			n.sum[i] += v / float64(count)
		}
	}
	for _, k := range n.kids {
		k.mean(base, side)
	}
}

// shown tells whether the difference has the same sign in every round: with five, chance does that to one in sixteen.
func (n *node) shown(rounds int) bool {
	sign := 0.0
	for r := range rounds {
		at := func(i int) float64 {
			if r < len(n.rounds[i]) {
				return n.rounds[i][r]
			}
			return 0
		}
		d := at(1) - at(0)
		if d == 0 || sign*d < 0 {
			return false
		}
		sign = math.Copysign(1, d)
	}
	return rounds > 0
}

// sorted are the children in the order in which they stand beside each other, the same in both pictures.
func (n *node) sorted() []*node {
	all := make([]*node, 0, len(n.kids))
	for _, k := range n.kids {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *node) int {
		return cmp.Or(boolean(a.kernel)-boolean(b.kernel), strings.Compare(a.name, b.name))
	})
	return all
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// known tells whether most of a side's samples of programs say in which function these were.
func known(s *Side) bool {
	with, without := int64(0), int64(0)
	for _, r := range s.Rounds {
		if r.Profile == nil {
			continue
		}
		for _, stack := range r.Profile.Stacks {
			user, named := false, false
			for _, f := range stack.Frames {
				user = user || !f.Kernel
				named = named || !f.Kernel && f.Known
			}
			switch {
			case named:
				with += stack.Count
			case user:
				without += stack.Count
			}
		}
	}
	return with >= without
}

// frames are the frames of a stack as they are drawn. Those of programs are one if they are not named.
func frames(all []perf.Frame, named bool) []perf.Frame {
	out := make([]perf.Frame, 0, min(len(all), mostDepth))
	for _, f := range all {
		if !f.Kernel && !named {
			f.Name = "programs"
			if len(out) > 0 && !out[len(out)-1].Kernel {
				continue
			}
		}
		if !f.Kernel && strings.HasPrefix(f.Name, "["+own) {
			f.Name = "[" + own + "]"
		}
		if len(out) == mostDepth {
			break
		}
		out = append(out, f)
	}
	return out
}
