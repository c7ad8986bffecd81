package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/semantics"
	"tare/internal/sys/proc"
)

// Drivers opens environments with the real drivers and puts an agent into each.
type Drivers struct {
	Registry *env.Registry
	Agents   env.Agents
	RunID    string
	Dir      string // private directory of the run; each environment gets one below it
	Log      *slog.Logger
	// Deadline bounds one opening; 0 means three minutes, which a slow emulator needs for two boots.
	Deadline time.Duration
	// Idle says to measure each environment's use of the host while it has nothing to do.
	Idle bool
	// Flushes says to try the effect of a flush in each target before anything is measured. The configuration's
	// declaration is recorded in any case.
	Flushes bool
	// Peer tells whether work in an environment is to reach this machine's loopback; nil: none is.
	Peer func(environment string) bool
}

const (
	defaultOpenDeadline = 3 * time.Minute
	mountDeadline       = time.Minute // more for each mount
)

// Open implements Opener.
func (d *Drivers) Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error) {
	t := Target{Record: record.Environment{Target: record.Target{Name: e.Name, Spec: e.Text}, Session: session}}
	info, ok := d.Registry.Lookup(e.Spec.Driver)
	if !ok {
		return t, fmt.Errorf("environment %s: there is no driver %q", e.Name, e.Spec.Driver)
	}
	dir := filepath.Join(d.Dir, fmt.Sprintf("%s-%d", e.Name, session))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return t, fmt.Errorf("environment %s: make directory: %w", e.Name, err)
	}
	ctx, cancel := proc.WithTimeout(ctx, info.Patience(e.Spec, max(d.Deadline, defaultOpenDeadline))+
		time.Duration(len(mounts))*mountDeadline)
	defer cancel()
	began := time.Now()
	o := d.options(e, dir)
	for _, m := range mounts {
		o.Mounts = append(o.Mounts, m.Spec)
	}
	opened, err := info.Driver.Open(ctx, o)
	if err != nil {
		os.RemoveAll(dir)
		return t, err
	}
	undo := func() error {
		err := opened.Close()
		os.RemoveAll(dir)
		return err
	}
	s, err := deploy.Attach(ctx, opened, d.RunID)
	if err != nil {
		err = evidence(e.Name, opened, err)
		undo()
		return t, err
	}
	t.Record.OpenNS = int64(time.Since(began))
	t.Record.Outside = opened.Facts()
	if p, ok := opened.(env.DiskMapper); ok {
		t.Record.Disks = pictures(p.Disk())
	}
	if r, ok := opened.(env.Retrier); ok {
		t.Record.Retries = r.Retries()
	}
	if t.Record.Inside, err = s.Facts(ctx); err != nil {
		err = evidence(e.Name, opened, fmt.Errorf("collect facts: %w", err))
		s.Close()
		undo()
		return t, err
	}
	if t.Mounts, err = d.mount(ctx, s, opened, mounts, session); err != nil {
		s.Close()
		undo()
		return t, err
	}
	first := e.Like == "" // further copies are like it
	if first {
		err = d.flushes(ctx, s, e, &t)
	}
	if err != nil {
		s.Close()
		undo()
		return t, err
	}
	if d.Idle && first {
		idle(ctx, opened, dir, &t.Record.Outside)
	}
	t.Agent = s
	t.Loopback, t.Unreached = env.Loopback(e.Name, opened)
	if p, ok := opened.(env.PeerPlacer); ok {
		if t.PeerAt = p.PeerPlace(); t.PeerAt.Address.IsValid() {
			t.Unreached = nil
		}
	}
	if f, ok := opened.(env.Forwarder); ok {
		t.Forward = f.Forward
	}
	t.HostThreads, t.HostProcesses, t.HostMemory = hostThreads(opened), hostProcesses(opened), hostMemory(opened)
	t.HostExits = hostExits(opened)
	if a, ok := opened.(env.HostAgent); ok {
		t.HostAgent = a.AgentProcess
	}
	if c, ok := opened.(env.HostCacher); ok {
		t.DropHostCache = c.DropHostCaches
	}
	t.Close = func() error {
		s.Close()
		return undo()
	}
	return t, nil
}

