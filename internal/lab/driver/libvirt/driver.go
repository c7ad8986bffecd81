// Package libvirt drives virtual machines by libvirt's virsh: micro-VMs that it makes for one run, and domains that
// exist.
//
// It is opinionated about ownership. A domain of tare's is transient, has the run's id in its name and its owner in its
// metadata, and libvirtd itself destroys it when tare ends, however it ends. A domain of the user's is entered and left
// as it was found: never started, stopped or changed.
package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/driver/folder"
	"tare/internal/lab/driver/qemu"
	"tare/internal/lab/driver/serial"
	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/sys/proc"
)

const name = "libvirt"

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name: name, ArgDoc: "DOMAIN",
		Doc: "A micro-VM made by libvirt for the run; with a name, a domain that is running already, by ssh or by " +
			"its serial port.",
		Settings: settings(), Mounts: mountKinds(),
		Driver: driver{}, Probe: probe, Has: has, OpenTime: openTime, Reach: reach, FreeSpace: freeSpace, Clean: clean,
		Plug: plug, Alone: alone,
		Nature: env.Nature{Files: env.FilesQEMU},
	}}
}

func alone(s env.Spec) error {
	if s.Arg != "" && s.Get(settingSerial, "") != "" {
		return env.OneLine()
	}
	return nil
}

// plug is that of QEMU's machines, for those that are made.
func plug(s env.Spec) (env.Plug, error) {
	if s.Arg != "" {
		return env.Plug{}, errors.New("tare does not change an existing domain; name none, so that it makes a micro-VM")
	}
	return qemu.Infos()[0].Plug(s)
}

// The two types of domains.
const (
	typeQEMU = "qemu"
	typeKVM  = "kvm"
)

// Settings of this driver's own.
const (
	settingURI      = "uri"
	settingType     = "type"
	settingFirmware = "firmware"
	settingIO       = "io"
	settingBus      = "bus"
)

// busVirtio is the bus of disks that guests of libvirt's usually have.
const busVirtio = "virtio"

// renamed are QEMU's settings that libvirt's users know by other names.
var renamed = map[string]string{settingType: "accel", settingIO: "aio"}

// shared are the settings of a micro-VM that mean the same here as in the driver qemu.
var shared = []string{"arch", "cpus", "memory", "kernel", "disk", "cache", "nic", "cpu", "append", "boot"}

// sharedImage are those of its disk's image and of its root, whose documentation and checks are those of the driver
// qemu, too.
var sharedImage = []string{"subformat", "state", "preallocation", "cluster_size", "extended_l2", "device", "destroy",
	"fill", "fill_data", "discard", "root", "packages"}

func settings() []env.Setting {
	theirs := qemu.Infos()[0].Settings
	take := func(names []string) (all []env.Setting) {
		for _, s := range theirs {
			if slices.Contains(names, s.Name) {
				all = append(all, s)
			}
		}
		return all
	}
	own := []env.Setting{
		{Name: settingURI, Default: systemURI + " (root), " + sessionURI,
			Doc: "Which libvirtd, unless $LIBVIRT_DEFAULT_URI says.", Check: checkURI},
		{Name: settingType, Default: "auto",
			Doc:   "The domain's type: kvm, or qemu, which emulates the CPU; auto: kvm if a guest really boots.",
			Check: env.OneOf("auto", typeKVM, typeQEMU)},
		{Name: "machine", Default: "q35 (x86_64), virt (arm64)",
			Doc: "The domain's machine: q35 or pc for x86_64, virt for arm64.", Check: env.OneOf("q35", "pc", "virt")},
		{Name: settingFirmware, Default: "bios", Doc: "The domain's firmware: bios, or efi, which needs an OVMF.",
			Check: env.OneOf("bios", "efi")},
		{Name: settingIO, Default: "threads", Doc: "How QEMU reads and writes the disk: threads, native or " +
			"io_uring; native needs cache=none or directsync.", Check: env.OneOf("threads", "native", "io_uring")},
		{Name: settingBus, Default: busVirtio, Doc: "The disks' bus: virtio, scsi (virtio-scsi), sata or ide, " +
			"which only machine=pc has.", Check: env.OneOf(busNames()...)},
		{Name: "format", Default: "raw", Doc: "The disk's format: raw, qcow2, vdi, vmdk or vhd.",
			Check: env.OneOf("raw", "qcow2", "vdi", "vmdk", "vhd")},
	}
	return slices.Concat(own, take(shared), take(sharedImage), attachSettings())
}

