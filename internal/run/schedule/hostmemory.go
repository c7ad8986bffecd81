package schedule

import (
	"errors"

	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// hostFamily lists the processes of this machine that are there for an environment all the time: its own, which must be
// there, and others that may end: its servers, or the children of its agent.
func hostFamily(opened env.Env) (own, others []int, err error) {
	if o, ok := opened.(env.HostProcesses); ok {
		if own = o.Processes(); len(own) == 0 {
			return nil, nil, errHostUnknown
		}
		if s, ok := opened.(env.HostServers); ok {
			others = s.Servers()
		}
		return own, others, nil
	}
	a, ok := opened.(env.HostAgent)
	if !ok {
		return nil, nil, errHostUnknown
	}
	pid := a.AgentProcess()
	if pid == 0 {
		return nil, nil, errors.New("its processes are not known on this machine")
	}
	return []int{pid}, proc.Family(pid)[1:], nil
}

// hostMemory returns a function that reads the memory of all processes that an environment has on this machine: its own
// and its servers, or its agent and the agent's children. It is nil if these are not known.
func hostMemory(opened env.Env) func() (record.Memory, error) {
	_, own := opened.(env.HostProcesses)
	if _, alone := opened.(env.HostAgent); !own && !alone {
		return nil
	}
	return func() (record.Memory, error) {
		own, others, err := hostFamily(opened)
		if err != nil {
			return record.Memory{}, err
		}
		m, _, err := memoryOf(own, others)
		return m, err
	}
}

// memoryOf adds up the memory of processes that must be there, and of others that may have ended or be threads of the
// kernel, which have none, and counts those that have some. The proportional size is known only if it is of all of
// them.
func memoryOf(own, others []int) (m record.Memory, processes int, err error) {
	known := true
	add := func(pid int) error {
		resident, proportional, err := proc.Memory(pid)
		if err != nil {
			return err
		}
		if resident > 0 {
			processes++
		}
		known = known && (proportional > 0 || resident == 0)
		m.Resident, m.Proportional = m.Resident+resident, m.Proportional+proportional
		return nil
	}
	for _, pid := range own {
		if err := add(pid); err != nil {
			return record.Memory{}, 0, err
		}
	}
	for _, pid := range others {
		_ = add(pid)
	}
	if !known {
		m.Proportional = 0
	}
	return m, processes, nil
}
