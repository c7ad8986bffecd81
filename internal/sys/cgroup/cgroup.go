// Package cgroup makes control groups of Linux, version 1 and version 2, sets limits in them and removes them.
//
// It is opinionated about place. A group is made at the top of its hierarchy, beside those of everybody else, so that a
// weight is one among theirs. The names are the caller's, who finds what a killed process left behind by them.
package cgroup

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/sys/mountinfo"
)

// ErrUnavailable says that no group can be made here, whatever its limits are.
var ErrUnavailable = errors.New("control groups cannot be made")

// Limits are those of a group. A value of 0 or "" is no limit.
type Limits struct {
	// Weight is the share of processor time if all want it, as version 1 counts: 2 to 262144, and a group without one
	// has 1024. Version 2 counts from 1 to 10000, and has 100 for that.
	Weight int64
	Quota  float64 // processor time, in processors: 0.5 is 50 ms of each 100 ms
	CPUs   string  // the processors, as a list such as 0-1,3
	Memory int64   // bytes
	Rates  []Rate
}

// Rate limits the transfers to or from a disk.
type Rate struct {
	Disk  string // MAJOR:MINOR of a whole disk
	Write bool   // else reads
	Ops   bool   // Limit counts operations, else bytes
	Limit uint64 // a second
}

// The controllers of the kernel that limits need.
const (
	cpu    = "cpu"
	cpuset = "cpuset"
	memory = "memory"
	block  = "blkio" // "io" in version 2
)

// Bounds of a weight.
const (
	LeastWeight = 2
	MostWeight  = 262144
)

// period is that of a quota, in µs: the kernel's own.
const period = 100_000

// controllers are those that the limits need.
func (l *Limits) controllers() (names []string) {
	if l.Weight > 0 || l.Quota > 0 {
		names = append(names, cpu)
	}
	if l.CPUs != "" {
		names = append(names, cpuset)
	}
	if l.Memory > 0 {
		names = append(names, memory)
	}
	if len(l.Rates) > 0 {
		names = append(names, block)
	}
	return names
}

// None tells whether nothing is limited.
func (l *Limits) None() bool { return len(l.controllers()) == 0 }

// setting is a value for a file of a group.
type setting struct{ file, value string }

// settings are the files of a group that a controller's limits are written to, in that order.
func (l *Limits) settings(controller string, v2 bool) (all []setting) {
	add := func(one, two, value string) {
		if v2 {
			one = two
		}
		all = append(all, setting{one, value})
	}
	switch controller {
	case cpu:
		if l.Weight > 0 {
			weight := l.Weight
			if v2 {
				weight = min(max(1, (weight*100+512)/1024), 10_000)
			}
			add("cpu.shares", "cpu.weight", strconv.FormatInt(weight, 10))
		}
		if l.Quota > 0 {
			us := strconv.FormatInt(int64(math.Round(l.Quota*period)), 10)
			if v2 {
				us += " " + strconv.Itoa(period)
			}
			add("cpu.cfs_quota_us", "cpu.max", us)
		}
	case cpuset:
		add("cpuset.cpus", "cpuset.cpus", l.CPUs)
	case memory:
		add("memory.limit_in_bytes", "memory.max", strconv.FormatInt(l.Memory, 10))
	case block:
		for _, r := range l.Rates {
			verb, what := "read", "bps"
			if r.Write {
				verb = "write"
			}
			if r.Ops {
				what = "iops"
			}
			limit := strconv.FormatUint(r.Limit, 10)
			if v2 {
				limit = verb[:1] + what + "=" + limit
			}
			add("blkio.throttle."+verb+"_"+what+"_device", "io.max", r.Disk+" "+limit)
		}
	}
	return all
}

// hierarchy is where the groups of a controller are made.
type hierarchy struct {
	dir string
	v2  bool
}

// mount is a mounted hierarchy.
type mount struct {
	dir     string
	v2      bool
	options []string // of version 1: its controllers, among others
}

// mounts finds the hierarchies in the text of /proc/self/mountinfo.
func mounts(text string) (all []mount) {
	for _, m := range mountinfo.Parse(text) {
		if m.Kind == "cgroup" || m.Kind == "cgroup2" {
			all = append(all, mount{dir: m.Point, v2: m.Kind == "cgroup2", options: strings.Split(m.Super, ",")})
		}
	}
	return all
}

// find tells which of the hierarchies has a controller. offers lists the controllers of the root of one of version 2.
func find(all []mount, controller string, offers func(dir string) []string) (hierarchy, bool) {
	for _, m := range all {
		name := controller
		if m.v2 && name == block {
			name = "io"
		}
		if m.v2 && slices.Contains(offers(m.dir), name) || !m.v2 && slices.Contains(m.options, name) {
			return hierarchy{m.dir, m.v2}, true
		}
	}
	return hierarchy{}, false
}

// MaxCPU is the largest number of a processor that a list may have: the size of the kernel's default mask.
const MaxCPU = 1023

// ParseCPUs parses a list of processors such as 0-1,3. Empty text is an empty list.
func ParseCPUs(list string) ([]int, error) {
	var cpus []int
	if list == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		a, err1 := strconv.ParseUint(low, 10, 16)
		b, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || a > b || b > MaxCPU || len(cpus) > MaxCPU {
			return nil, fmt.Errorf("%q is not a list of processors such as 0 or 0-1,3", list)
		}
		for n := a; n <= b; n++ {
			cpus = append(cpus, int(n))
		}
	}
	return cpus, nil
}
