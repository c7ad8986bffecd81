package qemu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/mount"
	"tare/internal/measure/guestabi"
)

// target is everything that depends on the guest's architecture.
type target struct {
	arch     string   // GOARCH
	program  string   // QEMU's program
	pkg      string   // the Debian package of the program
	machines []string // the first is the default
	console  string   // the kernel's name of the serial console
	cpu      string   // the CPU model for emulation
}

// q35 comes before microvm, although microvm boots a second faster under TCG: q35 has PCI and, on every host, an exact
// clock, the HPET. See kernelArguments for what microvm lacks.
func targets() []target {
	return []target{
		{"amd64", "qemu-system-x86_64", "qemu-system-x86", []string{"q35", "microvm", "pc"}, "ttyS0", "max"},
		// Not max: it has pointer authentication, and emulating that takes more time than everything else.
		{"arm64", "qemu-system-aarch64", "qemu-system-arm", []string{"virt"}, "ttyAMA0", "cortex-a72"},
		{"riscv64", "qemu-system-riscv64", riscvPackage, []string{"virt"}, "ttyS0", "rv64"},
	}
}

// riscvPackage has the firmware, OpenSBI, in a package of its own. From Debian 13 on it is qemu-system-riscv.
const riscvPackage = "qemu-system-misc opensbi"

func targetOf(arch string) (target, error) {
	for _, t := range targets() {
		if t.arch == arch {
			return t, nil
		}
	}
	return target{}, fmt.Errorf("there are no guests for %s; use arch=x86_64, arch=arm64 or arch=riscv64", arch)
}

func (t target) remedy() string { return "install QEMU: apt-get install " + t.pkg }

// cacheMode is the meaning of QEMU's cache= for a block device; see qemu-options.hx.
type cacheMode struct {
	direct  bool // O_DIRECT, bypasses the host's page cache
	noFlush bool // the guest's flushes are ignored
	write   bool // the guest sees a volatile write cache, so it sends flushes
}

var cacheModes = map[string]cacheMode{
	"writeback":    {write: true},
	"none":         {direct: true, write: true},
	"writethrough": {},
	"directsync":   {direct: true},
	"unsafe":       {noFlush: true, write: true},
}

func cacheNames() []string {
	return []string{"none", "writeback", "writethrough", "directsync", "unsafe"}
}

// scratchSerial identifies the scratch disk in the guest; virtio-blk allows 20 characters.
const scratchSerial = "tare-scratch"

// scratchID is the scratch disk's name in QEMU.
const scratchID = "scratch"

// files are the files and connections of a machine.
type files struct {
	program, kernel, initrd, disk string
	wire, control                 string // arguments of -chardev socket: "fd=3" or "path=..."
	name                          string // the process name, visible in ps
	hostname                      string
	extras
}

// extras are a machine's needs for its mounts.
type extras struct {
	devices []string       // arguments in pairs
	drives  []drive        // those of them that are disks
	folders []mount.Folder // and those that are folders
	serials []string       // of disks that get a link in the guest
	shared  bool           // the guest's memory must be shareable with other processes
	network bool           // the guest must reach the host's loopback
	peer    bool           // the guest must bring up its card itself, for workloads that use the run's peer
	links   []*link        // to other machines
	group   *limited.Group // of QEMU's process; nil without limits
	card    *link          // what the machine's own card is connected to, if not to the user-mode network
}

// modules are the kernel modules that the machine needs.
func (c *config) modules() (required, optional []string) {
	required = []string{"virtio_pci"}
	if c.machine == "microvm" {
		required = []string{"virtio_mmio"}
	}
	required = append(required, "virtio_console")
	if c.disk > 0 || c.root.want != "" {
		required = append(required, "virtio_blk", "ext4")
		// ext4 requests this checksum by name, not by symbol; in newer kernels it is in a library.
		optional = append(optional, "crc32c_generic")
	}
	required = append(required, c.rootModules()...)
	switch c.nic {
	case "virtio":
		required = append(required, "virtio_net")
	case "e1000":
		required = append(required, "e1000")
	}
	return append(required, c.drivers...), optional
}

