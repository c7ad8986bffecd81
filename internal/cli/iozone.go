package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/internal/lab/leftover"
	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/matrix"
	"tare/internal/plan"
	"tare/internal/record"
)

// iozone is the command's settings, named after iozone's letters where it has them.
type iozone struct {
	auto, all             bool
	close, fsync, direct  bool
	excel, compat, spread bool
	cold                  bool
	tests                 []int
	sizes, recs           []string
	maxSize, minSize      string
	maxRec, minRec        string
	place, preset, data   string
	samples               int
	worksheet             string
	columns               []int64         // record sizes on top of the tables of -R
	rows                  []matrix.Config // in the order of the table
}

// iozoneCommand is `tare iozone`.
type iozoneCommand struct {
	*app
}

func (cmd *iozoneCommand) command() *cobra.Command {
	o := &iozone{}
	c := &cobra.Command{
		Use: "iozone [flags]", Short: "Measure a directory of this host as iozone does, with several samples and " +
			"incompressible data",
		Long: `Run iozone's tests in a new private directory, with iozone's options, and print iozone's table.

Unlike iozone, each figure is the median of at least five samples, the data is incompressible, reads are verified, and a
meaningless cell is marked instead of printed. --compat does as iozone does: its payload of zeros, its sequence of calls,
one sample. To compare environments, use fs.matrix: tare run -w fs.matrix:preset=direct4k

    tare iozone -a -g 64M                                  the matrix up to 64 MiB
    tare iozone -Rac -f /mnt/share                         with tables for a spreadsheet; the time includes the close
    tare iozone -I -e -a -s 64M -r 4k -i 0 -i 2            direct I/O; the same as --preset direct4k

Sizes are in KiB, or with k, m or g in KiB, MiB or GiB.`,
		Args: func(c *cobra.Command, args []string) error {
			if refuseForeign(c.Flags()) != nil {
				return nil // said below; iozone's -F takes file names
			}
			return cobra.NoArgs(c, args)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.read(c); err != nil {
				return usageError{err}
			}
			return cmd.iozone(c.Context(), o)
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.auto, "auto", "a", false,
		"all sizes from 64 KiB to 512 MiB and records from 4 KiB to 16 MiB, unless -s and -r are given")
	f.BoolVarP(&o.all, "all", "z", false, "with -a: also records below 64 KiB in files above 16 MiB")
	f.BoolVarP(&o.close, "close", "c", false, "include the close of the file in the time")
	f.BoolVarP(&o.fsync, "fsync", "e", false, "include a flush of the file in the time")
	f.BoolVarP(&o.direct, "direct", "I", false, "bypass the page cache; never for fwrite and fread")
	f.BoolVarP(&o.excel, "report", "R", false, "add a table for each operation, for a spreadsheet")
	f.IntSliceVarP(&o.tests, "test", "i", nil,
		"0 write, 1 read, 2 random, 3 backward, 4 record rewrite, 5 stride, 6 fwrite, "+
			"7 fread (repeatable; default all)")
	f.StringArrayVarP(&o.sizes, "size", "s", nil, "file `size` (repeatable, or with commas; default 512k without -a)")
	f.StringArrayVarP(&o.recs, "record", "r", nil, "record `size` (repeatable, or with commas; default 4k without -a)")
	f.StringVarP(&o.maxSize, "max-size", "g", "512m", "with -a: the largest file")
	f.StringVarP(&o.minSize, "min-size", "n", "64k", "with -a: the smallest file")
	f.StringVarP(&o.maxRec, "max-record", "q", "16m", "with -a: the largest record")
	f.StringVarP(&o.minRec, "min-record", "y", "4k", "with -a: the smallest record")
	f.StringVarP(&o.place, "file", "f", ".",
		"`directory` to measure, or a file in it; a private directory is made there, and no file that exists is "+
			"touched")
	f.StringVarP(&o.worksheet, "worksheet", "b", "", "not supported: see the message")
	f.StringVar(&o.preset, "preset", "", "a known command line: "+strings.Join(presets(), ", "))
	f.StringVar(&o.data, "data", "", "random (default), zero, or iozone (default with --compat)")
	f.BoolVar(&o.compat, "compat", false, "iozone's own payload, sequence of calls and single sample")
	f.BoolVar(&o.cold, "cold", false,
		"drop the file from the page cache before each read except re-reads, and check that it is gone")
	f.IntVar(&o.samples, "samples", 5, "least number of samples of each cell")
	f.BoolVar(&o.spread, "spread", false, "add a table of the spread of the samples of each cell")
	_ = f.MarkHidden("worksheet")
	addForeign(f)
	return c
}

func presets() []string {
	var names []string
	for _, p := range matrix.Presets() {
		names = append(names, p.Name)
	}
	return names
}

// read turns the flags into rows and a configuration.
func (o *iozone) read(c *cobra.Command) error {
	if err := refuseForeign(c.Flags()); err != nil {
		return err
	}
	if o.worksheet != "" {
		return errors.New("-b: tare iozone writes no worksheet; leave it out and use -R, or keep the figures: tare " +
			"run -e host -w fs.matrix:preset=Racb, a workload for each row of the matrix (with ,size=64MiB for " +
			"those of one size), then tare report --format xlsx")
	}
	if err := o.usePreset(c); err != nil {
		return err
	}
	ops, err := matrix.Tests(o.tests)
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"", fileio.Random, fileio.Zero, "iozone"}, o.data) {
		return fmt.Errorf("--data is random, zero or iozone, not %q", o.data)
	}
	if o.compat && (c.Flags().Changed("samples") || o.spread) {
		return errors.New("--compat takes one sample, as iozone does: leave --samples and --spread out, or --compat")
	}
	if o.data == "" {
		o.data = fileio.Random
		if o.compat {
			o.data = "iozone"
		}
	}
	rows, err := o.listRows(c.Flags())
	if err != nil {
		return err
	}
	for _, r := range rows {
		o.rows = append(o.rows, matrix.Config{
			Row: r, Ops: ops, Direct: o.direct, Fsync: o.fsync, Close: o.close, Cold: o.cold, Data: o.data,
			Compat: o.compat, Samples: o.samples,
		})
	}
	return o.check()
}

