package fleet_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"tare/internal/judge/fleet"
)

// trialled is a machine that is held against a history many times, and what must hold of it, in percent.
type trialled struct {
	history scenario // hosts, cells, differ, spread, block; sick and extra of the history
	times   int      // with each seed
	block   float64  // noise of a block on the machine
	slower  float64  // by how much the machine costs more than its kind's middle
	in      int      // in so many cells; 0: all
	fixed   bool     // it is exactly that, and does not differ by chance as a host of the kind does
	// 0 means nothing is asked.
	pass, passMost, fail, failMost float64
}

// simTolerance is the tolerance that the command has without a flag.
const simTolerance = 0.1

// qualifySeeds are those of the table; what must hold has to hold with each.
var qualifySeeds = []uint64{1, 2, 3}

func kindOf(hosts, cells int, differ float64, spread spread, block float64) scenario {
	return scenario{hosts: hosts, cells: cells, differ: differ, spread: spread, block: block}
}

var trials = []trialled{
	// Of the kind: false alarms, and how often it passes.
	{history: kindOf(5, 6, 0.02, normal, 0.01), times: 300, block: 0.01, failMost: 6},
	{history: kindOf(10, 6, 0.02, normal, 0.01), times: 300, block: 0.01, pass: 90, failMost: 6},
	{history: kindOf(40, 6, 0.02, normal, 0.01), times: 200, block: 0.01, pass: 95, failMost: 6},
	{history: kindOf(40, 20, 0.02, normal, 0.01), times: 100, block: 0.01, pass: 90, failMost: 6},
	{history: kindOf(10, 6, 0.005, normal, 0.03), times: 300, block: 0.03, failMost: 6},
	{history: kindOf(40, 6, 0.01, normal, 0.05), times: 200, block: 0.05, failMost: 6},
	{history: kindOf(40, 6, 0.01, normal, 0.2), times: 200, block: 0.2, failMost: 6},
	{history: kindOf(40, 6, 0.05, normal, 0.01), times: 200, block: 0.01, failMost: 6},
	{history: kindOf(40, 6, 0.02, heavy, 0.01), times: 200, block: 0.01},
	{history: kindOf(40, 6, 0.02, twoKinds, 0.01), times: 200, block: 0.01, failMost: 6},
	// A history with four sick hosts of forty.
	{history: scenario{hosts: 40, cells: 6, differ: 0.02, spread: normal, block: 0.01, sick: 4, extra: 0.2}, times: 200,
		block: 0.01, pass: 90, failMost: 6},
	{history: scenario{hosts: 40, cells: 6, differ: 0.02, spread: normal, block: 0.01, sick: 4, extra: 0.2}, times: 200,
		block: 0.01, slower: 0.2, in: 1, fail: 95},
	// Slower: how often that is found, and how often it passes.
	{history: kindOf(5, 6, 0.02, normal, 0.01), times: 300, block: 0.01, slower: 0.2, in: 1, passMost: 1},
	{history: kindOf(10, 6, 0.02, normal, 0.01), times: 300, block: 0.01, slower: 0.2, in: 1, fail: 80},
	{history: kindOf(40, 6, 0.02, normal, 0.01), times: 200, block: 0.01, slower: 0.1, in: 1},
	{history: kindOf(40, 6, 0.02, normal, 0.01), times: 200, block: 0.01, slower: 0.15, in: 1, fail: 90},
	{history: kindOf(40, 6, 0.02, normal, 0.01), times: 200, block: 0.01, slower: 0.2, in: 1, fail: 99},
	{history: kindOf(40, 6, 0.005, normal, 0.01), times: 200, block: 0.01, slower: 0.05, in: 1, fail: 50},
	// Just at the tolerance: at most one in twenty passes.
	{history: kindOf(40, 1, 0.05, normal, 0.02), times: 500, block: 0.05, slower: simTolerance, fixed: true,
		passMost: 6.5},
	{history: kindOf(10, 1, 0.02, normal, 0.05), times: 500, block: 0.1, slower: simTolerance, fixed: true,
		passMost: 6.5},
	{history: kindOf(40, 1, 0.01, normal, 0.2), times: 500, block: 0.2, slower: simTolerance, fixed: true,
		passMost: 6.5},
}

