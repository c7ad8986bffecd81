package schedule

import (
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// EventKind names a kind of event.
type EventKind string

// The events, in the order in which a run first shows them.
const (
	Opening    EventKind = "opening"    // Target is being opened
	Opened     EventKind = "opened"     // Target is open; Elapsed is how long that took
	Trying     EventKind = "trying"     // files are tried out in Target, for its semantics card
	OpenFailed EventKind = "failed"     // Target did not open; Failure says why
	Calibrated EventKind = "calibrated" // Workload on Target has its frozen work
	// Workload is calibrated; Left is the time the run is expected to take from here; Text a doubt about its blocks
	Forecasted EventKind = "forecast"
	// How often the environments are opened is known, where the plan left it open: Text says it, and why. Block is how
	// many blocks there are in each session then, at most; Left as above.
	SessionsFound EventKind = "sessions"
	TrialBegin    EventKind = "trial"     // Workload on Target starts, in Block
	TrialDone     EventKind = "done"      // Trial is on disk
	BlockDone     EventKind = "block"     // Workload completed Block
	BlockLost     EventKind = "discarded" // Workload's Block was discarded by the rule in Text
	Looked        EventKind = "look"      // Result holds the state of all cells
	Screened      EventKind = "screened"  // Workload goes on in fewer targets, as Text says
	Dropped       EventKind = "dropped"   // Target or a cell of it is given up; Failure says why
)

// Event is a message about the run's progress to a display. Only the fields that its kind names are set.
type Event struct {
	Kind     EventKind
	Target   string
	Workload string
	Block    int
	Warmup   bool
	Elapsed  time.Duration
	Left     time.Duration // forecast for the rest of the run; 0 unknown
	Trial    *record.Trial
	Result   *verdict.Result
	Failure  *record.Failure
	Text     string
}
