package developer

import (
	"context"
	"fmt"
	"strconv"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// verified is the number of modules that are compared byte by byte after a trial.
const verified = 4

// moduleBytes is the total size of a module's files.
func moduleBytes() (n int64) {
	for _, s := range sourceSizes {
		n += int64(s)
	}
	return n
}

// unpack is one trial of dev.unpack.
type unpack struct {
	site
	archive *archive
	done    int
}

// Setup generates the archive.
func (u *unpack) Setup(_ context.Context, b *workload.Bench) (err error) {
	modules := int(b.Work)
	if err := u.fresh(b, "unpack", treeSpace(modules), int64(modules)*(moduleFiles+moduleDirs+1)); err != nil {
		return err
	}
	u.archive, err = newArchive(&u.site, modules, b.Seed)
	return err
}

// Measure unpacks b.Work modules.
func (u *unpack) Measure(ctx context.Context, b *workload.Bench) error {
	leave, err := u.alone()
	if err != nil {
		return err
	}
	defer leave()
	for m := range int(b.Work) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := u.archive.unpack(u.root, m); err != nil {
			return fileio.Explain("unpack into", u.path, err)
		}
		u.done++
	}
	return nil
}

// Report compares some of the modules with the archive.
func (u *unpack) Report(b *workload.Bench) error {
	for i := range min(verified, u.done) {
		m := i * u.done / min(verified, u.done)
		digest, err := u.archive.verify(&u.site, m)
		if err != nil {
			return &record.Failure{Kind: "measure", Message: fmt.Sprintf("verify the unpacked files: %v", err)}
		}
		if m == 0 {
			b.Check("module", digest)
		}
	}
	b.Check("module_bytes", strconv.FormatInt(moduleBytes(), 10))
	b.Report("files_per_second", b.Rate(moduleFiles))
	b.Report("mib_per_second", b.Rate(float64(moduleBytes())/(1<<20)))
	return nil
}

// Cleanup removes the unpacked files.
func (u *unpack) Cleanup(*workload.Bench) error { return u.remove() }

// removal is one trial of dev.remove.
type removal struct {
	site
	archive *archive
	walk    *walker
}

// Setup unpacks the tree that is removed.
func (t *removal) Setup(ctx context.Context, b *workload.Bench) (err error) {
	modules := int(b.Work)
	if err := t.fresh(b, "remove", treeSpace(modules), int64(modules)*(moduleFiles+moduleDirs+1)); err != nil {
		return err
	}
	if t.archive, err = newArchive(&t.site, modules, b.Seed); err != nil {
		return err
	}
	if err := t.archive.unpackAll(ctx, &t.site, modules); err != nil {
		return err
	}
	if err := settle(t.path); err != nil {
		return fileio.Explain("flush", t.path, err)
	}
	t.walk = newWalker()
	return nil
}

// Measure removes b.Work modules.
func (t *removal) Measure(ctx context.Context, b *workload.Bench) error {
	leave, err := t.alone()
	if err != nil {
		return err
	}
	defer leave()
	for _, m := range t.archive.roots[:b.Work] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.walk.remove(t.root, m); err != nil {
			return fileio.Explain("remove below", t.path, err)
		}
	}
	return nil
}

// Report checks that the modules are removed and everything else is still there.
func (t *removal) Report(b *workload.Bench) error {
	did := (t.walk.dirs) / moduleDirs
	if want := (counts{did * moduleDirs, did * moduleFiles}); t.walk.counts != want {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("%d directories and %d files were removed, which is not a whole number of modules "+
				"of %d and %d",
				t.walk.dirs, t.walk.files, moduleDirs, moduleFiles)}
	}
	left, err := seen(t.path)
	if err != nil {
		return fileio.Explain("look below", t.path, err)
	}
	kept := int64(len(t.archive.roots)) - did
	want := counts{kept*moduleDirs + int64(len(t.archive.tree.above)) + 1, kept * moduleFiles}
	if left != want {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("%d directories and %d files are left below %s after %d modules were removed, but "+
				"there should be %d and %d",
				left.dirs, left.files, t.path, did, want.dirs, want.files)}
	}
	t.walk.note(b)
	b.Check("module", pathDigest(t.archive.tree.dirs[:moduleDirs]))
	b.Report("files_per_second", b.Rate(moduleFiles))
	return nil
}

// Cleanup removes the rest.
func (t *removal) Cleanup(*workload.Bench) error { return t.site.remove() }
