// Package energy reads how much energy a machine has used: from the counters of its processors (RAPL), from its
// battery, or from a meter outside, by a command of the user's.
//
// Each source counts joules of a whole machine and is read twice. What the machine takes while it does nothing, and
// what all its programs take, is in the difference. A source that tells only watts is none: the power of one moment
// says nothing of the time between two readings. What cannot be told is an error with the reason, and never 0.
package energy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The sources.
const (
	Auto    = "auto"    // RAPL if it can be read, else Battery
	RAPL    = "rapl"    // the processors' own counters, on Linux
	Battery = "battery" // the rest in the battery, on Linux
	Meter   = "meter"   // a command that prints joules
)

// Source is something that counts energy. It is not safe for concurrent use.
type Source interface {
	// Name is the name of the source, not Auto.
	Name() string
	// Read reads the counters.
	Read(ctx context.Context) (Reading, error)
}

// Open finds a source by its name, and reads it once. The error says why there is none. command is that of a Meter; sys
// is where the kernel's files are, /sys.
func Open(ctx context.Context, name string, command []string, sys string) (Source, error) {
	switch name {
	case Meter:
		return proven(ctx, &meter{command: command})
	case RAPL:
		return proven(ctx, &rapl{sys: sys})
	case Battery:
		return proven(ctx, &battery{sys: sys})
	case Auto:
		s, err := proven(ctx, &rapl{sys: sys})
		if err == nil {
			return s, nil
		}
		b, other := proven(ctx, &battery{sys: sys})
		if other == nil {
			return b, nil
		}
		return nil, fmt.Errorf("%w; %w", err, other)
	}
	return nil, fmt.Errorf("there is no source of energy %q", name)
}

// proven reads a source that may not be there.
func proven(ctx context.Context, s Source) (Source, error) {
	if _, err := s.Read(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Reading are the counters of a source at one time.
type Reading struct {
	Began, Ended time.Time // of the reading itself
	counters     []counter
	least        time.Duration // a reading sooner than this after another one says too little
}

// At is the middle of the reading.
func (r Reading) At() time.Time { return r.Began.Add(r.Ended.Sub(r.Began) / 2) }

// counter is one of them.
type counter struct {
	name   string
	value  float64 // whole numbers below 2^53 are exact
	joules float64 // of one
	most   float64 // the value before it starts again at 0; 0: it does not
	step   float64 // what it changes by at least, as far as this value tells
	falls  bool    // it tells the rest, and not the use
	inside bool    // it is a part of another one, or has others in it: it does not belong to the sum
}

// Used is the energy used between two readings.
type Used struct {
	Joules float64
	Parts  []Part // of each counter, also of those that are not in the sum
}

// Part is the energy by one counter.
type Part struct {
	Name   string
	Joules float64
}

const (
	// leastSteps is the number of its steps that a counter must have moved: a reading is wrong by up to one of them.
	leastSteps = 20
	// mostWatts is more than any processor takes for long. A counter that could have gone round twice at that is not
	// trusted.
	mostWatts = 500
)

// Between returns the energy used between two readings of one source. The error says why that is not known.
func Between(before, after Reading) (u Used, err error) {
	took := after.At().Sub(before.At())
	if took < after.least {
		return u, fmt.Errorf("%v between two readings is too short for its counters, which are kept up to date every "+
			"so often: at least %v are needed", took.Round(time.Millisecond), after.least)
	}
	coarsest := 0.0
	for i, now := range after.counters {
		if i >= len(before.counters) || before.counters[i].name != now.name {
			return Used{}, errors.New("its counters are not the same as before the trial")
		}
		d, err := difference(before.counters[i], now, took)
		if err != nil {
			return Used{}, err
		}
		joules := d * (now.joules + before.counters[i].joules) / 2
		u.Parts = append(u.Parts, Part{now.name, joules})
		if !now.inside {
			coarsest = max(coarsest, now.joules*min(now.step, before.counters[i].step))
			u.Joules += joules
		}
	}
	if len(after.counters) != len(before.counters) {
		return Used{}, errors.New("its counters are not the same as before the trial")
	}
	if !(u.Joules >= leastSteps*coarsest) || !(u.Joules > 0) || math.IsInf(u.Joules, 0) {
		return Used{}, fmt.Errorf("its counter moved by %.4g J, and it goes in steps of %.4g J: a trial must use at "+
			"least %d of them; make trials longer (trial: in a plan)", u.Joules, coarsest, leastSteps)
	}
	return u, nil
}

// difference is how far a counter went, in its own unit.
func difference(before, now counter, took time.Duration) (float64, error) {
	d := now.value - before.value
	if now.falls {
		d = -d
	}
	if most := now.most; most > 0 {
		if took.Seconds()*mostWatts > most*now.joules {
			return 0, fmt.Errorf("the counter of %s starts again every %.4g J, which it may have done more than once "+
				"in %v", now.name, most*now.joules, took.Round(time.Second))
		}
		if d < 0 && most >= before.value {
			d += most
		}
	}
	if d < 0 {
		return 0, fmt.Errorf("the counter of %s went backwards", now.name)
	}
	return d, nil
}

// mostRead bounds a file of the kernel's, in bytes.
const mostRead = 64

// text reads a file of one short line.
func text(parts ...string) (string, error) {
	f, err := os.Open(filepath.Join(parts...))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, mostRead)
	n, err := f.Read(b)
	if n == 0 && err != nil {
		return "", err
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b[:n]), "?")), nil
}

// mostCount is the greatest count that is taken for one: from there on, counts are not exact any more.
const mostCount = 1 << 53

// count reads a file of one whole number.
func count(parts ...string) (float64, error) {
	s, err := text(parts...)
	if err != nil {
		return 0, err
	}
	v, err := parseCount(s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", parts[len(parts)-1], err)
	}
	return v, nil
}

func parseCount(s string) (float64, error) {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v >= mostCount {
		return 0, fmt.Errorf("%.40q is not a count", s)
	}
	return float64(v), nil
}

// mostEntries bounds the devices of a class that are looked at.
const mostEntries = 256

// class lists the devices of a class, in order.
func class(sys, name string) []string {
	entries, err := os.ReadDir(filepath.Join(sys, "class", name))
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries[:min(len(entries), mostEntries)] {
		all = append(all, e.Name())
	}
	slices.Sort(all)
	return all
}
