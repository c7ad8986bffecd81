package sysinfo

import "golang.org/x/sys/unix"

func (c *collector) platform() {
	c.Distro = "FreeBSD " + c.Kernel
	c.CPU = sysctl("hw.model")
	if n, err := unix.SysctlUint32("kern.smp.cores"); err == nil {
		c.Cores = int(n)
	}
	if n, err := unix.SysctlUint64("hw.physmem"); err == nil {
		c.MemoryBytes = int64(n)
	}
	if n, err := unix.SysctlUint32("hw.clockrate"); err == nil {
		c.MHz = float64(n)
	}
	// "none" on bare metal; else a name, or "generic" if the hypervisor has no signature.
	if g := sysctl("kern.vm_guest"); c.vm == "" && g != "none" {
		c.vm = g
	}
	if n, err := unix.SysctlUint32("security.jail.jailed"); err == nil && n == 1 {
		c.container = "jail"
	}
	c.Clock = sysctl("kern.timecounter.hardware")
}

func (c *collector) describeMount(s *unix.Statfs_t) {
	c.WorkFS = unix.ByteSliceToString(s.Fstypename[:]) + " (" + flags(s.Flags, map[uint64]string{
		unix.MNT_SYNCHRONOUS: "sync", unix.MNT_ASYNC: "async", unix.MNT_NOATIME: "noatime", unix.MNT_NOEXEC: "noexec",
		unix.MNT_SOFTDEP: "soft-updates",
	}, unix.MNT_SYNCHRONOUS, unix.MNT_ASYNC, unix.MNT_NOATIME, unix.MNT_NOEXEC, unix.MNT_SOFTDEP) + ")"
	c.extra("work.mount", unix.ByteSliceToString(s.Mntonname[:]))
	c.extra("work.source", unix.ByteSliceToString(s.Mntfromname[:]))
}
