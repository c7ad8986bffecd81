package pid1

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mount is a file system of the guest.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
	required             bool // nothing works without it; others are reported when they cannot be mounted
}

var table = []mount{
	{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", true},
	{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", true},
	{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755", true},
	{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,ptmxmode=0666", false},
	{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", false},
	{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755", true},
	// The size bounds what file workloads without a disk may write: half of the memory, the kernel's default, said
	// here.
	{"tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777,size=50%", true},
	{"cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", false},
}

func mountAll(table []mount) error {
	for _, m := range table {
		if err := mountOne(m); err != nil {
			err = fmt.Errorf("mount %s: %w", m.target, err)
			if m.required {
				return err
			}
			fmt.Fprintf(os.Stderr, "tare: %v\n", err)
		}
	}
	return nil
}

func mountOne(m mount) error {
	if err := os.Mkdir(m.target, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data)
	if errors.Is(err, unix.EBUSY) {
		return nil // the kernel mounted it already (CONFIG_DEVTMPFS_MOUNT)
	}
	return err
}
