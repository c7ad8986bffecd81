package nsinit

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// oldRoot is the place at which the outside is mounted while the new root is set up. It is a directory of the upper
// layer.
const oldRoot = "/.tare-outside"

// newRoot makes an overlay of c.Root the root of this mount namespace and sets it up. It returns the layout.
func (c *Config) newRoot() (layout string, err error) {
	// First, so that no later mount is visible outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("make mounts private: %w", err)
	}
	// Relative names below c.Dir need no escaping in overlayfs's options, which give commas and colons a meaning.
	if err := os.Chdir(string(c.Dir)); err != nil {
		return "", err
	}
	old := unix.Umask(0)
	defer unix.Umask(old)
	for _, d := range []struct {
		name string
		mode os.FileMode
	}{{"upper", 0o755}, {"work", 0o700}, {"lower", 0o700}, {"root", 0o700}, {"upper" + oldRoot, 0o700},
		{"upper" + WorkDir, 0o700}} {
		if err := os.Mkdir(d.name, d.mode); err != nil {
			return "", err
		}
	}
	// Recursive, because a user namespace may not take a mount apart; overlayfs looks at the top one only.
	if err := unix.Mount(string(c.Root), "lower", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("bind %s: %w", c.Root, err)
	}
	layout, bound := Overlaid, []string(nil)
	err = c.overlay("lower")
	if errors.Is(err, unix.EINVAL) && c.OwnUser {
		layout = Bound
		if bound, err = skeleton("lower", "skeleton"); err == nil {
			err = c.overlay("skeleton")
		}
	}
	if err != nil {
		return "", fmt.Errorf("mount overlayfs over %s with layers in %s: %w", c.Root, c.Dir, err)
	}
	dir, err := os.Getwd() // without symbolic links, which would lead elsewhere from inside
	if err != nil {
		return "", err
	}
	if err := unix.PivotRoot("root", "root"+oldRoot); err != nil {
		return "", fmt.Errorf("pivot root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return "", err
	}
	// From here on every name is looked up inside: a symbolic link in a foreign root cannot lead out.
	for _, name := range bound {
		if err := bindReadOnly(path.Join(oldRoot, dir, "lower", name), "/"+name); err != nil {
			return "", err
		}
	}
	for _, f := range c.furniture() {
		if err := f.place(); err != nil {
			return "", err
		}
	}
	for _, m := range c.Mounts {
		f := fixture{name: m.Target, source: "tmpfs", kind: "tmpfs", flags: unix.MS_NOSUID | unix.MS_NODEV,
			data: m.Options}
		if m.Source != "" {
			f = fixture{name: m.Target, source: oldRoot + string(m.Source), kind: "bind", flags: unix.MS_REC}
		}
		if err := f.place(); err != nil {
			return "", err
		}
	}
	if err := unix.Unmount(oldRoot, unix.MNT_DETACH); err != nil {
		return "", fmt.Errorf("unmount the outside: %w", err)
	}
	return layout, os.Remove(oldRoot)
}

func (c *Config) overlay(lower string) error {
	options := "lowerdir=" + lower + ",upperdir=upper,workdir=work"
	if c.OwnUser {
		options += ",userxattr"
	}
	return unix.Mount("overlay", "root", "overlay", 0, options)
}

// skeleton makes dir an image of root's top level: its symbolic links, and empty directories for those that are to be
// bound, which it returns. A user namespace cannot use a directory that has foreign mounts below it as a layer, because
// that would reveal the files under these mounts (the kernel: "failed to clone lowerpath"), and / has such mounts on
// every system.
func skeleton(root, dir string) (bound []string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(path.Join(root, e.Name()))
			if err != nil {
				return nil, err
			}
			if err := os.Symlink(target, name); err != nil {
				return nil, err
			}
		case e.IsDir():
			if err := os.Mkdir(name, 0o755); err != nil {
				return nil, err
			}
			if !slices.Contains([]string{"proc", "sys", "dev", "run", "tmp"}, e.Name()) {
				bound = append(bound, e.Name())
			}
		}
	}
	return bound, os.MkdirAll(path.Join(dir, "tmp"), 0o777)
}

func bindReadOnly(source, name string) error {
	if err := unix.Mount(source, name, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", name, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, name, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make %s read-only: %w", name, err)
	}
	return nil
}

// fixture is a thing in the new root: a mount, or a symbolic link when kind is empty.
type fixture struct {
	name    string
	source  string
	kind    string // file system type; "bind" for a file or directory of the outside
	flags   uintptr
	data    string
	instead *fixture // alternative if this is not permitted
}

func (c *Config) furniture() []fixture {
	const plain = unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV
	sys := fixture{name: "/sys", source: "sysfs", kind: "sysfs", flags: plain | unix.MS_RDONLY,
		// A new sysfs shows the network's devices, so it needs rights over the network namespace.
		instead: &fixture{name: "/sys", source: oldRoot + "/sys", kind: "bind", flags: unix.MS_REC}}
	all := []fixture{
		{name: "/proc", source: "proc", kind: "proc", flags: plain},
		sys,
		{name: "/dev", source: "tmpfs", kind: "tmpfs", flags: unix.MS_NOSUID, data: "mode=755,size=64k"},
	}
	for _, node := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		// Bound, not made: a user namespace may not make devices.
		all = append(all, fixture{name: "/dev/" + node, source: oldRoot + "/dev/" + node, kind: "bind"})
	}
	return append(all,
		fixture{name: "/dev/pts", source: "devpts", kind: "devpts", flags: unix.MS_NOSUID | unix.MS_NOEXEC,
			data: "newinstance,ptmxmode=0666,mode=0620"},
		fixture{name: "/dev/shm", source: "tmpfs", kind: "tmpfs", flags: plain, data: "mode=1777"},
		fixture{name: "/dev/ptmx", source: "pts/ptmx"},
		fixture{name: "/dev/fd", source: "/proc/self/fd"},
		fixture{name: "/dev/stdin", source: "/proc/self/fd/0"},
		fixture{name: "/dev/stdout", source: "/proc/self/fd/1"},
		fixture{name: "/dev/stderr", source: "/proc/self/fd/2"},
		fixture{name: "/run", source: "tmpfs", kind: "tmpfs", flags: unix.MS_NOSUID | unix.MS_NODEV, data: "mode=755"},
	)
}

func (f *fixture) place() error {
	switch f.kind {
	case "":
		if err := os.Symlink(f.source, f.name); err != nil {
			return fmt.Errorf("link %s: %w", f.name, err)
		}
		return nil
	case "bind":
		return f.bind()
	}
	if err := os.MkdirAll(f.name, 0o755); err != nil {
		return err
	}
	err := unix.Mount(f.source, f.name, f.kind, f.flags, f.data)
	if errors.Is(err, unix.EPERM) && f.instead != nil {
		return f.instead.place()
	}
	if err != nil {
		return fmt.Errorf("mount %s on %s: %w", f.kind, f.name, err)
	}
	return nil
}

func (f *fixture) bind() error {
	info, err := os.Stat(f.source)
	if errors.Is(err, os.ErrNotExist) && path.Dir(f.name) == "/dev" {
		return nil // a host without /dev/tty: no workload needs it
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(f.name, 0o755)
	} else {
		err = os.WriteFile(f.name, nil, 0o600)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(f.source, f.name, "", unix.MS_BIND|f.flags, ""); err != nil {
		return fmt.Errorf("bind %s: %w", f.name, err)
	}
	return nil
}
