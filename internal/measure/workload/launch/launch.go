// Package launch declares what it costs to have an environment at all: work that the controller does, by opening
// another environment like the target's and closing it again.
//
// It is opinionated about where an environment is ready: when a worker process in it has done a first piece of work and
// its result is here, not when a hypervisor says that its machine runs.
package launch

import (
	"context"
	"errors"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Kind is the name of the kind.
const Kind = "env.launch"

// The metrics. Each time begins where the one before it ends; Ready is the sum of the first three, and of Probed.
const (
	Ready   = "ready"
	Created = "created"
	Agent   = "agent"
	Worked  = "first_work"
	Probed  = "probe"
	Stopped = "stopped"
	Gone    = "gone"
)

// The states of a launch once it is ready, where the driver knows them: the memory of the environment's processes on
// the controller's machine, resident and with shared pages in parts, how many these are, and what its own files take
// there.
const (
	Memory    = "host_memory"
	Shared    = "host_memory_proportional"
	Processes = "host_processes"
	Disk      = "host_disk"
)

// The parameters: the user's own probe, how long it may fail, and whether the host's page cache is dropped before.
const (
	ProbeParam = "probe"
	WaitParam  = "wait"
	CacheParam = "cache"
	Cold       = "cold"
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	took := func(name, doc string) unit.Metric {
		return unit.Metric{Name: name, Unit: "s", Better: unit.Lower, Timed: true, Doc: doc}
	}
	metrics := func(probed bool) []unit.Metric {
		all := []unit.Metric{
			{Name: Ready, Unit: "s", Better: unit.Lower, Timed: true, Primary: true, Doc: "time from " +
				"the decision to have it until its first work, and the probe if there is one, is done"},
			took(Created, "until the driver has made, started or entered it"),
			took(Agent, "from then until the agent's first word from it"),
			took(Worked, "from then until a new process has done a first piece of work"),
			took(Stopped, "until the agent has left when told to"),
			took(Gone, "from then until everything made for it is removed"),
		}
		if probed {
			all = append(all, took(Probed, "from the first work until the probe has ended with exit code 0"))
		}
		return all
	}
	return []workload.Kind{{
		Name: Kind, Family: workload.FamilyLaunch, WorkUnit: "launch", MaxWork: 1, Unseeded: true, Controller: true,
		Doc: "Makes another environment like the target, uses it once, and removes it: what it costs " +
			"to have one. The target stays open meanwhile, and what the driver keeps (images, kernels, states) is " +
			"there from the warm-up on. Settings count, mounts do not.",
		Params: []workload.Param{
			{Name: ProbeParam, Type: workload.Text, Doc: "command line of the environment, repeated " +
				"until it succeeds, before it counts as ready"},
			{Name: WaitParam, Type: workload.Duration, Default: "1m", Doc: "how long the probe may " +
				"fail"},
			{Name: CacheParam, Type: workload.Choice, Default: "warm", Choices: []string{"warm", Cold},
				Doc: "warm, or cold: drop the host's page cache before each launch, with images, " +
					"kernels and programs that nobody has mapped; needs root on Linux, and slows down the host"},
		},
		Metrics: metrics(false),
		Dynamic: func(p workload.Params) []unit.Metric { return metrics(p[ProbeParam] != "") },
		Lasts:   workload.NothingLasts,
		New:     func(workload.Params) (workload.Trial, error) { return trial{}, nil },
	}}
}

// trial is for an agent that is asked for it all the same.
type trial struct{}

func (trial) Setup(context.Context, *workload.Bench) error {
	return errors.New(Kind + " is done by the controller")
}
func (trial) Measure(context.Context, *workload.Bench) error { return nil }
func (trial) Cleanup(*workload.Bench) error                  { return nil }