// arguments returns QEMU's command line for an accelerator.
func (c *config) arguments(accel string, f files) []string {
	bus := c.bus()
	a := []string{f.program, "-name",
		strings.ReplaceAll(f.name, ",", "_") + ",debug-threads=on", "-no-user-config", "-nodefaults",
		"-no-reboot", "-display", "none",
		"-machine", c.machineOptions(f.shared), "-accel", c.accelOptions(accel), "-cpu", c.cpuModel(accel),
		"-smp", strconv.Itoa(c.cpus), "-m", strconv.FormatInt(c.memory>>20, 10) + "M",
		"-kernel", f.kernel, "-initrd", f.initrd, "-append", c.kernelArguments(accel, f),
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-chardev", "socket,id=control," + f.control, "-mon", "chardev=control,mode=control",
		"-chardev", "socket,id=wire," + f.wire,
		"-device", "virtio-serial-" + bus + ",max_ports=2", "-device",
		"virtserialport,chardev=wire,name=" + guestabi.Port,
	}
	if f.shared {
		a = append(a, "-object", fmt.Sprintf("memory-backend-memfd,id=%s,size=%dM,share=on", memoryID, c.memory>>20))
	}
	if c.machine == "microvm" {
		a = append(a, "-global", "virtio-mmio.force-legacy=false")
	}
	if c.disk > 0 {
		a = append(a, c.scratch(f.disk).arguments(bus)...)
	}
	a = append(a, c.rootArguments(bus)...)
	if f.card != nil {
		a = append(a, f.card.arguments(bus)...)
	} else if card := c.card(f.network); card != "none" {
		if card == "virtio" {
			card = "virtio-net-" + bus
		}
		// Unrestricted, the guest reaches the host's loopback, where the servers of mounts and the run's peer listen,
		// and everything that the host reaches. QEMU's user-mode network has no middle setting that reaches servers not
		// started by QEMU. Of the agent's own workloads only those on the network open connections, and only to the
		// peer.
		a = append(a, "-netdev", "user,id=net,restrict="+onOff(!f.network), "-device", card+",netdev=net"+noROM(bus))
	}
	for _, l := range f.links {
		a = append(a, l.arguments(bus)...)
	}
	a = append(a, onBus(f.devices, bus)...)
	if c.sandbox {
		a = append(a, sandboxArguments()...)
	}
	return a
}

// bus is the suffix of virtio device names on the machine's bus.
func (c *config) bus() string {
	if c.machine == "microvm" {
		return "device"
	}
	return "pci"
}

// noROM omits the card's boot ROM, which would need another package and is never run.
func noROM(bus string) string {
	if bus == "pci" {
		return ",romfile="
	}
	return ""
}

// memoryID is the QEMU name of the shared memory.
const memoryID = "ram"

// machineOptions assigns shared memory to the machine itself and not to a NUMA node, so that the guest sees the same
// topology as without sharing.
func (c *config) machineOptions(shared bool) string {
	m := c.machine
	if c.arch == "arm64" {
		m += ",gic-version=3"
	}
	if shared {
		m += ",memory-backend=" + memoryID
	}
	return m
}

// card is the machine's network card: "none", "virtio" or "e1000".
func (c *config) card(network bool) string {
	if c.nic == "none" && network {
		return "virtio"
	}
	return c.nic
}

// onBus renames virtio devices for PCI to those for another bus.
func onBus(devices []string, bus string) []string {
	devices = slices.Clone(devices)
	if bus == "pci" {
		return devices
	}
	for i := 1; i < len(devices); i++ {
		kind, rest, _ := strings.Cut(devices[i], ",")
		if name, ok := strings.CutSuffix(kind, "-pci"); ok && devices[i-1] == "-device" {
			devices[i] = name + "-" + bus + "," + rest
		}
	}
	return devices
}

func (c *config) cpuModel(accel string) string {
	switch {
	case c.cpu != "":
		return c.cpu
	case accel == "tcg":
		return c.target.cpu
	case accel == "whpx":
		return "max"
	}
	return "host"
}

// kernelArguments is the guest's kernel command line. The user's arguments come last, so they have priority.
func (c *config) kernelArguments(accel string, f files) string {
	a := []string{"console=" + c.console, "panic=-1", "quiet", "rdinit=" + guestabi.Init,
		// Trust entropy from the CPU and the host: a guest that lives for seconds has no other source.
		"random.trust_cpu=on", "random.trust_bootloader=on",
		guestabi.HostnameArg + "=" + f.hostname,
	}
	if c.arch == "amd64" && accel == "tcg" {
		// The kernel checks whether the timer interrupts, for as long as ten ticks take by its own loop count, and
		// panics if it does not: "IO-APIC + timer doesn't work!". That happens on a busy host. Under KVM it omits the
		// check by itself. It also tests its own ciphers, which takes an emulated processor most of a second.
		a = append(a, "no_timer_check", "cryptomgr.notests")
	}
	if c.machine == "microvm" && accel == "tcg" {
		// microvm has neither HPET nor PM timer, only a PIT. If the host is busy, the kernel cannot calibrate the TSC
		// against the PIT ("tsc: Unable to calibrate against PIT"). It then has no clock and hangs without a message;
		// that happened in about one boot of twenty, and in every boot with earlyprintk=ttyS0 (Linux 6.1, QEMU 7.2). So
		// it gets the frequency here. It must also trust the counter; otherwise its only clock would be the timer tick
		// of 4 ms.
		if khz := hostTSC(); khz > 0 {
			a = append(a, "tsc_early_khz="+strconv.FormatInt(khz, 10))
		}
		a = append(a, "tsc=reliable")
	}
	if c.disk > 0 {
		a = append(a, guestabi.ScratchArg+"="+scratchSerial)
	}
	a = append(a, c.rootKernelArguments()...)
	if len(f.serials) > 0 {
		a = append(a, guestabi.DisksArg+"="+strings.Join(f.serials, ","))
	}
	if f.peer {
		a = append(a, guestabi.NetworkArg)
	}
	if c.append != "" {
		a = append(a, c.append)
	}
	return strings.Join(a, " ")
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
