// Package record defines the data of a measurement: trials, observations around them, and verdicts.
//
// It imports nothing of tare. Every type here is written to or derived from a bundle, so a field's JSON name is a
// promise: names are never reused with another meaning.
package record

import (
	"cmp"
	"math"
	"time"
)

// NullSlot is the Slot of the baseline's hidden second place in each block: the null control.
const NullSlot = "null"

// Trial is one timed run of one workload in one target, in a fresh worker process. It is a line of trials.ndjson.
type Trial struct {
	Seq      int    `json:"seq"`            // position in the run, from 1
	Session  int    `json:"session"`        // which opening of the environments, from 1
	Block    int    `json:"block"`          // block number from 1; 0 is the warm-up
	Workload string `json:"workload"`       // the workload's label in the plan
	Target   string `json:"target"`         // the target's name
	Slot     string `json:"slot,omitempty"` // NullSlot for the null control, else empty
	Position int    `json:"position"`       // place in the block's random order, from 0
	Work     int64  `json:"work"`           // frozen units of work
	// Inject is the share of extra work done but not reported (0.05 = 5 %): the positive control of `tare selftest`.
	Inject float64 `json:"inject,omitempty"`

	Start        time.Time `json:"start"`         // controller's wall clock when the trial began
	AgentNS      int64     `json:"agent_ns"`      // duration by the environment's monotonic clock, ns
	ControllerNS int64     `json:"controller_ns"` // duration by the controller's monotonic clock, ns
	RTTNS        int64     `json:"rtt_ns"`        // median round trip to the agent around this trial, ns
	RTTSpreadNS  int64     `json:"rtt_spread_ns"` // largest minus smallest round trip seen around this trial, ns
	SetupNS      int64     `json:"setup_ns"`      // untimed preparation, by the controller's clock, ns

	Figures
	// Account says where the time of the timed part went. The controller makes it; nil in bundles of builds before it.
	Account *Account `json:"account,omitempty"`
	// Beside says what the neighbour did that was at work meanwhile; nil where there was none.
	Beside *Beside `json:"beside,omitempty"`
	// Load says who offered the load, where several environments did so together; nil elsewhere.
	Load *Load `json:"load,omitempty"`
	// Copies says what each copy of the environment did, if the trial was one of several at once or of the single one
	// that these are compared with.
	Copies *Copies    `json:"copies,omitempty"`
	Host   *HostState `json:"gate,omitempty"`
	Error  *Failure   `json:"error,omitempty"` // set when the trial gave no figures
	// Discarded names the rule by which the whole block is not used; it is declared before the run and does not depend
	// on the target.
	Discarded string `json:"discarded,omitempty"`
}

// Figures are the results of a trial: one type from the worker to the bundle.
type Figures struct {
	Metrics map[string]float64   `json:"metrics,omitempty"` // figures by metric name, in the metric's unit
	Samples map[string][]float64 `json:"samples,omitempty"` // finer samples within the trial, same units
	// Checks is the evidence of equal work: counts, checksums, bytes. Cells whose checks differ are not compared.
	Checks map[string]string `json:"checks,omitempty"`
	// State is what the environment reported during the trial: context switches, faults, huge pages, direct I/O.
	State    map[string]string `json:"state,omitempty"`
	Warnings []Warning         `json:"warnings,omitempty"`
	// Groups are the figures of parts of the work; at most MaxGroups, and one more with the ID OtherGroup.
	Groups []Group `json:"groups,omitempty"`
	// Sketch has what each execution of the groups returned (setdiff.Sketch), to find those that differ elsewhere. An
	// element's Number is that of the execution in the work, its Kind the first half of its group's ID. Its Rows are
	// RefusedRows if there was an error, and then its Sum is that of the error's code.
	Sketch []byte `json:"sketch,omitempty"`
	// SketchMark says what an element's Rows are, if they are no rows: MarkStatus.
	SketchMark string `json:"sketch_mark,omitempty"`
	// Shown is what came back from executions that the controller has asked for by their numbers, MostShown at most.
	Shown []Shown `json:"shown,omitempty"`
	// Histograms are latencies in ns as package histogram packs them, by the beginning of their metrics' names. Only
	// trials that are to be merged with others have them, on their way to the controller.
	Histograms map[string][]byte `json:"histograms,omitempty"`
}

