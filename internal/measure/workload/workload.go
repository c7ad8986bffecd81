// Package workload defines what a piece of work is: a named kind with parameters and metrics, prepared, timed and
// cleaned up by a worker process that lives for one trial.
//
// It is opinionated: a kind is a row of data, so that `tare list` and the manual print what the code does; the amount
// of work is frozen before the first counted trial and never depends on the clock; only Measure is timed, and nothing
// in it allocates, locks, logs or asks for the time beyond what the measurement itself is.
package workload

import (
	"context"
	"time"

	"tare/internal/record"
	"tare/internal/sys/histogram"
	"tare/internal/unit"
)

// Kind is a row of the workload table.
type Kind struct {
	Name string // "fs.randread"
	// Family is one of the families of this package: summaries are made per family.
	Family string
	// Is has the traits of the work, for code that treats some kinds in another way than others.
	Is      Traits
	Doc     string // one paragraph: what is done, what one operation is, which tool defines it
	Params  []Param
	Metrics []unit.Metric // exactly one is Primary
	Needs   Needs
	// WorkUnit names one unit of frozen work in the singular: "event", "pass", "operation".
	WorkUnit string
	// MaxWork bounds the frozen work of one trial; 0 means no bound.
	MaxWork int64
	// MaxWorkFor, if set, returns the bound for these parameters, instead of MaxWork.
	MaxWorkFor func(Params) int64
	// SameWork says that units differ from each other, such as parts of a log, so that trials can only be compared if
	// they do the same units: all targets get the same number of them.
	SameWork bool
	// Divided says that hosts which offer its load together (FromParam) divide what is in the work among them, such as
	// sessions, instead of its units: each of them gets all of the work, and Bench.Parts.
	Divided bool
	// Controller says that the controller does the trials itself (package launch), not an agent.
	Controller bool
	// Unseeded says that the work does not depend on the run's seed, so that its checks are the same in other runs,
	// too.
	Unseeded bool
	// Expand, if set, returns the sets of parameters that the given ones stand for, when a name means several
	// workloads. It returns only the given ones if they mean one workload or are wrong.
	Expand func(given map[string]string) []map[string]string
	// Lasts declares the data that a trial with these parameters makes to last. Each kind declares it. The parameters
	// may be those of an older tare, which had fewer.
	Lasts func(Params) Lasting
	// New checks the parameters together and makes a trial. It is called in the worker, once per trial.
	New func(Params) (Trial, error)
	// Dynamic, if set, returns the metrics for these parameters; Metrics then documents the default. The kind command
	// needs it for the figures that it reads from output.
	Dynamic func(Params) []unit.Metric
	// OnlyReads, if set, tells whether a trial with these parameters makes no files, so that it also runs where none
	// can be made.
	OnlyReads func(Params) bool
	// HostCold, if set, tells whether a trial with these parameters begins with the host's caches dropped. The
	// controller drops them before it asks for the trial, because an environment can neither do nor check it.
	HostCold func(Params) bool
	// Peerless, if set, tells whether a trial with these parameters does without the run's peer, although the kind
	// needs it.
	Peerless func(Params) bool
	// HostCPU, if set, makes a figure of the CPU time that the environment's own processes on the controller's machine,
	// such as a hypervisor, used during a trial of so many units. Only the controller knows it, and only of some
	// environments. Without a metric it is only told as a state.
	HostCPU func(used time.Duration, work int64) (metric string, v float64)
	// UnitTime, if set, returns how long one unit of work with these parameters may take, including preparation, before
	// it counts as hung. Without it, units are assumed to be short.
	UnitTime func(Params) time.Duration
	// Space, if set, returns the bytes below Bench.Dir that the trial needs, for the forecast and the space check. If
	// the trial has a service, the service's directory needs them instead.
	Space func(Params) int64
	// Service, if set, returns the service that trials with these parameters need, nil if they need none.
	Service func(Params) *Service
}

