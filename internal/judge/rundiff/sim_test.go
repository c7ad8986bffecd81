package rundiff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tare/internal/record"
	"tare/internal/stats"
)

// draw is one side's cell: blocks of ln(candidate/baseline) around a true value, estimated as package compare does.
func draw(r *rand.Rand, truth, sd float64, blocks int, alpha float64, noise func(*rand.Rand) float64) input {
	d := make([]float64, blocks)
	null := make([]float64, blocks)
	for i := range d {
		d[i] = truth + sd*noise(r)
		null[i] = sd * noise(r)
	}
	e := stats.EstimateCenter([][]float64{d}, alpha)
	spread, _ := stats.NullSpread([][]float64{null})
	return input{alpha: alpha, units: blocks, null: spread, same: 0.02,
		ratio: record.Ratio{Center: math.Exp(e.Center), Low: math.Exp(e.Low), High: math.Exp(e.High), Level: 0.95,
			Blocks: blocks}}
}

var noises = map[string]func(*rand.Rand) float64{
	"normal":   func(r *rand.Rand) float64 { return r.NormFloat64() },
	"spikes":   func(r *rand.Rand) float64 { return spiky(r) },
	"two-mode": func(r *rand.Rand) float64 { return float64(2*r.IntN(2)-1) + 0.2*r.NormFloat64() },
}

func spiky(r *rand.Rand) float64 {
	v := r.NormFloat64()
	if r.Float64() < 0.1 {
		v += math.Copysign(8, r.Float64()-0.5) // a spike hits candidate or baseline
	}
	return v
}

// TestSimulationLevelAndCoverage holds the interval of a change to its level and the verdict to its error rate, with
// few and with many blocks, alike and not.
func TestSimulationLevelAndCoverage(t *testing.T) {
	runs := 2000
	if testing.Short() {
		runs = 200
	}
	alpha := stats.LookAlpha([]int{10, 15, 20, 30}, 0.05)
	for name, noise := range noises {
		for _, n := range [][2]int{{10, 10}, {10, 30}, {30, 30}} {
			t.Run(fmt.Sprintf("%s %d and %d blocks", name, n[0], n[1]), func(t *testing.T) {
				r := rand.New(rand.NewPCG(7, uint64(100*n[0]+n[1])))
				covered, different, same := 0, 0, 0
				for range runs {
					a := draw(r, math.Log(2), 0.01, n[0], alpha, noise)
					b := draw(r, math.Log(2), 0.02, n[1], alpha, noise)
					d := decide(a, b, 0.01)
					if d.Low <= 1 && 1 <= d.High {
						covered++
					}
					if d.Verdict == record.Different {
						different++
					}
					// A real change of 5 % must never be called the same.
					if shifted := decide(a, draw(r, math.Log(2.1), 0.02, n[1], alpha, noise),
						0.01); shifted.Verdict == record.Equivalent {
						same++
					}
				}
				if share := float64(covered) / float64(runs); share < 0.97 {
					t.Errorf("the interval of level %.3f holds the truth in %.3f of the cases", 1-alpha, share)
				}
				if share := float64(different) / float64(runs); share > 0.005 {
					t.Errorf("DIFFERENT in %.4f of the cases without a change", share)
				}
				if share := float64(same) / float64(runs); share > 0.001 {
					t.Errorf("EQUIVALENT in %.4f of the cases with a change of 5 %%", share)
				}
			})
		}
	}
}

// TestSimulationFamily holds a report of sixty cells to one false claim in twenty reports.
func TestSimulationFamily(t *testing.T) {
	const reports, cells = 200, 60
	alpha := stats.LookAlpha([]int{10, 15, 20, 30}, 0.05)
	r := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	for range reports {
		var family []*decision
		for range cells {
			d := decide(draw(r, 0.7, 0.02, 10, alpha, noises["normal"]),
				draw(r, 0.7, 0.02, 10, alpha, noises["normal"]), 0.01)
			family = append(family, &d)
		}
		confirm(family, cells, true, 0.01)
		for _, d := range family {
			if d.Verdict == record.Different {
				wrong++
				break
			}
		}
	}
	if wrong > reports/20 {
		t.Errorf("%d of %d reports without a change claim one", wrong, reports)
	}
}

// TestSimulationDiscoveries holds secondary cells, half of which changed, to one false claim in twenty claims, and
// wants more found than Holm allows.
func TestSimulationDiscoveries(t *testing.T) {
	const reports, cells = 100, 60
	alpha := stats.LookAlpha([]int{10, 15, 20, 30}, 0.05)
	r := rand.New(rand.NewPCG(7, 8))
	claims, wrong, byHolm := 0, 0, 0
	for range reports {
		var family, same []*decision
		for i := range cells {
			changed := 0.1 * float64(i%2)
			d := decide(draw(r, 0.7, 0.02, 10, alpha, noises["normal"]),
				draw(r, 0.7+changed, 0.02, 10, alpha, noises["normal"]), 0.01)
			h := d
			family, same = append(family, &d), append(same, &h)
		}
		confirm(family, cells, false, 0.01)
		confirm(same, cells, true, 0.01)
		for i := range cells {
			if same[i].Verdict == record.Different {
				byHolm++
			}
			if family[i].Verdict == record.Different {
				claims++
				if i%2 == 0 {
					wrong++
				}
			}
		}
	}
	if wrong > claims/20 || claims <= byHolm {
		t.Errorf("%d of %d claims are wrong; Holm allows %d", wrong, claims, byHolm)
	}
}

