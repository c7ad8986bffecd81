// Package remote is an environment behind any program that runs a command elsewhere and connects its standard streams:
// ssh, a virtual machine's own shell command, a container engine's exec.
//
// It is opinionated about cleaning up. The agent is put into a private directory, which is also its work directory. The
// agent removes the directory when its input ends. Until the agent has answered, a waiting shell on the far side does
// so instead. So nothing is left even if the controller is killed, and there is no second connection during a
// measurement.
package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/driver/folder"
	"tare/internal/lab/driver/piped"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Target says how to reach the far side.
type Target struct {
	env.Options
	// Argv returns the command line on this machine that runs words as one command on the far side, without expansion.
	Argv func(words ...string) []string
	// Dir is the directory for the agent; if empty, the first suitable one is used.
	Dir string
	// Agent is the path of an agent that is already there; if empty, one is put there.
	Agent string
	// Explain interprets the program's own messages: it may replace the error and return a remedy. said is the
	// program's output. It may be nil.
	Explain func(err error, said string) (remedy string, better error)
	// Facts are the driver's facts; Open adds Command, OS and Arch.
	Facts record.Facts
	// PeerAt is where the run's peer is to listen for the far side; without an address it cannot be reached.
	PeerAt netpeer.Place
}

// clearTime bounds the removal of the agent's directory if the agent could not do it.
const clearTime = 20 * time.Second

// idleTime bounds the end of a shell on the far side that has nothing to remove.
const idleTime = time.Second

// Open puts the agent there and checks that it runs.
func Open(ctx context.Context, t Target) (env.Env, error) {
	e := &environment{t: t}
	if err := leftover.CheckRunID(t.RunID); err != nil {
		return nil, e.failed(ctx, "open", err)
	}
	// The agent removes its own directory only if the name begins with this prefix.
	e.dir = ".tare-" + t.RunID + "-" + strings.ToLower(rand.Text()[:8])
	if err := ctx.Err(); err != nil {
		return nil, e.failed(ctx, "open", err)
	}
	if err := e.ready(ctx); err != nil {
		// The reason is known. A failed removal would only repeat that the far side does not answer.
		e.Close()
		return nil, err
	}
	e.facts = t.Facts
	e.facts.OS, e.facts.Arch = e.platform.OS, e.platform.Arch
	e.facts.Command = t.Argv(e.words()...)
	return e, nil
}

type environment struct {
	t        Target
	dir      string // name of the agent's directory
	facts    record.Facts
	agents   piped.Agents
	mu       sync.Mutex
	platform deploy.Platform
	path     string // of the agent there; "" if it must be put there
	touched  bool   // a directory may exist that nobody has removed yet
	keeper   *proc.Stream
	once     sync.Once
	err      error
}

// PeerPlace implements env.PeerPlacer.
func (e *environment) PeerPlace() netpeer.Place { return e.t.PeerAt }

// Mounts are directories that already exist there; the agent checks whether they can be used.
func (e *environment) Mounts() []env.Mounted { return folder.Given(e.t.Mounts, e.t.Name, false) }

// Command prepares words as a command on the far side. It implements deploy.Transport.
func (e *environment) Command(ctx context.Context, words ...string) *proc.Cmd {
	cmd := proc.Command(ctx, e.t.Argv(words...)...)
	// A prefix such as env or nsenter becomes the agent or the script itself, which cleans up on SIGTERM.
	proc.GentleDeath(cmd)
	return cmd
}

// Put implements deploy.Transport.
func (e *environment) Put(ctx context.Context, name string, r io.Reader) (string, error) {
	e.touched = true
	words := append([]string{"sh", "-c", putScript, e.dir, name}, e.bases()...)
	out, err := proc.RunCmd(e.Command(ctx, words...), r)
	if err != nil {
		return "", err
	}
	return putAnswer(out, e.dir, name)
}

func (e *environment) bases() []string {
	if e.t.Dir == "" {
		return nil
	}
	return []string{e.t.Dir}
}

// ready makes sure that an agent is there.
func (e *environment) ready(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.path != "" {
		return nil
	}
	if e.t.Agent != "" {
		return e.check(ctx)
	}
	if e.touched {
		if err := e.clear(ctx); err != nil {
			return e.failed(ctx, "remove the previous agent", err)
		}
	}
	keeper, err := proc.Start(e.Command(context.WithoutCancel(ctx),
		append([]string{"sh", "-c", keepScript, e.dir}, e.bases()...)...))
	if err != nil {
		return e.failed(ctx, "put the agent", err)
	}
	e.keeper = keeper
	where, platform, err := deploy.Push(ctx, e, e.t.Agents, deploy.PushOptions{Platform: e.platform})
	if err != nil {
		return e.failed(ctx, "put the agent", err)
	}
	e.path, e.platform = where, platform
	return nil
}

