package developer

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// tracked is what an index remembers of a file, to see whether it was changed.
type tracked struct {
	name     name
	size     int64
	modified int64
	inode    uint64
}

func (t tracked) same(u tracked) bool {
	return t.size == u.size && t.modified == u.modified && t.inode == u.inode
}

// lookOver is one trial of dev.status.
type lookOver struct {
	standing
	modules int
	cache   string
	index   []tracked
	status  status
	changed int64
}

// Setup makes the tree unless it is there, and the index: every path from the top of the tree, sorted by bytes as git's
// is.
func (l *lookOver) Setup(ctx context.Context, b *workload.Bench) error {
	if err := l.plant(ctx, b, l.modules); err != nil {
		return err
	}
	files := newTree(l.modules, b.Seed).files
	slices.SortFunc(files, func(a, b source) int { return strings.Compare(a.path, b.path) })
	if err := l.remember(files); err != nil {
		l.discard()
		return err
	}
	if b.State["prepared"] == "now" && slices.Contains(sharing, b.State["fs"]) {
		if err := l.calm(ctx, files, lateTimes); err != nil {
			return err
		}
	}
	var list strings.Builder
	for _, f := range files {
		fmt.Fprintf(&list, "%s %d\n", f.path, f.size)
	}
	b.Check("index", fileio.Digest([]byte(list.String())))
	return bring(ctx, b, l.path, l.cache)
}

// sharing are the file systems whose files have another keeper, who may set their times after the writer has gone on.
var sharing = []string{"9p", "nfs", "smb", "cifs", "fuse", "vboxsf", "vmhgfs"}

// lateTimes is how long a keeper may take: Linux's SMB client closes a file up to a second after the program has
// (mount.cifs(8), closetimeo), and Samba sets a written file's time up to two seconds after the write, or at that
// close.
const lateTimes = 3500 * time.Millisecond

// calmLooks is how many looks in a row must find nothing changed. They are counted, and not the time alone, because in
// a machine that stood still meanwhile no time has passed for whoever is late.
const calmLooks = 10

// calm waits until nothing has changed for the given time, so that what is found later is found of files that stand
// still. Where that never comes, it gives up: the trial's own looks then tell of it.
func (l *lookOver) calm(ctx context.Context, files []source, quiet time.Duration) error {
	for looks, same := 0, 0; looks < 5*calmLooks && same < calmLooks; looks++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(quiet / calmLooks):
		}
		before := slices.Clone(l.index)
		if err := l.remember(files); err != nil {
			l.discard()
			return err
		}
		if same++; !slices.EqualFunc(before, l.index, tracked.same) {
			same = 0
		}
	}
	return nil
}

// remember makes the index anew.
func (l *lookOver) remember(files []source) error {
	l.index = make([]tracked, len(files))
	for i, f := range files {
		n := l.root.name(f.path)
		if err := l.root.lstat(n, &l.status); err != nil {
			return fileio.Explain("stat", filepath.Join(l.path, f.path), err)
		}
		l.index[i] = tracked{n, l.status.size(), l.status.modified(), l.status.inode()}
		if l.status.size() != int64(f.size) {
			return fmt.Errorf("stat %s: it has %d bytes where %d were written", filepath.Join(l.path, f.path),
				l.status.size(), f.size)
		}
	}
	return nil
}

// Measure asks for the status of b.Work paths; after the last it begins again with the first.
func (l *lookOver) Measure(ctx context.Context, b *workload.Bench) error {
	leave, err := l.alone()
	if err != nil {
		return err
	}
	defer leave()
	at := 0
	for i := range b.Work {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		t := &l.index[at]
		if err := l.root.lstat(t.name, &l.status); err != nil {
			return fileio.Explain(fmt.Sprintf("stat entry %d of the index below", at), l.path, err)
		}
		if l.status.size() != t.size || l.status.modified() != t.modified || l.status.inode() != t.inode {
			l.changed++
		}
		if at++; at == len(l.index) {
			at = 0
		}
	}
	return nil
}

// Report says whether the file system told the same of each file as before.
func (l *lookOver) Report(b *workload.Bench) error {
	if l.changed == b.Work && b.Work >= int64(len(l.index)) {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("every file below %s looks changed: this file system tells another inode, size or "+
				"time at each look", l.path)}
	}
	if l.changed > 0 {
		b.Warn("status-changes",
			fmt.Sprintf("%d of %d looks found another inode, size or time of modification than before, though "+
				"nothing was changed", l.changed, b.Work),
			"expect git to read such files again at each status; see the inode options of the mount")
	}
	b.Report("paths_per_second", b.Rate(1))
	return nil
}

// Cleanup leaves the tree to the next trial.
func (l *lookOver) Cleanup(*workload.Bench) error { return l.close() }
