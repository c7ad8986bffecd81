package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// ringDepth is the queue depth of the row.
const ringDepth = 32

// uringRow compares random reads that keep a queue full with fio's.
func uringRow() row {
	return row{
		name: "fio-uring", what: "4 KiB random reads of a 64 MiB file, O_DIRECT, queue depth 32, 1 thread", peer: "fio io_uring",
		programs: []string{"fio"}, open: openUring,
		figures: []figure{{unit: "ops/s", goal: 0.97}},
	}
}

// openUring lets both read the same file, each record once a pass. fio registers its buffers and its file as tare does;
// without these options it would pay for both with each read.
func openUring(ctx context.Context, b *bench) (_ *contest, err error) {
	params := map[string]string{"size": "64MiB", "bs": "4KiB", "direct": "yes", "engine": "io_uring", "qd": fmt.Sprint(ringDepth)}
	w, err := b.weigh(ctx, "fs.randread", params)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	w.work = roundUp(w.work, fioPass)
	files, err := filepath.Glob(filepath.Join(b.dir, "host-*", "*", "*", "records"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("there are %d of them", len(files))
	}
	if err != nil {
		return nil, fmt.Errorf("find the file that tare prepared: %w", err)
	}
	argv := []string{"fio", "--name=bench", "--filename=" + files[0], "--size=64M", "--bs=4k", "--rw=randread", "--direct=1",
		"--ioengine=io_uring", fmt.Sprintf("--iodepth=%d", ringDepth), "--fixedbufs", "--registerfiles",
		fmt.Sprintf("--randseed=%d", b.seed), fmt.Sprintf("--loops=%d", w.work/fioPass), "--output-format=json"}
	return &contest{
		tare:  w.metric("ops_per_second"),
		peer:  fioPeer(argv, w.work, true),
		after: w.doubts,
		notes: []string{w.note("reads"), "fio: `" + strings.ReplaceAll(strings.Join(argv, " "), files[0], "FILE") + "`, where FILE is the one that tare reads"},
		close: w.close,
	}, nil
}
