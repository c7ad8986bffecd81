package fleet_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/judge/fleet"
	"tare/internal/record"
	"tare/internal/stats"
)

var update = flag.Bool("update", false, "write the tables of the simulations into simulated.md, and golden files")

const (
	simAlpha  = 0.05
	simLook   = 0.018 // level of a look of a quick run
	simBlocks = 10
	simMargin = 0.02
)

// noise are what hosts with a true value of 0 and blocks with a noise of 1 say: the estimate of ten blocks and its
// standard error, recovered from the interval as it is of a bundle. Estimates scale with the noise.
var noise = sync.OnceValue(func() []stats.Measured {
	rng := rand.New(rand.NewPCG(17, 1))
	out := make([]stats.Measured, 20_000)
	for i := range out {
		d := make([]float64, simBlocks)
		for j := range d {
			d[j] = rng.NormFloat64()
		}
		e := stats.EstimateCenter([][]float64{d}, simLook)
		out[i], _ = stats.MeasuredBy(e.Center, e.Low, e.High, simLook, e.Units)
	}
	return out
})

// spread draws how much a healthy host's true value differs from its kind's, with standard deviation 1.
type spread struct {
	name string
	draw func(rng *rand.Rand) float64
}

var (
	normal = spread{"", func(rng *rand.Rand) float64 { return rng.NormFloat64() }}
	heavy  = spread{" (t, 5 df)", func(rng *rand.Rand) float64 {
		var chi float64
		for range 5 {
			z := rng.NormFloat64()
			chi += z * z
		}
		return rng.NormFloat64() / math.Sqrt(chi/5) * math.Sqrt(3./5)
	}}
	twoKinds = spread{" (two kinds, 70:30)", func(rng *rand.Rand) float64 {
		v := -math.Sqrt(3. / 7)
		if rng.Float64() < 0.3 {
			v = math.Sqrt(7. / 3)
		}
		return 0.9*v + math.Sqrt(1-0.81)*rng.NormFloat64()
	}}
)

// scenario is a fleet that is simulated many times, and what must hold of it.
type scenario struct {
	hosts, cells, times int
	differ              float64 // standard deviation between healthy hosts
	spread              spread
	block               float64 // noise of a block
	cost                float64 // of the candidate: 0.05 is 5 %
	sick                int     // hosts of the fleet that cost more in every cell
	extra               float64 // by how much
	// What must hold, in percent. 0 means nothing is asked.
	mean, next float64 // coverage at least
	different  float64 // DIFFERENT at least
	falsely    float64 // fleets with any false claim, where none is sick; false ones among all claims else: at most
	found      float64 // sick ones found at least
}

var scenarios = []scenario{
	{hosts: 5, cells: 1, times: 2000, differ: 0.03, spread: normal, block: 0.01, mean: 93, next: 93, falsely: 6},
	{hosts: 10, cells: 1, times: 2000, differ: 0.03, spread: normal, block: 0.01, mean: 93, next: 93, falsely: 6},
	{hosts: 40, cells: 1, times: 2000, differ: 0.03, spread: normal, block: 0.01, mean: 93, next: 93, falsely: 6},
	{hosts: 10, cells: 1, times: 2000, differ: 0.003, spread: normal, block: 0.02, mean: 93, next: 88, falsely: 6},
	{hosts: 40, cells: 1, times: 2000, differ: 0.003, spread: normal, block: 0.02, mean: 93, next: 88, falsely: 6},
	{hosts: 10, cells: 1, times: 2000, differ: 0.02, spread: normal, block: 0.01, cost: 0.05, mean: 93, next: 93,
		different: 90, falsely: 6},
	{hosts: 40, cells: 1, times: 2000, differ: 0.03, spread: normal, block: 0.01, cost: 0.05, mean: 93, next: 93,
		different: 99, falsely: 6},
	{hosts: 40, cells: 20, times: 200, differ: 0.03, spread: normal, block: 0.01, mean: 93, next: 93, falsely: 6},
	{hosts: 40, cells: 5, times: 400, differ: 0.02, spread: normal, block: 0.01, sick: 1, extra: 0.2, next: 93,
		falsely: 6, found: 95},
	{hosts: 1000, cells: 5, times: 60, differ: 0.02, spread: normal, block: 0.01, mean: 93, next: 93, falsely: 6},
	{hosts: 1000, cells: 5, times: 40, differ: 0.02, spread: normal, block: 0.01, sick: 10, extra: 0.05, falsely: 6},
	{hosts: 1000, cells: 5, times: 40, differ: 0.01, spread: normal, block: 0.01, sick: 10, extra: 0.1, falsely: 6,
		found: 95},
	{hosts: 1000, cells: 5, times: 40, differ: 0.02, spread: normal, block: 0.01, sick: 10, extra: 0.2, falsely: 6,
		found: 99},
	{hosts: 1000, cells: 5, times: 40, differ: 0.02, spread: heavy, block: 0.01, sick: 10, extra: 0.2, found: 95},
	{hosts: 1000, cells: 5, times: 40, differ: 0.02, spread: twoKinds, block: 0.01, sick: 10, extra: 0.2, found: 95,
		falsely: 6},
}

