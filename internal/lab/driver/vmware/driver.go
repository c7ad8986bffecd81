// Package vmware drives VMware's desktop products (Workstation, Fusion, Player) by their program vmrun and a generated
// .vmx: micro-VMs that boot tare's medium, with a serial port as the wire. A machine of the user's that boots that
// medium is entered by its serial port, and left as it was found.
//
// It is opinionated about what is known. VMware's programs are not free to run in a test suite, so nothing here has
// been run on the real product (docs/tested.md says what has been run instead). Each key of the .vmx is documented, and
// the machine's own log is the evidence of every failure.
package vmware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/medium"
	"tare/internal/lab/microvm"
)

const name = "vmware"

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name: name, ArgDoc: "PATH",
		Doc: "A micro-VM in VMware Workstation, Fusion or Player, by vmrun; with the path of a .vmx file, one of " +
			"yours that runs; not yet run on the real product.",
		Settings: settings(), Mounts: mountKinds(), Driver: driver{}, Probe: probe, Has: has, OpenTime: openTime,
		FreeSpace: freeSpace, Clean: clean, Alone: alone,
	}}
}

func alone(s env.Spec) error {
	if s.Arg != "" {
		return env.OneLine()
	}
	return nil
}

// driver opens machines. Its field is for tests: the cache folder of guest kernels; "" is the user's.
type driver struct{ kernels string }

const (
	none     = "none"
	bootTime = 2 * time.Minute

	defaultMemory = "1GiB"
	defaultDisk   = "1GiB"
)

// limits are those of the settings. VMware wants memory in multiples of 4 MiB.
var limits = env.Machines{
	CPUs: 64, LeastMemory: 128 << 20, MostMemory: 1 << 38, MemoryStep: 4 << 20,
	LeastDisk: 32 << 20, MostDisk: 1 << 42, LeastBoot: time.Second,
}

// config is the parsed settings.
type config struct {
	product    string // vmrun's -T; "" for the one of this system
	vmrun      string // path; "" to search
	cpus       int
	memory     int64
	disk       int64 // 0: none
	diskType   string
	controller string
	nic, mode  string
	firmware   string
	medium     string
	kernel     string
	append     string
	mitigated  bool
	boot       time.Duration
	shown      map[string]string
}

func settings() []env.Setting {
	return []env.Setting{
		{Name: "product", Default: "auto", Doc: "Product: ws (Workstation), fusion or player; auto: fusion on " +
			"macOS, else ws.",
			Check: env.OneOf("auto", "ws", "fusion", "player")},
		{Name: "vmrun", Default: "auto",
			Doc:   "Path of VMware's vmrun; auto: searched in PATH and the usual folders.",
			Check: checkPath},
		{Name: "cpus", Default: "1", Doc: "Virtual CPUs, 1 to 64.", Check: env.Parsed(limits.ParseCPUs)},
		{Name: "memory", Default: defaultMemory, Doc: "The guest's memory, such as 512MiB, a multiple of 4MiB.",
			Check: env.Parsed(limits.ParseMemory)},
		{Name: "disk", Default: defaultDisk,
			Doc:   "Size of the scratch disk, where file workloads run; none: in the guest's memory.",
			Check: env.Parsed(limits.ParseDisk)},
		{Name: "disk_type", Default: "dynamic",
			Doc:   "The disk's VMDK: dynamic grows (monolithicSparse), static has all its space (monolithicFlat).",
			Check: env.OneOf("dynamic", "static")},
		{Name: "controller", Default: "pvscsi",
			Doc:   "The disk's controller: pvscsi, lsilogic, nvme (hardware version 13 or later) or sata.",
			Check: env.OneOf(controllerNames()...)},
		{Name: "nic", Default: none, Doc: "Network card: none, vmxnet3, e1000 or e1000e.",
			Check: env.OneOf(none, "vmxnet3", "e1000", "e1000e")},
		{Name: "net", Default: "nat", Doc: "What the card is connected to: nat, bridged or hostonly.",
			Check: env.OneOf("nat", "bridged", "hostonly")},
		{Name: "firmware", Default: "bios", Doc: "The machine's firmware: bios or efi.",
			Check: env.OneOf("bios", "efi")},
		{Name: "mitigations", Default: "on", Doc: "VMware's side-channel mitigations, which cost time where " +
			"Hyper-V is on: on, or off (ulm.disableMitigations).",
			Check: env.OneOf("on", "off")},
		{Name: "medium", Default: "iso", Doc: "What the machine boots from: iso (a CD) or vmdk (a disk).",
			Check: env.OneOf("iso", "vmdk")},
		{Name: "kernel", Default: "auto", Doc: "The guest's kernel: cloud or generic; auto: the first with the " +
			"needed drivers.",
			Check: env.OneOf("auto", microvm.Cloud, microvm.Generic)},
		{Name: "append", Default: "", Doc: "More arguments for the guest's kernel.", Check: env.CheckArguments},
		{Name: "boot", Default: bootTime.String(), Doc: "How long a boot may take, 1s to 1h.",
			Check: env.Parsed(limits.ParseBoot)},
	}
}

