package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/workload/matrix"
	"tare/internal/sys/proc"
	"tare/internal/version"
)

// matrixRow compares every operation of iozone's matrix on a file of 64 MiB with records of one size. tare does them as
// iozone does, with its calls and its data, so that the work is the same; one run of a side is one pass.
func matrixRow(record string) row {
	r := row{
		name: "iozone-" + record, what: "every operation of iozone's matrix, 64 MiB file, records of " +
			strings.ToUpper(record) + "iB", peer: "iozone",
		programs: []string{"iozone"}, open: openMatrix(record),
	}
	why := ""
	if record == "4k" {
		why = "short calls show the loop around them, after which iozone's code and data may have to be fetched again"
	}
	for _, o := range matrix.AllOps() {
		r.figures = append(r.figures, figure{name: o.String(), unit: "KiB/s", goal: 1, agrees: true, why: why})
	}
	return r
}

func openMatrix(record string) func(context.Context, *bench) (*contest, error) {
	return func(ctx context.Context, b *bench) (*contest, error) {
		w, err := b.weigh(ctx, "fs.matrix", map[string]string{"size": "64MiB", "bs": strings.ToUpper(record),
			"compat": "iozone"})
		if err != nil {
			return nil, err
		}
		w.work = 1
		argv := []string{"iozone", "-s", "64m", "-r", record, "-f", filepath.Join(b.dir, "iozone.tmp")}
		return &contest{
			tare: func(ctx context.Context) ([]float64, error) {
				o, err := w.run(ctx)
				if err != nil {
					return nil, err
				}
				var got []float64
				for _, op := range matrix.AllOps() {
					v, ok := o.Result.Metrics[op.String()]
					if !ok {
						return nil, fmt.Errorf("the trial gave no %s", op)
					}
					got = append(got, v)
				}
				return got, nil
			},
			peer: func(ctx context.Context) ([]float64, error) {
				out, err := program(ctx, argv...)
				if err != nil {
					return nil, err
				}
				return parseIozone(out)
			},
			after: w.doubts,
			notes: []string{w.note("pass"), "iozone: `iozone -s 64m -r " + record +
				" -f FILE`, on the same file system; one sample of each operation on both sides"},
			close: w.close,
		}, nil
	}
}

// parseIozone reads the first line of iozone's table: the figures of all thirteen operations in KiB/s.
func parseIozone(out []byte) ([]float64, error) {
	_, rest, ok := strings.Cut(string(out), matrix.Header)
	if !ok {
		return nil, errors.New("read iozone's table: its header is not there")
	}
	line, _, _ := strings.Cut(rest, "\n")
	fields := strings.Fields(line)
	if want := 2 + len(matrix.AllOps()); len(fields) != want {
		return nil, fmt.Errorf("read iozone's table: %d figures in %q, want %d", len(fields), line, want)
	}
	var got []float64
	for _, f := range fields[2:] {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || !(v > 0) {
			return nil, fmt.Errorf("read iozone's table: %q is no throughput", f)
		}
		got = append(got, v)
	}
	return got, nil
}

// openMatrixWhole compares how long the matrix up to 64 MiB takes. tare does it its own way: five samples of each cell,
// incompressible data, verified.
func openMatrixWhole(ctx context.Context, b *bench) (*contest, error) {
	tare := filepath.Join(b.dir, "tare")
	cmd := proc.Command(ctx, "go", "build", "-trimpath", "-ldflags",
		"-s -w -X tare/internal/version.Build="+version.Build, "-o", tare, "tare/cmd/tare")
	if _, err := proc.RunCmd(cmd, nil); err != nil {
		return nil, fmt.Errorf("build tare: %w", err)
	}
	timed := func(argv ...string) side {
		return func(ctx context.Context) ([]float64, error) {
			start := time.Now()
			if _, err := program(ctx, argv...); err != nil {
				return nil, err
			}
			return []float64{time.Since(start).Seconds()}, nil
		}
	}
	return &contest{
		tare: timed(tare, "iozone", "-a", "-g", "64M", "-f", b.dir),
		peer: timed("iozone", "-a", "-g", "64M", "-f", filepath.Join(b.dir, "iozone.tmp")),
		notes: []string{
			"tare: `tare iozone -a -g 64M`: at least 5 samples of each cell, incompressible data, every read verified",
			"iozone: `iozone -a -g 64M`: one sample of each cell",
		},
	}, nil
}
