package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// ringDepth is the queue depth of the row.
const ringDepth = 32

// uringRow compares random reads that keep a queue full with fio's.
func uringRow() row {
	return row{
		name: "fio-uring", what: "4 KiB random reads of a 64 MiB file, O_DIRECT, queue depth 32, 1 thread",
		peer:     "fio io_uring",
		programs: []string{"fio"}, open: openUring,
		figures: []figure{{unit: "ops/s", goal: 0.97}},
	}
}

// openUring lets both read the same file, each record once a pass. fio registers its buffers and its file as tare does;
// without these options it would pay for both with each read.
var openUring = openRandread(map[string]string{"direct": "yes", "engine": "io_uring", "qd": strconv.Itoa(ringDepth)},
	func(_ context.Context, b *bench, w *weighing, file string) (*contest, error) {
		argv := []string{"fio", "--name=bench", "--filename=" + file, "--size=64M", "--bs=4k", "--rw=randread",
			"--direct=1",
			"--ioengine=io_uring", fmt.Sprintf("--iodepth=%d", ringDepth), "--fixedbufs", "--registerfiles",
			fmt.Sprintf("--randseed=%d", b.seed), fmt.Sprintf("--loops=%d", w.work/fioPass), "--output-format=json"}
		return &contest{
			tare: w.metric("ops_per_second"),
			peer: fioPeer(argv, w.work, true),
			notes: []string{w.note("reads"), "fio: `" + strings.ReplaceAll(strings.Join(argv, " "), file, "FILE") +
				"`, where FILE is the one that tare reads"},
		}, nil
	})
