package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/unit"
)

// grid is the name that stands for all rows of the grid.
const grid = "grid"

const (
	gridMiB   = 256
	gridDepth = 8
	// gridLength bounds the runs of the grid's rows: there are 48 of them.
	gridLength = 250 * time.Millisecond
)

// gridCell is one way to read or write a file.
type gridCell struct {
	record        string // "4k", "64k", "1m"
	random, write bool
	direct, ring  bool
}

// gridCells are all ways that are compared, in the order of the table.
func gridCells() (cells []gridCell) {
	for _, ring := range []bool{false, true} {
		for _, direct := range []bool{true, false} {
			for _, write := range []bool{false, true} {
				for _, random := range []bool{false, true} {
					for _, record := range []string{"4k", "64k", "1m"} {
						cells = append(cells, gridCell{record, random, write, direct, ring})
					}
				}
			}
		}
	}
	return cells
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func (c gridCell) engine() string { return pick(c.ring, "io_uring", "psync") }

func (c gridCell) row() row {
	r := row{
		name: strings.Join([]string{grid, c.engine(), pick(c.direct, "direct", "buffered"),
			pick(c.random, "rand", "seq") + pick(c.write, "write", "read"), c.record}, "-"),
		what: fmt.Sprintf("%s %s of %s in a file of %d MiB, %s, %s", pick(c.random, "random", "sequential"),
			pick(c.write, "overwrites", "reads"), unit.FormatSize(c.bytes()), gridMiB,
			pick(c.direct, "O_DIRECT", "buffered, the file in the cache"),
			pick(c.ring, fmt.Sprintf("io_uring with a queue depth of %d", gridDepth), "one system call at a time")),
		peer: "fio " + c.engine(), programs: []string{"fio"}, open: c.open,
		// fio's rate contains its own bookkeeping. Where one call follows the other it is the time that fio sees a
		// call take that must agree; with a queue there is no such time.
		figures: []figure{{name: "time of a call", unit: "s", agrees: true, why: c.why()}},
	}
	if c.ring {
		r.figures[0] = figure{unit: "ops/s", agrees: true, why: c.why()}
	}
	return r
}

// whyShort is why fio sees a short call take longer.
const whyShort = "a short call takes longer amid fio's bookkeeping, and fio's figure holds a part of that: " +
	"see the rows pread-loop and pread-in-fio"

// why tells what is known to keep the medians apart.
func (c gridCell) why() string {
	switch {
	case !c.direct && c.record == "4k" && !c.ring:
		return whyShort
	case !c.direct && c.ring && c.write:
		return "the kernel's own threads do a ring's buffered writes; fio hands them over one by one " +
			"(iodepth_batch=1), tare as many at once as are free"
	case !c.direct && c.ring && c.record == "4k":
		return "the rate contains fio's own bookkeeping for each operation, which is a large part of one that " +
			"stays in memory"
	}
	return ""
}

// params are the same in tare's words.
func (c gridCell) params() (kind string, params map[string]string) {
	kind = "fs." + pick(c.random, "rand", "seq") + pick(c.write, "write", "read")
	params = map[string]string{
		"size": fmt.Sprintf("%dMiB", gridMiB), "bs": strings.ToUpper(c.record) + "iB",
		"direct": pick(c.direct, "yes", "no"),
	}
	if c.ring {
		params["engine"], params["qd"] = "io_uring", strconv.Itoa(gridDepth)
	}
	if c.write && !c.random {
		params["create"] = "no"
	}
	return kind, params
}

// argv are the same in fio's words, for so many operations.
func (c gridCell) argv(b *bench, file string, work int64) []string {
	argv := []string{"fio", "--name=bench", "--filename=" + file, fmt.Sprintf("--size=%dM", gridMiB),
		"--bs=" + c.record,
		"--rw=" + pick(c.random, "rand", "") + pick(c.write, "write", "read"), "--ioengine=" + c.engine(),
		"--direct=" + pick(c.direct, "1", "0"),
		"--invalidate=0", fmt.Sprintf("--randseed=%d", b.seed),
		fmt.Sprintf("--io_size=%d", work*c.bytes()), "--output-format=json"}
	if c.write {
		argv = append(argv, "--overwrite=1", "--fallocate=none")
	}
	if !c.direct {
		// fio's buffers would begin 16 bytes behind a page, as malloc gives them, and processors copy to there at half
		// the speed. With O_DIRECT it aligns them itself.
		argv = append(argv, "--iomem_align=4096")
	}
	if c.ring { // registered, as tare has them
		argv = append(argv, fmt.Sprintf("--iodepth=%d", gridDepth), "--fixedbufs", "--registerfiles")
	}
	return argv
}

// bytes is the size of a record.
func (c gridCell) bytes() int64 {
	return map[string]int64{"4k": 4 << 10, "64k": 64 << 10, "1m": 1 << 20}[c.record]
}

// open has both read the same file. To write, each has one of its own: tare looks afterwards whether its file holds
// what it wrote.
func (c gridCell) open(ctx context.Context, b *bench) (_ *contest, err error) {
	if _, err := b.agents(ctx); err != nil {
		return nil, err
	}
	short := *b
	short.length = min(b.length, gridLength)
	kind, params := c.params()
	w, err := short.weigh(ctx, kind, params)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	own, err := w.file(b)
	if err != nil {
		return nil, err
	}
	peers, end := own, w.close
	if c.write {
		peers = filepath.Join(b.dir, "grid.fio")
		if err := writeFile(peers, b.seed); err != nil {
			return nil, err
		}
		end = func() error { return errors.Join(w.close(), os.Remove(peers)) }
	}
	argv := c.argv(b, peers, w.work)
	return &contest{
		tare: c.settled(own, c.tare(w)),
		peer: c.settled(peers, c.fio(argv, w.work)),
		notes: []string{w.note("operations"), "fio: `" + strings.ReplaceAll(strings.Join(argv, " "), peers, "FILE") +
			"`" +
			pick(c.write, "", ", where FILE is the one that tare reads")},
		after: w.doubts, close: end,
	}, nil
}

// settled has what was written before brought to the disk, so that no side pays for the other's dirty pages.
func (c gridCell) settled(file string, s side) side {
	if !c.write {
		return s
	}
	return func(ctx context.Context) ([]float64, error) {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return nil, err
		}
		return s(ctx)
	}
}

