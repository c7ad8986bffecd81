package restore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// disk is a block device that counts what it has done.
type disk struct {
	name string
	stat *os.File
	text [512]byte
}

// findDisk returns the device of a directory's file system; nil if there is none or it is not reported, as on tmpfs,
// btrfs and network file systems.
func findDisk(dir string) *disk {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil
	}
	major, minor := unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))
	f, err := os.Open(fmt.Sprintf("/sys/dev/block/%d:%d/stat", major, minor))
	if err != nil {
		return nil
	}
	return &disk{name: fmt.Sprintf("%d:%d", major, minor), stat: f}
}

// completed is the number of reads and writes that the disk has completed (Documentation/block/stat.rst: fields 1 and
// 5).
func (d *disk) completed() int64 {
	if d == nil {
		return 0
	}
	n, err := d.stat.ReadAt(d.text[:], 0)
	if n == 0 && err != nil {
		return 0
	}
	return parseStat(d.text[:n])
}

func parseStat(text []byte) int64 {
	var sum int64
	for i, f := range bytes.Fields(text) {
		if i == 0 || i == 4 {
			v, err := strconv.ParseInt(string(f), 10, 64)
			if err != nil || v < 0 {
				return 0
			}
			sum += v
		}
	}
	return sum
}

func (d *disk) close() {
	if d != nil {
		d.stat.Close()
	}
}

// settle flushes the file system of path.
func settle(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
