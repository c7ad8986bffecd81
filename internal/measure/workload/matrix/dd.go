package matrix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/clock"
	"tare/internal/unit"
)

func ddKind() workload.Kind {
	return workload.Kind{
		Name: "fs.dd", Family: workload.FamilyFiles, WorkUnit: "round",
		Is: workload.Traits{Files: true, Columns: map[string]workload.Moves{"write": {}, "read": {Read: true}}},
		Doc: "Writes a file and reads it back as two calls of dd do: dd if=/dev/zero of=F bs=BS " +
			"count=SIZE/BS, a flush, a pause, dd if=F of=/dev/null bs=BS. The time includes the close, as dd's own " +
			"figure does, but not the flush and the pause.",
		Params: []workload.Param{
			{Name: "size", Type: workload.Size, Default: "160000KiB", Min: 1, Max: maxFile, Doc: "size " +
				"of the file"},
			{Name: "bs", Type: workload.Size, Default: "4KiB", Min: 1, Max: maxRecord,
				Doc: "block size, any number of bytes"},
			{Name: "data", Type: workload.Choice, Default: fileio.Zero, Choices: []string{fileio.Zero, fileio.Random},
				Doc: "zero: from /dev/zero, which compressing and thin storage does not store; " +
					"random: incompressible, from memory"},
			{Name: "sync", Type: workload.Bool, Default: "yes",
				Doc: "flush between writing and reading, untimed"},
			{Name: "pause", Type: workload.Duration, Default: "1s",
				Doc: "pause between writing and reading, untimed"},
			{Name: "pages", Type: workload.Choice, Default: string(fileio.OrdinaryPages), Choices: fileio.PagesChoices,
				Doc: fileio.PagesDoc},
			{Name: "cache", Type: workload.Choice, Default: "warm", Choices: []string{"warm", "cold"},
				Doc: "warm: read from the cache, as people use dd; cold: the file's pages are dropped " +
					"before, verified"},
		},
		Metrics: []unit.Metric{
			{Name: "round_seconds", Unit: "s", Better: unit.Lower, Timed: true, Primary: true,
				Doc: "time of writing and reading, without flush and pause"},
			{Name: "write", Unit: "MB/s", Better: unit.Higher, Timed: true,
				Doc: "bytes written per second, in MB of 1,000,000"},
			{Name: "read", Unit: "MB/s", Better: unit.Higher, Timed: true,
				Doc: "bytes read back per second, in MB of 1,000,000"},
		},
		Needs: workload.Needs{FS: true, CPUBound: true},
		Lasts: func(workload.Params) workload.Lasting { // its flush is not timed
			return workload.Lasting{Flush: workload.FlushLater, Metrics: []string{"round_seconds", "write"}}
		},
		New: func(p workload.Params) (workload.Trial, error) {
			t := &dd{bs: p.Int("bs"), random: p["data"] == fileio.Random, sync: p.Bool("sync"),
				pause: p.Duration("pause"), cold: p["cache"] == "cold", pages: fileio.Pages(p["pages"])}
			if t.blocks = p.Int("size") / t.bs; t.blocks == 0 {
				return nil, fmt.Errorf("fs.dd: bs=%s is larger than size=%s: use blocks that fit into the file",
					p["bs"], p["size"])
			}
			if t.pause < 0 || t.pause > time.Minute {
				return nil, fmt.Errorf("fs.dd: pause=%s: must be from 0s to 1m", p["pause"])
			}
			return t, nil
		},
		Space: func(p workload.Params) int64 { return p.Int("size") + 1<<20 },
	}
}

// The flags with which dd opens its input and its output: O_RDONLY, and O_WRONLY|O_CREAT|O_TRUNC.
var (
	ddReads  = fileio.Mode{Atime: true}
	ddWrites = fileio.Mode{Write: true, Only: true, Create: true}
)

// dd is one trial of fs.dd.
type dd struct {
	bs, blocks int64
	random     bool
	sync, cold bool
	pause      time.Duration
	pages      fileio.Pages

	path          string
	thread        fileio.Thread
	buf, want     []byte
	zero, null    *fileio.Handle // /dev/zero and /dev/null; zero is nil if the data comes from memory
	writing, read time.Duration
}

func (t *dd) bytes() int64 { return t.bs * t.blocks }

// Setup opens the devices. It is not timed.
func (t *dd) Setup(_ context.Context, b *workload.Bench) error {
	_, on := fileio.Volume(b.Dir)
	b.Note("fs", on)
	t.path = filepath.Join(b.Dir, "dd")
	t.buf = t.pages.Aligned(int(t.bs))
	clear(t.buf)
	b.Note("buffer_pages", fileio.PagesOf(t.buf))
	if err := fileio.CheckFreeSpace(b.Dir, t.bytes(), 1); err != nil {
		return err
	}
	if t.random {
		// One block written again and again would be deduplicated, so the blocks are cut from a pool larger than the
		// window of such storage, at a moving offset.
		t.want = t.pages.Aligned(int(t.bs) + pool)
		fileio.FillRandom(t.want, b.Seed)
	} else if err := t.openZero(); err != nil {
		return err
	}
	var err error
	t.null, err = fileio.Open(os.DevNull, ddWrites)
	return err
}

// openZero opens /dev/zero if it exists; else the zeros come from memory.
func (t *dd) openZero() (err error) {
	const name = "/dev/zero"
	if _, missing := os.Stat(name); missing != nil {
		return nil
	}
	t.zero, err = fileio.Open(name, ddReads)
	return err
}

