package developer

import (
	"context"
	"fmt"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// walk is one trial of dev.walk.
type walk struct {
	standing
	modules int
	cache   string
	roots   []name
	walker  *walker
	done    int64
}

// plant makes the permanent tree of dev.walk and dev.status.
func (s *standing) plant(ctx context.Context, b *workload.Bench, modules int) error {
	key := fmt.Sprintf("tree of %d modules, seed %d, form 1", modules, b.Seed)
	return s.ensure(ctx, b, "tree", key, treeSpace(modules), int64(modules)*(moduleFiles+moduleDirs+1),
		func(ctx context.Context) error {
			a, err := newArchive(&s.site, modules, b.Seed)
			if err != nil {
				return err
			}
			return a.unpackAll(ctx, &s.site, modules)
		})
}

// Setup makes the tree unless it is there.
func (w *walk) Setup(ctx context.Context, b *workload.Bench) error {
	if err := w.plant(ctx, b, w.modules); err != nil {
		return err
	}
	t := newTree(w.modules, b.Seed)
	b.Check("tree", pathDigest(t.dirs))
	w.roots, w.walker = w.names(t.roots), newWalker()
	return bring(ctx, b, w.path, w.cache)
}

// Measure walks b.Work modules; after the last it begins again with the first.
func (w *walk) Measure(ctx context.Context, b *workload.Bench) error {
	leave, err := w.alone()
	if err != nil {
		return err
	}
	defer leave()
	for i := range b.Work {
		if i%64 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if err := w.walker.walk(w.root, w.roots[i%int64(len(w.roots))]); err != nil {
			return fileio.Explain("walk below", w.path, err)
		}
		w.done++
	}
	return nil
}

// Report compares what the walk saw with what exists.
func (w *walk) Report(b *workload.Bench) error {
	if want := (counts{w.done * moduleDirs, w.done * moduleFiles}); w.walker.counts != want {
		w.discard()
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("the walk saw %d directories and %d files, but there are %d and %d: another program "+
				"changes %s",
				w.walker.dirs, w.walker.files, want.dirs, want.files, w.path)}
	}
	w.walker.note(b)
	b.Report("entries_per_second", b.Rate(moduleFiles+moduleDirs))
	b.Report("directories_per_second", b.Rate(moduleDirs))
	return nil
}

// Cleanup keeps the tree for the next trial.
func (w *walk) Cleanup(*workload.Bench) error { return w.close() }
