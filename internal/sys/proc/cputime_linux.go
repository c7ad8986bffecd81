package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the CPU time of another process in ns, from its CPU clock (clock_getcpuclockid(3)); /proc only counts
// ticks of 10 ms.
func CPUTime(pid int) (time.Duration, bool) {
	const scheduler = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}

// FamilyCPUTime is the CPU time of another process, which has one thread or no children, of its children, and of those
// that have ended and been waited for. Kernels without CONFIG_PROC_CHILDREN do not say which they are.
func FamilyCPUTime(pid int) (time.Duration, error) {
	sum, ok := CPUTime(pid)
	if !ok {
		return 0, fmt.Errorf("read the CPU time of process %d", pid)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	for word := range strings.FieldsSeq(string(children)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			return 0, err
		}
		t, _ := CPUTime(child) // it may have just ended
		sum += t
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const user, system = 13, 14 // cutime and cstime
	ended, err := statNumbers(string(text), user, system)
	if err != nil {
		return 0, err
	}
	return sum + time.Duration(ended[0]+ended[1])*Tick, nil
}
