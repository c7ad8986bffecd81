package env

import (
	"strings"
	"testing"
	"time"
)

func TestMachineSettings(t *testing.T) {
	m := Machines{CPUs: 64, LeastMemory: 128 * MiB, MostMemory: 1 << 40, MemoryStep: 4 * MiB, LeastDisk: 32 * MiB,
		MostDisk: 1 << 41, LeastBoot: 10 * time.Second}
	declared := []Setting{
		{Name: "cpus", Default: "1", Check: Parsed(m.ParseCPUs)},
		{Name: "memory", Default: "1GiB", Check: Parsed(m.ParseMemory)},
		{Name: "disk", Default: "none", Check: Parsed(m.ParseDisk)},
		{Name: "size", Default: "64MiB", Check: m.CheckDisk},
		{Name: "boot", Default: "1m", Check: Parsed(m.ParseBoot)},
		{Name: "append", Check: CheckArguments},
		{Name: "options", Check: CheckMountOptions},
		{Name: "root", Default: "$ROOT"},
	}
	for _, c := range []struct{ name, value, says string }{
		{"cpus", "64", ""}, {"cpus", "65", "from 1 to 64"}, {"cpus", "0", "from 1 to 64"}, {"cpus", "two", "from 1"},
		{"memory", "132MiB", ""}, {"memory", "130MiB", "multiple of 4MiB"}, {"memory", "64MiB", "at least 128MiB"},
		{"memory", "2TiB", "at most 1TiB"}, {"memory", "much", "much"},
		{"disk", "none", ""}, {"disk", "33MiB", ""}, {"disk", "31MiB", "at least 32MiB"},
		{"size", "none", "whole number of MiB"}, {"size", "64MiB", ""},
		{"boot", "9s", "from 10s"}, {"boot", "90s", ""}, {"boot", "2h", "to 1h"},
		{"append", "quiet nosmp", ""}, {"append", "a\nb", "printable"}, {"append", strings.Repeat("x", 1025), "1024"},
		{"options", "noatime,commit=30", ""}, {"options", "noatime;reboot", "list of mount options"},
		{"colour", "red", `has no setting "colour"`},
	} {
		shown, err := Resolve(declared, &Spec{Driver: "vm", Settings: map[string]string{c.name: c.value}})
		switch {
		case c.says == "" && (err != nil || shown[c.name] != c.value || shown["root"] != ""):
			t.Errorf("%s=%s gives %v, %v", c.name, c.value, shown, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s=%.20s gives %v, want %q", c.name, c.value, err, c.says)
		}
	}
	kinds := []MountKind{{Name: "disk", Settings: declared}}
	for says, s := range map[string]Spec{"no mount": {Driver: "9p"}, "takes no argument": {Driver: "disk", Arg: "x"}} {
		if _, err := ResolveMount(kinds, &s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v gives %v, want %q", s, err, says)
		}
	}
	if d := DiskSpace(0); d.Bytes >= 0 {
		t.Errorf("a machine without a disk has %+v", d)
	}
}
