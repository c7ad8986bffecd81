package diskimage

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/diskimage/disktest"
)

// victims are the images that will be damaged; qemu-img makes them.
var victims = []struct{ name, format, options string }{
	{"raw", "raw", ""},
	{"vdi", "vdi", ""},
	{"vmdk", "vmdk", ""},
	{"vmdk-stream", "vmdk", "subformat=streamOptimized"},
	{"vhd", "vpc", "force_size=on"},
	{"vhd-fixed", "vpc", "force_size=on,subformat=fixed"},
	{"vhdx", "vhdx", "block_size=1M"},
	{"qcow2", "qcow2", ""},
	{"qcow2-512", "qcow2", "cluster_size=512"},
	{"qcow2-x", "qcow2", "extended_l2=on"},
	{"qcow2-zstd", "qcow2", "compression_type=zstd"},
}

// TestDamagedCopiesTakeLittleMemory inspects damaged copies of every format in a separate process: truncated at many
// places, with each word of the header and the first words of every table overwritten, and with a file long enough for
// huge tables. None may crash it, hang it, or take more than 64 MiB.
func TestDamagedCopiesTakeLittleMemory(t *testing.T) {
	disktest.Need(t, "qemu-img", "mke2fs")
	dir := t.TempDir()
	guest(t, dir)
	for _, v := range victims {
		t.Run(v.name, func(t *testing.T) {
			if testing.Short() && v.name != "vdi" && v.name != "qcow2" {
				t.Skip("every format is damaged in hundreds of places")
			}
			argv := []string{"qemu-img", "convert", "-f", "raw", "-O", v.format}
			if strings.HasSuffix(v.name, "-zstd") {
				argv = append(argv, "-c")
			}
			if v.options != "" {
				argv = append(argv, "-o", v.options)
			}
			path := filepath.Join(dir, v.name)
			disktest.Run(t, dir, append(argv, "guest.raw", path)...)
			defer os.Remove(path)
			i := newInspector(t)
			if s := i.look(t, path, "as it was made"); s.Refused != "" || s.Damaged {
				t.Fatalf("a sound image: %+v", s)
			}
			d := newDamage(t, path)
			for _, w := range d.words() {
				for _, p := range patterns(w) {
					d.with(t, w, p.bytes, func() { i.look(t, path, fmt.Sprintf("%s at %d", p.name, w)) })
				}
			}
			d.stretched(t, func(what string) { i.look(t, path, what) })
			d.cut(t, func(what string) { i.look(t, path, what) })
			i.tell(t, v.name)
			if v.format != "raw" && (i.refused < 2 || i.damaged < 10) {
				t.Errorf("%d refused, %d damaged, %d sound: the damage did not reach what it was meant for", i.refused,
					i.damaged, i.sound)
			}
		})
	}
}

// guest makes a small disk with a file system, a file and something deleted.
func guest(t *testing.T, dir string) {
	t.Helper()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "file"), []byte(strings.Repeat("some contents\n", 1<<16)),
		0o644); err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(dir, "guest.raw")
	if err := os.WriteFile(raw, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(raw, 8<<20); err != nil {
		t.Fatal(err)
	}
	disktest.Run(t, dir, "mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", tree, raw)
}

// pattern is a value to overwrite a word with.
type pattern struct {
	name  string
	bytes []byte
}

// patterns chooses two of the ways to damage a word of 8 bytes, by its place. Each header gets all of them.
func patterns(at int64) []pattern {
	word := func(order binary.AppendByteOrder, v uint64) []byte { return order.AppendUint64(nil, v) }
	all := []pattern{
		{"ones", word(binary.LittleEndian, 1<<64-1)},
		{"a large number, highest byte first", word(binary.BigEndian, 1<<40)},
		{"a large number, lowest byte first", word(binary.LittleEndian, 1<<40)},
		{"zeros", word(binary.LittleEndian, 0)},
		{"two large counts", word(binary.BigEndian, 0x1000000010000000)},
		{"the largest number", word(binary.BigEndian, 1<<63-1)},
		{"small numbers", word(binary.LittleEndian, 0x0000000100000001)},
	}
	n := int(at / 8)
	return []pattern{all[n%len(all)], all[(n+n/len(all)+3)%len(all)]}
}

