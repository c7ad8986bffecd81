package durability

import (
	"fmt"

	"tare/internal/record"
)

// RelativeRounds is how many pairs of rounds Relative wants at least. Its rate of error is at most 2 to the minus
// RelativeRounds: below 1 %.
const RelativeRounds = 7

// Round is the cost of a flush on both sides, measured one right after the other in random order: the time, in seconds,
// that 1 % of durability.fsync's flushes stayed below.
type Round struct {
	Inside float64 `json:"inside"`
	Host   float64 `json:"host"`
}

// Relative judges by the cost of a flush whether it reaches the host's disk. A flush inside that does reach it contains
// one of the host's, so it is as likely as not, at the very best, that a round shows it to be cheaper; that all of n
// rounds do happens with a probability of at most 2 to the minus n. It never says that a flush arrives: one that is
// dearer may be so for other reasons, and one on a disk with a protected cache is cheap on both sides.
func Relative(rounds []Round) record.Durability {
	d := record.Durability{Verdict: record.Untested, Class: ClassUnknown}
	cheaper := 0
	for _, r := range rounds {
		if !(r.Inside > 0 && r.Host > 0) {
			d.Text = "a round has no figure"
			return d
		}
		if r.Inside < r.Host {
			cheaper++
		}
	}
	switch n := len(rounds); {
	case cheaper < n:
		last := rounds[n-1]
		d.Text = fmt.Sprintf("a flush was faster inside in %d of %d rounds (%.3g ms against %.3g ms on the host in "+
			"the last), which proves nothing", cheaper, n, 1e3*last.Inside, 1e3*last.Host)
	case n < RelativeRounds:
		d.Text = fmt.Sprintf("%d rounds are too few to compare the cost of flushes; %d are needed", n, RelativeRounds)
	default:
		last := rounds[n-1]
		d.Class = ClassIgnores
		d.Text = fmt.Sprintf("a flush was faster inside than on the host in all of %d rounds (%.3g ms against %.3g "+
			"ms in the last): it does not reach the host's disk", n, 1e3*last.Inside, 1e3*last.Host)
	}
	return d
}
