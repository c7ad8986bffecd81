package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// DiskOf returns the disk of a device, such as /dev/vda or a partition of it, as MAJOR:MINOR.
func DiskOf(device string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return "", fmt.Errorf("%s: %w", device, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", fmt.Errorf("%s is no block device", device)
	}
	return whole(st.Rdev)
}

// DiskBelow returns the disk that the files in a directory lie on.
func DiskBelow(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	if unix.Major(st.Dev) == 0 {
		return "", fmt.Errorf("the file system of %s does not tell its disk", dir)
	}
	return whole(st.Dev)
}

// whole is the disk that a device is a part of: requests are counted there.
func whole(dev uint64) (string, error) {
	name := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	at := "/sys/dev/block/" + name
	if _, err := os.Stat(at + "/partition"); err != nil {
		return name, nil
	}
	path, err := filepath.EvalSymlinks(at)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(path), "dev"))
	if err != nil {
		return "", fmt.Errorf("find the disk of %s: %w", name, err)
	}
	return strings.TrimSpace(string(b)), nil
}
