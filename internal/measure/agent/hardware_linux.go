//go:build !slim

package agent

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/record"
)

// hardware is what the processor counts.
type hardware struct {
	fds [len(events)]int // -1: not there
}

// events are the processor's counters of the calling thread, which is the one that does the trial, and of the processes
// that it starts.
var events = [...]struct {
	name            string
	config, exclude uint64
}{
	{record.InstructionsUser, unix.PERF_COUNT_HW_INSTRUCTIONS, unix.PerfBitExcludeKernel},
	{record.InstructionsKernel, unix.PERF_COUNT_HW_INSTRUCTIONS, unix.PerfBitExcludeUser},
	{record.CyclesUser, unix.PERF_COUNT_HW_CPU_CYCLES, unix.PerfBitExcludeKernel},
	{record.CyclesKernel, unix.PERF_COUNT_HW_CPU_CYCLES, unix.PerfBitExcludeUser},
}

var eventType uint32 = unix.PERF_TYPE_HARDWARE // tests have a type that every machine has

// open starts the counters of the processor.
func (h *hardware) open(to map[string]string) {
	for i, e := range events {
		fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
			Type: eventType, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: e.config,
			Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
			Bits:        e.exclude | unix.PerfBitExcludeHv | unix.PerfBitInherit,
		}, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			fd = -1
			put(to, e.name, nil, err)
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
		_, err := unix.Read(fd, (*[unsafe.Sizeof(v)]byte)(unsafe.Pointer(&v))[:])
		put(to, events[i].name, []byte(fmt.Sprint(v)), err)
		_ = unix.Close(fd)
	}
}
