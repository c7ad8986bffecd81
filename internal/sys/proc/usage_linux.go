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

// parseStat reads /proc/PID/stat (proc(5)). The name in parentheses may hold anything.
func parseStat(text string) (cpu time.Duration, rss int64, err error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const utime, stime, pages = 11, 12, 21 // counted from the state, which follows the name
	if len(fields) <= pages {
		return 0, 0, fmt.Errorf("read usage of a process: only %d fields after the name", len(fields))
	}
	var n [3]int64
	for i, at := range []int{utime, stime, pages} {
		if n[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil || n[i] < 0 {
			return 0, 0, fmt.Errorf("read usage of a process: field %d is %.20q", at+3, fields[at])
		}
	}
	page := int64(os.Getpagesize())
	if ticks := math.MaxInt64 / int64(Tick); n[0] > ticks || n[1] > ticks-n[0] || n[2] > math.MaxInt64/page {
		return 0, 0, fmt.Errorf("read usage of a process: %d and %d ticks, %d pages", n[0], n[1], n[2])
	}
	return time.Duration(n[0]+n[1]) * Tick, n[2] * page, nil
}
