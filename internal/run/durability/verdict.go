package durability

import (
	"fmt"
	"slices"

	"tare/internal/measure/workload/durability"
	"tare/internal/record"
)

// The targets of cuts: the machine under test, and a machine with the opposite settings for each control.
const (
	Test            = "test"
	PositiveControl = "positive control"
	NegativeControl = "negative control"
)

// The classes of record.Durability.
const (
	ClassFlushes = "flushes"
	ClassIgnores = "ignores-flushes"
	ClassMemory  = "memory"
	ClassUnknown = "unknown"
)

// layerDisk is how far the plug-pull looks.
const layerDisk = "the virtual disk's server (the host's own disk was not tested)"

// Result is the result of pulling the plug.
type Result struct {
	Spec     string      `json:"spec"`
	Settings string      `json:"settings"` // those that decide: "cache=none"
	By       By          `json:"by"`
	Seed     uint64      `json:"seed"`
	Classes  []string    `json:"classes"`
	Pulls    []CutResult `json:"pulls"`
	// Power says that the positive control lost records in every cut. Without it the test says nothing.
	Power bool `json:"power"`
	// Sound says that the negative control lost none. Without it a loss may be tare's own.
	Sound bool `json:"sound"`
	// Stopped says that the test ended before all cuts were made, so that controls are missing and nothing is judged.
	Stopped bool              `json:"stopped,omitempty"`
	Rows    []Row             `json:"rows"`    // one for each class
	Verdict record.Durability `json:"verdict"` // of all classes together

	declared *record.Durability // what the configuration says; nil if that is not known
}

// Row is the verdict on one class of the test.
type Row struct {
	Class        string  `json:"class"`
	Doc          string  `json:"doc"`
	Verdict      string  `json:"verdict"`
	Cuts         int     `json:"cuts"`
	Acknowledged int     `json:"acknowledged"`
	Lost         int     `json:"lost"` // places whose acknowledged record is missing, however
	Torn         int     `json:"torn"`
	RolledBack   int     `json:"rolled_back"`
	Reordered    int     `json:"reordered"`
	Bound        float64 `json:"bound,omitempty"` // of the share of cuts that lose a record, 95 % confidence
	Evidence     string  `json:"evidence,omitempty"`
	// Promised is false where POSIX does not promise what the class asks for.
	Promised bool `json:"promised"`
}

// judge completes the result from its pulls.
func (r *Result) judge() {
	r.Power, r.Sound = r.has(PositiveControl), r.has(NegativeControl)
	tested := 0
	for i := range r.Pulls {
		p := &r.Pulls[i]
		switch p.Target {
		case PositiveControl:
			r.Power = r.Power && len(p.Losses) > 0 // promised or not: where flushes are ignored it has to go
		case NegativeControl:
			r.Sound = r.Sound && !p.lost()
		default:
			tested++
		}
	}
	broken := []string{}
	r.Rows = nil
	for _, name := range r.Classes {
		row := r.row(name)
		if row.Verdict == record.Disproved && row.Promised {
			broken = append(broken, row.Evidence)
		}
		r.Rows = append(r.Rows, row)
	}
	r.Verdict = r.verdict(tested, broken)
}

// has tells whether a target was cut at least once.
func (r *Result) has(target string) bool {
	return slices.ContainsFunc(r.Pulls, func(p CutResult) bool { return p.Target == target })
}

// controlled names the settings of a control, in brackets.
func (r *Result) controlled(target string) string {
	for i := range r.Pulls {
		if p := &r.Pulls[i]; p.Target == target {
			return " (" + p.Settings + ")"
		}
	}
	return ""
}

// lostInControl tells whether a class lost records where flushes are ignored.
func (r *Result) lostInControl(class string) bool {
	return slices.ContainsFunc(r.Pulls, func(p CutResult) bool {
		return p.Target == PositiveControl && slices.ContainsFunc(p.Losses,
			func(l Loss) bool { return l.Class == class })
	})
}

func (r *Result) verdict(cuts int, broken []string) record.Durability {
	d := record.Durability{Verdict: record.Untested, Class: ClassUnknown, Cuts: cuts}
	unpromised := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Lost > 0 && !row.Promised })
	kept := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Verdict == record.NotDisproved })
	switch {
	case r.Stopped:
		d.Text = fmt.Sprintf("stopped before the end: the environment had %d cuts, and the controls are not complete",
			cuts)
	case !r.Power:
		d.Text = "this test has no power here: with flushes ignored" + r.controlled(PositiveControl) +
			" a cut lost nothing"
		if r.By == ByPowerOff {
			d.Text += ", because a product that switches a machine off closes its disks, and they are flushed then; " +
				"--by disk and --by kill show what a guest's flush is worth"
		}
	case !r.Sound:
		d.Text = "this test is not sound here: it lost records although every flush was passed on, so a loss says " +
			"nothing about the environment"
	case len(broken) > 0:
		d.Verdict, d.Class, d.Evidence = record.Disproved, ClassIgnores, broken
		d.Text = "acknowledged records were gone after a cut of the power"
		if r.declared != nil {
			d.Settings = r.declared.Settings
		}
	case unpromised && !kept:
		d.Text = "only records that POSIX does not promise were lost, and no others were tested: that disproves nothing"
	case !kept:
		d.Text = "the control, where flushes are ignored, lost none of these records either: that none was lost " +
			"says nothing"
	default:
		what := "acknowledged record"
		if unpromised {
			what = "record that POSIX promises"
		}
		d.Verdict, d.Class, d.Layer, d.Bound = record.NotDisproved, ClassFlushes, layerDisk, bound(cuts)
		d.Text = fmt.Sprintf("no %s was lost in %s; with 95 %% confidence at most %.3g %% of all such cuts lose one",
			what, r.By.cuts(cuts), 100*d.Bound)
	}
	return d
}

// bound is the rule of three: after n trials without an event the 95 % upper bound of its rate is about 3/n.
func bound(n int) float64 {
	if n == 0 {
		return 0
	}
	return min(3/float64(n), 1)
}

func (r *Result) row(class string) Row {
	row := Row{Class: class, Verdict: record.Untested}
	if c, err := durability.ParseClass(class); err == nil {
		row.Doc, row.Promised = c.Doc(), c.Promised()
	}
	for i := range r.Pulls {
		p := &r.Pulls[i]
		if p.Target != Test || p.ByClass[class] == 0 {
			continue
		}
		row.Cuts++
		row.Acknowledged += p.ByClass[class]
		for j := range p.Losses {
			if l := &p.Losses[j]; l.Class == class {
				row.count(p, l)
			}
		}
	}
	switch {
	case r.Stopped || !r.Power || !r.Sound || row.Cuts == 0:
	case row.Lost > 0:
		row.Verdict = record.Disproved
	case !r.lostInControl(class): // then that none was lost here means nothing
	default:
		row.Verdict, row.Bound = record.NotDisproved, bound(row.Cuts)
	}
	return row
}

func (row *Row) count(p *CutResult, l *Loss) {
	row.Lost++
	switch l.How {
	case Torn:
		row.Torn++
	case RolledBack:
		row.RolledBack++
	}
	if l.Reordered {
		row.Reordered++
	}
	if row.Evidence != "" {
		return
	}
	row.Evidence = fmt.Sprintf("cut %d (%s, seed %d): %s", p.Number, p.Cut.Fault, p.Cut.Seed, l)
	if p.Unmountable != "" {
		row.Evidence += "; " + p.Unmountable
	}
}
