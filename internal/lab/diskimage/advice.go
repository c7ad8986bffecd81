package diskimage

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/lab/diskimage/image"
	"tare/internal/sys/shell"
	"tare/internal/unit"
)

// Thresholds for advice. They are judgements, not measurements.
const (
	manyPieces = 64   // per GiB: one every 16 MiB; with more pieces even sequential reading seeks
	manySaves  = 0.10 // of the data that could be freed
	minSaves   = 64 << 20
	longChain  = 3 // images in a chain
)

// qemuName is qemu-img's name of a format.
var qemuName = map[string]string{"vhd": "vpc"}

// extension is the usual file name extension of a format.
var extension = map[string]string{"raw": ".img"}

// adviser collects advice.
type adviser struct {
	r      *Report
	top    *image.Info
	files  []hostFile
	stored int64 // space that the contents take on the host
}

// hostFile is one of the files of the image or of its parents.
type hostFile struct {
	name   string
	pieces int64 // on the host's disk
}

// hostFiles is empty if the host does not report where files lie.
func hostFiles(files []*os.File, places []*layout) (out []hostFile) {
	for i, f := range files {
		if places[i] == nil {
			return nil
		}
		out = append(out, hostFile{f.Name(), places[i].jumps})
	}
	return out
}

// advise returns what is wrong and the commands that fix it, the worst first.
func advise(d adviser) []Advice {
	out := []Advice{}
	for _, look := range []func() *Advice{
		d.damage, d.unclean, d.encrypted, d.misaligned, d.partition, d.scattered, d.hostScattered, d.chain, d.reclaim,
		d.compressed,
	} {
		if a := look(); a != nil {
			d.lossOf(a)
			out = append(out, *a)
		}
	}
	return out
}

