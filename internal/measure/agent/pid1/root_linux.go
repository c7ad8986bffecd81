package pid1

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"tare/internal/measure/guestabi"
)

// mountRoot makes a root for the workers: the image on the disk with that serial number, read-only, and over it an
// overlay in the guest's memory. So nothing is written to the image, and files that a worker writes outside of its own
// directory are not on a measured disk.
func mountRoot(serial, scratch string) error {
	dev, err := disk(serial)
	if err != nil {
		return fmt.Errorf("find root image: %w", err)
	}
	if err := mountOne(mount{"tmpfs", guestabi.RootParts, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755,size=50%",
		true}); err != nil {
		return fmt.Errorf("mount %s: %w", guestabi.RootParts, err)
	}
	image, upper, work := guestabi.RootParts+"/image", guestabi.RootParts+"/upper", guestabi.RootParts+"/work"
	for _, d := range []string{image, upper, work, guestabi.Root} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fmt.Errorf("mount root image: %w", err)
		}
	}
	if err := mountImage(dev, image); err != nil {
		return err
	}
	if err := unix.Mount("overlay", guestabi.Root, "overlay", 0,
		"lowerdir="+image+",upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mount overlay over the root image: %w", err)
	}
	return furnish(guestabi.Root, scratch)
}

// mountImage mounts the first file system with a root: on the whole disk, or on one of its partitions.
func mountImage(dev, dir string) error {
	name := filepath.Base(dev)
	entries, err := os.ReadDir("/sys/block/" + name)
	if err != nil {
		return fmt.Errorf("look for partitions of the root image: %w", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	var errs []error
	for _, d := range append([]string{name}, partitions(name, names)...) {
		err := unix.Mount("/dev/"+d, dir, "ext4", unix.MS_RDONLY|unix.MS_NODEV, "")
		switch {
		case errors.Is(err, unix.EINVAL):
			err = fmt.Errorf("%s has no ext4 file system", d)
		case errors.Is(err, unix.EROFS):
			err = fmt.Errorf("the ext4 file system of %s was not unmounted cleanly; repair the image with e2fsck", d)
		case err != nil:
			err = fmt.Errorf("mount %s: %w", d, err)
		case exists(dir + "/usr"):
			return nil
		default:
			err = errors.Join(fmt.Errorf("%s has no folder usr", d), unix.Unmount(dir, 0))
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("the image has no root file system: %w", errors.Join(errs...))
}

// furnish adds to a root the folders that the agent and its workers share, and the agent itself.
func furnish(root, scratch string) error {
	dirs := append(slices.Clone(shared), guestabi.Mounts)
	if scratch != "" {
		dirs = append(dirs, guestabi.Scratch)
	}
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("furnish root: %w", err)
		}
		if err := bindInto(root, d); err != nil {
			return err
		}
	}
	// A worker that starts itself again needs its own path.
	target := within(root, guestabi.Init)
	if err := os.WriteFile(target, nil, 0o755); err != nil {
		return fmt.Errorf("furnish root: %w", err)
	}
	if err := unix.Mount(guestabi.Init, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("furnish root: bind %s: %w", guestabi.Init, err)
	}
	// The files that minimal images lack, as in the initramfs.
	if hosts := within(root, "/etc/hosts"); !exists(hosts) {
		if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"), 0o644); err != nil {
			return fmt.Errorf("furnish root: %w", err)
		}
	}
	return nil
}

// bindInto shows a directory at the same place in a root. Anything else at that path in the image is removed first,
// such as a symbolic link, which would lead out of the root.
func bindInto(root, dir string) error {
	target := within(root, dir)
	if info, err := os.Lstat(target); err == nil && !info.IsDir() {
		if err := os.Remove(target); err != nil {
			return fmt.Errorf("furnish root: %w", err)
		}
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("furnish root: %w", err)
	}
	if err := unix.Mount(dir, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("furnish root: bind %s: %w", dir, err)
	}
	return nil
}

// leaveRoot unmounts the workers' view of the scratch disk, so that the disk itself can be unmounted.
func leaveRoot() {
	unix.Unmount(within(guestabi.Root, guestabi.Scratch), unix.MNT_DETACH) // EINVAL, ENOENT: there is no root image
}
