package virtualbox

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
)

// The kinds of mounts.
const (
	kindDisk   = "disk"
	kindVboxsf = "vboxsf"
)

// mountKinds lists the mounts of a machine.
func mountKinds() []env.MountKind {
	options := env.Setting{Name: "options", Default: "", Doc: "Mount options in the guest, with commas between: " +
		"noatime.",
		Check: env.CheckMountOptions}
	return []env.MountKind{
		{
			Name: kindVboxsf, Shared: true,
			Doc: "VirtualBox's shared folder, mounted by the guest kernel's own module: fsync does nothing, there " +
				"are no locks, and changes from the host are not announced.",
			Settings: []env.Setting{options},
		},
		{
			Name: kindDisk, Disk: true, Doc: "Another virtual disk with an ext4 of its own.",
			Settings: append([]env.Setting{
				{Name: "size", Default: defaultDisk, Doc: "The disk's size.", Check: limits.CheckDisk}, options},
				driveSettings()...),
		},
	}
}

// machineMount is one of Options.Mounts on its way into the machine.
type machineMount struct {
	env.Mounted
	disk   *disk  // nil but for a disk
	folder string // on this machine; "" but for a shared folder
	share  string // its name in VirtualBox
}

// makeFolders makes the mounts' folders, and a description of each mount.
func (b *boot) makeFolders() error {
	for i, s := range b.Mounts {
		m := machineMount{Mounted: env.Mounted{Name: s.Name, Mount: record.Mount{Kind: s.Driver,
			Dir: path.Join(guestabi.Mounts, s.Name), Settings: map[string]string{}}}}
		m.Order = &guestabi.Mount{Name: s.Name, Dir: m.Mount.Dir}
		if err := b.describe(&m, s, i); err != nil {
			m.Err = &env.OpenError{Env: b.Name + ":" + s.Name, Op: "read settings of mount", Err: err,
				Remedy: "tare list mounts shows the settings and their values"}
			m.Order, m.disk, m.folder = nil, nil, ""
		}
		if m.folder != "" {
			if err := os.MkdirAll(m.folder, 0o700); err != nil {
				return err
			}
		}
		b.mounts = append(b.mounts, m)
	}
	return nil
}

// describe reads a mount's settings.
func (b *boot) describe(m *machineMount, s env.Spec, number int) error {
	shown, err := env.ResolveMount(mountKinds(), &s)
	if err != nil {
		return err
	}
	m.Mount.Settings = shown
	m.Order.Options = shown["options"]
	if s.Driver == kindVboxsf {
		m.share = fmt.Sprintf("tare%d", number)
		m.folder = filepath.Join(b.dir, "folders", m.share)
		m.Mount.HostDir = m.folder
		m.Order.Type, m.Order.Source = kindVboxsf, m.share
		return nil
	}
	size, _ := limits.ParseDisk(shown["size"])
	m.disk = &disk{drive: parseDrive(shown), label: fmt.Sprintf("tare-%d", number), size: size}
	m.Order.Type, m.Order.Source = "ext4", guestabi.ByLabel+m.disk.label
	return nil
}

// scratchLabel is the label of the scratch disk's file system.
const scratchLabel = "tare-scratch"

// scratch is the scratch disk, which the guest mounts by itself; nil if there is none.
func (b *boot) scratch() *disk {
	all := b.disks()
	if len(all) == 0 || all[0].label != scratchLabel {
		return nil
	}
	return all[0]
}

// disks are the machine's disks, the scratch disk first.
func (b *boot) disks() []*disk {
	if b.allDisks == nil {
		if b.Scratch != "" {
			b.allDisks = append(b.allDisks, &disk{drive: b.config.drive, label: servedLabel, size: b.servedSize,
				given: b.Scratch})
		} else if b.config.disk > 0 {
			b.allDisks = append(b.allDisks, &disk{drive: b.config.drive, label: scratchLabel, size: b.config.disk})
		}
		for i := range b.mounts {
			if d := b.mounts[i].disk; d != nil {
				b.allDisks = append(b.allDisks, d)
			}
		}
	}
	return b.allDisks
}

// shares are the shared folders, by their names in VirtualBox.
func (b *boot) shares() map[string]string {
	all := map[string]string{}
	for _, m := range b.mounts {
		if m.folder != "" {
			all[m.share] = m.folder
		}
	}
	return all
}

// mountedAll is the report of the mounts to the controller.
func (b *boot) mountedAll() []env.Mounted {
	var all []env.Mounted
	for _, m := range b.mounts {
		switch {
		case m.disk != nil:
			m.Mount.Facts = map[string]string{"disk.image": m.disk.data, "disk.controller": m.disk.controller,
				"disk.format": m.disk.format}
			m.Mount.Server = "VirtualBox " + b.version
		case m.folder != "":
			m.Mount.Server = "VirtualBox " + b.version
		}
		all = append(all, m.Mounted)
	}
	return all
}
