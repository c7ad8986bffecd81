package wire

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Go's own monotonic clock on Windows reads the interrupt time, which moves in steps of 0.5 to 15.6 ms
// (golang/go#31160). The performance counter moves in steps of 100 ns or less.
var (
	kernel32  = windows.NewLazySystemDLL("kernel32.dll")
	counter   = kernel32.NewProc("QueryPerformanceCounter")
	perSecond = func() (f int64) {
		kernel32.NewProc("QueryPerformanceFrequency").Call(uintptr(unsafe.Pointer(&f)))
		return max(f, 1)
	}()
	began = ticks()
)

func ticks() (n int64) {
	counter.Call(uintptr(unsafe.Pointer(&n)))
	return n
}

// Now is the process's monotonic clock, in ns since the program began. Both ends stamp with it.
func Now() int64 {
	hi, lo := bits.Mul64(uint64(ticks()-began), 1e9)
	q, _ := bits.Div64(hi%uint64(perSecond), lo, uint64(perSecond))
	return int64(q)
}
