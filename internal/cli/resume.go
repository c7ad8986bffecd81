package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"tare/internal/bundle"
	"tare/internal/record"
	"tare/internal/run/schedule"
	"tare/internal/run/supply"
)

// resume goes on with an interrupted run.
func (cmd *runCommand) resume(ctx context.Context) error {
	f := cmd.flags
	if info, err := os.Stat(f.resume); err == nil && info.Mode().IsRegular() {
		return usagef("--resume: %s is one file, and resuming needs a folder: run tare bundle unpack %s", f.resume,
			quoteArg(f.resume))
	}
	w, b, trials, err := cmd.reopen()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, bundle.ErrNotBundle) || errors.Is(err, bundle.ErrFinished) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	p := b.Plan
	err = noSelftest(b, trials, f.resume, "resumed")
	if err == nil && p.Once() {
		err = usagef("the worktrees that this run is of are removed; call tare ab --git again")
	}
	if err == nil && len(b.Manifest.Redacted) > 0 && metered(p) {
		err = usagef("%s was redacted, and the command of its meter is not in it: go on with the original", f.resume)
	}
	if err == nil {
		err = cmd.checkFailIf(&f.failIf, p)
	}
	if err == nil {
		err = f.more.check(p)
	}
	if err == nil {
		if err = supply.Check(p); err != nil {
			err = usageError{err}
		}
	}
	if err == nil && !f.dryRun {
		err = f.store.check(ctx, cmd.app)
	}
	if err == nil {
		if f.plan.Budget != nil {
			p.Budget = *f.plan.Budget
		}
		cmd.forecast(cmd.err, p, f.dryRun || !f.quiet)
	}
	switch {
	case w != nil && (err != nil || f.dryRun):
		w.Close()
		return err
	case err != nil || f.dryRun:
		return err
	case w == nil:
		if w, _, err = bundle.Extend(f.resume); err != nil {
			return err
		}
	}
	fmt.Fprintf(cmd.err, "resuming after %d trials\n", len(trials))
	return (&execution{app: cmd.app, plan: p, writer: w, dir: f.resume, runID: b.Manifest.RunID, flags: f, prior: b,
		trials: trials}).carryOut(ctx)
}

// reopen opens the bundle of a run that can go on. The writer is nil when the run has finished and can go on all the
// same, because its budget ended it and it got a new one: what is finished is left alone until it does go on.
func (cmd *runCommand) reopen() (*bundle.Writer, *bundle.Bundle, []record.Trial, error) {
	f := cmd.flags
	w, b, err := bundle.Resume(f.resume)
	finished := err
	if errors.Is(err, bundle.ErrFinished) {
		b, err = bundle.Open(f.resume)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	trials, err := b.Load()
	switch {
	case err != nil:
		if w != nil {
			w.Close()
		}
		return nil, nil, nil, err
	case w != nil:
		return w, b, trials, nil
	case b.Plan.Budget <= 0 || !schedule.Left(schedule.Config{Plan: b.Plan, Kinds: cmd.kind, Prior: trials,
		PriorTargets: b.Environments}):
		return nil, nil, nil, finished
	case f.plan.Budget == nil:
		return nil, nil, nil, usagef("the budget of %s is spent; to continue, give a new one: tare run --resume %s "+
			"--budget %s", seconds(b.Plan.Budget), quoteArg(f.resume), b.Plan.Budget)
	}
	return nil, b, trials, nil
}
