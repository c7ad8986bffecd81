package developer

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// tracked is the entry of a file in the index, by which a change is detected.
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

// byPath sorts files by sort.Sort: slices.SortFunc would add 12 KB to the agent for this alone.
type byPath []source

func (s byPath) Len() int           { return len(s) }
func (s byPath) Less(i, j int) bool { return s[i].path < s[j].path }
func (s byPath) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// Setup makes the tree unless it is there, and the index: every path from the top of the tree, sorted by bytes as git's
// is.
func (l *lookOver) Setup(ctx context.Context, b *workload.Bench) error {
	if err := l.plant(ctx, b, l.modules); err != nil {
		return err
	}
	files := newTree(l.modules, b.Seed).files
	sort.Sort(byPath(files))
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

// sharing are the file systems whose server may set a file's times after the write returned.
var sharing = []string{"9p", "nfs", "smb", "cifs", "fuse", "vboxsf", "vmhgfs"}

// lateTimes bounds the time until a server has set a file's times: Linux's SMB client closes a file up to a second
// after the program has (mount.cifs(8), closetimeo), and Samba sets a written file's time up to two seconds after the
// write, or at that close.
const lateTimes = 3500 * time.Millisecond

// calmLooks is the number of checks in a row that must find no change. Time alone is not enough: while the machine was
// stopped, the server had no time to catch up.
const calmLooks = 10

// calm waits until nothing has changed for the given time, so that the trial sees stable files. If that never happens,
// it gives up, and the trial's own checks report the changes.
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

// remember makes a new index.
func (l *lookOver) remember(files []source) error {
	l.index = make([]tracked, len(files))
	for i, f := range files {
		n := l.root.name(f.path)
		if err := l.root.lstat(n, &l.status); err != nil {
			return fileio.Explain("stat", filepath.Join(l.path, f.path), err)
		}
		l.index[i] = tracked{n, l.status.size(), l.status.modified(), l.status.inode()}
		if l.status.size() != int64(f.size) {
			return fmt.Errorf("stat %s: it has %d bytes, but %d were written", filepath.Join(l.path, f.path),
				l.status.size(), f.size)
		}
	}
	return nil
}

// Measure checks b.Work paths; after the last it begins again with the first.
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

// Report says whether the file system reported the same status of each file as before.
func (l *lookOver) Report(b *workload.Bench) error {
	if l.changed == b.Work && b.Work >= int64(len(l.index)) {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("every file below %s looks changed: this file system reports another inode, size or "+
				"time with each stat call", l.path)}
	}
	if l.changed > 0 {
		b.Warn("status-changes",
			fmt.Sprintf("%d of %d stat calls returned another inode, size or modification time, although nothing was "+
				"changed", l.changed, b.Work),
			"git reads such files again at each status; check the mount's options for inodes")
	}
	b.Report("paths_per_second", b.Rate(1))
	return nil
}

// Cleanup keeps the tree for the next trial.
func (l *lookOver) Cleanup(*workload.Bench) error { return l.close() }
