package fs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"tare/internal/record"
	"tare/internal/unit"
	"tare/internal/workload"
	"tare/internal/workload/file"
)

// When writes are flushed.
const (
	syncNone     = "none"
	syncEnd      = "end"
	syncEach     = "each"
	syncDataEnd  = "datasync-end"
	syncDataEach = "datasync-each"
)

// profile is what tells the four record workloads apart.
type profile struct{ random, write bool }

// rw is one trial of a record workload.
type rw struct {
	profile
	bs      int
	records int64
	direct  bool
	data    string
	fsync   string
	create  bool // each trial writes a new file
	warm    bool

	path    string
	file    *file.Handle
	content *file.Content
	order   file.Order
	buf     []byte // what reads go to
	gen     uint64 // generation of this trial's first pass of writes
	last    int64  // the record touched last
	done    int64  // operations done by Measure
	pass    uint64 // passes over the file completed by Measure
	inPass  int64  // operations done of the pass at work
}

func newRW(p profile, params workload.Params) (workload.Trial, error) {
	t := &rw{profile: p, bs: int(params.Int("bs")), direct: params.Bool("direct"), data: params["data"]}
	t.records = params.Int("size") / int64(t.bs)
	if t.records == 0 {
		return nil, fmt.Errorf("bs=%s is larger than size=%s: give records that fit into the file", params["bs"], params["size"])
	}
	t.fsync = params["fsync"]
	t.create = params["create"] == "true"
	t.warm = params["cache"] == "warm" && !t.direct
	return t, nil
}

func (t *rw) size() int64 { return t.records * int64(t.bs) }

// Setup prepares or finds the file, opens it and draws the order. It is not timed.
func (t *rw) Setup(ctx context.Context, b *workload.Bench) error {
	t.content = file.NewContent(t.data, t.bs, b.Seed)
	t.order = file.NewOrder(t.records, t.random, b.Seed)
	t.buf = file.Aligned(t.bs)
	clear(t.buf) // touch every page now
	t.gen = uint64(time.Now().UnixNano())
	t.path = filepath.Join(b.Dir, "records")
	_, on := file.Volume(b.Dir)
	b.Note("fs", on)
	if err := t.prepare(ctx, b); err != nil {
		return err
	}
	var err error
	if t.file, err = file.Open(t.path, file.Mode{Write: t.write, Create: t.create, Direct: t.direct}); err != nil {
		return err
	}
	b.Note("direct", strconv.FormatBool(t.direct))
	if t.direct {
		return t.probeDirect(b)
	}
	if t.write {
		return nil
	}
	if t.warm {
		if err := t.warmUp(ctx); err != nil {
			return err
		}
	}
	t.noteResidency(b)
	return nil
}

// prepare makes the file that is read or overwritten, unless an earlier trial of the cell left it.
func (t *rw) prepare(ctx context.Context, b *workload.Bench) error {
	if t.create {
		if err := os.Remove(t.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return file.Explain("remove", t.path, err)
		}
		return file.CheckRoom(b.Dir, t.size(), 2)
	}
	p := file.Prepared{Path: t.path, Content: t.content, Records: t.records, Key: fmt.Sprintf("tare records 1 size=%d bs=%d data=%s seed=%d\n", t.size(), t.bs, t.data, b.Seed)}
	reused, err := p.Ensure(ctx)
	b.Note("prepared", map[bool]string{true: "reused", false: "new"}[reused])
	return err
}

// probeDirect does one direct operation, because some file systems accept O_DIRECT at open and refuse it later.
func (t *rw) probeDirect(b *workload.Bench) error {
	if n := file.DirectAlignment(t.path); n > 0 {
		b.Note("direct_alignment", strconv.FormatInt(n, 10))
	}
	var err error
	if t.create {
		_, err = t.file.WriteAt(t.content.Record(0, t.gen), 0)
	} else {
		_, err = t.file.ReadAt(t.buf, 0)
	}
	if err != nil && file.IsRefusal(err) {
		return file.Refused(t.path, t.bs, err)
	}
	if err != nil {
		return file.Explain("try direct I/O on", t.path, err)
	}
	if v, on := file.Volume(t.path); v.FS == "tmpfs" || v.FS == "ramfs" {
		b.Warn("direct-in-memory", fmt.Sprintf("%s accepts direct I/O but keeps its files in memory: no device is measured", on),
			"give the environment a work directory on a disk, or use direct=no")
	}
	if t.create {
		return t.file.Truncate(0)
	}
	return nil
}

