package matrix

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Header is the head of iozone's table, two lines with the blanks at their ends.
const Header = "                                                              random    random     bkwd    record   " +
	" stride                                    \n" +
	"              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      read   " +
	"fwrite frewrite    fread  freread\n"

// Done is a row with its cells.
type Done struct {
	Row
	Cells []Cell
}

// Done is the row of the samples that its trial left, or of why that was refused.
func (c *Config) Done(samples map[string][]float64, refused error) Done {
	d := Done{Row: c.Row}
	for _, o := range c.Ops {
		cell := Cell{Op: o, Mark: c.marked(o), Samples: samples[o.String()]}
		switch {
		case cell.Mark != "":
			cell.Why = cell.Mark.Text()
		case refused != nil:
			cell.Mark, cell.Why = Refused, refused.Error()
			if c.Cold {
				cell.Mark = NotCold
			}
		case len(cell.Samples) == 0:
			cell.Mark = Ticks
			cell.Why = cell.Mark.Text()
		}
		d.Cells = append(d.Cells, cell)
	}
	return d
}

// cell returns a row's cell of an operation.
func (d *Done) cell(o Op) (*Cell, bool) {
	for i := range d.Cells {
		if d.Cells[i].Op == o {
			return &d.Cells[i], true
		}
	}
	return nil, false
}

// Line writes a row as iozone does: sizes in KiB and, for each operation that was asked for, the text that value gives;
// the others are blank, as wide as iozone leaves them.
func (d *Done) Line(value func(*Cell) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%16d%8d", d.Size>>10, d.Rec>>10)
	_, fread := d.cell(Fread)
	for _, o := range AllOps() {
		width := columns[o].width
		c, ok := d.cell(o)
		if ok {
			fmt.Fprintf(&b, "%*s", width, value(c))
			continue
		}
		if o == Freread && !fread {
			width-- // iozone's blanks for the last two are one short
		}
		fmt.Fprintf(&b, "%*s", width, "")
	}
	return b.String() + "\n"
}

// WriteReports writes what iozone's -R adds: a table for each operation, with record sizes on top and file sizes on the
// left, both in KiB. A combination that was left out is 0, records larger than the file are missing. Recs are record
// sizes in bytes that stand on top whether a row has them or not, as those of the automatic mode do.
func WriteReports(w io.Writer, rows []Done, recs []int64, value func(*Cell) string) error {
	var b strings.Builder
	var sizes []int64
	recs = slices.Clone(recs)
	at := map[Row]*Done{}
	asked := map[Op]bool{}
	for i := range rows {
		r := &rows[i]
		sizes, recs = append(sizes, r.Size), append(recs, r.Rec)
		at[r.Row] = r
		for _, c := range r.Cells {
			asked[c.Op] = true
		}
	}
	slices.Sort(sizes)
	slices.Sort(recs)
	sizes, recs = slices.Compact(sizes), slices.Compact(recs)
	for _, o := range AllOps() {
		if !asked[o] {
			continue
		}
		fmt.Fprintf(&b, "\n\"%s\"\n      ", columns[o].title)
		for _, rec := range recs {
			fmt.Fprintf(&b, "  \"%d\"", rec>>10)
		}
		b.WriteByte('\n')
		for _, size := range sizes {
			fmt.Fprintf(&b, "\"%d\"  ", size>>10)
			for _, rec := range recs {
				if rec > size {
					break
				}
				text := "0"
				if d := at[Row{size, rec}]; d != nil {
					if c, ok := d.cell(o); ok && c.Mark == "" {
						text = value(c)
					}
				}
				fmt.Fprintf(&b, " %s ", text)
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
