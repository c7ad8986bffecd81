package libvirt

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/driver/qemu"
	"tare/internal/lab/env"
	"tare/internal/lab/mount"
	"tare/internal/measure/guestabi"
)

// node is an element of XML.
type node struct {
	name  string
	attrs []string // names and values
	text  string
	kids  []*node
}

// el makes an element with attributes: names and values.
func el(name string, attrs ...string) *node { return &node{name: name, attrs: attrs} }

// txt makes an element with a text.
func txt(name, text string, attrs ...string) *node {
	return &node{name: name, text: text, attrs: attrs}
}

// with adds elements; nil is none.
func (n *node) with(kids ...*node) *node {
	for _, k := range kids {
		if k != nil {
			n.kids = append(n.kids, k)
		}
	}
	return n
}

// String is the element as text.
func (n *node) String() string {
	b := &bytes.Buffer{}
	n.write(b, "")
	return b.String()
}

func (n *node) write(b *bytes.Buffer, indent string) {
	b.WriteString(indent + "<" + n.name)
	for i := 0; i+1 < len(n.attrs); i += 2 {
		b.WriteString(" " + n.attrs[i] + `="`)
		xml.EscapeText(b, []byte(n.attrs[i+1]))
		b.WriteString(`"`)
	}
	switch {
	case len(n.kids) > 0:
		b.WriteString(">\n")
		for _, k := range n.kids {
			k.write(b, indent+"  ")
		}
		b.WriteString(indent + "</" + n.name + ">\n")
	case n.text != "":
		b.WriteString(">")
		xml.EscapeText(b, []byte(n.text))
		b.WriteString("</" + n.name + ">\n")
	default:
		b.WriteString("/>\n")
	}
}

// sockets are where the machine's serial port and its wire call.
type sockets struct{ console, wire string }

// shape has the parts of a domain that not every micro-VM has.
type shape struct {
	firmware string // "" or "efi"
	bus      string // of the disks
	system   bool   // libvirtd is the machine's, and not the user's own
}

// domainXML describes a machine as a domain of libvirt.
func domainXML(m *qemu.Machine, o owner, uuid string, s sockets, as shape) ([]byte, error) {
	arch, err := archName(m.Arch)
	if err != nil {
		return nil, err
	}
	cpu, err := cpuNode(m.CPU)
	if err != nil {
		return nil, err
	}
	devices := el("devices").with(
		// libvirt adds devices that it takes for granted; each is one more thing for the guest's kernel to find.
		el("controller", "type", "usb", "model", "none"), el("memballoon", "model", "none"),
		el("serial", "type", "unix").with(el("source", "mode", "connect", "path", s.console), el("target", "port",
			"0")),
		el("channel", "type", "unix").with(el("source", "mode", "connect", "path", s.wire),
			el("target", "type", "virtio", "name", guestabi.Port)),
	)
	if as.bus == "scsi" {
		devices.with(el("controller", "type", "scsi", "model", "virtio-scsi")) // libvirt's own choice is an old LSI
	}
	used := map[string]int{}
	for _, d := range m.Disks {
		disk, err := diskNode(d, as.bus, used)
		if err != nil {
			return nil, err
		}
		devices.with(disk)
	}
	for _, f := range m.Folders {
		fs, err := folderNode(f)
		if err != nil {
			return nil, err
		}
		devices.with(fs)
	}
	if m.NIC != "none" {
		devices.with(el("interface", "type", "user").with(el("model", "type", m.NIC), el("rom", "enabled", "no")))
	}
	boot := el("os").with(txt("type", "hvm", "arch", arch, "machine", m.Board))
	if as.firmware != "" {
		boot.attrs = []string{"firmware", as.firmware}
		boot.with(el("firmware").with(el("feature", "enabled", "no", "name", "secure-boot")))
	}
	boot.with(txt("kernel", m.Kernel), txt("initrd", m.Initrd), txt("cmdline", m.Append))
	features := el("features").with(el("acpi"), el("apic"))
	if m.Arch != "amd64" {
		features = el("features").with(el("gic", "version", "3")) // libvirt offers ACPI there only with UEFI
	}
	kind := m.Accel
	if kind == "tcg" {
		kind = typeQEMU
	}
	d := el("domain", "type", kind).with(
		txt("name", m.Name), txt("uuid", uuid), txt("description", "made by tare for one run; it ends with it"),
		el("metadata").with(o.node()),
		txt("memory", strconv.FormatInt(m.Memory>>10, 10), "unit", "KiB"),
		txt("vcpu", strconv.Itoa(m.CPUs), "placement", "static"),
	)
	if m.Shared {
		d.with(el("memoryBacking").with(el("source", "type", "memfd"), el("access", "mode", "shared")))
	}
	d.with(boot, features, cpu, el("clock", "offset", "utc"),
		txt("on_poweroff", "destroy"), txt("on_reboot", "destroy"), txt("on_crash", "destroy"), devices)
	if as.system {
		// QEMU runs as this user, with no file's owner changed: by default libvirt gives all files to its own user, and
		// afterwards to root, kernels in the user's cache included.
		d.with(el("seclabel", "type", "static", "model", "dac", "relabel", "no").with(
			txt("label", fmt.Sprintf("+%d:+%d", os.Geteuid(), os.Getegid()))))
	}
	return []byte(d.String()), nil
}

