package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/deploy"
	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
	"tare/internal/version"
)

// buildAgent makes the agent for a platform from this source tree, with the build id of this program.
func (b *bench) buildAgent(ctx context.Context, goos, goarch string) (string, error) {
	out := filepath.Join(b.dir, fmt.Sprintf("tare-agent_%s_%s", goos, goarch))
	cmd := proc.Command(ctx, "go", "build", "-trimpath", "-ldflags",
		"-s -w -X tare/internal/version.Build="+version.Build, "-o", out, "tare/cmd/tare-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	if _, err := proc.RunCmd(cmd, nil); err != nil {
		return "", fmt.Errorf("build the agent for %s/%s: %w", goos, goarch, err)
	}
	return out, nil
}

// agents returns the store with the agent for this machine, and for Linux of the same architecture, in it.
func (b *bench) agents(ctx context.Context) (*deploy.Store, error) {
	if b.built {
		return b.store, nil
	}
	for _, goos := range slices.Compact([]string{runtime.GOOS, "linux"}) {
		path, err := b.buildAgent(ctx, goos, runtime.GOARCH)
		if err != nil {
			return nil, err
		}
		b.store.Use(goos, runtime.GOARCH, path)
	}
	b.built = true
	return b.store, nil
}

// options are what a driver is opened with.
func (b *bench) options(ctx context.Context, spec env.Spec) (env.Options, error) {
	agents, err := b.agents(ctx)
	if err != nil {
		return env.Options{}, err
	}
	dir, err := os.MkdirTemp(b.dir, spec.Name+"-")
	if err != nil {
		return env.Options{}, err
	}
	return env.Options{Spec: spec, RunID: b.runID, Dir: dir, Agents: agents, Log: slog.New(slog.DiscardHandler)}, nil
}

// openDeadline bounds an opening and a handshake.
const openDeadline = 2 * time.Minute

// openEnv opens an environment with its real driver.
func (b *bench) openEnv(ctx context.Context, spec env.Spec) (env.Env, error) {
	info, ok := drivers.Drivers().Lookup(spec.Driver)
	if !ok {
		return nil, fmt.Errorf("there is no driver %s", spec.Driver)
	}
	o, err := b.options(ctx, spec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openDeadline)
	defer cancel()
	return info.Driver.Open(ctx, o)
}

// greet starts an agent in e and shakes hands with it.
func (b *bench) greet(ctx context.Context, e env.Env) (*deploy.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openDeadline)
	defer cancel()
	stream, err := e.Agent(ctx)
	if err != nil {
		return nil, err
	}
	return deploy.Connect(ctx, stream, b.runID)
}

// host opens this machine and an agent in it, as every run of tare does.
func (b *bench) host(ctx context.Context) (*deploy.Conn, func() error, error) {
	return b.enter(ctx, env.Spec{Name: "host", Driver: "local"})
}

// enter opens an environment and an agent in it.
func (b *bench) enter(ctx context.Context, where env.Spec) (*deploy.Conn, func() error, error) {
	e, err := b.openEnv(ctx, where)
	if err != nil {
		return nil, nil, err
	}
	s, err := b.greet(ctx, e)
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return s, func() error { return errors.Join(s.Close(), e.Close()) }, nil
}

// weighing is a workload with frozen work on this machine.
type weighing struct {
	session *deploy.Conn
	close   func() error
	job     wire.Job
	work    int64
	warned  []string
}

// weigh opens this machine and finds the amount of work that takes the length of a run. What the job needs besides its
// parameters is added to it.
func (b *bench) weigh(ctx context.Context, kind string, params map[string]string,
	add ...func(*wire.Job)) (*weighing, error) {
	return b.weighIn(ctx, env.Spec{Name: "host", Driver: "local"}, kind, params, add...)
}

// weighIn is weigh in another environment.
func (b *bench) weighIn(ctx context.Context, where env.Spec, kind string, params map[string]string,
	add ...func(*wire.Job)) (*weighing, error) {
	s, end, err := b.enter(ctx, where)
	if err != nil {
		return nil, err
	}
	w := &weighing{session: s, close: end, job: wire.Job{Kind: kind, Params: params, Cell: "bench", Seed: b.seed}}
	for _, f := range add {
		f(&w.job)
	}
	c, err := s.Calibrate(ctx, wire.Calibrate{Job: w.job, TargetNS: int64(b.length)})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("calibrate %s: %w", kind, err), end())
	}
	w.work = c.Work
	return w, nil
}

// run does one trial, in a fresh worker.
func (w *weighing) run(ctx context.Context) (deploy.Outcome, error) {
	o, err := w.session.Run(ctx, wire.Run{Job: w.job, Work: w.work})
	for _, warning := range o.Result.Warnings {
		if text := "tare warns: " + warning.Text; !slices.Contains(w.warned, text) {
			w.warned = append(w.warned, text)
		}
	}
	return o, err
}

// doubts are the warnings of the trials so far, each once.
func (w *weighing) doubts() []string { return w.warned }

// metric is a side that gives one or some of the trial's metrics.
func (w *weighing) metric(names ...string) side {
	return func(ctx context.Context) ([]float64, error) {
		o, err := w.run(ctx)
		if err != nil {
			return nil, err
		}
		values := make([]float64, len(names))
		for i, name := range names {
			v, ok := o.Result.Metrics[name]
			if !ok {
				return nil, fmt.Errorf("the trial gave no %s", name)
			}
			values[i] = v
		}
		return values, nil
	}
}

// note says what tare is told, in the words of its command line.
func (w *weighing) note(unit string) string {
	var settings []string
	for _, k := range slices.Sorted(maps.Keys(w.job.Params)) {
		settings = append(settings, k+"="+w.job.Params[k])
	}
	return fmt.Sprintf("tare: `-w %s:%s`, %d %s a run", w.job.Kind, strings.Join(settings, ","), w.work, unit)
}

// roundUp returns the least multiple of unit that is at least n.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// program runs a peer and returns its output.
func program(ctx context.Context, argv ...string) ([]byte, error) {
	out, _, err := metered(ctx, argv...)
	return out, err
}

// metered runs a peer and returns its output and the processor time that it took.
func metered(ctx context.Context, argv ...string) (out []byte, cpu time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := proc.Command(ctx, argv...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if out, err = proc.RunCmd(cmd, nil); err != nil {
		return nil, 0, err
	}
	return out, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
