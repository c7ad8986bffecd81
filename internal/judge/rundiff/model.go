package rundiff

import (
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
)

// Schema is the version of Comparison's JSON form.
const Schema = 1

// Side is one result with what it was made from.
type Side struct {
	Name     string // as the reader would type it: the bundle
	Result   *verdict.Result
	Plan     *plan.Plan
	Trials   []record.Trial
	Created  time.Time // when the run began
	Redacted bool      // names of hosts are pseudonyms
	Kinds    func(name string) (*workload.Kind, bool)
}

// Comparison compares the first of some results with each of the others. Its JSON form is `tare compare --format json`.
type Comparison struct {
	Schema int    `json:"schema"`
	Sides  []Info `json:"sides"`
	Pairs  []Pair `json:"pairs"` // the first side against each of the others
}

// Info describes one side.
type Info struct {
	Name     string    `json:"name"`
	RunID    string    `json:"run_id"`
	Created  time.Time `json:"created"`
	Version  string    `json:"version"`
	Build    string    `json:"build"`
	Scope    string    `json:"scope"`
	Host     string    `json:"host"` // in words: host name, processor, kernel; "" when not known
	Finished bool      `json:"finished"`
	Redacted bool      `json:"redacted"`
}

// Pair is one side against another. From and To are their places among the sides.
type Pair struct {
	From int `json:"from"`
	To   int `json:"to"`
	// "two days on one machine (same host facts)": part of every sentence
	Scope       string           `json:"scope"`
	SameHost    Answer           `json:"same_host"` // as far as facts tell
	SameBoot    Answer           `json:"same_boot"`
	Differences []Difference     `json:"differences"`
	Cells       []Cell           `json:"cells"`
	Groups      []Group          `json:"groups,omitempty"`
	Unequal     []Unequal        `json:"unequal,omitempty"`
	Values      []Values         `json:"values"`
	Warnings    []record.Warning `json:"warnings"`
}

// Answer is yes, no, or not known.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Difference is something that the two sides do not share.
type Difference struct {
	Area  string `json:"area"`            // "tare", "plan", "work", "host", "target"
	Where string `json:"where,omitempty"` // the target or workload
	Name  string `json:"name"`
	From  string `json:"from"` // "" where that side has none
	To    string `json:"to"`
}

// Cell is one metric of one workload in one target, against the baseline, on both sides. The embedded Ratio is the
// change: the ratio of To divided by that of From; above 1 the candidate costs more, against its baseline, than it did.
type Cell struct {
	Workload string `json:"workload"`
	Kind     string `json:"kind"`
	Family   string `json:"family"`
	Metric   string `json:"metric"`
	Primary  bool   `json:"primary"`
	Target   string `json:"target"`
	Baseline string `json:"baseline"`
	record.Ratio
	From       record.Ratio     `json:"from"`
	To         record.Ratio     `json:"to"`
	Margin     float64          `json:"margin"`      // beyond it a change is DIFFERENT
	SameMargin float64          `json:"same_margin"` // within it a change is EQUIVALENT
	Warnings   []record.Warning `json:"warnings"`
}

// Group is one group of the executions of a workload in one target, against the baseline, on both sides; see
// verdict.Group. The embedded Ratio is the change, as in Cell.
type Group struct {
	Workload string `json:"workload"`
	Target   string `json:"target"`
	Baseline string `json:"baseline"`
	ID       string `json:"id"`
	Text     string `json:"text"`
	record.Ratio
	From       record.Ratio `json:"from"`
	To         record.Ratio `json:"to"`
	Margin     float64      `json:"margin"`
	SameMargin float64      `json:"same_margin"`
}

// Unequal lists the parts of a workload's work that were not the same on both sides in one target.
type Unequal struct {
	Workload string         `json:"workload"`
	Target   string         `json:"target"`
	Groups   []UnequalGroup `json:"groups"`
	// Differences are executions that returned something else in trials of both sides; see verdict.Grouped. From is
	// the base.
	Differences []verdict.Difference `json:"differences,omitempty"`
	AllDiffer   bool                 `json:"all_differ,omitempty"`
}

// UnequalGroup is a group of the executions of a workload with what it gave on both sides.
type UnequalGroup struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Values is one figure of one target on both sides, in its own unit, and how its cost changed.
type Values struct {
	From Value   `json:"from"`
	To   Value   `json:"to"`
	Cost float64 `json:"cost"` // cost of To / cost of From; 0 when one is missing
	Low  float64 `json:"low"`  // 0 without an interval
	High float64 `json:"high"`
}

// Value is one figure of one target with its interval, which is 0 to 0 when there are too few blocks for one.
type Value struct {
	Workload string  `json:"workload"`
	Kind     string  `json:"kind"`
	Target   string  `json:"target"`
	Metric   string  `json:"metric"`
	Unit     string  `json:"unit"`
	Primary  bool    `json:"primary"`
	Center   float64 `json:"center"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Blocks   int     `json:"blocks"`
	Doubt    string  `json:"-"` // why it is not to be used; "" when it can be
	// Nested is the variance of the cost from block to block and from boot to boot.
	Nested stats.Nested `json:"-"`
	// Work is the number of units of work in a trial, where that must be the same to compare; else 0.
	Work int64 `json:"-"`
	// Checks is the evidence of the work as text: equal for equal work. It is empty where there is none, or where it
	// depends on something that is drawn.
	Checks string `json:"-"`

	cost, costLow, costHigh float64 // on the log scale
}
