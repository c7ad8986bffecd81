package sysinfo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"tare/internal/sys/mountinfo"
)

// tree is a file system root below which proc and sys are found: "/" outside of tests.
type tree string

// maxFile bounds what is read of one file, in bytes: /proc/cpuinfo of a machine with a thousand CPUs.
const maxFile = 4 << 20

// read returns a file's content, or "" if it cannot be read.
func (t tree) read(path string) string {
	f, err := os.Open(filepath.Join(string(t), path))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxFile)) // sysfs may fail halfway; the data so far is returned
	return string(b)
}

func (t tree) line(path string) string { return strings.TrimSpace(t.read(path)) }

func (t tree) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(string(t), path))
	return err == nil
}

func (t tree) glob(pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(string(t), pattern)) // patterns are well-formed
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], strings.TrimSuffix(string(t), "/"))
	}
	return found
}

func (c *collector) system(ctx context.Context) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		c.Kernel = unix.ByteSliceToString(u.Release[:])
		c.extra("kernel.version", unix.ByteSliceToString(u.Version[:]))
	}
	var cpus unix.CPUSet
	if unix.SchedGetaffinity(0, &cpus) == nil {
		c.Threads = cpus.Count()
	}
	c.linux(ctx, "/")
}

// linux collects facts from files.
func (c *collector) linux(ctx context.Context, t tree) {
	for _, step := range []func(tree){c.cpu, c.memory, c.machine, c.limits} {
		if ctx.Err() != nil {
			return
		}
		step(t)
	}
}

func (c *collector) cpu(t tree) {
	info := parseCPUInfo(t.read("proc/cpuinfo"))
	c.CPU, c.Cores, c.MHz = info.model, info.cores, info.mhz
	c.extra("cpu.vendor", info.vendor)
	c.extra("cpu.online", t.line("sys/devices/system/cpu/online"))
	c.extra("cpu.smt", t.line("sys/devices/system/cpu/smt/control"))
	const freq = "sys/devices/system/cpu/cpu0/cpufreq/"
	c.extra("cpu.governor", t.line(freq+"scaling_governor"))
	c.extra("cpu.driver", t.line(freq+"scaling_driver"))
	c.extra("cpu.preference", t.line(freq+"energy_performance_preference"))
	c.extra("cpu.boost", t.line("sys/devices/system/cpu/cpufreq/boost"))
	c.extra("cpu.no_turbo", t.line("sys/devices/system/cpu/intel_pstate/no_turbo"))
	if khz, err := strconv.ParseFloat(t.line(freq+"cpuinfo_max_freq"), 64); err == nil && khz > 0 {
		c.extra("cpu.max_mhz", strconv.FormatFloat(khz/1000, 'f', -1, 64))
		if c.MHz == 0 {
			c.MHz = khz / 1000
		}
	}
	for _, path := range t.glob("sys/devices/system/cpu/vulnerabilities/*") {
		c.extra("cpu.mitigations."+filepath.Base(path), t.line(path))
	}
	const clock = "sys/devices/system/clocksource/clocksource0/"
	c.Clock = t.line(clock + "current_clocksource")
	c.extra("clock.available", t.line(clock+"available_clocksource"))
	if info.hypervisor && c.vm == "" {
		c.vm = "unknown"
	}
}

func (c *collector) memory(t tree) {
	info := t.read("proc/meminfo")
	if n := parseMemInfo(info, "MemTotal"); n > 0 {
		c.MemoryBytes = n
	}
	for name, field := range map[string]string{
		"memory.available_bytes": "MemAvailable", "memory.swap_bytes": "SwapTotal",
		"memory.hugepage_bytes": "Hugepagesize",
	} {
		if n := parseMemInfo(info, field); n >= 0 {
			c.extra(name, strconv.FormatInt(n, 10))
		}
	}
	const thp = "sys/kernel/mm/transparent_hugepage/"
	c.extra("memory.thp", chosen(t.read(thp+"enabled")))
	c.extra("memory.thp_defrag", chosen(t.read(thp+"defrag")))
	c.extra("memory.ksm", t.line("sys/kernel/mm/ksm/run"))
	c.extra("memory.swappiness", t.line("proc/sys/vm/swappiness"))
	c.extra("memory.overcommit", t.line("proc/sys/vm/overcommit_memory"))
}

