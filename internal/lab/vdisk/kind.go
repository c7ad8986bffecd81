// Package vdisk makes images of virtual disks in every format that QEMU can use, fresh, aged or compacted.
//
// It is opinionated about three things. QEMU's own programs make the images, and the usual programs make the file
// systems, so that measurements show what people use; only the descriptor of a raw disk is written by tare itself,
// because no QEMU program does that. Images of one size and file system differ only in their format: the file system is
// made once, raw, and converted. And package diskimage reads the properties of a finished image back from it; they are
// never assumed from the request.
package vdisk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is a format and its subformat.
type Kind struct {
	Format    string // "raw", "qcow2", "vdi", "vmdk", "vhd", "vhdx"
	Subformat string // "" if a format has only one
	Driver    string // QEMU's name of the format, for -blockdev and qemu-img
	ReadOnly  bool   // QEMU writes such an image only when it makes it
	Discard   bool   // QEMU's driver passes discards on to the file
	Flat      bool   // every block has a fixed place in the file
	// Extents says that the data is in another file than the one that QEMU opens.
	Extents bool
	variant string   // the name in package image
	options []string // for qemu-img -o
}

// kinds lists what can be made. The first subformat of a format is its default.
func kinds() []Kind {
	return []Kind{
		{Format: "raw", Driver: "raw", Discard: true, Flat: true, variant: "flat"},
		{Format: "qcow2", Driver: "qcow2", Discard: true, variant: "sparse"},
		{Format: "vdi", Subformat: "dynamic", Driver: "vdi", variant: "dynamic"},
		{Format: "vdi", Subformat: "static", Driver: "vdi", Flat: true, variant: "static",
			options: []string{"static=on"}},
		{Format: "vmdk", Subformat: "monolithicSparse", Driver: "vmdk", variant: "monolithicSparse",
			options: []string{"subformat=monolithicSparse"}},
		{Format: "vmdk", Subformat: "monolithicFlat", Driver: "vmdk", Flat: true, Extents: true,
			variant: "monolithicFlat", options: []string{"subformat=monolithicFlat"}},
		{Format: "vmdk", Subformat: "streamOptimized", Driver: "vmdk", ReadOnly: true, variant: "streamOptimized",
			options: []string{"subformat=streamOptimized"}},
		// A descriptor that refers to a device. QEMU opens neither fullDevice nor partitionedDevice, which VirtualBox
		// and VMware write, but the file of a flat extent may be a device.
		{Format: "vmdk", Subformat: "rawdisk", Driver: "vmdk", Flat: true, Extents: true, variant: "monolithicFlat"},
		// Without force_size, qemu-img rounds the size to whole cylinders.
		{Format: "vhd", Subformat: "dynamic", Driver: "vpc", variant: "dynamic",
			options: []string{"subformat=dynamic", "force_size=on"}},
		{Format: "vhd", Subformat: "fixed", Driver: "vpc", Flat: true, variant: "fixed",
			options: []string{"subformat=fixed", "force_size=on"}},
		{Format: "vhdx", Subformat: "dynamic", Driver: "vhdx", variant: "dynamic",
			options: []string{"subformat=dynamic"}},
		{Format: "vhdx", Subformat: "fixed", Driver: "vhdx", Flat: true, variant: "fixed",
			options: []string{"subformat=fixed"}},
	}
}

// Formats lists the formats' names.
func Formats() []string {
	var names []string
	for _, k := range kinds() {
		if !slices.Contains(names, k.Format) {
			names = append(names, k.Format)
		}
	}
	return names
}

// Subformats lists the subformats of a format, the default first. For "" it lists those of all formats.
func Subformats(format string) []string {
	var names []string
	for _, k := range kinds() {
		if k.Subformat != "" && (format == "" || k.Format == format) && !slices.Contains(names, k.Subformat) {
			names = append(names, k.Subformat)
		}
	}
	return names
}

// lookup returns a format with a subformat, or with its default if subformat is "".
func lookup(format, subformat string) (Kind, error) {
	format = cmp.Or(format, "raw")
	all := kinds()
	i := slices.IndexFunc(all, func(k Kind) bool {
		return k.Format == format && (subformat == "" || k.Subformat == subformat)
	})
	if i >= 0 {
		return all[i], nil
	}
	switch forms := Subformats(format); {
	case !slices.Contains(Formats(), format):
		return Kind{}, fmt.Errorf("format=%s is not one of %s", format, strings.Join(Formats(), ", "))
	case len(forms) == 0:
		return Kind{}, fmt.Errorf("format=%s has no subformats; leave out subformat=%s", format, subformat)
	default:
		return Kind{}, fmt.Errorf("there is no subformat=%s of format=%s; there are: %s", subformat, format,
			strings.Join(forms, ", "))
	}
}
