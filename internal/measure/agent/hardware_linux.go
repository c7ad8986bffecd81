package agent

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/record"
)

// hardware has the processor's counters.
type hardware struct {
	fds [len(events)]int // -1: not there
}

// dataTLBMisses are reads that miss the table of pages for data, as an event of a cache.
const dataTLBMisses = unix.PERF_COUNT_HW_CACHE_DTLB | unix.PERF_COUNT_HW_CACHE_OP_READ<<8 |
	unix.PERF_COUNT_HW_CACHE_RESULT_MISS<<16

// events are the processor's counters of the calling thread, which is the one that does the trial, and of the processes
// that it starts. Those that are pinned count all the time or not at all; the misses take turns at what is left.
var events = [...]struct {
	name            string
	cache           bool // config is an event of a cache
	config, exclude uint64
	pinned          uint64
}{
	{record.InstructionsUser, false, unix.PERF_COUNT_HW_INSTRUCTIONS, notKernel, unix.PerfBitPinned},
	{record.InstructionsKernel, false, unix.PERF_COUNT_HW_INSTRUCTIONS, notUser, unix.PerfBitPinned},
	{record.CyclesUser, false, unix.PERF_COUNT_HW_CPU_CYCLES, notKernel, unix.PerfBitPinned},
	{record.CyclesKernel, false, unix.PERF_COUNT_HW_CPU_CYCLES, notUser, unix.PerfBitPinned},
	{record.CacheMissesUser, false, unix.PERF_COUNT_HW_CACHE_MISSES, notKernel, 0},
	{record.CacheMissesKernel, false, unix.PERF_COUNT_HW_CACHE_MISSES, notUser, 0},
	{record.BranchMissesUser, false, unix.PERF_COUNT_HW_BRANCH_MISSES, notKernel, 0},
	{record.BranchMissesKernel, false, unix.PERF_COUNT_HW_BRANCH_MISSES, notUser, 0},
	{record.TLBMissesUser, true, dataTLBMisses, notKernel, 0},
	{record.TLBMissesKernel, true, dataTLBMisses, notUser, 0},
}

const notKernel, notUser = unix.PerfBitExcludeKernel, unix.PerfBitExcludeUser

var eventType uint32 = unix.PERF_TYPE_HARDWARE // tests have a type that every machine has

// open starts the counters of the processor. Where there is none for instructions, there is none for misses.
func (h *hardware) open(to map[string]string) {
	for i, e := range events {
		h.fds[i] = -1
		if i > 0 && h.fds[0] < 0 && e.pinned == 0 {
			to[e.name] = to[events[0].name]
			continue
		}
		kind := eventType
		if e.cache {
			kind = unix.PERF_TYPE_HW_CACHE
		}
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
			Type: kind, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: e.config,
			Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
			Bits:        e.exclude | e.pinned | unix.PerfBitExcludeHv | unix.PerfBitInherit,
		}, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			put(to, e.name, nil, err)
			continue
		}
		h.fds[i] = fd
	}
}

// close reads them: each count, and how long it was wanted and had one of the processor's counters, in ns.
func (h *hardware) close(to map[string]string) {
	var v [3]uint64
	for i, fd := range h.fds {
		if fd < 0 {
			continue
		}
		n, err := unix.Read(fd, (*[unsafe.Sizeof(v)]byte)(unsafe.Pointer(&v))[:])
		if err == nil && n == 0 {
			err = unix.EBUSY // a pinned one that had no counter of the processor's has ended
		}
		put(to, events[i].name, []byte(fmt.Sprint(v)), err)
		_ = unix.Close(fd)
	}
}
