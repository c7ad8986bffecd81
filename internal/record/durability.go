package record

// The ways to test a flush.
const (
	FlushCost  = "cost"  // its cost in the target compared with its cost on the host below
	FlushWatch = "watch" // whether the host's kernel gets a flush when the target does
)

// FlushTest is a test of flushes in a target, with its result.
type FlushTest struct {
	Name    string  `json:"name"`    // "cost" or "watch"
	Verdict string  `json:"verdict"` // as in Durability
	Class   string  `json:"class"`   // as in Durability; "unknown" if the test has no result
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"` // how long it took
	// Inside and Host are the median costs of a flush over the rounds, s, of the test of cost.
	Inside float64 `json:"inside_s,omitempty"`
	Host   float64 `json:"host_s,omitempty"`
	// Asked and Seen are the flushes requested in the target, and those that reached the host's kernel, of the test by
	// watching.
	Asked int `json:"asked,omitempty"`
	Seen  int `json:"seen,omitempty"`
}
