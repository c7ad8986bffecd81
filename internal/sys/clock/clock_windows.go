package clock

import (
	"math/bits"
	"syscall"
	"time"
	"unsafe"
)

// Instant is a reading of the clock, in ticks.
type Instant int64

var (
	kernel32  = syscall.NewLazyDLL("kernel32.dll") // one that every process has loaded, so that none other is found
	counter   = kernel32.NewProc("QueryPerformanceCounter").Addr()
	perSecond = func() (f int64) {
		_, _, _ = syscall.SyscallN(kernel32.NewProc("QueryPerformanceFrequency").Addr(), uintptr(unsafe.Pointer(&f)))
		return max(f, 1)
	}()
)

// Now reads the clock.
func Now() (i Instant) {
	_, _, _ = syscall.SyscallN(counter, uintptr(unsafe.Pointer(&i)))
	return i
}

// Sub is the time from an earlier reading to this one.
func (i Instant) Sub(earlier Instant) time.Duration {
	hi, lo := bits.Mul64(uint64(max(i-earlier, 0)), 1e9)
	q, _ := bits.Div64(hi%uint64(perSecond), lo, uint64(perSecond))
	return time.Duration(q)
}

// Since is the time that has passed since a reading.
func Since(i Instant) time.Duration { return Now().Sub(i) }
