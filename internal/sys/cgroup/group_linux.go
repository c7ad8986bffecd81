package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Group is a control group: a directory in each hierarchy that its limits need.
type Group struct{ dirs []string }

// Check says why limits cannot be set here: a controller that the kernel does not have, or a hierarchy that this
// process may not write to. It changes nothing.
func Check(l *Limits) error {
	_, err := places(l)
	return err
}

// places finds the hierarchy of each controller.
func places(l *Limits) (map[string]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	all, out := mounts(string(text)), map[string]hierarchy{}
	for _, c := range l.controllers() {
		h, ok := find(all, c, offers)
		if !ok {
			return nil, fmt.Errorf("%w: this kernel has none with the controller %s, or they are not mounted",
				ErrUnavailable, c)
		}
		if err := unix.Access(h.dir, unix.W_OK); err != nil {
			return nil, fmt.Errorf("%w in %s: %w", ErrUnavailable, h.dir, err)
		}
		if h.v2 && occupied(h.dir) {
			return nil, fmt.Errorf("%w in %s: processes are in it, as at the top of a container, and then no group "+
				"below it gets a controller", ErrUnavailable, h.dir)
		}
		out[c] = h
	}
	return out, nil
}

// occupied tells whether processes keep a directory of version 2 from having groups with controllers. The top of all,
// which may have both, has no type.
func occupied(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err == nil && len(b) > 0
}

// offers are the controllers of a hierarchy of version 2.
func offers(dir string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return strings.Fields(string(b))
}

// New makes a group with limits. name is a file name that no other group has. After an error nothing is left.
func New(name string, l *Limits) (_ *Group, err error) {
	where, err := places(l)
	if err != nil {
		return nil, err
	}
	g := &Group{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Remove())
		}
	}()
	for _, c := range l.controllers() {
		h := where[c]
		if h.v2 {
			if err := enable(h.dir, c); err != nil {
				return nil, err
			}
		}
		dir := filepath.Join(h.dir, name)
		if !slices.Contains(g.dirs, dir) { // several controllers may share a hierarchy
			if err := os.Mkdir(dir, 0o755); err != nil {
				return nil, fmt.Errorf("make control group: %w", err)
			}
			g.dirs = append(g.dirs, dir)
		}
		if c == cpuset && !h.v2 { // a group of version 1 begins without any memory node
			nodes, err := os.ReadFile(filepath.Join(h.dir, "cpuset.mems"))
			if err == nil {
				err = write(filepath.Join(dir, "cpuset.mems"), strings.TrimSpace(string(nodes)))
			}
			if err != nil {
				return nil, err
			}
		}
		for _, s := range l.settings(c, h.v2) {
			if err := write(filepath.Join(dir, s.file), s.value); err != nil {
				return nil, err
			}
		}
	}
	return g, g.sameCPUs(l.CPUs)
}

// enable gives the groups below the top of a hierarchy of version 2 a controller, as every engine of containers does.
// It is not taken back: groups that others have made meanwhile may use it.
func enable(dir, controller string) error {
	if controller == block {
		controller = "io"
	}
	file := filepath.Join(dir, "cgroup.subtree_control")
	b, err := os.ReadFile(file)
	if err != nil || slices.Contains(strings.Fields(string(b)), controller) {
		return err
	}
	if err := write(file, "+"+controller); err != nil {
		return fmt.Errorf("%w with the controller %s: %w", ErrUnavailable, controller, err)
	}
	return nil
}

func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set limit to %q: %w", value, err)
	}
	return nil
}

// sameCPUs holds that a group has all the processors of a list. Version 2 takes any list, and gives what there is of
// it.
func (g *Group) sameCPUs(list string) error {
	want, err := ParseCPUs(list)
	if err != nil || len(want) == 0 {
		return err
	}
	for _, dir := range g.dirs {
		for _, file := range []string{"cpuset.cpus.effective", "cpuset.effective_cpus"} {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue
			}
			text := strings.TrimSpace(string(b))
			has, err := ParseCPUs(text)
			if err != nil {
				return err
			}
			slices.Sort(want)
			if !slices.Equal(slices.Compact(want), has) {
				return fmt.Errorf("of the processors %s only %s are available", list, text)
			}
			return nil
		}
	}
	return nil
}

// joining is a script for a shell: it takes the shell itself into groups, and becomes the program that follows.
const joining = `while [ "$1" != -- ]; do echo 0 >"$1" || exit 126; shift; done; shift; exec "$@"`

// Join returns the arguments of a command that begins in the group: it is there before its first instruction, with all
// that it will ever start.
func (g *Group) Join(argv []string) []string {
	out := []string{"/bin/sh", "-c", joining, "sh"}
	for _, dir := range g.dirs {
		out = append(out, filepath.Join(dir, "cgroup.procs"))
	}
	return append(append(out, "--"), argv...)
}

// Remove removes the group, whose processes must have ended. It is no error if it is gone.
func (g *Group) Remove() error {
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, remove(dir, func() {}))
	}
	return errors.Join(errs...)
}

// removeTime bounds the wait for processes that have ended and still count.
const removeTime = 5 * time.Second

// remove removes the directory of a group. For a moment after the end of its processes the kernel calls it busy; before
// each attempt something is done about that.
func remove(dir string, first func()) error {
	for end, nap := time.Now().Add(removeTime), time.Millisecond; ; nap = min(2*nap, 50*time.Millisecond) {
		first()
		err := syscall.Rmdir(dir)
		switch {
		case err == nil || errors.Is(err, syscall.ENOENT):
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EBUSY) || time.Now().After(end):
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
		time.Sleep(nap)
	}
}

// Find returns the directories of all groups at the top of the hierarchies whose names have a prefix.
func Find(prefix string) []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var found []string
	for _, m := range mounts(string(text)) {
		entries, err := os.ReadDir(m.dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			dir := filepath.Join(m.dir, e.Name())
			if e.IsDir() && strings.HasPrefix(e.Name(), prefix) && !slices.Contains(found, dir) {
				found = append(found, dir)
			}
		}
	}
	return found
}

// Clear ends the processes in the directory of a group, also those that join it meanwhile, and removes it.
func Clear(dir string) error {
	return remove(dir, func() {
		b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // if it cannot be read, removing it says why
		for _, word := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL) // the aim is that it has ended
			}
		}
	})
}
