// Package leftover makes the private directories in which a run keeps its files, so that `tare clean` can tell the ones
// of killed runs from the ones in use.
//
// A directory is called tare-run-RUNID-RANDOM and holds a file "owner" with the process that made it: its number and its
// start time, because numbers come around again. A directory is left over when no such process lives.
package leftover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	prefix    = "tare-run-"
	ownerFile = "owner"
	// unowned is how old a directory without a readable owner file must be to count as left over: its maker was killed
	// between two system calls.
	unowned = time.Hour
)

var runIDRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`) })

// CheckRunID says what is wrong with a run id, which becomes part of file names in every environment.
func CheckRunID(id string) error {
	if !runIDRE().MatchString(id) {
		return fmt.Errorf("%q is not a run id: 1 to 64 letters, digits, dots, dashes or underscores", id)
	}
	return nil
}

// New makes a private directory (mode 0700) below base, or below the system's temporary directory when base is empty.
// release removes it with all it holds and may be called more than once.
func New(base, runID string) (dir string, release func() error, err error) {
	if err := CheckRunID(runID); err != nil {
		return "", nil, fmt.Errorf("make run directory: %w", err)
	}
	if base == "" {
		base = os.TempDir()
	}
	if dir, err = os.MkdirTemp(base, prefix+runID+"-"); err != nil {
		return "", nil, fmt.Errorf("make run directory: %w", err)
	}
	self, err := Self()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ownerFile), []byte(self.String()+"\n"), 0o600)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("make run directory: %w", err), os.RemoveAll(dir))
	}
	return dir, func() error { return Remove(dir) }, nil
}

// shortBase is where directories are made whose paths must be short, on a machine whose temporary directory has a long one.
const shortBase = "/tmp"

// Short returns the system's temporary directory, or, where that has a path of more than longest bytes, another one with
// a short path if there is one.
func Short(longest int) string {
	base := os.TempDir()
	if _, err := os.Stat(shortBase); err == nil && len(base) > longest {
		return shortBase
	}
	return base
}

// Bases returns the folders in which New makes directories when it is given the system's temporary directory or Short.
func Bases() []string { return []string{os.TempDir(), shortBase} }

// Owner is a process that makes things which could outlive it.
type Owner struct {
	PID int
	// Start is the process's start time in a form of the platform's own, "" where it is not known. On Linux it names the
	// boot, too.
	Start string
}

// Self returns this process.
func Self() (Owner, error) {
	start, err := startTime(os.Getpid())
	if err != nil {
		return Owner{}, fmt.Errorf("find own start time: %w", err)
	}
	return Owner{os.Getpid(), start}, nil
}

// String returns the owner in one line, which ParseOwner reads.
func (o Owner) String() string { return strings.TrimSpace(strconv.Itoa(o.PID) + " " + o.Start) }

// ParseOwner reads what String wrote.
func ParseOwner(line string) (Owner, error) {
	pid, start, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 || strings.ContainsFunc(start, func(r rune) bool { return r <= ' ' }) {
		return Owner{}, fmt.Errorf("%.80q does not name a process", line)
	}
	return Owner{n, start}, nil
}

// Alive tells whether the owner still runs. When the platform cannot tell, it answers yes.
func (o Owner) Alive() bool {
	start, err := startTime(o.PID)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || start == "" || o.Start == "" || start == o.Start
}

// Find returns the directories below base that killed runs of this user left behind. Whatever cannot be read is not
// returned: it is another's, or in use.
func Find(base string) []string {
	if base == "" {
		base = os.TempDir()
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) && leftOver(dir) {
			found = append(found, dir)
		}
	}
	return found
}

func leftOver(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !mine(info) {
		return false
	}
	o, err := readOwner(filepath.Join(dir, ownerFile))
	if err != nil {
		return time.Since(info.ModTime()) > unowned
	}
	return !o.Alive()
}

func readOwner(name string) (Owner, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return Owner{}, err
	}
	if !info.Mode().IsRegular() {
		return Owner{}, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return Owner{}, err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	if err != nil {
		return Owner{}, fmt.Errorf("read %s: %w", name, err)
	}
	return ParseOwner(line)
}

// Clean removes what Find finds below each of bases, or only names it when dry. It returns a line for each directory and
// goes on after an error.
func Clean(dry bool, bases ...string) ([]string, error) {
	var lines []string
	var errs []error
	seen := map[string]bool{}
	for _, base := range bases {
		for _, dir := range Find(base) {
			if seen[dir] {
				continue
			}
			seen[dir] = true
			if !dry {
				if err := Remove(dir); err != nil {
					errs = append(errs, err)
					continue
				}
			}
			lines = append(lines, "directory "+dir)
		}
	}
	return lines, errors.Join(errs...)
}

// Remove removes a directory and all below it, also directories without permissions, such as overlayfs leaves in its
// work directory. It follows no symbolic links. A directory that is already gone is no error.
func Remove(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(name, 0o700) // before WalkDir reads it; an error shows below
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
