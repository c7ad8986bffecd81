package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/leftover"
	"tare/internal/sys/proc"
)

// The labels of every container that tare makes: which run and environment it belongs to, and which process made it.
const (
	labelRun     = "tare.run"
	labelEnv     = "tare.env"
	labelMachine = "tare.machine"
	labelPID     = "tare.pid"
	labelStart   = "tare.start"
)

// owner is the process of tare that made a container.
type owner struct {
	leftover.Owner
	// machine names what the process id is relative to: a boot of a machine and a namespace of process ids, so that
	// tare in a container and tare beside it do not take each other for dead.
	machine string
}

// thisProcess is the owner of what this process makes.
func thisProcess() owner {
	self, err := leftover.Self()
	if err != nil {
		self = leftover.Owner{PID: os.Getpid()}
	}
	// Only Linux has these two files and its containers; the name alone is good enough elsewhere.
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pids, _ := os.Readlink("/proc/self/ns/pid")
	return owner{self, strings.Join(append(strings.Fields(string(boot)), name, pids), " ")}
}

// labels are the labels of a container that this process makes.
func (o owner) labels(runID, envName string) []string {
	return []string{
		labelRun + "=" + runID, labelEnv + "=" + envName, labelMachine + "=" + o.machine,
		labelPID + "=" + strconv.Itoa(o.PID), labelStart + "=" + o.Start,
	}
}

// abandonedAfter is the age at which a container that never ran, of a process that cannot be looked at from here, is
// taken for a leftover. It lies between create and start for a second at most.
const abandonedAfter = 24 * time.Hour

// abandoned tells whether the container's owner is surely dead, seen from the process self.
func (c *inspected) abandoned(self owner, now time.Time) bool {
	l := c.Config.Labels
	maker, err := leftover.ParseOwner(l[labelPID] + " " + l[labelStart])
	if err != nil || l[labelMachine] != self.machine {
		return !c.State.Running && now.Sub(c.Created) > abandonedAfter
	}
	return !maker.Alive()
}

// containers are those with a label, KEY or KEY=VALUE, and what kept others from being looked at. A container that the
// engine lists and denies to have when asked for it is none: Docker can go on listing one that it has removed, without
// a name, until it is restarted.
func (e engine) containers(ctx context.Context, label string) ([]*inspected, error) {
	out, err := e.run(ctx, nil, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+label)
	if err != nil {
		return nil, fmt.Errorf("list containers of %s: %w", e.name, err)
	}
	var all []*inspected
	var errs []error
	for _, id := range strings.Fields(string(out)) {
		switch c, err := e.inspect(ctx, id); {
		case noSuch(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("inspect %s container %s: %w", e.name, id, err))
		default:
			all = append(all, c)
		}
	}
	return all, errors.Join(errs...)
}

// clean removes the containers whose run is dead, and the empty image when nothing needs it any more.
func clean(ctx context.Context, e engine, self owner, dry bool) ([]string, error) {
	if _, err := proc.LookPath(e.name); err != nil {
		return nil, nil
	}
	all, err := e.containers(ctx, labelRun)
	if len(all) == 0 && err != nil && e.remedy(err) == e.startIt() {
		return nil, nil // no daemon, nothing of ours runs
	}
	var found []string
	errs := []error{err}
	kept := false
	for _, c := range all {
		if !c.abandoned(self, time.Now()) {
			kept = true
			continue
		}
		found = append(found, fmt.Sprintf("%s container %s of run %s", e.name, strings.TrimPrefix(c.Name, "/"),
			c.Config.Labels[labelRun]))
		if !dry {
			if err := e.remove(ctx, c.Id); err != nil {
				errs = append(errs, fmt.Errorf("remove %s container %s: %w", e.name, c.Id, err))
			}
		}
	}
	if !kept {
		if _, err := e.image(ctx, emptyImage); err == nil {
			found = append(found, fmt.Sprintf("%s image %s", e.name, emptyImage))
			if !dry {
				dropEmpty(ctx, e)
			}
		}
	}
	return found, errors.Join(errs...)
}
