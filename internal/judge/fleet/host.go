package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/bundle"
	"tare/internal/judge/rundiff"
	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// Host is the evaluation of one host's bundle, as far as a fleet needs it. It follows from the bundle alone.
type Host struct {
	Name    string `json:"name"`    // as the fleet calls it
	Machine string `json:"machine"` // tells machines apart; "" where nothing does
	// Marked says that the bundle was made as a part of a fleet's measurement, and not by a run of its own.
	Marked   bool      `json:"marked"`
	Number   int       `json:"number,omitempty"` // which part, from 1; 0 where it was not marked
	Of       int       `json:"of,omitempty"`     // parts that there are
	Plan     string    `json:"plan"`             // plan.Identity
	PlanName string    `json:"plan_name,omitempty"`
	Version  string    `json:"version"`
	Build    string    `json:"build"`
	RunID    string    `json:"run_id"`
	Created  time.Time `json:"created"` // by the host's clock
	Seconds  float64   `json:"seconds"`
	WaitedS  float64   `json:"waited_seconds,omitempty"`
	Finished bool      `json:"finished"`
	Trials   int       `json:"trials"`
	Sessions int       `json:"sessions"`
	Alpha    float64   `json:"alpha"`
	// Precision is the half-width at which an interval is precise enough, as in the plan.
	Precision float64           `json:"precision"`
	Facts     map[string]string `json:"facts"`
	Measures  []Measure         `json:"measures"`
}

// Measure is a host's figure of one cell.
type Measure struct {
	Key
	Kind   string `json:"kind"`
	Family string `json:"family,omitempty"`
	Unit   string `json:"unit,omitempty"`
	Better string `json:"better"`
	// Primary says that the metric answers the workload's question.
	Primary bool `json:"primary"`
	// Center and SE are of the natural logarithm, of the ratio or of the cost of a unit of work; 0 where Why is set.
	Center float64 `json:"center"`
	SE     float64 `json:"se"`
	DF     float64 `json:"df"`
	Why    string  `json:"why,omitempty"` // why the cell has no value; "" where it has one
	// State is the verdict by which it has none: Withheld, Failed or Inconclusive. Of a ratio with a value it is the
	// verdict of this host alone.
	State  record.Verdict `json:"state,omitempty"`
	Margin float64        `json:"margin"` // of this host's verdict, its null control counted in
	Same   float64        `json:"same_margin"`
	// Value is the figure as a report shows it, in Unit.
	Value  float64      `json:"value,omitempty"`
	Blocks int          `json:"blocks"`
	Nested stats.Nested `json:"nested"`
	// Work and Checks are the evidence that the work was the same as elsewhere; see rundiff.Value.
	Work   int64  `json:"work,omitempty"`
	Checks string `json:"checks,omitempty"` // a digest
}

// Key names a cell.
type Key struct {
	Workload string `json:"workload"` // label
	Metric   string `json:"metric"`
	Target   string `json:"target"`
	// Baseline is the target that a ratio is to; "" for the cost of a unit of work in the target.
	Baseline string `json:"baseline,omitempty"`
}

// IsRatio tells a ratio from a cost.
func (k *Key) IsRatio() bool { return k.Baseline != "" }

// Summarize takes from a bundle what a fleet needs.
func Summarize(m *bundle.Manifest, s *rundiff.Side) *Host {
	r := s.Result
	h := &Host{
		Plan: plan.Identity(s.Plan), PlanName: s.Plan.Name, Version: m.Version, Build: m.Build, RunID: m.RunID,
		Created: m.Created, Seconds: m.Seconds, Finished: m.State == bundle.Finished, Trials: len(s.Trials),
		Sessions: max(r.Run.Sessions, 1), Alpha: s.Plan.Alpha, Precision: s.Plan.Precision,
	}
	h.Facts = factsOf(s)
	local := hostFacts(s)
	if local != nil {
		h.Name, h.Machine = local.Hostname, likeness(local)
	}
	if sh := m.Shard; sh != nil {
		h.Marked, h.Number, h.Of, h.WaitedS, h.Plan = true, sh.Number, sh.Of, sh.WaitedS, sh.Plan
		if sh.Host != "" {
			h.Name = sh.Host
		}
		if sh.Machine != "" {
			h.Machine = sh.Machine
		}
		maps.Copy(h.Facts, sh.Facts)
	}
	figures := rundiff.FiguresOf(s)
	h.ratios(s, figures)
	h.costs(s, figures)
	return h
}

