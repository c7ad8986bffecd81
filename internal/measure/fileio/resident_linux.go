package fileio

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Resident returns the share of a file that is in the page cache, 0 to 1, by mincore(2). The kernel reports it only to
// the file's owner and to processes that can write the file. The owner may open it read-only, which works on a
// read-only file system and causes no copy-up in an overlay.
func Resident(path string) (float64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if os.Geteuid() == int(st.Uid) {
		return resident(path, os.O_RDONLY)
	}
	share, err := resident(path, os.O_RDWR)
	if errors.Is(err, unix.EINVAL) {
		// 9p without a cache refuses shared writable mappings.
		return resident(path, os.O_RDONLY)
	}
	return share, err
}

func resident(path string, flag int) (float64, error) {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	page := int64(os.Getpagesize())
	const window = 1 << 30
	seen := make([]byte, min(window, st.Size()+page)/page+1)
	var in, all int64
	for off := int64(0); off < st.Size(); off += window {
		n := min(window, st.Size()-off)
		m, err := unix.Mmap(int(f.Fd()), off, int(n), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return 0, err
		}
		pages := (n + page - 1) / page
		_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(n),
			uintptr(unsafe.Pointer(unsafe.SliceData(seen))))
		_ = unix.Munmap(m)
		if e != 0 {
			return 0, e
		}
		for _, b := range seen[:pages] {
			in += int64(b & 1)
		}
		all += pages
	}
	if all == 0 {
		return 0, nil
	}
	return float64(in) / float64(all), nil
}
