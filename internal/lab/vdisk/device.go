package vdisk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// onDevice makes the file system on a block device and, if requested, a descriptor of the device.
func (i *Image) onDevice(ctx context.Context, r *Request) error {
	device := r.Device
	if device == LoopDevice {
		back := filepath.Join(r.Dir, r.Name+"-back.img")
		if err := emptyFile(back, r.Size); err != nil {
			return err
		}
		var err error
		if i.loop, err = attachLoop(back, r.Direct); err != nil {
			return fmt.Errorf("attach a loop device: %w", err)
		}
		device = i.loop.Name()
		i.Places = []string{back}
	} else {
		size, err := checkTarget(device)
		if err != nil {
			return fmt.Errorf("inspect %s: %w", device, err)
		}
		i.Size = size
	}
	i.Places = append([]string{device}, i.Places...)
	if err := r.Format(ctx, device); err != nil {
		return err
	}
	i.facts["device"] = device
	if i.Path = device; i.Subformat != rawDisk {
		return nil
	}
	i.Path = filepath.Join(r.Dir, r.Name+i.ending())
	i.Places = append(i.Places, i.Path)
	return os.WriteFile(i.Path, []byte(Descriptor(device, i.Size)), 0o600)
}

// Descriptor is a VMDK that only refers to a device, as in VMware's "Virtual Disk Format 1.1".
func Descriptor(device string, size int64) string {
	const sector, heads, perTrack = 512, 16, 63
	sectors := size / sector
	return fmt.Sprintf(`# Disk DescriptorFile
version=1
CID=7461726f
parentCID=ffffffff
createType="monolithicFlat"

# Extent description
RW %d FLAT "%s" 0

# The Disk Data Base
#DDB

ddb.virtualHWVersion = "4"
ddb.geometry.cylinders = "%d"
ddb.geometry.heads = "%d"
ddb.geometry.sectors = "%d"
ddb.adapterType = "ide"
`, sectors, device, min(sectors/(heads*perTrack), 16383), heads, perTrack)
}
