package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload/matrix"
	"tare/internal/stats"
)

// end prints what comes below the rows.
func (o *iozone) end(w io.Writer, done []matrix.Done) error {
	if _, err := fmt.Fprint(w, "\niozone test complete.\n"); err != nil {
		return err
	}
	if o.excel {
		fmt.Fprintln(w, "Excel output is below:")
		if err := matrix.WriteReports(w, done, o.columns, iozoneCell); err != nil {
			return err
		}
	}
	if o.spread {
		fmt.Fprint(w, "\nSpread of the samples, (largest - smallest) / median, in %\n", matrix.Header)
		for i := range done {
			fmt.Fprint(w, done[i].Line(iozoneSpread))
		}
	}
	return explainMarks(w, done)
}

// banner describes the run, in the place of iozone's banner.
func (o *iozone) banner(w io.Writer, dir string) {
	_, on := fileio.Volume(dir)
	fmt.Fprintf(w, "\ttare iozone: the matrix of iozone 3.489 on %s\n\n\tRun began: %s\n\n", on,
		time.Now().Format(time.ANSIC))
	for _, l := range []struct {
		on   bool
		text string
	}{
		{o.direct, "O_DIRECT feature enabled"},
		{o.excel, "Excel chart generation enabled"},
		{o.fsync, "Include fsync in write timing"},
		{o.auto, "Auto Mode"},
		{o.close, "Include close in write timing"},
		{o.cold, "Files are dropped from the page cache before reads other than re-reads"},
	} {
		if l.on {
			fmt.Fprintf(w, "\t%s\n", l.text)
		}
	}
	if o.compat {
		fmt.Fprintf(w, "\tAs iozone does it: one sample, data %s\n", o.data)
	} else {
		fmt.Fprintf(w, "\tMedian of at least %d samples, data %s, verified\n", o.samples, o.data)
	}
	fmt.Fprint(w, "\tOutput is in kBytes/sec\n\tFile stride size set to 17 * record size.\n")
}

// iozoneCell is a cell's figure: KiB/s, cut off, of its median sample.
func iozoneCell(c *matrix.Cell) string {
	if c.Mark != "" {
		return "*" + string(c.Mark)
	}
	if len(c.Samples) == 0 {
		return "-"
	}
	return strconv.FormatInt(int64(stats.Median(c.Samples)), 10)
}

func iozoneSpread(c *matrix.Cell) string {
	if c.Mark != "" || len(c.Samples) < 2 {
		return "-"
	}
	return strconv.FormatFloat(100*(slices.Max(c.Samples)-slices.Min(c.Samples))/stats.Median(c.Samples), 'f', 1, 64)
}

// explainMarks says below the table what its marks mean, each once, with what was seen first.
func explainMarks(w io.Writer, done []matrix.Done) error {
	seen := map[matrix.Mark]int{}
	why := map[matrix.Mark]string{}
	var order []matrix.Mark
	for _, d := range done {
		for _, c := range d.Cells {
			if c.Mark == "" {
				continue
			}
			if seen[c.Mark]++; seen[c.Mark] == 1 {
				order, why[c.Mark] = append(order, c.Mark), c.Why
			}
		}
	}
	if len(order) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	for _, m := range order {
		text := m.Text()
		if why[m] != text {
			text += ": " + why[m]
		}
		if _, err := fmt.Fprintf(w, "*%s  no figure in %d cells: %s\n", m, seen[m], text); err != nil {
			return err
		}
	}
	return nil
}