func TestSimulationPower(t *testing.T) {
	const runs = 500
	alpha := stats.LookAlpha([]int{10, 15, 20, 30}, 0.05)
	r := rand.New(rand.NewPCG(5, 6))
	found := 0
	for range runs {
		d := decide(draw(r, 0.7, 0.01, 20, alpha, noises["normal"]),
			draw(r, 0.7+math.Log(1.05), 0.01, 20, alpha, noises["normal"]), 0.01)
		if d.Verdict == record.Different && d.Center > 1 {
			found++
		}
	}
	if found < runs*95/100 {
		t.Errorf("a change of 5 %% at 1 %% noise was found in %d of %d", found, runs)
	}
}

func TestMover(t *testing.T) {
	// Newcombe's own form: distances of 3 and 4 give 5.
	low, high := mover(side{1, 0.5, 5}, side{10, 7, 12})
	if low != 9-5 || high != 9+math.Hypot(2, 0.5) {
		t.Errorf("[%v, %v]", low, high)
	}
	low, high = mover(side{0, math.Inf(-1), math.Inf(1)}, side{1, 0, 2})
	if !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("without ends: [%v, %v]", low, high)
	}
}

// sideWith is a cell with a centre and half an interval, both on the log scale, of a run whose null control spread.
func sideWith(center, half, null float64) input {
	return input{alpha: 0.0195, units: 20, null: null, same: 0.02,
		ratio: record.Ratio{Center: math.Exp(center), Low: math.Exp(center - half), High: math.Exp(center + half),
			Level: 0.95, Blocks: 20}}
}

// A run that differs from itself by 5 % cannot tell another run from it by 10 %, whichever of the two it is.
func TestTheNullControlsWidenTheMargin(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		want     record.Verdict
		margin   float64
	}{
		{0, 0, record.Different, 0.02},
		{0.05, 0, record.Inconclusive, 0.1},
		{0, 0.05, record.Inconclusive, 0.1},
		{0.05, 0.05, record.Inconclusive, 2 * math.Expm1(math.Sqrt2*math.Log1p(0.05))},
	} {
		d := decide(sideWith(0.7, 0.02, c.from), sideWith(0.8, 0.02, c.to), 0.01)
		if d.Verdict != c.want || math.Abs(d.margin-c.margin) > 1e-9 {
			t.Errorf("null controls of %g and %g: %s with a margin of %g, want %s with %g", c.from, c.to, d.Verdict,
				d.margin, c.want, c.margin)
		}
	}
}

// A change that is sure enough alone is not among forty cells, and the cell says so.
func TestOneChangeAmongManyCells(t *testing.T) {
	change := decide(sideWith(0.7, 0.02, 0), sideWith(0.75, 0.02, 0), 0.01)
	if change.Verdict != record.Different || change.P*40 <= change.alpha {
		t.Fatalf("alone: %s with p = %g at level %g: no case for the test", change.Verdict, change.P, change.alpha)
	}
	for _, m := range []int{1, 40} {
		d := change
		all := []*judged{{cell: Cell{Primary: true}, decision: &d}, {cell: Cell{}}}
		for range m - 1 {
			none := decide(sideWith(0.7, 0.02, 0), sideWith(0.7, 0.02, 0), 0.01)
			all = append(all, &judged{cell: Cell{Primary: true}, decision: &none})
		}
		family(all, true, 0.01)
		want, warned := record.Different, 0
		if m > 1 {
			want, warned = record.Inconclusive, 1
		}
		if d.Verdict != want || len(all[0].cell.Warnings) != warned {
			t.Errorf("among %d cells: %s, Holm's p %.3g, %v", m, d.Verdict, d.PHolm, all[0].cell.Warnings)
		}
	}
}

// Secondary cells are there to be looked through, here as within a run: where most of forty changed, all of those are
// told, which Holm would not; one among forty is not.
func TestSecondaryCellsAreJudgedByFalseDiscoveries(t *testing.T) {
	const m = 40
	for _, changed := range []int{1, 30} {
		var all []*judged
		for i := range m {
			to := 0.7
			if i < changed {
				to = 0.75
			}
			d := decide(sideWith(0.7, 0.02, 0), sideWith(to, 0.02, 0), 0.01)
			all = append(all, &judged{decision: &d})
		}
		family(all, false, 0.01)
		d := all[0].decision
		if d.PHolm <= d.alpha {
			t.Fatalf("Holm's p is %g at level %g: no case for the test", d.PHolm, d.alpha)
		}
		if changed == 1 {
			if ws := all[0].cell.Warnings; d.Verdict != record.Inconclusive || len(ws) != 1 ||
				!strings.Contains(ws[0].Text, "q is") {
				t.Errorf("one of %d: %s with q = %.2g, %v", m, d.Verdict, d.Q, ws)
			}
			continue
		}
		for i, j := range all {
			if (j.decision.Verdict == record.Different) != (i < changed) || len(j.cell.Warnings) != 0 {
				t.Errorf("cell %d of %d, %d changed: %s with q = %.2g, %v", i, m, changed, j.decision.Verdict,
					j.decision.Q, j.cell.Warnings)
			}
		}
	}
}
