package limited

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/sys/cgroup"
	"tare/internal/sys/proc"
)

// Group is the control group of an environment. The nil Group is that of one without limits.
type Group struct {
	group  *cgroup.Group
	limits cgroup.Limits
}

// remedy is the advice where a limit cannot be set.
const remedy = "limits need Linux, root, and control groups that tare may create (/sys/fs/cgroup writable; in a " +
	"container seldom); leave out the settings weight, quota, cpuset, memory, read_ and write_"

// Remedy says what can be done about an error of Open; "" if the error says that.
func Remedy(err error) string {
	if errors.Is(err, cgroup.ErrUnavailable) {
		return remedy
	}
	return ""
}

// Open makes the group of an environment, whose files are in a directory, if its settings ask for limits; else it
// returns nil. declared are the driver's settings that Settings returned.
func Open(o *env.Options, declared []env.Setting, files string) (*Group, error) {
	l, err := read(&o.Spec, declared, files)
	if err != nil || l.None() {
		return nil, err
	}
	if err := leftover.CheckRunID(o.RunID); err != nil {
		return nil, err
	}
	self, err := leftover.Self()
	if err != nil {
		return nil, err
	}
	g, err := cgroup.New(name(o.RunID, self), &l)
	if err != nil {
		return nil, err
	}
	return &Group{g, l}, nil
}

// read reads the limits of a spec.
func read(s *env.Spec, declared []env.Setting, files string) (cgroup.Limits, error) {
	names := map[string]bool{}
	for _, d := range declared {
		names[d.Name] = true
	}
	return of(s, names, func(device string) (string, error) {
		if device == "" {
			disk, err := cgroup.DiskBelow(files)
			if err != nil && !errors.Is(err, cgroup.ErrUnavailable) {
				err = fmt.Errorf("%w; name a disk: DEVICE:RATE, such as /dev/vda:10MiB", err)
			}
			return disk, err
		}
		return cgroup.DiskOf(device)
	})
}

// Has tells whether the limits that a spec asks for can be set on this machine. It changes nothing.
func Has(s env.Spec, declared []env.Setting) env.Status {
	files := s.Get("dir", os.Getenv("TMPDIR")) // where the run's directory will be, if nothing else is said
	if files == "" {
		files = "/var/tmp"
	}
	l, err := read(&s, declared, files)
	if err == nil && !l.None() {
		err = cgroup.Check(&l)
	}
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: Remedy(err)}
	}
	return env.Status{OK: true}
}

// Join makes a command begin in the group, with all that it will start.
func (g *Group) Join(cmd *proc.Cmd) {
	if g == nil {
		return
	}
	cmd.Args = g.group.Join(append([]string{cmd.Path}, cmd.Args[1:]...))
	cmd.Path = cmd.Args[0]
}

// Facts are the group's part of the environment's facts: the number of processors it can have at once, by its quota or
// its list of them.
func (g *Group) Facts() map[string]string {
	if g == nil {
		return nil
	}
	cpus := g.limits.Quota
	if list, err := cgroup.ParseCPUs(g.limits.CPUs); err == nil && len(list) > 0 {
		slices.Sort(list)
		if n := float64(len(slices.Compact(list))); cpus == 0 || n < cpus {
			cpus = n
		}
	}
	if cpus == 0 {
		return nil
	}
	return map[string]string{"cgroup.cpus": strconv.FormatFloat(cpus, 'g', -1, 64)}
}

// Close removes the group, whose processes must have ended. `tare clean` removes it if that fails.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	return g.group.Remove()
}

// prefix begins the names of groups: tare+RUNID+SCOPE+OWNER+RANDOM. A run id has no plus.
const prefix = "tare+"

// name makes a name that tells whose the group is. It is unique even if one run opens an environment twice.
func name(runID string, owner leftover.Owner) string {
	var salt [4]byte
	rand.Read(salt[:])
	return strings.Join([]string{prefix[:len(prefix)-1], runID, scope(), url.PathEscape(owner.String()),
		hex.EncodeToString(salt[:])}, "+")
}

// scope is where an owner's process id means anything, in a few digits.
func scope() string {
	sum := sha256.Sum256([]byte(leftover.Scope()))
	return hex.EncodeToString(sum[:6])
}

// abandoned tells whether a group is one of tare's whose owner is certainly dead, as seen from here, and which run it
// was of.
func abandoned(dir string) (runID string, ok bool) {
	parts := strings.Split(filepath.Base(dir), "+")
	if len(parts) != 5 || parts[0] != prefix[:len(prefix)-1] || parts[2] != scope() ||
		leftover.CheckRunID(parts[1]) != nil {
		return "", false
	}
	line, err := url.PathUnescape(parts[3])
	if err != nil {
		return "", false
	}
	owner, err := leftover.ParseOwner(line)
	return parts[1], err == nil && !owner.Alive()
}

// Clean removes the groups of killed runs, with what still runs in them; if dry, it only lists them. It returns a line
// for each and goes on after an error.
func Clean(dry bool) (lines []string, err error) {
	for _, dir := range cgroup.Find(prefix) {
		runID, ok := abandoned(dir)
		if !ok || !mine(dir) {
			continue
		}
		if !dry {
			if e := cgroup.Clear(dir); e != nil {
				err = errors.Join(err, e)
				continue
			}
		}
		lines = append(lines, "control group "+dir+" of run "+runID)
	}
	return lines, err
}

// Patience is how long something may take on the quota of a spec that takes so long on one processor.
func Patience(s env.Spec, usual time.Duration) time.Duration {
	q, err := parseQuota(s.Get(quota, ""))
	if err != nil || q >= 1 {
		return usual
	}
	return max(usual, min(time.Duration(float64(usual)/q), time.Hour))
}
