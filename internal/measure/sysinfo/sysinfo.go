package sysinfo

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"

	"tare/internal/record"
)

// Collect describes the system as seen from this process. workDir is the directory below which file workloads run; it
// may be empty. It takes some tens of milliseconds, stops early when ctx ends, and leaves out facts that the system
// does not report.
func Collect(ctx context.Context, workDir string) record.Facts {
	c := collector{Facts: record.Facts{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Threads: runtime.NumCPU(), WorkDir: workDir, Extra: map[string]string{},
	}}
	c.Hostname, _ = os.Hostname()
	c.extra("memory.page_size", strconv.Itoa(os.Getpagesize()))
	if workDir != "" { // first, as a slow machine may not come to the end
		c.workDir(workDir)
		if n := Free(workDir); n >= 0 {
			c.extra("work.free_bytes", strconv.FormatInt(n, 10))
		}
	}
	c.vm = vmByCPU(cpuidSignature())
	c.system(ctx)
	if c.CPU == "" {
		c.CPU = cpuidBrand()
	}
	if c.vm != "" {
		c.extra("hypervisor.vm", c.vm)
		c.Hypervisor = c.vm
	}
	if c.container != "" {
		c.extra("hypervisor.container", c.container)
		c.Hypervisor = c.container // the innermost of the two counts
	}
	c.Emulated = c.vm == "tcg" || c.vm != "" && interpreted()
	if !c.Emulated && ctx.Err() == nil {
		if mhz := measuredMHz(); mhz > 0 {
			c.extra("cpu.measured_mhz", strconv.FormatFloat(mhz, 'f', 0, 64))
		}
	}
	return c.Facts
}

// collector gathers facts. Each operating system adds the methods system and workDir.
type collector struct {
	record.Facts
	vm        string // hypervisor below the operating system
	container string // the container that this process is in
}

// extra keeps a fact by its dotted name, unless it is empty.
func (c *collector) extra(name, value string) {
	if value = strings.TrimSpace(value); value != "" {
		c.Extra[name] = value
	}
}

// vmByCPU names the hypervisor that signs CPUID leaf 0x40000000.
func vmByCPU(signature string) string {
	switch strings.TrimRight(signature, "\x00") {
	case "":
		return ""
	case "KVMKVMKVM":
		return "kvm"
	case "TCGTCGTCGTCG":
		return "tcg"
	case "VMwareVMware":
		return "vmware"
	case "VBoxVBoxVBox":
		return "virtualbox"
	case "Microsoft Hv":
		return "hyper-v"
	case "XenVMMXenVMM":
		return "xen"
	case "bhyve bhyve ":
		return "bhyve"
	case " lrpepyh vr", " lrpepyh  vr":
		return "parallels"
	case "VirtualApple":
		return "rosetta"
	case "ACRNACRNACRN":
		return "acrn"
	}
	return "unknown"
}

// vmByFirmware names the hypervisor by the firmware's vendor and product. A virtual machine's CPUID may have another
// hypervisor's signature (VirtualBox offers KVM's interface to Linux), so a known firmware takes precedence.
func vmByFirmware(vendor, product, bios string) (name string, sure bool) {
	all := strings.ToLower(vendor + "\n" + product + "\n" + bios)
	for _, m := range []struct {
		mark, name string
		sure       bool
	}{
		{"virtualbox", "virtualbox", true}, {"innotek", "virtualbox", true}, {"vmware", "vmware", true},
		{"parallels", "parallels", true}, {"apple virtualization", "apple", true}, {"bhyve", "bhyve", true},
		{"google compute engine", "kvm", false}, {"amazon ec2", "kvm", false}, {"openstack", "kvm", false},
		{"qemu", "qemu", false}, {"xen", "xen", false}, {"kvm", "kvm", false},
	} {
		if strings.Contains(all, m.mark) {
			return m.name, m.sure
		}
	}
	if strings.Contains(all, "microsoft corporation") && strings.Contains(all, "virtual machine") {
		return "hyper-v", true
	}
	return "", false
}