// MetricsFor returns the metrics a workload of this kind reports with the given parameters.
func (k *Kind) MetricsFor(p Params) []unit.Metric {
	if k.Dynamic != nil {
		return k.Dynamic(p)
	}
	return k.Metrics
}

// WorkLimit returns the most units of work that one trial with the given parameters may do; 0 means no bound.
func (k *Kind) WorkLimit(p Params) int64 {
	if k.MaxWorkFor != nil {
		return k.MaxWorkFor(p)
	}
	return k.MaxWork
}

// Primary returns the metric that answers the kind's headline question. A plan that was made up may lack the parameter
// that says which metrics there are: then it is one without a name.
func (k *Kind) Primary(p Params) unit.Metric {
	ms := k.MetricsFor(p)
	if len(ms) == 0 {
		return unit.Metric{Better: unit.Lower, Primary: true}
	}
	for _, m := range ms {
		if m.Primary {
			return m
		}
	}
	return ms[0]
}

// Needs has the demands of a kind on an environment, and notes for reading its figures.
type Needs struct {
	CPUBound bool     // with an emulated CPU the figure is the emulator's
	FS       bool     // needs a writable directory
	Shell    bool     // needs a shell in the environment
	Peer     bool     // needs a way to the run's peer, on the controller's machine
	OS       []string // GOOS values it runs on; empty means all
}

// ToParam is the parameter of work on the network that names another environment of the run, in which the other end is.
const ToParam = "to"

// NeedsPeer tells whether a trial with the given parameters needs the run's peer.
func (k *Kind) NeedsPeer(p Params) bool {
	return k.Needs.Peer && (k.Peerless == nil || !k.Peerless(p))
}

// ServiceKey is the key of the service that trials with the given parameters need; "" for none.
func (k *Kind) ServiceKey(p Params) string {
	if k.Service == nil {
		return ""
	}
	if s := k.Service(p); s != nil {
		return s.Key
	}
	return ""
}

// Service is a program that trials work against and that must not be started for each of them, such as a database
// server with its caches. It runs in a process of its own during the whole session and ends with the agent, however the
// agent ends.
type Service struct {
	// Key identifies the service and all that it depends on; it is not empty. Cells with the same key share a service
	// if they work below the same directory.
	Key string
	// Start starts the service and returns when it can be used. b has no work and no peer; its directories belong to
	// the service, and its notes are added to the state of each trial. A *record.Failure is passed on unchanged.
	Start func(ctx context.Context, b *Bench) (Running, error)
}

// Running is a service that has been started.
type Running interface {
	// Endpoint is the address of the service, in a form that its kind understands. It may contain a secret.
	Endpoint() string
	// Done is closed when the service has ended by itself.
	Done() <-chan struct{}
	// Ended returns how the service ended, with evidence. It is called after Done.
	Ended() *record.Failure
	// Stop ends the service. It gives up a clean end when ctx is done.
	Stop(ctx context.Context) error
}

// Serving is a service as a trial sees it.
type Serving struct {
	Endpoint string // from Running
	// Starts counts how often the service was started in this session: more than 1 after it has died. Trials counts the
	// trials and calibrations that it has served since its last start; at 0 its caches are cold.
	Starts, Trials int64
}

// Trial is one run of a kind with fixed parameters.
type Trial interface {
	Setup(ctx context.Context, b *Bench) error   // not timed
	Measure(ctx context.Context, b *Bench) error // timed: does b.Work units
	Cleanup(b *Bench) error                      // always called after Setup, also when it failed
}

// Reporter is implemented by trials that turn what Measure saw into figures. Report runs after Measure, untimed, with
// b.Elapsed set and b.Work restored to the reported amount.
type Reporter interface {
	Report(b *Bench) error
}

// Peer is the address of the run's peer, a process of tare's on the controller's machine; see package netpeer.
type Peer struct {
	Address string // "10.0.2.2:41234", as the environment sees it
	Token   string // gives access to the peer; a secret of this run
}

