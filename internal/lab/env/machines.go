package env

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/unit"
)

// Machines are the limits of the virtual machines that a driver makes: their common settings are read by its methods.
type Machines struct {
	CPUs        int   // the most
	LeastMemory int64 // bytes
	MostMemory  int64 // bytes
	MemoryStep  int64 // bytes that the memory is a multiple of
	LeastDisk   int64 // bytes
	MostDisk    int64 // bytes
	LeastBoot   time.Duration
}

// MiB is a step of memory, in bytes.
const MiB = 1 << 20

// ParseCPUs reads a number of processors.
func (m *Machines) ParseCPUs(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > m.CPUs {
		return 0, fmt.Errorf("%q is not a number of CPUs from 1 to %d", v, m.CPUs)
	}
	return n, nil
}

// ParseMemory reads a machine's memory, in bytes.
func (m *Machines) ParseMemory(v string) (int64, error) {
	n, err := unit.ParseSize(v)
	if err != nil {
		return 0, err
	}
	if n < m.LeastMemory || n > m.MostMemory || n%m.MemoryStep != 0 {
		step := "whole number of MiB"
		if m.MemoryStep > MiB {
			step = "multiple of " + unit.FormatSize(m.MemoryStep)
		}
		return 0, fmt.Errorf("%q is not a %s of at least %s and at most %s", v, step, unit.FormatSize(m.LeastMemory),
			unit.FormatSize(m.MostMemory))
	}
	return n, nil
}

// ParseDisk reads the size of a disk, in bytes. It is 0 for "none".
func (m *Machines) ParseDisk(v string) (int64, error) {
	if v == "none" {
		return 0, nil
	}
	n, err := unit.ParseSize(v)
	if err != nil {
		return 0, err
	}
	if n < m.LeastDisk || n > m.MostDisk || n%MiB != 0 {
		return 0, fmt.Errorf("%q is neither none nor a whole number of MiB of at least %s and at most %s", v,
			unit.FormatSize(m.LeastDisk), unit.FormatSize(m.MostDisk))
	}
	return n, nil
}

// CheckDisk is a Setting.Check that accepts the sizes of a disk, and not "none".
func (m *Machines) CheckDisk(v string) error {
	if n, err := m.ParseDisk(v); err != nil || n == 0 {
		return fmt.Errorf("%q is not a whole number of MiB of at least %s", v, unit.FormatSize(m.LeastDisk))
	}
	return nil
}

// ParseBoot reads how long a boot may take.
func (m *Machines) ParseBoot(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d < m.LeastBoot || d > time.Hour {
		return 0, fmt.Errorf("%q is not a time from %s to 1h, such as 90s", v, m.LeastBoot)
	}
	return d, nil
}

// DiskSpace is the answer of Info.FreeSpace for a machine with a scratch disk of so many bytes; 0 if it has none.
func DiskSpace(bytes int64) FreeSpace {
	if bytes == 0 {
		return FreeSpace{Bytes: -1}
	}
	return FreeSpace{Bytes: bytes, Where: "its disk", Remedy: "a larger one with disk="}
}

// Parsed is a Setting.Check that accepts what a function can read.
func Parsed[T any](parse func(string) (T, error)) func(string) error {
	return func(v string) error {
		_, err := parse(v)
		return err
	}
}

// CheckArguments is a Setting.Check that accepts arguments of a kernel.
func CheckArguments(v string) error {
	if len(v) > 1024 || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("the kernel's arguments must be at most 1024 printable ASCII characters")
	}
	return nil
}

var mountOptionsRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9_]+(=[a-zA-Z0-9_.:/-]+)?(,[a-zA-Z0-9_]+(=[a-zA-Z0-9_.:/-]+)?)*$`)
})

// CheckMountOptions is a Setting.Check that accepts options of a mount in a guest of Linux.
func CheckMountOptions(v string) error {
	if v != "" && (len(v) > 500 || !mountOptionsRE().MatchString(v)) {
		return fmt.Errorf("%q is not a list of mount options such as noatime,commit=30", v)
	}
	return nil
}

// ResolveMount checks a mount's settings against its kind and returns all of them, with defaults.
func ResolveMount(kinds []MountKind, s *Spec) (map[string]string, error) {
	i := slices.IndexFunc(kinds, func(k MountKind) bool { return k.Name == s.Driver })
	if i < 0 {
		return nil, fmt.Errorf("there is no mount %q", s.Driver)
	}
	if s.Arg != "" && kinds[i].ArgDoc == "" {
		return nil, fmt.Errorf("%s takes no argument after a colon, but got %q", s.Driver, s.Arg)
	}
	return Resolve(kinds[i].Settings, s)
}

// Resolve checks settings one by one and returns all of them, with the defaults of those that are not given. A default
// that begins with $ is the name of an environment variable, which the driver reads itself.
func Resolve(declared []Setting, s *Spec) (map[string]string, error) {
	shown := map[string]string{}
	for _, d := range declared {
		v, given := s.Settings[d.Name]
		if given && d.Check != nil {
			if err := d.Check(v); err != nil {
				return nil, fmt.Errorf("setting %s: %w", d.Name, err)
			}
		}
		switch {
		case given:
			shown[d.Name] = v
		case !strings.HasPrefix(d.Default, "$"):
			shown[d.Name] = d.Default
		default:
			shown[d.Name] = ""
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Settings)) {
		if _, ok := shown[k]; !ok {
			return nil, fmt.Errorf("%s has no setting %q; there are: %s", s.Driver, k,
				strings.Join(slices.Sorted(maps.Keys(shown)), ", "))
		}
	}
	return shown, nil
}
