package diskimage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tare/internal/lab/diskimage/disktest"
	"tare/internal/lab/diskimage/image"
	"tare/internal/record"
)

func inspect(t testing.TB, path string, full bool) *Report {
	t.Helper()
	r, err := Inspect(t.Context(), path, Options{Full: full})
	if err != nil {
		t.Fatal(err)
	}
	sp := &r.Space
	if sum := sp.Data + sp.Compressed + sp.Zero + sp.Unallocated; sum != r.Size {
		t.Errorf("the space of %s adds up to %d of %d", path, sum, r.Size)
	}
	var sum record.DiskCell
	for _, b := range r.Map.Buckets {
		sum.Data, sum.Compressed, sum.Zero = sum.Data+b.Data, sum.Compressed+b.Compressed, sum.Zero+b.Zero
	}
	if len(r.Map.Buckets) > maxBuckets || sum.Data != sp.Data || sum.Compressed != sp.Compressed ||
		sum.Zero != sp.Zero {
		t.Errorf("the map of %s has %d buckets with %+v, the space is %+v", path, len(r.Map.Buckets), sum, sp)
	}
	return r
}

func advice(r *Report, code string) *Advice {
	if i := slices.IndexFunc(r.Advice, func(a Advice) bool { return a.Code == code }); i >= 0 {
		return &r.Advice[i]
	}
	return nil
}

