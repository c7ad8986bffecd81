package sysinfo

import (
	"strconv"

	"golang.org/x/sys/unix"
)

func (c *collector) platform() {
	c.Distro = "macOS " + sysctl("kern.osproductversion")
	c.CPU = sysctl("machdep.cpu.brand_string")
	c.extra("machine.model", sysctl("hw.model"))
	if n, err := unix.SysctlUint32("hw.physicalcpu"); err == nil {
		c.Cores = int(n)
	}
	if n, err := unix.SysctlUint64("hw.memsize"); err == nil {
		c.MemoryBytes = int64(n)
	}
	if n, err := unix.SysctlUint64("hw.cpufrequency"); err == nil {
		c.MHz = float64(n) / 1e6
	}
	if n, err := unix.SysctlUint32("kern.hv_vmm_present"); err == nil && n == 1 && c.vm == "" {
		c.vm = "unknown"
	}
	if n, err := unix.SysctlUint32("sysctl.proc_translated"); err == nil && n == 1 {
		c.vm = "rosetta"
	}
	for name, key := range map[string]string{"cpu.performance_cores": "hw.perflevel0.physicalcpu",
		"cpu.efficiency_cores": "hw.perflevel1.physicalcpu"} {
		if n, err := unix.SysctlUint32(key); err == nil {
			c.extra(name, strconv.FormatUint(uint64(n), 10))
		}
	}
	c.Clock = "mach_absolute_time"
}

func (c *collector) describeMount(s *unix.Statfs_t) {
	c.WorkFS = unix.ByteSliceToString(s.Fstypename[:]) + " (" + flags(uint64(s.Flags), map[uint64]string{
		unix.MNT_SYNCHRONOUS: "sync", unix.MNT_ASYNC: "async", unix.MNT_NOATIME: "noatime", unix.MNT_NOEXEC: "noexec",
		unix.MNT_JOURNALED: "journaled",
	}, unix.MNT_SYNCHRONOUS, unix.MNT_ASYNC, unix.MNT_NOATIME, unix.MNT_NOEXEC, unix.MNT_JOURNALED) + ")"
	c.extra("work.mount", unix.ByteSliceToString(s.Mntonname[:]))
	c.extra("work.source", unix.ByteSliceToString(s.Mntfromname[:]))
}