// warmUp reads the file once.
func (t *rw) warmUp(ctx context.Context) error {
	p := t.buf
	if len(p) < 1<<20 {
		p = file.Aligned(1 << 20)
	}
	for off := int64(0); off < t.size(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := t.file.ReadAt(p, off)
		if err != nil {
			return file.Explain("read", t.path, err)
		}
		if n == 0 {
			return fmt.Errorf("read %s: it ends after %d bytes and should have %d", t.path, off, t.size())
		}
		off += int64(n)
	}
	return nil
}

// noteResidency records how much of the file is in the page cache before the timed reads, and doubts reads that are to be
// warm and are not.
func (t *rw) noteResidency(b *workload.Bench) {
	share, err := file.Resident(t.path)
	if err != nil {
		b.Note("resident_before", "unknown")
		return
	}
	b.Note("resident_before", fmt.Sprintf("%.1f%%", 100*share))
	if t.warm && share < 0.99 {
		b.Warn("not-resident", fmt.Sprintf("only %.1f %% of the file's %s is in the page cache after it was read: the reads are not all warm", 100*share, unit.FormatSize(t.size())),
			"use a size that fits the memory of the environment, or cache=as-is if this is what you want to weigh")
	}
}

// chunk is how many operations pass between two looks at the context.
const chunk = 1024

// Measure does b.Work operations. It is timed.
func (t *rw) Measure(ctx context.Context, b *workload.Bench) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer file.Quiet()()
	for t.done < b.Work {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, b.Work-t.done)
		var err error
		if t.write {
			err = t.writeSome(n)
		} else {
			err = t.readSome(n)
		}
		if err != nil {
			return err
		}
	}
	if t.write && t.inPass != 0 {
		return t.flush()
	}
	return nil
}

func (t *rw) readSome(n int64) error {
	f, buf, bs := t.file, t.buf, int64(t.bs)
	for range n {
		t.last = t.order.Next()
		if got, err := f.ReadAt(buf, t.last*bs); got != len(buf) || err != nil {
			return t.failed("read", got, err)
		}
	}
	t.done += n
	return nil
}

func (t *rw) writeSome(n int64) error {
	bs := int64(t.bs)
	each := t.fsync == syncEach || t.fsync == syncDataEach
	for range n {
		if t.create && t.inPass == 0 && t.pass > 0 {
			if err := t.file.Truncate(0); err != nil {
				return file.Explain("truncate", t.path, err)
			}
		}
		t.last = t.order.Next()
		p := t.content.Record(t.last, t.gen+t.pass)
		if got, err := t.file.WriteAt(p, t.last*bs); got != len(p) || err != nil {
			return t.failed("write", got, err)
		}
		if each {
			if err := t.flushAs(t.fsync); err != nil {
				return err
			}
		}
		if t.inPass++; t.inPass == t.records {
			t.pass, t.inPass = t.pass+1, 0
			if err := t.flush(); err != nil {
				return err
			}
		}
	}
	t.done += n
	return nil
}

// flush is what ends a pass.
func (t *rw) flush() error {
	if t.fsync == syncEnd || t.fsync == syncDataEnd {
		return t.flushAs(t.fsync)
	}
	return nil
}

func (t *rw) flushAs(how string) error {
	var err error
	if how == syncDataEach || how == syncDataEnd {
		err = t.file.Datasync()
	} else {
		err = t.file.Sync()
	}
	if err != nil {
		return file.Explain("flush", t.path, err)
	}
	return nil
}

// failed explains an operation on record t.last that gave an error or moved fewer bytes than asked for.
func (t *rw) failed(op string, got int, err error) error {
	off := t.last * int64(t.bs)
	if err == nil {
		return fmt.Errorf("%s record %d of %s at offset %d: %d of %d bytes", op, t.last, t.path, off, got, t.bs)
	}
	if t.direct && file.IsRefusal(err) {
		return file.Refused(t.path, t.bs, err)
	}
	return file.Explain(fmt.Sprintf("%s record %d at offset %d of", op, t.last, off), t.path, err)
}