// machine finds out what the system is and what runs it.
func (c *collector) machine(t tree) {
	release := t.read("etc/os-release")
	if release == "" {
		release = t.read("usr/lib/os-release")
	}
	c.Distro = parseOSRelease(release)
	c.extra("kernel.cmdline", tuning(t.read("proc/cmdline")))
	c.extra("kernel.uptime_s", first(t.line("proc/uptime")))
	c.extra("kernel.aslr", t.line("proc/sys/kernel/randomize_va_space"))
	c.extra("network.congestion", t.line("proc/sys/net/ipv4/tcp_congestion_control"))
	const dmi = "sys/class/dmi/id/"
	vendor, product, bios := t.line(dmi+"sys_vendor"), t.line(dmi+"product_name"), t.line(dmi+"bios_vendor")
	c.extra("machine.vendor", vendor)
	c.extra("machine.product", product)
	c.extra("machine.bios", bios+" "+t.line(dmi+"bios_version"))
	c.extra("machine.model", strings.TrimRight(t.read("proc/device-tree/model"), "\x00"))

	name, sure := vmByFirmware(vendor, product, bios)
	generic := c.vm == "" || c.vm == "unknown"
	switch {
	case sure, generic && name != "":
		c.vm = name
	case generic && (strings.HasPrefix(t.read("proc/device-tree/compatible"), "linux,dummy-virt") ||
		strings.HasPrefix(t.read("proc/device-tree/compatible"), "riscv-virtio")):
		c.vm = "qemu" // QEMU's machine "virt" of arm64 or riscv64; whether the CPU is emulated is not known
	case generic && t.line("sys/hypervisor/type") != "":
		c.vm = t.line("sys/hypervisor/type")
	}
	if t.exists("proc/device-tree/hypervisor") &&
		strings.Contains(t.read("proc/device-tree/hypervisor/compatible"), "kvm") {
		c.vm = "kvm"
	}
	version := strings.ToLower(t.read("proc/version"))
	if strings.Contains(version, "microsoft") {
		c.vm = "wsl"
	}
	c.container = containerOf(t)
}

// containerOf names the container technology of this process, or "".
func containerOf(t tree) string {
	switch {
	case t.exists(".dockerenv"):
		return "docker"
	case t.exists("run/.containerenv"):
		return "podman"
	case t.line("run/systemd/container") != "":
		return t.line("run/systemd/container")
	}
	for _, kv := range strings.Split(t.read("proc/1/environ"), "\x00") {
		if v, ok := strings.CutPrefix(kv, "container="); ok && v != "" {
			return v
		}
	}
	// gVisor's kernel reports a fixed build date.
	if strings.Contains(t.read("proc/version"), "Sun Jan 10 15:06:54 PST 2016") {
		return "gvisor"
	}
	return containerByCgroup(t.read("proc/1/cgroup"))
}

