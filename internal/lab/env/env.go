// Package env defines what an environment is to tare: something that can be opened, in which an agent can be started,
// and that leaves nothing behind when it is closed.
//
// Drivers differ in data (Info, Setting, record.Facts) and in optional interfaces, never in the shape of Env. Whether a
// driver keeps its promises is checked by one contract suite for all of them, env/envtest.
package env

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"tare/internal/measure/guestabi"
	"tare/internal/record"
)

// Driver opens environments of one kind.
type Driver interface {
	// Open makes or enters the environment. On failure everything begun is undone, and the error carries evidence as an
	// *OpenError. ctx bounds the opening only, not the life of the environment.
	Open(ctx context.Context, o Options) (Env, error)
}

// Env is an open environment.
type Env interface {
	// Agent starts an agent in the environment, or attaches to the one that is its PID 1, and returns the connection on
	// which the agent will speak first. At most one agent at a time; after its stream is closed another may be started,
	// except where the agent is PID 1.
	Agent(ctx context.Context) (Stream, error)
	// Facts is what the controller knows of it: versions, effective settings, the command line.
	Facts() record.Facts
	// Close ends the environment and removes everything that was made for it. It is idempotent.
	Close() error
}

// Stream is a connection to an agent.
type Stream interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Diagnoser is implemented by environments and streams that can tell why an agent fell silent.
type Diagnoser interface {
	// Diagnose returns evidence, such as the end of a console or of standard error. It must be quick and may be called
	// when the environment is dead.
	Diagnose() []byte
}

// Retrier is implemented by environments that needed more than one attempt to open.
type Retrier interface {
	Retries() []record.Failure
}

// Mounter is implemented by environments of drivers that have kinds of mounts (Info.Mounts).
type Mounter interface {
	// Mounts returns an entry for each of Options.Mounts, in that order.
	Mounts() []Mounted
}

// HostCacher is implemented by environments whose files lie on the controller's machine, where a cache of the host may
// answer for the disk.
type HostCacher interface {
	// DropHostCaches writes back what the host holds of the environment's disks and shared folders and drops it from
	// the host's page cache. It returns an error unless it saw afterwards that nothing is left there. What the
	// environment itself caches is not touched: it must have written its own back before.
	DropHostCaches(ctx context.Context) error
}

// LoopbackProvider is implemented by environments from which the controller's loopback can be reached.
type LoopbackProvider interface {
	// Loopback is the address by which what listens on the controller's 127.0.0.1 is reached from inside. The error
	// says which setting gives a way there.
	Loopback() (string, error)
}

// Loopback is the address by which the controller's loopback is reached from inside an environment, or why it is not.
func Loopback(name string, e Env) (string, error) {
	if r, ok := e.(LoopbackProvider); ok {
		return r.Loopback()
	}
	return "", errors.New(name + " cannot reach this machine's loopback; " + Ways)
}

// Ways are the environments that have a way to the controller's loopback.
const Ways = "host, namespace?net=host, docker?network=host, podman?network=host and qemu?nic=virtio can"

// Mounted is a folder that was put into an environment, or could not be.
type Mounted struct {
	Name string
	// Mount is what the controller knows: kind, place, host's folder, settings, server. The agent reads type, source
	// and options back from its kernel. Its Dir is where work is done.
	Mount record.Mount
	// Order is what the agent still has to do before the folder is there; nil when it is there.
	Order *guestabi.Mount
	// Disk is the picture of the virtual disk that it is; nil for all other kinds.
	Disk *record.DiskMap
	// Err says why this mount cannot be had, an *OpenError; the environment and its other mounts work all the same.
	Err error
	// Diagnose returns what the server said lately; nil when there is none. It must be quick.
	Diagnose func() []byte
	// Ended is closed when the server has ended, of which Why then tells; both are nil where no process of its own
	// serves or work goes on without it.
	Ended <-chan struct{}
	Why   func() error
}

// DiskMapper is implemented by environments with a virtual disk of which there is a picture.
type DiskMapper interface {
	// Disk is the picture of the disk that work is done on, as it was before any; nil when there is none.
	Disk() *record.DiskMap
}

// HostProcesses is implemented by environments that run on the controller's machine also while nothing is asked of
// them.
type HostProcesses interface {
	// Processes are the ids of what stands there, without what serves mounts.
	Processes() []int
}

