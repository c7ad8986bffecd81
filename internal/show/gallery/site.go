package gallery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"tare/internal/bundle"
)

// site is the folder that is built. Nothing outside of it is touched, whatever links lie in it.
type site struct {
	dir   string
	root  *os.Root
	fresh bool // it was made, or empty, when the build began
	lock  *os.File

	mu      sync.Mutex
	files   map[string]string // the files of the new site: path, SHA-256
	was     map[string]string // those after the last build
	written []string
	removed []string
	parts   int
}

// siteError is a failure to write the site: it concerns all results.
type siteError struct{ err error }

func (e *siteError) Error() string { return e.err.Error() }
func (e *siteError) Unwrap() error { return e.err }

func siteFailure(path string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return &siteError{fmt.Errorf("write %s: %w", path, err)}
}

// folders are those of the site.
var folders = []string{"assets", "bundles", "data", "lists", "results", "work"}

// openSite opens a gallery, or an empty folder to become one.
func openSite(dir string) (*site, *state, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, unpathed(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, unpathed(err)
	}
	s := &site{dir: dir, root: root, files: map[string]string{}, was: map[string]string{}}
	if _, err = s.open(); err == nil { // before a file is made in a folder that may be no gallery
		err = s.take()
	}
	if err != nil {
		root.Close()
		return nil, nil, err
	}
	old, err := s.open() // another build may have ended meanwhile
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return s, old, nil
}

// lockName is the file by which one build at a time works on a site. It is there while one does.
const lockName = ".tare-lock"

// take takes the lock.
func (s *site) take() error {
	f, err := s.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return siteFailure(lockName, err)
	}
	err = bundle.Lock(f)
	if err == nil { // another build may have removed it meanwhile
		has, err1 := f.Stat()
		is, err2 := s.root.Lstat(lockName)
		if err1 != nil || err2 != nil || !os.SameFile(has, is) {
			err = bundle.ErrLocked
		}
	}
	if err != nil {
		f.Close()
		return err
	}
	s.lock = f
	return nil
}

func unpathed(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

func (s *site) open() (*state, error) {
	src, err := s.read(stateFile, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := fs.ReadDir(s.root.FS(), ".")
		if err != nil {
			return nil, err
		}
		// A build that was killed before it ended has its folders, and nothing else.
		for _, e := range entries {
			if !(e.IsDir() && contains(folders, e.Name()) || siteFile(e.Name()) ||
				strings.HasPrefix(e.Name(), partName) || e.Name() == lockName) {
				return nil, fmt.Errorf("%w: choose another folder, or empty this one", ErrNotGallery)
			}
		}
		s.fresh = len(entries) == 0 || len(entries) == 1 && entries[0].Name() == lockName
		return &state{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", stateFile, unpathed(err))
	}
	old, err := parseState(src)
	if err != nil {
		return nil, err
	}
	if old.Files != nil {
		s.was = old.Files
	}
	return old, nil
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if s == name {
			return true
		}
	}
	return false
}

func (s *site) close() error {
	s.root.Remove(lockName) // on Windows it stays, which does no harm
	return errors.Join(s.lock.Close(), s.root.Close())
}

// abandon removes a folder that was made for nothing.
func (s *site) abandon() {
	if s.fresh {
		for _, f := range folders {
			s.root.Remove(f)
		}
		s.root.Remove(lockName)
		os.Remove(s.dir) // only if it is empty
	}
}

// read reads a regular file of at most limit bytes.
func (s *site) read(name string, limit int64) ([]byte, error) {
	info, err := s.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, info.Size(), limit)
	}
	f, err := s.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// intact tells whether files are as the last build left them.
func (s *site) intact(paths ...string) bool {
	for _, p := range paths {
		want := s.was[p]
		if want == "" {
			return false
		}
		h := sha256.New()
		info, err := s.root.Lstat(p)
		if err != nil || !info.Mode().IsRegular() {
			return false
		}
		f, err := s.root.Open(p)
		if err != nil {
			return false
		}
		_, err = io.Copy(h, f)
		if f.Close() != nil || err != nil || hex.EncodeToString(h.Sum(nil)) != want {
			return false
		}
	}
	return true
}

// hold keeps files of the last build, which are intact.
func (s *site) hold(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range paths {
		s.files[p] = s.was[p]
	}
}

// partName begins the names of files that are being written.
const partName = ".tare-part-"

// write makes a file of the site, whole or not at all, unless it has that content already.
func (s *site) write(name string, data []byte) error {
	if !siteFile(name) && name != stateFile {
		return siteFailure(name, errors.New("no file of a gallery is called so"))
	}
	if name != stateFile {
		s.mu.Lock()
		s.files[name] = sumOf(data)
		s.mu.Unlock()
	}
	if has, err := s.read(name, int64(len(data))); err == nil && bytes.Equal(has, data) {
		return nil
	}
	if dir := path.Dir(name); dir != "." {
		if err := s.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return siteFailure(name, err)
		}
	}
	s.mu.Lock()
	s.parts++
	part := path.Join(path.Dir(name), partName+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(s.parts))
	s.mu.Unlock()
	if err := s.put(part, data); err != nil {
		s.root.Remove(part)
		return siteFailure(name, err)
	}
	if err := s.root.Rename(part, name); err != nil {
		s.root.Remove(part)
		return siteFailure(name, err)
	}
	s.mu.Lock()
	s.written = append(s.written, name)
	s.mu.Unlock()
	return nil
}

// put does not sync: after a crash a file that has another digest than gallery.json says is made again.
func (s *site) put(name string, data []byte) error {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// sweep removes files that nobody refers to: those of results that are gone, and those that a killed build left. Files
// that tare never writes stay.
func (s *site) sweep() error {
	for _, dir := range append([]string{"."}, folders...) {
		entries, err := fs.ReadDir(s.root.FS(), dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return siteFailure(dir, err)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			part := strings.HasPrefix(e.Name(), partName)
			if e.IsDir() || !part && (!siteFile(name) || s.files[name] != "") {
				continue
			}
			if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return siteFailure(name, err)
			}
			s.removed = append(s.removed, name)
		}
		if dir != "." {
			s.root.Remove(dir) // only if it is empty
		}
	}
	return nil
}

// save writes gallery.json, last of all.
func (s *site) save(st *state) error {
	src, err := st.marshal()
	if err != nil {
		return siteFailure(stateFile, err)
	}
	return s.write(stateFile, src)
}