// rates are what was seen of a scenario, in percent; NaN where there is nothing to see.
type rates struct{ mean, next, different, falseFleets, found, falseClaims float64 }

func (s *scenario) seed() uint64 {
	if v, err := strconv.ParseUint(os.Getenv("TARE_SIM_SEED"), 10, 64); err == nil {
		return v
	}
	return 20261125
}

// hostsOf makes a fleet; the sick ones are the first.
func (s *scenario) hostsOf(rng *rand.Rand) *fleet.Admitted {
	a := &fleet.Admitted{Expected: s.hosts, Plan: "p", Build: "b"}
	for i := range s.hosts {
		h := &fleet.Host{Name: fmt.Sprintf("n%04d", i), Finished: true, Alpha: simAlpha, Precision: 0.01}
		for c := range s.cells {
			z := noise()[rng.IntN(len(noise()))]
			truth := math.Log1p(s.cost) + s.differ*s.spread.draw(rng)
			if i < s.sick {
				truth += math.Log1p(s.extra)
			}
			h.Measures = append(h.Measures, fleet.Measure{
				Key:     fleet.Key{Workload: fmt.Sprintf("w%d", c), Metric: "m", Target: "vm", Baseline: "host"},
				Primary: true, Center: truth + s.block*z.Center, SE: s.block * z.SE, DF: z.DF,
				State: record.Measured, Margin: simMargin, Same: simMargin, Blocks: simBlocks, Better: "lower"})
		}
		a.Hosts = append(a.Hosts, fleet.Candidate{Bundle: h.Name, Host: h})
	}
	return a
}

