package sysinfo

import (
	"strconv"
	"strings"
)

// parseOSRelease reads os-release(5) and returns its PRETTY_NAME, or NAME and VERSION.
func parseOSRelease(text string) string {
	v := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			v[key] = strings.Trim(value, `"'`)
		}
	}
	if v["PRETTY_NAME"] != "" {
		return v["PRETTY_NAME"]
	}
	return strings.TrimSpace(v["NAME"] + " " + v["VERSION"])
}

// parseMemInfo returns a field of /proc/meminfo in bytes; -1 when it is missing.
func parseMemInfo(text, field string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil || kib < 0 || kib > 1<<52 {
				return -1
			}
			return kib << 10
		}
	}
	return -1
}

// chosen returns the word in brackets of a sysfs choice such as "always [madvise] never", or all of it.
func chosen(text string) string {
	if _, rest, ok := strings.Cut(text, "["); ok {
		if word, _, ok := strings.Cut(rest, "]"); ok {
			return word
		}
	}
	return strings.TrimSpace(text)
}

// containerByCgroup names the container manager by /proc/1/cgroup, or "".
func containerByCgroup(text string) string {
	for _, m := range []struct{ mark, name string }{
		{"kubepods", "kubernetes"}, {"libpod", "podman"}, {"docker", "docker"}, {"containerd", "containerd"},
		{"lxc", "lxc"},
	} {
		// The name is part of a path in the hierarchy. On cgroup 2 with its own namespace there is only "/".
		for line := range strings.Lines(text) {
			if i := strings.LastIndexByte(line, ':'); i >= 0 && strings.Contains(line[i:], m.mark) {
				return m.name
			}
		}
	}
	return ""
}

// cgroupPaths returns the process's path in cgroup 2, and in the cgroup 1 hierarchy of a controller.
func cgroupPaths(text, controller string) (v2, v1 string) {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" && f[1] == "" {
			v2 = f[2]
		}
		for _, c := range strings.Split(f[1], ",") {
			if c == controller {
				v1 = f[2]
			}
		}
	}
	return v2, v1
}

// parseCPUMax reads cpu.max and returns the share of CPUs it allows, e.g. 1.5; 0 means no limit or no answer.
func parseCPUMax(text string) float64 {
	f := strings.Fields(text)
	if len(f) != 2 {
		return 0
	}
	quota, err1 := strconv.ParseFloat(f[0], 64)
	period, err2 := strconv.ParseFloat(f[1], 64)
	if err1 != nil || err2 != nil || quota <= 0 || period <= 0 {
		return 0 // "max 100000"
	}
	return quota / period
}

// parsePressure returns the total of the "some" line of a /proc/pressure file, in µs; -1 when it is missing.
func parsePressure(text string) int64 {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "some ")
		if !ok {
			continue
		}
		for _, f := range strings.Fields(rest) {
			if v, ok := strings.CutPrefix(f, "total="); ok {
				if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 {
					return n
				}
			}
		}
	}
	return -1
}

// parseLoad reads /proc/loadavg: the 1-minute load and the tasks that are running or ready, this one included.
func parseLoad(text string) (load1 float64, running int) {
	f := strings.Fields(text)
	if len(f) < 4 {
		return -1, -1
	}
	load1, err := strconv.ParseFloat(f[0], 64)
	if err != nil || !(load1 >= 0) {
		load1 = -1
	}
	now, _, _ := strings.Cut(f[3], "/")
	running, err = strconv.Atoi(now)
	if err != nil || running < 0 {
		running = -1
	}
	return load1, running
}

// parseSteal reads the first line of /proc/stat: the time stolen by the hypervisor and all time, in ticks; -1 unknown.
func parseSteal(text string) (steal, total int64) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != "cpu" {
			continue
		}
		// user nice system idle iowait irq softirq steal; guest times are in user and nice already (proc(5)).
		for i, s := range f[1:9] {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || n < 0 {
				return -1, -1
			}
			total += n
			if i == 7 {
				steal = n
			}
		}
		return steal, total
	}
	return -1, -1
}

// tuning keeps the arguments of a kernel command line that affect performance. The others are not published, because
// boot loaders and images put addresses and tokens there.
func tuning(cmdline string) string {
	var keep []string
	for _, f := range strings.Fields(cmdline) {
		name, _, _ := strings.Cut(f, "=")
		for _, prefix := range []string{
			"mitigations", "spectre", "spec_", "pti", "nopti", "retbleed", "l1tf", "mds", "tsx", "kpti", "isolcpus",
			"nohz", "rcu_nocbs",
			"rcupdate", "transparent_hugepage", "hugepage", "default_hugepagesz", "intel_pstate", "amd_pstate",
			"cpufreq", "idle",
			"processor.max_cstate", "intel_idle", "tsc", "clocksource", "no_timer_check", "hpet", "preempt",
			"threadirqs", "nosmt",
			"maxcpus", "nr_cpus", "mem", "psi", "iommu", "intel_iommu", "amd_iommu", "swiotlb", "page_poison",
			"init_on_", "slub_debug",
			"slab_", "kasan", "audit", "selinux", "apparmor", "lockdown", "numa", "cgroup_", "systemd.unified_cgroup",
			"watchdog", "nowatchdog",
			"nvme", "scsi_mod.use_blk_mq", "elevator", "noapic", "acpi", "pci", "random.trust_cpu", "lapic", "kvm",
		} {
			if strings.HasPrefix(name, prefix) {
				keep = append(keep, f)
				break
			}
		}
	}
	return strings.Join(keep, " ")
}
