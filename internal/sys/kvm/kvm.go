// Package kvm reads how often the virtual processors of a machine left it for the host, and why, as Linux's KVM counts
// that in debugfs.
package kvm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Debug is where debugfs is mounted.
const Debug = "/sys/kernel/debug"

// The bounds of what is read: of machines, and of the files and bytes of one.
const (
	mostMachines = 1024
	mostFiles    = 512
	mostBytes    = 32
)

// Exits are the counters of all machines of a process whose name tells of exits: "exits" is the number of all, others
// such as "io_exits" and "halt_exits" are some of these. They grow as long as the machine is there. debug is Debug. The
// error says why nothing is told.
func Exits(debug string, pid int) (Sum, error) {
	dir := filepath.Join(debug, "kvm")
	machines, err := os.ReadDir(dir)
	if err != nil {
		return nil, untold(debug, err)
	}
	sum := Sum{}
	for _, m := range machines[:min(len(machines), mostMachines)] {
		if !m.IsDir() || !of(m.Name(), pid) {
			continue
		}
		if err := sum.add(filepath.Join(dir, m.Name())); err != nil {
			return nil, err
		}
	}
	if len(sum) == 0 {
		return nil, fmt.Errorf("KVM knows no machine of process %d", pid)
	}
	return sum, nil
}

// errNotAllowed says why files are there that cannot be read.
var errNotAllowed = errors.New("debugfs, where KVM tells of exits, may be read by root only, and by nobody where the " +
	"kernel is locked down")

// untold says why the list of machines cannot be read.
func untold(debug string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return errNotAllowed
	}
	if entries, err := os.ReadDir(debug); err == nil && len(entries) > 0 {
		return errors.New("KVM is not loaded")
	} else if errors.Is(err, fs.ErrPermission) {
		return errNotAllowed
	}
	return errors.New("debugfs, where KVM tells of exits, is not mounted: `mount -t debugfs none " + Debug + "`")
}

// of tells whether a machine is a process's: its name is PID-FD, of the thread that made it.
func of(name string, pid int) bool {
	maker, _, ok := strings.Cut(name, "-")
	n, err := strconv.Atoi(maker)
	if !ok || err != nil || n <= 0 {
		return false
	}
	if n == pid {
		return true
	}
	_, err = os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, n))
	return err == nil
}

// Sum are counters of exits by their names, of one or several machines.
type Sum map[string]int64

// Add adds a counter, as KVM writes it, if its name tells of exits.
func (s Sum) Add(name, text string) error {
	if !strings.Contains(name, "exit") || len(s) >= mostFiles {
		return nil
	}
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || v < 0 || v > 1<<62-s[name] {
		return fmt.Errorf("read what KVM tells of a machine: %.40q is %.20q", name, text)
	}
	s[name] += v
	return nil
}

// add adds the counters of a machine.
func (s Sum) add(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read what KVM tells of a machine: %w", err)
	}
	for _, f := range files[:min(len(files), mostFiles)] {
		if f.IsDir() || !strings.Contains(f.Name(), "exit") {
			continue
		}
		text, err := read(filepath.Join(dir, f.Name()))
		if errors.Is(err, fs.ErrPermission) {
			return errNotAllowed
		}
		if err != nil {
			return fmt.Errorf("read what KVM tells of a machine: %w", err)
		}
		if err := s.Add(f.Name(), text); err != nil {
			return err
		}
	}
	return nil
}

func read(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, mostBytes)
	n, err := f.Read(b)
	if n > 0 {
		err = nil
	}
	return string(b[:n]), err
}