// damage is an image that is damaged and repaired in place.
type damage struct {
	f    *os.File
	data []byte // the original bytes
}

func newDamage(t *testing.T, path string) *damage {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &damage{f, b}
}

// words are the places that matter: the first KiB, the beginning of every table that the header points to, and the end.
func (d *damage) words() (out []int64) {
	le, be := binary.LittleEndian, binary.BigEndian
	span := func(at uint64, n int) {
		for k := range n {
			if w := int64(at) + int64(8*k); w >= 0 && w+8 <= int64(len(d.data)) {
				out = append(out, w)
			}
		}
	}
	span(0, 80)
	span(uint64(len(d.data)-512), 12)
	b := d.data
	switch {
	case string(b[:4]) == "QFI\xfb":
		l1 := be.Uint64(b[40:])
		span(l1, 2)
		span(be.Uint64(b[l1:])&0x00fffffffffffe00, 16)
		span(be.Uint64(b[48:]), 2) // the table of reference counts
	case string(b[:4]) == "KDMV":
		dir := le.Uint64(b[56:]) * 512
		if dir >= uint64(len(b)) { // in a stream it is at the end
			dir = le.Uint64(b[len(b)-1024+56:]) * 512
		}
		span(512, 32) // the descriptor
		span(dir, 4)
		span(uint64(le.Uint32(b[dir:]))*512, 16)
	case string(b[:8]) == "conectix":
		span(512, 16)
		span(be.Uint64(b[512+16:]), 16)
	case string(b[:8]) == "vhdxfile":
		for _, at := range []uint64{64 << 10, 192 << 10} {
			span(at, 12)
		}
		for k := range 2 { // the table of blocks and the metadata
			at := le.Uint64(b[192<<10+16+32*k+16:])
			span(at, 28)
			span(at+64<<10, 8)
		}
	case le.Uint32(b[0x40:]) == 0xbeda107f:
		span(uint64(le.Uint32(b[0x154:])), 16)
	default: // the file system's own header
		span(1024, 32)
	}
	return out
}

// with overwrites a word while use inspects the image. Checksums are computed again; otherwise they would end every
// attempt.
func (d *damage) with(t *testing.T, at int64, word []byte, use func()) {
	t.Helper()
	d.put(t, at, word)
	if string(d.data[:8]) == "vhdxfile" {
		for _, piece := range [][2]int64{{64 << 10, 4 << 10}, {192 << 10, 64 << 10}} { // offset, length
			if at < piece[0]+8 || at >= piece[0]+piece[1] {
				continue
			}
			whole := make([]byte, piece[1])
			if _, err := d.f.ReadAt(whole, piece[0]); err != nil {
				t.Fatal(err)
			}
			disktest.Seal(whole)
			d.put(t, piece[0], whole[:8])
			defer d.put(t, piece[0], d.data[piece[0]:piece[0]+8])
			second := piece[0] + 64<<10 // otherwise it would be used instead of the first
			d.put(t, second, make([]byte, 8))
			defer d.put(t, second, d.data[second:second+8])
		}
	}
	use()
	d.put(t, at, d.data[at:at+8])
}

