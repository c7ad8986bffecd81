package fs

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
	"tare/internal/sys/histogram"
	"tare/internal/sys/thread"
	"tare/internal/sys/uring"
	"tare/internal/unit"
)

// When writes are flushed.
const (
	syncNone     = "none"
	syncEnd      = "end"
	syncEach     = "each"
	syncDataEnd  = "datasync-end"
	syncDataEach = "datasync-each"
	syncFullEnd  = "full-end"
	syncFullEach = "full-each"
)

// How operations reach the kernel.
const (
	enginePsync = "psync"
	engineRing  = "io_uring"
	engineMmap  = "mmap"
	engineAuto  = "auto"
)

// profile is the difference between the record workloads.
type profile struct{ random, write, mixed bool }

// rw is one trial of a record workload.
type rw struct {
	settings
	records  int64 // of each file
	data     string
	engine   string
	depth    int
	threads  int
	pages    fileio.Pages
	own      bool // each thread has a file of its own
	cache    string
	wait     time.Duration // attr_wait; 0 means from the mount
	existing string        // an existing file, as named by file=; "" for files that tare makes
	sized    bool          // size= is not at its default; else the given file's size counts
	length   int64         // of the given file in bytes, with the part after its last whole record

	files   []string
	content *fileio.Content
	lanes   []*lane
	team    *thread.Team
	undo    func() // of the room made for the threads; may be nil
}

func newRW(p profile, params workload.Params) (workload.Trial, error) {
	t := &rw{
		settings: settings{profile: p, bs: int(params.Int("bs")), direct: params.Bool("direct"), fsync: params["fsync"],
			create: params.Bool("create"), timed: params.Bool("latency")},
		data: params["data"], engine: params["engine"], depth: int(params.Int("qd")),
		threads: int(params.Int("threads")), own: params["files"] == "own", pages: fileio.Pages(params["pages"]),
		cache: params["cache"], wait: params.Duration("attr_wait"),
		existing: params["file"], sized: params["size"] != defaultSize,
	}
	if p.mixed {
		t.random, t.percent = params["pattern"] == "random", uint64(params.Int("read_percent"))
	}
	t.records = params.Int("size") / int64(t.bs)
	if t.existing != "" {
		if err := t.agreeGiven(params); err != nil {
			return nil, err
		}
		if !t.sized { // only the file knows
			t.records = max(t.records, int64(t.depth*t.threads))
		}
	}
	if t.records == 0 {
		return nil, fmt.Errorf("bs=%s is larger than size=%s: use records that fit into the file", params["bs"],
			params["size"])
	}
	return t, t.agree()
}

// agree checks which parameters exclude each other.
func (t *rw) agree() error {
	each := t.flushesEach()
	perLane := t.records
	if !t.own {
		perLane /= int64(t.threads)
	}
	switch {
	case t.depth > 1 && (t.engine == enginePsync || t.engine == engineMmap):
		return fmt.Errorf("qd=%d: engine=%s keeps only one operation in flight: use engine=io_uring, engine=auto, or "+
			"threads=%d", t.depth, t.engine, t.depth)
	case t.direct && t.engine == engineMmap:
		return errors.New("engine=mmap uses the page cache: use direct=no, or another engine")
	case each && t.depth > 1:
		return fmt.Errorf("fsync=%s makes the writes wait for each other, so qd=%d has no effect: use qd=1, or threads",
			t.fsync, t.depth)
	case t.create && t.threads > 1 && !t.own:
		return errors.New("create=yes truncates the file, so several threads cannot share it: use files=own or " +
			"create=no")
	case perLane < int64(t.depth):
		return fmt.Errorf("%d records for each thread are too few for qd=%d: use a larger size, smaller records or "+
			"fewer threads", perLane, t.depth)
	case (t.cache == cacheWarm || t.cache == cacheAttr) && t.wait < 0:
		return errors.New("attr_wait is negative: set it to the lifetime of attributes, such as 3s")
	}
	return nil
}

// flushesEach tells whether each record is flushed.
func (s *settings) flushesEach() bool {
	return s.fsync == syncEach || s.fsync == syncDataEach || s.fsync == syncFullEach
}

func (t *rw) size() int64 { return t.records * int64(t.bs) }

// Setup prepares or finds the files, opens them, draws the orders, and sets the state of the cache, in that order. It
// is not timed.
func (t *rw) Setup(ctx context.Context, b *workload.Bench) error {
	b.Note("direct", strconv.FormatBool(t.direct))
	if err := t.prepare(ctx, b); err != nil {
		return err
	}
	if err := t.chooseEngine(b); err != nil {
		return err
	}
	if err := t.open(b); err != nil {
		return err
	}
	if t.direct {
		if err := t.probeDirect(b); err != nil {
			return err
		}
	}
	if err := t.reachCache(ctx, b); err != nil {
		return err
	}
	return t.assemble()
}

