package fileio

import (
	"fmt"
	"path/filepath"

	"tare/internal/sys/thread"
	"tare/internal/unit"
)

// VolumeInfo has a file system's report about itself.
type VolumeInfo struct {
	FS     string // "ext4"; empty when unknown
	Free   int64  // bytes an unprivileged user may still write; -1 unknown
	Inodes int64  // files that may still be made; -1 unknown or without limit
}

// Volume asks the file system of path, or of its directory if path does not exist, and names it for messages.
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

// available is the memory that can be allocated, bytes; -1 if the system does not report it.
func available() int64 {
	m, err := thread.Available()
	if err != nil {
		return -1
	}
	return m.Bytes
}

// bound limits the free space of a file system in memory to the available memory. A tmpfs may have a size limit above
// the machine's memory, and filling it would crash the machine.
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

// reserve is the space that a trial leaves free, so that tare never fills a disk.
const reserve = 16 << 20

// CheckFreeSpace returns an error unless bytes and files fit into the file system of dir before anything is written.
func CheckFreeSpace(dir string, bytes, files int64) error {
	v, on := Volume(dir)
	if v.Free >= 0 && v.Free < bytes+reserve {
		return fmt.Errorf("check space in %s: %s has %s free, but %s plus a reserve of %s are needed; use a smaller "+
			"size or another work directory",
			dir, on, unit.FormatSize(v.Free), unit.FormatSize(bytes), unit.FormatSize(reserve))
	}
	if v.Inodes >= 0 && v.Inodes < files {
		return fmt.Errorf("check space in %s: %s can hold %d more files, but %d are needed; use fewer files or "+
			"another work directory", dir, on, v.Inodes, files)
	}
	return nil
}
