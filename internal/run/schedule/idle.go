package schedule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// The time in which an environment settles, and the time after that for which it is watched while it is idle.
const (
	idleSettle = 2 * time.Second
	idleLook   = 3 * time.Second
)

// idle measures an environment's use of the host while it has nothing to do. Where its processes are not known, the
// fact of the processor's share has the reason.
func idle(ctx context.Context, opened env.Env, dir string, facts *record.Facts) {
	extra := map[string]string{}
	family := func() (own, others []int, err error) { return hostFamily(opened) }
	if share, err := idleCPU(ctx, family, idleSettle, idleLook); err != nil {
		extra["idle.cpu"] = record.NotMeasured + err.Error()
	} else {
		extra["idle.cpu"] = fmt.Sprintf("%.4f", share)
	}
	if own, others, err := family(); err == nil {
		if m, processes, err := memoryOf(own, others); err == nil {
			extra["idle.rss_bytes"], extra["idle.processes"] = fmt.Sprint(m.Resident), fmt.Sprint(processes)
			if m.Proportional > 0 {
				extra["idle.pss_bytes"] = fmt.Sprint(m.Proportional)
			}
		}
	}
	if n := hostDisk(ctx, opened, dir); n > 0 {
		extra["idle.disk_bytes"] = fmt.Sprint(n)
	}
	if ctx.Err() != nil {
		return
	}
	if facts.Extra == nil {
		facts.Extra = map[string]string{}
	}
	maps.Copy(facts.Extra, extra)
}

// idleCPU returns the share of one CPU that the processes of an idle environment take: over look, after settle.
// Processes that have ended by then do not count.
func idleCPU(ctx context.Context, family func() (own, others []int, err error),
	settle, look time.Duration) (share float64, err error) {
	pause := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	if _, _, err := family(); err != nil {
		return 0, err // there is nothing to wait for
	}
	pause(settle)
	began := time.Now()
	before, err := usedBy(family)
	if err != nil {
		return 0, err
	}
	pause(look)
	after, err := usedBy(family)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return 0, err
	}
	var used time.Duration
	for pid, now := range after {
		used += max(0, now-before[pid])
	}
	return used.Seconds() / time.Since(began).Seconds(), nil
}

// usedBy is the CPU time of each process of a family that runs now.
func usedBy(family func() (own, others []int, err error)) (map[int]time.Duration, error) {
	own, others, err := family()
	if err != nil {
		return nil, err
	}
	by := map[int]time.Duration{}
	for i, pid := range slices.Concat(own, others) {
		used, _, err := proc.Usage(pid)
		switch {
		case err == nil:
			by[pid] = used
		case i < len(own) && errors.Is(err, fs.ErrNotExist):
			return nil, errHostEnded
		case i < len(own):
			return nil, err
		}
	}
	return by, nil
}
