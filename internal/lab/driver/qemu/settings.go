package qemu

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/lab/stack"
	"tare/internal/lab/vdisk"
)

const (
	// defaultMemory is the machine's memory if none is given.
	defaultMemory = "1GiB"

	bootTCG     = 60 * time.Second
	bootVirtual = 30 * time.Second
	// bootMount is added for each mount: its drivers and programs are unpacked and loaded before the agent answers.
	// Thirteen mounts, one of each kind, doubled a boot under TCG from 7 s to 13 s; with four times as many busy
	// processes as CPUs on the host, it took 30 s.
	bootMount = 3 * time.Second
)

// limits are those of the settings: a stock kernel with the agent needs about 90 MiB, and smaller ext4 file systems
// have no journal.
var limits = env.Machines{
	CPUs: 255, LeastMemory: 128 << 20, MostMemory: 1 << 42, MemoryStep: env.MiB,
	LeastDisk: 32 << 20, MostDisk: 1 << 44, LeastBoot: time.Second,
}

// config is the parsed settings, checked one by one and together.
type config struct {
	target
	accel   string // "auto", "kvm", "tcg", "hvf", "whpx"
	machine string // "q35", "microvm", "virt"
	cpus    int
	memory  int64 // bytes, a multiple of MiB
	kernel  string
	disk    int64       // bytes; 0: no scratch disk
	served  string      // path of an existing scratch disk; disk is then just not 0
	image   vdisk.Shape // of the scratch disk
	discard string
	cache   cacheMode
	aio     string
	nic     string
	net     string // netUser, netTap, netBridge, netMacvtap
	vhost   bool
	cpu     string // "": the accelerator's best
	append  string
	boot    time.Duration // 0: depends on the accelerator
	sandbox bool
	drivers []string // additional kernel modules; not a setting
	root    rootImage
	tcg     string // tcgAuto, "multi", "single"

	iothread bool // of the scratch disk

	shown map[string]string // all settings as text, with defaults
}

func settings() []env.Setting {
	return slices.Concat([]env.Setting{
		{Name: "accel", Default: "auto",
			Doc:   "Accelerator: kvm, hvf, whpx, or tcg, which emulates the CPU; auto: the first that really boots.",
			Check: env.OneOf("auto", "kvm", "hvf", "whpx", "tcg")},
		{Name: "arch", Default: archName(runtime.GOARCH),
			Doc:   "The guest's architecture: x86_64, arm64 or riscv64; if it is not the host's, it is emulated.",
			Check: checkArch},
		{Name: "machine", Default: "q35 (x86_64), virt (arm64, riscv64)",
			Doc:   "QEMU's machine: q35, microvm or pc (a chipset of 1996) for x86_64, else virt.",
			Check: env.OneOf("q35", "microvm", "pc", "virt"), Try: tryMachines()},
		{Name: "cpus", Doc: "Virtual CPUs, 1 to 255; by default as many as this machine has.",
			Check: env.Parsed(limits.ParseCPUs), Try: []string{"1"}},
		{Name: "memory", Default: defaultMemory, Doc: "The guest's memory, such as 512MiB or 1GiB.",
			Check: env.Parsed(limits.ParseMemory), Try: []string{"1GiB"}},
		{Name: "kernel", Default: "auto", Doc: "The guest's kernel: cloud, generic, host, a fetched release or an " +
			"image's path; auto: the first with the needed drivers.",
			Try: []string{"generic"}},
		{Name: "disk", Default: "1GiB",
			Doc:   "Size of the scratch disk, where file workloads run; none: in the guest's memory.",
			Check: env.Parsed(limits.ParseDisk)},
		{Name: "cache", Default: "writeback", Doc: "The disk's cache on the host: none, writeback, writethrough, " +
			"directsync, or unsafe, which ignores flushes.", Check: env.OneOf(cacheNames()...),
			Try: []string{"writeback", "none", "writethrough", "directsync"}, Moves: env.MovesFiles},
		{Name: "aio", Default: "threads",
			Doc: "How QEMU reads and writes the disk: threads, native or io_uring; native needs cache=none or " +
				"directsync.", Check: env.OneOf("threads", "native", "io_uring"),
			Try: []string{"threads", "native", "io_uring"}, Moves: env.MovesFiles},
		{Name: "iothread", Default: "off",
			Doc:   "A thread of QEMU's own for the disk: on, or off for QEMU's main thread.",
			Check: env.OneOf("on", "off"), Try: []string{"on", "off"}, Moves: env.MovesFiles},
	}, networkSettings(), []env.Setting{
		{Name: "cpu", Default: "auto",
			Doc:   "QEMU's CPU model, such as Skylake-Client; auto: host, or if emulated max or cortex-a72.",
			Check: checkCPU},
		{Name: "append", Default: "", Doc: "More arguments for the guest's kernel.", Check: env.CheckArguments},
		{Name: "boot", Default: "60s (tcg), 30s",
			Doc:   "How long a boot may take, 1s to 1h; each mount adds 3s to the default.",
			Check: env.Parsed(limits.ParseBoot)},
		{Name: "sandbox", Default: "on", Doc: "QEMU's system call filter: on or off.", Check: env.OneOf("on", "off"),
			Try: []string{"on", "off"}},
	}, imageSettings(), rootSettings(), tcgSettings(), groupSettings())
}