// ext4 makes a raw disk with a file system in which files were written and deleted: half of its data is left over from
// deleted files, and an eighth is written zeros.
func ext4(t testing.TB, dir string) string {
	t.Helper()
	disktest.Need(t, "mkfs.ext4", "qemu-img")
	path := filepath.Join(dir, "disk.raw")
	disktest.Run(t, dir, "truncate", "-s", "256M", path)
	disktest.Run(t, dir, "mkfs.ext4", "-q", "-F", "-b", "4096", "-L", "guest", path)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	junk := bytes.Repeat([]byte("deleted "), 1<<17)
	for off := int64(150 << 20); off < 250<<20; off += 1 << 20 {
		if _, err := f.WriteAt(junk, off); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestMisalignedVDI is the most important finding: qemu-img puts the data 512 bytes into a block.
func TestMisalignedVDI(t *testing.T) {
	dir := t.TempDir()
	ext4(t, dir)
	disktest.Run(t, dir, "qemu-img", "convert", "-O", "vdi", "disk.raw", "disk.vdi")
	r := inspect(t, filepath.Join(dir, "disk.vdi"), false)
	a := advice(r, "misaligned-image")
	if a == nil || r.Align.DataRemainder%512 != 0 || r.Align.DataRemainder == 0 || r.Align.Touches != 2 ||
		!r.Writes.Reads {
		t.Fatalf("alignment is %+v, advice %+v", r.Align, r.Advice)
	}
	if !strings.HasPrefix(a.Commands[0], "VBoxManage clonemedium disk ") {
		t.Errorf("the command is %q", a.Commands[0])
	}
	// Run the advised command that can run here: it must fix the finding.
	fix := a.Commands[slices.IndexFunc(a.Commands, func(c string) bool { return strings.HasPrefix(c, "qemu-img") })]
	disktest.Run(t, dir, "sh", "-c", fix)
	mended := inspect(t, filepath.Join(dir, "disk-new.qcow2"), false)
	if advice(mended, "misaligned-image") != nil || mended.Align.Touches != 1 {
		t.Errorf("after %q alignment is %+v", fix, mended.Align)
	}
	if mended.Space.Used != r.Space.Used || r.Space.Used <= 0 {
		t.Errorf("%d bytes are used after it, %d before", mended.Space.Used, r.Space.Used)
	}
}

func TestVDIAt0x1200(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "vdi", "disk.vdi", "1G")
	r := inspect(t, filepath.Join(dir, "disk.vdi"), false)
	if r.Align.DataOffset != 0x1200 || advice(r, "misaligned-image") == nil || r.Align.Touches != 2 ||
		!r.Align.Parts[0].Predicted {
		t.Errorf("alignment of an empty image is %+v", r.Align)
	}
}

func TestOneInEightOfVHD(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "disk.raw"), bytes.Repeat([]byte("x"), 64<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	disktest.Run(t, dir, "qemu-img", "convert", "-O", "vpc", "-o", "force_size=on", "disk.raw", "disk.vhd")
	r := inspect(t, filepath.Join(dir, "disk.vhd"), false)
	a := advice(r, "misaligned-image")
	if r.Align.Parts[0].Aligned != 0.125 || r.Align.Touches != 1.875 || a == nil ||
		!strings.Contains(a.Text, "1 in 8") {
		t.Errorf("alignment is %+v, advice %+v", r.Align, r.Advice)
	}
}

// TestPartitionAtSector63 puts a misaligned partition on an aligned format, and on a misaligned one. In the latter case
// 63 sectors and 512 bytes make 64 sectors, which is aligned again.
func TestPartitionAtSector63(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	b := bytes.Repeat([]byte("y"), 16<<20)
	clear(b[:512])
	copy(b[446:], []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 63, 0, 0, 0, 0, 0x70, 0, 0})
	b[510], b[511] = 0x55, 0xaa
	if err := os.WriteFile(filepath.Join(dir, "disk.raw"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	r := inspect(t, filepath.Join(dir, "disk.raw"), false)
	if advice(r, "misaligned-partition") == nil || r.Align.Parts[0].Touches != 2 {
		t.Errorf("raw: %+v", r.Align)
	}
	disktest.Run(t, dir, "qemu-img", "convert", "-O", "vdi", "disk.raw", "disk.vdi")
	r = inspect(t, filepath.Join(dir, "disk.vdi"), false)
	want := 2.0
	if (r.Align.DataOffset+63*512)%4096 == 0 {
		want = 1
	}
	if r.Align.Parts[0].Touches != want {
		t.Errorf("vdi with data at %d: %+v, want %v touches", r.Align.DataOffset, r.Align, want)
	}
}

// TestSpace measures a disk's space in three ways and compares the sample with a full read.
func TestSpace(t *testing.T) {
	dir := t.TempDir()
	ext4(t, dir)
	// -S 0 stores zeros, too.
	disktest.Run(t, dir, "qemu-img", "convert", "-S", "0", "-O", "qcow2", "disk.raw", "disk.qcow2")
	path := filepath.Join(dir, "disk.qcow2")
	r, all := inspect(t, path, false), inspect(t, path, true)
	if r.Space.Data != 256<<20 || all.Space.Zeros.How != "read" || r.Space.Zeros.How != "sampled" {
		t.Fatalf("space is %+v", r.Space)
	}
	if s := all.Space.Zeros.Share; s < 0.5 || s > 0.65 || r.Space.Zeros.Low > s || r.Space.Zeros.High < s {
		t.Errorf("%v of the data is zero, by sample %+v", s, r.Space.Zeros)
	}
	if u := r.Space.Used; u <= 0 || r.Space.Reclaimable != 256<<20-u || advice(r, "reclaimable") == nil {
		t.Errorf("space is %+v, advice %+v", r.Space, r.Advice)
	}
}

// TestTebibyte inspects empty and nearly empty disks of 1 TiB.
func TestTebibyte(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	for format, options := range map[string]string{"raw": "", "vdi": "", "vmdk": "", "vpc": "force_size=on", "vhdx": "",
		"qcow2": "cluster_size=4k", "parallels": ""} {
		path := filepath.Join(dir, "disk."+format)
		argv := []string{"qemu-img", "create", "-q", "-f", format}
		if options != "" {
			argv = append(argv, "-o", options)
		}
		disktest.Run(t, dir, append(argv, path, "1T")...)
		began := time.Now()
		r := inspect(t, path, false)
		took := time.Since(began)
		t.Logf("%-6s %v", format, took)
		if took > time.Minute { // the goal is one second, but this machine may be busy
			t.Errorf("%s took %v", format, took)
		}
		if r.Size != 1<<40 || r.Space.Unallocated+r.Space.Zero < 1<<40-64<<20 {
			t.Errorf("%s: %d bytes, space %+v", format, r.Size, r.Space)
		}
	}
}

// TestMemory inspects the largest tables that are cheap to make, with the garbage collector limited to 64 MiB.
func TestMemory(t *testing.T) {
	disktest.Need(t, "qemu-img")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(48 << 20))
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "vdi", "disk.vdi", "20T") // a map of 80 MiB
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "cluster_size=512", "disk.qcow2", "16G")
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "vhdx", "-o", "block_size=1M", "disk.vhdx", "10T")
	for _, name := range []string{"disk.vdi", "disk.qcow2", "disk.vhdx"} {
		debug.FreeOSMemory()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		inspect(t, filepath.Join(dir, name), false)
		runtime.ReadMemStats(&after)
		if grown := int64(after.Sys-after.HeapReleased) - int64(before.Sys-before.HeapReleased); grown > 64<<20 {
			t.Errorf("%s took %d bytes", name, grown)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
			t.Errorf("%s allocated %d bytes in all", name, taken)
		}
	}
}

