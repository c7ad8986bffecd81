// Package local is the environment that adds nothing: the machine that tare runs on, the usual baseline.
package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"

	"tare/internal/lab/driver/folder"
	"tare/internal/lab/driver/piped"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/measure/sysinfo"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name: "local",
		Doc:  "This machine itself, without any layer in between; it is usually named host.",
		Settings: []env.Setting{
			{Name: "dir", Default: "a temporary directory",
				Doc:   "Directory for file workloads.",
				Check: env.CheckAbsolute},
			{Name: "nice", Default: "0",
				Doc:   "Added to the niceness of the agent and its workers, -20 to 19; below 0 needs privileges.",
				Check: checkNice},
			{Name: "cpus", Default: "all",
				Doc:   "Processors the agent may use, such as 0 or 0-1,3 (taskset, Linux).",
				Check: CheckCPUs},
		},
		Mounts: []env.MountKind{folder.DirKind(true)},
		Driver: Driver{},
		Nature: env.Nature{Host: true, Kernel: env.KernelHost, Files: env.FilesHost},
		Probe: func(context.Context) env.Status {
			return env.Status{OK: true, Detail: runtime.GOOS + "/" + runtime.GOARCH}
		},
		FreeSpace: func(s env.Spec, scratch string) env.FreeSpace {
			dir := s.Get("dir", scratch)
			return env.FreeSpace{Bytes: sysinfo.Free(dir), Where: dir, Remedy: "another directory with dir="}
		},
		Reach: func(env.Spec) error { return nil },
		// leftover makes all of tare's directories on this machine, for every driver.
		Clean: func(_ context.Context, dry bool) ([]string, error) {
			return leftover.Clean(dry, os.TempDir(), "/var/tmp")
		},
	}}
}

func checkNice(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < -20 || n > 19 {
		return fmt.Errorf("%q is not a whole number from -20 to 19", v)
	}
	return nil
}

var cpusRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$`)
})

// CheckCPUs returns an error if v is not a list of processors such as 0-1,3.
func CheckCPUs(v string) error {
	if !cpusRE().MatchString(v) {
		return fmt.Errorf("%q is not a list of processors such as 0 or 0-1,3", v)
	}
	return nil
}

// Driver opens the local machine.
type Driver struct{}

// Open finds the agent for this platform and makes a work directory. It starts no process.
func (Driver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	fail := func(op string, err error, remedy string) error {
		return &env.OpenError{Env: o.Name, Op: op, Err: err, Remedy: remedy}
	}
	if err := ctx.Err(); err != nil {
		return nil, fail("open", err, "")
	}
	agent, err := o.Agents.Path(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return nil, fail("choose agent", err, "")
	}
	prefix, err := launcher(ctx, &o)
	if err != nil {
		return nil, err
	}
	e := &environment{release: func() error { return nil }, dir: o.Dir}
	if base := o.Get("dir", ""); base != "" {
		if e.dir, e.release, err = leftover.New(base, o.RunID); err != nil {
			remedy := "choose a directory you may write to with the setting dir=PATH"
			if errors.Is(err, os.ErrNotExist) {
				remedy = "make it, or choose another one with the setting dir=PATH"
			}
			return nil, fail("make work directory", err, remedy)
		}
	}
	for _, m := range o.Mounts {
		if m.Driver == folder.Dir { // the agent makes its directory there, and may be killed
			release, forget := e.release, leftover.Note(m.Arg, o.RunID, true)
			e.release = func() error { forget(); return release() }
		}
	}
	e.mounts = folder.Given(o.Mounts, o.Name, true)
	e.argv = append(prefix, agent, "agent", "--dir", e.dir)
	e.facts = record.Facts{
		OS: runtime.GOOS, Arch: runtime.GOARCH, WorkDir: e.dir,
		Settings: maps.Clone(o.Settings), Command: e.argv,
	}
	return e, nil
}

// launcher returns the programs that start the agent with another niceness or on certain processors. Each is tried
// first, so that a refusal is an error of the opening and not an agent that does not answer.
func launcher(ctx context.Context, o *env.Options) ([]string, error) {
	var prefix []string
	for _, l := range []struct{ setting, program, flag, remedy string }{
		{"cpus", "taskset", "-c", "use processors that exist and are allowed here; taskset is part of util-linux"},
		{"nice", "nice", "-n", "a niceness below 0 needs privileges"},
	} {
		v := o.Get(l.setting, "")
		if v == "" {
			continue
		}
		argv := []string{l.program, l.flag, v}
		out, err := proc.Run(ctx, nil, append(argv, "sh", "-c", "nice")...)
		if err == nil && l.setting == "nice" {
			err = sameNice(string(out), v)
		}
		if err != nil {
			x := &env.OpenError{Env: o.Name, Op: "set " + l.setting + " to " + v, Err: err, Remedy: l.remedy}
			if e, ok := errors.AsType[*proc.ExitError](err); ok {
				x.Evidence = []byte(e.Stderr)
			}
			return nil, x
		}
		prefix = append(prefix, argv...)
	}
	return prefix, nil
}

// sameNice compares the niceness that nice reports with the requested one, because nice only warns if it is refused.
// nice adds to the niceness of tare itself.
func sameNice(got, want string) error {
	var n, w int
	if _, err := fmt.Sscan(got, &n); err != nil {
		return fmt.Errorf("read niceness from %.40q: %w", got, err)
	}
	w, _ = strconv.Atoi(want)
	if own := ownNice(); n != min(max(own+w, -20), 19) {
		return fmt.Errorf("the system gave niceness %d", n)
	}
	return nil
}

type environment struct {
	agents  piped.Agents
	argv    []string
	dir     string
	release func() error
	mounts  []env.Mounted
	facts   record.Facts
	once    sync.Once
	err     error
}

func (e *environment) Mounts() []env.Mounted { return e.mounts }

func (e *environment) Agent(ctx context.Context) (env.Stream, error) {
	return e.agents.Start(ctx, proc.Command(context.WithoutCancel(ctx), e.argv...))
}

// AgentProcess implements env.HostAgent.
func (e *environment) AgentProcess() int { return e.agents.Pid() }

// Loopback implements env.LoopbackProvider.
func (e *environment) Loopback() (string, error) { return "127.0.0.1", nil }

func (e *environment) Facts() record.Facts { return e.facts }

func (e *environment) Diagnose() []byte { return e.agents.Diagnose() }

func (e *environment) Close() error {
	e.once.Do(func() {
		e.agents.Close()
		e.err = e.release()
	})
	return e.err
}
