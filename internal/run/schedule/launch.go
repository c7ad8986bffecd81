package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/hostcache"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/launch"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// Launcher makes another environment like one of the plan's, uses it once and removes it.
type Launcher interface {
	// Launch returns the times and the resources of a launch. The environment is removed in any case. With cold, the
	// host's page cache is dropped before; the error is a *record.Failure if that is not possible.
	Launch(ctx context.Context, e *plan.Target, p Probe, cold bool) (LaunchResult, error)
}

// Probe must succeed before an environment counts as ready.
type Probe struct {
	Command string        // a command line in the environment; "" for none
	Wait    time.Duration // how long it may fail
}

// LaunchResult has the times and the resources of a launch.
type LaunchResult struct {
	Start   time.Time
	Ready   time.Duration
	Metrics map[string]float64 // of package launch
	State   map[string]string
}

// worker does trials: the agent in a target, several environments together or, for some kinds, the controller itself.
type worker interface {
	Calibrate(ctx context.Context, c wire.Calibrate) (wire.Calibrated, error)
	Run(ctx context.Context, run wire.Run) (deploy.Outcome, error)
}

// worker returns the worker that does a workload's trials in a target.
func (x *trialRunner) worker(w *plan.Workload, target string) worker {
	if hosts := w.Crowd(); len(hosts) > 0 {
		return &jointLoad{x, w, target, hosts, x.mark}
	}
	if k, ok := x.kinds(w.Kind); !ok || !k.Controller {
		return x.table.targets[target].Agent
	}
	e, _ := x.plan.Target(target)
	return launchWorker{x.launcher, e, Probe{w.Params[launch.ProbeParam], w.Params.Duration(launch.WaitParam)},
		w.Params[launch.CacheParam] == launch.Cold}
}

// launchWorker does the trials of env.launch in a target.
type launchWorker struct {
	launcher Launcher
	like     *plan.Target
	probe    Probe
	cold     bool
}

// Calibrate implements worker. The work is one launch; how long it takes, the warm-up shows.
func (l launchWorker) Calibrate(context.Context, wire.Calibrate) (wire.Calibrated, error) {
	return wire.Calibrated{Work: 1}, nil
}

// Run implements worker.
func (l launchWorker) Run(ctx context.Context, _ wire.Run) (o deploy.Outcome, err error) {
	o.Start = time.Now()
	if l.launcher == nil {
		return o, &record.Failure{Kind: "refused", Message: "this run cannot open further environments"}
	}
	got, err := l.launcher.Launch(ctx, l.like, l.probe, l.cold)
	if err != nil {
		if o.Result.Error = failure(kindLaunch, err); ctx.Err() != nil {
			return o, err
		}
		return o, o.Result.Error
	}
	o.Start, o.ControllerNS = got.Start, int64(got.Ready)
	o.Result.ElapsedNS, o.Result.Metrics, o.Result.State = int64(got.Ready), got.Metrics, got.State
	return o, nil
}

// kindLaunch is the failure of a launch.
const kindLaunch = "launch"

// probePause is the time between two tries of a probe.
const probePause = 20 * time.Millisecond

// Launch implements Launcher.
func (d *Drivers) Launch(ctx context.Context, e *plan.Target, p Probe, cold bool) (l LaunchResult, err error) {
	info, ok := d.Registry.Lookup(e.Spec.Driver)
	if !ok {
		return l, fmt.Errorf("environment %s: there is no driver %q", e.Name, e.Spec.Driver)
	}
	if info.Alone != nil {
		if err := info.Alone(e.Spec); err != nil {
			return l, fmt.Errorf("%s cannot be opened again while it is open: %w", e.Name, err)
		}
	}
	dir, err := os.MkdirTemp(d.Dir, e.Name+"-launch-")
	if err != nil {
		return l, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := proc.WithTimeout(ctx, info.Patience(e.Spec, max(d.Deadline, defaultOpenDeadline))+p.Wait)
	defer cancel()
	o := d.options(e, dir)
	o.Name += "-launch" // resources on a shared system have names of their own
	if cold {
		if err := hostcache.DropAll(); err != nil {
			return l, &record.Failure{Kind: "refused", Message: err.Error() + "; leave out cache=cold"}
		}
	}
	l.Start, l.Metrics = time.Now(), map[string]float64{}
	last := l.Start
	step := func(metric string) {
		now := time.Now()
		l.Metrics[metric] = now.Sub(last).Seconds()
		last = now
	}
	opened, err := info.Driver.Open(ctx, o)
	if err != nil {
		return l, err
	}
	end := opened.Close
	defer func() { err = errors.Join(err, end()) }()
	step(launch.Created)
	s, err := deploy.Attach(ctx, opened, d.RunID)
	if err != nil {
		return l, evidence(o.Name, opened, err)
	}
	leave := s.Close
	defer func() { err = errors.Join(err, leave()) }() // before the environment is closed
	step(launch.Agent)
	if _, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: "null", Params: map[string]string{}, Cell: "launch"},
		Work: 1}); err != nil {
		return l, fmt.Errorf("the first work in it: %w", err)
	}
	step(launch.Worked)
	if p.Command != "" {
		if err := await(ctx, s, p); err != nil {
			return l, err
		}
		step(launch.Probed)
	}
	l.Ready = last.Sub(l.Start)
	l.Metrics[launch.Ready] = l.Ready.Seconds()
	l.State = standing(ctx, opened, dir)
	last = time.Now()
	nothing := func() error { return nil }
	leave, err = nothing, s.Close()
	step(launch.Stopped)
	end, err = nothing, errors.Join(err, opened.Close())
	step(launch.Gone)
	return l, err
}

// await starts a probe until it succeeds.
func await(ctx context.Context, s *deploy.Conn, p Probe) error {
	ctx, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	for {
		_, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: "command", Params: map[string]string{"command": p.Command},
			Cell: "launch"}, Work: 1})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the probe did not succeed within %v, so the environment does not count as ready: %w",
				p.Wait, err)
		case <-time.After(probePause):
		}
		if !s.Alive() {
			return err
		}
	}
}

// standing returns the memory, processes and disk space that an idle environment takes of this machine, as the states
// of a launch.
func standing(ctx context.Context, opened env.Env, dir string) map[string]string {
	state := map[string]string{}
	note := func(name string, bytes int64) {
		if bytes > 0 {
			state[name] = unit.Format(float64(bytes), "B")
		}
	}
	if own, others, err := hostFamily(opened); err == nil {
		if m, processes, err := memoryOf(own, others); err == nil {
			note(launch.Memory, m.Resident)
			note(launch.Shared, m.Proportional)
			state[launch.Processes] = strconv.Itoa(processes)
		}
	}
	note(launch.Disk, hostDisk(ctx, opened, dir))
	return state
}