// parse reads the settings of a spec. The error says what to change.
func parse(s *env.Spec) (config, error) {
	shown, err := env.Resolve(settings(), s)
	c := config{shown: shown}
	if err != nil {
		return c, err
	}
	c.vmrun = strings.TrimPrefix(c.shown["vmrun"], "auto")
	if c.product = c.shown["product"]; c.product == "auto" {
		c.product = "ws"
		if runtime.GOOS == "darwin" {
			c.product = "fusion"
		}
	}
	c.cpus, _ = strconv.Atoi(c.shown["cpus"])
	c.memory, _ = limits.ParseMemory(c.shown["memory"])
	c.disk, _ = limits.ParseDisk(c.shown["disk"])
	c.diskType, c.controller = c.shown["disk_type"], c.shown["controller"]
	c.nic, c.mode, c.firmware, c.medium = c.shown["nic"], c.shown["net"], c.shown["firmware"], c.shown["medium"]
	c.kernel, c.append = strings.TrimPrefix(c.shown["kernel"], "auto"), c.shown["append"]
	c.mitigated = c.shown["mitigations"] == "on"
	c.boot, _ = limits.ParseBoot(c.shown["boot"])
	for _, k := range []string{"disk_type", "controller"} {
		if _, given := s.Settings[k]; given && c.disk == 0 {
			return c, fmt.Errorf("disk=none and %s= contradict each other; give the disk a size", k)
		}
	}
	if _, given := s.Settings["net"]; given && c.nic == none {
		return c, errors.New("net= needs a card; use nic=vmxnet3 with it")
	}
	return c, nil
}

// pathRE leaves out what a .vmx cannot hold in a value: quotes, and the bar that escapes.
var pathRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^"|\x00-\x1f\x7f]{1,1000}$`) })

func checkPath(v string) error {
	if v != "auto" && !pathRE().MatchString(v) {
		return fmt.Errorf("%q is not a path", v)
	}
	return nil
}

func openTime(s env.Spec) time.Duration {
	boot, err := limits.ParseBoot(s.Get("boot", ""))
	if err != nil {
		return 0
	}
	return boot + time.Minute
}

func freeSpace(s env.Spec, _ string) env.FreeSpace {
	c, err := parse(&s)
	if err != nil {
		return env.FreeSpace{Bytes: -1}
	}
	return env.DiskSpace(c.disk)
}

// has tells whether a named machine runs.
func has(ctx context.Context, s env.Spec) env.Status {
	if s.Arg == "" {
		return env.Status{OK: true}
	}
	c, err := parse(&s)
	v := vmrun{product: c.product}
	if err == nil {
		v.path, err = findVmrun(c.vmrun)
	}
	if err == nil {
		_, err = v.running(ctx, s.Arg)
	}
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: cmp.Or(remedy(err), listRemedy)}
	}
	return env.Status{OK: true}
}

// probe tells whether the product and what makes its machines are here.
func probe(ctx context.Context) env.Status {
	v, err := findVmrun("")
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: installRemedy}
	}
	version, err := vmrun{path: v}.version(ctx)
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: installRemedy}
	}
	if m := medium.Probe(ctx); !m.OK {
		return env.Status{Detail: "vmrun " + version + ", but " + m.Detail, Remedy: m.Remedy}
	}
	kernels, err := microvm.Find("", "amd64", "")
	if err != nil {
		return env.Status{Detail: "vmrun " + version + ", but no kernel for a guest", Remedy: microvm.Remedy("amd64",
			"")}
	}
	return env.Status{OK: true, Detail: "vmrun " + version + ", kernel " + kernels[0].Release}
}