// Bench is a trial's view of the world. It is not safe for concurrent use, except as its methods say.
type Bench struct {
	// Dir is an existing directory that belongs to this cell alone. It lives as long as the session, so that a later
	// trial can check and use a file that an earlier one prepared. tare removes it.
	Dir string
	// Home is another such directory, in the environment's own work directory: on its own disk if Dir is on a mount,
	// else the same as Dir. It may be empty if the environment has no directory of its own.
	Home string
	// Root is the directory below which Dir was made: the environment's work directory, or the mount. A user's files
	// there may be read if a parameter names them, and are never written. Dir is empty if Root cannot be written and
	// the trial only reads.
	Root string
	// Peer is the other end of work on the network; set where the kind needs one.
	Peer Peer
	// Files are the paths of the files that the controller made of parameters and sent, by the parameter's name. They
	// are only to be read.
	Files map[string]string
	// Service is the kind's service, if it has one for these parameters.
	Service Serving
	// Work is the number of units Measure does, and Setup prepares for. In Report it is the number to divide by.
	Work int64
	// Elapsed is the time between the start and the end of Measure by the monotonic clock; valid in Report.
	Elapsed time.Duration
	// Seed is the run's seed, the same in every target, so that generated data is the same everywhere.
	Seed uint64
	// Warmup is true in trial 0.
	Warmup bool
	// Parts, where several hosts divide the work among them (Kind.Divided), are their shares, and Part says which is
	// this one's. Work is then that of all of them.
	Parts []int64
	Part  int
	// Held says that others work together with this trial: then it keeps its histograms, for Pool.
	Held bool
	// Offer is the message to others by Setup of a trial that only serves them, such as its port. It does no work of
	// its own, and its Measure lasts until Over gives a value: then the others have ended. The server that the others
	// reach listens at the address Listen; "" for all.
	Offer, Listen string
	Over          <-chan struct{}
	// Show are numbers of executions whose results the trial adds to Shown, if it can.
	Show []uint64

	// Figures are the results of the trial.
	record.Figures
}

// The methods that set a trial's figures are called in hundreds of places, none of them in a timed section: inlined
// there, they would make the agent larger.

// Report sets a metric's value, in the metric's declared unit.
//
//go:noinline
func (b *Bench) Report(metric string, v float64) {
	if b.Metrics == nil {
		b.Metrics = map[string]float64{}
	}
	b.Metrics[metric] = v
}

// Rate is the number of items per second if each unit of work is n items.
func (b *Bench) Rate(n float64) float64 {
	return n * float64(b.Work) / b.Elapsed.Seconds()
}

// Sample keeps finer samples of a metric. The slice is kept, not copied; at most MaxSamples are sent.
func (b *Bench) Sample(metric string, v []float64) {
	if b.Samples == nil {
		b.Samples = map[string][]float64{}
	}
	b.Samples[metric] = v
}

// Pool keeps a histogram, in ns, so that the controller can merge it with those of others. It does so only if the trial
// is Held.
func (b *Bench) Pool(name string, h *histogram.Histogram) {
	if !b.Held {
		return
	}
	if b.Histograms == nil {
		b.Histograms = map[string][]byte{}
	}
	b.Histograms[name] = h.Append(nil)
}

// MaxSamples bounds the samples kept of one metric in one trial.
const MaxSamples = 4096

// Check records evidence of the work done. It must not depend on speed: equal work gives equal checks in every target.
//
//go:noinline
func (b *Bench) Check(name, value string) {
	if b.Checks == nil {
		b.Checks = map[string]string{}
	}
	b.Checks[name] = value
}

// Note records a state of the environment that may differ between targets and can explain a ratio.
//
//go:noinline
func (b *Bench) Note(name, value string) {
	if b.State == nil {
		b.State = map[string]string{}
	}
	b.State[name] = value
}

// Warn attaches a warning to the trial.
//
//go:noinline
func (b *Bench) Warn(code, text, remedy string) {
	b.Warnings = append(b.Warnings, record.Warning{Code: code, Text: text, Remedy: remedy})
}
