package workload

import "slices"

// Flush is the point at which work waits until its data lie on a medium.
type Flush int

// The ways to flush.
const (
	NoWrites      Flush = iota // the timed part makes no files
	FlushNever                 // it makes files and leaves them to the system
	FlushLater                 // so does it, but so many bytes that the system makes it wait for its own writing back
	FlushAtEnd                 // at the end of a unit of work, or of the timed part
	FlushEach                  // after each write, file or transaction
	FlushByServer              // as the settings of the server promise that does the writing
	FlushByUser                // a command's, of which only the user knows
)

// Waits tells whether the work is known to wait for flushes.
func (f Flush) Waits() bool { return f == FlushAtEnd || f == FlushEach || f == FlushByServer }

// EachIf is FlushEach for work that is told to flush, else FlushNever.
func EachIf(flushes bool) Flush {
	if flushes {
		return FlushEach
	}
	return FlushNever
}

// Lasting is a declaration of the data that work with certain parameters makes to last.
type Lasting struct {
	Flush Flush
	// Metrics are the figures of making it; AllMetrics for all.
	Metrics []string
	// Place is the place of these data.
	Place Place
}

// Place is the place to which work writes.
type Place int

// The places.
const (
	InTarget  Place = iota // below Bench.Dir
	InHome                 // below Bench.Home: on a mount, too, on the environment's own disk
	Elsewhere              // where a server has its data that tare has not started
)

// AllMetrics stands for all metrics of a kind.
var AllMetrics = []string{"*"}

// Of tells whether a metric is a figure of making what is meant to last.
func (l Lasting) Of(metric string) bool {
	return slices.Contains(l.Metrics, metric) || slices.Equal(l.Metrics, AllMetrics)
}

// Ranked tells whether a metric may be ranked only among targets in which a flush means the same. Files that the work
// leaves to the system are promised to nobody, so no target gains by losing them.
func (l Lasting) Ranked(metric string) bool {
	return (l.Flush.Waits() || l.Flush == FlushLater) && l.Of(metric)
}

// NothingLasts is the declaration of kinds that make nothing that is meant to last.
func NothingLasts(Params) Lasting { return Lasting{} }