func TestEnds(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "vdi", "disk.vdi", "8T")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Inspect(ctx, filepath.Join(dir, "disk.vdi"), Options{}); err == nil || ctx.Err() == nil {
		t.Errorf("an inspection that was called off ends with %v", err)
	}
}

// TestSchema checks the JSON against its schema, which has every field and no other.
func TestSchema(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	ext4(t, dir)
	schema, err := jsonschema.NewCompiler().Compile("report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	ways := [][]string{
		{"convert", "-O", "vdi"}, {"convert", "-O", "vpc"}, {"convert", "-c", "-O", "qcow2"}, {"convert", "-O", "vmdk"},
		{"convert", "-O", "vhdx"}, {"convert", "-O", "raw"},
	}
	if testing.Short() {
		ways = ways[:1]
	}
	for i, argv := range ways {
		name := fmt.Sprintf("disk%d", i)
		disktest.Run(t, dir, append(append([]string{"qemu-img"}, argv...), "disk.raw", name)...)
		r := inspect(t, filepath.Join(dir, name), false)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var text bytes.Buffer
		if err := Text(&text, r, 80); err != nil || !strings.Contains(text.String(), "\n  map           ") ||
			strings.ContainsAny(text.String(), "\x1b\x07") {
			t.Errorf("%s: %v\n%s", name, err, text.String())
		}
	}
}

func TestLine(t *testing.T) {
	m := &Map{Bucket: 100, Buckets: []record.DiskCell{{}, {Data: 1}, {Data: 50}, {Data: 75}, {Data: 100}, {Zero: 100},
		{Compressed: 100}}}
	if got := m.Line(80); got != "·░▓██zc" {
		t.Errorf("the line is %q", got)
	}
	if got := m.Line(1); got != "▒" {
		t.Errorf("the line of one glyph is %q", got)
	}
	if got := newMap(0).Line(80); got != "" {
		t.Errorf("the line of nothing is %q", got)
	}
}

// TestHolesAreNotPieces: data after a hole at its own distance is not another piece, whatever a copy does.
func TestHolesAreNotPieces(t *testing.T) {
	l, room := &layout{}, 100
	for k := range int64(10) {
		l.add(extent{2 * k << 16, 1<<30 + 2*k<<16, 1 << 16}, &room)
	}
	if l.jumps != 1 || l.count != 10 || !l.whole() {
		t.Errorf("a file with holes is in %d pieces of %d extents", l.jumps, l.count)
	}
	l.add(extent{1 << 30, 1<<30 + 19<<16, 1 << 16}, &room) // after the last one on the disk
	l.add(extent{2 << 30, 1 << 20, 1 << 16}, &room)
	if l.jumps != 2 {
		t.Errorf("%d pieces", l.jumps)
	}
}

// TestMetadataIsNoRoom: preallocated tables take no space that could be freed.
func TestMetadataIsNoRoom(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "preallocation=metadata", "disk.qcow2", "16G")
	r := inspect(t, filepath.Join(dir, "disk.qcow2"), false)
	if r.Space.Host < 0 {
		disktest.Lacking(t, "the temporary folder does not say where its files lie")
	}
	if r.Space.Data != 16<<30 || r.Space.Reclaimable > r.Space.Host || advice(r, "reclaimable") != nil {
		t.Errorf("space is %+v, advice %+v", r.Space, r.Advice)
	}
}