// pool is the length of the random bytes that blocks are cut from, beyond a block.
const pool = 1 << 20

// block returns the content of block i.
func (t *dd) block(i int64) []byte {
	if !t.random {
		return t.buf
	}
	at := i * 4099 % pool // a prime, so that no two neighbours overlap in the same phase
	return t.want[at : at+t.bs]
}

// Measure does b.Work rounds. It is timed; the figures are of the two halves of each round.
func (t *dd) Measure(ctx context.Context, b *workload.Bench) error {
	return t.thread.Run(func(private bool) error {
		b.Note("file_table", map[bool]string{true: "private", false: "shared"}[private])
		for range b.Work {
			if err := t.round(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *dd) round(ctx context.Context) error {
	took, err := t.half(ctx, ddWrites, t.write)
	if err != nil {
		return err
	}
	t.writing += took
	if err := t.between(ctx); err != nil {
		return err
	}
	if took, err = t.half(ctx, ddReads, t.readBack); err != nil {
		return err
	}
	t.read += took
	return nil
}

// half is one call of dd: the clock starts after the open and stops after the close.
func (t *dd) half(ctx context.Context, m fileio.Mode, do func(*fileio.Handle, int64) error) (time.Duration, error) {
	h, err := fileio.Open(t.path, m)
	if err != nil {
		return 0, err
	}
	start := clock.Now()
	for i := int64(0); i < t.blocks && err == nil; i++ {
		if i%chunk == 0 && ctx.Err() != nil {
			err = ctx.Err()
			break
		}
		err = do(h, i)
	}
	if e := h.Close(); e != nil && err == nil {
		err = fileio.Explain("close", t.path, e)
	}
	return clock.Since(start), err
}

func (t *dd) write(h *fileio.Handle, i int64) error {
	p := t.block(i)
	if t.zero != nil {
		if n, err := t.zero.Read(p); err != nil || int64(n) != t.bs {
			return fmt.Errorf("read /dev/zero: %d of %d bytes: %w", n, t.bs, errors.Join(err))
		}
	}
	n, err := h.Write(p)
	if err != nil {
		return fileio.Explain(fmt.Sprintf("write block %d of", i), t.path, err)
	}
	if int64(n) != t.bs {
		return fmt.Errorf("write block %d of %s: %d of %d bytes", i, t.path, n, t.bs)
	}
	return nil
}

func (t *dd) readBack(h *fileio.Handle, i int64) error {
	n, err := h.Read(t.buf)
	if err != nil {
		return fileio.Explain(fmt.Sprintf("read block %d of", i), t.path, err)
	}
	if int64(n) != t.bs {
		return fmt.Errorf("read block %d of %s: %d of %d bytes", i, t.path, n, t.bs)
	}
	if _, err := t.null.Write(t.buf); err != nil {
		return fmt.Errorf("write to %s: %w", os.DevNull, err)
	}
	return nil
}

// between flushes, waits and drops, untimed.
func (t *dd) between(ctx context.Context) error {
	if t.sync || t.cold {
		h, err := fileio.Open(t.path, fileio.Mode{Write: true})
		if err != nil {
			return err
		}
		if err := errors.Join(h.Sync(), h.Close()); err != nil {
			return fileio.Explain("flush", t.path, err)
		}
	}
	select {
	case <-time.After(t.pause):
	case <-ctx.Done():
		return ctx.Err()
	}
	if !t.cold {
		return nil
	}
	share, err := drop(t.path)
	if err == nil && share > residue {
		err = &record.Failure{Kind: "refused",
			Message: fmt.Sprintf("%.0f %% of %s is still in the cache after it was dropped%s", 100*share, t.path,
				remedies[NotCold])}
	}
	return err
}

// Report compares the file with what was written and turns the times into dd's figures.
func (t *dd) Report(b *workload.Bench) error {
	if err := t.verify(); err != nil {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("verify %s: %v; the storage returned other data than was written", t.path, err)}
	}
	work := float64(b.Work)
	b.Report("round_seconds", (t.writing+t.read).Seconds()/work)
	b.Report("write", float64(t.bytes())*work/1e6/t.writing.Seconds())
	b.Report("read", float64(t.bytes())*work/1e6/t.read.Seconds())
	b.Check("file_bytes", strconv.FormatInt(t.bytes(), 10))
	b.Check("block_bytes", strconv.FormatInt(t.bs, 10))
	if t.random {
		b.Check("data", fileio.Digest(t.want))
	}
	return nil
}

func (t *dd) verify() (err error) {
	h, err := fileio.Open(t.path, fileio.Mode{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	in := make([]byte, t.bs)
	if !t.random {
		clear(t.buf)
	}
	for i := range t.blocks {
		n, err := h.Read(in)
		if err != nil || int64(n) != t.bs {
			return errors.Join(err, fmt.Errorf("block %d has only %d of %d bytes", i, n, t.bs))
		}
		if string(in) != string(t.block(i)) {
			return fmt.Errorf("block %d differs from what was written", i)
		}
	}
	return nil
}

// Cleanup closes the devices and removes the file.
func (t *dd) Cleanup(*workload.Bench) error {
	var errs []error
	for _, h := range []*fileio.Handle{t.zero, t.null} {
		if h != nil {
			errs = append(errs, h.Close())
		}
	}
	t.zero, t.null = nil, nil
	if t.path != "" {
		if err := os.Remove(t.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fileio.Explain("remove", t.path, err))
		}
	}
	return errors.Join(errs...)
}