func (s *scenario) simulate(n uint64) rates {
	rng := rand.New(rand.NewPCG(s.seed(), n))
	var cells, mean, next, different, fleets, falseFleets, sick, found, claims, falseClaims float64
	truth := 1 + s.cost
	for range s.times {
		r := fleet.Judge(s.hostsOf(rng))
		for i := range r.Cells {
			c := &r.Cells[i]
			further := truth * math.Exp(s.differ*s.spread.draw(rng))
			cells++
			mean += one(c.Low <= truth && truth <= c.High)
			next += one(c.NextLow <= further && further <= c.NextHigh)
			different += one(c.Verdict == record.Different)
		}
		fleets++
		sick += float64(s.sick * s.cells)
		wrong := 0.0
		for i := range r.Apart {
			at, _ := strconv.Atoi(r.Apart[i].Host[1:])
			claims++
			if at < s.sick && r.Apart[i].Against > 1 {
				found++
				continue
			}
			falseClaims++
			wrong = 1
		}
		falseFleets += wrong
	}
	return rates{100 * mean / cells, 100 * next / cells, 100 * different / cells, 100 * falseFleets / fleets,
		100 * found / sick, 100 * falseClaims / claims}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// row is the scenario's line of the table.
func (s *scenario) row(r rates) []string {
	figure := func(v float64, has bool) string {
		if !has || math.IsNaN(v) {
			return ""
		}
		return fmt.Sprintf("%.1f %%", v)
	}
	sick := ""
	if s.sick > 0 {
		sick = fmt.Sprintf("%d by %.0f %%", s.sick, 100*s.extra)
	}
	cost := "none"
	if s.cost > 0 {
		cost = fmt.Sprintf("%.0f %%", 100*s.cost)
	}
	return []string{fmt.Sprint(s.hosts), fmt.Sprint(s.cells),
		strings.TrimSuffix(fmt.Sprintf("%.1f", 100*s.differ), ".0") + " %" + s.spread.name,
		fmt.Sprintf("%.0f %%", 100*s.block), cost, sick, figure(r.mean, s.sick == 0), figure(r.next, true),
		figure(r.different, s.sick == 0), figure(r.falseFleets, s.sick == 0), figure(r.found, s.sick > 0),
		figure(r.falseClaims, s.sick > 0)}
}

// goals holds the rates to what must hold.
func (s *scenario) goals(t *testing.T, r rates) {
	t.Helper()
	least := func(what string, got, want float64) {
		if want > 0 && !(got >= want) {
			t.Errorf("%v hosts, %d cells: %s in %.1f %%, want at least %.0f %%", s.hosts, s.cells, what, got, want)
		}
	}
	least("the mean's interval has it", r.mean, s.mean)
	least("a further host's interval has it", r.next, s.next)
	least("DIFFERENT", r.different, s.different)
	least("sick hosts found", r.found, s.found)
	if s.cost == 0 && s.sick == 0 && r.different > 1 {
		t.Errorf("%d hosts without a cost: DIFFERENT in %.1f %%", s.hosts, r.different)
	}
	got := r.falseFleets
	if s.sick > 0 {
		got = r.falseClaims
	}
	if s.falsely > 0 && got > s.falsely {
		t.Errorf("%d hosts, %d cells, %d sick: false claims in %.1f %%, want at most %.0f %%", s.hosts, s.cells, s.sick,
			got, s.falsely)
	}
}

const (
	tableBegin = "<!-- written by go test ./internal/judge/fleet -run Simulated%s -update -->"
	tableEnd   = "<!-- until here -->"
	tablePage  = "simulated.md"
)

// holdTable holds a table of simulated.md to what was simulated, or writes it there. With a seed of the caller's the
// figures are others than the table's.
func holdTable(t *testing.T, name string, rows [][]string) {
	t.Helper()
	var lines []string
	for i, r := range rows {
		lines = append(lines, "| "+strings.Join(r, " | ")+" |")
		if i == 0 {
			lines = append(lines, "|"+strings.Repeat("---|", len(r)))
		}
	}
	table := strings.Join(lines, "\n")
	t.Log("\n" + table)
	if os.Getenv("TARE_SIM_SEED") != "" {
		return
	}
	src, err := os.ReadFile(tablePage)
	if err != nil {
		t.Fatal(err)
	}
	begin := fmt.Sprintf(tableBegin, name)
	before, rest, ok := strings.Cut(string(src), begin+"\n\n")
	shown, after, end := strings.Cut(rest, "\n\n"+tableEnd)
	if !ok || !end {
		t.Fatalf("%s has no table between %q and %q", tablePage, begin, tableEnd)
	}
	if *update {
		text := before + begin + "\n\n" + table + "\n\n" + tableEnd + after
		if err := os.WriteFile(tablePage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text := unlike(shown, table); text != "" {
		t.Errorf("simulated.md does not show what is simulated: %s; run go test ./internal/judge/fleet -run "+
			"Simulated%s -update", text, name)
	}
}

// TestSimulatedFleets holds size, coverage and power to their goals, and the table in simulated.md to what is seen.
func TestSimulatedFleets(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of fleets are simulated")
	}
	got := make([]rates, len(scenarios))
	began := time.Now()
	t.Run("scenarios", func(t *testing.T) {
		for i := range scenarios {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				got[i] = scenarios[i].simulate(uint64(i))
				scenarios[i].goals(t, got[i])
			})
		}
	})
	t.Logf("%d scenarios in %.1f s", len(scenarios), time.Since(began).Seconds())
	rows := [][]string{{"hosts", "cells", "hosts differ by", "block noise", "cost", "sick hosts", "mean covered",
		"further host covered", "DIFFERENT", "fleets with a false claim", "sick found", "claims that are false"}}
	for i := range scenarios {
		rows = append(rows, scenarios[i].row(got[i]))
	}
	holdTable(t, "Fleets", rows)
}

var figureRE = regexp.MustCompile(`(\d+\.\d) %`)

// unlike compares two tables. Figures may be half a point apart: processors round the last bit differently, which now
// and then moves a fleet across a border.
func unlike(a, b string) string {
	if x, y := figureRE.ReplaceAllString(a, "#"), figureRE.ReplaceAllString(b, "#"); x != y {
		return "other rows"
	}
	y := figureRE.FindAllStringSubmatch(b, -1)
	for i, m := range figureRE.FindAllStringSubmatch(a, -1) {
		p, _ := strconv.ParseFloat(m[1], 64)
		q, _ := strconv.ParseFloat(y[i][1], 64)
		if math.Abs(p-q) > 0.5 {
			return fmt.Sprintf("%g %% is %g %%", p, q)
		}
	}
	return ""
}
