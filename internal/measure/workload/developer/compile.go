package developer

import (
	"bytes"
	"context"
	"encoding/binary"
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
)

// compile is one trial of dev.compile.
type compile struct {
	standing          // sources and headers
	objectRoot site   // what the build makes
	aside      *aside // nil unless the build is done outside of the measured folder
	units      int
	cache      string
	rename     bool
	think      time.Duration

	// from is the folder that the compiler reads, to the one that it writes: the measured folder, or the copy.
	from, to *root

	include            [headerVariants][]included // unit u includes include[u%headerVariants]
	sources            []name
	objects, temporary []name
	archive, program   name
	data, in           []byte
	status             status
	built              int // units of the last round, whose objects are still there
}

// Setup makes the project unless it is there, and an empty folder to build in.
func (c *compile) Setup(ctx context.Context, b *workload.Bench) error {
	if err := c.plantProject(ctx, b); err != nil {
		return err
	}
	room := int64(c.units)*3*(int64(objectSize())+8192) + 1<<20
	if err := c.objectRoot.fresh(b, "build", room, int64(c.units)+4); err != nil {
		return err
	}
	c.data, c.in = fileio.Aligned(objectSize()), fileio.Aligned(readWhole)
	fileio.FillRandom(c.data, b.Seed^1)
	clear(c.in)
	c.from, c.to = c.root, c.objectRoot.root
	if c.aside != nil {
		if err := c.goAside(ctx, b); err != nil {
			return err
		}
	}
	c.nameAll()
	b.Check("object", fileio.Digest(c.object(0)))
	if err := bring(ctx, b, c.path, c.cache); err != nil || c.aside == nil {
		return err
	}
	return c.aside.warm()
}

// object is the object of unit u, valid until the next call.
func (c *compile) object(u int) []byte {
	binary.LittleEndian.PutUint64(c.data, uint64(u))
	return c.data
}

// Measure builds b.Work units, in rounds of equal size (to within one) of at most c.units: compile each, then archive
// all, then link all. A round begins by removing the results of the previous one.
func (c *compile) Measure(ctx context.Context, b *workload.Bench) error {
	here := &c.site
	if c.aside != nil {
		here = &c.aside.site
	}
	leave, err := here.alone()
	if err != nil {
		return err
	}
	defer leave()
	rounds := (b.Work + int64(c.units) - 1) / int64(c.units)
	for i := range rounds {
		n := int(b.Work*(i+1)/rounds - b.Work*i/rounds)
		if err := c.round(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *compile) round(ctx context.Context, n int) error {
	if err := c.clean(); err != nil {
		return c.explain("clean in", err)
	}
	if err := c.copyIn(n); err != nil {
		return c.explain("copy the sources from", err)
	}
	for u := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.compile(u); err != nil {
			return c.explain(fmt.Sprintf("compile unit %d in", u), err)
		}
		c.built = u + 1
	}
	if err := c.collect(n); err != nil {
		return c.explain("archive in", err)
	}
	if err := c.link(n); err != nil {
		return c.explain("link in", err)
	}
	return c.explain("copy the results back to", c.copyBack(n))
}

func (c *compile) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	return fileio.Explain(op, c.path, err)
}

func (c *compile) clean() error {
	if c.built == 0 {
		return nil
	}
	for u := range c.built {
		if err := c.to.unlink(c.objects[u]); err != nil {
			return err
		}
	}
	if err := c.to.unlink(c.archive); err != nil {
		return err
	}
	if err := c.to.unlink(c.program); err != nil {
		return err
	}
	if err := c.takeBack(c.built); err != nil {
		return err
	}
	c.built = 0
	return nil
}

func (c *compile) compile(u int) error {
	var began clock.Instant
	if c.think > 0 {
		began = clock.Now()
	}
	if err := c.from.lstat(c.sources[u], &c.status); err != nil {
		return err
	}
	if err := c.notThere(c.objects[u]); err != nil {
		return err
	}
	if err := c.load(c.sources[u], sourceSize); err != nil {
		return err
	}
	headers := c.include[u%headerVariants]
	for i := range headers {
		h := &headers[i]
		for _, m := range h.misses {
			if f, err := c.from.open(m, forReading); err == nil {
				return errors.Join(errors.New("a header was found in a folder that has none"), f.close())
			} else if !absent(err) {
				return err
			}
		}
		if err := c.load(h.at, h.size); err != nil {
			return err
		}
	}
	for c.think > 0 && clock.Since(began) < c.think {
	}
	for range 2 {
		if err := c.notThere(c.objects[u]); err != nil {
			return err
		}
	}
	return c.assemble(u)
}

func (c *compile) notThere(n name) error {
	switch err := c.to.lstat(n, &c.status); {
	case err == nil:
		return errors.New("an object exists before it was made")
	case !absent(err):
		return err
	}
	return nil
}

// load reads a file as cc1 reads sources and headers: fstat, then all of it in one read.
func (c *compile) load(n name, size int) error {
	h, err := c.from.open(n, forReading)
	if err != nil {
		return err
	}
	got := 0
	if err = h.stat(&c.status); err == nil {
		got, err = h.read(c.in)
	}
	if e := h.close(); err == nil {
		err = e
	}
	if err == nil && (got != size || c.status.size() != int64(size)) {
		err = fmt.Errorf("read %d bytes of file %d, but %d were written", got, c.status.size(), size)
	}
	return err
}