func archName(goarch string) (string, error) {
	switch goarch {
	case "amd64":
		return "x86_64", nil
	case "arm64":
		return "aarch64", nil
	}
	return "", fmt.Errorf("tare uses libvirt for amd64 and arm64 only, not for %s", goarch)
}

// cpuNode translates a CPU model in QEMU's syntax.
func cpuNode(model string) (*node, error) {
	name, features, more := strings.Cut(model, ",")
	var n *node
	switch name {
	case "host":
		n = el("cpu", "mode", "host-passthrough", "check", "none")
	case "max":
		n = el("cpu", "mode", "maximum", "check", "none")
	default:
		n = el("cpu", "mode", "custom", "match", "exact", "check", "none").with(
			txt("model", name, "fallback", "forbid"))
	}
	if !more {
		return n, nil
	}
	for f := range strings.SplitSeq(features, ",") {
		policy := "require"
		switch name, value, valued := strings.Cut(f, "="); {
		case valued && (value == "off" || value == "no"):
			f, policy = name, "disable"
		case valued && (value == "on" || value == "yes"):
			f = name
		case valued:
			return nil, fmt.Errorf("libvirt cannot set the CPU feature %s: features are only on or off", f)
		case strings.HasPrefix(f, "-"):
			f, policy = f[1:], "disable"
		default:
			f = strings.TrimPrefix(f, "+")
		}
		n.with(el("feature", "policy", policy, "name", f))
	}
	return n, nil
}

// formats are those of libvirt, by QEMU's names.
var formats = map[string]string{"raw": "raw", "qcow2": "qcow2", "vdi": "vdi", "vmdk": "vmdk", "vpc": "vpc"}

// bus is a bus of disks.
type bus struct {
	prefix  string   // of libvirt's names for the disks
	most    int      // disks
	drivers []string // kernel modules of the guest
}

// buses are those that libvirt can give to a disk in all its versions. NVMe is from libvirt 11.5 on only.
var buses = map[string]bus{
	busVirtio: {"vd", 26, nil},
	"scsi":    {"sd", 26, []string{"virtio_scsi", "sd_mod"}},
	"sata":    {"sd", 6, []string{"ahci", "sd_mod"}},
	"ide":     {"hd", 4, []string{"ata_piix", "sd_mod"}},
}

func busNames() []string { return slices.Sorted(maps.Keys(buses)) }

// checkBus says which machines do not have the bus of a spec.
func checkBus(s *env.Spec) error {
	if b := s.Get(settingBus, busVirtio); b == "ide" && s.Get("machine", "") != "pc" {
		return fmt.Errorf("bus=%s needs machine=pc: other machines have no such controller", b)
	}
	return nil
}

// diskNode is a virtual disk. used counts the disks on each bus.
func diskNode(d qemu.Disk, on string, used map[string]int) (*node, error) {
	if on = cmp.Or(on, busVirtio); d.ReadOnly && on != "scsi" {
		on = busVirtio // disks of SATA and IDE cannot be read-only
	}
	b, i := buses[on], used[on]
	if used[on]++; i >= b.most {
		return nil, fmt.Errorf("there are more than %d disks on the bus %s", b.most, on)
	}
	format, ok := formats[d.Driver]
	if !ok {
		return nil, fmt.Errorf("libvirt has no disks of format %s; use raw, qcow2, vdi, vmdk or vhd", d.Driver)
	}
	kind, source := "file", "file"
	if d.Device {
		kind, source = "block", "dev"
	}
	n := el("disk", "type", kind, "device", "disk").with(
		// The guest must see write errors, as in package qemu.
		el("driver", "name", "qemu", "type", format, "cache", d.Cache, "io", d.AIO, "discard", d.Discard,
			"error_policy", "report", "rerror_policy", "report"),
		el("source", source, d.Path), el("target", "dev", b.prefix+string(rune('a'+i)), "bus", on),
		txt("serial", d.Serial), el("alias", "name", qemu.AliasPrefix+d.ID))
	if d.ReadOnly {
		n.with(el("readonly"))
	}
	return n, nil
}

// folderNode is a folder of the host.
func folderNode(f mount.Folder) (*node, error) {
	n := el("filesystem", "type", "mount")
	if f.Socket != "" {
		return n.with(el("driver", "type", "virtiofs", "queue", cmp.Or(f.Queue, "1024")),
			el("source", "socket", f.Socket), el("target", "dir", f.Tag)), nil
	}
	mode, ok := map[string]string{"none": "squash", "passthrough": "passthrough", "mapped-xattr": "mapped"}[f.Model]
	if !ok {
		return nil, fmt.Errorf("libvirt has no security_model=%s for 9p; use none, passthrough or mapped-xattr",
			f.Model)
	}
	n.attrs = append(n.attrs, "accessmode", mode, "multidevs", "remap")
	if mode == "mapped" {
		n.attrs = append(n.attrs, "fmode", "644", "dmode", "755")
	}
	driver := el("driver", "type", "path")
	if f.Immediate {
		driver.attrs = append(driver.attrs, "wrpolicy", "immediate")
	}
	return n.with(driver, el("source", "dir", f.Path), el("target", "dir", f.Tag)), nil
}
