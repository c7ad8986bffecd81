package verdict

import (
	"tare/internal/record"
	"tare/internal/stats"
)

// Schema is the version of Result's JSON form. It stays while fields are only added, because readers are told to pass
// over what they do not know; it rises when a field goes, or changes its meaning or its type.
const Schema = 1

// Result is the evaluation of a bundle: the answer to the plan's question, cell by cell. Its JSON form is the report
// that scripts read; docs/report.schema.json describes it.
type Result struct {
	Schema   int       `json:"schema"`
	Run      Run       `json:"run"`
	Targets  []Target  `json:"targets"`
	Cells    []Cell    `json:"cells"`
	Families []Summary `json:"families"`
	Findings []Finding `json:"findings"`
	// Costs are fitted where a workload was run with several record sizes.
	Costs []Cost `json:"costs,omitempty"`
	// Groups are compared where trials have them.
	Groups []Grouped `json:"groups,omitempty"`
	// Why takes the ratios of the primary cells apart whose trials have accounts.
	Why []Why `json:"why,omitempty"`
	// Counters are of commands whose trials have accounts.
	Counters []Counters `json:"counters,omitempty"`
	// Neighbours is the matrix of victims and neighbours, where the plan has neighbours.
	Neighbours []Neighbour `json:"neighbours,omitempty"`
	// Density has the number of copies of an environment that keep the floor, where the plan has copies.
	Density []Density `json:"density,omitempty"`
}

// Cost is the cost of a call in one target, fitted over record sizes: PerCallNS + bytes*PerByteNS, and where the
// figures show steps, PerQuantumNS for each begun Quantum of bytes.
type Cost struct {
	Target       string  `json:"target"`
	Kind         string  `json:"kind"`  // "fs.randread"
	Label        string  `json:"label"` // the workloads' common parameters: "fs.randread size=64MiB"
	PerCallNS    float64 `json:"per_call_ns"`
	PerByteNS    float64 `json:"per_byte_ns"`
	Quantum      int64   `json:"quantum,omitempty"` // bytes; 0 when there are no steps
	PerQuantumNS float64 `json:"per_quantum_ns,omitempty"`
	Error        float64 `json:"error"`  // largest relative deviation of a point from the fit
	Points       []Point `json:"points"` // what was fitted
	Text         string  `json:"text"`   // "each call costs 62 us, then 210 MB/s"
}

// Point is the time of one operation at one record size.
type Point struct {
	Bytes int64   `json:"bytes"`
	NS    float64 `json:"ns"`
}

// Run describes the whole run.
type Run struct {
	ID        string  `json:"id"`
	Name      string  `json:"name,omitempty"`
	Version   string  `json:"version"`
	Build     string  `json:"build"`
	Baseline  string  `json:"baseline"`
	Seed      uint64  `json:"seed"`
	Mode      string  `json:"mode"`
	Sessions  int     `json:"sessions"`
	Blocks    int     `json:"blocks"` // most blocks completed by a workload
	Discarded int     `json:"discarded_blocks"`
	Failed    int     `json:"failed_trials"`
	Scope     string  `json:"scope"` // "on this boot", "across 5 boots": part of every sentence
	Seconds   float64 `json:"seconds"`
	Finished  bool    `json:"finished"`
	Alpha     float64 `json:"alpha"`
	LookAlpha float64 `json:"look_alpha"`
}

// Target is one column of the report.
type Target struct {
	record.Target
	Baseline bool             `json:"baseline"`
	Emulated bool             `json:"emulated"`
	OpenS    float64          `json:"open_seconds"` // from nothing to handshake
	ClockOff float64          `json:"clock_off"`    // centre of agent/controller time minus 1
	Warnings []record.Warning `json:"warnings"`
	// Against is the target that this one is compared with where that is not the run's baseline: a mount's environment.
	Against string `json:"against,omitempty"`
	// OnlyNeighbour says that nothing is measured in it: it is there for neighbours, or offers load with others.
	OnlyNeighbour bool `json:"only_neighbour,omitempty"`
}

// Cell is one metric of one workload in one candidate, against the baseline.
//
// Without an interval (too few blocks) Level, Low and High are 0. A cell that is FAILED, or WITHHELD because work or
// clock differ, has no ratio either: Ratio.Center is 0. Blocks counts paired blocks over all sessions.
type Cell struct {
	Workload string `json:"workload"` // label
	Kind     string `json:"kind"`
	Family   string `json:"family"`
	Metric   string `json:"metric"`
	Unit     string `json:"unit"`
	Better   string `json:"better"`
	Primary  bool   `json:"primary"`
	Target   string `json:"target"`
	Baseline string `json:"baseline"`
	// Writes says that the figure depends on what a flush does: it is ranked only within one durability class.
	Writes bool `json:"writes,omitempty"`
	record.Ratio
	Margin         float64          `json:"margin"`      // delta actually applied: beyond it a cost is DIFFERENT
	SameMargin     float64          `json:"same_margin"` // the plan's own: within it a cost is EQUIVALENT
	NullSpread     float64          `json:"null_spread"` // null control's spread on this host for this metric
	Center         float64          `json:"center"`      // candidate's centre, in Unit
	BaselineCenter float64          `json:"baseline_center"`
	Emulated       bool             `json:"emulated"`
	Failure        *record.Failure  `json:"failure,omitempty"` // first failure, when there is no figure
	Warnings       []record.Warning `json:"warnings"`
	Spread         *Spread          `json:"spread,omitempty"` // of a primary cell with a verdict
	Tails          []Tail           `json:"tails,omitempty"`  // of a primary cell with a verdict
	// ThisBoot says that the verdict is of one boot and so near to "the same" that another boot may say otherwise.
	ThisBoot bool `json:"this_boot,omitempty"`
	// Screened says that the plan let other candidates go on, which differed more, and that this one got no more
	// blocks.
	Screened bool `json:"screened,omitempty"`
	// Nested is the variance of the ratio from block to block and from boot to boot. It is for other packages; no
	// report has it.
	Nested stats.Nested `json:"-"`
}

// Summary is the geometric mean of ratios over a family's primary metrics, with an interval over blocks.
type Summary struct {
	Family string  `json:"family"`
	Target string  `json:"target"`
	Ratio  float64 `json:"ratio"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Cells  int     `json:"cells"`
	Blocks int     `json:"blocks"`
	// Withheld counts the workloads of the family that are not in the mean because their verdict is withheld.
	Withheld int `json:"withheld,omitempty"`
	// Unlike counts those that are not in it because their sides flushed differently.
	Unlike int `json:"flushes_differ,omitempty"`
}

// Finding is a sentence with evidence and a remedy.
type Finding struct {
	Code      string   `json:"code"`
	Severity  string   `json:"severity"` // "info", "warning", "withheld"
	Targets   []string `json:"targets,omitempty"`
	Workloads []string `json:"workloads,omitempty"`
	Text      string   `json:"text"`
	Remedy    string   `json:"remedy,omitempty"`
}
