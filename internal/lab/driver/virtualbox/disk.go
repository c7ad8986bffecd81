package virtualbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tare/internal/lab/vdisk"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// controller is a storage controller as VBoxManage and VirtualBox's own configuration name it.
type controller struct {
	name    string
	add     []string // arguments of storagectl
	device  string   // in the names of extra data
	driver  string   // between the device and the disk's driver, in the same
	modules []string // that the guest needs for it
	ports   int
}

func controllers() []controller {
	return []controller{
		{"ide", []string{"--add", "ide"}, "piix3ide", "", []string{"ata_piix", "sd_mod"}, 4},
		{"ahci", []string{"--add", "sata"}, "ahci", "", []string{"ahci", "sd_mod"}, 30},
		{"nvme", []string{"--add", "pcie", "--controller", "NVMe"}, "nvme", "", []string{"nvme"}, 30},
		{"virtio-scsi", []string{"--add", "virtio-scsi", "--controller", "VirtIO"}, "virtio-scsi",
			"AttachedDriver/", []string{"virtio_pci", "virtio_scsi", "sd_mod"}, 30},
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

// dvdLUN is where the medium is on the IDE controller: the last place, so that disks may have the others.
const dvdLUN = 3

// disk is a disk of a machine.
type disk struct {
	drive
	label string // of its file system
	size  int64
	lun   int
	path  string // the attached file
	data  string // the file that holds the guest's blocks
	given string // such a file that the caller serves; "" if the disk is made here
}

// place is the arguments of storageattach for a LUN of the disk's controller.
func (d *disk) place() []string { return place(d.controller, d.lun) }

func place(controller string, lun int) []string {
	port, device := lun, 0
	if controller == "ide" {
		port, device = lun/2, lun%2
	}
	return []string{"--storagectl", controller, "--port", strconv.Itoa(port), "--device", strconv.Itoa(device)}
}

const mkfsRemedy = "install mke2fs (apt-get install e2fsprogs), or use disk=none to work in the guest's memory"

// reserve is the space that a disk must leave free on the host, in bytes.
const reserve = 64 << 20

// make makes the disk in a folder, with an empty file system.
func (d *disk) make(ctx context.Context, s *session, dir string) (err error) {
	raw := filepath.Join(dir, d.label+rawEnding)
	free, err := vdisk.FreeSpace(dir)
	if need := d.need(); err == nil && free >= 0 && free < need {
		return fmt.Errorf("%s has %s free, but the disk needs %s", dir, unit.FormatSize(free&^(1<<20-1)),
			unit.FormatSize(need))
	}
	if err := format(ctx, raw, d.label, d.size); err != nil {
		return err
	}
	if d.format == formatRaw {
		return d.refer(s, raw, dir)
	}
	d.path = filepath.Join(dir, d.dataName())
	d.data = d.path
	variant := "Standard"
	if d.format == formatFixed {
		variant = "Fixed"
	}
	_, err = s.run(ctx, "convertfromraw", s.inside(raw), s.inside(d.path), "--format", "VDI", "--variant", variant)
	return errors.Join(err, os.Remove(raw))
}

const rawEnding = ".img"

// dataName is the name of the file that holds the guest's blocks.
func (d *disk) dataName() string {
	if d.format == formatRaw {
		return d.label + rawEnding
	}
	return d.label + ".vdi"
}

// found takes a file that holds the guest's blocks already.
func (d *disk) found(s *session, data, dir string) error {
	if d.format == formatRaw {
		return d.refer(s, data, dir)
	}
	d.path, d.data = data, data
	return nil
}

// need is the space that the disk needs while it is made.
func (d *disk) need() int64 {
	const metadata = 32 << 20
	if d.format == formatFixed {
		return d.size + metadata + reserve
	}
	return 2*metadata + reserve
}

// refer makes the VMDK that refers to a file with the guest's blocks: by an absolute path, as raw disks are.
func (d *disk) refer(s *session, raw, dir string) error {
	d.path, d.data = filepath.Join(dir, d.label+".vmdk"), raw
	return os.WriteFile(d.path, []byte(vdisk.Descriptor(s.inside(raw), d.size)), 0o600)
}

// format makes a file with an empty ext4. Nothing is left to the guest to initialise: it would disturb trials.
func format(ctx context.Context, path, label string, size int64) error {
	mkfs, err := proc.LookPath("mke2fs")
	if err != nil {
		return errors.New("mke2fs is not installed; " + mkfsRemedy)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	ctx, cancel := proc.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	_, err = proc.Run(ctx, nil, mkfs, "-q", "-F", "-t", "ext4", "-m", "0", "-L", label, "-E",
		"lazy_itable_init=0,lazy_journal_init=0,nodiscard", path)
	return err
}

// flushKeys are the names of VirtualBox's settings of what the disk does with a guest's flushes, with their values.
// Which of the two counts depends on the controller; see package durability.
func (d *disk) flushKeys() map[string]string {
	if d.ignoreFlush == byDefault {
		return nil
	}
	value := "0"
	if d.ignoreFlush == "on" {
		value = "1"
	}
	c := controllerOf(d.controller)
	at := fmt.Sprintf("VBoxInternal/Devices/%s/0/LUN#%d/%sConfig/", c.device, d.lun, c.driver)
	return map[string]string{at + "IgnoreFlush": value, at + "IgnoreFlushAsync": value}
}

// number gives each disk its place on its controller.
func number(disks []*disk) error {
	next := map[string]int{}
	for _, d := range disks {
		d.lun = next[d.controller]
		next[d.controller]++
		most := controllerOf(d.controller).ports
		if d.controller == "ide" {
			most = dvdLUN
		}
		if d.lun >= most {
			return fmt.Errorf("controller=%s has place for %d disks only", d.controller, most)
		}
	}
	return nil
}
