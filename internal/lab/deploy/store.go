package deploy

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Store has agent executables: those built into this program (build tag bundle), the program itself for its own
// platform, and those given by Use. It implements env.Agents and is safe for concurrent use.
type Store struct {
	dir     string
	files   fs.FS // tare-agent_GOOS_GOARCH.gz, and tare-tracer_GOOS_GOARCH.gz for platforms with a tracer
	tracers bool

	mu    sync.Mutex
	paths map[string]string
	made  bool
}

// NewStore returns a store that extracts agents below dir, which it makes on first use and removes on Close.
func NewStore(dir string) *Store {
	return &Store{dir: dir, files: bundled(), paths: map[string]string{}}
}

// NewTracers is NewStore for agents that can trace: it gives them where there are some, else those of NewStore.
func NewTracers(dir string) *Store {
	s := NewStore(dir)
	s.tracers = true
	return s
}

// Use sets the agent for a platform to the file at path. The store does not remove it.
func (s *Store) Use(goos, goarch, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[platform(goos, goarch)] = path
}

// Path implements env.Agents.
func (s *Store) Path(goos, goarch string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := platform(goos, goarch)
	if p, ok := s.paths[key]; ok {
		return p, nil
	}
	p, err := s.extract(key)
	if errors.Is(err, fs.ErrNotExist) && key == platform(runtime.GOOS, runtime.GOARCH) {
		p, err = os.Executable()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("this build of tare has no agent for %s/%s, only for %s; use one built with \"make "+
			"build\", which has all of them",
			goos, goarch, strings.Join(s.platforms(), ", "))
	}
	if err != nil {
		return "", fmt.Errorf("extract the agent for %s/%s: %w", goos, goarch, err)
	}
	s.paths[key] = p
	return p, nil
}

// Close removes the extracted agents.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = map[string]string{}
	if !s.made {
		return nil
	}
	s.made = false
	return os.RemoveAll(s.dir)
}

func platform(goos, goarch string) string { return goos + "_" + goarch }

const prefix, tracerPrefix, suffix = "tare-agent_", "tare-tracer_", ".gz"

// platforms lists the platforms of the store's agents, as GOOS/GOARCH.
func (s *Store) platforms() []string {
	list := []string{platform(runtime.GOOS, runtime.GOARCH)}
	for p := range s.paths {
		list = append(list, p)
	}
	entries, _ := fs.ReadDir(s.files, ".") // a build without agents has nothing to read
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), prefix); ok {
			list = append(list, strings.TrimSuffix(name, suffix))
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	for i := range list {
		list[i] = strings.Replace(list[i], "_", "/", 1)
	}
	return list
}

// maxAgent bounds an extracted agent, in bytes.
const maxAgent = 64 << 20

func (s *Store) extract(key string) (string, error) {
	packed := prefix + key + suffix
	if s.tracers {
		if _, err := fs.Stat(s.files, tracerPrefix+key+suffix); err == nil {
			packed = tracerPrefix + key + suffix
		}
	}
	in, err := s.files.Open(packed)
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	s.made = true
	name := "tare-agent_" + key
	if strings.HasPrefix(key, "windows_") {
		name += ".exe"
	}
	path := filepath.Join(s.dir, name)
	if err := write(path, in); err != nil {
		os.Remove(path) // if this fails, Close removes it with its directory
		return "", err
	}
	return path, nil
}

// write blocks forks while the file is open. A child forked meanwhile by another goroutine would hold it open for
// writing, and starting the file would fail with ETXTBSY (golang/go#22315).
func write(path string, gz io.Reader) (err error) {
	z, err := gzip.NewReader(gz)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	n, err := io.Copy(out, io.LimitReader(z, maxAgent+1))
	if err == nil && n > maxAgent {
		err = fmt.Errorf("it is larger than %d bytes", maxAgent)
	}
	return err
}