// mountKinds are the mounts that libvirt can say: disks and its filesystem elements. The guest's memory needs nothing.
func mountKinds() []env.MountKind {
	var all []env.MountKind
	for _, k := range qemu.Infos()[0].Mounts {
		if !slices.Contains([]string{"tmpfs", "disk", "9p", "virtiofs"}, k.Name) {
			continue
		}
		check := k.CheckAll
		k.CheckAll = func(in, s env.Spec) error {
			switch {
			case in.Arg != "":
				return errors.New("tare adds no mounts to an existing domain; name a directory in it: dir:PATH")
			case s.Settings["format"] == "vhdx":
				return errors.New("libvirt has no disks of format vhdx; use raw, qcow2, vdi, vmdk or vhd")
			case s.Settings["security_model"] == "mapped-file":
				return errors.New("libvirt has no security_model=mapped-file; use none, passthrough or mapped-xattr")
			case s.Settings["dax"] != "" && s.Settings["dax"] != "off":
				return errors.New("libvirt has no DAX window for virtiofs; leave out dax")
			case check != nil:
				return check(in, s)
			}
			return nil
		}
		all = append(all, k)
	}
	dir := folder.DirKind(false)
	check := dir.CheckAll
	dir.CheckAll = func(in, s env.Spec) error {
		switch {
		case in.Arg == "":
			return errors.New("a micro-VM has no directory of its own that could be named; use disk, 9p or virtiofs")
		case check != nil:
			return check(in, s)
		}
		return nil
	}
	return append(all, dir)
}

// probe tells whether micro-VMs can be made. It does not start anybody's libvirtd.
func probe(ctx context.Context) env.Status {
	v := virsh{uri: defaultURI()}
	libvirt, hypervisor, err := v.version(ctx)
	if err != nil {
		x := v.explain("ask libvirtd", err)
		return env.Status{Detail: x.Err.Error(), Remedy: x.Remedy}
	}
	kernels, err := microvm.Find("", runtime.GOARCH, "")
	if err != nil {
		return env.Status{Detail: "libvirt " + libvirt + ", but no kernel for a guest",
			Remedy: microvm.Remedy(runtime.GOARCH, "")}
	}
	return env.Status{OK: true,
		Detail: fmt.Sprintf("libvirt %s at %s, QEMU %s, kernel %s", libvirt, v.uri, hypervisor, kernels[0].Release)}
}

// has tells whether a named domain is there and runs.
func has(ctx context.Context, s env.Spec) env.Status {
	if s.Arg == "" {
		return env.Status{OK: true}
	}
	v := virsh{uri: s.Get(settingURI, defaultURI())}
	if err := v.running(ctx, s.Arg); err != nil {
		return env.Status{Detail: err.Err.Error(), Remedy: err.Remedy}
	}
	return env.Status{OK: true}
}

// driver opens domains. Its fields are for tests; empty fields mean the usual places.
type driver struct {
	memory string // file that records which accelerators work
	logs   string // folder of libvirt's logs of domains
}

// Open makes a domain, or enters one that exists.
func (d driver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	wrong := func(err error, remedy string) (env.Env, error) {
		return nil, &env.OpenError{Env: o.Name, Op: "read settings", Err: err, Remedy: remedy}
	}
	v := virsh{uri: o.Get(settingURI, defaultURI()), waken: true}
	if err := checkURI(v.uri); err != nil {
		return wrong(err, "name libvirtd with uri="+systemURI)
	}
	if err := checkBelongs(&o.Spec); err != nil {
		return wrong(err, "tare list environments shows the settings")
	}
	if o.Arg != "" {
		return attach(ctx, v, o)
	}
	if !here(v.uri) {
		return wrong(fmt.Errorf("%s is another machine's libvirtd, which cannot see the files of a micro-VM made here",
			v.uri), "run tare on that machine, or name a domain that runs there: libvirt:DOMAIN")
	}
	s, err := o.Spec, error(nil)
	if s.Settings, err = translate(o.Spec); err != nil {
		return wrong(err, "tare list environments shows the settings and their values")
	}
	m := &manager{virsh: v, given: o.Settings, logs: d.logs, bus: o.Get(settingBus, busVirtio)}
	if err := checkBus(&o.Spec); err != nil {
		return wrong(err, "bus=sata and bus=scsi work with every machine of x86_64")
	}
	if o.Get(settingFirmware, "bios") == "efi" {
		m.firmware = "efi"
	}
	o.Spec = s
	return qemu.Managed(m, qemu.ManagedOptions{Memory: d.memory, Packed: m.firmware != "",
		Drivers: buses[m.bus].drivers}).Open(ctx, o)
}

