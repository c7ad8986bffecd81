package log

import (
	"bytes"
	"time"
)

const (
	second = int64(1_000_000) // in microseconds, as all times here
	hour   = 3600 * second
)

// clock turns what logs write into times. It remembers the last day, because a log has few.
type clock struct {
	zone *time.Location
	day  [10]byte
	base int64 // midnight of that day
	last int64 // the last local time, with shift
	// shift is what was added to local times since clocks were set back, and the log does not say so.
	shift   int64
	setBack int  // how often
	again   bool // the hour that comes twice has come again
}

// digits reads a decimal number of exactly these bytes, where a blank in front stands for 0.
func digits(b []byte) (int, bool) {
	n := 0
	for i, c := range b {
		if c == ' ' && n == 0 && i < len(b)-1 {
			continue
		}
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// timeOfDay reads hh:mm:ss and returns the bytes it takes, 0 for no time. The hour may have one digit.
func timeOfDay(b []byte) (us int64, length int) {
	if len(b) > 1 && b[1] == ':' {
		var padded [8]byte
		padded[0] = '0'
		if copy(padded[1:], b) < 7 {
			return 0, 0
		}
		us, length = timeOfDay(padded[:])
		return us, max(0, length-1)
	}
	if len(b) < 8 || b[2] != ':' || b[5] != ':' {
		return 0, 0
	}
	h, ok1 := digits(b[:2])
	m, ok2 := digits(b[3:5])
	s, ok3 := digits(b[6:8])
	if !ok1 || !ok2 || !ok3 || h > 23 || m > 59 || s > 60 {
		return 0, 0
	}
	return int64(h*3600+m*60+s) * second, 8
}

// fraction reads .123456 and returns microseconds, how fine they are, and the bytes.
func fraction(b []byte) (us, precision int64, length int) {
	precision = second
	if len(b) == 0 || b[0] != '.' && b[0] != ',' {
		return 0, precision, 0
	}
	i := 1
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if precision > 1 {
			precision /= 10
			us += int64(b[i]-'0') * precision
		}
	}
	return us, precision, i
}

// date reads yyyy-mm-dd or yymmdd and returns its midnight UTC and the bytes.
func (c *clock) date(b []byte) (us int64, length int) {
	if len(b) >= 10 && b[4] == '-' && b[7] == '-' {
		length = 10
	} else if len(b) >= 6 {
		length = 6
	} else {
		return 0, 0
	}
	if bytes.Equal(b[:length], bytes.TrimRight(c.day[:], "\x00")) {
		return c.base, length
	}
	var y, m, d int
	var ok1, ok2, ok3 bool
	if length == 10 {
		y, ok1 = digits(b[:4])
		m, ok2 = digits(b[5:7])
		d, ok3 = digits(b[8:10])
	} else {
		y, ok1 = digits(b[:2])
		m, ok2 = digits(b[2:4])
		d, ok3 = digits(b[4:6])
		if y += 2000; y >= 2070 {
			y -= 100
		}
	}
	if !ok1 || !ok2 || !ok3 || m < 1 || m > 12 || d < 1 || d > 31 || b[length-1] == ' ' {
		return 0, 0
	}
	c.base = time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC).UnixMicro()
	c.day = [10]byte{}
	copy(c.day[:], b[:length])
	return c.base, length
}

// local is the time of a clock on a wall. Where the hour comes twice, it is the second one if the log was past the
// first.
func (c *clock) local(us int64) int64 {
	if c.zone != nil && c.zone != time.UTC {
		us = c.inZone(us)
	} else if us+c.shift < c.last-hour*5/6 && us+c.shift >= c.last-hour*7/6 {
		c.shift += hour
		c.setBack++
	}
	us += c.shift
	c.last = us
	return us
}

// inZone is what a clock on a wall of the zone means.
func (c *clock) inZone(wall int64) int64 {
	t := time.UnixMicro(wall).UTC()
	us := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), c.zone).UnixMicro()
	for _, other := range []int64{us - hour, us + hour} {
		if w := time.UnixMicro(other).In(c.zone); w.Hour() != t.Hour() || w.Minute() != t.Minute() {
			continue
		}
		// Lines may be a little out of order.
		first, second := min(us, other), max(us, other)
		if c.again = c.again || first < c.last-hour/2; c.again {
			return second
		}
		return first
	}
	c.again = false
	return us
}

// stamp reads yyyy-mm-dd, T or a blank, hh:mm:ss with or without a fraction, and Z, an offset, the name of a zone after
// a blank, or nothing. It returns the bytes, 0 for no time.
func (c *clock) stamp(b []byte) (us, precision int64, length int) {
	day, n := c.date(b)
	if n != 10 || len(b) <= n || b[n] != 'T' && b[n] != ' ' {
		return 0, 0, 0
	}
	n++
	clock, k := timeOfDay(b[n:])
	if k == 0 {
		return 0, 0, 0
	}
	n += k
	frac, precision, k := fraction(b[n:])
	n += k
	us = day + clock + frac
	offset, k, known := zoneOf(b[n:])
	if n += k; known {
		return us - offset, precision, n
	}
	return c.local(us), precision, n
}

// zoneOf reads what follows a time. Names other than those of UTC are not known here: times are then local.
func zoneOf(b []byte) (offset int64, length int, known bool) {
	if len(b) > 0 && b[0] == 'Z' {
		return 0, 1, true
	}
	n := 0
	if len(b) > 1 && b[0] == ' ' {
		n = 1
	}
	if len(b) >= n+3 && (b[n] == '+' || b[n] == '-') {
		h, ok := digits(b[n+1 : n+3])
		if !ok || h > 15 {
			return 0, 0, false
		}
		length, m := n+3, 0
		if len(b) >= n+6 && b[n+3] == ':' {
			if m, ok = digits(b[n+4 : n+6]); ok {
				length = n + 6
			}
		} else if len(b) >= n+5 {
			if m, ok = digits(b[n+3 : n+5]); ok {
				length = n + 5
			} else {
				m = 0
			}
		}
		offset = int64(h*3600+m*60) * second
		if b[n] == '-' {
			offset = -offset
		}
		return offset, length, true
	}
	if n == 0 {
		return 0, 0, false
	}
	for length = n; length < len(b) && length < n+6 && b[length] >= 'A' && b[length] <= 'Z'; length++ {
	}
	switch name := string(b[n:length]); {
	case name == "UTC" || name == "GMT" || name == "Z":
		return 0, length, true
	case length < n+2 || length < len(b) && (b[length] >= 'a' && b[length] <= 'z'):
		return 0, 0, false
	}
	return 0, length, false
}

// old reads yymmdd hh:mm:ss, the time of MySQL before 5.7 and of MariaDB. It returns the bytes, 0 for no time.
func (c *clock) old(b []byte) (us, precision int64, length int) {
	if len(b) < 14 || b[6] != ' ' {
		return 0, 0, 0
	}
	day, n := c.date(b[:6])
	if n == 0 {
		return 0, 0, 0
	}
	for n < len(b) && n < 10 && b[n] == ' ' {
		n++
	}
	clock, k := timeOfDay(b[n:])
	if k == 0 {
		return 0, 0, 0
	}
	n += k
	frac, precision, k := fraction(b[n:])
	return c.local(day + clock + frac), precision, n + k
}