func (c gridCell) tare(w *weighing) side {
	if c.ring {
		return w.metric("ops_per_second")
	}
	return w.period
}

func (c gridCell) fio(argv []string, work int64) side {
	return func(ctx context.Context) ([]float64, error) {
		out, err := program(ctx, argv...)
		if err != nil {
			return nil, err
		}
		r, err := parseFioJob(out, c.write)
		if err != nil {
			return nil, err
		}
		if r.TotalIOs != work {
			return nil, fmt.Errorf("fio did %d operations where %d were asked for: the work is not the same",
				r.TotalIOs, work)
		}
		if c.ring {
			return []float64{r.IOPS}, nil
		}
		return []float64{r.Latency.Mean / 1e9}, nil
	}
}

// writeFile makes the file that fio overwrites, of data that do not compress, as tare makes its own: nothing of it
// stays in the page cache. Pages that are written in large pieces lie in large folios there, and 4 KiB written into
// one of these cost six times as much as into a page of its own.
func writeFile(path string, seed uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for i := range gridMiB {
		fileio.FillRandom(buf, seed+uint64(i))
		if _, err := f.Write(buf); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	h, err := fileio.Open(path, fileio.Mode{})
	if err != nil {
		return err
	}
	return errors.Join(h.DropCache(), h.Close())
}

func gridRows() (list []row) {
	for _, c := range gridCells() {
		list = append(list, c.row())
	}
	return list
}
