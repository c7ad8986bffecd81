package verdict

import (
	"cmp"
	"math"
	"strings"

	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// Product is a ratio as a product, of what the processors counted: each factor is the candidate's figure for each unit
// of work divided by the baseline's, and together they are the ratio.
type Product struct {
	Factors []Factor `json:"factors"` // empty where a side's processor does not count
	Level   float64  `json:"level"`   // of the intervals of all factors together; 0 without intervals
	Text    string   `json:"text"`    // the product and what is shown, in words; else why there is none
}

// Factor is a factor of a ratio.
type Factor struct {
	Name  string  `json:"factor"` // "instructions", "cycles-per-instruction", "clock", "rest"
	What  string  `json:"what"`   // in words
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"` // of Ratio; 0 without an interval
	High  float64 `json:"high"`
	Shown bool    `json:"shown"` // the interval excludes 1
}

// The names of factors.
const (
	factorInstructions = "instructions"           // for each unit of work
	factorPerEach      = "cycles-per-instruction" // cycles for each of them
	factorClock        = "clock"                  // time on a processor for each cycle
	factorRest         = "rest"                   // time for what is counted before
)

// product takes the ratio apart by what the processors counted in the threads that did the trials. Where only user code
// is counted, which is all that an ordinary user may have, the rest has all other things in it.
func (cm *cellMaker) product(w *Why, c *cellBuilder, pairs []accounted) *Product {
	p := &Product{Factors: []Factor{}}
	missing := unmeasured(c, pairs, []string{record.InstructionsUser, record.CyclesUser, record.InstructionsKernel,
		record.CyclesKernel})
	lack := cmp.Or(missing[record.InstructionsUser], missing[record.CyclesUser])
	kernel := missing[record.InstructionsKernel] == "" && missing[record.CyclesKernel] == ""
	keys := make([]blockKey, len(pairs))
	logs := []map[blockKey]float64{{}, {}, {}, {}}
	for i, x := range pairs {
		if lack != "" {
			break
		}
		keys[i] = x.key
		a, b := counted(x.a, kernel), counted(x.b, kernel)
		left := c.d[x.key]
		for j := range a {
			if !(a[j] > 0) || !(b[j] > 0) {
				lack = "a processor counted nothing in some trials"
				break
			}
			logs[j][x.key] = math.Log(a[j]) - math.Log(b[j])
			left -= logs[j][x.key]
		}
		logs[len(a)][x.key] = left
	}
	if lack != "" {
		p.Text = "unmeasurable: " + lack
		return p
	}
	p.Factors = cm.factorNames(w, kernel)
	alpha := cm.alpha / float64(len(p.Factors))
	bias := c.candClock.doubtful() + c.baseClock.doubtful()
	rest := w.Ratio
	for j := range p.Factors {
		f := &p.Factors[j]
		e := stats.EstimateCenter(bySession(logs[j], keys), alpha)
		f.Ratio = math.Exp(e.Center)
		if f.Name == factorRest {
			f.Ratio = rest // so that the factors are the ratio, exactly
		}
		rest /= f.Ratio
		low, high := e.Low, e.High
		if f.Name == factorClock || f.Name == factorRest {
			low, high = low-bias, high+bias
		}
		f.bound(low, high, e.Method)
		if f.High > 0 {
			p.Level = 1 - cm.plan.Alpha
		}
	}
	p.Text = p.sentence(w)
	if !kernel {
		p.Text += "; of the kernel nothing is counted: " + cmp.Or(missing[record.InstructionsKernel],
			missing[record.CyclesKernel])
	}
	return p
}

// bound sets the interval, given by logarithms.
func (f *Factor) bound(low, high float64, method string) {
	low, high = math.Min(math.Exp(low), f.Ratio), math.Max(math.Exp(high), f.Ratio)
	f.Ratio = finite(f.Ratio)
	if method != stats.MethodNone && low > 0 && !math.IsInf(high, 0) {
		f.Low, f.High, f.Shown = finite(low), finite(high), low > 1 || high < 1
	}
}

// counted are the figures of a trial whose ratios are the factors before the rest: instructions for each unit of work,
// cycles for each of them and, if all code is counted, time on a processor for each cycle.
func counted(t *record.Trial, kernel bool) []float64 {
	n := func(name string) float64 { return float64(t.Account.Counts[name]) }
	instructions, cycles := n(record.InstructionsUser), n(record.CyclesUser)
	if kernel {
		instructions, cycles = instructions+n(record.InstructionsKernel), cycles+n(record.CyclesKernel)
	}
	figures := []float64{instructions / float64(t.Work), cycles / instructions}
	if kernel {
		figures = append(figures, (n(record.UserNS)+n(record.KernelNS))/cycles)
	}
	return figures
}

// factorNames are the factors without their figures.
func (cm *cellMaker) factorNames(w *Why, kernel bool) []Factor {
	instructions, rest := "instructions", "waiting"
	if !kernel {
		instructions, rest = "instructions in user code", "clock, kernel and waiting"
	}
	if cm.opened.emulated(w.Target) {
		rest = "emulation, " + rest
	}
	all := []Factor{{Name: factorInstructions, What: instructions},
		{Name: factorPerEach, What: "cycles per instruction"}}
	if kernel {
		all = append(all, Factor{Name: factorClock, What: "time per cycle"})
	}
	return append(all, Factor{Name: factorRest, What: rest})
}

// sentence says the product, and which factors are shown to differ from 1.
func (p *Product) sentence(w *Why) string {
	var factors, shown []string
	for _, f := range p.Factors {
		factors = append(factors, unit.Number(f.Ratio)+" "+f.What)
		if f.Shown {
			shown = append(shown, f.What+" ["+unit.Number(f.Low)+", "+unit.Number(f.High)+"]")
		}
	}
	s := unit.Number(w.Ratio) + " = " + strings.Join(factors, " x ")
	if len(shown) == 0 {
		return s + "; no factor is shown to differ from 1"
	}
	return s + "; shown against " + w.Baseline + ": " + strings.Join(shown, ", ")
}
