package verdict

import (
	"strings"
	"testing"

	"tare/internal/plan"
	"tare/internal/record"
)

// TestSettings reads every row of the table from facts that have it, and holds that it says nothing of facts that do
// not.
func TestSettings(t *testing.T) {
	full := Target{
		Target: record.Target{Inside: record.Facts{
			Clock: "tsc", MemoryBytes: 8 << 30, WorkFS: "ext4 (rw,noatime)",
			Extra: map[string]string{
				"cpu.governor": "x", "cpu.boost": "1", "cpu.no_turbo": "0", "memory.thp": "always",
				"network.congestion":  "bbr",
				"cgroup.memory_bytes": "1", "cgroup.cpus": "1.5",
				"cpu.mitigations.meltdown": "Mitigation: PTI", "cpu.mitigations.srbds": "Not affected",
				"work.disk.scheduler": "none", "work.disk.read_ahead_kb": "128",
			},
		},
			Outside: record.Facts{
				Settings: map[string]string{"accel": "kvm", "cpu": "host", "paravirt": "kvm", "machine": "q35",
					"nic": "virtio", "net": "tap", "vhost": "off",
					"cache": "none", "aio": "native", "iothread": "on", "format": "raw", "bus": "virtio",
					"controller": "ahci", "hostiocache": "off", "ignore_flush": "default", "cpuset": "0",
					"nice": "5", "read_bps": "1", "write_bps": "1", "read_iops": "1", "write_iops": "1"},
				Extra: map[string]string{
					"qemu.version": "7.2.22", "virtualbox.version": "7.2.22_Debianr1", "virtualbox.engine": "IEM",
					"virtualbox.machine.nestedpaging": "on", "virtualbox.machine.largepages": "off",
				},
			}},
	}
	mount := full
	mount.Mount = &record.Mount{
		Kind: "nfs", Options: "rw,sync,vers=3,rsize=65536,wsize=4096,msize=512000,cache=loose,actimeo=3,proto=tcp",
		Settings: map[string]string{"noac": "on", "writeback": "on"},
	}
	for _, s := range explaining() {
		if s.value(&full) == "" && s.value(&mount) == "" {
			t.Errorf("%s is read from nothing that exists", s.name)
		}
		if v := s.value(&Target{}); v != "" {
			t.Errorf("%s of a target without facts is %q", s.name, v)
		}
		if s.why == "" {
			t.Errorf("%s explains nothing", s.name)
		}
	}
	for _, s := range explaining() {
		limited := Target{Target: record.Target{Outside: record.Facts{Extra: map[string]string{"cgroup.cpus": "1"}}}}
		if s.name == "CPU limit" && s.value(&limited) != "1" {
			t.Error("the quota of a micro-VM, which is seen outside only, is no CPU limit")
		}
	}
	if got := mitigations(&full); got != "meltdown" {
		t.Errorf("mitigations: %q", got)
	}
}

// TestReleasesExplain: a product's release is named where two of its machines differ, and so is each of its settings.
// Releases of two products are not held against each other, and what is the same on both sides explains nothing.
func TestReleasesExplain(t *testing.T) {
	for _, c := range []struct {
		work       string
		base, slow map[string]string // what is known from outside; settings are those without a dot
		says, not  string
	}{
		{"cpu.prime", map[string]string{"virtualbox.version": "7.1.4r165100"},
			map[string]string{"virtualbox.version": "7.2.0r170228"},
			"VirtualBox's version 7.2.0r170228 instead of 7.1.4r165100", ""},
		{"cpu.prime", map[string]string{"qemu.version": "7.2.22"},
			map[string]string{"virtualbox.version": "7.2.22"}, "", ""},
		{"fs.seqwrite", map[string]string{"controller": "ahci", "hostiocache": "off", "virtualbox.version": "7.2.0"},
			map[string]string{"controller": "ide", "hostiocache": "on", "virtualbox.version": "7.2.0"},
			"controller of the disk ide instead of ahci", "version"},
		{"fs.seqwrite", map[string]string{"hostiocache": "off", "ignore_flush": "default"},
			map[string]string{"hostiocache": "on", "ignore_flush": "on"},
			"host's cache for the disk on instead of off", "controller"},
		{"cpu.prime", map[string]string{"hostiocache": "off"}, map[string]string{"hostiocache": "on"}, "", ""},
		{"cpu.prime", map[string]string{"virtualbox.engine": "VT-x"}, map[string]string{"virtualbox.engine": "IEM"},
			"VirtualBox's engine IEM instead of VT-x", ""},
		// What VirtualBox shows counts, and not that one side asked for it in words.
		{"cpu.prime", map[string]string{"nested_paging": "default", "virtualbox.machine.nestedpaging": "on"},
			map[string]string{"nested_paging": "on", "virtualbox.machine.nestedpaging": "on"}, "", ""},
		{"cpu.prime", map[string]string{"virtualbox.machine.nestedpaging": "on"},
			map[string]string{"virtualbox.machine.nestedpaging": "off"}, "nested paging off instead of on", ""},
		{"memory.latency", map[string]string{"virtualbox.machine.largepages": "on"},
			map[string]string{"virtualbox.machine.largepages": "off"}, "large pages off instead of on", ""},
		{"command", map[string]string{"paravirt": "default", "virtualbox.machine.effparavirtprovider": "kvm"},
			map[string]string{"paravirt": "none", "virtualbox.machine.effparavirtprovider": "none"},
			"paravirtualisation none instead of kvm", ""},
	} {
		s := scene{targets: []string{"a", "b"}, work: []plan.Workload{on(c.work)},
			cost: map[string]float64{c.work + " b": 2}}
		f := finding(s.envs(func(re *record.Environment) {
			known := c.base
			if re.Name == "b" {
				known = c.slow
			}
			re.Outside.Settings = map[string]string{}
			for k, v := range known {
				if strings.Contains(k, ".") {
					re.Outside.Extra[k] = v
				} else {
					re.Outside.Settings[k] = v
				}
			}
		}).evaluate(), "settings-differ")
		switch {
		case c.says == "" && f != nil:
			t.Errorf("%v and %v: %s", c.base, c.slow, f.Text)
		case c.says != "" && (f == nil || !strings.Contains(f.Text, c.says) ||
			c.not != "" && strings.Contains(f.Text, c.not)):
			t.Errorf("%v and %v: %+v, want %q", c.base, c.slow, f, c.says)
		}
	}
}