// assemble writes an object in pieces and looks back at some, as the assembler does.
func (c *compile) assemble(u int) error {
	n := c.objects[u]
	if c.rename {
		n = c.temporary[u]
	}
	h, err := c.to.open(n, emptied)
	if err != nil {
		return err
	}
	p := c.object(u)
	at := 0
	for i, size := range objectWrites {
		if err = h.writeAt(p[at:at+size], int64(at)); err != nil {
			break
		}
		at += size
		if i < objectReads {
			if _, err = h.readAt(c.in[:dbPage], int64(at-size)); err != nil {
				break
			}
		}
	}
	if e := h.close(); err == nil {
		err = e
	}
	if err == nil && c.rename {
		err = c.to.rename(n, c.objects[u])
	}
	return err
}

// collect puts all objects into an archive.
func (c *compile) collect(n int) error {
	a, err := c.to.open(c.archive, emptied)
	if err != nil {
		return err
	}
	for u := range n {
		if err = c.member(a, u); err != nil {
			break
		}
	}
	if e := a.close(); err == nil {
		err = e
	}
	return err
}

func (c *compile) member(a handle, u int) error {
	h, err := c.to.open(c.objects[u], forReading)
	if err != nil {
		return err
	}
	size := objectSize()
	if err = h.stat(&c.status); err == nil && c.status.size() != int64(size) {
		err = fmt.Errorf("object %d has %d bytes, but %d were written", u, c.status.size(), size)
	}
	for i := 0; i < archiveReads && err == nil; i++ {
		at, want := piece(size, i, archiveReads)
		err = c.part(h, u, at, want, int64(at))
	}
	if e := h.close(); err == nil {
		err = e
	}
	for i := 0; i < archiveWrites && err == nil; i++ {
		at, want := piece(size, i, archiveWrites)
		err = a.write(c.object(u)[at : at+want])
	}
	return err
}

// piece returns the offsets of part i of n of size bytes.
func piece(size, i, n int) (at, length int) {
	at = size * i / n
	return at, size*(i+1)/n - at
}

// part reads bytes of an object and checks by the first of them that it is the right one.
func (c *compile) part(h handle, u, at, want int, off int64) error {
	got, err := h.readAt(c.in[:want], off)
	if err == nil && (got != want || at == 0 && binary.LittleEndian.Uint64(c.in) != uint64(u)) {
		err = fmt.Errorf("%d bytes of object %d differ from what was written", want, u)
	}
	return err
}

// link reads all objects from the archive and writes a program.
func (c *compile) link(n int) error {
	a, err := c.to.open(c.archive, forReading)
	if err != nil {
		return err
	}
	p, err := c.to.open(c.program, emptied)
	if err != nil {
		return errors.Join(err, a.close())
	}
	size := objectSize()
	for u := 0; u < n && err == nil; u++ {
		for i := 0; i < linkReads && err == nil; i++ {
			at, want := piece(size, i, linkReads)
			err = c.part(a, u, at, want, int64(u*size+at))
		}
		for i := 0; i < linkWrites && err == nil; i++ {
			err = p.write(c.object(u)[:linkWrite])
		}
	}
	if e := a.close(); err == nil {
		err = e
	}
	if e := p.close(); err == nil {
		err = e
	}
	return err
}

// callsPerUnit is the number of system calls of a unit, without opening and closing the files that a round makes once.
func (c *compile) callsPerUnit() int {
	misses := 0
	for _, h := range c.include[0] {
		misses += len(h.misses)
	}
	n := 1 + 3 + 4*(1+headersPerUnit) + misses // make and the assembler look; source and headers
	n += 2 + len(objectWrites) + objectReads   // object
	n += 3 + archiveReads + archiveWrites + linkReads + linkWrites
	if c.rename {
		n++
	}
	if c.aside != nil {
		n += c.aside.callsPerUnit()
	}
	return n
}

// Report checks what the last round left.
func (c *compile) Report(b *workload.Bench) error {
	if err := c.verify(); err != nil {
		return err
	}
	b.Check("calls", strconv.Itoa(c.callsPerUnit()))
	b.Report("units_per_second", b.Rate(1))
	return nil
}

// verify compares the last round's objects, archive and program, byte for byte, with what the compiler, the archiver
// and the linker must make of the sources.
func (c *compile) verify() error {
	var archive, program []byte
	for u := range c.built {
		object := c.object(u)
		if err := c.holds(objectPath(u), object); err != nil {
			return err
		}
		archive = append(archive, object...)
		for range linkWrites {
			program = append(program, object[:linkWrite]...)
		}
	}
	if err := c.holds(archivePath, archive); err != nil {
		return err
	}
	return c.holds(programPath, program)
}

func (c *compile) holds(name string, want []byte) error {
	got, err := os.ReadFile(filepath.Join(c.objectRoot.path, name))
	if err != nil {
		return fileio.Explain("read", c.objectRoot.path, err)
	}
	if !bytes.Equal(got, want) {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("%s in %s has %d bytes, which differ from the %d bytes that were written",
				name, c.objectRoot.path,
				len(got), len(want))}
	}
	return nil
}

// Cleanup removes the results of the build and keeps the project for the next trial.
func (c *compile) Cleanup(*workload.Bench) error {
	err := errors.Join(c.close(), c.objectRoot.remove())
	if c.aside != nil {
		err = errors.Join(err, c.aside.remove())
	}
	return err
}
