package schedule

import (
	"context"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Agent is the part of an agent's connection that a run needs; *deploy.Conn implements it.
type Agent interface {
	Calibrate(ctx context.Context, c wire.Calibrate) (wire.Calibrated, error)
	Run(ctx context.Context, run wire.Run) (deploy.Outcome, error)
	RunTold(ctx context.Context, run wire.Run, mark func(begins bool)) (deploy.Outcome, error)
	RunHeld(ctx context.Context, run wire.Run, h deploy.Held) (deploy.Outcome, error)
	Supply(ctx context.Context, f deploy.File) error
	HostPeer(ctx context.Context, token string) (addresses []string, err error)
	FindPeer(ctx context.Context, addresses []string, token string) (address string, err error)
	Alive() bool
}

// Target is an open environment with its agent.
type Target struct {
	Agent Agent
	// DropHostCache drops the controller's cache of the environment's storage; nil where there is no such cache beneath
	// the environment's own.
	DropHostCache func(ctx context.Context) error
	Root          string // directory below which work is done; empty: the agent's own choice
	// Loopback is the address by which this machine's loopback is reached from inside; Unreached says why it is not.
	Loopback  string
	Unreached error
	// Forward makes a TCP port of the environment reachable at a port of this machine's loopback; nil where its own
	// addresses are the way to it.
	Forward func(ctx context.Context, port uint16) (uint16, error)
	PeerAt  netpeer.Place // where the run's peer is to listen for it; without an address, on the loopback
	// HostThreads reads the CPU times of the threads that work for the environment on this machine; nil if only the
	// agent does. An error says why they are not known.
	HostThreads func() (map[proc.Thread]time.Duration, error)
	// HostProcesses are the processes of this machine that work for the environment all the time, such as its
	// hypervisor and the servers of its mounts; nil if there are none.
	HostProcesses func() []int
	// HostAgent is the id of the agent among the processes of this machine, 0 if it is not there; nil if it never is.
	HostAgent func() int
	// HostExits are the exits of the environment's virtual processors, by kind; nil if it is no machine of KVM's.
	HostExits func() (map[string]int64, error)
	// HostMemory reads the memory of the environment's processes on this machine; nil if that is not known.
	HostMemory func() (record.Memory, error)
	// Served is the folder that it is, by which its server is watched; nil for an environment.
	Served *env.Mounted
	Record record.Environment
	// Mounts are the targets inside the environment, in the order of the plan's mounts. They share its agent.
	Mounts []MountTarget
	// Close ends the agent and the environment and removes everything made for them.
	Close func() error
}

// MountTarget is a folder in an environment, or the reason why it is not there.
type MountTarget struct {
	Root   string
	Record record.Environment
	Err    error
	Served *env.Mounted
	// Card tries out how files behave in the folder, for its semantics card.
	Card func(ctx context.Context) ([]record.Property, error)
}

// Opener opens the plan's environments.
type Opener interface {
	// Open returns the environment as far as it is known also when it fails: then the record carries the failure. A
	// mount that fails does not fail its environment.
	Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error)
}