// usePreset sets the flags of a preset that were not given.
func (o *iozone) usePreset(c *cobra.Command) error {
	if o.preset == "" {
		return nil
	}
	i := slices.IndexFunc(matrix.Presets(), func(p matrix.Preset) bool { return p.Name == o.preset })
	if i < 0 {
		return fmt.Errorf("--preset: there is no preset %s; there are: %s", o.preset, strings.Join(presets(), ", "))
	}
	args := matrix.Presets()[i].Args
	given := map[string]bool{}
	for n := 0; n < len(args); n++ {
		f := c.Flags().ShorthandLookup(strings.TrimPrefix(args[n], "-"))
		value := "true"
		if f.Value.Type() != "bool" {
			n++
			value = args[n]
		}
		if _, seen := given[f.Name]; !seen {
			given[f.Name] = f.Changed
		}
		if given[f.Name] {
			continue
		}
		if err := c.Flags().Set(f.Name, value); err != nil {
			return err
		}
	}
	return nil
}

// listRows lists the rows.
func (o *iozone) listRows(f *pflag.FlagSet) ([]matrix.Row, error) {
	var bounds [4]int64
	for i, b := range []struct{ flag, text string }{{"-n", o.minSize}, {"-g", o.maxSize}, {"-y", o.minRec},
		{"-q", o.maxRec}} {
		n, err := iozoneSize(b.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.flag, err)
		}
		bounds[i] = n
	}
	sizes, err := iozoneSizes("-s", o.sizes)
	if err != nil {
		return nil, err
	}
	recs, err := iozoneSizes("-r", o.recs)
	if err != nil {
		return nil, err
	}
	if !o.auto {
		if len(sizes) == 0 {
			sizes = []int64{512 << 10}
		}
		if len(recs) == 0 {
			recs = []int64{4 << 10}
		}
	}
	// The user's choice of records holds for every file; only the automatic choice leaves the small ones out.
	crossover := !o.all && len(sizes) == 0 && len(recs) == 0 && !f.Changed("max-record") && !f.Changed("min-record")
	rows := matrix.Rows(bounds[0], bounds[1], bounds[2], bounds[3], crossover)
	if len(recs) == 0 {
		for rec := bounds[2]; rec <= bounds[3]; rec *= 2 {
			o.columns = append(o.columns, rec)
		}
	}
	switch {
	case len(sizes) > 0 && len(recs) > 0:
		rows = product(sizes, recs)
	case len(sizes) > 0:
		rows = nil
		for _, s := range sizes {
			rows = append(rows, matrix.Rows(s, s, bounds[2], bounds[3], false)...)
		}
	case len(recs) > 0:
		rows = nil
		for _, r := range recs {
			rows = append(rows, matrix.Rows(bounds[0], bounds[1], r, r, false)...)
		}
		slices.SortStableFunc(rows, func(a, b matrix.Row) int { return int(min(max(a.Size-b.Size, -1), 1)) })
	}
	if len(rows) == 0 {
		return nil, errors.New("nothing to measure: every record size is larger than every file, or a smallest size " +
			"is larger than the largest; see -s, -r, -n, -g, -y and -q")
	}
	return rows, nil
}