// patient is a fragmented image of layers, in the form that advice sees.
func patient(layers []image.Info, files ...hostFile) adviser {
	r := &Report{Layers: layers, Pieces: Pieces{Host: 5000, HostGiB: 5000}, Space: Space{Unallocated: 1}}
	return adviser{r: r, top: &r.Layers[0], files: files, stored: 1 << 30}
}

func TestAdviceLosesNothingUnsaid(t *testing.T) {
	find := func(d adviser, code string) (string, []string) {
		t.Helper()
		for _, a := range advise(d) {
			if a.Code == code {
				return a.Text, a.Commands
			}
		}
		t.Errorf("%s is not advised", code)
		return "", nil
	}
	text, commands := find(patient([]image.Info{{Path: "a.vmdk", Format: "vmdk", Variant: "monolithicFlat"}},
		hostFile{"a.vmdk", 1}, hostFile{"a-flat.vmdk", 4999}), "fragmented-host")
	if strings.Contains(commands[0], "cp ") || !strings.Contains(commands[0], "subformat=monolithicFlat") ||
		!strings.Contains(commands[1], "e4defrag a-flat.vmdk") || !strings.Contains(text, "a-flat.vmdk (4999)") {
		t.Errorf("several files: %s %q", text, commands)
	}
	if _, commands = find(patient([]image.Info{{Path: "a.qcow2", Format: "qcow2"}}, hostFile{"a.qcow2", 5000}),
		"fragmented-host"); !strings.HasPrefix(commands[0], "cp ") {
		t.Errorf("one file: %q", commands)
	}
	chain := patient([]image.Info{{Path: "c:d.qcow2", Format: "qcow2", Snapshots: []image.Snapshot{{ID: "1"}}},
		{Path: "p.qcow2"}, {Path: "q.qcow2"}})
	text, commands = find(chain, "long-chain")
	if !strings.HasPrefix(commands[0], "qemu-img convert ") || !strings.Contains(commands[1], "commit ./c:d.qcow2") ||
		!strings.Contains(text, "only if nothing else is based on p.qcow2") ||
		!strings.Contains(text, "1 snapshot inside the image is not copied") {
		t.Errorf("chain: %s %q", text, commands)
	}
	saved := patient([]image.Info{{Path: "a.qcow2", Format: "qcow2",
		Snapshots: []image.Snapshot{{ID: "1", Name: "before"}}}})
	if _, commands = find(saved, "snapshots"); !strings.Contains(commands[0], "-d before ") {
		t.Errorf("snapshots: %q", commands)
	}
	if _, commands = find(patient([]image.Info{{Path: "a:b.vmdk", Format: "vmdk", Dirty: "x"}}),
		"unclean"); commands[0] != "vmware-vdiskmanager -R ./a:b.vmdk" {
		t.Errorf("unclean: %q", commands)
	}
	static := patient([]image.Info{{Path: "a.vdi", Format: "vdi", Variant: "static", Block: 1 << 20}})
	static.r.Space.Reclaimable = 1 << 29
	if text, commands = find(static, "reclaimable"); !strings.Contains(text, "is not, and grows") ||
		strings.Contains(commands[0], "VBoxManage") {
		t.Errorf("static: %s %q", text, commands)
	}
}

// TestOneOfSeveral holds that what one device of several stores is no advice on what can be freed.
func TestOneOfSeveral(t *testing.T) {
	disktest.Need(t, "mkfs.btrfs", "truncate")
	dir := t.TempDir()
	disktest.Run(t, dir, "truncate", "-s", "300M", "a", "b")
	disktest.Run(t, dir, "mkfs.btrfs", "-q", "-f", "a", "b")
	r, err := Inspect(t.Context(), filepath.Join(dir, "a"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := Text(&text, r, 100); err != nil || r.Space.Used != -1 || r.Space.Reclaimable != -1 ||
		!strings.Contains(text.String(), "one of 2 devices") ||
		!strings.Contains(text.String(), "can be freed: unknown") {
		t.Errorf("%+v, %v\n%s", r.Space, err, &text)
	}
}
