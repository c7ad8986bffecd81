package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	iozone "tare/internal/measure/workload/matrix"
)

// errNoMatrix is the error of the forms for iozone's readers for a run that has no matrix.
var errNoMatrix = errors.New("write iozone report: this run has no cell of fs.matrix, the workload that measures " +
	"iozone's matrix: run with -w fs.matrix, or use --format text")

// Iozone writes each target's matrix as iozone prints it on standard output with its option -R, byte for byte from the
// table's header on, so that programs which read that read this. As in iozone, "kB" is KiB, figures are whole KiB/s cut
// off, operations that were not run are blank, and in the tables of -R a combination that was not run is 0 and records
// larger than the file are left out. Each figure is the median over blocks. It is an error when the run has no
// fs.matrix.
func Iozone(w io.Writer, m *Model) error {
	all := m.matrices()
	if len(all) == 0 {
		return errNoMatrix
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "\ttare %s: medians over the blocks of run %s, %s\n", clean(m.Run.Version), clean(m.Run.ID),
		clean(m.Run.Scope))
	if d := m.damage(); d != "" {
		fmt.Fprintf(&out, "\t%s\n", sentence(d))
	}
	fmt.Fprintf(&out, "\tOutput is in kBytes/sec (1 kB = 1024 bytes)\n")
	for _, x := range all {
		for _, target := range x.targets {
			fmt.Fprintf(&out, "\n\tTarget: %s\n", clean(target))
			if x.variant != "" {
				fmt.Fprintf(&out, "\tSettings: %s\n", x.variant)
			}
			out.WriteByte('\n')
			if err := x.iozone(&out, target); err != nil {
				return fmt.Errorf("write iozone report: %w", err)
			}
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write iozone report: %w", err)
	}
	return nil
}

// iozone writes one target's matrix.
func (x *matrix) iozone(out *bytes.Buffer, target string) error {
	var done []iozone.Done
	for _, size := range x.sizes {
		for _, record := range x.records {
			d := iozone.Done{Row: iozone.Row{Size: size, Rec: record}}
			for op := range matrixOps {
				if v, ok := x.at(target, op, size, record); ok {
					d.Cells = append(d.Cells, iozone.Cell{Op: iozone.Op(op), Samples: []float64{v}})
				}
			}
			if len(d.Cells) > 0 {
				done = append(done, d)
			}
		}
	}
	out.WriteString(iozone.Header)
	for i := range done {
		out.WriteString(done[i].Line(iozoneFigure))
	}
	out.WriteString("\niozone test complete.\nExcel output is below:\n")
	return iozone.WriteReports(out, done, nil, iozoneFigure)
}

// iozoneFigure is a cell's figure as iozone prints it: whole KiB/s, cut off.
func iozoneFigure(c *iozone.Cell) string { return strconv.FormatInt(int64(c.Samples[0]), 10) }