// TestLimitOfOneSideExplains: a limit that only one side has is named, before all else; of a side that told nothing of
// itself, nothing is known.
func TestLimitOfOneSideExplains(t *testing.T) {
	for _, c := range []struct {
		work, fact, setting, value string
		limited                    string // the target that has it
		cpus                       int
		says                       string
	}{
		{"cpu.prime", "cgroup.cpus", "", "0.5", "b", 2, "CPU limit 0.5 instead of none"},
		{"cpu.prime", "cgroup.cpus", "", "0.5", "a", 2, "CPU limit none instead of 0.5"},
		{"cpu.prime", "cgroup.cpus", "", "0.5", "b", 0, ""},
		{"cpu.prime", "", "cpuset", "all", "b", 2, ""},
		{"cpu.prime", "", "cpuset", "0", "b", 2, "processors allowed 0 instead of all"},
		{"cpu.prime", "", "nice", "19", "b", 2, "niceness 19 instead of 0"},
		{"cpu.prime", "", "nice", "0", "b", 2, ""},
		{"fs.randread", "", "read_iops", "300", "b", 2, "limit of reads 300 instead of none"},
		{"cpu.prime", "", "read_iops", "300", "b", 2, ""},
	} {
		s := scene{targets: []string{"a", "b"}, work: []plan.Workload{on(c.work)},
			cost: map[string]float64{c.work + " b": 2}}
		f := finding(s.envs(func(re *record.Environment) {
			re.Inside.Threads = c.cpus
			if re.Name != c.limited {
				return
			}
			if c.fact != "" {
				re.Outside.Extra[c.fact] = c.value
			} else {
				re.Outside.Settings = map[string]string{c.setting: c.value}
			}
		}).evaluate(), "settings-differ")
		switch {
		case c.says == "" && f != nil:
			t.Errorf("%+v: %s", c, f.Text)
		case c.says != "" && (f == nil || !strings.Contains(f.Text, "in "+c.work+": "+c.says)):
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

func TestOnlyWhatDiffersIsSaid(t *testing.T) {
	for _, c := range [][4]string{
		{"virtio", "e1000", "virtio", "e1000"},
		{"direct=off,no-flush=off,guest-write-cache=on", "direct=off,no-flush=off,guest-write-cache=off",
			"guest-write-cache=on", "guest-write-cache=off"},
		{"rw, sync, noatime", "rw, relatime, noatime", "sync", "relatime"},
		{"rw,relatime", "rw", "rw,relatime", "rw"}, // nothing is no setting
	} {
		if a, b := whatDiffers(c[0], c[1]); a != c[2] || b != c[3] {
			t.Errorf("%q and %q: %q and %q, want %q and %q", c[0], c[1], a, b, c[2], c[3])
		}
	}
}

func TestFindingOffersTheSweep(t *testing.T) {
	in := two(on("net.stream")).envs(nics).costs(map[string]float64{"net.stream vm": 3}).input()
	for spec, want := range map[string]string{
		"qemu?nic=e1000": "`tare sweep -e 'vm=qemu?nic=e1000' -w net.stream` tries settings of vm one by one",
		"ssh:vm":         "to find out which one it is, add an environment that differs only in that setting",
	} {
		in.Plan.Targets[1].Text = spec
		f := finding(Evaluate(in), "settings-differ")
		if f == nil || !strings.Contains(f.Remedy, want) {
			t.Errorf("%s: %+v", spec, f)
		}
	}
	in.Plan.Targets[1].Text = "qemu?nic=e1000"
	in.Plan.Workloads[0].Params = map[string]string{"from": "c1+c2"}
	if f := finding(Evaluate(in), "settings-differ"); f == nil || strings.Contains(f.Remedy, "sweep") {
		t.Errorf("a load from others: %+v", f)
	}
}