// Shown is what came back from an execution, as far as it is compared: what differs each time and the user's secrets
// are left out.
type Shown struct {
	Number uint64 `json:"number"` // of the execution in the work
	Text   string `json:"text"`   // at most MaxShown bytes of it
}

// Bounds of Figures.Shown.
const (
	MostShown = 3
	MaxShown  = 16 << 10
)

// Beside is what a neighbour did beside a trial: work of its own, in another environment.
type Beside struct {
	Name string `json:"name"` // of the neighbour in the plan
	In   string `json:"in"`   // the environment or mount in which it ran
	// First is what it had done alone, in the same environment, just before the trial began.
	First Pace `json:"first"`
	// During are its rounds that overlap the trial.
	During Pace `json:"during"`
	// Covered is the share of the trial's timed part in which a round of it was at work, 0..1.
	Covered float64 `json:"covered"`
}

// Load says how a load was offered by several hosts together.
type Load struct {
	Hosts []LoadHost `json:"hosts"`
	// Covered is the share of the time from the first one's beginning to the last one's end in which all of them were
	// at work, 0..1.
	Covered float64 `json:"covered"`
	LateNS  int64   `json:"late_ns"` // from the first one's beginning to the last one's, by the controller's clock
	// Histograms are those of all hosts, merged: latencies in ns as package histogram packs them, by the beginning of
	// their metrics' names. The percentiles in Metrics are theirs.
	Histograms map[string][]byte `json:"histograms,omitempty"`
}

// LoadHost is one of them.
type LoadHost struct {
	Name string `json:"name"` // of the environment
	Work int64  `json:"work"` // its share; of sessions that are divided, the statements or requests in them
	// BeganNS is when it began, after the first one, by the controller's clock; ClockNS is how far off that can be,
	// because both clocks were compared across its connection: half of the shortest round trip.
	BeganNS int64 `json:"began_ns"`
	ClockNS int64 `json:"clock_ns"`
	NS      int64 `json:"ns"` // how long it was at work, by its clock
	// OffsetNS is the controller's monotonic clock less the host's agent's, both of which begin with their process.
	OffsetNS int64 `json:"offset_ns"`
	// CPUShare is the share of the CPU time that it could use; below 0 if it is not known. Bound says that it was the
	// limit: by that, or because it was behind the schedule of a log by its own fault.
	CPUShare float64            `json:"cpu_share"`
	Bound    bool               `json:"bound,omitempty"`
	Metrics  map[string]float64 `json:"metrics,omitempty"` // what it alone measured
}

// Pace is work and how long it took.
type Pace struct {
	Work int64 `json:"work"` // units of the neighbour's kind
	NS   int64 `json:"ns"`   // timed parts, by the clock of its environment, ns
}

// Copies are what the copies of an environment did in a trial that all of them did at the same time. The trial's own
// figures are those of one copy: the means of what it cost in each.
type Copies struct {
	// Covered is the share of the time from the first copy's beginning to the last one's end in which all of them were
	// at work, 0..1.
	Covered float64 `json:"covered"`
	Each    []Copy  `json:"each"` // in the order in which the copies were opened
}

// Copy is what one copy did, and the memory that its processes had on the controller's machine.
type Copy struct {
	NS      int64              `json:"ns"`                // timed part, by the controller's clock, ns
	Metrics map[string]float64 `json:"metrics,omitempty"` // its figures
	Memory
}

// Memory is that of processes on the controller's machine, in bytes; 0 where it is not known.
type Memory struct {
	Resident int64 `json:"resident_bytes,omitempty"` // all pages that are in memory
	// Proportional has pages that several processes share in equal parts for each of them.
	Proportional int64 `json:"proportional_bytes,omitempty"`
}

