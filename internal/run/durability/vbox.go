package durability

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"tare/internal/record"
)

// virtualBoxDisk judges the disk of a machine that tare made: what a flush is worth depends on its controller.
func virtualBoxDisk(e *record.Environment) []Finding {
	settings := e.Outside.Settings
	if e.Mount != nil {
		settings = e.Mount.Settings
	}
	controller, ignore := settings["controller"], settings["ignore_flush"]
	const better = "use controller=virtio-scsi or controller=ahci"
	switch {
	case Image(e) == "":
		// A machine that tare did not make has its log; which of its disks the files are on is not known.
		found, _ := VirtualBoxLog(e.Outside.Extra["virtualbox.flushes"])
		for i := range found {
			found[i].Ignores = false
		}
		return found
	case controller == "ide" && ignore != "off":
		return []Finding{{"vbox-sync-flush-ignored", layerHypervisor,
			"VirtualBox ignores the guest's flushes of this disk" + textIDE, better + ", or ignore_flush=off", true}}
	case controller != "ide" && ignore == "on":
		return []Finding{{"vbox-flush-ignored", layerHypervisor,
			"VirtualBox is configured to ignore the guest's flushes of this disk (" + keyAsync + " = 1)",
			"leave out ignore_flush=on", true}}
	case controller == "virtio-scsi" && settings["hostiocache"] == "on" && ignore != "off":
		return []Finding{{"vbox-sync-flush-ignored", layerHypervisor,
			"VirtualBox ignores the guest's flushes of this disk, because it uses the host's cache (hostiocache=on)",
			"use ignore_flush=off, or hostiocache=off", true}}
	case settings["format"] == "raw":
		return []Finding{{"vbox-raw-not-flushed", layerHypervisor, "VirtualBox passes no flushes on to a raw disk, " +
			"a VMDK that refers to another file", "use format=vdi-fixed", true}}
	case strings.TrimSpace(e.Inside.Extra["work.disk.write_cache"]) == "write through":
		return []Finding{{"vbox-write-through", layerHypervisor, "VirtualBox's " + cmp.Or(controller, "disk") +
			" controller says that the disk has no volatile cache, so the guest sends no flushes: none reaches the " +
			"host", better, true}}
	}
	return nil
}

// VirtualBox has two settings for each disk. IgnoreFlush is of a flush that the controller waits for, and on unless it
// is told otherwise; only IDE controllers flush that way. IgnoreFlushAsync is of all others, and off.
const (
	keyFlush = "IgnoreFlush"
	keyAsync = "IgnoreFlushAsync"
)

// ide is the name of the IDE controller among VirtualBox's devices.
const ide = "piix3ide"

const textIDE = ", which is on an IDE controller: the default there"

// flushSetting is a setting of VirtualBox for a disk: VBoxInternal/Devices/ahci/0/LUN#0/Config/IgnoreFlush.
type flushSetting struct{ device, lun, key string }

var vboxSetting = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`/Devices/([^/]+)/\d+/LUN#(\d+)/(?:AttachedDriver/)*Config/(IgnoreFlush|IgnoreFlushAsync)$`)
})

func flushSettingOf(key string) (flushSetting, bool) {
	m := vboxSetting().FindStringSubmatch(key)
	if m == nil {
		return flushSetting{}, false
	}
	return flushSetting{m[1], m[2], m[3]}, true
}

// ignoredByVirtualBox judges a setting. One of the kind that the disk's controller does not use changes nothing.
func ignoredByVirtualBox(key, value string) []Finding {
	t, ok := flushSettingOf(key)
	if !ok || strings.TrimSpace(value) != "1" || (t.device == ide) != (t.key == keyFlush) {
		return nil
	}
	return []Finding{{"vbox-flush-ignored", layerHypervisor,
		"VirtualBox is configured to ignore the guest's flushes (" + key + " = 1)",
		"VBoxManage setextradata VM " + key + " 0", true}}
}

// VirtualBoxExtraData reads what `VBoxManage getextradata VM enumerate` prints.
func VirtualBoxExtraData(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	for l := range lines(text) {
		key, value, ok := strings.Cut(strings.TrimPrefix(l, "Key: "), ", Value: ")
		if ok {
			found = append(found, ignoredByVirtualBox(key, value)...)
		}
	}
	return found, nil
}