// options returns the options of an environment without its mounts.
func (d *Drivers) options(e *plan.Target, dir string) env.Options {
	return env.Options{Spec: e.Spec, RunID: d.RunID, Dir: dir, Agents: d.Agents, Log: d.Log.With("env", e.Name),
		Peer: d.Peer != nil && d.Peer(e.Name)}
}

func pictures(d *record.DiskMap) []record.DiskMap {
	if d == nil {
		return nil
	}
	return []record.DiskMap{*d}
}

// mount has the agent mount the folders that the driver could not, and asks it for its kernel's view of each mount. An
// error is the loss of the whole environment.
func (d *Drivers) mount(ctx context.Context, s *deploy.Conn, opened env.Env, mounts []*plan.Target,
	session int) ([]MountTarget, error) {
	if len(mounts) == 0 {
		return nil, nil
	}
	m, ok := opened.(env.Mounter)
	if !ok || len(m.Mounts()) != len(mounts) {
		return nil, fmt.Errorf("%s: the driver made none of its %d mounts", mounts[0].Of, len(mounts))
	}
	out := make([]MountTarget, len(mounts))
	for i, got := range m.Mounts() {
		began := time.Now()
		t := &out[i]
		t.Record = record.Environment{Session: session, Target: record.Target{Name: mounts[i].Name,
			Spec: mounts[i].Text, Of: mounts[i].Of,
			Outside: opened.Facts(), Files: record.Files{Mount: &got.Mount, Disks: pictures(got.Disk)}}}
		if t.Err = got.Err; t.Err == nil {
			t.Root, t.Err = got.Mount.Dir, d.putMount(ctx, s, &got, t)
		}
		t.Record.OpenNS = int64(time.Since(began))
		t.Served = &got
		t.Card = func(ctx context.Context) ([]record.Property, error) { return semantics.For(ctx, s, &got, 0) }
		if t.Err != nil && !s.Alive() {
			return nil, evidence(mounts[i].Of, opened, t.Err)
		}
		if t.Err != nil && got.Diagnose != nil {
			f := failure("open", t.Err)
			f.Evidence = printable(got.Diagnose()) + f.Evidence
			t.Err = f
		}
	}
	return out, nil
}

// putMount carries out the rest of one mount and reads back its state.
func (d *Drivers) putMount(ctx context.Context, s *deploy.Conn, got *env.Mounted, t *MountTarget) error {
	if got.Order != nil {
		if _, err := s.Mount(ctx, got.Order); err != nil {
			return err
		}
	}
	in, err := s.FactsAt(ctx, got.Mount.Dir)
	if err != nil {
		return fmt.Errorf("collect facts of %s: %w", t.Record.Name, err)
	}
	// Where nothing can be written, only work that reads can be weighed, and everything else is refused.
	if why := in.Extra["work_dir.error"]; why != "" && in.Extra["work_dir.read_only"] == "" {
		return &record.Failure{Kind: "open", Message: t.Record.Name + ": " + why}
	}
	t.Record.Inside = in
	kind, options, _ := strings.Cut(in.WorkFS, " (")
	t.Record.Mount.Type, t.Record.Mount.Source, t.Record.Mount.Options = kind, in.Extra["work.source"],
		strings.TrimSuffix(options, ")")
	return nil
}

// evidence adds the environment's last output to an error that has no evidence.
func evidence(name string, opened env.Env, err error) error {
	f := failure("open", err)
	if f.Evidence == "" {
		if d, ok := opened.(env.Diagnoser); ok {
			f = &record.Failure{Kind: f.Kind, Message: f.Message, Evidence: printable(d.Diagnose())}
		}
	}
	if _, said := errors.AsType[*env.OpenError](err); said {
		return f
	}
	return &record.Failure{Kind: f.Kind, Message: name + ": " + f.Message, Evidence: f.Evidence}
}
