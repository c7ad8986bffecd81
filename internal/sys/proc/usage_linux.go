package proc

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// Tick is the unit of a process's times on Linux, on every architecture (USER_HZ).
const Tick = 10 * time.Millisecond

// Usage returns the resources of a process: CPU time of all its threads, and resident memory in bytes.
func Usage(pid int) (cpu time.Duration, rss int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read usage of process %d: %w", pid, err)
	}
	return parseStat(string(text))
}

// parseStat reads the usage from /proc/PID/stat.
func parseStat(text string) (cpu time.Duration, rss int64, err error) {
	const utime, stime, pages = 11, 12, 21
	n, err := statNumbers(text, utime, stime, pages)
	if err != nil {
		return 0, 0, err
	}
	page := int64(os.Getpagesize())
	if ticks := math.MaxInt64 / int64(Tick); n[0] > ticks || n[1] > ticks-n[0] || n[2] > math.MaxInt64/page {
		return 0, 0, fmt.Errorf("read usage of a process: %d and %d ticks, %d pages", n[0], n[1], n[2])
	}
	return time.Duration(n[0]+n[1]) * Tick, n[2] * page, nil
}

// statNumbers reads fields of /proc/PID/stat (proc(5)), counted from the state, which follows the name. The name in
// parentheses may hold anything.
func statNumbers(text string, at ...int) ([]int64, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	var all []int64
	for _, i := range at {
		if i >= len(fields) {
			return nil, fmt.Errorf("read usage of a process: only %d fields after the name", len(fields))
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("read usage of a process: field %d is %.20q", i+3, fields[i])
		}
		all = append(all, n)
	}
	return all, nil
}
