package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
)

// Memory returns the memory of a process in bytes: its resident size, and the share of that when each page that several
// processes share counts in equal parts for them (PSS). proportional is 0 if the kernel does not tell it: before Linux
// 4.14, or for a process that this one may not look into.
func Memory(pid int) (resident, proportional int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err == nil {
		defer f.Close()
		if resident, proportional, err = parseRollup(f); err == nil && resident > 0 {
			return resident, proportional, nil
		}
	}
	_, resident, err = Usage(pid)
	return resident, 0, err
}

// mostRollup bounds a smaps_rollup: one mapping's lines.
const mostRollup = 64 << 10

// parseRollup reads Rss and Pss of /proc/PID/smaps_rollup, in bytes.
func parseRollup(r io.Reader) (rss, pss int64, err error) {
	for sc := bufio.NewScanner(io.LimitReader(r, mostRollup)); ; {
		if !sc.Scan() {
			if err := sc.Err(); err != nil {
				return 0, 0, fmt.Errorf("read memory of a process: %w", err)
			}
			return rss, pss, nil
		}
		name, value, _ := bytes.Cut(sc.Bytes(), []byte(":"))
		into := map[string]*int64{"Rss": &rss, "Pss": &pss}[string(name)]
		if into == nil {
			continue
		}
		kib, ok := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB"))
		n, err := strconv.ParseInt(string(bytes.TrimSpace(kib)), 10, 64)
		if !ok || err != nil || n < 0 || n > 1<<50 {
			return 0, 0, fmt.Errorf("read memory of a process: %s is %.20q", name, value)
		}
		*into = n << 10
	}
}
