// Package vdisk makes images of virtual disks in every format that QEMU can use, in the states that images come to be
// in.
//
// It is opinionated about three things. Images are made by QEMU's own programs and file systems by theirs, so that what
// is measured is what people have; only the descriptor of a raw disk, which no program of QEMU's writes, is text of
// tare's own. Images of one size and file system differ in nothing but the image: the file system is made once, raw,
// and converted. And what an image has become is read back from it by package disk, never assumed from how it was asked
// for.
package vdisk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is a format in one of its forms.
type Kind struct {
	Format    string // "raw", "qcow2", "vdi", "vmdk", "vhd", "vhdx"
	Subformat string // "" where a format has only one form
	Driver    string // QEMU's name of the format, for -blockdev and for qemu-img
	ReadOnly  bool   // QEMU writes such an image only once, when it makes it
	Discard   bool   // QEMU's driver passes discards on to the file
	Flat      bool   // every block has its place in the file from the beginning
	// Extents says that the data lie in another file than the one QEMU is told of.
	Extents bool
	variant string   // what package image calls it
	options []string // for qemu-img -o
}

// kinds lists what can be made; the first form of a format is its default.
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
		// A descriptor that leads to a device. QEMU opens neither fullDevice nor partitionedDevice, which VirtualBox
		// and VMware write, but a flat extent may be a device.
		{Format: "vmdk", Subformat: "rawdisk", Driver: "vmdk", Flat: true, Extents: true, variant: "monolithicFlat"},
		// Without force_size the size is rounded to whole cylinders.
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

// Subformats lists the forms of a format, the default first; of all formats when it is "".
func Subformats(format string) []string {
	var names []string
	for _, k := range kinds() {
		if k.Subformat != "" && (format == "" || k.Format == format) && !slices.Contains(names, k.Subformat) {
			names = append(names, k.Subformat)
		}
	}
	return names
}

// lookup returns a format's form, its default when subformat is "".
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
		return Kind{}, fmt.Errorf("subformat=%s is not one of format=%s; it has %s", subformat, format,
			strings.Join(forms, ", "))
	}
}