// ratios are the cells of the host's own report.
func (h *Host) ratios(s *rundiff.Side, figures []rundiff.Value) {
	checks := map[Key]string{}
	works := map[Key]int64{}
	for i := range figures {
		v := &figures[i]
		k := Key{Workload: v.Workload, Metric: v.Metric, Target: v.Target}
		checks[k], works[k] = v.Checks, v.Work
	}
	for i := range s.Result.Cells {
		c := &s.Result.Cells[i]
		if c.Target == c.Baseline {
			continue // against itself there is nothing to learn of a kind of host
		}
		m := Measure{Key: Key{c.Workload, c.Metric, c.Target, c.Baseline}, Kind: c.Kind, Family: c.Family, Unit: c.Unit,
			Better: c.Better, Primary: c.Primary, State: c.Verdict, Margin: c.Margin, Same: c.SameMargin,
			Blocks: c.Blocks, Nested: c.Nested}
		for _, target := range []string{c.Target, c.Baseline} {
			k := Key{Workload: c.Workload, Metric: c.Metric, Target: target}
			m.Checks += checks[k] + "\n"
			m.Work = m.Work*31 + works[k]
		}
		m.Checks = digest(m.Checks)
		got, ok := rundiff.MeasuredRatio(c, s.Result)
		switch {
		case c.Failure != nil && c.Verdict == record.Failed:
			m.Why = c.Failure.Message
		case c.Verdict == record.Withheld:
			m.Why = "its verdict is withheld"
			if why := rundiff.Withheld(c.Warnings); why != "" {
				m.Why = why
			}
		case c.UnlikeFlushes():
			m.State, m.Why = record.Withheld, rundiff.Withheld(c.Warnings)
		case !ok:
			m.State, m.Why = record.Inconclusive, fmt.Sprintf("%d blocks are too few for an interval", c.Blocks)
		default:
			m.Center, m.SE, m.DF, m.Value = got.Center, got.SE, got.DF, c.Ratio.Center
		}
		h.Measures = append(h.Measures, m)
	}
}

// costs adds the cost of a unit of work in each target.
func (h *Host) costs(s *rundiff.Side, figures []rundiff.Value) {
	for i := range figures {
		v := &figures[i]
		m := Measure{Key: Key{Workload: v.Workload, Metric: v.Metric, Target: v.Target}, Kind: v.Kind, Unit: v.Unit,
			Better: string(unit.Lower), Primary: v.Primary, Margin: s.Plan.Margin, Same: s.Plan.Margin,
			Blocks: v.Blocks, Nested: v.Nested, Work: v.Work, Checks: digest(v.Checks)}
		if kind, ok := s.Kinds(v.Kind); ok {
			m.Family = kind.Family
			if w, ok := s.Plan.Workload(v.Workload); ok {
				for _, metric := range kind.MetricsFor(w.Params) {
					if metric.Name == v.Metric {
						m.Better = string(metric.Better)
						if metric.Tail {
							m.Margin, m.Same = s.Plan.TailMargin, s.Plan.TailMargin
						}
					}
				}
			}
		}
		got, ok := v.Measured(s.Result)
		switch {
		case v.Doubt != "":
			m.State, m.Why = record.Withheld, v.Doubt
		case !ok:
			m.State, m.Why = record.Inconclusive, fmt.Sprintf("%d blocks are too few for an interval", v.Blocks)
		default:
			m.Center, m.SE, m.DF, m.Value = got.Center, got.SE, got.DF, v.Center
		}
		h.Measures = append(h.Measures, m)
	}
}

