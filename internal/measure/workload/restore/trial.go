package restore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// format is incremented when backups are generated differently.
const format = 1

// trial is one restore.
type trial struct {
	size      int64
	load      bool
	tools     string
	threads   int
	cold      bool
	pgFolder  string
	source    string // folder of the backup, which outlives the trial
	path      string // folder of this restore
	backup    *backup
	store     *store
	openers   [3]opener // dump and deltas are open at the same time
	root      *os.Root  // of the trees
	lines     [3]*lines
	out       *bufio.Writer
	buf       []byte
	meter     meter
	database  *database
	cleanings []func() error
}

func newTrial(p workload.Params) (workload.Trial, error) {
	if p["postgres"] != "" && p["load"] == loadNone {
		return nil, errors.New("restore: postgres= has no effect with load=none, which starts no server; add " +
			"load=postgresql")
	}
	return &trial{
		size: p.Int("size"), load: p["load"] != loadNone, tools: p["tools"], threads: int(p.Int("threads")),
		cold: p["cache"] == cacheCold, pgFolder: p["postgres"],
	}, nil
}

func (t *trial) merged() string { return filepath.Join(t.path, "merged.sql") }
func (t *trial) trees() string  { return filepath.Join(t.path, "trees") }
func (t *trial) file(role string) string {
	return filepath.Join(t.path, "cache", t.backup.part(role).name())
}
func (t *trial) later(clean func() error) { t.cleanings = append(t.cleanings, clean) }

// Setup makes the backup unless an earlier trial made it, fills the cache as after an earlier restore, and starts the
// server.
func (t *trial) Setup(ctx context.Context, b *workload.Bench) error {
	_, on := fileio.Volume(b.Dir)
	b.Note("fs", on)
	b.Note("tools", t.tools)
	t.path = filepath.Join(b.Dir, "restore")
	if err := removeAll(t.path); err != nil { // left by a trial that was killed
		return err
	}
	if err := t.ensure(ctx, b); err != nil {
		return err
	}
	if err := t.folders(); err != nil {
		return err
	}
	if err := t.getTools(b); err != nil {
		return err
	}
	if err := t.fillCache(ctx, b); err != nil {
		return err
	}
	if t.load {
		if err := t.startServer(ctx, b); err != nil {
			return err
		}
	}
	if t.meter.disk = findDisk(b.Dir); t.meter.disk != nil {
		b.Note("disk", t.meter.disk.name)
		t.later(func() error { t.meter.disk.close(); return nil })
	}
	if err := settle(t.path); err != nil {
		return fileio.Explain("flush", t.path, err)
	}
	if t.cold {
		return t.drop()
	}
	return nil
}

// ensure makes the backup, or finds the one that an earlier trial of this cell made. Its description is written last.
func (t *trial) ensure(ctx context.Context, b *workload.Bench) error {
	t.source = filepath.Join(b.Dir, "backup")
	marker := t.source + ".json"
	key := fmt.Sprintf("restore %d size %d seed %d", format, t.size, b.Seed)
	if text, err := os.ReadFile(marker); err == nil {
		have := &backup{}
		if json.Unmarshal(text, have) == nil && have.Key == key {
			b.Note("prepared", "earlier")
			t.backup = have
			need := space(t.size, t.load) - t.size
			if t.load && exists(filepath.Join(b.Dir, clusterName+".json")) {
				need -= clusterSpace
			}
			return fileio.CheckFreeSpace(b.Dir, need, 1000)
		}
	}
	b.Note("prepared", "now")
	for _, path := range []string{marker, t.source} {
		if err := removeAll(path); err != nil {
			return err
		}
	}
	if err := fileio.CheckFreeSpace(b.Dir, space(t.size, t.load), 1000+t.size/4096); err != nil {
		return err
	}
	if err := os.Mkdir(t.source, 0o700); err != nil {
		return fileio.Explain("create", t.source, err)
	}
	made, err := generate(ctx, t.source, t.size, b.Seed)
	if err != nil {
		return errors.Join(err, removeAll(t.source))
	}
	made.Key = key
	text, err := json.Marshal(made)
	if err == nil {
		err = settle(t.source)
	}
	if err == nil {
		err = os.WriteFile(marker, text, 0o600)
	}
	if err != nil {
		return fileio.Explain("write", marker, err)
	}
	t.backup = made
	return nil
}