// limits are the limits of the control groups: the smallest on the way up, because each ancestor's limit applies as
// well.
func (c *collector) limits(t tree) {
	own := t.read("proc/self/cgroup")
	v2, cpu1 := cgroupPaths(own, "cpu")
	_, memory1 := cgroupPaths(own, "memory")
	cpus, memory := 0.0, int64(0)
	lowerCPU := func(v float64) {
		if v > 0 && (cpus == 0 || v < cpus) {
			cpus = v
		}
	}
	lowerMemory := func(text string) {
		// "max", or on cgroup 1 a number next to 2^63, is no limit.
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<60 && (memory == 0 || n < memory) {
			memory = n
		}
	}
	for _, dir := range upwards(v2) {
		lowerCPU(parseCPUMax(t.read("sys/fs/cgroup" + dir + "/cpu.max")))
		lowerMemory(t.line("sys/fs/cgroup" + dir + "/memory.max"))
	}
	for _, dir := range upwards(cpu1) {
		dir = "sys/fs/cgroup/cpu" + dir
		lowerCPU(parseCPUMax(t.line(dir+"/cpu.cfs_quota_us") + " " + t.line(dir+"/cpu.cfs_period_us")))
	}
	for _, dir := range upwards(memory1) {
		lowerMemory(t.line("sys/fs/cgroup/memory" + dir + "/memory.limit_in_bytes"))
	}
	if cpus > 0 {
		c.extra("cgroup.cpus", strconv.FormatFloat(cpus, 'g', 6, 64))
	}
	if memory > 0 {
		c.extra("cgroup.memory_bytes", strconv.FormatInt(memory, 10))
	}
	c.extra("cgroup.cpuset", t.line("sys/fs/cgroup"+v2+"/cpuset.cpus.effective"))
}

// upwards lists a cgroup's path and its ancestors' to the root, which is "".
func upwards(path string) (dirs []string) {
	if path == "" {
		return nil
	}
	for path = filepath.Clean("/" + path); path != "/"; path = filepath.Dir(path) {
		dirs = append(dirs, path)
	}
	return append(dirs, "")
}

func (c *collector) workDir(dir string) {
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return
	}
	var s unix.Statfs_t
	if unix.Statfs(path, &s) == nil && s.Files > 0 {
		c.extra("work.free_inodes", strconv.FormatUint(s.Ffree, 10))
	}
	c.mount("/", path)
}

// mount describes the file system that a path is on, in the kernel's words, and the disk below.
func (c *collector) mount(t tree, path string) {
	m, ok := mountOf(mountinfo.Parse(t.read("proc/self/mountinfo")), path)
	if !ok {
		return
	}
	c.WorkFS = fmt.Sprintf("%s (%s)", m.Kind, options(&m))
	c.extra("work.mount", m.Point)
	c.extra("work.source", m.Source)
	if m.Root != "/" {
		c.extra("work.root", m.Root)
	}
	dev := m.Device
	var st unix.Stat_t
	if strings.HasPrefix(dev, "0:") && strings.HasPrefix(m.Source, "/dev/") && unix.Stat(m.Source, &st) == nil {
		// File systems such as btrfs have their own device numbers; the source is the device.
		dev = fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	disk := t.disk(dev)
	if disk == "" {
		return
	}
	c.extra("work.disk.name", filepath.Base(disk))
	c.extra("work.disk.model", t.line(disk+"/device/model"))
	c.extra("work.disk.rotational", t.line(disk+"/queue/rotational"))
	c.extra("work.disk.scheduler", chosen(t.read(disk+"/queue/scheduler")))
	c.extra("work.disk.write_cache", t.line(disk+"/queue/write_cache"))
	c.extra("work.disk.read_ahead_kb", t.line(disk+"/queue/read_ahead_kb"))
	c.extra("work.disk.logical_block", t.line(disk+"/queue/logical_block_size"))
}

// disk returns the sysfs directory of the disk that a device, "8:1", is or is part of; "" when there is none.
func (t tree) disk(device string) string {
	dir, err := filepath.EvalSymlinks(filepath.Join(string(t), "sys/dev/block", device))
	if err != nil {
		return ""
	}
	if root, err := filepath.EvalSymlinks(string(t)); err == nil {
		dir = strings.TrimPrefix(dir, strings.TrimSuffix(root, "/"))
	}
	for range 2 {
		if t.exists(dir + "/queue") {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

func first(s string) string {
	f, _, _ := strings.Cut(s, " ")
	return f
}
