package vmware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// controller is a controller of disks, with its keys and what a guest needs for it.
type controller struct {
	name    string
	bus     string // in the keys: "scsi0"
	device  string // virtualDev; "" for a bus that has only one
	unit    int    // of the first disk
	modules []string
}

func controllers() []controller {
	return []controller{
		{"pvscsi", "scsi0", "pvscsi", 0, []string{"vmw_pvscsi", "sd_mod"}},
		{"lsilogic", "scsi0", "lsilogic", 0, []string{"mptspi", "sd_mod"}},
		{"nvme", "nvme0", "", 0, []string{"nvme"}},
		{"sata", "sata0", "", 1, []string{"ahci", "sd_mod"}},
	}
}

func controllerNames() (names []string) {
	for _, c := range controllers() {
		names = append(names, c.name)
	}
	return names
}

func controllerOf(name string) controller {
	all := controllers()
	return all[slices.IndexFunc(all, func(c controller) bool { return c.name == name })]
}

// hardware is the version of the virtual hardware: that of Workstation 15.5 and Fusion 11.5, which later ones run.
const hardware = "16"

// vmx is the text of a machine's configuration.
type vmx struct{ b strings.Builder }

// set writes a line. A bar begins an escape in a value, and a quote ends it.
func (v *vmx) set(key, value string) {
	fmt.Fprintf(&v.b, "%s = \"%s\"\n", key, strings.NewReplacer("|", "|7C", `"`, "|22", "\n", "|0A").Replace(value))
}

func (v *vmx) on(keys ...string) {
	for _, k := range keys {
		v.set(k, "TRUE")
	}
}

func (v *vmx) off(keys ...string) {
	for _, k := range keys {
		v.set(k, "FALSE")
	}
}

// files are the files of a machine.
type files struct {
	name    string // of the machine
	medium  string
	disk    string // "" for none
	pipe    string // of the serial line
	folders []sharedFolder
}

// sharedFolder is a folder of the host.
type sharedFolder struct{ name, path string }

// vmxText is the .vmx of a machine.
func (c *config) vmxText(f files) string {
	v := &vmx{}
	v.set(".encoding", "UTF-8")
	v.set("config.version", "8")
	v.set("virtualHW.version", hardware)
	v.set("displayName", f.name)
	v.set("guestOS", "other4xlinux-64")
	v.set("firmware", c.firmware)
	v.set("numvcpus", strconv.Itoa(c.cpus))
	v.set("memsize", strconv.FormatInt(c.memory>>20, 10))
	v.on("hpet0.present", "vmci0.present", "pciBridge0.present")
	// PVSCSI, NVMe and VMXNET3 are PCI Express devices.
	for _, n := range []string{"4", "5", "6", "7"} {
		v.on("pciBridge" + n + ".present")
		v.set("pciBridge"+n+".virtualDev", "pcieRootPort")
		v.set("pciBridge"+n+".functions", "8")
	}
	// A question in a window would stop the machine for ever.
	v.on("msg.autoAnswer")
	v.off("floppy0.present", "sound.present", "usb.present", "usb_xhci.present", "tools.syncTime",
		"toolScripts.afterPowerOn")
	v.set("uuid.action", "create")
	if !c.mitigated {
		v.on("ulm.disableMitigations")
	}
	c.bootFrom(v, f.medium)
	if f.disk != "" {
		k := controllerOf(c.controller)
		v.on(k.bus + ".present")
		if k.device != "" {
			v.set(k.bus+".virtualDev", k.device)
		}
		at := k.bus + ":" + strconv.Itoa(k.unit)
		v.on(at + ".present")
		v.set(at+".fileName", f.disk)
	}
	if c.nic != none {
		v.on("ethernet0.present", "ethernet0.startConnected")
		v.set("ethernet0.virtualDev", c.nic)
		v.set("ethernet0.connectionType", c.mode)
		v.set("ethernet0.addressType", "generated")
	}
	v.on("serial0.present", "serial0.startConnected", "serial0.yieldOnMsrRead")
	v.set("serial0.fileType", "pipe")
	v.set("serial0.fileName", f.pipe)
	v.set("serial0.pipe.endPoint", "server")
	v.on("serial0.tryNoRxLoss") // the other end is a program: it must lose nothing
	if len(f.folders) == 0 {
		v.on("isolation.tools.hgfs.disable")
		return v.b.String()
	}
	v.off("isolation.tools.hgfs.disable")
	v.set("sharedFolder.maxNum", strconv.Itoa(len(f.folders)))
	for i, s := range f.folders {
		at := "sharedFolder" + strconv.Itoa(i)
		v.on(at+".present", at+".enabled", at+".readAccess", at+".writeAccess")
		v.set(at+".hostPath", s.path)
		v.set(at+".guestName", s.name)
		v.set(at+".expiration", "never")
	}
	return v.b.String()
}

// bootFrom attaches the medium.
func (c *config) bootFrom(v *vmx, medium string) {
	v.on("ide1:0.present")
	v.set("ide1:0.fileName", medium)
	if c.medium == "vmdk" {
		v.set("bios.bootOrder", "hdd")
		v.set("bios.hddOrder", "ide1:0")
		return
	}
	v.set("ide1:0.deviceType", "cdrom-image")
	v.on("ide1:0.startConnected")
	v.set("bios.bootOrder", "cdrom")
}