// machine draws the machine: in the first cells it costs more.
func (x *trialled) machine(rng *rand.Rand) fleet.Candidate {
	h := &fleet.Host{Name: "new", Finished: true, Alpha: simAlpha, Precision: 0.01}
	for c := range x.history.cells {
		z := noise()[rng.IntN(len(noise()))]
		truth := 0.0
		if !x.fixed {
			truth = x.history.differ * x.history.spread.draw(rng)
		}
		if x.slower > 0 && (x.in == 0 || c < x.in) {
			truth += math.Log1p(x.slower)
		}
		h.Measures = append(h.Measures, fleet.Measure{
			Key:     fleet.Key{Workload: fmt.Sprintf("w%d", c), Metric: "m", Target: "vm", Baseline: "host"},
			Primary: true, Center: truth + x.block*z.Center, SE: x.block * z.SE, DF: z.DF, Margin: simMargin,
			Same: simMargin, Blocks: simBlocks, Better: "lower"})
	}
	return fleet.Candidate{Bundle: "new", Host: h}
}

// simulate returns how often the machine passes and how often it fails, in percent, with one seed.
func (x *trialled) simulate(seed, n uint64) (pass, fail float64) {
	rng := rand.New(rand.NewPCG(seed, n))
	for range x.times {
		q := fleet.Qualify(x.history.hostsOf(rng), x.machine(rng), fleet.Demand{Margin: -1, Tolerance: simTolerance})
		pass += one(q.Verdict == fleet.Pass)
		fail += one(q.Verdict == fleet.Fail)
	}
	return 100 * pass / float64(x.times), 100 * fail / float64(x.times)
}

func (x *trialled) row(pass, fail float64) []string {
	figure := func(v float64) string { return fmt.Sprintf("%.1f %%", v) }
	kind := strings.TrimSuffix(fmt.Sprintf("%.1f", 100*x.history.differ), ".0") + " %" + x.history.spread.name
	sick, slower := "none", "of the kind"
	if x.history.sick > 0 {
		sick = fmt.Sprintf("%d by %.0f %%", x.history.sick, 100*x.history.extra)
	}
	if x.slower > 0 {
		in := "all"
		if x.in > 0 {
			in = fmt.Sprint(x.in)
		}
		slower = fmt.Sprintf("%.0f %% slower in %s", 100*x.slower, in)
		if x.fixed {
			slower = fmt.Sprintf("exactly %.0f %% slower", 100*x.slower)
		}
	}
	return []string{fmt.Sprint(x.history.hosts), fmt.Sprint(x.history.cells), kind, sick,
		fmt.Sprintf("%.0f %%", 100*x.history.block), fmt.Sprintf("%.0f %%", 100*x.block), slower, figure(pass),
		figure(fail), figure(max(0, 100-pass-fail))}
}

// TestSimulatedQualification holds the false alarms and the power of `tare qualify`, and the table in simulated.md.
func TestSimulatedQualification(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of machines are simulated")
	}
	seeds := qualifySeeds
	if os.Getenv("TARE_SIM_SEED") != "" {
		seeds = []uint64{(&scenario{}).seed()}
	}
	rows := make([][]string, len(trials))
	t.Run("machines", func(t *testing.T) {
		for i := range trials {
			x := &trials[i]
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				var passes, fails float64
				for _, seed := range seeds {
					pass, fail := x.simulate(seed, uint64(i))
					passes, fails = passes+pass, fails+fail
					x.goals(t, fmt.Sprintf("seed %d", seed), pass, fail, 3)
				}
				n := float64(len(seeds))
				x.goals(t, "all seeds", passes/n, fails/n, 0)
				rows[i] = x.row(passes/n, fails/n)
			})
		}
	})
	if t.Failed() {
		return
	}
	holdTable(t, "Qualification", append([][]string{{"hosts", "figures", "hosts differ by", "sick in the history",
		"block noise there", "here", "the machine", "pass", "fail", "cannot tell"}}, rows...))
}

// goals holds the rates to what must hold, with so many points of slack for what chance does with few machines.
func (x *trialled) goals(t *testing.T, of string, pass, fail, slack float64) {
	t.Helper()
	for _, g := range []struct {
		what        string
		got         float64
		least, most float64
	}{{"pass", pass, x.pass, x.passMost}, {"fail", fail, x.fail, x.failMost}} {
		if g.least > 0 && g.got < g.least-slack {
			t.Errorf("%s, %d hosts, %d cells: %s in %.1f %%, want at least %.0f %%", of, x.history.hosts,
				x.history.cells, g.what, g.got, g.least)
		}
		if g.most > 0 && g.got > g.most+slack {
			t.Errorf("%s, %d hosts, %d cells: %s in %.1f %%, want at most %.0f %%", of, x.history.hosts,
				x.history.cells, g.what, g.got, g.most)
		}
	}
}
