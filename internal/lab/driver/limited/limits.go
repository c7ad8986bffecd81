// Package limited has the shared parts of drivers that limit an environment by control groups: the settings, and for
// drivers whose environments are processes of this machine the group itself, which is made for one environment and
// removed with it.
package limited

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/sys/cgroup"
	"tare/internal/unit"
)

// Names of settings.
const (
	Weight = "weight"
	quota  = "quota"
	cpuset = "cpuset"
	memory = "memory"
)

// Values that set no limit.
const (
	none  = "none"
	every = "all"
)

// unless makes a Setting.Check that also accepts the value that sets no limit.
func unless(free string, check func(string) error) func(string) error {
	return func(v string) error {
		if v == free {
			return nil
		}
		return check(v)
	}
}

// Throttle is a limit of the transfers to or from a block device.
type Throttle struct {
	Setting string
	Bytes   bool // its rate is in bytes a second, else in operations
	Write   bool // else it is of reads
}

// Throttles lists them.
func Throttles() []Throttle {
	return []Throttle{
		{"read_bps", true, false}, {"write_bps", true, true}, {"read_iops", false, false}, {"write_iops", false, true},
	}
}

// Rate says in what the limit is, with an example.
func (t Throttle) Rate() string {
	if t.Bytes {
		return "bytes a second, such as 10MiB"
	}
	return "operations a second, such as 100"
}

var deviceRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/dev/[A-Za-z0-9][A-Za-z0-9/_.-]*$`) })

// Parse reads [DEVICE:]RATE, a rate a second. device is "" where none is named.
func (t Throttle) Parse(v string) (device string, rate uint64, err error) {
	amount := v
	if strings.HasPrefix(v, "/") {
		var ok bool
		if device, amount, ok = strings.Cut(v, ":"); !ok || !deviceRE().MatchString(device) ||
			strings.Contains(device, "..") {
			return "", 0, fmt.Errorf("%q is not DEVICE:RATE, such as /dev/vda:10MiB", v)
		}
	}
	n := int64(0)
	if t.Bytes {
		n, err = unit.ParseSize(amount)
	} else {
		n, err = strconv.ParseInt(amount, 10, 64)
	}
	if err != nil || n < 1 {
		return "", 0, fmt.Errorf("%q is not a rate above 0", amount)
	}
	return device, uint64(n), nil
}

// CheckWeight is a Setting.Check that accepts weights of processor time.
func CheckWeight(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < cgroup.LeastWeight || n > cgroup.MostWeight {
		return fmt.Errorf("%q is not a whole number from %d to %d", v, cgroup.LeastWeight, cgroup.MostWeight)
	}
	return nil
}

// Bounds of a quota, in processors: the kernel takes no less than a thousandth of a second of each period.
const (
	leastQuota = 0.01
	mostQuota  = 1024
)

func parseQuota(v string) (float64, error) {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= leastQuota) || n > mostQuota || strings.Trim(v, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a number of processors such as 2 or 0.5, at least %v", v, leastQuota)
	}
	return n, nil
}

func checkCPUs(v string) error {
	cpus, err := cgroup.ParseCPUs(v)
	if err == nil && len(cpus) == 0 {
		err = fmt.Errorf("%q names no processor", v)
	}
	return err
}

// leastMemory is the smallest limit of memory that a setting takes, in bytes: the agent and a shell need some.
const leastMemory = 16 << 20

func parseMemory(v string) (int64, error) {
	n, err := unit.ParseSize(v)
	if err == nil && n < leastMemory {
		err = fmt.Errorf("%q is less than 16MiB", v)
	}
	return n, err
}

// Settings declares the limits of an environment whose processes are of this machine. Where the environment has a
// memory of its own, a limit of it is not offered.
func Settings(ownMemory bool) []env.Setting {
	all := []env.Setting{
		{Name: Weight, Default: "1024", Doc: "Processor time against other control groups when all want the " +
			"processors, as Docker's --cpu-shares: 2 to 262144 (Linux, root).", Check: CheckWeight},
		{Name: quota, Default: none, Doc: "Processor time of its processes here, in processors, as Docker's --cpus, " +
			"such as 0.5 (Linux, root).", Check: unless(none, env.Parsed(parseQuota))},
		{Name: cpuset, Default: every, Doc: "Processors of this machine for its processes, such as 0 or " +
			"0-1,3 (Linux, root).", Check: unless(every, checkCPUs)},
	}
	if !ownMemory {
		all = append(all, env.Setting{Name: memory, Default: none, Doc: "Limit of its memory, with its page cache, " +
			"such as 512MiB (Linux, root).", Check: unless(none, env.Parsed(parseMemory))})
	}
	for _, t := range Throttles() {
		doc := fmt.Sprintf("Limit, as its name says, for the disk of its files: %s; DEVICE:RATE for another (Linux, "+
			"root).", t.Rate())
		all = append(all, env.Setting{Name: t.Setting, Default: none, Doc: doc, Moves: env.MovesFiles,
			Check: unless(none, func(v string) error {
				_, _, err := t.Parse(v)
				return err
			})})
	}
	return all
}

// of reads the limits of a spec. disk finds the disk of a device, or where none is named, that below the files.
func of(s *env.Spec, names map[string]bool, disk func(device string) (string, error)) (l cgroup.Limits, err error) {
	get := func(name string) string {
		if !names[name] {
			return ""
		}
		if v := s.Get(name, ""); v != none && v != every {
			return v
		}
		return ""
	}
	if v := get(Weight); v != "" {
		if err := CheckWeight(v); err != nil {
			return l, err
		}
		l.Weight, _ = strconv.ParseInt(v, 10, 64)
	}
	if v := get(quota); v != "" {
		if l.Quota, err = parseQuota(v); err != nil {
			return l, err
		}
	}
	if l.CPUs = get(cpuset); l.CPUs != "" {
		if err := checkCPUs(l.CPUs); err != nil {
			return l, err
		}
	}
	if v := get(memory); v != "" {
		if l.Memory, err = parseMemory(v); err != nil {
			return l, err
		}
	}
	for _, t := range Throttles() {
		v := get(t.Setting)
		if v == "" {
			continue
		}
		device, rate, err := t.Parse(v)
		if err != nil {
			return l, err
		}
		name, err := disk(device)
		if err != nil {
			return l, fmt.Errorf("%s=%s: %w", t.Setting, v, err)
		}
		l.Rates = append(l.Rates, cgroup.Rate{Disk: name, Write: t.Write, Ops: !t.Bytes, Limit: rate})
	}
	return l, nil
}
