package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// parsers maps each format, by tare's name and by qemu-img's, to its parser.
func parsers() map[string]func(*store, *file) (*layer, parent, error) {
	return map[string]func(*store, *file) (*layer, parent, error){
		"raw": parseRaw, "vdi": parseVDI, "vmdk": parseVMDK, "vhd": parseVHD, "vpc": parseVHD, "vhdx": parseVHDX,
		"qcow2":     parseQcow2,
		"parallels": parseParallels,
	}
}

// parse reads an image's header in the format that its child names, or that its content shows. The child's format has
// priority, because a guest can write a header of another format into its raw disk.
func (s *store) parse(f *file, format string) (*layer, parent, error) {
	if format == "" {
		var err error
		if format, err = s.detect(f); err != nil {
			return nil, parent{}, err
		}
	}
	p, ok := parsers()[format]
	if !ok {
		return nil, parent{},
			fmt.Errorf("there is no format %q; there are: raw, vdi, vmdk, vhd, vhdx, qcow2, parallels",
				format)
	}
	l, next, err := p(s, f)
	if err != nil {
		return nil, parent{}, fmt.Errorf("read it as %s: %w", format, err)
	}
	l.info.Path = f.name
	if l.info.FileBytes == 0 {
		l.info.FileBytes = f.size
	}
	if l.info.Snapshots == nil {
		l.info.Snapshots = []Snapshot{}
	}
	return l, next, nil
}

// others are formats that are recognised but not read.
var others = []struct {
	at    int
	magic string
	name  string
}{
	{0, "QFI\xfb\x00\x00\x00\x01", "qcow (version 1)"},
	{0, "COWD", "a VMDK of ESX's older sparse format (COWD)"},
	{0, "\xbe\xba\xfe\xca\x00\x00\x00\x00", "a VMDK of ESX's SESPARSE format"},
	{0, "LUKS\xba\xbe", "LUKS, which is encrypted as a whole"},
	{0, "koly", "an Apple disk image"},
	{0, "QED\x00", "QED"},
	{0, "EVF\x09\x0d\x0a\xff\x00", "an EnCase image (E01)"},
	{0, "EVF2\x0d\x0a\x81", "an EnCase image (Ex01)"},
	{0, "LVF\x09\x0d\x0a\xff\x00", "an EnCase image of files (L01)"},
	{0, "AFF10\r\n\x00", "an image of the Advanced Forensic Format (AFF)"},
	{0, "Bochs Virtual HD Image", "a disk image of Bochs"},
	{0, "MSWIM\x00\x00\x00", "a Windows image (WIM)"},
	{0, "\x1f\x8b\x08", "compressed with gzip"},
	{0, "\xfd7zXZ\x00", "compressed with xz"},
	{0, "\x28\xb5\x2f\xfd", "compressed with zstd"},
	{0, "\x04\x22\x4d\x18", "compressed with lz4"},
	{4, "1AY&SY", "compressed with bzip2"},
	{0, "PK\x03\x04", "a zip archive"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z archive"},
	{257, "ustar", "a tar archive, as an OVA is"},
}

// detect finds the format by its signature.
func (s *store) detect(f *file) (string, error) {
	head, _, err := f.header(0, 1024)
	if err != nil {
		return "", err
	}
	for _, o := range others {
		if bytes.HasPrefix(head[o.at:], []byte(o.magic)) {
			return "", fmt.Errorf("it is %s, which tare cannot read", o.name)
		}
	}
	switch {
	case bytes.HasPrefix(head, []byte("QFI\xfb")):
		return "qcow2", nil
	case binary.LittleEndian.Uint32(head[0x40:]) == vdiMagic:
		return "vdi", nil
	case bytes.HasPrefix(head, []byte("KDMV")), isDescriptor(head):
		return "vmdk", nil
	case bytes.HasPrefix(head, []byte(parallelsOld)), bytes.HasPrefix(head, []byte(parallelsExt)):
		return "parallels", nil
	case bytes.HasPrefix(head, []byte("vhdxfile")):
		return "vhdx", nil
	case bytes.HasPrefix(head, []byte("conectix")):
		return "vhd", nil
	}
	// A fixed VHD is a raw disk with a footer. Old versions of Virtual PC wrote a footer of 511 bytes.
	for _, n := range []int64{512, 511} {
		tail, ok, err := f.header(f.size-n, 8)
		if err != nil {
			return "", err
		}
		if ok && string(tail) == "conectix" {
			return "vhd", nil
		}
	}
	// An Apple disk image has its header at the end, with this version and length.
	if tail, ok, err := f.header(f.size-512, 12); err != nil {
		return "", err
	} else if ok && string(tail) == "koly\x00\x00\x00\x04\x00\x00\x02\x00" {
		return "", errors.New("it is an Apple disk image (UDIF), which tare cannot read")
	}
	return "raw", nil
}

// name makes text from a file safe to keep: valid UTF-8, short, printable.
func name(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(bytes.ToValidUTF8(slices.Clone(b[:min(len(b), 4096)]), []byte("?")))
}

// power tells whether n is a power of two within the bounds.
func power(n, low, high int64) bool { return n >= low && n <= high && n&(n-1) == 0 }
