package volume

import (
	"bytes"
	"encoding/binary"
	"strings"

	"tare/internal/lab/diskimage/field"
)

// textAt reads a label of n bytes at a place.
func textAt(at int64, n int) func(disk) (string, error) {
	return func(d disk) (string, error) {
		b, err := d.bytes(at, n)
		return text(b), err
	}
}

// utf16At reads a label of n units of UTF-16, the low byte first.
func utf16At(at int64, n int) func(disk) (string, error) {
	return func(d disk) (string, error) {
		b, err := d.bytes(at, 2*n)
		return field.UTF16(b, binary.LittleEndian), err
	}
}

// hfsLabel reads a label with its length before it.
func hfsLabel(d disk) (string, error) {
	b, err := d.bytes(1024+36, 28)
	if err != nil {
		return "", err
	}
	return text(b[1 : 1+min(int(b[0]), 27)]), nil
}

// hfsPlusLabel reads the name of the root folder, the first record of the catalog, whose tree starts at a block.
func (d disk) hfsPlusLabel(block, start int64) (string, error) {
	const root = 1
	be := binary.BigEndian
	head, err := d.bytes(start*block, 40)
	if err != nil {
		return "", err
	}
	leaf, node := int64(be.Uint32(head[24:])), int64(be.Uint16(head[32:]))
	b, err := d.bytes(start*block+leaf*node, 14+8+2*255)
	if err != nil || leaf == 0 || be.Uint32(b[16:]) != root {
		return "", err
	}
	return field.UTF16(b[22:22+2*min(int(be.Uint16(b[20:])), 255)], be), nil
}

// zfsLabel finds the name of the pool among the pairs of names and values of the first label, in the form of XDR.
func (d disk) zfsLabel() (string, error) {
	const aText, one = "\x00\x00\x00\x09", "\x00\x00\x00\x01"
	b, err := d.bytes(16<<10, 112<<10)
	if err != nil {
		return "", err
	}
	_, value, ok := bytes.Cut(b, []byte("\x00\x00\x00\x04name"+aText+one))
	if !ok || len(value) < 4 {
		return "", nil
	}
	n := min(int64(binary.BigEndian.Uint32(value)), 255, int64(len(value)-4))
	return strings.ToValidUTF8(string(value[4:4+n]), "?"), nil
}

const isoSector = 2048

// isoLabel reads the label of the primary descriptor or, of a disk with Joliet's names, theirs: in Unicode, but of 16
// characters. Where it is the beginning of the other, that has the rest.
func isoLabel(d disk) (string, error) {
	label, err := textAt(16*isoSector+40, 32)(d)
	if err != nil {
		return "", err
	}
	for sector := int64(17); sector < 32; sector++ {
		b, err := d.bytes(sector*isoSector, 120)
		if err != nil || string(b[1:6]) != "CD001" || b[0] == 255 {
			return label, err
		}
		if escape := string(b[88:91]); b[0] != 2 || escape != "%/@" && escape != "%/C" && escape != "%/E" {
			continue
		}
		joliet := strings.TrimRight(field.UTF16(b[40:72], binary.BigEndian), " ")
		if begins(label, joliet) {
			return joliet + label[len([]rune(joliet)):], nil
		}
		return joliet, nil
	}
	return label, nil
}

// begins tells whether a label begins as another of as many characters as fit does, apart from case and from letters
// that the first cannot have.
func begins(label, other string) bool {
	letters := []rune(other)
	if len(letters) < 16 || len(label) < len(letters) {
		return false
	}
	for i, c := range letters {
		if label[i] != '_' && !strings.EqualFold(label[i:i+1], string(c)) {
			return false
		}
	}
	return true
}

// udf is recognised by a descriptor of the sequence at 32 KiB (ECMA-167, 2/9.1); a disk may be one of ISO 9660, too.
func udf(d disk) (*FileSystem, error) {
	const sequence = 32 << 10
	b, err := d.bytes(sequence, 64*isoSector)
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(b); at += isoSector {
		if id := string(b[at+1 : at+6]); id == "NSR02" || id == "NSR03" {
			fs := d.member("udf", notRead, sequence)
			blocks := []int64{512, 1024, 2048}
			if len(bytes.Trim(b[isoSector:2*isoSector], "\x00")) == 0 { // a descriptor takes a block, if that is larger
				blocks = []int64{4096}
			}
			fs.Label, err = d.udfLabel(blocks)
			return fs, err
		}
	}
	return nil, nil
}

// udfLabel follows the anchor in block 256 to the logical volume's descriptor (ECMA-167, 3/10.6).
func (d disk) udfLabel(blocks []int64) (string, error) {
	const anchor, volume, end, most = 2, 6, 8, 64
	le := binary.LittleEndian
	for _, block := range blocks {
		b, err := d.bytes(256*block, 512)
		if err != nil {
			return "", err
		}
		if le.Uint16(b) != anchor || le.Uint32(b[12:]) != 256 {
			continue
		}
		first, n := int64(le.Uint32(b[20:])), min(int64(le.Uint32(b[16:]))/block, most)
		for at := first; at < first+n; at++ {
			if b, err = d.bytes(at*block, 512); err != nil || le.Uint16(b) == end {
				return "", err
			}
			if le.Uint16(b) == volume {
				return dstring(b[84:212]), nil
			}
		}
	}
	return "", nil
}

// dstring reads a string of a fixed size (ECMA-167, 1/7.2.12): the last byte is how many it uses, the first how many
// bits a character has.
func dstring(b []byte) string {
	n := min(int(b[len(b)-1]), len(b)-1)
	if n < 1 {
		return ""
	}
	s := b[1:n]
	if b[0] == 16 {
		return field.UTF16(s, binary.BigEndian)
	}
	letters := make([]rune, 0, len(s))
	for _, c := range s {
		letters = append(letters, rune(c))
	}
	return strings.TrimRight(string(letters), "\x00")
}