// lossOf adds what a new image from qemu-img convert does not contain.
func (d adviser) lossOf(a *Advice) {
	if !slices.ContainsFunc(a.Commands, func(c string) bool { return strings.HasPrefix(c, "qemu-img convert ") }) {
		return
	}
	if n := len(d.top.Snapshots); n > 0 {
		a.Text += fmt.Sprintf(" qemu-img convert copies the disk as it is now: the %s inside the image %s not copied.",
			count(int64(n), "snapshot"), are(n))
	}
	if len(d.r.Layers) > 1 {
		a.Text += " It writes one image that includes the contents of the parents."
	}
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func (d adviser) path() string { return plainName(d.top.Path) }

// plainName changes a name that would be taken for an option, or by QEMU for a protocol ("a:b").
func plainName(path string) string {
	first, _, _ := strings.Cut(path, "/")
	if strings.HasPrefix(path, "-") || strings.Contains(first, ":") {
		return "./" + path
	}
	return path
}

// beside is a name for the new image, next to this one.
func (d adviser) beside(format string) string {
	ext := extension[format]
	if ext == "" {
		ext = "." + format
	}
	return strings.TrimSuffix(d.path(), filepath.Ext(d.path())) + "-new" + ext
}

// convert is a command that writes a new image, in the guest's order and without zeros.
func (d adviser) convert(to string, options ...string) string {
	argv := []string{"qemu-img", "convert", "-p", "-f", qemu(d.top.Format), "-O", qemu(to)}
	for _, o := range options {
		argv = append(argv, "-o", o)
	}
	return shell.Quote(append(argv, d.path(), d.beside(to))...)
}

func qemu(format string) string {
	if n, ok := qemuName[format]; ok {
		return n
	}
	return format
}

func (d adviser) damage() *Advice {
	if !d.r.Damaged() {
		return nil
	}
	a := &Advice{Code: "damaged", Severity: "damage",
		Text: "The image is damaged; see the problems. Copy it first, then check it with its own program."}
	switch d.top.Format {
	case "vdi":
		a.Commands = []string{shell.Quote("VBoxManage", "internalcommands", "repairhd", "-format", "VDI", d.path())}
	case "vmdk":
		a.Commands = []string{shell.Quote("vmware-vdiskmanager", "-R", d.path())}
	}
	if d.top.Format == "raw" || d.top.Format == "vhd" {
		a.Commands = []string{shell.Quote("cp", "--sparse=always", d.path(), d.path()+".copy")}
	} else {
		a.Commands = append(a.Commands, shell.Quote("qemu-img", "check", "-f", qemu(d.top.Format), d.path()))
	}
	return a
}

func (d adviser) unclean() *Advice {
	i := slices.IndexFunc(d.r.Layers, func(l image.Info) bool { return l.Dirty != "" })
	if i < 0 {
		return nil
	}
	l := &d.r.Layers[i]
	a := &Advice{
		Code: "unclean", Severity: "damage",
		Text: fmt.Sprintf("%s was not closed cleanly: %s. If it is in use right now, this is normal.", l.Path,
			l.Dirty),
		Commands: []string{shell.Quote("qemu-img", "check", "-r", "all", "-f", qemu(l.Format), plainName(l.Path))},
	}
	if l.Format == "vmdk" { // qemu-img checks VMDKs but does not repair them
		a.Commands = []string{shell.Quote("vmware-vdiskmanager", "-R", plainName(l.Path))}
	}
	return a
}

func (d adviser) encrypted() *Advice {
	if d.top.Encrypted == "" {
		return nil
	}
	return &Advice{
		Code: "encrypted", Severity: "note", Commands: []string{},
		Text: fmt.Sprintf("The image is encrypted (%s): its block map can be shown, the guest's data cannot.",
			d.top.Encrypted),
	}
}

func (d adviser) misaligned() *Advice {
	a := &d.r.Align
	rotating := d.top.Stride%HostBlock != 0
	if d.top.DataOffset < 0 || a.DataRemainder == 0 && !rotating {
		return nil
	}
	out := &Advice{Code: "misaligned-image", Severity: "speed"}
	if rotating {
		good := int(8*promised(d.top, 0) + 0.5)
		out.Text = fmt.Sprintf("Each block of %s is stored behind a bitmap, so blocks begin every %s bytes: %d in 8 "+
			"lies on blocks of the host. "+
			"In all others each write of 4 KiB touches two, and both have to be read first. The format cannot avoid "+
			"this; another format can.",
			size(d.top.Block), unit.Number(float64(d.top.Stride)), good)
		out.Commands = []string{d.convert("vhdx"), d.convert("qcow2")}
		return out
	}
	out.Text = fmt.Sprintf("The data begins at byte %d (%#x) of the file, %d bytes into a block of the host: each "+
		"write of 4 KiB touches two, "+
		"and both have to be read first.", a.DataOffset, a.DataOffset, a.DataRemainder)
	switch d.top.Format {
	case "vdi":
		out.Text += " qemu-img makes such images; VirtualBox places the data at a multiple of 1 MiB."
		out.Commands = []string{
			shell.Quote("VBoxManage", "clonemedium", "disk", d.path(), d.beside("vdi"), "--format", "VDI"),
			d.convert("qcow2"),
		}
	case "vmdk":
		out.Commands = []string{shell.Quote("vmware-vdiskmanager", "-r", d.path(), "-t", "0", d.beside("vmdk")),
			d.convert("vmdk")}
	default:
		out.Commands = []string{d.convert("qcow2")}
	}
	return out
}

func (d adviser) partition() *Advice {
	i := slices.IndexFunc(d.r.Align.Parts, func(p AlignPart) bool { return p.Remainder != 0 })
	if i < 0 {
		return nil
	}
	p := &d.r.Align.Parts[i]
	return &Advice{
		Code: "misaligned-partition", Severity: "speed",
		Text: fmt.Sprintf("Partition %d begins at byte %d, %d bytes into a block of 4 KiB (sector 63 was usual "+
			"until 2008). No image format fixes that: make a new disk, partition it from 1 MiB on, and copy the "+
			"files over in the guest.", p.Partition, p.Start, p.Remainder),
		Commands: []string{shell.Quote("qemu-img", "create", "-f", "qcow2", d.beside("qcow2"), fmt.Sprint(d.r.Size)),
			"parted --align optimal /dev/NEW mklabel gpt mkpart data 1MiB 100%"},
	}
}

func (d adviser) scattered() *Advice {
	p := &d.r.Pieces
	if p.FormatGiB <= manyPieces || p.Format < 16 {
		return nil
	}
	a := &Advice{
		Code: "fragmented-image", Severity: "speed",
		Text: fmt.Sprintf("The blocks are in the file in the order in which they were first written: reading the "+
			"disk in order finds its data in %s, "+
			"%s per GiB. A new copy follows the guest's order.", count(p.Format, "piece"), unit.Number(p.FormatGiB)),
		Commands: []string{d.convert(d.writable())},
	}
	switch d.top.Format {
	case "vmdk":
		a.Commands = append([]string{shell.Quote("vmware-vdiskmanager", "-d", d.path())}, a.Commands...)
	case "vdi":
		a.Commands = []string{shell.Quote("VBoxManage", "clonemedium", "disk", d.path(), d.beside("vdi"), "--format",
			"VDI"), d.convert("qcow2")}
	}
	return a
}

// writable is a format that a new image could have with advantage.
func (d adviser) writable() string {
	if d.top.Format == "vdi" || d.top.Format == "vhd" { // misaligned if made by qemu-img
		return "qcow2"
	}
	return d.top.Format
}

func (d adviser) hostScattered() *Advice {
	p := &d.r.Pieces
	if p.HostGiB <= manyPieces || p.Host < 16 {
		return nil
	}
	a := &Advice{
		Code: "fragmented-host", Severity: "speed",
		Text: fmt.Sprintf("The host's file system stores the image in %s, %s per GiB. A copy gets a new layout; on "+
			"a nearly full disk it is scattered again.",
			count(p.Host, "piece"), unit.Number(p.HostGiB)),
	}
	if len(d.files) == 1 {
		a.Commands = []string{shell.Quote("cp", "--sparse=always", "--reflink=never", d.path(), d.path()+".new"),
			shell.Quote("e4defrag", d.path())}
		return a
	}
	worst, all := d.worst()
	a.Text += fmt.Sprintf(" It consists of %s, and all of them must be copied. In pieces: %s.",
		count(int64(len(d.files)), "file"), all)
	options := []string{}
	if d.top.Format == "vmdk" && slices.Contains(vmdkKinds, d.top.Variant) {
		options = append(options, "subformat="+d.top.Variant)
	}
	a.Commands = []string{d.convert(d.top.Format, options...), shell.Quote(append([]string{"e4defrag"}, worst...)...)}
	return a
}

// vmdkKinds are the VMDK types with several files that qemu-img writes.
var vmdkKinds = []string{"monolithicFlat", "twoGbMaxExtentSparse", "twoGbMaxExtentFlat"}

// maxNamed bounds the number of files in a piece of advice.
const maxNamed = 8

// worst returns the most fragmented files, for a command and as text.
func (d adviser) worst() (names []string, all string) {
	files := slices.DeleteFunc(slices.Clone(d.files), func(f hostFile) bool { return f.pieces < 2 })
	slices.SortStableFunc(files, func(a, b hostFile) int { return cmp.Compare(b.pieces, a.pieces) })
	said := []string{}
	for _, f := range files[:min(len(files), maxNamed)] {
		names = append(names, plainName(f.name))
		said = append(said, fmt.Sprintf("%s (%d)", f.name, f.pieces))
	}
	if more := len(files) - len(names); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return names, strings.Join(said, ", ")
}

func (d adviser) chain() *Advice {
	if n := len(d.r.Layers); n >= longChain {
		a := &Advice{
			Code: "long-chain", Severity: "speed",
			Text: fmt.Sprintf("The disk consists of a chain of %d images: reading a block searches them one after the "+
				"other, and the first write to a block copies it. Merge images that are not needed.", n),
		}
		switch d.top.Format {
		case "vdi":
			a.Commands = []string{"VBoxManage snapshot VM list", "VBoxManage snapshot VM delete SNAPSHOT"}
		case "vmdk":
			a.Commands = []string{shell.Quote("vmware-vdiskmanager", "-r", d.path(), "-t", "0", d.beside("vmdk"))}
		case "qcow2":
			parent := d.r.Layers[1].Path
			a.Text += fmt.Sprintf(" qemu-img commit writes the image into its parent, and breaks every other image "+
				"based on that parent: use it only if nothing else is based on %s.", parent)
			a.Commands = []string{d.convert("qcow2"), shell.Quote("qemu-img", "commit", d.path())}
		default:
			a.Commands = []string{d.convert("qcow2")}
		}
		return a
	}
	if n := len(d.top.Snapshots); n > 0 {
		first := d.top.Snapshots[0]
		return &Advice{
			Code: "snapshots", Severity: "note",
			Text: fmt.Sprintf("It contains %s: shared blocks are copied before they are overwritten, and the "+
				"space of snapshots is not freed.", count(int64(n), "snapshot")),
			Commands: []string{shell.Quote("qemu-img", "snapshot", "-d", cmp.Or(first.Name, first.ID), d.path())},
		}
	}
	return nil
}

func (d adviser) reclaim() *Advice {
	s := &d.r.Space
	if s.Reclaimable < minSaves || float64(s.Reclaimable) < manySaves*float64(d.stored) || d.top.Block == 0 {
		return nil
	}
	a := &Advice{Code: "reclaimable", Severity: "space"}
	a.Text = fmt.Sprintf("About %s of the %s it stores is not needed by the guest.", about(s.Reclaimable),
		about(d.stored))
	if zero := int64(s.Zeros.Low * float64(s.Data)); 2*zero < s.Reclaimable {
		a.Text += " Most of it is data of deleted files: clear that first, in the guest, with zerofree or fstrim " +
			"(Windows: sdelete -z)."
	}
	static := d.top.Variant == "static" || d.top.Variant == "fixed"
	if static || s.Unallocated == 0 && len(d.r.Layers) == 1 {
		a.Text += " All blocks of the image are preallocated; the image that the command makes is not, and grows as " +
			"it is written."
	}
	if static { // VirtualBox does not compact these
		a.Commands = []string{d.convert(d.writable())}
		return a
	}
	switch d.top.Format {
	case "vdi":
		a.Commands = []string{shell.Quote("VBoxManage", "modifymedium", "disk", d.path(), "--compact")}
	case "vmdk":
		a.Commands = []string{shell.Quote("vmware-vdiskmanager", "-k", d.path()), d.convert("vmdk")}
	case "vhd", "vhdx":
		a.Commands = []string{shell.Quote("VBoxManage", "modifymedium", "disk", d.path(), "--compact"),
			d.convert("vhdx")}
		if d.top.Format == "vhdx" {
			a.Commands = []string{"Optimize-VHD -Path " + shell.Quote(d.path()) + " -Mode Full", d.convert("vhdx")}
		}
	default:
		a.Commands = []string{d.convert("qcow2")}
	}
	return a
}

func (d adviser) compressed() *Advice {
	s := &d.r.Space
	if s.Compressed == 0 || s.Compressed < s.Data {
		return nil
	}
	return &Advice{
		Code: "compressed", Severity: "note",
		Text: "Most of it is compressed: each read of 4 KiB decompresses a whole block, and each write needs " +
			"new space. Such images are for transport; run from an uncompressed image.",
		Commands: []string{d.convert("qcow2")},
	}
}

// size formats a number of bytes that is usually a whole number of some unit.
func size(n int64) string { return unit.FormatSize(n) }

// about formats a number of bytes with three digits.
func about(n int64) string { return unit.Format(float64(n), "B") }
