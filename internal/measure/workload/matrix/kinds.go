package matrix

import (
	"fmt"
	"slices"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return []workload.Kind{matrixKind(), ddKind()} }

// autoData leaves the choice of data to compat.
const autoData = "auto"

// rowSeconds is the primary metric of fs.matrix.
const rowSeconds = "row_seconds"

func matrixKind() workload.Kind {
	return workload.Kind{
		Name: "fs.matrix", Family: workload.FamilyFiles, WorkUnit: "pass",
		Is: workload.Traits{Files: true, Columns: moves()},
		Doc: "Does up to thirteen operations on one file with one record size: a row of iozone's " +
			"matrix, each over the whole file, in iozone's order. The file is flushed, untimed, before an " +
			"operation that follows writes, and every timed read is checked. An operation whose figure would be " +
			"meaningless is left out, with the reason: strideread below 26 records, stdio with direct=yes, a time " +
			"too short for the clock.",
		Params: []workload.Param{
			{Name: "size", Type: workload.Size, Default: "64MiB", Min: minRecord, Max: maxFile,
				Doc: "size of the file (iozone -s)"},
			{Name: "bs", Type: workload.Size, Default: "64KiB", Min: minRecord, Max: maxRecord,
				Doc: "record size (iozone -r)"},
			{Name: "ops", Type: workload.Text, Default: "all",
				Doc: "all, or some of write rewrite read reread randread randwrite bkwdread " +
					"recrewrite strideread fwrite frewrite fread freread, separated by blanks or +"},
			{Name: "direct", Type: workload.Bool, Default: "no",
				Doc: "bypass the page cache (iozone -I); the trial fails where that is impossible"},
			{Name: "fsync", Type: workload.Bool, Default: "no",
				Doc: "flush in the timed section of every operation (iozone -e)"},
			{Name: "close", Type: workload.Bool, Default: "no",
				Doc: "close in the timed section of every operation (iozone -c)"},
			{Name: "cache", Type: workload.Choice, Default: "warm", Choices: []string{"warm", "cold"},
				Doc: "warm: just written or read; cold: the file's pages are dropped, verified, " +
					"before read, randread, bkwdread, strideread and fread"},
			{Name: "data", Type: workload.Choice, Default: autoData,
				Choices: []string{autoData, fileio.Random, fileio.Zero, iozonePayload},
				Doc: "random: incompressible, no page repeated; zero: all zeros; iozone: eight bytes " +
					"in each 4 KiB, else zeros; auto: random, or iozone with compat=iozone"},
			{Name: "compat", Type: workload.Choice, Default: "no", Choices: []string{"no", "iozone"},
				Doc: "iozone: calls, flags, order, payload and flushes of iozone 3.489, for published " +
					"figures; no: tare's own"},
			{Name: "samples", Type: workload.Int, Default: "5", Min: 1, Max: maxSamples,
				Doc: "samples of each pass"},
			{Name: "pages", Type: workload.Choice, Default: string(fileio.OrdinaryPages), Choices: fileio.PagesChoices,
				Doc: fileio.PagesDoc},
			{Name: "preset", Type: workload.Choice, Default: "none", Choices: presetNames(),
				Doc: "a named set of parameters: " + presetDoc()},
		},
		Metrics: metrics(AllOps()),
		Dynamic: func(p workload.Params) []unit.Metric {
			c, err := configOf(p)
			if err != nil {
				return metrics(AllOps())
			}
			return metrics(c.meaningful())
		},
		Needs:  workload.Needs{FS: true, CPUBound: true}, // most of a buffered operation is the kernel's work
		Expand: expand,
		Lasts:  lasts,
		New: func(p workload.Params) (workload.Trial, error) {
			c, err := configOf(p)
			if err != nil {
				return nil, err
			}
			return &trial{config: c}, nil
		},
		Space: func(p workload.Params) int64 {
			c, err := configOf(p)
			if err != nil {
				return 0
			}
			return c.space()
		},
	}
}

// lasts names the columns that write, and the whole row if it has one of them.
func lasts(p workload.Params) workload.Lasting {
	for _, q := range Presets() {
		if q.Name == p["preset"] {
			p = q.Params
		}
	}
	ops, err := ParseOps(p["ops"])
	if err != nil {
		ops = AllOps()
	}
	l := workload.Lasting{Flush: workload.FlushLater}
	if p.Bool("fsync") {
		l.Flush = workload.FlushAtEnd
	}
	for _, o := range ops {
		if columns[o].writes {
			l.Metrics = append(l.Metrics, o.String())
		}
	}
	if l.Metrics == nil {
		return workload.Lasting{}
	}
	l.Metrics = append(l.Metrics, rowSeconds)
	return l
}

// moves is the way in which each column moves the file's records. Stdio has its buffer between them and a device, and
// in the other orders no device is measured.
func moves() map[string]workload.Moves {
	device := []Op{Write, Rewrite, Read, Reread, RandRead, RandWrite}
	all := map[string]workload.Moves{}
	for _, o := range AllOps() {
		all[o.String()] = workload.Moves{Read: !columns[o].writes, Random: o == RandRead || o == RandWrite,
			Device: slices.Contains(device, o)}
	}
	return all
}

// metrics declares the figures of a pass of these operations.
func metrics(ops []Op) []unit.Metric {
	list := []unit.Metric{{Name: rowSeconds, Unit: "s", Better: unit.Lower, Timed: true, Primary: true,
		Doc: "time of all operations, timed sections only"}}
	for _, o := range ops {
		list = append(list, unit.Metric{Name: o.String(), Unit: "KiB/s", Better: unit.Higher, Timed: true,
			Doc: columns[o].doc})
	}
	return list
}

// configOf reads resolved parameters.
func configOf(p workload.Params) (Config, error) {
	p, err := withPreset(p)
	if err != nil {
		return Config{}, err
	}
	c := Config{
		Row:    Row{Size: p.Int("size"), Rec: p.Int("bs")},
		Direct: p.Bool("direct"), Fsync: p.Bool("fsync"), Close: p.Bool("close"), Cold: p["cache"] == "cold",
		Data: p["data"], Compat: p["compat"] == "iozone", Samples: int(p.Int("samples")), Seed: 1,
		Pages: fileio.Pages(p["pages"]),
	}
	if c.Data == autoData {
		c.Data = fileio.Random
		if c.Compat {
			c.Data = iozonePayload
		}
	}
	if c.Ops, err = ParseOps(p["ops"]); err != nil {
		return Config{}, fmt.Errorf("fs.matrix: %w", err)
	}
	if err := c.Check(); err != nil {
		return Config{}, fmt.Errorf("fs.matrix: %w", err)
	}
	if c.Direct && c.Rec%sector != 0 { // refused in every environment, so checked before one is opened
		return Config{}, fmt.Errorf("fs.matrix: bs=%s: direct I/O needs a multiple of the sector size of %d bytes; "+
			"change bs, or leave out direct=yes", p["bs"], sector)
	}
	if err := c.Means(); err != nil {
		return Config{}, fmt.Errorf("fs.matrix: %w", err)
	}
	return c, nil
}
