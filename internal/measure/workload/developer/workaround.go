package developer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

func workaroundParam() workload.Param {
	return workload.Param{
		Name: "workaround", Type: workload.Bool, Default: "no",
		Doc: "copy the sources to the environment's own disk, build there and copy the results back, " +
			"all timed"}
}

// besides names the folder of a build that is not done in the measured folder, and notes it.
func besides(b *workload.Bench) (dir string, err error) {
	if b.Home == "" {
		return "", &record.Failure{Kind: "refused",
			Message: "workaround=yes builds on the environment's own disk, but this environment has no directory " +
				"there: use workaround=no, or set a work directory for the environment"}
	}
	_, on := fileio.Volume(b.Home)
	where := on + ", the environment's own"
	if filepath.Clean(b.Home) == filepath.Clean(b.Dir) {
		where = on + ", the same disk as the measured folder: a copy on one disk"
	}
	b.Note("built_on", where)
	return b.Home, nil
}

// copyPiece is the number of bytes that cp (GNU coreutils 9) moves at a time.
const copyPiece = 128 << 10

// aside is the folder in which dev.compile builds with workaround=yes: a copy of the project, and the results.
//
// The copy is complete before the clock starts. A round replaces the sources of its units and a proportional share of
// the headers. So a slow target, which does fewer units, copies as much per unit as a fast one; a round of all units
// copies everything once.
type aside struct {
	site
	units    int
	origin   *root    // of the project
	result   *root    // folder to which results are copied back
	sources  []copied // by unit
	headers  []copied
	objects  []copied // by unit
	archive  copied
	program  copied
	piece    []byte
	produced status
}

// copied is a file that is copied.
type copied struct{ from, to name }

// goAside makes the folder aside, copies the project there, untimed, and makes the compiler read and write there.
func (c *compile) goAside(ctx context.Context, b *workload.Bench) error {
	home, err := besides(b)
	if err != nil {
		return err
	}
	a := c.aside
	room := int64(c.units)*(sourceSize+4096+3*(int64(objectSize())+8192)) + headerClasses*headerVariants*8192 + 1<<20
	if err := a.freshIn(home, "aside", room, int64(2*c.units)+headerClasses*headerVariants+includeDirs+5); err != nil {
		return err
	}
	a.units, a.origin, a.result = c.units, c.root, c.objectRoot.root
	a.piece = fileio.Aligned(copyPiece)
	clear(a.piece)
	folders := []string{"src"}
	for d := range includeDirs {
		folders = append(folders, fmt.Sprintf("include%d", d))
	}
	for _, d := range folders {
		if err := a.root.mkdir(a.root.name(d)); err != nil {
			return fileio.Explain("create "+d+" in", a.path, err)
		}
	}
	in := func(at string) copied { return copied{a.origin.name(at), a.root.name(at)} }
	back := func(at string) copied { return copied{a.root.name(at), a.result.name(at)} }
	for class := range headerClasses {
		for v := range headerVariants {
			a.headers = append(a.headers, in(headerPath(headerDir[class], class, v)))
		}
	}
	for u := range c.units {
		a.sources = append(a.sources, in(sourcePath(u)))
		a.objects = append(a.objects, back(objectPath(u)))
	}
	a.archive, a.program = back(archivePath), back(programPath)
	c.from, c.to = a.root, a.root
	return c.stock(ctx)
}

// stock copies the whole project aside.
func (c *compile) stock(ctx context.Context) error {
	for _, list := range [][]copied{c.aside.sources, c.aside.headers} {
		for _, f := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.aside.copyFile(c.aside.origin, c.aside.root, f); err != nil {
				return c.explain("copy the sources from", err)
			}
		}
	}
	return nil
}

// warm reads the headers in the copy: dropping the caches of the sources dropped theirs too, but a fresh copy would be
// cached.
func (a *aside) warm() error {
	for _, f := range a.headers {
		h, err := a.root.open(f.to, forReading)
		if err == nil {
			_, err = h.read(a.piece)
			err = errors.Join(err, h.close())
		}
		if err != nil {
			return fileio.Explain("read the copy in", a.path, err)
		}
	}
	return nil
}

// due are the headers that a round of n units copies.
func (a *aside) due(n int) []copied { return a.headers[:len(a.headers)*n/a.units] }

// copyIn replaces the copies of the files of a round of n units.
func (c *compile) copyIn(n int) error {
	a := c.aside
	if a == nil {
		return nil
	}
	for _, list := range [][]copied{a.sources[:n], a.due(n)} {
		for _, f := range list {
			if err := a.root.unlink(f.to); err != nil {
				return err
			}
		}
		for _, f := range list {
			if err := a.copyFile(a.origin, a.root, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyBack copies the results of n units to the measured folder.
func (c *compile) copyBack(n int) error {
	a := c.aside
	if a == nil {
		return nil
	}
	for _, list := range [][]copied{a.objects[:n], {a.archive, a.program}} {
		for _, f := range list {
			if err := a.copyFile(a.root, a.result, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeBack removes the files that copyBack copied.
func (c *compile) takeBack(n int) error {
	a := c.aside
	if a == nil {
		return nil
	}
	for _, list := range [][]copied{a.objects[:n], {a.archive, a.program}} {
		for _, f := range list {
			if err := a.result.unlink(f.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFile copies a file to a new name as cp does: fstat, then read until the end.
func (a *aside) copyFile(from, to *root, f copied) error {
	in, err := from.open(f.from, forReading)
	if err != nil {
		return err
	}
	if err = in.stat(&a.produced); err == nil {
		err = a.pour(in, to, f.to)
	}
	if e := in.close(); err == nil {
		err = e
	}
	return err
}

func (a *aside) pour(in handle, to *root, n name) error {
	out, err := to.open(n, onlyNew)
	if err != nil {
		return err
	}
	moved := int64(0)
	for {
		var got int
		if got, err = in.read(a.piece); err != nil || got == 0 {
			break
		}
		if err = out.write(a.piece[:got]); err != nil {
			break
		}
		moved += int64(got)
	}
	if e := out.close(); err == nil {
		err = e
	}
	if err == nil && moved != a.produced.size() {
		err = fmt.Errorf("copied %d bytes of a file of %d", moved, a.produced.size())
	}
	return err
}

// callsPerUnit is the number of system calls for copying, per unit of a whole project, without archive and program.
func (a *aside) callsPerUnit() int {
	const copying = 8 // open, fstat; open, read, write, read, close; close
	in := 1 + len(a.due(1))
	return in*(1+copying) + copying // old copies are removed first
}