func (d *damage) put(t *testing.T, at int64, b []byte) {
	t.Helper()
	if _, err := d.f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// stretched makes the file a terabyte long, as a hole, so that huge tables fit into it. Then only the parser's own
// limits prevent it from reading them.
func (d *damage) stretched(t *testing.T, use func(what string)) {
	t.Helper()
	const long = 1 << 40
	if err := d.f.Truncate(long); err != nil {
		disktest.Lacking(t, "the temporary folder holds no files of 1 TiB: %v", err)
	}
	use("stretched to 1 TiB")
	le, be := binary.LittleEndian, binary.BigEndian
	for what, words := range map[string]map[int64][]byte{
		"four million blocks of a VDI":        {0x170: le.AppendUint64(nil, 1<<42), 0x180: le.AppendUint32(nil, 1<<22)},
		"the most clusters of a qcow2":        {24: be.AppendUint64(nil, 1<<40), 36: be.AppendUint32(nil, 4<<20)},
		"the most grains of a VMDK":           {12: le.AppendUint64(nil, 1<<33)},
		"the most snapshots of a qcow2":       {60: be.AppendUint32(nil, 65536), 64: be.AppendUint64(nil, 1<<39)},
		"four million blocks of a VHD":        {512 + 28: be.AppendUint32(nil, 1<<22), 48: be.AppendUint64(nil, 1<<42)},
		"the longest descriptor of a VMDK":    {28: le.AppendUint64(nil, 1), 36: le.AppendUint64(nil, 1<<40)},
		"the longest header of a qcow2":       {100: be.AppendUint32(nil, 1<<31)},
		"the longest backing name of a qcow2": {8: be.AppendUint64(nil, 1<<39), 16: be.AppendUint32(nil, 1023)},
	} {
		for at, b := range words {
			d.put(t, at, b)
		}
		use(what)
		for at, b := range words {
			d.put(t, at, d.data[at:at+int64(len(b))])
		}
	}
	if err := d.f.Truncate(int64(len(d.data))); err != nil {
		t.Fatal(err)
	}
}

// cut truncates the file more and more.
func (d *damage) cut(t *testing.T, use func(what string)) {
	t.Helper()
	n := int64(len(d.data))
	at := []int64{n - 1, n - 511, n - 512, n - 513, n - 1024}
	for k := int64(31); k > 0; k-- {
		at = append(at, n*k/32)
	}
	for k := int64(1 << 18); k > 0; k /= 2 {
		at = append(at, k+1, k, k-1)
	}
	for last := n; len(at) > 0; at = at[1:] {
		if at[0] >= last || at[0] < 0 {
			continue
		}
		last = at[0]
		if err := d.f.Truncate(last); err != nil {
			t.Fatal(err)
		}
		use(fmt.Sprintf("cut off at %d of %d", last, n))
	}
}

// TestTextsThatShareBytes names a VHDX's parent by thousands of keys and values that all lie in the same 32 KiB.
// Separately stored they would take a quarter of a gigabyte.
func TestTextsThatShareBytes(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	path := filepath.Join(dir, "child.vhdx")
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "vhdx", path, "64M")
	d, le := newDamage(t, path), binary.LittleEndian
	meta := int64(0)
	for k := range int64(2) {
		if e := d.data[192<<10+16+32*k:]; le.Uint32(e) == 0x8b7ca206 {
			meta = int64(le.Uint64(e[16:]))
		}
	}
	table := d.data[meta:]
	n := int64(le.Uint16(table[10:]))
	const at, length = 512 << 10, 64 << 10
	entry := append([]byte("\x2d\x5f\xd3\xa8\x0b\xb3\x4d\x45\xab\xf7\xd3\xd8\x48\x34\xab\x0c"), make([]byte, 16)...)
	le.PutUint32(entry[16:], at)
	le.PutUint32(entry[20:], length)
	d.put(t, meta+32+32*n, entry)
	d.put(t, meta+10, le.AppendUint16(nil, uint16(n+1)))
	for k := range n {
		if e := table[32+32*k:]; le.Uint32(e) == 0xcaa16737 { // the parameters: it has a parent
			d.put(t, meta+int64(le.Uint32(e[16:]))+4, []byte{2})
		}
	}
	const keys, texts = 2700, 20 + 12*2700
	item := make([]byte, length)
	le.PutUint16(item[18:], keys)
	for k := texts; k < length; k += 2 {
		le.PutUint16(item[k:], uint16(0x4e00+k/2%0x4000))
	}
	for k := range keys {
		e := item[20+12*k:]
		le.PutUint32(e, uint32(texts+2*k))
		le.PutUint32(e[4:], uint32(texts+2*k))
		le.PutUint16(e[8:], uint16(length-texts-2*k))
		le.PutUint16(e[10:], uint16(length-texts-2*k))
	}
	d.put(t, meta+at, item)
	i := newInspector(t)
	if s := i.look(t, path, "a parent of many names"); !strings.Contains(s.Refused, "put it into the image") {
		t.Errorf("a child without its parent: %+v", s)
	}
	i.tell(t, "vhdx child")
}
