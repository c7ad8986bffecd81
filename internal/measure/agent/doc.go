// Package agent is tare's end inside an environment: it speaks first, serves one request at a time, and leaves when its
// input ends.
//
// It is opinionated about not disturbing the measurement. Each trial runs in a fresh worker process, so that no trial
// inherits another's heap; while a worker measures, the agent is blocked in reads and has no timer. It writes only
// below one directory that it made itself. Before it ends it removes that directory and kills processes that workers
// left behind.
//
//	controller <-- frames --> agent <-- frames --> worker (one per trial)
//	                                <-- frames --> service (such as a database server; lives for the session)
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"tare/internal/measure/agent/nsinit"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/measure/workload/web"
)

// The roles of an executable that holds an agent: its first argument.
const (
	roleAgent   = "agent"   // serve a controller on standard input and output
	roleWorker  = "worker"  // run one trial for an agent
	roleService = "service" // run a service for an agent
	roleVersion = "version" // print version, build id and platform
)

// IsRole tells whether args, with the program's name first, name a role: the agent, a worker, a service, a container's
// first process or a run's peer. The full tare program then runs that role, and a process with PID 1 knows that it is
// not a machine's init.
func IsRole(args []string) bool {
	return len(args) > 1 && slices.Contains([]string{roleAgent, roleWorker, roleService, nsinit.Role, netpeer.Role},
		args[1])
}

// Main runs the role that args, with the program's name first, ask for, and returns the exit code. Without a role it is
// an agent.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return Program{Kinds: all.Kinds}.Main(args, stdin, stdout, stderr)
}

// Program is an agent with its table of kinds; Main is the one with all of them.
type Program struct {
	Kinds func() []workload.Kind
}

// Main is like the function Main.
func (p Program) Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// Standard output is only for the protocol: stray prints go to standard error. A file that nothing holds any more
	// is closed when memory is collected, and a container's first process has the stream for its agent.
	defer runtime.KeepAlive(stdout)
	os.Stdout = os.Stderr
	// A broken standard output must cause an error, after which the agent cleans up, and not a fatal signal. A handled
	// signal, unlike an ignored one, is reset to its default in programs that workloads start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	role, rest := roleAgent, []string(nil)
	if len(args) > 1 {
		role, rest = args[1], args[2:]
	}
	var o options
	if role == roleAgent || role == roleWorker || role == roleService || role == roleVersion {
		if err := o.parse(rest); err != nil {
			fmt.Fprintf(stderr, "tare-agent: %v\n", err)
			return 2
		}
	}
	if o.version || role == roleVersion {
		fmt.Fprintln(stdout, wire.VersionLine())
		return 0
	}
	switch role {
	case nsinit.Role:
		return nsinit.Main(rest, stderr)
	case roleAgent:
		return p.agent(o.dir, o.remove, stdin, stdout, stderr)
	case roleWorker:
		return work(p.Kinds(), o.dir, o.home, stdin, stdout)
	case roleService:
		return runService(p.Kinds(), o.dir, o.home, stdin, stdout, stderr)
	case netpeer.Role:
		return netpeer.Main(stdin, stdout, stderr, web.NewHost())
	}
	fmt.Fprintf(stderr, "tare-agent: there is no role %q; use agent [--dir DIR], worker, service, peer or version\n",
		role)
	return 2
}

// options are an agent's. Only tare itself gives them, so package flag, with 20 kB, is not worth its size.
type options struct {
	dir     string // below which to work; empty means the system's directory for temporary files
	home    string // another one, of the environment itself, if dir is on a mount
	remove  string // to remove at the end, with this program in it; its name must begin with .tare-
	version bool   // print version, build id and platform
}

func (o *options) parse(words []string) error {
	for ; len(words) > 0; words = words[1:] {
		name, value, given := strings.Cut(words[0], "=")
		var to *string
		switch name {
		case "--version":
			o.version = true
			continue
		case "--dir":
			to = &o.dir
		case "--home":
			to = &o.home
		case "--remove":
			to = &o.remove
		}
		if to != nil && !given && len(words) > 1 {
			words = words[1:]
			value, given = words[0], true
		}
		if to == nil || !given {
			return errors.New(words[0] + " is unknown or lacks its value; the options are --dir DIR, --home DIR, " +
				"--remove DIR and --version")
		}
		*to = value
	}
	return nil
}

func (p Program) agent(dir, remove string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	adoptOrphans()
	// In an environment without other programs only the agent can remove itself, and after the controller's death
	// nobody else would.
	defer removeSelf(remove, stderr)
	if err := Serve(ctx, stdin, stdout, Options{Dir: dir, Reap: true}); err != nil {
		fmt.Fprintf(stderr, "tare-agent: %v\n", err)
		return 1
	}
	return 0
}

// removeSelf removes a directory that was made for this agent, and never any other.
func removeSelf(dir string, stderr io.Writer) {
	if !strings.HasPrefix(filepath.Base(dir), ".tare-") {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintf(stderr, "tare-agent: remove %s: %v\n", dir, err)
	}
}
