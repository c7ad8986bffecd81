package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/microvm"
	"tare/internal/lab/rootfs"
	"tare/internal/sys/proc"
)

const (
	folder       = "stack" // below the guests' cache folder
	manifestName = "stack.json"
	rootName     = "root"
	imageName    = "root.ext4"
	maxManifest  = 1 << 20
)

// Place is where a stack lies in its root.
const Place = "/srv/tare-stack"

// ErrNotInstalled is wrapped by the error of Lookup if there is no such stack. The error says how to get it.
var ErrNotInstalled = errors.New("the stack is not installed")

// Stack is an installed stack.
type Stack struct {
	Dir     string            `json:"-"`
	Key     string            `json:"key"`
	Spec    string            `json:"spec"` // as Parse reads it
	Recipe  string            `json:"recipe"`
	Version int               `json:"version"` // of the recipe
	Suite   string            `json:"suite"`
	Tool    string            `json:"tool"`     // the program that installed the packages
	Package map[string]string `json:"packages"` // versions
	Built   time.Time         `json:"built"`
	Bytes   int64             `json:"bytes"` // of all files
	Format  int               `json:"format"`
}

// Root is the directory with the system and the site. It is only read.
func (s Stack) Root() string { return filepath.Join(s.Dir, rootName) }

// Facts are what an environment tells of its stack.
func (s Stack) Facts() map[string]string {
	var versions []string
	for _, p := range slices.Sorted(maps.Keys(s.Package)) {
		versions = append(versions, p+" "+s.Package[p])
	}
	return map[string]string{"stack": s.Spec, "stack.key": s.Key, "stack.packages": strings.Join(versions, ", ")}
}

// cacheFolder is the folder of all stacks. An empty cache means microvm.DefaultCache.
func cacheFolder(cache string) (string, error) {
	if cache == "" {
		var err error
		if cache, err = microvm.DefaultCache(); err != nil {
			return "", err
		}
	}
	return filepath.Join(cache, folder), nil
}

// Remedy is the command that installs a stack.
func Remedy(s Spec) string { return "run: tare stack build " + s.installed() }

// Lookup returns the stack of a spec. If it is not installed, the error wraps ErrNotInstalled.
func Lookup(s Spec, cache string) (Stack, error) {
	dir, err := cacheFolder(cache)
	if err != nil {
		return Stack{}, err
	}
	st, err := open(filepath.Join(dir, s.Key()))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = ErrNotInstalled
		}
		return Stack{}, fmt.Errorf("stack %s: %w; %s", s.installed(), err, Remedy(s))
	}
	return st, nil
}

// open reads a stack's manifest.
func open(dir string) (Stack, error) {
	f, err := os.Open(filepath.Join(dir, manifestName))
	if err != nil {
		return Stack{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return Stack{}, err
	}
	s := Stack{Dir: dir}
	if err := json.Unmarshal(text, &s); err != nil {
		return Stack{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if s.Format != format || s.Key != filepath.Base(dir) {
		return Stack{}, fmt.Errorf("%w: %s was made by another version of tare", ErrNotInstalled, dir)
	}
	return s, nil
}

// List returns the installed stacks, sorted by their specs.
func List(cache string) ([]Stack, error) {
	dir, err := cacheFolder(cache)
	if err != nil {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", manifestName))
	if err != nil {
		return nil, err
	}
	var all []Stack
	for _, m := range found {
		if s, err := open(filepath.Dir(m)); err == nil && s.Spec != "" { // not the packages only
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b Stack) int { return strings.Compare(a.Spec, b.Spec) })
	return all, nil
}

// Current tells whether the stack is what its spec means in this build of tare: the recipe was not changed since.
func (s Stack) Current() bool {
	spec, err := Parse(s.Spec)
	return err == nil && spec.Key() == s.Key
}

// Remove removes an installed stack, and the packages if no other stack is made of them, and what removals that were
// killed have left.
func (s Stack) Remove() error {
	if err := errors.Join(sweep(filepath.Dir(s.Dir)), remove(s.Dir)); err != nil {
		return err
	}
	used := map[string]bool{}
	rest, err := List(filepath.Dir(filepath.Dir(s.Dir)))
	if err != nil {
		return err
	}
	for _, r := range rest {
		if spec, err := Parse(r.Spec); err == nil {
			used[basePrefix+spec.base()] = true
		}
	}
	bases, err := filepath.Glob(filepath.Join(filepath.Dir(s.Dir), basePrefix+"*"))
	for _, b := range bases {
		if !used[filepath.Base(b)] {
			err = errors.Join(err, remove(b))
		}
	}
	return err
}

// remove removes a directory of the cache. It loses its name first, so that a kill leaves nothing that looks whole.
func remove(dir string) error {
	going := dir + goingSuffix
	if err := rootfs.Discard(going); err != nil { // of a removal that was killed
		return err
	}
	if err := os.Rename(dir, going); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return rootfs.Discard(going)
}

// goingSuffix ends the name of a directory that is being removed.
const goingSuffix = ".going"

// sweep removes what removals that were killed have left in the folder of stacks.
func sweep(folder string) error {
	left, err := filepath.Glob(filepath.Join(folder, "*"+goingSuffix))
	for _, dir := range left {
		err = errors.Join(err, rootfs.Discard(dir))
	}
	return err
}

// imageRoom is the free space in a stack's image. Nothing is written there but what the system itself writes.
const imageRoom = 256 << 20

// Image returns the path of an ext4 image of the root, for virtual machines. It is written when it is first wanted.
func (s Stack) Image(ctx context.Context) (string, error) {
	path := filepath.Join(s.Dir, imageName)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	release, err := rootfs.Lock(ctx, path+".lock", func(string) {})
	if err != nil {
		return "", err
	}
	defer release()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// Files take whole blocks, and the tables of inodes a sixteenth.
	size := (s.Bytes*5/4 + imageRoom) &^ (1<<20 - 1)
	half := path + ".new"
	err = rootfs.Write(ctx, s.Root(), half, s.Key, size)
	if err == nil {
		err = os.Chmod(half, 0o400)
	}
	if err == nil {
		err = os.Rename(half, path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("make the image of stack %s: %w", s.Spec, err), removeFile(half))
	}
	return path, nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ImageName is the name of a container engine's image of the stack.
func (s Stack) ImageName() string { return "tare/stack:" + s.Key }

// Archive starts a program that prints the root as a tar archive, for a container engine's import.
func (s Stack) Archive(ctx context.Context) (*proc.Stream, error) {
	return proc.Start(proc.Command(ctx, "tar", "--create", "--numeric-owner", "--one-file-system", "--directory",
		s.Root(), "."))
}
