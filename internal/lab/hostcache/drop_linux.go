package hostcache

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropTries bounds how often a file is dropped again. The kernel skips a page that is under writeback or in another
// CPU's list.
const dropTries = 20

// onDisk returns an error if a place is in memory, where nothing can be cold.
func onDisk(place string) error {
	if isDevice(place) {
		return nil
	}
	var s unix.Statfs_t
	if err := unix.Statfs(place, &s); err != nil {
		return fmt.Errorf("inspect the file system of %s: %w", place, err)
	}
	if s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is in the host's memory (tmpfs) and can never be cold; set TMPDIR to a folder on a disk",
			place)
	}
	return nil
}

// isDevice tells whether a place is a device. A device has its own pages, whatever file system its name is in.
func isDevice(place string) bool {
	info, err := os.Stat(place)
	return err == nil && info.Mode()&os.ModeDevice != 0
}

// writeBack writes the file system of a place, or a device, to its disk, because a dirty page cannot be dropped.
func writeBack(place string) error {
	f, err := os.Open(place)
	if err != nil {
		return err
	}
	defer f.Close()
	if isDevice(place) {
		return f.Sync()
	}
	return unix.Syncfs(int(f.Fd()))
}

// dropFile drops a file's pages and returns how many bytes of it are still in memory.
func dropFile(name string) (resident int64, err error) {
	f, err := openForDrop(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for n := range dropTries {
		if n > 0 {
			time.Sleep(time.Duration(n) * time.Millisecond)
			if err := unix.Fdatasync(int(f.Fd())); err != nil && !errors.Is(err, unix.EINVAL) {
				return 0, err
			}
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return 0, err
		}
		if resident, err = Resident(f); err != nil || resident == 0 {
			break
		}
	}
	return resident, err
}

// Resident counts a file's bytes in the page cache with mincore(2).
func Resident(f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd) // the status of a device has no size
	if err != nil {
		return 0, err
	}
	const window = 1 << 30 // bytes mapped at a time; a multiple of all page sizes
	page := int64(os.Getpagesize())
	seen := make([]byte, min(window, size+page-1)/page+1)
	var in int64
	for off := int64(0); off < size; off += window {
		n := min(window, size-off)
		m, err := unix.Mmap(int(f.Fd()), off, int(n), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return 0, fmt.Errorf("map: %w", err)
		}
		_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(n),
			uintptr(unsafe.Pointer(unsafe.SliceData(seen))))
		if err := unix.Munmap(m); err != nil {
			return 0, fmt.Errorf("unmap: %w", err)
		}
		if e != 0 {
			return 0, fmt.Errorf("ask which pages are in memory: %w", e)
		}
		for _, b := range seen[:(n+page-1)/page] {
			in += int64(b&1) * page
		}
	}
	return in, nil
}

// DropAll writes back dirty pages and drops all of the host's page cache but pages that programs have mapped, with
// names and attributes. It needs root.
func DropAll() error {
	unix.Sync()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0); err != nil {
		return fmt.Errorf("drop the host's page cache, which needs root outside of any container: %w", err)
	}
	return nil
}

// dropNames drops all of the host's names and attributes; the kernel cannot drop only some. Without the right to do so
// they stay.
func dropNames() {
	os.WriteFile("/proc/sys/vm/drop_caches", []byte("2\n"), 0)
}
