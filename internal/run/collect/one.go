package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/plan"
)

// One reads a bundle that belongs to no fleet, a folder or a packed file, as a host of one. It is checked as those of a
// fleet are. Options.Scratch gets a folder in which a packed one is unpacked.
func One(path string, o Options) (*fleet.Host, *plan.Plan, error) {
	dir := path
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() {
		if dir, err = os.MkdirTemp(o.Scratch, "one-"); err == nil {
			err = bundle.Extract(path, dir)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	h, refusal, err := o.inspect(dir)
	if err == nil && refusal != nil {
		err = errors.New(refusal.Text)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return h, b.Plan, nil
}

// History reads a fleet to hold a machine against: the folder of one that was collected, or any folder of bundles,
// which are then checked as `tare fleet collect` does it. It returns the plan of the fleet too, as one of its hosts
// carried it out, with the work that it froze.
func History(ctx context.Context, dir string, o Options) (*fleet.Admitted, *plan.Plan, error) {
	a, err := Load(ctx, dir, o)
	if errors.Is(err, ErrNotFleet) {
		if found := expand([]string{dir}); !slices.Equal(found, []string{filepath.Clean(dir)}) {
			made := filepath.Join(o.Scratch, "history")
			if a, err = Add(ctx, made, found, o); err == nil {
				dir = made
			}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if len(a.Hosts) == 0 {
		why := "it has none"
		if len(a.Refused) > 0 {
			why = fmt.Sprintf("%s: %s", a.Refused[0].Bundle, a.Refused[0].Text)
		}
		return nil, nil, fmt.Errorf("read fleet %s: no bundle of it counts: %s", dir, why)
	}
	p, err := planOf(dir, a, o)
	if err != nil {
		return nil, nil, fmt.Errorf("read the plan of fleet %s: %w", dir, err)
	}
	return a, p, nil
}

// planOf is the plan of the first host that has finished, or else of the first whose bundle can be read.
func planOf(dir string, a *fleet.Admitted, o Options) (*plan.Plan, error) {
	f, err := read(dir)
	if err != nil {
		return nil, err
	}
	hosts := slices.Clone(a.Hosts)
	slices.SortStableFunc(hosts, func(x, y fleet.Candidate) int {
		if x.Host.Finished == y.Host.Finished {
			return 0
		} else if x.Host.Finished {
			return -1
		}
		return 1
	})
	failed := fs.ErrNotExist
	for _, c := range hosts {
		for _, e := range f.state.Hosts {
			if c.Bundle != e.Bundle && c.Bundle != e.File {
				continue
			}
			p, err := planIn(filepath.Join(dir, hostsDir, e.File), c.Host.RunID, o.Scratch)
			if err == nil {
				return p, nil
			}
			failed = err
		}
	}
	return nil, failed
}

func planIn(packed, runID, scratch string) (*plan.Plan, error) {
	dir, err := os.MkdirTemp(scratch, "plan-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := bundle.Extract(packed, dir); err != nil {
		return nil, err
	}
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, err
	}
	if b.Manifest.RunID != runID {
		return nil, fmt.Errorf("%s is run %s, not %s", packed, b.Manifest.RunID, runID)
	}
	return b.Plan, nil
}
