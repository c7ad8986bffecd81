//go:build linux && (amd64 || arm64 || riscv64)

package syscalls

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/sys/thread"
)

func newOperation(info opInfo) (operation, error) {
	switch info.name {
	case "null":
		return &nullCall{count: info.count}, nil
	case "switch":
		// Two switches to a round trip.
		return &pipeSwitch{trips: info.count / 2}, nil
	case "forkexec":
		return &forkExec{count: info.count}, nil
	case "fault":
		return &pageFault{maps: info.count / faultPages}, nil
	case "mmap":
		return &mapPair{count: info.count}, nil
	}
	return nil, fmt.Errorf("there is no operation %q", info.name)
}

// nullCall is getppid: it needs almost no work in the kernel, and is always a real system call, never answered by a
// library or the vDSO.
type nullCall struct{ count int }

func (*nullCall) prepare(string) error { return nil }
func (*nullCall) close() error         { return nil }

func (o *nullCall) round() (time.Duration, error) {
	var failed syscall.Errno
	start := time.Now()
	for range o.count {
		// Raw: the Go scheduler's bookkeeping would be a third of the figure.
		_, _, errno := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		failed |= errno
	}
	d := time.Since(start)
	if failed != 0 {
		return 0, fmt.Errorf("call getppid: %w", failed)
	}
	return d, nil
}

// pageFault writes to pages of fresh anonymous memory. Mapping and unmapping are not timed.
type pageFault struct {
	maps int

	page    int
	rounds  int64
	faulted int64 // minor faults of this thread in all rounds, by the kernel's count
}

func (o *pageFault) prepare(string) error {
	o.page = os.Getpagesize()
	return thread.CheckMemory(int64(faultPages * o.page))
}

func (*pageFault) close() error { return nil }

func (o *pageFault) round() (time.Duration, error) {
	spent := time.Duration(0)
	before := minorFaults()
	for range o.maps {
		d, err := o.touch()
		if err != nil {
			return 0, err
		}
		spent += d
	}
	o.faulted += minorFaults() - before
	o.rounds++
	return spent, nil
}

func (o *pageFault) touch() (time.Duration, error) {
	length := uintptr(faultPages * o.page)
	p, err := unix.MmapPtr(-1, 0, nil, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, fmt.Errorf("map memory: %w", err)
	}
	memory := unsafe.Slice((*byte)(p), length)
	// With a huge page one fault would serve 512 pages. EINVAL: this kernel has none.
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		_ = unix.MunmapPtr(p, length)
		return 0, fmt.Errorf("forbid huge pages: %w", err)
	}
	start := time.Now()
	for i := 0; i < len(memory); i += o.page {
		memory[i] = 1
	}
	d := time.Since(start)
	if err := unix.MunmapPtr(p, length); err != nil {
		return 0, fmt.Errorf("unmap memory: %w", err)
	}
	return d, nil
}

func (o *pageFault) note(b *workload.Bench) {
	perWrite := float64(o.faulted) / float64(o.rounds*int64(o.maps)*faultPages)
	b.Note("faults_per_first_write", fmt.Sprintf("%.2f", perWrite))
	if perWrite < 0.9 {
		b.Warn("fewer-faults-than-pages",
			fmt.Sprintf("the kernel counted %.2f page faults per first write to a page: it maps several pages at "+
				"once, or does not count faults", perWrite),
			"fault_ns is not the cost of one page fault here")
	}
}

// minorFaults returns the calling thread's count, 0 if the kernel does not report it.
func minorFaults() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return u.Minflt
}

// mapLength is the length that mapPair maps, in bytes.
const mapLength = 64 << 10

// mapPair maps and unmaps memory without touching it.
type mapPair struct{ count int }

func (*mapPair) prepare(string) error { return nil }
func (*mapPair) close() error         { return nil }

func (o *mapPair) round() (time.Duration, error) {
	var failed syscall.Errno
	start := time.Now()
	for range o.count {
		p, _, errno := syscall.RawSyscall6(unix.SYS_MMAP, 0, mapLength, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANON, ^uintptr(0), 0)
		if errno != 0 {
			return 0, fmt.Errorf("map memory: %w", errno)
		}
		_, _, errno = syscall.RawSyscall(unix.SYS_MUNMAP, p, mapLength, 0)
		failed |= errno
	}
	d := time.Since(start)
	if failed != 0 {
		return 0, fmt.Errorf("unmap memory: %w", failed)
	}
	return d, nil
}