func (t *trial) folders() error {
	for _, dir := range []string{t.path, filepath.Join(t.path, "cache"), t.trees()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fileio.Explain("create", dir, err)
		}
	}
	root, err := os.OpenRoot(t.trees())
	if err != nil {
		return fileio.Explain("open", t.trees(), err)
	}
	t.root = root
	t.later(root.Close)
	return nil
}

// getTools allocates the memory of the stages.
func (t *trial) getTools(b *workload.Bench) error {
	threads := t.threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if t.tools == environment {
		path, err := findProgram("bzip2", "bzip2")
		if err != nil {
			return err
		}
		t.openers = [3]opener{&program{path}, &program{path}, &program{path}}
		b.Note("threads", "1")
	} else {
		// The deltas are short: one block of each is decoded at a time, beside those of the dump.
		t.openers = [3]opener{newOwnTool(threads), newOwnTool(1), newOwnTool(1)}
		b.Note("threads", strconv.Itoa(threads))
	}
	for i, o := range t.openers {
		t.later(o.close)
		t.lines[i] = newLines([]string{"full dump", "first delta", "second delta"}[i])
	}
	t.store = newStore(filepath.Join(t.path, "cache"), t.source)
	t.out, t.buf = bufio.NewWriterSize(nil, 256<<10), make([]byte, 256<<10)
	return nil
}

// fillCache fills the cache with the files of an earlier restore.
func (t *trial) fillCache(ctx context.Context, b *workload.Bench) error {
	for _, p := range t.backup.Parts {
		if !p.cached() {
			continue
		}
		if _, err := t.store.fetch(ctx, p, filepath.Join(t.path, "cache", p.name())); err != nil {
			// The session's copy was changed: the next trial makes a new one.
			return with(err, removeAll(t.source+".json"))
		}
	}
	sums := make([]string, len(t.backup.Parts))
	for i, p := range t.backup.Parts {
		sums[i] = p.MD5
	}
	b.Check("backup", fileio.Digest([]byte(strings.Join(sums, " "))))
	return nil
}

// drop drops the backup's pages from the cache.
func (t *trial) drop() error {
	for _, p := range t.backup.Parts {
		for _, dir := range []string{t.store.cache, t.store.source} {
			path := filepath.Join(dir, p.name())
			h, err := fileio.Open(path, fileio.Mode{})
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			err = h.DropCache()
			h.Close()
			if err != nil {
				return &record.Failure{Kind: "refused",
					Message: fmt.Sprintf("restore: drop %s from the cache: %v; use cache=warm", path, err)}
			}
		}
	}
	return nil
}