// prepare makes the files that are read or overwritten, unless an earlier trial of the cell left them or one is given.
func (t *rw) prepare(ctx context.Context, b *workload.Bench) error {
	if t.existing != "" {
		return t.find(b)
	}
	_, on := fileio.Volume(b.Dir)
	b.Note("fs", on)
	t.content = t.pages.NewContent(t.data, t.bs, b.Seed)
	t.gen = uint64(time.Now().UnixNano())
	t.files = []string{filepath.Join(b.Dir, "records")}
	if t.own {
		for i := 1; i < t.threads; i++ {
			t.files = append(t.files, filepath.Join(b.Dir, fmt.Sprintf("records%d", i)))
		}
	}
	if t.create {
		for _, path := range t.files {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fileio.Explain("remove", path, err)
			}
		}
		return fileio.CheckFreeSpace(b.Dir, t.size()*int64(len(t.files)), int64(len(t.files))+1)
	}
	reused := true
	for _, path := range t.files {
		p := fileio.Prepared{Path: path, Content: t.content, Records: t.records,
			Key: fmt.Sprintf("tare records 1 size=%d bs=%d data=%s seed=%d\n", t.size(), t.bs, t.data, b.Seed)}
		old, err := p.Ensure(ctx)
		if err != nil {
			return err
		}
		reused = reused && old
	}
	b.Note("prepared", map[bool]string{true: "reused", false: "new"}[reused])
	if t.cache == cacheCold && !reused && !b.Warmup {
		return &record.Failure{Kind: "cache-state",
			Message: fmt.Sprintf("reach cache=cold: the file below %s had to be recreated in this trial, so it is in "+
				"the host's cache", b.Dir)}
	}
	return nil
}

// chooseEngine resolves engine=auto: io_uring for more than one operation at a time if it is available, else as many
// threads.
func (t *rw) chooseEngine(b *workload.Bench) error {
	auto := t.engine == engineAuto
	if auto {
		t.engine = enginePsync
		if t.depth > 1 {
			t.engine = engineRing
		}
	}
	if t.engine == engineRing && auto {
		probe, err := uring.New(0, 1, 512)
		if err == nil {
			err = probe.Close()
		}
		if errors.Is(err, uring.ErrUnavailable) {
			b.Warn("no-io-uring", fmt.Sprintf("%v; %d threads with blocking I/O replace it", err,
				t.depth*t.threads), "allow io_uring in this environment, or measure all environments with "+
				"engine=psync and threads")
			t.engine = enginePsync
		} else if err != nil {
			return err
		}
	}
	if t.engine != enginePsync || auto || t.threads > 1 {
		b.Note("engine", t.engine)
		b.Note("qd", strconv.Itoa(t.depth))
		b.Note("threads", strconv.Itoa(t.threads))
	}
	return nil
}

// open makes the lanes.
func (t *rw) open(b *workload.Bench) error {
	split, depth := 1, t.depth
	if t.engine == enginePsync { // depth by threads
		split, depth = depth, 1
	}
	n := t.threads * split
	if err := thread.CheckMemory(int64(n) * (int64(depth)*int64(t.bs) + 4<<20)); err != nil {
		return err
	}
	for i := range n {
		l := &lane{settings: &t.settings, path: t.files[i/split%len(t.files)], read: -1, wrote: -1, content: t.content}
		t.lanes = append(t.lanes, l)
		share, of := int64(i), int64(n)
		if t.own {
			share, of = int64(i%split), int64(split)
		}
		l.first = t.records * share / of
		l.records = t.records*(share+1)/of - l.first
		if l.records == 0 {
			return fmt.Errorf("%d records are too few for %d operations at a time: use a larger size or smaller "+
				"records", t.records, of)
		}
		if err := t.equip(l, i, depth, b.Seed); err != nil {
			return err
		}
	}
	t.notePages(b)
	if r := t.lanes[0].ring; r != nil {
		b.Note("io_uring", r.Describe())
	}
	return nil
}

// notePages records the kind of memory of the buffers. A ring has its own buffers, in ordinary pages.
func (t *rw) notePages(b *workload.Bench) {
	switch {
	case t.engine == engineRing:
		b.Note("buffer_pages", string(fileio.OrdinaryPages))
	case t.write && !t.mixed:
		b.Note("buffer_pages", t.content.PagesOf())
	default:
		b.Note("buffer_pages", fileio.PagesOf(t.lanes[0].buf))
	}
}

