package restore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of a process's times (USER_HZ).
const tick = 10 * time.Millisecond

// cpu is the CPU time of the server: of its first process, of the children that it has reaped, and of those still
// running.
func (d *database) cpu() (time.Duration, error) {
	pid := strconv.Itoa(d.server.Pid())
	const own, reaped = 11, 13 // places of utime and cutime behind the name (proc(5)); the system's times follow
	sum, err := processTime(pid, own, reaped)
	if err != nil {
		return 0, err
	}
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(children)) {
		t, err := processTime(child, own)
		if err != nil {
			continue // it has ended, and will be counted among the reaped ones
		}
		sum += t
	}
	return sum, nil
}

// processTime adds up pairs of times in /proc/PID/stat.
func processTime(pid string, at ...int) (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var sum int64
	for _, i := range at {
		for _, j := range []int{i, i + 1} {
			if j >= len(fields) {
				return 0, fmt.Errorf("read the times of process %s: there are only %d fields", pid, len(fields))
			}
			n, err := strconv.ParseInt(fields[j], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the times of process %s: %w", pid, err)
			}
			sum += n
		}
	}
	return time.Duration(sum) * tick, nil
}
