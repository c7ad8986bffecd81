package verdict

import (
	"cmp"
	"slices"

	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
)

// opened has the records of the environments and mounts that were opened.
type opened struct {
	plan         *plan.Plan
	environments []record.Environment
	last         map[string]*record.Trial // the last trial of each target, failed ones included
}

func (op *opened) openFailure(target string) *record.Failure {
	for i := range op.environments {
		if re := &op.environments[i]; re.Name == target && re.Error != nil {
			return re.Error
		}
	}
	return nil
}

// lostTarget returns the failure with which a target left for good; nil if it served to the end.
func (op *opened) lostTarget(target string) *record.Failure {
	t := op.last[target]
	if t == nil || t.Error == nil {
		return op.lostNeighbour(target)
	}
	switch t.Error.Kind {
	case kindDied, kindTimeout, kindServer, kindNeighbour:
		return t.Error
	}
	return nil
}

// lostNeighbour returns the failure with which the environment of a target's neighbour left for good; nil if it did
// not. One trial tells of it, of any of the targets with neighbours there.
func (op *opened) lostNeighbour(target string) *record.Failure {
	place := op.placeBeside(target)
	if place == "" {
		return nil
	}
	for i := range op.plan.Targets {
		name := op.plan.Targets[i].Name
		if t := op.last[name]; t != nil && t.Error != nil && t.Error.Kind == kindNeighbour &&
			op.placeBeside(name) == place {
			return t.Error
		}
	}
	return nil
}

// placeBeside is the environment in which the neighbour of a target runs; "" for a target without one.
func (op *opened) placeBeside(target string) string {
	e, ok := op.plan.Target(target)
	if !ok || e.Beside == "" {
		return ""
	}
	n, ok := op.plan.Neighbour(e.Beside)
	if !ok {
		return ""
	}
	if in, ok := op.plan.Target(n.In[e.Like]); ok {
		return in.Place()
	}
	return ""
}

// sharesKernel tells whether a target's time is counted by the kernel that counts the controller's. Processes and
// namespaces of this machine have no other; a container may be in a machine of its engine's, so its kernel must be
// known to be that of one of them, or its agent a process of this machine.
func (op *opened) sharesKernel(target string) bool {
	re := op.home(target)
	switch {
	case re == nil:
		return false
	case nature(re).Kernel == env.KernelHost:
		return true
	case nature(re).Kernel != env.KernelMaybe || re.Inside.Kernel == "":
		return false
	case re.Outside.Extra[record.SharedKernel] == "yes":
		return true
	}
	const vm = "hypervisor.vm"
	return slices.ContainsFunc(op.environments, func(o record.Environment) bool {
		return nature(&o).Kernel == env.KernelHost && o.Inside.Kernel == re.Inside.Kernel &&
			o.Inside.Extra[vm] == re.Inside.Extra[vm]
	})
}

// home is the environment that a target is or, as a mount, is in; nil when none of that name opened.
func (op *opened) home(target string) *record.Environment {
	if pe, ok := op.plan.Target(target); ok {
		target = pe.Place()
	}
	for i := range op.environments {
		if re := &op.environments[i]; re.Name == target && !re.IsMount() && re.Error == nil {
			return re
		}
	}
	return nil
}

// alone is the target that a target with a neighbour or of copies is; any other is itself.
func (op *opened) alone(target string) string {
	if pe, ok := op.plan.Target(target); ok && pe.Like != "" {
		return pe.Like
	}
	return target
}

// limit is the number of processors that a target may use by its control group, as text; "" without a limit.
func (op *opened) limit(target string) string {
	re := op.home(op.alone(target))
	if re == nil {
		return ""
	}
	return cmp.Or(re.Outside.Extra["cgroup.cpus"], re.Inside.Extra["cgroup.cpus"])
}

func (op *opened) emulated(target string) bool {
	target = op.alone(target)
	for i := range op.environments {
		re := &op.environments[i]
		if re.Name == target && (re.Inside.Emulated || re.Outside.Emulated) {
			return true
		}
	}
	return false
}

// resumptions counts how often the run was resumed: each time, the environments of a session were opened once more.
func (op *opened) resumptions() int {
	type opening struct {
		name    string
		session int
	}
	times := map[opening]int{}
	most := 0
	for i := range op.environments {
		o := opening{op.environments[i].Name, op.environments[i].Session}
		times[o]++
		most = max(most, times[o]-1)
	}
	return most
}

// durabilityClass is the effect of a flush in a target: "flushes", "ignores-flushes" or "memory"; "" for unknown.
func (op *opened) durabilityClass(target string) string {
	target = op.alone(target)
	for i := range op.environments {
		if re := &op.environments[i]; re.Name == target && re.Error == nil && re.Durability != nil {
			return knownClass(re.Durability)
		}
	}
	return ""
}
