package fleet

import (
	"math"

	"tare/internal/stats"
)

// FalseClaims is the share of false ones among the claims that a host lies apart, at most, in expectation. Where no
// host does, it is the chance of naming any.
const FalseClaims = 0.05

// claim is one host in one cell.
type claim struct {
	cell *cell
	at   int // of the host in the cell
	q    float64
}

// findApart tests every host in every primary cell and returns how many tests that were. The margin counts: a
// difference that does not matter is not claimed, however sure it is.
func findApart(cells []*cell) int {
	var claims []claim
	var p []float64
	for _, c := range cells {
		if !c.Primary {
			continue
		}
		c.apart = stats.SetApart(c.units(), math.Log1p(c.Same))
		for i, a := range c.apart {
			if a.DF > 0 {
				claims, p = append(claims, claim{cell: c, at: i}), append(p, a.P)
			}
		}
	}
	for i, q := range stats.BenjaminiHochberg(p, len(p)) {
		x := &claims[i]
		x.q = q
		if x.cell.claimed == nil {
			x.cell.claimed = make([]float64, len(x.cell.hosts))
			for j := range x.cell.claimed {
				x.cell.claimed[j] = 1
			}
		}
		x.cell.claimed[x.at] = q
	}
	return len(p)
}

// liesApart tells whether the claim about a host of the cell stands.
func (c *cell) liesApart(i int) bool { return i < len(c.claimed) && c.claimed[i] <= FalseClaims }
