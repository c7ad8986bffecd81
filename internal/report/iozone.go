package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errNoMatrix is what the forms for iozone's readers say of a run that has no matrix.
var errNoMatrix = errors.New("write iozone report: this run has no cell of fs.matrix, which alone measures iozone's matrix: run it with -w fs.matrix, or use --format text")

// iozoneWidths are the widths of the columns of iozone's table: kB, reclen, then one for each operation.
var iozoneWidths = [...]int{16, 8, 9, 9, 9, 9, 9, 10, 9, 10, 10, 9, 9, 9, 9}

// Iozone writes each target's matrix in the layout of iozone's standard output followed by the tables of its option -R,
// so that programs which read those read this. As in iozone, "kB" is KiB, figures are whole KiB/s cut off, operations
// that were not run are blank, and in the tables of -R a combination that was not run is 0 and records larger than the
// file are left out. Each figure is the median over blocks. It is an error when the run has no fs.matrix.
func Iozone(w io.Writer, m *Model) error {
	all := m.matrices()
	if len(all) == 0 {
		return errNoMatrix
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "\ttare %s: medians over the blocks of run %s, %s\n", clean(m.Run.Version), clean(m.Run.ID), clean(m.Run.Scope))
	fmt.Fprintf(&out, "\tOutput is in kBytes/sec (1 kB = 1024 bytes)\n")
	for _, x := range all {
		for _, target := range x.targets {
			fmt.Fprintf(&out, "\n\tTarget: %s\n", clean(target))
			if x.variant != "" {
				fmt.Fprintf(&out, "\tSettings: %s\n", x.variant)
			}
			x.table(&out, target)
			for _, op := range x.ops {
				x.report(&out, target, op)
			}
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write iozone report: %w", err)
	}
	return nil
}

func (x *matrix) table(out *bytes.Buffer, target string) {
	var over, under bytes.Buffer
	fmt.Fprintf(&over, "%*s%*s", iozoneWidths[0], "", iozoneWidths[1], "")
	fmt.Fprintf(&under, "%*s%*s", iozoneWidths[0], "kB", iozoneWidths[1], "reclen")
	for i, op := range matrixOps {
		fmt.Fprintf(&over, "%*s", iozoneWidths[i+2], op.over)
		fmt.Fprintf(&under, "%*s", iozoneWidths[i+2], op.under)
	}
	fmt.Fprintf(out, "\n%s\n%s\n", bytes.TrimRight(over.Bytes(), " "), under.Bytes())
	for _, size := range x.sizes {
		for _, record := range x.records {
			var line bytes.Buffer
			found := false
			fmt.Fprintf(&line, "%*d%*d", iozoneWidths[0], size>>10, iozoneWidths[1], record>>10)
			for op := range matrixOps {
				v, ok := x.at(target, op, size, record)
				if !ok {
					fmt.Fprintf(&line, "%*s", iozoneWidths[op+2], "")
					continue
				}
				found = true
				// A figure as wide as its column would touch its neighbour.
				fmt.Fprintf(&line, " %*d", iozoneWidths[op+2]-1, int64(v))
			}
			if found {
				fmt.Fprintf(out, "%s\n", bytes.TrimRight(line.Bytes(), " "))
			}
		}
	}
}

// report writes one operation as -R does: record sizes on top, file sizes on the left, in kB and in quotes.
func (x *matrix) report(out *bytes.Buffer, target string, op int) {
	fmt.Fprintf(out, "\n\"%s\"\n      ", matrixOps[op].report)
	for _, record := range x.records {
		fmt.Fprintf(out, "  \"%d\"", record>>10)
	}
	out.WriteByte('\n')
	for _, size := range x.sizes {
		fmt.Fprintf(out, "\"%d\"  ", size>>10)
		for _, record := range x.records {
			if record > size {
				break
			}
			v, _ := x.at(target, op, size, record)
			fmt.Fprintf(out, " %d ", int64(v))
		}
		out.WriteByte('\n')
	}
}
