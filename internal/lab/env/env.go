// Package env defines what tare calls an environment: it can be opened, an agent can be started in it, and nothing of
// it is left after it was closed.
//
// Drivers differ in data (Info, Nature, Setting, record.Facts) and in optional interfaces (optional.go), never in the
// shape of Env. One contract suite, lab/envtest, checks the promises of all drivers.
package env

import (
	"context"
	"io"
	"log/slog"
	"time"

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
	// Nature is what is true of all its environments.
	Nature Nature
	// Here is what a run without -e calls its environment without settings, which it takes where the driver works; ""
	// if it takes none.
	Here string
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
	// Disk says that it is a virtual disk with a file system of its own.
	Disk bool
	// ArgHere says that the argument is a directory of the controller's machine, which must be there before a run.
	ArgHere bool
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
	// Names is whom or what the value names, which a bundle to be shared must not show.
	Names Names
}
