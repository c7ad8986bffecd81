//go:build linux && (amd64 || arm64)

package fileio

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// burst makes the calls of b in machine code, until n are made, or one returns a res other than len(b.Buf). moved tells
// whether res is from a read or write, not from a seek.
//
//go:noescape
func burst(c *calls) (done, res int, moved bool)

// calls are the arguments of burst.
type calls struct {
	call    uintptr // number of the system call
	fd      uintptr
	buf     unsafe.Pointer
	size    uintptr
	offsets *int64  // nil for no seeks
	step    uintptr // from one offset to the next, bytes
	whence  uintptr
	n       uintptr
}

func (b *Burst) do(h *Handle, n int) (done, got int, err error) {
	c := calls{call: unix.SYS_READ, fd: h.fd, buf: unsafe.Pointer(unsafe.SliceData(b.Buf)), size: uintptr(len(b.Buf)),
		whence: uintptr(b.Whence)}
	if b.Write {
		c.call = unix.SYS_WRITE
	}
	if len(b.Offsets) > 1 {
		c.step = 8
	}
	for done < n {
		if len(b.Offsets) > 0 {
			c.offsets = &b.Offsets[min(done, len(b.Offsets)-1)]
		}
		c.n = uintptr(n - done)
		k, res, moved := burst(&c)
		runtime.KeepAlive(b)
		if done += k; done == n {
			break
		}
		if res == -int(syscall.EINTR) {
			// The position is already right for this call, and a relative seek must not be repeated.
			if moved {
				if got, err = b.one(h); err != nil || got != len(b.Buf) {
					return done, got, err
				}
				done++
			}
			continue
		}
		if res < 0 {
			return done, 0, syscall.Errno(-res)
		}
		return done, res, nil
	}
	return done, 0, nil
}
