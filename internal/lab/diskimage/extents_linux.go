package diskimage

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The structures of linux/fiemap.h.
type fiemapExtent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

type fiemap struct {
	start, length        uint64
	flags, mapped, count uint32
	_                    uint32
	extents              [512]fiemapExtent
}

const (
	fiemapIoctl     = 0xc020660b // _IOWR('f', 11, struct fiemap)
	fiemapLast      = 1
	fiemapUnknown   = 2
	fiemapDelayed   = 4
	fiemapUnwritten = 0x800
)

// extents asks the file system (FIEMAP). It does not sync the file, because inspecting an image must not write. Data
// that is not allocated yet is reported as such.
func extents(f *os.File, room *int) (*layout, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", f.Name(), err)
	}
	l := &layout{}
	if !info.Mode().IsRegular() { // a device has no extents
		size, err := f.Seek(0, 2)
		if err != nil {
			return nil, fmt.Errorf("find the size of %s: %w", f.Name(), err)
		}
		l.add(extent{0, 0, size}, room)
		return l, nil
	}
	// If extents cannot be kept, ask only for their number: growing a slice would leave four times as much garbage.
	m := &fiemap{length: ^uint64(0)}
	if err := m.ask(f); err != nil {
		return nil, err
	}
	l.extents = make([]extent, 0, min(int(m.mapped), *room))
	for start := uint64(0); ; {
		*m = fiemap{start: start, length: ^uint64(0) - start, count: uint32(len(m.extents))}
		if err := m.ask(f); err != nil {
			return nil, err
		}
		if m.mapped == 0 {
			return l, nil
		}
		for _, e := range m.extents[:min(int(m.mapped), len(m.extents))] {
			if e.flags&(fiemapUnknown|fiemapDelayed) != 0 {
				l.unplaced += int64(e.length)
			} else {
				l.add(extent{int64(e.logical), int64(e.physical), int64(e.length)}, room)
			}
			if e.flags&fiemapUnwritten != 0 {
				l.reserved += int64(e.length)
			}
			if e.flags&fiemapLast != 0 {
				return l, nil
			}
			if e.logical+e.length <= start && e.length > 0 && start > 0 {
				return nil, fmt.Errorf("ask where %s is on the disk: the kernel repeats an extent", f.Name())
			}
			start = e.logical + e.length
		}
	}
}

// ask makes the file system fill in the answer.
func (m *fiemap) ask(f *os.File) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fiemapIoctl, uintptr(unsafe.Pointer(m)))
	runtime.KeepAlive(f)
	switch {
	case errno == 0:
		return nil
	case errors.Is(errno, unix.EOPNOTSUPP), errors.Is(errno, unix.ENOTTY), errors.Is(errno, unix.EINVAL),
		errors.Is(errno, unix.ENOSYS):
		return errUnknown
	}
	return fmt.Errorf("ask where %s is on the disk: %w", f.Name(), errno)
}
