package schedule

import (
	"errors"

	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// hostMemory reads the memory of all processes that an environment has on this machine: its own and those that serve
// it, or its agent with what that has started. It is nil if these are not known.
func hostMemory(opened env.Env) func() (record.Memory, error) {
	if own, ok := opened.(env.HostProcesses); ok {
		return func() (record.Memory, error) {
			var servers []int
			if s, ok := opened.(env.HostServers); ok {
				servers = s.Servers()
			}
			return memoryOf(own.Processes(), servers)
		}
	}
	if a, ok := opened.(env.HostAgent); ok {
		return func() (record.Memory, error) {
			pid := a.AgentProcess()
			if pid == 0 {
				return record.Memory{}, errors.New("its processes are not known on this machine")
			}
			return memoryOf([]int{pid}, proc.Family(pid)[1:])
		}
	}
	return nil
}

// memoryOf adds up the memory of processes that must be there, and of others that may have ended or be threads of the
// kernel, which have none. What is proportional is known only if it is of all of them.
func memoryOf(own, others []int) (m record.Memory, err error) {
	known := true
	add := func(pid int) error {
		resident, proportional, err := proc.Memory(pid)
		if err != nil {
			return err
		}
		known = known && (proportional > 0 || resident == 0)
		m.Resident, m.Proportional = m.Resident+resident, m.Proportional+proportional
		return nil
	}
	for _, pid := range own {
		if err := add(pid); err != nil {
			return record.Memory{}, err
		}
	}
	for _, pid := range others {
		_ = add(pid)
	}
	if !known {
		m.Proportional = 0
	}
	return m, nil
}