// groupSettings are the limits of QEMU's process by control groups.
func groupSettings() []env.Setting { return limited.Settings(true) }

// parse reads the settings of a spec. The error says what to change.
func parse(s *env.Spec) (config, error) {
	c := config{shown: map[string]string{}}
	if _, err := env.Resolve(settings(), s); err != nil {
		return c, err
	}
	get := func(name, fallback string) string {
		c.shown[name] = s.Get(name, fallback)
		return c.shown[name]
	}
	var err error
	if c.target, err = targetOf(goarch(get("arch", archName(defaultArch())))); err != nil {
		return c, err
	}
	c.accel = get("accel", "auto")
	c.machine = get("machine", c.machines[0])
	c.kernel = get("kernel", "auto")
	c.aio = get("aio", "threads")
	c.iothread = get("iothread", "off") == "on"
	c.nic, c.net = get("nic", nicOf(*s)), get("net", netUser)
	c.vhost = get("vhost", "off") == "on"
	c.cpu = strings.TrimPrefix(get("cpu", "auto"), "auto")
	c.append = get("append", "")
	c.sandbox = get("sandbox", "on") == "on"
	c.cache = cacheModes[get("cache", "writeback")]
	c.cpus, _ = limits.ParseCPUs(get("cpus", strconv.Itoa(defaultCPUs())))
	c.memory, _ = limits.ParseMemory(get("memory", defaultMemory))
	c.disk, _ = limits.ParseDisk(get("disk", "1GiB"))
	for _, d := range groupSettings() {
		get(d.Name, d.Default)
	}
	if v, ok := s.Settings["boot"]; ok {
		c.boot, _ = limits.ParseBoot(v)
		c.shown["boot"] = v
	}
	c.tcg = get("tcg", tcgAuto)
	if err := c.checkTCG(); err != nil {
		return c, err
	}
	if c.root, err = parseRoot(get("root", rootNone), get("packages", ""), get(stack.SettingName, "")); err != nil {
		return c, err
	}
	if c.image, err = parseImage(given(s), c.cache, c.aio, c.shown); err != nil {
		return c, err
	}
	c.discard = c.shown[settingDiscard]
	if err := c.checkScratch(s); err != nil {
		return c, err
	}
	return c, c.consistent()
}

