package matrix

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// trial is one trial of fs.matrix.
type trial struct {
	config Config
	row    *row
	thread fileio.Thread
}

// Setup makes the payload and, when no operation writes the file first, the file. It is not timed.
func (t *trial) Setup(ctx context.Context, b *workload.Bench) error {
	t.config.Seed = b.Seed
	_, on := fileio.Volume(b.Dir)
	b.Note("fs", on)
	b.Note("direct", strconv.FormatBool(t.config.Direct))
	var err error
	if t.row, err = newRow(t.config, b.Dir); err != nil {
		return err
	}
	b.Note("buffer_pages", fileio.PagesOf(t.row.data.in))
	if err := t.row.close(); err != nil { // left by a killed trial
		return err
	}
	if t.config.Compat {
		return nil
	}
	return t.row.prepare(ctx)
}

// Measure does b.Work passes. It is timed; the figures are of the operations' own times within it.
func (t *trial) Measure(ctx context.Context, b *workload.Bench) error {
	return t.thread.Run(func(private bool) error {
		b.Note("file_table", map[bool]string{true: "private", false: "shared"}[private])
		for range b.Work {
			if err := t.pass(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *trial) pass(ctx context.Context) error {
	if t.config.Compat {
		return t.row.compat(ctx)
	}
	for _, o := range t.config.meaningful() {
		if err := t.row.operate(ctx, o); err != nil {
			return err
		}
		// A row that lacks one of its operations has no total to compare.
		if c := &t.row.cells[o]; c.Mark == Refused || c.Mark == NotCold {
			return &record.Failure{Kind: "refused", Message: c.Why + remedies[c.Mark]}
		}
	}
	return nil
}

var remedies = map[Mark]string{NotCold: "; use cache=warm, or a work directory on a disk"}

// Report verifies the file and turns the times into figures.
func (t *trial) Report(b *workload.Bench) error {
	if t.config.Direct { // before verify reads the file into the cache
		if share, err := fileio.Resident(t.row.path); err == nil && share > 0.05 {
			b.Warn("direct-was-cached", fmt.Sprintf("direct I/O was accepted, but %.0f %% of the file is in the page "+
				"cache: the file system buffers it", 100*share),
				"use a work directory on a file system with real direct I/O (ext4, xfs), or direct=no")
		}
	}
	if err := t.row.verify(context.Background()); err != nil {
		return err
	}
	var sum time.Duration
	var names, left []string
	for _, o := range t.config.Ops {
		c := &t.row.cells[o]
		names = append(names, o.String())
		sum += c.Time
		t.row.judge(c)
		if c.Mark != "" {
			left = append(left, fmt.Sprintf("%s (%s)", o, c.Why))
			continue
		}
		// b.Work, not the passes done: some of these may be injected.
		b.Report(o.String(), float64(t.config.bytes())/1024*float64(b.Work)/c.Time.Seconds())
		b.Sample(o.String(), c.Samples)
	}
	b.Report(rowSeconds, sum.Seconds()/float64(b.Work))
	if len(left) > 0 {
		b.Warn("degenerate-cell", "no figure for "+strings.Join(left, ", "),
			"use a larger file or smaller records, or leave the operation out of ops")
	}
	if v, on := fileio.Volume(b.Dir); t.config.Direct && (v.FS == "tmpfs" || v.FS == "ramfs") {
		b.Warn("direct-in-memory",
			fmt.Sprintf("%s accepts direct I/O but keeps its files in memory: this does not measure a device", on),
			"use a work directory on a disk, or direct=no")
	}
	b.Check("record_bytes", strconv.FormatInt(t.config.Rec, 10))
	b.Check("file_bytes", strconv.FormatInt(t.config.bytes(), 10))
	b.Check("ops", strings.Join(names, " "))
	b.Check("data", t.row.data.digest())
	return nil
}

// Cleanup removes the file.
func (t *trial) Cleanup(*workload.Bench) error {
	if t.row == nil {
		return nil
	}
	return t.row.close()
}
