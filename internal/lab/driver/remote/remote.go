// Package remote is an environment behind any program that runs a command elsewhere and passes its standard streams on:
// ssh, a virtual machine's own shell command, a container engine's exec.
//
// It is opinionated about leaving: the agent is put into a private directory, which is its work directory as well and
// which it removes itself when its input ends. Until the agent speaks, a shell of the far side waits to do so instead.
// Thus nothing is left even when the controller is killed, and there is no second connection while it measures.
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
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Target says how to reach the far side.
type Target struct {
	env.Options
	// Argv returns the command line on this machine that runs words as one command, unexpanded, at the far side.
	Argv func(words ...string) []string
	// Dir is the directory below which the agent is put; empty means the first that will do.
	Dir string
	// Agent is the path of an agent that is there already; empty means put one.
	Agent string
	// Explain knows the program's own complaints: it may replace the error and give a remedy. said is the program's
	// output. nil explains nothing.
	Explain func(err error, said string) (remedy string, better error)
	// Facts are what the driver knows; Command, OS and Arch are filled in.
	Facts record.Facts
}

// clearTime bounds the removal of what was put, when the agent could not do it.
const clearTime = 20 * time.Second

// idleTime bounds the end of a shell at the far side that has nothing to remove.
const idleTime = time.Second

// Open puts the agent there and proves that it runs.
func Open(ctx context.Context, t Target) (env.Env, error) {
	e := &environment{t: t}
	if err := leftover.CheckRunID(t.RunID); err != nil {
		return nil, e.failed(ctx, "open", err)
	}
	// The leading dot is the agent's condition for removing the directory it was put into.
	e.dir = ".tare-" + t.RunID + "-" + strings.ToLower(rand.Text()[:8])
	if err := ctx.Err(); err != nil {
		return nil, e.failed(ctx, "open", err)
	}
	if err := e.ready(ctx); err != nil {
		// With the reason at hand, a failing removal would only repeat that the far side does not answer.
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
	dir      string // name of the directory the agent is put into
	facts    record.Facts
	agents   piped.Agents
	mu       sync.Mutex
	platform deploy.Platform
	path     string // of the agent there; "" when it must be put
	touched  bool   // something may have been put that nobody has removed yet
	keeper   *proc.Stream
	once     sync.Once
	err      error
}

// Mounts are directories that are there; whether they can be used, the agent sees.
func (e *environment) Mounts() []env.Mounted { return folder.Given(e.t.Mounts, e.t.Name, false) }

// Command prepares words as a command at the far side. It implements deploy.Transport.
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
			return e.failed(ctx, "remove the agent before", err)
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

// check accepts an agent that is there already. What build it is, the handshake says; here it is only run.
func (e *environment) check(ctx context.Context) error {
	out, err := proc.RunCmd(e.Command(ctx, e.t.Agent, "agent", "--version"), nil)
	if err != nil {
		return e.failed(ctx, "start the agent", err)
	}
	_, goos, goarch, ok := wire.ParseVersionLine(string(out))
	if !ok {
		return e.failed(ctx, "start the agent", fmt.Errorf("%s does not answer as an agent", e.t.Agent))
	}
	e.path, e.platform = e.t.Agent, deploy.Platform{OS: goos, Arch: goarch}
	return nil
}

// words is the agent's command line at the far side.
func (e *environment) words() []string {
	if e.t.Agent != "" {
		return []string{e.t.Agent, "agent", "--dir", e.t.Dir}
	}
	d := path.Dir(e.path)
	return []string{e.path, "agent", "--dir", d, "--remove", d}
}

// failed makes an *env.OpenError with what the far side said and what the driver makes of it.
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

// explain knows the complaints of the far side's shell.
func explain(said string) string {
	switch {
	case strings.Contains(said, "tare: no directory can take the agent"):
		return "choose a directory there that you may write to, on a file system not mounted noexec, with the " +
			"setting dir=PATH"
	case strings.Contains(said, "No space left on device"), strings.Contains(said, "quota exceeded"):
		return "make room there, or choose another directory with the setting dir=PATH"
	case strings.Contains(said, "Read-only file system"):
		return "choose a directory there that you may write to with the setting dir=PATH"
	}
	return ""
}

func (e *environment) Agent(ctx context.Context) (env.Stream, error) {
	if err := e.agents.Free(); err != nil {
		return nil, err
	}
	// The agent before has removed itself.
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
	return &answered{Stream: e.agents.Last(), first: e.handOver}, nil
}

// answered is a stream to an agent that tells when the controller first writes to it, which it does once the agent has
// spoken.
type answered struct {
	*proc.Stream
	once  sync.Once
	first func()
}

func (a *answered) Write(p []byte) (int, error) {
	a.once.Do(a.first)
	return a.Stream.Write(p)
}

// handOver leaves the removal to the agent. Should this not arrive, what was put is removed under a running agent,
// whose directory is then gone: the trials fail, and nothing is left behind.
func (e *environment) handOver() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keeper != nil {
		io.WriteString(e.keeper, handedOver+"\n")
		e.keeper.Close()
		e.keeper = nil
	}
}

// dismiss ends the shell that waits, if it still does, by which it removes what was put.
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
			wait = idleTime // nothing was put, so that a far side that does not answer need not be waited for
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

// leftByItself tells whether the last agent put there ended of its own accord, and so removed what was put.
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

// clear removes what was put. It needs no answer about where that was.
func (e *environment) clear(ctx context.Context) error {
	words := append([]string{"sh", "-c", clearScript, e.dir}, e.bases()...)
	if _, err := proc.RunCmd(e.Command(ctx, words...), nil); err != nil {
		return err
	}
	e.touched, e.path = false, ""
	return nil
}