// PerSecond is the units of work done in a second; 0 if nothing was.
func (p Pace) PerSecond() float64 {
	if p.Work <= 0 || p.NS <= 0 {
		return 0
	}
	return float64(p.Work) / (float64(p.NS) / 1e9)
}

// MarkStatus is that of a sketch whose elements have the status of a response instead of rows.
const MarkStatus = "status"

// RefusedRows is in Figures.Sketch for an execution with an error.
const RefusedRows = math.MaxUint32

// MaxGroups is how many groups a trial tells apart. They are those with the most executions, by ID where these are
// equal, so that equal work gives the same groups everywhere.
const MaxGroups = 400

// GroupHistogram and a group's ID name its histogram in Figures.Histograms.
const GroupHistogram = "group "

// OtherGroup is the ID of all groups together that MaxGroups has no room for. It has no percentiles.
const OtherGroup = "other"

// Group has the figures of a part of a trial's work, such as all executions of statements with one fingerprint.
type Group struct {
	ID      string  `json:"id"`               // the same in every target
	Text    string  `json:"text,omitempty"`   // what it is, at most MaxGroupText bytes; only in trial 0
	Count   int64   `json:"count"`            // executions
	Errors  int64   `json:"errors,omitempty"` // executions that ended with an error
	Rows    int64   `json:"rows,omitempty"`   // rows that came back, or were changed
	Seconds float64 `json:"seconds"`          // sum of the executions' times, by the environment's clock
	P50     float64 `json:"p50,omitempty"`    // median time of an execution, s
	P99     float64 `json:"p99,omitempty"`    // 99th percentile, s
	// Check is the evidence of equal work, as in Figures.Checks; empty where equal work may give different answers.
	Check string `json:"check,omitempty"`
}

// MaxGroupText bounds Group.Text, in bytes.
const MaxGroupText = 1 << 10

// Warmup tells whether the trial is the cell's trial 0: recorded, never used.
func (t *Trial) Warmup() bool { return t.Block == 0 }

// HostState is the state of the controller's host just before a trial.
type HostState struct {
	WaitedNS int64   `json:"waited_ns"`        // how long it waited for a quiet host, ns
	Quiet    bool    `json:"quiet"`            // false: the wait ended without quiet
	Load1    float64 `json:"load1"`            // 1-minute load average; -1 where the platform has none
	Running  int     `json:"running"`          // runnable tasks besides tare; -1 unknown
	CPUSome  float64 `json:"psi_cpu_some"`     // CPU pressure over the look, share 0..1; -1 unknown
	IOSome   float64 `json:"psi_io_some"`      // I/O pressure over the look, share 0..1; -1 unknown
	MemSome  float64 `json:"psi_memory_some"`  // memory pressure over the look, share 0..1; -1 unknown
	Steal    float64 `json:"steal"`            // stolen CPU since the previous trial, share 0..1; -1 unknown
	Throttle int64   `json:"throttle"`         // thermal throttle events since the previous trial; -1 unknown
	Reason   string  `json:"reason,omitempty"` // why it was not quiet
}

// Warning is a warning that belongs to a result and is shown in the report. Each names its remedy.
type Warning struct {
	Code   string `json:"code"`             // stable, kebab-case: "clock-disagrees"
	Text   string `json:"text"`             // what was seen, in plain English, with figures
	Remedy string `json:"remedy,omitempty"` // what to do about it
}

// Failure is an operation without a result, with the evidence.
type Failure struct {
	// stable, kebab-case: "setup", "measure", "worker-died", "environment-died", "server-died", "peer-died",
	// "neighbour-died", "neighbour-failed", "load-apart", "load-host-died", "load-too-few", "copies-apart",
	// "below-floor", "timeout", "refused"
	Kind     string `json:"kind"`
	Message  string `json:"message"`            // what went wrong and what to do
	Evidence string `json:"evidence,omitempty"` // the last bytes of output, control characters neutralised
}