// Measure restores.
func (t *trial) Measure(ctx context.Context, b *workload.Bench) error {
	for range b.Work {
		if err := t.restore(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) restore(ctx context.Context) error {
	if len(t.meter.stages) > 0 {
		return errors.New("restore: a trial does exactly one restore")
	}
	if err := t.meter.run(stageVerify, func() (int64, error) { return t.verify(ctx) }); err != nil {
		return err
	}
	if err := t.meter.run(stageUnpack, func() (int64, error) { return t.unpack(ctx) }); err != nil {
		return err
	}
	if err := t.meter.run(stageMerge, func() (int64, error) { return t.merge(ctx) }); err != nil {
		return err
	}
	if t.load {
		err := t.meter.run(stageLoad, func() (int64, error) {
			return t.backup.Merged,
				t.database.load(ctx, t.merged(), t.tools)
		})
		if err != nil {
			return err
		}
	}
	return t.meter.run(stageSync, func() (int64, error) {
		if err := settle(t.path); err != nil {
			return 0, fileio.Explain("flush", t.path, err)
		}
		return 0, nil
	})
}

func (t *trial) verify(ctx context.Context) (total int64, err error) {
	for _, p := range t.backup.Parts {
		n, err := t.store.ready(ctx, p)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (t *trial) unpack(ctx context.Context) (total int64, err error) {
	for _, role := range []string{partFiles, partFaces} {
		err := through(ctx, t.openers[0], t.file(role), func(r io.Reader) error {
			n, err := unpack(r, t.root, t.buf)
			total += n
			return err
		})
		if err != nil {
			return total, fileio.Explain("unpack into", t.trees(), err)
		}
	}
	return total, nil
}

// merge writes the merged dump. It is flushed here if it is not loaded.
func (t *trial) merge(ctx context.Context) (n int64, err error) {
	f, err := os.Create(t.merged())
	if err != nil {
		return 0, fileio.Explain("create", t.merged(), err)
	}
	out := &counting{w: f, ctx: ctx}
	t.out.Reset(out)
	err = through(ctx, t.openers[0], t.file(partDump), func(dump io.Reader) error {
		t.lines[0].reset(dump)
		return through(ctx, t.openers[1], t.file(partDelta1), func(first io.Reader) error {
			t.lines[1].reset(first)
			return through(ctx, t.openers[2], t.file(partDelta2), func(second io.Reader) error {
				t.lines[2].reset(second)
				return merge(t.out, t.lines[0], t.lines[1], t.lines[2])
			})
		})
	})
	if err == nil {
		err = t.out.Flush()
	}
	if err == nil && !t.load {
		err = f.Sync()
	}
	if c := f.Close(); err == nil {
		err = c
	}
	if err != nil {
		return out.n, fileio.Explain("write", t.merged(), err)
	}
	return out.n, nil
}

// Report compares everything with the generator's figures.
func (t *trial) Report(b *workload.Bench) error {
	b.Report("seconds", b.Elapsed.Seconds()/float64(b.Work))
	t.meter.report(b)
	b.Note("cached", fmt.Sprintf("%d of %d files", t.store.hits, len(t.backup.Parts)))
	if err := t.compare(b); err != nil {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("restore: the restored data differs from the backup: %v", err)}
	}
	return nil
}

func (t *trial) compare(b *workload.Bench) error {
	for _, role := range []string{partFiles, partFaces} {
		got, err := sumTree(t.trees(), role)
		if err != nil {
			return err
		}
		if want := t.backup.Trees[role]; got != want {
			return fmt.Errorf("%s: %d files of %d bytes with the digest %.16s instead of %d files of %d bytes with "+
				"the digest %.16s", role,
				got.Files, got.Bytes, got.Digest, want.Files, want.Bytes, want.Digest)
		}
		b.Check(role, t.backup.Trees[role].Digest[:32])
	}
	rows, digests, err := t.rows()
	if err != nil {
		return err
	}
	for i, table := range tables {
		if rows[i] != t.backup.Rows[i] || digests[i] != t.backup.Digest[i] {
			return fmt.Errorf("table %s has %d rows with the digest %.16s instead of %d rows with the digest %.16s",
				table.name, rows[i], digests[i], t.backup.Rows[i], t.backup.Digest[i])
		}
		b.Check(table.name, fmt.Sprintf("%d rows %s", rows[i], digests[i][:32]))
	}
	return nil
}

// Cleanup stops the server and removes the restored data. The backup is kept for the next trial.
func (t *trial) Cleanup(*workload.Bench) error {
	var err error
	for i := len(t.cleanings) - 1; i >= 0; i-- {
		err = errors.Join(err, t.cleanings[i]())
	}
	if t.path != "" {
		err = errors.Join(err, removeAll(t.path))
	}
	return err
}

func removeAll(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return fileio.Explain("remove", path, err)
	}
	return nil
}
