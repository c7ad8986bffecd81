// Package env defines what tare calls an environment: it can be opened, an agent can be started in it, and nothing of
// it is left after it was closed.
//
// Drivers differ in data (Info, Setting, record.Facts) and in optional interfaces, never in the shape of Env. One
// contract suite, lab/envtest, checks the promises of all drivers.
package env

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"tare/internal/measure/guestabi"
	"tare/internal/measure/netpeer"
	"tare/internal/record"
)

// Driver opens environments of one kind.
type Driver interface {
	// Open makes or enters the environment. On failure it undoes everything that it began and returns an *OpenError
	// with evidence. ctx bounds the opening only, not the life of the environment.
	Open(ctx context.Context, o Options) (Env, error)
}

// Env is an open environment.
type Env interface {
	// Agent starts an agent in the environment, or attaches to the one that is its PID 1, and returns a connection to
	// it. The agent sends first. There is at most one agent at a time. After its stream was closed another one may be
	// started, except where the agent is PID 1.
	Agent(ctx context.Context) (Stream, error)
	// Facts is what the controller knows about the environment: versions, effective settings, the command line.
	Facts() record.Facts
	// Close ends the environment and removes everything that was made for it. It is idempotent.
	Close() error
}

// Stream is a connection to an agent.
type Stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

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

// ExitCounter is implemented by environments whose hypervisor may tell how often virtual processors left them.
type ExitCounter interface {
	// Exits returns KVM's counters of exits by their names, since the machine was made (package sys/kvm).
	Exits() (map[string]int64, error)
}

// HostAgent is implemented by environments in which all that works is the agent or was started by it, as processes of
// the controller's machine: nothing of them is there between two trials but the agent.
type HostAgent interface {
	// AgentProcess returns the id of the agent on the controller's machine; 0 if it is not there, or not known.
	AgentProcess() int
}

// DiskUser is implemented by environments whose files are not in Options.Dir.
type DiskUser interface {
	// DiskUsage returns the space that the environment's own files take, in bytes, without what it shares with others,
	// such as an image.
	DiskUsage(ctx context.Context) (int64, error)
}

// HostServers is implemented by environments that more processes on the controller's machine work for than those of
// HostProcesses.
type HostServers interface {
	// Servers returns the ids of those that run now: the servers of mounts with all their descendants, and threads of
	// the kernel.
	Servers() []int
}

// Options is everything that a driver is given.
type Options struct {
	Spec
	// Mounts are the folders to mount in the environment. Driver names the kind, one of Info.Mounts.
	Mounts []Spec
	// RunID is unique to this run of tare. The name of everything made on a shared system (containers, directories,
	// files) contains it, so that `tare clean` can find what a killed run left behind.
	RunID string
	// Dir is an existing private directory on the controller for this environment's files. The caller removes it after
	// Close.
	Dir string
	// Scratch is the path of a disk that the caller serves. A virtual machine uses it as its scratch disk, instead of
	// one that the driver makes. It is not a setting, because the disk's contents are overwritten.
	Scratch string
	// Peer says that work in the environment must reach the controller's loopback, if the settings allow it.
	Peer bool
	// Agents gives agent executables.
	Agents Agents
	Log    *slog.Logger
}

// Agents is the store of agent executables. Package deploy implements it.
type Agents interface {
	// Path returns a local file with the agent for a platform (GOOS, GOARCH). If there is none, the error says which
	// platforms this build has and how to get one that has more. The file stays valid until the run ends.
	Path(goos, goarch string) (string, error)
}

// OpenError is the error of an environment that could not be opened.
type OpenError struct {
	Env      string // the environment's name
	Op       string // what was being done, lower case: "boot", "start container"
	Err      error
	Remedy   string // what the user can do, a sentence; may be empty
	Evidence []byte // console or output; may be empty
}