// consistent says which settings contradict each other.
func (c *config) consistent() error {
	switch {
	case !slices.Contains(c.machines, c.machine):
		return fmt.Errorf("machine=%s does not exist for arch=%s; use machine=%s", c.machine, archName(c.arch),
			strings.Join(c.machines, " or machine="))
	case c.accel != "auto" && c.accel != "tcg" && c.arch != runtime.GOARCH:
		return fmt.Errorf("accel=%s cannot run arch=%s on this machine, which is %s; use accel=tcg", c.accel,
			archName(c.arch), archName(runtime.GOARCH))
	case c.machine == "microvm" && c.nic == "e1000":
		return errors.New("machine=microvm has no PCI for nic=e1000; use nic=virtio or machine=q35")
	case c.net != netUser && c.nic == "none":
		return fmt.Errorf("net=%s needs a network card, but nic=none gives none; use nic=virtio or nic=e1000", c.net)
	case c.vhost && c.net == netUser:
		return errors.New("vhost=on needs net=tap, net=bridge or net=macvtap: net=user runs inside QEMU itself")
	case c.vhost && c.nic != "virtio":
		return fmt.Errorf("vhost=on is for nic=virtio, not for nic=%s, which QEMU emulates", c.nic)
	case c.iothread && c.disk == 0:
		return errors.New("disk=none and iothread=on contradict each other; give the disk a size")
	case c.cpu == "host" && c.accel == "tcg":
		return errors.New("cpu=host needs the host's own CPU, but accel=tcg emulates one; use cpu=max")
	}
	return c.checkThread(c.accel)
}

// checkThread rejects a disk's own thread where nothing wakes it: a virtio device of a machine without PCI needs KVM's
// event descriptors for that.
func (c *config) checkThread(accel string) error {
	if c.iothread && c.machine == "microvm" && accel == "tcg" {
		return errors.New("iothread=on with machine=microvm needs a CPU that is not emulated; use machine=q35")
	}
	return nil
}

// tryMachines are the machines that this machine's own architecture has.
func tryMachines() []string {
	if runtime.GOARCH == "amd64" {
		return []string{"q35", "microvm", "pc"}
	}
	return nil
}

func defaultCPUs() int { return min(runtime.NumCPU(), 255) }

// defaultArch is the host's architecture if guests of it can be booted.
func defaultArch() string {
	if slices.Contains(microvm.Arches(), runtime.GOARCH) {
		return runtime.GOARCH
	}
	return "amd64"
}

func goarch(arch string) string {
	switch arch {
	case "x86_64", "amd64":
		return "amd64"
	case "arm64", "aarch64":
		return "arm64"
	case "riscv64":
		return "riscv64"
	}
	return ""
}

func archName(goarch string) string {
	if goarch == "amd64" {
		return "x86_64"
	}
	return goarch
}

func checkArch(v string) error {
	if goarch(v) == "" {
		return fmt.Errorf("%q is not one of x86_64, arm64, riscv64", v)
	}
	return nil
}

// openTime is how long two boots may take (a failed boot is retried once), with making the disk and shutting down. It
// is 0 if neither boot= nor a part of a processor sets the time of one boot.
func openTime(s env.Spec) time.Duration {
	boot, err := limits.ParseBoot(s.Get("boot", ""))
	if err != nil {
		if boot = limited.Patience(s, bootTCG); boot == bootTCG {
			return 0
		}
	}
	return 2*boot + time.Minute
}

// ownDiskSpace is the size of the scratch disk, if there is one of that size.
func ownDiskSpace(s env.Spec, _ string) env.FreeSpace {
	c, err := parse(&s)
	if d := c.image.Device; err != nil || d != "" && d != vdisk.LoopDevice {
		return env.FreeSpace{Bytes: -1}
	}
	return env.DiskSpace(c.disk)
}

// A comma would start QEMU's next option.
var cpuRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(,[+-]?[a-z0-9._-]+(=[a-z0-9._-]+)?)*$`)
})

func checkCPU(v string) error {
	if len(v) > 400 || !cpuRE().MatchString(v) {
		return fmt.Errorf("%q is not a CPU model in QEMU's syntax: Haswell, max,avx512f=off", v)
	}
	return nil
}
