package wire

import (
	"tare/internal/record"
	"tare/internal/unit"
)

// Protocol is the version of the frames and messages. Controller and agent of one build always agree; the number is
// there so that a refusal can say what differs.
const Protocol = 1

// Type is a frame's type.
type Type uint8

// The frame types. A is the agent, C the controller, W a worker. Payloads are JSON unless noted.
const (
	TypeHello      Type = 1 // A->C Hello, right after the magic
	TypeWelcome    Type = 2 // C->A Welcome
	TypePing       Type = 3 // C->A no payload
	TypePong       Type = 4 // A->C Pong
	TypeFacts      Type = 5 // C->A FactsOf; A->C record.Facts
	TypeCalibrate  Type = 6 // C->A Calibrate
	TypeCalibrated Type = 7 // A->C Calibrated
	TypeRun        Type = 8 // C->A Run
	// W->A->C workload.Bench.Offer: Measure starts now; A->W passed on, so Measure may start. If the job is held, C->A
	// says when: Stamp of the agent's clock.
	TypeBegin Type = 9
	// W->A no payload: Measure has ended; A->C Stamp of its arrival. If the job is held, C->A->W no payload: so has all
	// that was done together with it.
	TypeEnd     Type = 10
	TypeSamples Type = 11 // A->C packed: u16 name length, name, little-endian float64s
	TypeResult  Type = 12 // A->C Result: the trial's last frame
	TypeCancel  Type = 13 // C->A no payload: end the worker now
	TypeRelease Type = 14 // C->A Release: remove a cell's directory; A->C no payload when done
	TypeBye     Type = 15 // C->A no payload: clean up and leave; A->C the same, the agent's last frame
	TypeFailure Type = 16 // A->C record.Failure: the request could not be served
	TypeMount   Type = 17 // C->A layout.Mount; A->C Mounted
	TypeProbe   Type = 18 // C->A and A->C: requests and replies of package fileops
	// C->A Ledger; A->C packed records, as they are acknowledged or found; last, A->C no payload
	TypeLedger Type = 19
	// TypeFile is packed FilePiece from the controller, and FileHeld from the agent.
	TypeFile Type = 20
	// A->V Job: start the kind's service (V is the service's process); V->A Serving when it can be used, or a Failure;
	// V->A Failure when it has ended later.
	TypeService Type = 21
	// C->A Peer: without an address, start a peer here; with addresses, say which of them leads to a peer from here.
	// A->C Peer: its addresses, or the one.
	TypePeer Type = 22
	// C->A and A->C: requests and answers of package sys/trace, of agents that can trace.
	TypeTrace Type = 23

	typeLast = TypeTrace
)

var typeNames = [...]string{"", "hello", "welcome", "ping", "pong", "facts", "calibrate", "calibrated", "run", "begin",
	"end",
	"samples", "result", "cancel", "release", "bye", "failure", "mount", "probe", "ledger", "file",
	"service", "peer", "trace"}

// String returns the type's name, as it appears in messages.
func (t Type) String() string {
	if int(t) < len(typeNames) && t > 0 {
		return typeNames[t]
	}
	return "unknown"
}

// Hello is the agent's first message.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Build    string `json:"build"`
	OS       string `json:"os"`   // GOOS
	Arch     string `json:"arch"` // GOARCH
	PID      int    `json:"pid"`
	MonoNS   int64  `json:"mono_ns"` // agent's monotonic clock, ns since the agent started
	WallNS   int64  `json:"wall_ns"` // agent's wall clock, Unix ns
}

// Welcome is the controller's answer.
type Welcome struct {
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
	RunID    string `json:"run_id"`
}

// Pong answers a ping with both of the agent's clocks, for the audit of its rate.
type Pong struct {
	MonoNS int64 `json:"mono_ns"`
	WallNS int64 `json:"wall_ns"`
}

// Job has the data of a cell for its worker.
type Job struct {
	Kind   string            `json:"kind"`
	Params map[string]string `json:"params"` // resolved
	Cell   string            `json:"cell"`   // names the cell's directory; the same for all its trials
	Seed   uint64            `json:"seed"`
	// Root is the directory below which the cell's is made, such as a mount point; empty means the agent's own choice.
	Root string   `json:"root,omitempty"`
	Env  []string `json:"env,omitempty"`
	// Peer is the other end of work on the network, for kinds that need one.
	Peer *Peer `json:"peer,omitempty"`
	// Files are those that the controller has sent for the job: the parameter that named one, and its digest in hex.
	Files map[string]string `json:"files,omitempty"`
	// Service is the key of the service that the trial needs (workload.Service); "" for none. The agent starts it if it
	// is not running.
	Service string `json:"service,omitempty"`
	// Held says that the controller starts the clock, because others work together with this one: the agent passes its
	// Begin on.
	Held bool `json:"held,omitempty"`
	// Serving is the service's endpoint. The agent adds it for the worker. A controller sends that of another
	// environment's service, if the trial is a load from elsewhere, and else leaves it empty.
	Serving *Serving `json:"serving,omitempty"`
	// Listen is the address at which the trial's server listens for others, if it does; "" for all.
	Listen string `json:"listen,omitempty"`
}

