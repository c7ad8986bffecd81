package record

// The ways of trying what a flush does.
const (
	FlushCost  = "cost"  // what it costs in the target against what it costs on the host beneath
	FlushWatch = "watch" // whether the host's kernel is asked for one when the target is
)

// FlushTest is one way of trying what a flush does in a target, and what it said.
type FlushTest struct {
	Name    string  `json:"name"`    // "cost" or "watch"
	Verdict string  `json:"verdict"` // as in Durability
	Class   string  `json:"class"`   // as in Durability; "unknown" when the test says nothing
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"` // how long it took
	// Inside and Host are the median over the rounds of what a flush cost, s, of the test of cost.
	Inside float64 `json:"inside_s,omitempty"`
	Host   float64 `json:"host_s,omitempty"`
	// Asked and Seen are how many flushes the target was asked for and how many of them the host's kernel was, of the
	// test by watching.
	Asked int `json:"asked,omitempty"`
	Seen  int `json:"seen,omitempty"`
}
