package virtualbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"tare/internal/lab/env"
)

// The settings' values that mean more than VirtualBox's own word for them.
const (
	byDefault   = "default" // VirtualBox decides
	interpreter = "interpreter"
	none        = "none"

	formatVDI   = "vdi"
	formatFixed = "vdi-fixed"
	formatRaw   = "raw"
)

const (
	defaultMemory = "512MiB"
	defaultDisk   = "256MiB"
	// How long a boot may take by default until the agent answers.
	bootVirtual     = time.Minute
	bootInterpreted = 8 * time.Minute
)

// limits are those of the settings; smaller ext4 file systems have no journal.
var limits = env.Machines{
	CPUs: 64, LeastMemory: 128 << 20, MostMemory: 1 << 40, MemoryStep: env.MiB,
	LeastDisk: 32 << 20, MostDisk: 1 << 41, LeastBoot: 10 * time.Second,
}

// config is the parsed settings, checked one by one and together.
type config struct {
	root                        string
	engine                      string
	fallback                    bool // to the interpreter, because the driver is not loaded
	cpus                        int
	memory                      int64 // bytes, a multiple of MiB
	paravirt, chipset, firmware string
	nic, nicMode                string
	reach                       error // why the guest does not reach this machine's loopback
	disk                        int64 // bytes; 0: no scratch disk
	drive                       drive // of the scratch disk
	nestedPaging, largePages    string
	kernel, modules             string
	boot                        time.Duration
	saved                       bool
	shown                       map[string]string // all settings as text, with defaults
}

// drive is how a disk is kept and connected.
type drive struct {
	controller  string
	format      string
	cache       bool   // the host's page cache is used
	ignoreFlush string // "default", "on" or "off"
}

// driveSettings are those of every disk.
func driveSettings() []env.Setting {
	return []env.Setting{
		{Name: "controller", Default: "virtio-scsi", Doc: "The disk's controller, which decides what a flush is " +
			"worth: ide, ahci, nvme or virtio-scsi.", Check: env.OneOf(controllerNames()...),
			Try: controllerNames(), Moves: env.MovesFiles},
		{Name: "format", Default: formatVDI, Doc: "The disk's file: vdi (grows), vdi-fixed (written in full) or " +
			"raw, behind a VMDK descriptor.", Check: env.OneOf(formatVDI, formatFixed,
			formatRaw), Try: []string{formatVDI, formatFixed}, Moves: env.MovesFiles},
		{Name: "hostiocache", Default: "off", Doc: "The host's page cache for the disk: on or off.",
			Check: env.OneOf("on", "off"), Try: []string{"on", "off"}, Moves: env.MovesFiles},
		{Name: "ignore_flush", Default: byDefault, Doc: "Guests' flushes are ignored: on, off, or default: on for " +
			"ide, and for virtio-scsi with hostiocache=on, else off.",
			Check: env.OneOf(byDefault, "on", "off")},
	}
}

// rootVar is an environment variable with the default of root=.
const rootVar = "TARE_VIRTUALBOX_ROOT"

func settings() []env.Setting {
	return slices.Concat([]env.Setting{
		{Name: "root", Default: "$" + rootVar, Doc: "Root directory of another system, whose VirtualBox is used, " +
			"to compare versions (Linux, root).", Check: checkRoot},
		{Name: "engine", Default: byDefault, Doc: "What executes the guest's code: hwvirt, the processor, by " +
			"VirtualBox's kernel driver; interpreter, without a driver, with one CPU, about 100 times slower; or " +
			"default, the first that is there.",
			Check: env.OneOf(byDefault, "hwvirt", interpreter)},
		{Name: "cpus", Default: "1", Doc: "Virtual CPUs, 1 to 64.",
			Check: env.Parsed(limits.ParseCPUs)},
		{Name: "memory", Default: defaultMemory, Doc: "The guest's memory, such as 512MiB or 1GiB.",
			Check: env.Parsed(limits.ParseMemory)},
		{Name: "disk", Default: defaultDisk,
			Doc:   "Size of the scratch disk, where file workloads run; none: in the guest's memory.",
			Check: env.Parsed(limits.ParseDisk)},
	}, driveSettings(), []env.Setting{
		{Name: "paravirt", Default: "default (interpreter: none)", Doc: "Interface offered to the guest's kernel: " +
			"none, default, legacy, minimal, hyperv or kvm.",
			Check: env.OneOf(none, byDefault, "legacy", "minimal", "hyperv", "kvm"),
			Try:   []string{none, "legacy", "kvm"}},
		{Name: "chipset", Default: "piix3", Doc: "The machine's chipset: piix3 or ich9.", Check: env.OneOf("piix3",
			"ich9"), Try: []string{"piix3", "ich9"}},
		{Name: "firmware", Default: "bios", Doc: "The machine's firmware: bios or efi.", Check: env.OneOf("bios",
			"efi")},
		{Name: "nic", Default: none, Doc: "Network card: none, 82540EM, 82545EM, Am79C973 or virtio.",
			Check: env.OneOf(cardNames()...)},
		{Name: "nic_mode", Default: "null", Doc: "What the card is connected to: null, nothing; or nat, by which " +
			"the guest reaches this machine.", Check: env.OneOf("null", nat)},
		{Name: "nested_paging", Default: byDefault, Doc: "The processor's nested page tables: on, off or default.",
			Check: env.OneOf(byDefault, "on", "off"), Try: []string{"off"}},
		{Name: "large_pages", Default: byDefault, Doc: "Large pages for the guest's memory: on, off or default.",
			Check: env.OneOf(byDefault, "on", "off"), Try: []string{"on"}},
		{Name: "kernel", Default: "auto", Doc: "The guest's kernel: cloud, generic, a fetched release or an " +
			"image's path; auto: the first with the needed drivers."},
		{Name: "modules", Default: "", Doc: "Folder with more modules for that kernel, such as vboxguest.ko and " +
			"vboxsf.ko.", Check: checkFolder},
		{Name: "boot", Default: "60s, 8m (interpreter)", Doc: "How long a boot may take, 10s to 1h.",
			Check: env.Parsed(limits.ParseBoot)},
		{Name: "saved", Default: "on", Doc: "Later openings in a run go on from the saved state of the first boot: " +
			"on or off.", Check: env.OneOf("on", "off")},
	}, cloneSettings(), sshSettings())
}