// Error makes a Failure an error.
func (f *Failure) Error() string { return f.Message }

// Facts are the known facts about an environment, from the agent inside and from the controller outside.
type Facts struct {
	OS          string  `json:"os,omitempty"`     // GOOS
	Arch        string  `json:"arch,omitempty"`   // GOARCH
	Kernel      string  `json:"kernel,omitempty"` // release
	Distro      string  `json:"distro,omitempty"` // os-release PRETTY_NAME
	Hostname    string  `json:"hostname,omitempty"`
	CPU         string  `json:"cpu,omitempty"`     // model name
	Cores       int     `json:"cores,omitempty"`   // physical cores visible; 0 unknown
	Threads     int     `json:"threads,omitempty"` // hardware threads usable by the agent
	MHz         float64 `json:"mhz,omitempty"`     // nominal or current clock as told by the system
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	Hypervisor  string  `json:"hypervisor,omitempty"` // as detected from inside: "kvm", "tcg", "docker", ...
	Clock       string  `json:"clock,omitempty"`      // clock source
	Emulated    bool    `json:"emulated,omitempty"`   // the CPU is emulated in software
	WorkDir     string  `json:"work_dir,omitempty"`   // where file workloads run
	// file system and mount options of WorkDir, from the kernel
	WorkFS   string            `json:"work_fs,omitempty"`
	Settings map[string]string `json:"settings,omitempty"` // the environment's effective settings
	Command  []string          `json:"command,omitempty"`  // the command line that made it, secrets removed
	// everything else, by dotted name: "cpu.mitigations.meltdown"
	Extra map[string]string `json:"extra,omitempty"`
}

// SharedKernel is the fact of what the controller knows of a container that its kernel is the controller's: "yes".
const SharedKernel = "kernel.shared"

// Environment is one entry of environments.json.
type Environment struct {
	Target
	Session int   `json:"session"` // which opening
	OpenNS  int64 `json:"open_ns"` // from the beginning to the handshake, ns
}

// Target is what is known of an environment, or of a mount in one.
type Target struct {
	Name    string `json:"name"`
	Spec    string `json:"spec"`    // the spec string that makes it again
	Outside Facts  `json:"outside"` // what the controller knows
	Inside  Facts  `json:"inside"`  // what the agent saw
	// Retries lists openings that failed before this one succeeded: the reason, and the name of the evidence file.
	Retries []Failure `json:"retries,omitempty"`
	Error   *Failure  `json:"error,omitempty"` // it could not be opened
	// Of names the environment of a mount; empty if this is an environment.
	Of string `json:"of,omitempty"`
	// Like names the target that this one is, with the neighbour Beside at work or in so many Copies at once. Its facts
	// are that target's, and are not repeated.
	Like   string `json:"like,omitempty"`
	Beside string `json:"beside,omitempty"`
	Copies int    `json:"copies,omitempty"` // of the target Like
	Files
}

// Files are the known facts about the files in an environment or a mount.
type Files struct {
	Mount *Mount `json:"mount,omitempty"` // the mount, if it is one
	// Card says how files behave there, as far as it was tested.
	Card []Property `json:"card,omitempty"`
	// Durability says whether a flush there reaches stable storage, as far as it is known.
	Durability *Durability `json:"durability,omitempty"`
	// Disks are pictures of the virtual disks that its files are on, at most a handful.
	Disks []DiskMap `json:"disks,omitempty"`
}

// IsMount tells whether the target is a mount and not an environment.
func (t *Target) IsMount() bool { return t.Of != "" }

// Place is the name of the environment that the target is or is in.
func (t *Target) Place() string { return cmp.Or(t.Of, t.Like, t.Name) }