func digest(text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// hostFacts returns the facts of the machine by a local environment; nil where the plan has none.
func hostFacts(s *rundiff.Side) *record.Facts {
	for i := range s.Result.Targets {
		t := &s.Result.Targets[i]
		if isHost(s.Plan, t) && t.Inside.OS != "" {
			return &t.Inside
		}
	}
	return nil
}

func isHost(p *plan.Plan, t *verdict.Target) bool {
	e, ok := p.Target(t.Name)
	return ok && e.IsHost()
}

// likeness tells machines apart by what a report has of them, for bundles that no fleet made. The name counts in small
// letters and without its domain: it is written in different ways.
func likeness(f *record.Facts) string {
	name, _, _ := strings.Cut(strings.ToLower(f.Hostname), ".")
	return "like " + digest(fmt.Sprintln(f.OS, f.Arch, name, f.CPU, f.Cores, (f.MemoryBytes+1<<29)>>30,
		f.Extra["machine.product"]))
}

// private are facts that are another on each machine or at each look, and explain nothing.
var private = []string{"host", "dir", "socket", "id", "name", "pid", "kernel.cmdline", "work.mount", "work.root",
	"work.source", "work.disk.name"}

// volatile are parts of the names of such facts.
var volatile = []string{"uptime", "free", "available_bytes", "load", "pid", "boot_id", "uuid", "serial", "address"}

func tells(name, value string) bool {
	return value != "" && len(value) <= 200 && !slices.Contains(private, name) &&
		!slices.ContainsFunc(volatile, func(part string) bool { return strings.Contains(name, part) })
}

// factsOf are the facts of the host and of the other targets that may explain why a figure differs from other hosts'.
// Those of a target other than the host have its name before them.
func factsOf(s *rundiff.Side) map[string]string {
	out := map[string]string{}
	for i := range s.Result.Targets {
		t := &s.Result.Targets[i]
		prefix := t.Name + ": "
		if isHost(s.Plan, t) {
			prefix = ""
		}
		add := func(name, value string) {
			if tells(name, value) {
				out[prefix+name] = value
			}
		}
		f := &t.Inside
		add("distribution", f.Distro)
		add("kernel", f.Kernel)
		add("processor", f.CPU)
		add("cores", positive(f.Cores))
		add("threads", positive(f.Threads))
		if f.MemoryBytes > 0 {
			add("memory", fmt.Sprintf("%.3g GiB", float64(f.MemoryBytes)/(1<<30)))
		}
		add("hypervisor", f.Hypervisor)
		add("clock source", f.Clock)
		add("file system", f.WorkFS)
		for name, value := range f.Extra {
			add(name, value)
		}
		if prefix != "" {
			for name, value := range t.Outside.Settings {
				add(name, value)
			}
		}
	}
	maps.Copy(out, meanwhile(s.Trials))
	return out
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// meanwhile has facts about the host's other activity before and during the trials.
func meanwhile(trials []record.Trial) map[string]string {
	var n, steal, stolen, throttled, known, loud float64
	for i := range trials {
		h := trials[i].Host
		if h == nil {
			continue
		}
		n++
		if !h.Quiet {
			loud++
		}
		if h.Steal >= 0 {
			stolen++
			steal += h.Steal
		}
		if h.Throttle >= 0 {
			known++
			throttled += float64(h.Throttle)
		}
	}
	out := map[string]string{}
	figure := func(name string, v, of float64) {
		if of > 0 && !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[name] = strconv.FormatFloat(v, 'g', 3, 64)
		}
	}
	figure("during.steal_percent", 100*steal/stolen, stolen)
	figure("during.throttle_events", throttled, known)
	figure("during.not_quiet_percent", 100*loud/n, n)
	return out
}