// Serving is a service that can be used.
type Serving struct {
	Endpoint string            `json:"endpoint"`
	State    map[string]string `json:"state,omitempty"` // added to the state of each trial
	Starts   int64             `json:"starts"`          // of the service in this session
	Trials   int64             `json:"trials"`          // and calibrations since its last start
}

// Peer is the address of a peer as the agent sees it, or why it cannot be reached.
type Peer struct {
	Address string `json:"address,omitempty"` // with a port; in a TypePeer frame several, separated by spaces
	Token   string `json:"token,omitempty"`
	Missing string `json:"missing,omitempty"`
}

// Calibrate asks for the amount of work that takes at least TargetNS.
type Calibrate struct {
	Job
	TargetNS int64 `json:"target_ns"`
}

// Calibrated is the answer.
type Calibrated struct {
	Work      int64 `json:"work"`
	ElapsedNS int64 `json:"elapsed_ns"` // how long that work took, or is expected to take
	SetupNS   int64 `json:"setup_ns"`   // untimed preparation, for the forecast
	CleanupNS int64 `json:"cleanup_ns"`
}

// Run asks for one trial.
type Run struct {
	Job
	Work   int64   `json:"work"`
	Inject float64 `json:"inject,omitempty"` // share of extra work done but not reported
	Warmup bool    `json:"warmup,omitempty"`
	// Bare asks for a trial without Before and After, to see what they cost.
	Bare bool `json:"bare,omitempty"`
	// Parts and Part are those of workload.Bench, where several hosts divide the work.
	Parts []int64 `json:"parts,omitempty"`
	Part  int     `json:"part,omitempty"`
	// Show are numbers of executions whose results are to be shown (record.Figures), if the kind can do that.
	Show []uint64 `json:"show,omitempty"`
}

// Result is a worker's message after a trial. Samples are sent before it in their own frames.
type Result struct {
	ElapsedNS int64 `json:"elapsed_ns"`
	SetupNS   int64 `json:"setup_ns"`
	// SlackNS is the time between sending Begin and sending End that was not Measure, by the agent's clock: Measure
	// waits until Begin is on its way, so that passing it on costs the measured work nothing.
	SlackNS        int64           `json:"slack_ns,omitempty"`
	record.Figures                 // on the wire without Samples
	Error          *record.Failure `json:"error,omitempty"`
	// Before and After are counters of the worker's process and of its system around Measure, as the kernel's files
	// have them: package timeaccount knows their names and makes the Account of them.
	Before map[string]string `json:"before,omitempty"`
	After  map[string]string `json:"after,omitempty"`
	// Declared are the metrics that the kind reports for these parameters, so that a foreign agent's figures have
	// units.
	Declared []unit.Metric `json:"declared,omitempty"`
}

// Release asks the agent to remove a cell's directory.
type Release struct {
	Cell string `json:"cell"`
	Root string `json:"root,omitempty"` // as in Job
}

// FactsOf asks for facts.
type FactsOf struct {
	// Root is the directory of WorkDir and WorkFS; as in Job.
	Root string `json:"root,omitempty"`
}

// Ledger asks an agent to write records and to report each as soon as it is acknowledged, until a Cancel or a power
// loss; or to find the records of an earlier round. Package workload/durability defines the records.
type Ledger struct {
	// Dir is the directory, absolute and not yet there when records are to be written. It is not removed: it must
	// outlive the agent.
	Dir     string   `json:"dir"`
	Classes []string `json:"classes"`
	Seed    uint64   `json:"seed"`
	Round   uint32   `json:"round,omitempty"` // a record of another one is not whole
	Find    bool     `json:"find,omitempty"`
}

// Mounted is a mount as the agent's kernel shows it.
type Mounted struct {
	Type    string `json:"type"`
	Source  string `json:"source"`
	Options string `json:"options"` // of the mount and of its file system, without duplicates
	TookNS  int64  `json:"took_ns"`
}
