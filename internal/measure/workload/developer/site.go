package developer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/sys/thread"
)

// site is the folder that a trial works in.
type site struct {
	path string
	root *root
}

// fresh makes an empty folder in the cell's directory, after checking the free space for bytes and files.
func (s *site) fresh(b *workload.Bench, folder string, bytes, files int64) error {
	_, on := fileio.Volume(b.Dir)
	b.Note("fs", on)
	if j := fileio.Journal(b.Dir); j != "" {
		b.Note("journal", j)
	}
	return s.freshIn(b.Dir, folder, bytes, files)
}

// freshIn makes an empty folder in a directory of this cell's own.
func (s *site) freshIn(dir, folder string, bytes, files int64) error {
	path := filepath.Join(dir, folder)
	if err := os.RemoveAll(path); err != nil { // left by a trial that was killed
		return fileio.Explain("remove", path, err)
	}
	if err := fileio.CheckFreeSpace(dir, bytes, files); err != nil {
		return err
	}
	s.path = path
	if err := os.Mkdir(path, 0o700); err != nil {
		return fileio.Explain("create", path, err)
	}
	return s.open()
}

func (s *site) open() (err error) {
	if s.root, err = openRoot(s.path); err != nil {
		return fileio.Explain("open", s.path, err)
	}
	return nil
}

// close closes the folder and keeps it.
func (s *site) close() error {
	if s.root == nil {
		return nil
	}
	err := s.root.close()
	s.root = nil
	return err
}

// remove closes the folder and removes it with its contents.
func (s *site) remove() error {
	err := s.close()
	if s.path != "" {
		if rm := os.RemoveAll(s.path); rm != nil {
			err = errors.Join(err, fileio.Explain("remove", s.path, rm))
		}
	}
	return err
}

func (s *site) names(paths []string) []name {
	names := make([]name, len(paths))
	for i, p := range paths {
		names[i] = s.root.name(p)
	}
	return names
}

// standing is a folder that outlives the trial: its contents are only read, so a session makes it once. A marker file
// beside it, written last, has the key of the contents.
type standing struct{ site }

// ensure opens the folder. It calls fill unless the existing folder has the same key.
func (s *standing) ensure(ctx context.Context, b *workload.Bench, folder, key string, bytes, files int64,
	fill func(context.Context) error) error {
	marker := filepath.Join(b.Dir, folder+".ok")
	if text, err := os.ReadFile(marker); err == nil && string(text) == key {
		_, on := fileio.Volume(b.Dir)
		b.Note("fs", on)
		b.Note("prepared", "earlier")
		s.path = filepath.Join(b.Dir, folder)
		return s.open()
	}
	b.Note("prepared", "now")
	if err := os.Remove(marker); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fileio.Explain("remove", marker, err)
	}
	if err := s.fresh(b, folder, bytes, files+1); err != nil {
		return err
	}
	if err := fill(ctx); err != nil {
		return errors.Join(err, s.remove())
	}
	if err := settle(s.path); err != nil {
		return errors.Join(fileio.Explain("flush", s.path, err), s.remove())
	}
	if err := os.WriteFile(marker, []byte(key), 0o600); err != nil {
		return errors.Join(fileio.Explain("write", marker, err), s.remove())
	}
	return nil
}

// discard makes the next trial prepare the folder again, because its contents have changed.
func (s *standing) discard() { _ = os.Remove(s.path + ".ok") }

// alone enters the folder and locks the calling goroutine to its thread until leave is called.
func (s *site) alone() (leave func(), err error) {
	out, err := s.root.enter()
	if err != nil {
		return nil, fileio.Explain("enter", s.path, err)
	}
	runtime.LockOSThread()
	loud := thread.Quiet()
	return func() {
		loud()
		runtime.UnlockOSThread()
		out()
	}, nil
}

// write makes a file and, where they are missing, the directories above it: preparation, untimed.
func (s *site) write(at string, content []byte) error {
	full := filepath.Join(s.path, filepath.FromSlash(at))
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		return fileio.Explain("create", filepath.Dir(full), err)
	}
	if err := os.WriteFile(full, content, 0o600); err != nil {
		return fileio.Explain("write", full, err)
	}
	return nil
}