func (e *OpenError) Error() string {
	s := e.Env + ": " + e.Op + ": " + e.Err.Error()
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

func (e *OpenError) Unwrap() error { return e.Err }

// Info is a driver's row in the table of drivers: what `tare list environments` and `tare doctor` print.
type Info struct {
	Name     string // "qemu"
	Doc      string // one sentence
	ArgDoc   string // what stands after the colon, "" when nothing does: "IMAGE"
	ArgNeeds bool   // the argument is required
	Settings []Setting
	// Mounts lists the kinds of mounts that this driver's environments can have.
	Mounts []MountKind
	Driver Driver
	// Probe tells whether the driver works on this machine now. It takes less than 2 s and changes nothing.
	Probe func(ctx context.Context) Status
	// Has tells whether what a spec names is on this machine, such as an image that is not downloaded automatically. It
	// is called only if Probe says that the driver works. It takes less than 5 s and changes nothing. It is nil if
	// there is nothing to check.
	Has func(ctx context.Context, s Spec) Status
	// OpenTime is how long opening a spec's environment may take, if its settings ask for more time than usual; 0 if
	// they do not. It is nil if the driver has no such setting.
	OpenTime func(s Spec) time.Duration
	// FreeSpace tells how much space for files the environment of a spec will have, as far as that is known before it
	// is opened. scratch is the directory on the controller in which Options.Dir will be. It is quick and changes
	// nothing. It is nil if only the open environment knows.
	FreeSpace func(s Spec, scratch string) FreeSpace
	// Reach says which setting a spec lacks to reach the controller's loopback; nil if it lacks none. It looks only at
	// the spec. It is nil if the driver has no setting that makes the loopback reachable.
	Reach func(s Spec) error
	// Alone says why an environment of a spec cannot be opened again while it is open; nil if it can. It looks only at
	// the spec. It is nil if that is always possible.
	Alone func(s Spec) error
	// Declared lists the mounts that the environment of a spec has by itself, as its owner declared them. A run that
	// names the environment, and no mount in it, takes them. It takes less than 2 s and changes nothing. It is nil if
	// the driver's environments have none.
	Declared func(ctx context.Context, s Spec) ([]Spec, error)
	// Plug tells what one has to know to cut the power of a spec's machine; the error says which setting prevents that.
	// It looks only at the spec. It is nil if the driver's machines use no disk that the caller serves.
	Plug func(s Spec) (Plug, error)
	// Clean finds what killed runs left behind and, unless dry, removes it. It returns one line for each thing found.
	// It is nil if the driver leaves nothing that outlives tare.
	Clean func(ctx context.Context, dry bool) ([]string, error)
}

// Patience is how long opening a spec's environment may take: usual, unless its settings ask for more.
func (i *Info) Patience(s Spec, usual time.Duration) time.Duration {
	if i.OpenTime == nil {
		return usual
	}
	return max(usual, i.OpenTime(s))
}

// FreeSpace is the free space for files in an environment.
type FreeSpace struct {
	Bytes  int64  // below 0: not known
	Where  string // where the space is: "/var/tmp", "its disk"
	Remedy string // which setting gives more
}

// MountKind is a way to mount a folder in an environment: what `tare list mounts` prints.
type MountKind struct {
	Name     string // "9p"
	Doc      string // one sentence: what it is and what it promises
	ArgDoc   string // what stands after the colon, "" when nothing does: "DIR"
	ArgNeeds bool
	Settings []Setting
	// Probe tells whether this kind works on this machine now. It takes less than 2 s and changes nothing. It is nil if
	// the kind needs nothing.
	Probe func(ctx context.Context) Status
	// ProbeSpec is called instead of Probe when the mount's settings are known, if they decide what it needs. It takes
	// less than 2 s and changes nothing. It is nil if Probe is enough.
	ProbeSpec func(ctx context.Context, s Spec) Status
	// CheckAll says which of a mount's settings contradict each other, or the environment that it is in. Each setting
	// has already passed its own Check. It looks at nothing but the file system. It is nil if no settings can
	// contradict.
	CheckAll func(in, s Spec) error
	// Shared says that the folder lies on the controller's machine, so that both sides can look at it.
	Shared bool
	// Sync says that the folder is a copy that a program keeps up to date, not a mount.
	Sync bool
}

// Status is the answer of a probe.
type Status struct {
	OK     bool
	Detail string // version and what was found, or what is missing
	Remedy string // the one command that installs what is missing
}

// Setting declares one setting of a driver.
type Setting struct {
	Name    string
	Default string // as shown; "" when there is none
	Doc     string // one sentence, with units and values
	// Check says what is wrong with a value. nil accepts every value.
	Check func(value string) error
	// Try are values that are worth trying when a figure is to be explained or bettered (Vary); nil if there are none.
	Try []string
	// Moves is what work the setting can change: MovesFiles, MovesNetwork, or "" for all.
	Moves string
}
