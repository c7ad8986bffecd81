package env

import (
	"context"
	"errors"

	"tare/internal/measure/guestabi"
	"tare/internal/measure/netpeer"
	"tare/internal/record"
)

// The optional interfaces are what an open environment, and for Diagnoser also a Stream, can tell besides what Env asks
// of all. A driver implements those that its environments have an answer to. The table of docs/extending.md is made
// from this one, and a test of the house holds its columns to the code: each interface of this file has a row, and it
// names the packages that ask.
//
//	interface         it says                                     asked by              assumed without it
//	Diagnoser         why an agent no longer answers              deploy, schedule      no more evidence
//	Retrier           which attempts to open it failed            schedule              none did
//	Mounter           what became of its mounts                   schedule, cli         it made none
//	HostCacher        how its files leave the host's page cache   schedule              they stay in it
//	LoopbackProvider  where it reaches the host's loopback        env                   nowhere
//	Forwarder         which port of the host leads to one of its  schedule              none is needed
//	PeerPlacer        where else the run's peer is to listen      schedule              nowhere else
//	DiskMapper        where its disk lies in a file of the host   schedule              it has no map
//	HostProcesses     which processes of the host it is           schedule, durability  they are not known
//	HostServers       which more processes of the host serve it   schedule              none do
//	HostAgent         which process of the host its agent is      schedule              that is not known
//	ExitCounter       how often its processors left the guest     schedule              only debugfs may tell
//	DiskUser          how much space its own files take           schedule              what Options.Dir has

// Diagnoser is implemented by environments and streams that can say why an agent no longer answers.
type Diagnoser interface {
	// Diagnose returns evidence, such as the end of a console or of standard error. It must be quick. It may be called
	// after the environment has died.
	Diagnose() []byte
}

// Retrier is implemented by environments that needed more than one attempt to open.
type Retrier interface {
	Retries() []record.Failure
}

// Mounter is implemented by environments whose driver has kinds of mounts (Info.Mounts).
type Mounter interface {
	// Mounts returns one entry for each of Options.Mounts, in the same order.
	Mounts() []Mounted
}

// HostCacher is implemented by environments whose files lie on the controller's machine, where the host's page cache
// may serve reads instead of the disk.
type HostCacher interface {
	// DropHostCaches writes back what the host's page cache holds of the environment's disks and shared folders, and
	// drops it. It checks the result: it returns an error unless nothing is left in the cache. It does not touch the
	// environment's own page cache; the environment must have written that back before.
	DropHostCaches(ctx context.Context) error
}

// LoopbackProvider is implemented by environments from which the controller's loopback can be reached.
type LoopbackProvider interface {
	// Loopback returns the address by which the environment reaches a server on the controller's 127.0.0.1. If there is
	// none, the error says which setting makes the loopback reachable.
	Loopback() (string, error)
}

// Loopback returns the address by which an environment reaches the controller's loopback, or the reason why it cannot.
func Loopback(name string, e Env) (string, error) {
	if r, ok := e.(LoopbackProvider); ok {
		return r.Loopback()
	}
	return "", errors.New(name + " cannot reach this machine's loopback; " + Ways)
}

// Forwarder is implemented by environments whose ports can only be reached by a way that is made when it is needed.
type Forwarder interface {
	// Forward makes a TCP port of the environment reachable at the returned port of the controller's 127.0.0.1, until
	// the environment is closed. Asked for the same port again, it returns the same. It serves one caller at a time.
	Forward(ctx context.Context, port uint16) (uint16, error)
}

// PeerPlacer is implemented by environments that may reach the run's peer by another way than the controller's
// loopback.
type PeerPlacer interface {
	// PeerPlace is where the peer is to listen for the environment; without an address, on the loopback.
	PeerPlace() netpeer.Place
}

// Ways lists the environments that can reach the controller's loopback.
const Ways = "host, namespace?net=host, docker?network=host, podman?network=host, qemu?nic=virtio and " +
	"virtualbox?nic=virtio&nic_mode=nat can"

// Mounted is the result of mounting a folder in an environment. It may have failed.
type Mounted struct {
	Name string
	// Mount is what the controller knows: kind, place, host's folder, settings, server. The agent reads type, source
	// and options back from its kernel. Work is done in its Dir.
	Mount record.Mount
	// Order is the mount that the agent still has to make; nil if the folder is mounted already.
	Order *guestabi.Mount
	// Disk is the map of a mount that is a virtual disk; nil for all other kinds.
	Disk *record.DiskMap
	// Err, an *OpenError, says why the mount failed; nil if it did not. The environment and its other mounts still
	// work.
	Err error
	// Diagnose returns the server's latest output; nil if there is no server. It must be quick.
	Diagnose func() []byte
	// Ended is closed when the server has ended; Why then says why. Both are nil if the mount has no server process of
	// its own, or if work goes on without the server.
	Ended <-chan struct{}
	Why   func() error
}

// DiskMapper is implemented by environments with a virtual disk that was mapped.
type DiskMapper interface {
	// Disk returns the map of the disk that work is done on, from before the first trial; nil if there is none.
	Disk() *record.DiskMap
}

// HostProcesses is implemented by environments whose processes run on the controller's machine even between trials.
type HostProcesses interface {
	// Processes returns the ids of these processes, without those of HostServers.
	Processes() []int
}

// HostServers is implemented by environments that more processes on the controller's machine work for than those of
// HostProcesses.
type HostServers interface {
	// Servers returns the ids of those that run now: the servers of mounts with all their descendants, and threads of
	// the kernel.
	Servers() []int
}

// HostAgent is implemented by environments in which all that works is the agent or was started by it, as processes of
// the controller's machine: nothing of them is there between two trials but the agent.
type HostAgent interface {
	// AgentProcess returns the id of the agent on the controller's machine; 0 if it is not there, or not known.
	AgentProcess() int
}

// ExitCounter is implemented by environments whose hypervisor may tell how often virtual processors left them.
type ExitCounter interface {
	// Exits returns KVM's counters of exits by their names, since the machine was made (package sys/kvm).
	Exits() (map[string]int64, error)
}

// DiskUser is implemented by environments whose files are not in Options.Dir.
type DiskUser interface {
	// DiskUsage returns the space that the environment's own files take, in bytes, without what it shares with others,
	// such as an image.
	DiskUsage(ctx context.Context) (int64, error)
}
