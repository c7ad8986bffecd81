package diskimage

import (
	"fmt"
	"io"
	"strings"

	"tare/internal/lab/diskimage/image"
	"tare/internal/unit"
)

// printer writes lines and stops at the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(name, format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf("  %-13s %s", name,
			clean(fmt.Sprintf(format, args...))), " "))
	}
}

// clean makes names from an image safe for a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// Text writes a report for people, with a map of at most width glyphs.
func Text(w io.Writer, r *Report, width int) error {
	p := &printer{w: w}
	if _, err := fmt.Fprintf(w, "%s\n", clean(r.Path)); err != nil {
		return err
	}
	p.format(r)
	p.contents(r)
	p.space(r)
	p.line("alignment", "%s", alignment(r))
	p.pieces(r)
	p.writes(r)
	p.line("map", "%s", r.Map.Line(max(width-16, 8)))
	for _, x := range r.Problem {
		p.line("PROBLEM", "%s%s (%s)", x.Text, times(x), x.Code)
	}
	for _, a := range r.Advice {
		p.line(a.Severity, "%s (%s)", a.Text, a.Code)
		for i, c := range a.Commands {
			p.line("", "%s%s", map[bool]string{true: "do: ", false: "or: "}[i == 0], c)
		}
	}
	if len(r.Advice) == 0 && len(r.Problem) == 0 {
		p.line("advice", "nothing to fix")
	}
	return p.err
}

func times(x Problem) string {
	where := ""
	if x.Guest >= 0 {
		where = fmt.Sprintf(", first at guest byte %d", x.Guest)
	}
	if x.Count > 1 {
		return fmt.Sprintf(" (%d times%s)", x.Count, where)
	}
	return where
}

func (p *printer) format(r *Report) {
	for i, l := range r.Layers {
		name := "format"
		if i > 0 {
			name = fmt.Sprintf("parent %d", i)
		}
		parts := []string{strings.TrimSpace(l.Format + " " + l.Variant)}
		if l.Version != "" {
			parts = append(parts, "version "+l.Version)
		}
		if l.Creator != "" {
			parts = append(parts, "made by "+l.Creator)
		}
		parts = append(parts, size(l.Size))
		parts = append(parts, blocks(&l))
		if l.Encrypted != "" {
			parts = append(parts, "encrypted with "+l.Encrypted)
		}
		if i > 0 {
			parts = append(parts, l.Path)
		}
		p.line(name, "%s", strings.Join(parts, ", "))
		if g := l.CHS; g != nil && i == 0 {
			p.line("geometry", "%d cylinders, %d heads, %d sectors", g.Cylinders, g.Heads, g.Sectors)
		}
		for _, s := range l.Snapshots {
			p.line("snapshot", "%s %s", s.ID, s.Name)
		}
	}
}

func blocks(l *image.Info) string {
	switch {
	case l.Block == 0:
		return "everything is allocated"
	case l.SubBlock > 0:
		return fmt.Sprintf("blocks of %s in parts of %s", size(l.Block), size(l.SubBlock))
	}
	return "blocks of " + size(l.Block)
}

func (p *printer) contents(r *Report) {
	if r.Disk.Scheme != "none" {
		p.line("partitions", "%s, %d", r.Disk.Scheme, len(r.Disk.Partitions))
	}
	for _, x := range r.Disk.Partitions {
		name := "file system"
		if x.Number > 0 {
			name = fmt.Sprintf("partition %d", x.Number)
		}
		what := "unknown contents, type " + x.Type
		if fs := x.FS; fs != nil {
			what = fs.Kind
			if fs.Label != "" {
				what += fmt.Sprintf(" %q", fs.Label)
			}
			if fs.Used >= 0 {
				what += fmt.Sprintf(", %s of %s used (%s)", about(fs.Used), about(fs.Total), fs.From)
			}
			if fs.Note != "" {
				what += ": " + fs.Note
			}
		}
		p.line(name, "at %d, %s: %s", x.Start, about(x.Length), what)
	}
}

func (p *printer) space(r *Report) {
	s := &r.Space
	parts := []string{about(s.Data+s.Compressed) + " stored"}
	if s.Compressed > 0 {
		parts = append(parts, about(s.Compressed)+" of it compressed")
	}
	if s.Inherited > 0 {
		parts = append(parts, about(s.Inherited)+" of it in a parent")
	}
	if s.Zero > 0 {
		parts = append(parts, about(s.Zero)+" marked as zero")
	}
	parts = append(parts, about(s.Unallocated)+" not allocated")
	if s.Host >= 0 {
		parts = append(parts, about(s.Host)+" on the host's disk")
	}
	p.line("space", "%s", strings.Join(parts, ", "))
	if z := &s.Zeros; z.How != "none" {
		text := fmt.Sprintf("%s %% of the data is zero, in units of %s", percent(z.Share), size(z.Unit))
		if z.Low != z.High {
			text += fmt.Sprintf(" (%s-%s %% by %d samples)", percent(z.Low), percent(z.High), z.Units)
		}
		p.line("zeros", "%s", text)
	}
	used := "not reported"
	if s.Used >= 0 {
		used = about(s.Used)
	}
	free := "unknown"
	switch {
	case s.Reclaimable == 0:
		free = "nothing"
	case s.Reclaimable > 0:
		free = "about " + about(s.Reclaimable)
	}
	p.line("used", "by the guest's file systems: %s; can be freed: %s", used, free)
}

// count formats a number of things: "1 piece", "49,999 pieces".
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits + " " + what + "s"
}

func percent(share float64) string { return unit.Number(100 * share) }

func alignment(r *Report) string {
	a := &r.Align
	var parts []string
	if a.DataOffset >= 0 {
		parts = append(parts, fmt.Sprintf("data at %#x (%d modulo %d)", a.DataOffset, a.DataRemainder, a.HostBlock))
	}
	for _, x := range a.Parts {
		if x.Partition > 0 && x.Remainder != 0 {
			parts = append(parts, fmt.Sprintf("partition %d at %d (%d modulo %d)", x.Partition, x.Start, x.Remainder,
				a.HostBlock))
		}
	}
	parts = append(parts, fmt.Sprintf("a guest write of 4 KiB touches %s blocks of the host", unit.Number(a.Touches)))
	return strings.Join(parts, ", ")
}

func (p *printer) pieces(r *Report) {
	x := &r.Pieces
	host := "host unknown (" + x.Why + ")"
	if x.Host >= 0 {
		host = "host " + pieces(x.Host, "extent", x.HostGiB)
	}
	product := "product unknown"
	if x.Product >= 0 {
		product = "together " + pieces(x.Product, "piece", x.ProdGiB)
	} else if x.Host >= 0 {
		product += " (" + x.Why + ")"
	}
	p.line("fragments", "format %s, %s, %s", pieces(x.Format, "piece", x.FormatGiB), host, product)
}

// pieces formats a number of pieces and their number per GiB. For one piece it omits the latter: 4 KiB in one piece
// would be 262,144 per GiB.
func pieces(n int64, what string, perGiB float64) string {
	if n < 2 {
		return count(n, what)
	}
	return fmt.Sprintf("%s (%s per GiB)", count(n, what), unit.Number(perGiB))
}

func (p *printer) writes(r *Report) {
	w := &r.Writes
	if w.Again == 0 {
		p.line("writes", "%s", w.Why)
		return
	}
	reads := ""
	if w.Reads {
		reads = ", with reads first"
	}
	p.line("writes", "4 KiB over data: %s x%s; into a new block: %s x (%s)", unit.Number(w.Again), reads,
		unit.Number(w.First), w.Why)
}