// VirtualBoxXML reads a machine's .vbox file as the machine is now: what its snapshots had is passed over.
func VirtualBoxXML(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	d := xml.NewDecoder(bytes.NewReader([]byte(text)))
	settings, disks := map[flushSetting]bool{}, []string{} // disks: the LUNs of those on an IDE controller
	onIDE, recognised := false, false
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return found, fmt.Errorf("read VirtualBox's XML: %w", err)
		}
		e, ok := t.(xml.StartElement)
		if !ok {
			continue
		}
		attr := attributes(&e)
		switch e.Name.Local {
		case "VirtualBox":
			recognised = true
		case "Snapshot":
			if err := d.Skip(); err != nil {
				return found, fmt.Errorf("read VirtualBox's XML: %w", err)
			}
		case "ExtraDataItem":
			if t, ok := flushSettingOf(attr["name"]); ok {
				settings[t] = true
			}
			found = append(found, ignoredByVirtualBox(attr["name"], attr["value"])...)
		case "StorageController":
			onIDE = attr["type"] == "PIIX3" || attr["type"] == "PIIX4" || attr["type"] == "ICH6"
		case "AttachedDevice":
			if onIDE && attr["type"] == "HardDisk" {
				disks = append(disks, idePlace(attr["port"], attr["device"]))
			}
		}
	}
	if !recognised {
		return nil, errOther
	}
	for _, lun := range disks {
		if !settings[flushSetting{ide, lun, keyFlush}] { // else it is kept, or named above
			found = append(found, flushIgnoredOnIDE(lun))
		}
	}
	return found, nil
}

// idePlace is the LUN of a disk on an IDE controller: two to a channel.
func idePlace(port, device string) string {
	lun := 0
	if port == "1" {
		lun = 2
	}
	if device == "1" {
		lun++
	}
	return fmt.Sprint(lun)
}

func flushIgnoredOnIDE(lun string) Finding {
	return Finding{"vbox-sync-flush-ignored", layerHypervisor,
		"VirtualBox ignores the guest's flushes of disk LUN#" + lun + textIDE,
		"put the disk on a SATA, SCSI or SAS controller, or VBoxManage setextradata VM VBoxInternal/Devices/" + ide +
			"/0/LUN#" + lun + "/Config/" + keyFlush + " 0", true}
}

func attributes(e *xml.StartElement) map[string]string {
	attr := map[string]string{}
	for _, a := range e.Attr {
		attr[a.Name.Local] = a.Value
	}
	return attr
}

var (
	// vboxDriver matches the lines of an image's driver while it is opened: one line for each kind of flush.
	vboxDriver = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Drv(?:VD|Block): (Flushes|Async flushes) will be (ignored|passed)`)
	})
	// vboxUnit matches a controller's line about a unit once its driver is there.
	vboxUnit = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|\s)(AHCI|PIIX3 ATA|[A-Za-z0-9-]+)(?:#\d+)?: LUN#(\d+): (disk|CD/DVD|using normal I/O)`)
	})
)

// logDisk has the settings of one disk in a VBox.log.
type logDisk struct{ sync, async bool } // whether such flushes are ignored

// VirtualBoxLog reads a VBox.log. The driver of each image says there what it does with flushes, in a line for each
// kind, and the controller names itself after it: which of the two counts depends on the controller.
func VirtualBoxLog(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	var disk, last logDisk // last is the disk of the unit that was named last
	open := false          // a driver has spoken, and its controller not yet
	for l := range lines(text) {
		if m := vboxDriver().FindStringSubmatch(l); m != nil {
			if m[1] == "Flushes" {
				found = append(found, disk.nowhere(open)...)
				disk = logDisk{}
				disk.sync = m[2] == "ignored"
			} else {
				disk.async = m[2] == "ignored"
			}
			open = true
			continue
		}
		m := vboxUnit().FindStringSubmatch(l)
		switch {
		case m == nil:
		case m[3] == "using normal I/O": // up to VirtualBox 4 such a disk is flushed as those of IDE are
			found = append(found, last.on("AHCI, with the host's cache (LUN#"+m[2]+")", "ahci/0/LUN#"+m[2], true)...)
		case open:
			last, open = disk, false
			switch {
			case m[3] != "disk":
				last = logDisk{}
			case m[1] == "PIIX3 ATA":
				found = append(found, disk.on("IDE (LUN#"+m[2]+")", ide+"/0/LUN#"+m[2], true)...)
			default:
				found = append(found, disk.on(m[1]+" (LUN#"+m[2]+")", strings.ToLower(m[1])+"/0/LUN#"+m[2], false)...)
			}
		}
	}
	return append(found, disk.nowhere(open)...), nil
}

// nowhere is on where no controller named itself, as those of SCSI and SAS do not.
func (d logDisk) nowhere(open bool) []Finding {
	if !open {
		return nil
	}
	return d.on("a controller that the log does not name", "DEVICE/0/LUN#N", false)
}

// on judges a disk by the kind of flush that its controller uses.
func (d logDisk) on(controller, device string, waits bool) []Finding {
	key := "VBoxManage setextradata VM VBoxInternal/Devices/" + device + "/Config/"
	switch {
	case waits && d.sync:
		return []Finding{{"vbox-sync-flush-ignored", layerHypervisor,
			"VirtualBox ignores the guest's flushes of a disk on " + controller,
			"put the disk on a SATA, SCSI or SAS controller, or " + key + keyFlush + " 0", true}}
	case !waits && d.async:
		return []Finding{{"vbox-flush-ignored", layerHypervisor,
			"VirtualBox ignores the guest's flushes of a disk on " + controller, key + keyAsync + " 0", true}}
	}
	return nil
}
