package sql

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"tare/internal/sys/proc"
)

// serverCPU is the CPU time of a server: of its process, of that one's children, which PostgreSQL has for its
// connections, and of the children that have ended.
func serverCPU(pid int) (used time.Duration, ok bool) {
	if used, ok = proc.CPUTime(pid); !ok {
		return 0, false
	}
	// PostgreSQL's main process has one thread. Kernels without CONFIG_PROC_CHILDREN lack the list.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, false
	}
	for word := range strings.FieldsSeq(string(children)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			return 0, false
		}
		t, _ := proc.CPUTime(child) // it may have just ended
		used += t
	}
	ended, err := endedChildren(pid)
	return used + ended, err == nil
}

// endedChildren is the CPU time of the children that have ended and been waited for (proc(5), cutime and cstime).
func endedChildren(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const user, system = 13, 14 // counted from the state, which follows the name in parentheses
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("%d fields in /proc/%d/stat", len(fields), pid)
	}
	var ticks int64
	for _, at := range []int{user, system} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * proc.Tick, nil
}