// Report verifies what was read or written and turns the time into rates.
func (t *rw) Report(b *workload.Bench) error {
	if err := t.verify(b); err != nil {
		return &record.Failure{Kind: "measure", Message: fmt.Sprintf("verify %s: %v; the storage did not give back what was written to it", t.path, err)}
	}
	b.Check("record_bytes", strconv.Itoa(t.bs))
	if t.direct {
		if share, err := file.Resident(t.path); err == nil {
			b.Note("resident_after", fmt.Sprintf("%.1f%%", 100*share))
			if share > 0.05 {
				b.Warn("direct-was-cached", fmt.Sprintf("direct I/O was accepted, yet %.0f %% of the file is in the page cache: the file system serves it buffered", 100*share),
					"use a work directory on a file system with real direct I/O (ext4, xfs), or direct=no")
			}
		}
	}
	b.Report("ops_per_second", b.Rate(1))
	b.Report("mib_per_second", b.Rate(float64(t.bs)/(1<<20)))
	return nil
}

// verify reads a sample of records again, untimed, and compares them with what they must be. Records that this trial
// wrote must carry its generation: an older one means that a write was lost.
func (t *rw) verify(b *workload.Bench) error {
	if !t.write && t.done > 0 {
		if err := t.content.Verify(t.buf, t.last); err != nil {
			return fmt.Errorf("the last timed read: %w", err)
		}
	}
	sample := t.sample(b.Seed)
	for _, r := range sample {
		n, err := t.file.ReadAt(t.buf, r*int64(t.bs))
		if err != nil {
			return err
		}
		if n != t.bs {
			return fmt.Errorf("record %d has %d of %d bytes", r, n, t.bs)
		}
		if g := t.content.Generation(t.buf); t.write && t.done >= t.records && t.content.Stamped() && g < t.gen {
			return fmt.Errorf("record %d still holds generation %d, from before this trial (%d): the write was lost", r, g, t.gen)
		}
		if err := t.content.Verify(t.buf, r); err != nil {
			return err
		}
	}
	if t.write && t.data == file.Random {
		if err := t.verifyLast(); err != nil {
			return err
		}
	}
	if t.create { // how far the file reaches depends on the work, so only its beginning is comparable
		sample = sample[:1]
	} else {
		b.Check("file_bytes", strconv.FormatInt(t.size(), 10))
	}
	b.Check("data", t.content.Digest(sample))
	return nil
}

func (t *rw) verifyLast() error {
	n, err := t.file.ReadAt(t.buf, t.last*int64(t.bs))
	if err != nil {
		return err
	}
	if n != t.bs {
		return fmt.Errorf("record %d has %d of %d bytes", t.last, n, t.bs)
	}
	want := t.gen + uint64((t.done-1)/t.records)
	if got := t.content.Generation(t.buf); got != want {
		return fmt.Errorf("record %d was written in generation %d and still holds generation %d: the write was lost", t.last, want, got)
	}
	return t.content.Verify(t.buf, t.last)
}

// sample chooses the records that are verified: the first, the last and up to 14 between, of those that exist.
func (t *rw) sample(seed uint64) []int64 {
	n := t.records
	if t.create {
		n = min(n, (t.done-1)%t.records+1)
	}
	s := []int64{0}
	g := rand.New(rand.NewPCG(seed, uint64(n)))
	for range min(14, n-2) {
		s = append(s, g.Int64N(n))
	}
	if n > 1 {
		s = append(s, n-1)
	}
	return s
}

// Cleanup closes the file and removes it when it was this trial's own; a prepared one stays for the next trial.
func (t *rw) Cleanup(b *workload.Bench) error {
	var err error
	if t.file != nil {
		err = t.file.Close()
		t.file = nil
	}
	if t.create && t.path != "" {
		if rm := os.Remove(t.path); rm != nil && !errors.Is(rm, os.ErrNotExist) {
			err = errors.Join(err, file.Explain("remove", t.path, rm))
		}
	}
	return err
}