// Options is everything a driver is given.
type Options struct {
	Spec
	// Mounts are the folders to put into the environment; Driver names the kind, which is one of Info.Mounts.
	Mounts []Spec
	// RunID is unique to this run of tare; everything made on a shared system (containers, directories, files) carries
	// it, so that `tare clean` can find what a killed run left behind.
	RunID string
	// Dir is an existing private directory on the controller for this environment's files. The caller removes it after
	// Close.
	Dir string
	// Scratch is the path of a disk that the caller serves and that a virtual machine uses as its scratch disk, in the
	// place of one that the driver makes. It is no setting, because what is on it is written to.
	Scratch string
	// Peer says that work inside is to reach the controller's loopback, where its settings give it a way.
	Peer bool
	// Agents gives agent executables.
	Agents Agents
	Log    *slog.Logger
}

// Agents is the store of agent executables, implemented by package deploy.
type Agents interface {
	// Path returns a local file with the agent for a platform (GOOS, GOARCH), or an error that says which platforms
	// this build carries and how to get one that carries more. The file stays valid until the run ends.
	Path(goos, goarch string) (string, error)
}

// OpenError is an environment that could not be opened.
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
	// Mounts lists the kinds of mounts that the driver's environments can have.
	Mounts []MountKind
	Driver Driver
	// Probe tells whether the driver can work on this machine now. It is quick (below 2 s) and changes nothing.
	Probe func(ctx context.Context) Status
	// Has tells whether what one spec names is here, such as an image that is not fetched when it is missing, on a
	// machine where Probe says that the driver works. It is quick (below 5 s) and changes nothing. nil when there is
	// nothing to ask.
	Has func(ctx context.Context, s Spec) Status
	// OpenTime is how long it may take to open what one spec names when its settings ask for patience; 0 when they do
	// not. nil when no setting does.
	OpenTime func(s Spec) time.Duration
	// FreeSpace tells how much space for files there is in what one spec names, as far as that is known before it is
	// opened. scratch is the directory on the controller in which Options.Dir will be. It is quick and changes nothing.
	// nil when only the inside knows.
	FreeSpace func(s Spec, scratch string) FreeSpace
	// Reach says which setting is missing for the controller's loopback to be reached from inside, as far as a spec
	// tells; nil when none is. It asks nobody. nil where no setting gives a way.
	Reach func(s Spec) error
	// Clean finds and, unless dry, removes what killed runs left behind. It returns one line for each thing found. nil
	// when the driver leaves nothing that outlives tare.
	Clean func(ctx context.Context, dry bool) ([]string, error)
}

// Patience is how long the opening of what a spec names may take: usual, unless its settings ask for more.
func (i *Info) Patience(s Spec, usual time.Duration) time.Duration {
	if i.OpenTime == nil {
		return usual
	}
	return max(usual, i.OpenTime(s))
}

// FreeSpace is the room for files in an environment.
type FreeSpace struct {
	Bytes  int64  // below 0: not known
	Where  string // what the space is in: "/var/tmp", "its disk"
	Remedy string // which setting gives more
}

// MountKind is a way of putting a folder into an environment: what `tare list mounts` prints.
type MountKind struct {
	Name     string // "9p"
	Doc      string // one sentence: what it is and what it promises
	ArgDoc   string // what stands after the colon, "" when nothing does: "DIR"
	ArgNeeds bool
	Settings []Setting
	// Probe tells whether this kind can work on this machine now. It is quick (below 2 s) and changes nothing. nil when
	// nothing is needed.
	Probe func(ctx context.Context) Status
	// ProbeSpec is asked in Probe's place where the mount's settings are known and decide what it needs. It is quick
	// (below 2 s) and changes nothing. nil when Probe says all.
	ProbeSpec func(ctx context.Context, s Spec) Status
	// CheckAll says which of a mount's settings exclude each other, or the environment it is in; each by itself has
	// passed its Check. It asks nobody but the file system. nil when none do.
	CheckAll func(in, s Spec) error
	// Shared says that the folder is one of the controller's machine, so that both sides can look at it.
	Shared bool
	// Sync says that the folder is a copy that a program brings up to date, not a mount.
	Sync bool
}

// Status is the answer of a probe.
type Status struct {
	OK     bool
	Detail string // version and what is here, or what is missing
	Remedy string // the one command that gets what is missing
}

// Setting declares one setting of a driver.
type Setting struct {
	Name    string
	Default string // as shown; "" when there is none
	Doc     string // one sentence, with units and values
	// Check says what is wrong with a value; nil accepts everything.
	Check func(value string) error
}
