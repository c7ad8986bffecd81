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

// The labels of every container that tare makes: its run, its environment, and the process that made it.
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
	// machine is the scope of the process id: a boot of a machine and a PID namespace. So tare in a container and tare
	// outside do not consider each other dead.
	machine string
}

// thisProcess is the owner of the containers that this process makes.
func thisProcess() owner {
	self, err := leftover.Self()
	if err != nil {
		self = leftover.Owner{PID: os.Getpid()}
	}
	return owner{self, leftover.Scope()}
}

// labels are the labels of a container that this process makes.
func (o owner) labels(runID, envName string) []string {
	return []string{
		labelRun + "=" + runID, labelEnv + "=" + envName, labelMachine + "=" + o.machine,
		labelPID + "=" + strconv.Itoa(o.PID), labelStart + "=" + o.Start,
	}
}

// abandonedAfter is the age at which a container that never ran counts as left over, if its process cannot be checked
// from here. Normally a container starts within a second after it was created.
const abandonedAfter = 24 * time.Hour

// abandoned tells whether the container's owner is certainly dead, as seen from the process self.
func (c *containerInfo) abandoned(self owner, now time.Time) bool {
	l := c.Config.Labels
	maker, err := leftover.ParseOwner(l[labelPID] + " " + l[labelStart])
	if err != nil || l[labelMachine] != self.machine {
		return !c.State.Running && now.Sub(c.Created) > abandonedAfter
	}
	return !maker.Alive()
}

// containers returns the containers with a label, KEY or KEY=VALUE, and the errors of those that could not be
// inspected. A container that the engine lists but does not find is left out: Docker can list a removed container,
// without a name, until it is restarted.
func (e engine) containers(ctx context.Context, label string) ([]*containerInfo, error) {
	out, err := e.run(ctx, nil, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+label)
	if err != nil {
		return nil, fmt.Errorf("list containers of %s: %w", e.name, err)
	}
	var all []*containerInfo
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

// clean removes the containers of dead runs, and the empty image if nothing needs it any more.
func clean(ctx context.Context, e engine, self owner, dry bool) ([]string, error) {
	if _, err := proc.LookPath(e.name); err != nil {
		return nil, nil
	}
	all, err := e.containers(ctx, labelRun)
	if len(all) == 0 && err != nil && e.remedy(err) == e.startIt() {
		return nil, nil // no daemon, so no containers
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