// parse reads the settings of a spec. The error says what to change.
func parse(s *env.Spec) (config, error) {
	shown, err := env.Resolve(settings(), s)
	c := config{shown: shown}
	if err != nil {
		return c, err
	}
	c.engine = c.shown["engine"]
	if c.root = c.shown["root"]; c.root == "" {
		c.root = os.Getenv(rootVar)
	}
	if c.fallback = c.engine == byDefault && !driverLoaded(); c.fallback {
		c.engine, c.shown["engine"] = interpreter, interpreter
	}
	c.cpus, _ = limits.ParseCPUs(c.shown["cpus"])
	c.memory, _ = limits.ParseMemory(c.shown["memory"])
	c.disk, _ = limits.ParseDisk(c.shown["disk"])
	c.drive = parseDrive(c.shown)
	if _, given := s.Settings["paravirt"]; !given {
		c.shown["paravirt"] = byDefault
		if c.engine == interpreter {
			c.shown["paravirt"] = none
		}
	}
	if _, given := s.Settings["boot"]; !given {
		c.shown["boot"] = bootVirtual.String()
		if c.engine == interpreter {
			c.shown["boot"] = bootInterpreted.String()
		}
	}
	c.boot, _ = limits.ParseBoot(c.shown["boot"])
	c.paravirt, c.chipset, c.firmware = c.shown["paravirt"], c.shown["chipset"], c.shown["firmware"]
	c.nic, c.nicMode = c.shown["nic"], c.shown["nic_mode"]
	c.reach = reach(s.Name, c.nic, c.nicMode)
	c.nestedPaging, c.largePages = c.shown["nested_paging"], c.shown["large_pages"]
	c.kernel, c.modules, c.saved = c.shown["kernel"], c.shown["modules"], c.shown["saved"] == "on"
	for _, d := range slices.Concat(cloneSettings(), sshSettings()) {
		if _, given := s.Settings[d.Name]; given && s.Arg == "" {
			return c, fmt.Errorf("%s= is for a machine of yours: virtualbox:NAME?%[1]s=%s", d.Name, s.Settings[d.Name])
		}
	}
	switch {
	case c.engine == interpreter && c.cpus > 1:
		return c, fmt.Errorf("engine=interpreter runs one CPU only: with more, the guest's kernel reports stuck CPUs; "+
			"leave "+
			"out cpus=%d", c.cpus)
	case c.engine == interpreter && (c.nestedPaging != byDefault || c.largePages != byDefault):
		return c, errors.New("nested_paging= and large_pages= need hardware virtualization, which engine=interpreter " +
			"does not use; leave them out")
	case runtime.GOARCH != "amd64":
		return c, errors.New("machines are made on x86-64 only")
	}
	return c, nil
}

func parseDrive(shown map[string]string) drive {
	return drive{shown["controller"], shown["format"], shown["hostiocache"] == "on", shown["ignore_flush"]}
}

func checkRoot(v string) error {
	if err := env.CheckAbsolute(v); err != nil {
		return err
	}
	_, err := find(v)
	return err
}

func checkFolder(v string) error {
	if v == "" {
		return nil
	}
	return env.CheckAbsolute(v)
}

// openTime bounds the opening of a spec's machine: a boot, and the steps before and after it.
func openTime(s env.Spec) time.Duration {
	c, err := parse(&s)
	if err != nil {
		return 0
	}
	return c.boot + 2*time.Minute
}

// ownDiskSpace is the size of the scratch disk, if there is one.
func ownDiskSpace(s env.Spec, _ string) env.FreeSpace {
	c, err := parse(&s)
	if err != nil {
		return env.FreeSpace{Bytes: -1}
	}
	return env.DiskSpace(c.disk)
}
