package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"tare/internal/measure/fileio"
)

// workdir is the agent's directory, with a directory for each cell. The agent removes everything in it and nothing
// outside: removal never follows a symbolic link and never enters another file system mounted inside.
type workdir struct {
	base string      // the given directory, or the system's: the parent of the agent's own
	path string      // the agent's own
	info fs.FileInfo // of path when it was made
	err  error       // why there is none
}

func newWorkdir(dir, runID string) *workdir {
	w := &workdir{}
	w.open(dir, runID)
	return w
}

// open makes the agent's directory below dir. Its failure is kept for the trials that need a directory: the others
// can run on a system that cannot be written at all.
func (w *workdir) open(dir, runID string) {
	candidates := []string{dir}
	if dir == "" {
		// An empty container has no /tmp, but its root can be written.
		candidates = []string{os.TempDir(), "/var/tmp", "/"}
	}
	var errs []error
	for _, c := range candidates {
		path, err := os.MkdirTemp(c, "tare-"+plain(runID, 64)+"-*")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if w.info, err = os.Lstat(path); err == nil {
			w.base, w.path = c, path
			return
		}
		errs = append(errs, err, os.Remove(path))
	}
	w.base = candidates[0]
	w.err = fmt.Errorf("make a work directory: %w; choose a writable directory with dir=",
		errors.Join(errs...))
}

// readOnly tells whether there is no directory because the file system is read-only.
func readOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// cell returns the directory of a cell, made on first use.
func (w *workdir) cell(name string) (string, error) {
	if w.err != nil {
		return "", w.err
	}
	path := filepath.Join(w.path, cellName(name))
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the cell's directory: %w", err)
	}
	return path, nil
}

// release removes a cell's directory, if there is one.
func (w *workdir) release(ctx context.Context, cell string) error {
	if w.path == "" {
		return nil
	}
	return w.remove(ctx, w.path, cellName(cell))
}

// removeAll removes the agent's directory, provided it is still the one that was made.
func (w *workdir) removeAll(ctx context.Context) error {
	if w.path == "" {
		return nil
	}
	info, err := os.Lstat(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !os.SameFile(info, w.info) {
		err = errors.New("it is not the directory that the agent made")
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", w.path, err)
	}
	return w.remove(ctx, filepath.Dir(w.path), filepath.Base(w.path))
}

// remove runs in its own goroutine, because an unlink on a dead network mount never returns.
func (w *workdir) remove(ctx context.Context, parent, name string) error {
	done := make(chan error, 1)
	go func() {
		root, err := os.OpenRoot(parent)
		if err == nil {
			err = removeTree(ctx, root, name, w.info, 0)
			root.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("remove %s: %w", filepath.Join(parent, name), err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("remove %s: %w", filepath.Join(parent, name), ctx.Err())
	}
}

// maxDepth bounds the recursion of removeTree, which holds two descriptors per level.
const maxDepth = 200

// removeTree removes name in root and all below it. made is any file of the file system it may stay on.
func removeTree(ctx context.Context, root *os.Root, name string, made fs.FileInfo, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		if !fileio.SameDevice(info, made) {
			return fmt.Errorf("%s is another file system; unmount it", name)
		}
		if depth == maxDepth {
			return fmt.Errorf("%s is more than %d directories deep", name, maxDepth)
		}
		if info.Mode().Perm()&0o700 != 0o700 {
			root.Chmod(name, 0o700)
		}
		if err := empty(ctx, root, name, made, depth); err != nil {
			return err
		}
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// maxPhantoms bounds the listings in a row that return only names that do not exist.
const maxPhantoms = 3

// empty removes the entries of a directory. File systems differ in what a listing shows while entries are removed, so
// it lists again until nothing is left or nothing changes: a server may list a file for ever under a name that cannot
// be opened, as Samba does with names that DOS reserved. The removal of the directory then fails because it is not
// empty.
func empty(ctx context.Context, root *os.Root, name string, made fs.FileInfo, depth int) error {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	for phantoms := 0; ; {
		list, err := dir.Open(".")
		if err != nil {
			return err
		}
		listed, removed := 0, 0
		for {
			entries, err := list.ReadDir(256)
			for _, e := range entries {
				there, err := removeEntry(ctx, dir, e, made, depth+1)
				if err != nil {
					list.Close()
					return err
				}
				listed++
				if there {
					removed++
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				list.Close()
				return err
			}
		}
		list.Close()
		if removed > 0 {
			phantoms = 0
			continue
		}
		if phantoms++; listed == 0 || phantoms == maxPhantoms {
			return nil
		}
	}
}

// removeEntry is removeTree for an entry whose type the listing reported, so that a hundred thousand small files need
// no extra stat. It tells whether the name existed.
func removeEntry(ctx context.Context, dir *os.Root, e fs.DirEntry, made fs.FileInfo,
	depth int) (there bool, err error) {
	if e.IsDir() || ctx.Err() != nil {
		return true, removeTree(ctx, dir, e.Name(), made, depth)
	}
	err = dir.Remove(e.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, err
}

// plain keeps harmless characters of a file name and bounds its length.
func plain(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, s)
	return s[:min(len(s), most)]
}

// cellName is a cell's directory name: readable, and different for different cells.
func cellName(cell string) string {
	sum := sha256.Sum256([]byte(cell))
	return plain(cell, 40) + "-" + hex.EncodeToString(sum[:4])
}
