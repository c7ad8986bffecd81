package fileio

import (
	"fmt"
	"path/filepath"

	"tare/internal/sys/thread"
	"tare/internal/unit"
)

// VolumeInfo is what a file system says of itself.
type VolumeInfo struct {
	FS     string // "ext4"; empty when unknown
	Free   int64  // bytes an unprivileged user may still write; -1 unknown
	Inodes int64  // files that may still be made; -1 unknown or without limit
}

// Volume asks the file system that holds path, or its directory when path does not exist, and names it for messages.
func Volume(path string) (VolumeInfo, string) {
	v, err := StatVolume(path)
	if err != nil {
		v, err = StatVolume(filepath.Dir(path))
	}
	if err != nil {
		v = VolumeInfo{Free: -1, Inodes: -1}
	}
	if v.FS == "" {
		return v, "the file system"
	}
	v.bound(available)
	return v, v.FS
}

// available is how much memory can be taken, bytes; -1 when the system does not say.
func available() int64 {
	m, err := thread.Available()
	if err != nil {
		return -1
	}
	return m.Bytes
}

// bound takes off the free space of a file system in memory what the memory cannot hold. A tmpfs counts against a limit
// that somebody chose, which may be above what the machine has; and one that believes it ends the machine.
func (v *VolumeInfo) bound(available func() int64) {
	if v.FS != "tmpfs" && v.FS != "ramfs" {
		return
	}
	if n := available(); n >= 0 && (v.Free < 0 || n < v.Free) {
		v.Free = n
	}
}

func freeText(n int64) string {
	if n < 0 {
		return "an unknown number of bytes"
	}
	return unit.FormatSize(n)
}

// reserve is what a trial leaves free beyond its own need, so that a full disk is never tare's doing.
const reserve = 16 << 20

// CheckFreeSpace returns an error unless bytes and files fit into the file system of dir before anything is written.
func CheckFreeSpace(dir string, bytes, files int64) error {
	v, on := Volume(dir)
	if v.Free >= 0 && v.Free < bytes+reserve {
		return fmt.Errorf("check space in %s: %s has %s free and %s are needed with a reserve of %s; give a smaller "+
			"size or another work directory",
			dir, on, unit.FormatSize(v.Free), unit.FormatSize(bytes), unit.FormatSize(reserve))
	}
	if v.Inodes >= 0 && v.Inodes < files {
		return fmt.Errorf("check space in %s: %s can hold %d more files and %d are needed; give fewer files or "+
			"another work directory", dir, on, v.Inodes, files)
	}
	return nil
}
