package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/internal/lab/leftover"
	"tare/internal/lab/rootfs"
	"tare/internal/sys/proc"
)

// Options say how a stack is built. None of them is part of its key.
type Options struct {
	Cache string // the guests' cache folder; microvm.DefaultCache if empty
	// Refresh installs the packages and the site again, for newer packages.
	Refresh bool
	RunID   string
	// Progress, if set, is called with a short description of each step.
	Progress func(string)
	// Command, if set, replaces the command that installs the site in the root. It is for tests.
	Command []string
}

// basePrefix begins the names of the directories with packages only, from which stacks are made.
const basePrefix = "base-"

// Build returns the stack of a spec, and installs it if it is not. That takes some minutes and a download of 200 MB the
// first time, and needs root. If several processes want the same stack, one installs it and the others wait. What fails
// or is interrupted leaves nothing.
func Build(ctx context.Context, spec Spec, o Options) (Stack, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if !o.Refresh {
		if s, err := Lookup(spec, o.Cache); err == nil {
			return s, nil
		}
	}
	s, err := build(ctx, spec, o)
	if err != nil {
		return Stack{}, fmt.Errorf("build stack %s: %w", spec.installed(), err)
	}
	return s, nil
}

func build(ctx context.Context, spec Spec, o Options) (_ Stack, err error) {
	if os.Geteuid() != 0 {
		return Stack{}, errors.New("a site's files belong to several users; run tare stack build as root")
	}
	parent, err := cacheFolder(o.Cache)
	if err != nil {
		return Stack{}, err
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Stack{}, err
	}
	release, err := rootfs.Lock(ctx, filepath.Join(parent, ".lock-"+spec.base()), o.Progress)
	if err != nil {
		return Stack{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := sweep(parent); err != nil {
		return Stack{}, err
	}
	final := filepath.Join(parent, spec.Key())
	if s, err := open(final); err == nil && !o.Refresh { // another process built it while this one waited
		return s, nil
	}
	work, discard, err := leftover.New(parent, o.RunID)
	if err != nil {
		return Stack{}, err
	}
	defer func() { err = errors.Join(err, discard()) }()
	s := Stack{Dir: final, Key: spec.Key(), Spec: spec.installed(), Recipe: spec.Recipe.Name,
		Version: spec.Recipe.Version, Suite: spec.Recipe.Suite, Format: format}
	base, err := packages(ctx, spec, o, parent, work)
	if err != nil {
		return Stack{}, err
	}
	s.Tool, s.Package = base.Tool, base.Package
	stage := filepath.Join(work, "stage")
	root := filepath.Join(stage, rootName)
	if err := os.Mkdir(stage, 0o755); err != nil {
		return Stack{}, err
	}
	o.Progress("copying the packages")
	if _, err := proc.Run(ctx, nil, "cp", "-a", "--reflink=auto", filepath.Join(base.Dir, rootName), root); err != nil {
		return Stack{}, fmt.Errorf("copy the packages: %w", err)
	}
	if err := furnish(root, spec); err != nil {
		return Stack{}, err
	}
	o.Progress("installing the site and its content")
	if err := install(ctx, root, o.Command); err != nil {
		return Stack{}, err
	}
	if s.Bytes, err = size(root); err != nil {
		return Stack{}, err
	}
	if err := s.seal(stage); err != nil {
		return Stack{}, err
	}
	if err := remove(final); err != nil { // an older one, if newer packages are wanted
		return Stack{}, err
	}
	return s, os.Rename(stage, final)
}

// packages returns the directory with the packages only, and makes it if there is none.
func packages(ctx context.Context, spec Spec, o Options, parent, work string) (Stack, error) {
	name := basePrefix + spec.base()
	dir := filepath.Join(parent, name)
	if s, err := open(dir); err == nil && !o.Refresh {
		return s, nil
	}
	o.Progress("installing packages into a directory")
	stage := filepath.Join(work, "base")
	if err := os.Mkdir(stage, 0o755); err != nil {
		return Stack{}, err
	}
	s := Stack{Dir: dir, Key: name, Suite: spec.Recipe.Suite, Format: format}
	var err error
	if s.Tool, s.Package, err = rootfs.Tree(ctx, spec.packages(), filepath.Join(stage, rootName)); err != nil {
		return Stack{}, err
	}
	if err := s.seal(stage); err != nil {
		return Stack{}, err
	}
	if err := remove(dir); err != nil {
		return Stack{}, err
	}
	return s, os.Rename(stage, dir)
}

// seal writes the manifest, which completes a directory.
func (s *Stack) seal(dir string) error {
	s.Built = time.Now().UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), append(text, '\n'), 0o644)
}

// furnish puts the recipe into the root.
func furnish(dir string, spec Spec) error {
	root, err := os.OpenRoot(dir) // no link in it leads out
	if err != nil {
		return err
	}
	defer root.Close()
	at := strings.TrimPrefix(Place, "/")
	if err := root.MkdirAll(at+"/recipe", 0o755); err != nil {
		return err
	}
	files := spec.files()
	files["key"], files["name"] = []byte(spec.Key()), []byte(spec.Recipe.Name)
	for name, text := range files {
		if err := root.WriteFile(at+"/"+name, text, 0o755); err != nil {
			return err
		}
	}
	return root.Chmod("srv", 0o755)
}

// install runs the recipe in the root, in namespaces of its own with a loopback only. Whatever becomes of tare, all
// that was started ends with the first process of the namespaces.
func install(ctx context.Context, root string, command []string) error {
	if len(command) == 0 {
		command = []string{"/bin/bash", Place + "/stack.sh", "install"}
	}
	argv := append([]string{"unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
		"--net", "--ipc", "--uts", "--root", root, "--mount-proc", "--", "/bin/sh", "-c",
		`ip link set lo up && exec "$@"`, "sh"}, command...)
	cmd := proc.Command(ctx, argv...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	_, err := proc.RunCmd(cmd, nil)
	if x, ok := errors.AsType[*proc.ExitError](err); ok {
		for line := range strings.Lines(x.Stderr) {
			if why, ok := strings.CutPrefix(strings.TrimSpace(line), "stack: "); ok {
				return fmt.Errorf("the recipe failed: %s", why)
			}
		}
		return fmt.Errorf("the recipe failed: %w", err)
	}
	return err
}

// size adds up a tree's files, in whole blocks.
func size(root string) (total int64, err error) {
	const block = 4096
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += block
		if info.Mode().IsRegular() {
			total += (info.Size() + block - 1) / block * block
		}
		return nil
	})
	return total, err
}