// Mount is a folder that was put into an environment.
type Mount struct {
	Kind string `json:"kind"` // "9p", "virtiofs", "nfs", "bind", ...
	Dir  string `json:"dir"`  // inside the environment
	// on the controller's side; empty if it has none or it is not known
	HostDir  string            `json:"host_dir"`
	Type     string            `json:"type"`               // file system type, read back from the kernel
	Source   string            `json:"source"`             // as the kernel shows it
	Options  string            `json:"options"`            // effective options, read back from the kernel
	Settings map[string]string `json:"settings,omitempty"` // as asked for, defaults included
	Server   string            `json:"server,omitempty"`   // program and version that serves it: "virtiofsd 7.2.22 (C)"
	Command  []string          `json:"command,omitempty"`  // the server's command line, secrets removed
	// Facts were read back on the controller's side, by dotted name: "disk.format".
	Facts map[string]string `json:"facts,omitempty"`
}

// Property is one line of a semantics card: the tested behaviour of files in a target.
type Property struct {
	Name   string `json:"name"`   // stable, kebab-case: "inotify", "attr-cache"
	Title  string `json:"title"`  // in words: "change events from the host arrive"
	Answer string `json:"answer"` // "yes", "no", "partly", "untested", or a figure with its unit: "1.0 s"
	// Seconds is the measured time of the value, e.g. a lag; 0 if the value is not a time.
	Seconds float64 `json:"seconds,omitempty"`
	Rating  string  `json:"rating"`           // "good", "bad" or "neutral", as a developer would see it
	Detail  string  `json:"detail,omitempty"` // what was tested and observed
}

// The words of a durability verdict. There is no word for safe: absence of loss is never proof.
const (
	Disproved    = "DISPROVED"     // an acknowledged record was lost; Evidence has it
	Propagated   = "PROPAGATED"    // the flush was seen to reach Layer
	NotDisproved = "NOT DISPROVED" // no loss in Cuts cuts; Bound is the 95 % upper bound of the loss rate
	Untested     = "UNTESTED"
)

// Durability is the known effect of a flush in a target.
type Durability struct {
	Verdict string `json:"verdict"` // one of the words above
	// "flushes", "ignores-flushes", "memory" or "unknown": writes are ranked only within one
	Class    string   `json:"class"`
	Layer    string   `json:"layer,omitempty"` // the last layer that a flush was seen to reach
	Cuts     int      `json:"cuts,omitempty"`  // power cuts tried
	Bound    float64  `json:"bound,omitempty"` // 3/Cuts
	Text     string   `json:"text"`            // the reason, in plain words
	Evidence []string `json:"evidence,omitempty"`
	// Settings are the settings that weaken a flush, by the configuration.
	Settings []Warning `json:"settings,omitempty"`
	// Tests lists the tests and the result of each.
	Tests []FlushTest `json:"tests,omitempty"`
}

// Verdict is tare's verdict on one cell.
type Verdict string

// The verdicts of method.md, and the two ways of not having one.
const (
	Different    Verdict = "DIFFERENT"    // the interval lies wholly outside the margin
	Equivalent   Verdict = "EQUIVALENT"   // the interval lies wholly inside the margin
	Measured     Verdict = "MEASURED"     // precise enough, straddles the margin
	Inconclusive Verdict = "INCONCLUSIVE" // budget spent; Ratio.BlocksNeeded says how many blocks would decide it
	Withheld     Verdict = "WITHHELD"     // no verdict is allowed; the warnings say why
	Failed       Verdict = "FAILED"       // the cell gave no usable trials
)

// Ratio is candidate / baseline with its interval. Above 1 the candidate costs more.
type Ratio struct {
	Center       float64 `json:"ratio"`
	Low          float64 `json:"low"`
	High         float64 `json:"high"`
	Level        float64 `json:"level"`                   // simultaneous confidence level, e.g. 0.95
	Blocks       int     `json:"blocks"`                  // units behind it
	BlocksNeeded int     `json:"blocks_needed,omitempty"` // blocks that would decide an INCONCLUSIVE
	P            float64 `json:"p"`                       // minimal-effect p value
	PHolm        float64 `json:"p_holm"`                  // the same, Holm-adjusted over the family
	Q            float64 `json:"q"`                       // Benjamini-Hochberg q, for exploration
	Verdict      Verdict `json:"verdict"`
}
