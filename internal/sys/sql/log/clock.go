package log

import (
	"bytes"
	"time"
)

const (
	second = int64(1_000_000) // in microseconds, as all times here
	hour   = 3600 * second
)

// clock turns a log's time texts into times. Reading the time of a line does not move it, so that a line may be looked
// at twice; at moves it. It remembers the last day, because a log has few.
type clock struct {
	zone *time.Location
	day  [10]byte
	base int64 // midnight of that day
	last int64 // the last local time, with shift
	// shift is the correction of local times since clocks were set back, where the log does not tell, in microseconds.
	shift   int64
	setBack int  // how often
	again   bool // the hour that comes twice has come again
	// told is the name of a zone that a note was written about last.
	told string
	note func(format string, args ...any)
}

// reading is a time as a log has it.
type reading struct {
	us, precision int64
	local         bool   // a clock on a wall; else UTC
	zone          string // the name of its zone, where the log has one
}

// at is the time that was read. Times have to come in the order of the log.
func (c *clock) at(t reading) int64 {
	if !t.local {
		return t.us
	}
	return c.local(t.us, t.zone)
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
	if !ok1 || !ok2 || !ok3 || y < 1969 || m < 1 || m > 12 || d < 1 || d > 31 || b[length-1] == ' ' {
		return 0, 0
	}
	c.base = time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC).UnixMicro()
	c.day = [10]byte{}
	copy(c.day[:], b[:length])
	return c.base, length
}

// local is the time of a clock on a wall, with the name of its zone, if the log has one. Where an hour comes twice, it
// is the one that the name says, and without a name the second one if the log was past the first.
func (c *clock) local(us int64, name string) int64 {
	utc := c.zone == nil || c.zone == time.UTC
	if !utc {
		if t, ok := c.inZone(us, name); ok {
			c.last = t
			return t
		}
	}
	if name != "" {
		offset, known := zones[name]
		if c.told != name && c.note != nil {
			c.told = name
			switch {
			case !utc:
				c.note("times are in %s, which the zone %s does not have", name, c.zone)
			case !known:
				c.note("times are in %s, which more than one zone has, and were read as UTC: give --zone", name)
			case name == "PST":
				c.note("PST was read as that of America: give --zone for another")
			}
		}
		if known {
			c.last = us - int64(offset)*60*second
			return c.last
		}
	}
	if !utc {
		us, _ = c.inZone(us, "")
		c.last = us
		return us
	}
	if us+c.shift < c.last-hour*5/6 && us+c.shift >= c.last-hour*7/6 {
		c.shift += hour
		c.setBack++
	}
	us += c.shift
	c.last = us
	return us
}

// zones are the names of zones that mean one distance from UTC wherever they are used, in minutes. CST and CDT are
// America's, China's and Cuba's, IST that of India, Israel and Ireland.
var zones = map[string]int{"CET": 60, "CEST": 120, "EET": 120, "EEST": 180, "WET": 0, "WEST": 60, "MSK": 180, "BST": 60,
	"EST": -300, "EDT": -240, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420, "AKST": -540, "AKDT": -480,
	"HST": -600, "HDT": -540, "AST": -240, "ADT": -180, "NST": -210, "NDT": -150, "JST": 540, "KST": 540, "HKT": 480,
	"PKT": 300, "WIB": 420, "WITA": 480, "WIT": 540, "AWST": 480, "ACST": 570, "ACDT": 630, "AEST": 600, "AEDT": 660,
	"NZST": 720, "NZDT": 780, "SAST": 120, "WAT": 60, "CAT": 120, "EAT": 180}

// inZone returns the time at which a clock on a wall of the zone shows wall. It returns false for a name that the zone
// does not have then.
func (c *clock) inZone(wall int64, name string) (us int64, ok bool) {
	const day = 24 * hour
	first, one := c.offset(wall-day, wall)
	second, two := c.offset(wall+day, wall)
	if second < first {
		first, second, one, two = second, first, two, one
	}
	if name != "" {
		switch {
		case name == one:
			return first, true
		case name == two:
			return second, true
		}
		return first, false
	}
	switch {
	case first == second:
	case one == "" && two == "", two == "": // a clock on a wall never shows it, or only so
		c.again = false
		return first, true
	case one == "":
	default:
		// Lines may be a little out of order.
		if c.again = c.again || first < c.last-(second-first)/6; c.again {
			return second, true
		}
		return first, true
	}
	c.again = false
	return second, true
}

// offset returns the time at which a clock on the wall shows wall, by the distance from UTC that the zone has around
// another time, and the name of the zone then; none if the zone has another distance then.
func (c *clock) offset(around, wall int64) (us int64, name string) {
	_, distance := time.UnixMicro(around).In(c.zone).Zone()
	us = wall - int64(distance)*second
	name, then := time.UnixMicro(us).In(c.zone).Zone()
	if then != distance {
		return us, ""
	}
	return us, name
}

// stamp reads yyyy-mm-dd, T or a blank, hh:mm:ss with or without a fraction, and Z, an offset, the name of a zone after
// a blank, or nothing. It returns the bytes, 0 for no time.
func (c *clock) stamp(b []byte) (t reading, length int) {
	day, n := c.date(b)
	if n != 10 || len(b) <= n || b[n] != 'T' && b[n] != ' ' {
		return t, 0
	}
	n++
	clock, k := timeOfDay(b[n:])
	if k == 0 {
		return t, 0
	}
	n += k
	frac, precision, k := fraction(b[n:])
	n += k
	offset, k, known := zoneOf(b[n:])
	t = reading{us: day + clock + frac, precision: precision, local: !known}
	if known {
		t.us -= offset
	} else if k > 0 {
		t.zone = zoneName(b[n+1 : n+k])
	}
	return t, n + k
}

// zoneName is a text for the name of a zone, the same one for all that are known.
func zoneName(b []byte) string {
	if n, ok := zoneNames[string(b)]; ok {
		return n
	}
	return string(b)
}

var zoneNames = func() map[string]string {
	m := map[string]string{"CST": "CST", "CDT": "CDT", "IST": "IST", "IDT": "IDT"}
	for n := range zones {
		m[n] = n
	}
	return m
}()

// zoneOf reads the zone behind a time. Names other than those of UTC are not known here: times are then local.
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
			// Behind a blank it is the name of a zone, and the text after it may be another part of a prefix.
			after := byte(' ')
			if len(b) > n+6 {
				after = b[n+6]
			}
			if m, ok = digits(b[n+4 : n+6]); ok && (n == 0 || after <= ' ') {
				length = n + 6
			} else {
				m = 0
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
	case length < n+2 || length < len(b) && (b[length] >= 'a' && b[length] <= 'z'),
		length < len(b) && b[length] == ':' && severityNamed(b[n:length]) != noSeverity:
		return 0, 0, false
	}
	return 0, length, false
}

// old reads yymmdd hh:mm:ss, the time of MySQL before 5.7 and of MariaDB. It returns the bytes, 0 for no time.
func (c *clock) old(b []byte) (t reading, length int) {
	if len(b) < 14 || b[6] != ' ' {
		return t, 0
	}
	day, n := c.date(b[:6])
	if n == 0 {
		return t, 0
	}
	for n < len(b) && n < 10 && b[n] == ' ' {
		n++
	}
	clock, k := timeOfDay(b[n:])
	if k == 0 {
		return t, 0
	}
	n += k
	frac, precision, k := fraction(b[n:])
	return reading{us: day + clock + frac, precision: precision, local: true}, n + k
}