// translate returns the settings of the driver qemu for those of a micro-VM here.
func translate(s env.Spec) (map[string]string, error) {
	out := map[string]string{"machine": ""}
	for _, d := range settings() {
		v, given := s.Settings[d.Name]
		if !given {
			continue
		}
		if d.Check != nil {
			if err := d.Check(v); err != nil {
				return nil, fmt.Errorf("setting %s: %w", d.Name, err)
			}
		}
		switch d.Name {
		case settingURI, settingFirmware, settingBus:
			continue
		case settingType:
			if v == typeQEMU {
				v = "tcg"
			}
		}
		name := d.Name
		if theirs, ok := renamed[name]; ok {
			name = theirs
		}
		out[name] = v
	}
	if out["machine"] == "" {
		delete(out, "machine")
	}
	for k := range s.Settings {
		if !slices.ContainsFunc(settings(), func(d env.Setting) bool { return d.Name == k }) {
			return nil, fmt.Errorf("there is no setting %q", k)
		}
	}
	return out, nil
}

// Settings implements qemu.Manager.
func (m *manager) Settings(shown map[string]string) map[string]string {
	out := map[string]string{settingURI: m.uri, settingFirmware: "bios", settingBus: cmp.Or(m.bus, busVirtio)}
	if m.firmware != "" {
		out[settingFirmware] = m.firmware
	}
	for _, d := range settings() {
		theirs := d.Name
		if name, ok := renamed[d.Name]; ok {
			theirs = name
		}
		if v, ok := shown[theirs]; ok {
			out[d.Name] = v
		}
	}
	if out[settingType] == "tcg" {
		out[settingType] = typeQEMU
	}
	maps.Copy(out, m.given)
	return out
}

// madeOf is the spec of the driver qemu for that of a micro-VM here; ok is false for a domain that exists.
func madeOf(s env.Spec) (_ env.Spec, ok bool) {
	settings, err := translate(s)
	if s.Arg != "" || err != nil {
		return s, false
	}
	s.Settings = settings
	return s, true
}

func openTime(s env.Spec) time.Duration {
	if s.Get(settingSerial, "") != "" {
		return serial.Infos()[0].OpenTime(s)
	}
	return qemu.Infos()[0].OpenTime(s)
}

func freeSpace(s env.Spec, scratch string) env.FreeSpace {
	made, ok := madeOf(s)
	if !ok {
		return env.FreeSpace{Bytes: -1}
	}
	return qemu.Infos()[0].FreeSpace(made, scratch)
}

func reach(s env.Spec) error {
	if s.Arg != "" {
		return fmt.Errorf("it is not known whether %s, an existing domain, reaches this machine; %s", s.Name, env.Ways)
	}
	return qemu.Infos()[0].Reach(s)
}

// checkBelongs says which settings do not fit a micro-VM, or a domain that exists.
func checkBelongs(s *env.Spec) error {
	for k := range s.Settings {
		attaches := slices.ContainsFunc(attachSettings(), func(d env.Setting) bool { return d.Name == k })
		switch {
		case k == settingURI:
		case s.Arg != "" && !attaches:
			return fmt.Errorf("%s= is for a micro-VM that tare makes; the domain %s has its own", k, s.Arg)
		case s.Arg == "" && attaches:
			return fmt.Errorf("%s= is for a domain that exists: libvirt:DOMAIN?%s=%s", k, k, s.Settings[k])
		}
	}
	if s.Arg != "" && !nameRE().MatchString(s.Arg) {
		return fmt.Errorf("%q is not a domain's name that virsh takes", s.Arg)
	}
	return checkWay(s)
}

// running says why a domain is not running; nil if it is.
func (v virsh) running(ctx context.Context, domain string) *env.OpenError {
	out, err := v.run(ctx, "domstate", "--domain", domain)
	if err != nil {
		return v.explain("find domain", err)
	}
	state := proc.Line(out)
	if state == "running" {
		return nil
	}
	x := &env.OpenError{Op: "find domain", Err: fmt.Errorf("domain %s is %s, not running", domain, state),
		Remedy: fmt.Sprintf("start it: virsh -c %s start %s", v.uri, domain)}
	if state == "paused" {
		x.Remedy = fmt.Sprintf("let it go on: virsh -c %s resume %s", v.uri, domain)
	}
	if strings.TrimSpace(state) == "" {
		x.Err = fmt.Errorf("libvirtd does not say what domain %s does", domain)
	}
	return x
}
