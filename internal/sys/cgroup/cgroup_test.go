package cgroup

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	for in, want := range map[string][]int{"": nil, "0": {0}, "0-2,5": {0, 1, 2, 5}, "1023": {1023}} {
		if got, err := ParseCPUs(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseCPUs(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"a", "-", "1-", "2-1", "1024", "0,,1", "+1", "0-99999"} {
		if got, err := ParseCPUs(in); err == nil {
			t.Errorf("ParseCPUs(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzParseCPUs(f *testing.F) {
	f.Add("0-1,3")
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := ParseCPUs(list)
		if err == nil && len(cpus) > 2*(MaxCPU+1) {
			t.Fatalf("%q gives %d processors", list, len(cpus))
		}
		for _, n := range cpus {
			if n < 0 || n > MaxCPU {
				t.Fatalf("%q gives processor %d", list, n)
			}
		}
	})
}

const mixed = `22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpu\040set rw,relatime shared:9 master:1 - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`

// TestFind: a machine may have both versions, and each controller is in one of them.
func TestFind(t *testing.T) {
	all := mounts(mixed)
	offers := func(dir string) []string {
		if dir != "/sys/fs/cgroup/unified" {
			t.Errorf("asked %s", dir)
		}
		return []string{"memory", "io"}
	}
	for controller, want := range map[string]hierarchy{
		cpu: {"/sys/fs/cgroup/cpu,cpuacct", false}, cpuset: {"/sys/fs/cgroup/cpu set", false},
		memory: {"/sys/fs/cgroup/unified", true}, block: {"/sys/fs/cgroup/unified", true},
	} {
		if got, ok := find(all, controller, offers); !ok || got != want {
			t.Errorf("%s is in %+v, %v, want %+v", controller, got, ok, want)
		}
	}
	if got, ok := find(all, "pids", offers); ok {
		t.Errorf("pids is in %+v", got)
	}
}

// TestSettings: the same limits in the words of both versions.
func TestSettings(t *testing.T) {
	l := &Limits{Weight: 512, Quota: 0.25, CPUs: "0-1", Memory: 1 << 20, Rates: []Rate{
		{Disk: "8:0", Limit: 5}, {Disk: "8:0", Write: true, Ops: true, Limit: 7}}}
	if l.None() || !(&Limits{}).None() {
		t.Error("what is limited")
	}
	for v2, want := range map[bool][]setting{
		false: {{"cpu.shares", "512"}, {"cpu.cfs_quota_us", "25000"}, {"cpuset.cpus", "0-1"},
			{"memory.limit_in_bytes", "1048576"}, {"blkio.throttle.read_bps_device", "8:0 5"},
			{"blkio.throttle.write_iops_device", "8:0 7"}},
		true: {{"cpu.weight", "50"}, {"cpu.max", "25000 100000"}, {"cpuset.cpus", "0-1"}, {"memory.max", "1048576"},
			{"io.max", "8:0 rbps=5"}, {"io.max", "8:0 wiops=7"}},
	} {
		var got []setting
		for _, c := range l.controllers() {
			got = append(got, l.settings(c, v2)...)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("version 2: %v: %v, want %v", v2, got, want)
		}
	}
	for weight, want := range map[int64]string{LeastWeight: "1", 1024: "100", MostWeight: "10000"} {
		if got := (&Limits{Weight: weight}).settings(cpu, true)[0].value; got != want {
			t.Errorf("weight %d is %s in version 2, want %s", weight, got, want)
		}
	}
}

func FuzzMounts(f *testing.F) {
	f.Add(mixed)
	f.Add("1 2 3 4 \\777 6 - cgroup")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range mounts(text) {
			if strings.ContainsRune(m.dir, '\n') && !strings.Contains(text, "\\012") {
				t.Fatalf("%q", m.dir)
			}
		}
	})
}