// equip gives a lane its buffers, order and engine.
func (t *rw) equip(l *lane, i, depth int, seed uint64) (err error) {
	if i > 0 {
		seed += uint64(i) * 0x9e3779b97f4a7c15 // other threads, other orders
		if t.write {
			l.content = t.content.Clone()
		}
	}
	l.order = fileio.NewOrder(l.records, t.random, seed)
	l.mix.state = seed
	l.buf = t.pages.Aligned(t.bs)
	clear(l.buf) // touch every page now
	if t.timed {
		l.reads, l.writes = new(histogram.Histogram), new(histogram.Histogram)
	}
	if l.file, err = fileio.Open(l.path, fileio.Mode{Write: t.write, Create: t.create, Direct: t.direct}); err != nil {
		return err
	}
	switch t.engine {
	case engineRing:
		l.ring, err = newFlight(l, depth)
		if errors.Is(err, uring.ErrUnavailable) {
			return &record.Failure{Kind: "refused", Message: err.Error()}
		}
	case engineMmap:
		if t.create {
			if err := l.file.Truncate(t.size()); err != nil {
				return fileio.Explain("extend", l.path, err)
			}
		}
		if l.memory, err = mapFile(l.file, t.size(), t.write); err != nil {
			l.memory = nil
			return &record.Failure{Kind: "refused",
				Message: fmt.Sprintf("map %s into memory: %v: this file system or platform has no shared mappings; "+
					"use another engine", l.path, err)}
		}
	}
	return err
}

// probeDirect does one direct operation, because some file systems accept O_DIRECT at open and refuse it later. A cold
// trial finds out by its first operation, because a probe would warm the host's cache.
func (t *rw) probeDirect(b *workload.Bench) error {
	l := t.lanes[0]
	if n := fileio.DirectAlignment(l.path); n > 0 {
		b.Note("direct_alignment", strconv.FormatInt(n, 10))
	}
	if v, on := fileio.Volume(l.path); v.FS == "tmpfs" || v.FS == "ramfs" {
		b.Warn("direct-in-memory",
			fmt.Sprintf("%s accepts direct I/O but keeps its files in memory: this does not measure a device", on),
			"use a work directory on a disk, or direct=no")
	}
	if t.cache == cacheCold {
		return nil
	}
	var err error
	if t.create {
		_, err = l.file.WriteAt(t.content.Record(0, t.gen), 0)
	} else {
		_, err = l.file.ReadAt(l.buf, 0)
	}
	if err != nil && fileio.IsRefusal(err) {
		return fileio.Refused(l.path, t.bs, err)
	}
	if err != nil {
		return fileio.Explain("try direct I/O on", l.path, err)
	}
	if t.create {
		return l.file.Truncate(0)
	}
	return nil
}

// assemble makes the threads. They are not bound to processors: they mostly wait, and the kernel knows best where to
// wake them. A call that blocks keeps its P from Go's scheduler (see fileio.Handle), so each thread needs its own.
func (t *rw) assemble() error {
	n := len(t.lanes)
	epoch := clock.Now()
	for _, l := range t.lanes {
		l.epoch = epoch
	}
	if n == 1 {
		return nil
	}
	t.undo = thread.Room(n)
	var err error
	t.team, err = thread.Start(n, false)
	return err
}

// Measure does b.Work operations. It is timed.
func (t *rw) Measure(ctx context.Context, b *workload.Bench) error {
	if len(t.lanes) == 1 {
		return t.lanes[0].run(ctx, b.Work)
	}
	n := int64(len(t.lanes))
	errs := make([]error, n)
	t.team.Do(func(i int) {
		work := b.Work*int64(i+1)/n - b.Work*int64(i)/n
		if errs[i] = t.lanes[i].run(ctx, work); errs[i] != nil {
			t.stop.Store(true)
		}
	})
	for i, err := range errs { // the error that stopped the others comes first
		if err != nil && !errors.Is(err, errStopped) {
			return fmt.Errorf("thread %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// Cleanup ends the lanes and removes this trial's own files; prepared ones are kept for the next trial.
func (t *rw) Cleanup(*workload.Bench) error {
	var err error
	if t.team != nil {
		t.team.Do(func(i int) { t.lanes[i].release() })
		t.team.Close()
		t.team = nil
	}
	if t.undo != nil {
		t.undo()
		t.undo = nil
	}
	if len(t.lanes) == 1 {
		t.lanes[0].release()
	}
	for _, l := range t.lanes {
		err = errors.Join(err, l.close())
	}
	if t.create {
		for _, path := range t.files {
			if rm := os.Remove(path); rm != nil && !errors.Is(rm, os.ErrNotExist) {
				err = errors.Join(err, fileio.Explain("remove", path, rm))
			}
		}
	}
	return err
}

// workLimit bounds the work of a cold trial to one pass: after that the file is no longer cold.
func workLimit(p workload.Params) int64 {
	if p["cache"] != cacheCold && p["cache"] != cacheGuestCold {
		return 0
	}
	return space(p) / p.Int("bs")
}

// room is the space that a trial needs, in bytes.
func room(p workload.Params) int64 {
	if p["file"] != "" {
		return 0
	}
	return space(p) + 1<<20
}

// space is the size of all files in bytes. The size of a given file is known only in the environment.
func space(p workload.Params) int64 {
	n := p.Int("size") / p.Int("bs") * p.Int("bs")
	if p["files"] == "own" {
		n *= p.Int("threads")
	}
	return n
}

func sizeText(n int64) string { return unit.FormatSize(n) }
