// Package leftover makes the private directories in which a run keeps its files, so that `tare clean` can tell those of
// killed runs from those in use.
//
// A directory is called tare-run-RUNID-RANDOM. It has a file "owner" that names the process that made it: its process
// id and its start time, because process ids are reused; and in a second line, which tare 0.2.0 does not read, its
// machine and PID namespace. A directory is left over if that process no longer lives. A directory that is being made
// or removed has no complete owner file; its name contains the owner instead. It gets its final name after the file was
// written, and loses it before the file is removed. So a kill between any two system calls leaves nothing that looks
// like a directory in use.
package leftover

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	prefix    = "tare-run-"
	ownerFile = "owner"
	// half begins the names of directories that are being made or removed: tare-half-OWNER-WHERE.RANDOM, of which tare
	// up to 0.2.0 takes all behind the last dash for random.
	half = "tare-half-"
	// unowned is how old a directory without a readable owner file must be to count as left over. tare never makes one,
	// and another program may be using it.
	unowned = time.Hour
	// forgotten is for how long nothing may have changed in a directory whose owner cannot be asked for here: it is on
	// another machine, or in a container that is gone and had a host name of its own. Nothing else would ever remove
	// these.
	forgotten = 30 * 24 * time.Hour
)

var runIDRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`) })

// CheckRunID returns an error for a wrong run id, which becomes part of file names in every environment.
func CheckRunID(id string) error {
	if !runIDRE().MatchString(id) {
		return fmt.Errorf("%q is not a run id: 1 to 64 letters, digits, dots, dashes or underscores", id)
	}
	return nil
}

// New makes a private directory (mode 0700) below base, or below the system's temporary directory if base is empty.
// release removes it with all its contents and may be called more than once. If `tare clean` does not search base by
// itself, New writes a note of it (Note).
func New(base, runID string) (dir string, release func() error, err error) {
	if err := CheckRunID(runID); err != nil {
		return "", nil, fmt.Errorf("make run directory: %w", err)
	}
	if base == "" {
		base = os.TempDir()
	}
	forget := func() {}
	if !slices.Contains(append(Bases(), "/var/tmp"), base) { // where `tare clean` always searches
		forget = Note(base, runID, false)
	}
	if dir, err = create(base, runID); err != nil {
		forget()
		return "", nil, fmt.Errorf("make run directory: %w", err)
	}
	return dir, func() error {
		err := remove(dir)
		if err == nil {
			forget()
		}
		return err
	}, nil
}

// create makes a directory. Its owner file is written before it gets its final name.
func create(base, runID string) (string, error) {
	self, err := Self()
	if err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(base, halfName(self)+"*")
	if err != nil {
		return "", err
	}
	err = os.WriteFile(filepath.Join(made, ownerFile), []byte(self.String()+"\n"+self.Where+"\n"), 0o600)
	if err == nil {
		random := made[strings.LastIndexAny(made, "-.")+1:]
		dir := filepath.Join(base, prefix+runID+"-"+random)
		if err = os.Rename(made, dir); err == nil {
			return dir, nil
		}
	}
	return "", errors.Join(err, os.RemoveAll(made))
}

// remove removes a directory that create made. If something in it cannot be removed, its owner file stays, so that it
// is found again.
func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != ownerFile {
			errs = append(errs, Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if self, err := Self(); err == nil && !strings.HasPrefix(filepath.Base(dir), half) {
		// The random part of a name is unique below base.
		going := filepath.Join(filepath.Dir(dir), halfName(self)+dir[strings.LastIndexByte(dir, '-')+1:])
		if os.Rename(dir, going) == nil {
			dir = going
		}
	}
	return Remove(dir)
}

// Private tells whether a path lies in a private directory of some run, which that run removes.
func Private(path string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), func(element string) bool {
		return strings.HasPrefix(element, prefix)
	})
}

// PrivateDir returns the private directory of some run that a path lies in; "" if it lies in none.
func PrivateDir(path string) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		switch base := filepath.Base(dir); {
		case strings.HasPrefix(base, prefix):
			return dir
		case dir == filepath.Dir(dir):
			return ""
		}
	}
}

// halfName is the beginning of the name of a directory that a process is making or removing.
func halfName(o Owner) string { return half + url.PathEscape(o.String()) + "-" + o.Where + "." }

// halfOwner parses the process in such a name.
func halfOwner(name string) (Owner, error) {
	name = strings.TrimPrefix(name, half)
	dash := max(strings.LastIndexByte(name, '-'), 0)
	line, err := url.PathUnescape(name[:dash])
	if err != nil {
		return Owner{}, err
	}
	o, err := ParseOwner(line)
	if dot := strings.LastIndexByte(name, '.'); dot > dash {
		o.Where = name[dash+1 : dot]
	}
	return o, err
}

// shortBase is where directories with short paths are made if the path of the temporary directory is long.
const shortBase = "/tmp"

// Short returns the system's temporary directory. If its path is longer than longest bytes, it returns another one with
// a short path, if there is one.
func Short(longest int) string {
	base := os.TempDir()
	if _, err := os.Stat(shortBase); err == nil && len(base) > longest {
		return shortBase
	}
	return base
}

// Bases returns the folders in which New makes directories if it is given the system's temporary directory or Short.
func Bases() []string { return []string{os.TempDir(), shortBase} }

// Owner is a process that makes things that could outlive it.
type Owner struct {
	PID int
	// Start is the process's start time in a format of the platform; "" if it is not known. On Linux it contains the
	// boot id, too.
	Start string
	// Where is the machine, in hexadecimal digits, a dot, and the number of the PID namespace in which the id means
	// anything; "" if it is not known, and the number where there is none. String leaves it out: tare up to 0.2.0
	// would take a process for dead of which it reads more than PID and Start.
	Where string
}

// Self returns this process.
func Self() (Owner, error) {
	start, err := startTime(os.Getpid())
	if err != nil {
		return Owner{}, fmt.Errorf("find own start time: %w", err)
	}
	return Owner{os.Getpid(), start, here()}, nil
}

// here is the Where of this process.
var here = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(machine()))
	return hex.EncodeToString(sum[:6]) + "." + pidSpace()
})

// Scope is where the process id of an owner means anything: a boot of a machine and a PID namespace. So tare in a
// container and tare outside do not consider each other dead.
func Scope() string {
	// Only Linux has these two files and its containers. Elsewhere the host name is good enough.
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pids, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Join(append(strings.Fields(string(boot)), name, pids), " ")
}

// String returns the owner as one line, which ParseOwner parses, without Where.
func (o Owner) String() string { return strings.TrimSpace(strconv.Itoa(o.PID) + " " + o.Start) }

// ParseOwner parses the result of String.
func ParseOwner(line string) (Owner, error) {
	pid, start, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 || strings.ContainsFunc(start, func(r rune) bool { return r <= ' ' }) {
		return Owner{}, fmt.Errorf("%.80q does not name a process", line)
	}
	return Owner{PID: n, Start: start}, nil
}

// Alive tells whether the owner still runs. If the platform cannot tell, it returns true: of a process of another
// machine or in another PID namespace, with which this one shares a directory, nothing is known here, but that of an
// earlier boot of this machine none is left.
func (o Owner) Alive() bool { return o.alive(here(), bootID()) }

// alive is Alive as seen from a place in a boot.
func (o Owner) alive(here, boot string) bool {
	theirs, _, known := strings.Cut(o.Start, "/")
	known = known && boot != ""
	machine, space, _ := strings.Cut(o.Where, ".")
	ownMachine, ownSpace, _ := strings.Cut(here, ".")
	switch {
	case machine != "" && machine != ownMachine && (!known || theirs != boot): // one boot is on one machine
		return true
	case known && theirs != boot:
		return false
	case space != "" && ownSpace != "" && space != ownSpace:
		return true
	}
	start, err := startTime(o.PID)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || start == "" || o.Start == "" || start == o.Start
}

// Near tells whether the owner's process id, if it is alive, means that process here: on this machine and in this PID
// namespace. It returns true if that is not known. A boot is on one machine, whatever its host name became.
func (o Owner) Near() bool { return o.near(here(), bootID()) }

// near is Near as seen from a place in a boot.
func (o Owner) near(here, boot string) bool {
	theirs, _, known := strings.Cut(o.Start, "/")
	_, space, _ := strings.Cut(o.Where, ".")
	_, own, _ := strings.Cut(here, ".")
	return o.Where == "" || o.Where == here || known && theirs == boot && space != "" && space == own
}

// Find returns the directories below base that killed runs of this user left behind. It leaves out what it cannot read,
// which belongs to another user or is in use.
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
		if e.IsDir() && (strings.HasPrefix(e.Name(), prefix) || strings.HasPrefix(e.Name(), half)) && leftOver(dir) {
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
	var o Owner
	if name := filepath.Base(dir); strings.HasPrefix(name, half) {
		o, err = halfOwner(name)
	} else {
		o, err = readOwner(filepath.Join(dir, ownerFile))
	}
	if err != nil {
		return time.Since(info.ModTime()) > unowned
	}
	return !o.Alive() || !o.Near() && untouched(dir)
}

// untouched tells whether nothing in a directory has changed for as long as forgotten says.
func untouched(dir string) bool {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || time.Since(info.ModTime()) <= forgotten {
			return fs.ErrExist // something has
		}
		return nil
	})
	return err == nil
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
	text, err := io.ReadAll(io.LimitReader(f, 512))
	if err != nil {
		return Owner{}, fmt.Errorf("read %s: %w", name, err)
	}
	line, rest, whole := strings.Cut(string(text), "\n")
	if !whole {
		return Owner{}, fmt.Errorf("read %s: %w", name, io.ErrUnexpectedEOF)
	}
	o, err := ParseOwner(line)
	o.Where, _, _ = strings.Cut(rest, "\n")
	return o, err
}

// Clean removes what Find finds below each of bases; if dry, it only lists it. It returns a line for each directory and
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
				if err := remove(dir); err != nil {
					errs = append(errs, err)
					continue
				}
			}
			lines = append(lines, "directory "+dir)
		}
	}
	return lines, errors.Join(errs...)
}

// Remove removes a directory and everything below it, also directories without permissions, such as overlayfs leaves in
// its work directory. It does not follow symbolic links. It is no error if the directory does not exist.
func Remove(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(name, 0o700) // before WalkDir reads it; Remove reports an error of it below
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
