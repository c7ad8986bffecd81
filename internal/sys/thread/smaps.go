package thread

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// smapsRange adds up Rss and AnonHugePages, in bytes, of the mappings in an smaps file that overlap [start, end). A
// mapping that extends beyond the range counts completely: the kernel merges neighbours and does not report which part
// is huge.
func smapsRange(r io.Reader, start, end uint64) (rss, huge uint64, err error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), 64<<10)
	inside := false
	for sc.Scan() {
		line := sc.Bytes()
		if lo, hi, ok := smapsHeader(line); ok {
			inside = lo < end && hi > start
			continue
		}
		if !inside {
			continue
		}
		if v, ok := kilobytes(line, "Rss:"); ok {
			rss += v
		} else if v, ok := kilobytes(line, "AnonHugePages:"); ok {
			huge += v
		}
	}
	if err := sc.Err(); err != nil {
		return 0, 0, fmt.Errorf("parse smaps: %w", err)
	}
	return rss, huge, nil
}

// smapsHeader reads "7f2c1c000000-7f2c2c001000 rw-p ...", the first line of each mapping.
func smapsHeader(line []byte) (lo, hi uint64, ok bool) {
	addresses, _, found := bytes.Cut(line, []byte(" "))
	a, b, dash := bytes.Cut(addresses, []byte("-"))
	if !found || !dash {
		return 0, 0, false
	}
	lo, err1 := strconv.ParseUint(string(a), 16, 64)
	hi, err2 := strconv.ParseUint(string(b), 16, 64)
	return lo, hi, err1 == nil && err2 == nil
}

// kilobytes reads a line such as "MemAvailable:   123 kB" and returns bytes.
func kilobytes(line []byte, name string) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(name))
	if !ok {
		return 0, false
	}
	f := bytes.Fields(rest)
	if len(f) != 2 || string(f[1]) != "kB" {
		return 0, false
	}
	v, err := strconv.ParseUint(string(f[0]), 10, 64)
	if err != nil || v >= 1<<53 {
		return 0, false
	}
	return v << 10, true
}