// check refuses what cannot be measured before anything is. A row without a figure is refused only when all are so.
func (o *iozone) check() (empty error) {
	meant := false
	for i := range o.rows {
		if err := o.rows[i].Check(); err != nil {
			return err
		}
		err := o.rows[i].Means()
		meant = meant || err == nil
		empty = err
	}
	if meant {
		return nil
	}
	return empty
}

func product(sizes, recs []int64) []matrix.Row {
	var rows []matrix.Row
	for _, s := range sizes {
		for _, r := range recs {
			if r <= s {
				rows = append(rows, matrix.Row{Size: s, Rec: r})
			}
		}
	}
	return rows
}

// iozoneSize reads a size as iozone does: KiB, unless a letter says otherwise.
func iozoneSize(text string) (int64, error) {
	scale, digits := int64(1<<10), text
	if n := len(text); n > 0 {
		switch text[n-1] {
		case 'k', 'K':
			digits = text[:n-1]
		case 'm', 'M':
			scale, digits = 1<<20, text[:n-1]
		case 'g', 'G':
			scale, digits = 1<<30, text[:n-1]
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/2/scale {
		return 0, fmt.Errorf("%q is not a size: give a number of KiB, or one with k, m or g such as 64m", text)
	}
	return n * scale, nil
}

func iozoneSizes(flag string, texts []string) ([]int64, error) {
	var sizes []int64
	for _, t := range strings.Split(strings.Join(texts, ","), ",") {
		if len(texts) == 0 {
			break
		}
		n, err := iozoneSize(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}

// iozone carries out the plan that the flags say and prints its rows as they come.
func (cmd *iozoneCommand) iozone(ctx context.Context, o *iozone) (err error) {
	cmd.holding("temporary files are removed")
	p, err := o.plan(cmd.tables())
	if err != nil {
		return err
	}
	dir, release, err := o.room()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	// Nothing in a row makes garbage that matters; what rows leave is collected between two sizes.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	o.banner(cmd.out, dir)
	fmt.Fprint(cmd.out, matrix.Header)
	var done []matrix.Done
	todo := p.Workloads
	for i := range o.rows {
		r := &o.rows[i]
		if i == 0 || r.Size != o.rows[i-1].Size {
			runtime.GC()
		}
		b := &workload.Bench{Dir: dir, Seed: p.Seed, Work: r.Passes()}
		var failed error
		if r.Means() == nil {
			if failed = cmd.trial(ctx, &todo[0], b); failed != nil && !refused(failed) {
				return fmt.Errorf("measure %s: %w", todo[0].Label, failed)
			}
			todo = todo[1:]
		}
		done = append(done, r.Done(b.Samples, failed))
		if _, err := io.WriteString(cmd.out, done[i].Line(iozoneCell)); err != nil {
			return err
		}
	}
	return o.end(cmd.out, done)
}

// trial does one trial of a workload in this process: an agent, and a worker for each row, would take longer to start
// than many a row.
func (cmd *iozoneCommand) trial(ctx context.Context, w *plan.Workload, b *workload.Bench) error {
	k, _ := cmd.kind(w.Kind)
	t, err := k.New(w.Params)
	if err != nil {
		return err
	}
	return workload.Drive(ctx, t, b)
}

func refused(err error) bool {
	f, ok := errors.AsType[*record.Failure](err)
	return ok && f.Kind == "refused"
}

// plan is the plan of the rows that have a figure.
func (o *iozone) plan(t plan.Tables) (*plan.Plan, error) {
	f := plan.Flags{Environments: []string{"host"}, Seed: 1}
	for i := range o.rows {
		if o.rows[i].Means() == nil {
			f.Workloads = append(f.Workloads, "fs.matrix:"+o.rows[i].Params())
		}
	}
	return plan.FromFlags(nil, f, t)
}

// room makes the private directory.
func (o *iozone) room() (string, func() error, error) {
	base := o.place
	st, err := os.Stat(base)
	if err != nil || !st.IsDir() { // iozone is given a file that need not exist
		base = filepath.Dir(base)
		st, err = os.Stat(base)
	}
	if err == nil && !st.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return "", nil, usagef("-f %s: %v; give a directory that exists, or a file in one", o.place, err)
	}
	var largest int64
	for i := range o.rows {
		largest = max(largest, o.rows[i].Size)
	}
	if err := fileio.CheckFreeSpace(base, largest, 2); err != nil {
		return "", nil, err
	}
	dir, release, err := leftover.New(base, "iozone")
	if err != nil {
		return "", nil, fileio.Explain("make a private directory in", base, err)
	}
	return dir, release, nil
}
