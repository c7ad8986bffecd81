package schedule

import (
	"context"
	"fmt"
	"sync"

	"tare/internal/measure/sysinfo"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// coldStart sees to it that work which begins cold does, as far as this machine can.
type coldStart struct {
	kinds func(name string) (*workload.Kind, bool)
	table *table
}

// kindCacheState is the failure of a cache that could not be brought into the state the plan asks for.
const kindCacheState = "cache-state"

// dropHostCache drops the host's caches where the workload begins cold.
func (s *coldStart) dropHostCache(ctx context.Context, w *plan.Workload, target string) error {
	t := s.table.targets[target]
	if !s.hostCold(w) || t.DropHostCache == nil {
		return nil
	}
	if err := t.DropHostCache(ctx); err != nil {
		return &record.Failure{Kind: kindCacheState,
			Message: fmt.Sprintf("drop the host's caches of %s: %v; use cache=guest-cold, which leaves them", target,
				err)}
	}
	return nil
}

func (s *coldStart) hostCold(w *plan.Workload) bool {
	k, ok := s.kinds(w.Kind)
	return ok && k.HostCold != nil && k.HostCold(w.Params)
}

// here has the facts of the controller's own machine.
var here = sync.OnceValue(func() record.Facts { return sysinfo.Collect(context.Background(), "") })

// doubtCold warns of a trial that is to begin cold in an environment with another kernel than the controller's, where
// no driver can drop the caches beneath it: its agent dropped those of its own kernel, and sees no others.
func (s *coldStart) doubtCold(w *plan.Workload, target string) []record.Warning {
	t := s.table.targets[target]
	if !s.hostCold(w) || t.DropHostCache != nil {
		return nil
	}
	in := t.Record.Inside
	if of := s.table.targets[t.Record.Of]; of != nil { // a mount's kernel is its environment's
		in = of.Record.Inside
	}
	if in.Kernel == here().Kernel && in.Extra["hypervisor.vm"] == here().Extra["hypervisor.vm"] {
		return nil
	}
	return []record.Warning{{Code: "host-not-cold", Text: "the environment's own caches were dropped before the " +
		"trial; the caches of a host or server below it were not, and may serve reads instead of the disk",
		Remedy: "drop that machine's caches yourself before each run, or use cache=guest-cold, which does not " +
			"promise it"}}
}
