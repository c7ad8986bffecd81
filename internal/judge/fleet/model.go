package fleet

import (
	"tare/internal/record"
)

// Schema is the version of Report's JSON form.
const Schema = 1

// Report is the evaluation of a fleet. Its JSON form is `tare fleet report --format json`.
type Report struct {
	Schema   int              `json:"schema"`
	Plan     string           `json:"plan"` // plan.Identity
	Name     string           `json:"name,omitempty"`
	Version  string           `json:"version"`
	Build    string           `json:"build"`
	By       By               `json:"by"`
	Expected int              `json:"expected"` // hosts that should be there
	Hosts    []HostLine       `json:"hosts"`
	Missing  []string         `json:"missing"`
	Refused  []Refusal        `json:"refused"`
	Cells    []Cell           `json:"cells"`
	Apart    []Odd            `json:"apart"` // hosts that lie apart in a cell, the farthest first
	Groups   []Grouping       `json:"groups"`
	Rate     float64          `json:"false_claims_at_most"`
	Tested   int              `json:"tested"` // hosts x cells in which a host could have been found apart
	Warnings []record.Warning `json:"warnings"`
}

// HostLine describes a host that counts.
type HostLine struct {
	Name     string  `json:"name"`
	Machine  string  `json:"machine"`
	Bundle   string  `json:"bundle"`
	RunID    string  `json:"run_id"`
	Part     int     `json:"part,omitempty"`
	Seconds  float64 `json:"seconds"`
	Finished bool    `json:"finished"`
	// Cells is in how many primary cells it has a value.
	Cells int `json:"cells"`
}

// Cell is one cell across the hosts. Center, Low and High of a ratio are ratios. Those of a cost are figures in Unit,
// and Low is below High whichever is better. Without an interval, Low and High are 0.
type Cell struct {
	Key
	IsRatio bool   `json:"is_ratio"`
	Kind    string `json:"kind"`
	Family  string `json:"family,omitempty"`
	Unit    string `json:"unit,omitempty"`
	Better  string `json:"better"`
	Primary bool   `json:"primary"`

	Hosts    int `json:"hosts"`    // that have a value
	Withheld int `json:"withheld"` // hosts whose work or clock forbids one
	Failed   int `json:"failed"`   // hosts on which it failed
	Lacking  int `json:"lacking"`  // hosts with too few blocks, or without the cell
	// Why is the reason of the first host, in the order of hosts, that has no value.
	Why string `json:"why,omitempty"`

	Center float64 `json:"center"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// NextLow and NextHigh bound what a further host of the kind would have; 0 below three hosts.
	NextLow  float64 `json:"next_low"`
	NextHigh float64 `json:"next_high"`
	Level    float64 `json:"level"` // of both intervals
	// HostSD, BootSD and BlockSD are what hosts, boots of a host, and blocks of a boot differ by, as shares: 0.02 is
	// 2 %. BootSD is 0 where each host was measured on one boot: then it is part of HostSD.
	HostSD  float64 `json:"host_sd"`
	BootSD  float64 `json:"boot_sd"`
	BlockSD float64 `json:"block_sd"`
	I2      float64 `json:"i2"` // share of the variance of hosts' values that is not their own noise
	// Of a ratio: P is the p value of "the cost lies within the margin", PHolm and Q count the other cells in.
	Margin  float64        `json:"margin"`
	Same    float64        `json:"same_margin"`
	P       float64        `json:"p"`
	PHolm   float64        `json:"p_holm"`
	Q       float64        `json:"q"`
	Verdict record.Verdict `json:"verdict,omitempty"` // of ratios; a cost has none
	// Showing is on how many hosts the host alone is DIFFERENT in the same direction.
	Showing int `json:"showing"`
	// Sentence says all of that.
	Sentence string `json:"sentence"`
	// Order are the hosts with a value, the one with the highest cost first.
	Order    []Place          `json:"order"`
	Warnings []record.Warning `json:"warnings"`
}

// Place is a host in the order of a cell.
type Place struct {
	Host  string  `json:"host"`
	Value float64 `json:"value"` // the ratio, or the figure in the cell's unit
	Low   float64 `json:"low"`   // 95 % interval of this host alone
	High  float64 `json:"high"`
	// Against is its cost divided by that of the other hosts, with the interval for a host of their kind around it.
	Against float64        `json:"against"`
	P       float64        `json:"p"` // of "it is of their kind, or no further off than the margin"
	Q       float64        `json:"q"` // with all hosts and cells counted in; 1 where the cell is not primary
	Apart   bool           `json:"apart"`
	Verdict record.Verdict `json:"verdict,omitempty"` // of this host alone
}

// Odd is a host that lies apart in a cell, and in what it differs.
type Odd struct {
	Host string `json:"host"`
	Key
	IsRatio bool    `json:"is_ratio"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit,omitempty"`
	Against float64 `json:"against"`
	Q       float64 `json:"q"`
	// Differs are facts that it does not share with most others, the most telling first.
	Differs []Fact `json:"differs"`
}

// Fact is one fact of a host that lies apart.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Usual is the most frequent value of the hosts that do not lie apart; of a figure, the middle one.
	Usual string `json:"usual"`
	// Like is the number of hosts with the same value among the LikeOf that lie apart on the same side, and Others that
	// among the OthersOf that do not lie apart. Of a figure, as much or more.
	Like     int `json:"like"`
	LikeOf   int `json:"like_of"`
	Others   int `json:"others"`
	OthersOf int `json:"others_of"`
	// P is the chance of so many among the hosts that lie apart if the fact had nothing to do with it (Fisher's exact
	// test). It ranks; facts are many, and it does not count how many were looked through.
	P float64 `json:"p"`
}
