// Package env defines what an environment is to tare: something that can be opened, in which an agent can be started,
// and that leaves nothing behind when it is closed.
//
// Drivers differ in data (Info, Setting, record.Facts) and in optional interfaces, never in the shape of Env. Whether a
// driver keeps its promises is checked by one contract suite for all of them, env/envtest.
package env

import (
	"context"
	"io"
	"log/slog"

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

// Options is everything a driver is given.
type Options struct {
	Spec
	// RunID is unique to this run of tare; everything made on a shared system (containers, directories, files) carries
	// it, so that `tare clean` can find what a killed run left behind.
	RunID string
	// Dir is an existing private directory on the controller for this environment's files. The caller removes it after
	// Close.
	Dir string
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
	Driver   Driver
	// Probe tells whether the driver can work on this machine now. It is quick (below 2 s) and changes nothing.
	Probe func(ctx context.Context) Status
	// Clean finds and, unless dry, removes what killed runs left behind. It returns one line for each thing found. nil
	// when the driver leaves nothing that outlives tare.
	Clean func(ctx context.Context, dry bool) ([]string, error)
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