// check accepts an agent that is already there. It only runs it; the handshake checks its build.
func (e *environment) check(ctx context.Context) error {
	out, err := proc.RunCmd(e.Command(ctx, e.t.Agent, "agent", "--version"), nil)
	if err != nil {
		return e.failed(ctx, "start the agent", err)
	}
	_, goos, goarch, ok := wire.ParseVersionLine(string(out))
	if !ok {
		return e.failed(ctx, "start the agent", fmt.Errorf("%s is not an agent: it printed no version line", e.t.Agent))
	}
	e.path, e.platform = e.t.Agent, deploy.Platform{OS: goos, Arch: goarch}
	return nil
}

// words is the agent's command line on the far side.
func (e *environment) words() []string {
	if e.t.Agent != "" {
		return []string{e.t.Agent, "agent", "--dir", e.t.Dir}
	}
	d := path.Dir(e.path)
	return []string{e.path, "agent", "--dir", d, "--remove", d}
}

// failed makes an *env.OpenError with the far side's output and the driver's explanation.
func (e *environment) failed(ctx context.Context, op string, err error) error {
	x := &env.OpenError{Env: e.t.Name, Op: op, Err: err}
	if p, ok := errors.AsType[*deploy.PushError](err); ok {
		x.Op, x.Err, x.Evidence = p.Op, p.Err, p.Evidence
	}
	if p, ok := errors.AsType[*proc.ExitError](err); ok && len(x.Evidence) == 0 {
		x.Evidence = []byte(p.Stderr)
	}
	if ctx.Err() != nil {
		x.Err = ctx.Err()
		return x
	}
	said := string(x.Evidence)
	if e.t.Explain != nil {
		if remedy, better := e.t.Explain(x.Err, said); better != nil {
			x.Err, x.Remedy = better, remedy
			return x
		}
	}
	x.Remedy = explain(said)
	return x
}

// explain returns remedies for messages of the far side's shell.
func explain(said string) string {
	switch {
	case strings.Contains(said, "tare: no directory can take the agent"):
		return "choose a directory there that you may write to, on a file system without noexec, with the " +
			"setting dir=PATH"
	case strings.Contains(said, "No space left on device"), strings.Contains(said, "quota exceeded"):
		return "free some space there, or choose another directory with the setting dir=PATH"
	case strings.Contains(said, "Read-only file system"):
		return "choose a directory there that you may write to with the setting dir=PATH"
	}
	return ""
}

func (e *environment) Agent(ctx context.Context) (env.Stream, error) {
	if err := e.agents.Free(); err != nil {
		return nil, err
	}
	// The previous agent has removed itself.
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	stream, err := e.agents.Start(ctx, e.Command(context.WithoutCancel(ctx), e.words()...))
	if err != nil || e.t.Agent != "" {
		return stream, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.path = ""
	return &agentStream{Stream: e.agents.Last(), first: e.handOver}, nil
}

// agentStream is a stream to an agent. It detects the controller's first write, which comes after the agent has
// answered.
type agentStream struct {
	*proc.Stream
	once  sync.Once
	first func()
}

func (a *agentStream) Write(p []byte) (int, error) {
	a.once.Do(a.first)
	return a.Stream.Write(p)
}

// handOver leaves the removal to the agent. If the message does not arrive, the shell removes the directory of a
// running agent: its trials fail, but nothing is left behind.
func (e *environment) handOver() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keeper != nil {
		io.WriteString(e.keeper, handedOver+"\n")
		e.keeper.Close()
		e.keeper = nil
	}
}

// dismiss ends the waiting shell, if it still runs. The shell then removes the directory.
func (e *environment) dismiss(within time.Duration) {
	if e.keeper == nil {
		return
	}
	e.keeper.CloseWrite()
	select {
	case <-e.keeper.Done():
		if e.keeper.Err() == nil {
			e.touched, e.path = false, ""
		}
	case <-time.After(within):
	}
	e.keeper.Close()
	e.keeper = nil
}

func (e *environment) Facts() record.Facts { return e.facts }

func (e *environment) Diagnose() []byte { return e.agents.Diagnose() }

func (e *environment) Close() error {
	e.once.Do(func() {
		e.agents.Close()
		e.mu.Lock()
		defer e.mu.Unlock()
		wait := clearTime
		if !e.touched {
			wait = idleTime // nothing was put there, so there is no need to wait for a far side that does not answer
		}
		e.dismiss(wait)
		if !e.touched || e.leftByItself() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), clearTime)
		defer cancel()
		if err := e.clear(ctx); err != nil {
			e.err = fmt.Errorf("%s: remove %s at the remote side: %w; the agent removes it when the connection ends",
				e.t.Name, e.dir, err)
		}
	})
	return e.err
}

// leftByItself tells whether the last agent ended by itself, and so removed its directory.
func (e *environment) leftByItself() bool {
	last := e.agents.Last()
	if last == nil || e.path != "" {
		return false
	}
	select {
	case <-last.Done():
		return last.Err() == nil
	default:
		return false
	}
}

// clear removes the agent's directory, wherever it is.
func (e *environment) clear(ctx context.Context) error {
	words := append([]string{"sh", "-c", clearScript, e.dir}, e.bases()...)
	if _, err := proc.RunCmd(e.Command(ctx, words...), nil); err != nil {
		return err
	}
	e.touched, e.path = false, ""
	return nil
}
