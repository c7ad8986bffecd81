package fs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// With file=, the workload reads a file that it did not make: a user's data, or the file that fills a disk. It is
// opened for reading only, and never made, changed or removed. Its right content is not known, so it cannot be
// verified; see reread for the checks that are made instead.

// defaultSize is the size= of the record kinds. With file= it means the whole file.
const defaultSize = "64MiB"

// fileParam is the parameter of the kinds that can read an existing file.
func fileParam() workload.Param {
	return workload.Param{
		Name: "file", Type: workload.Text,
		Doc: "an existing file to read, below the mount (dir:PATH for one of your own); it is never " +
			"changed, and size= must be its size, if given",
	}
}

// agreeGiven checks which parameters exclude file=.
func (t *rw) agreeGiven(p workload.Params) error {
	switch {
	case !filepath.IsLocal(t.existing):
		return fmt.Errorf("file=%s must be a relative path that stays below the measured directory", t.existing)
	case t.own:
		return errors.New("file= names one file, but files=own needs one for each thread: leave out files=own")
	case p["data"] != fileio.Random:
		return fmt.Errorf("data=%s sets what tare writes, but with file= it writes nothing: leave it out", p["data"])
	}
	return nil
}

// find looks up the given file and its size, and checks that it can be read with these parameters.
func (t *rw) find(b *workload.Bench) error {
	refuse := func(format string, args ...any) error {
		return &record.Failure{Kind: "refused", Message: fmt.Sprintf("file=%s: ", t.existing) +
			fmt.Sprintf(format, args...)}
	}
	path, size, err := locate(b.Root, t.existing)
	if err != nil {
		return refuse("%v", err)
	}
	_, on := fileio.Volume(path)
	b.Note("fs", on)
	asked := t.records
	t.files, t.length, t.records = []string{path}, size, size/int64(t.bs)
	switch {
	case t.records == 0:
		return refuse("it has %s, less than one record: use a larger file, or a bs smaller than %s",
			sizeText(size), sizeText(int64(t.bs)))
	case t.sized && asked != t.records:
		return refuse("it has %s, but size=%s: leave out size=, or set it to the size of the file", sizeText(size),
			sizeText(asked*int64(t.bs)))
	case t.records/int64(t.threads) < int64(t.depth):
		return refuse("its %d records are too few for threads=%d and qd=%d: use a larger file, smaller records, "+
			"fewer threads or a lower qd", t.records, t.threads, t.depth)
	case (t.cache == cacheCold || t.cache == cacheGuestCold) && b.Work > t.records:
		return &record.Failure{Kind: "cache-state",
			Message: fmt.Sprintf("reach cache=%s: %d reads are more than the %d records of file=%s, so some would "+
				"not be cold; set size=%s",
				t.cache, b.Work, t.records, t.existing, sizeText(size))}
	}
	b.Note("prepared", "given")
	return nil
}

// locate returns the path and size of a file whose name is relative to dir. Links are followed if they stay below dir.
func locate(dir, name string) (path string, size int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, fmt.Errorf("there is no such file in %s; to measure a directory of your own, add it as a "+
			"mount: NAME=dir:PATH", dir)
	case err != nil:
		return "", 0, fmt.Errorf("open it in %s: %w; it must be readable, and its links must stay below that directory",
			dir, err)
	case info.IsDir():
		return "", 0, fmt.Errorf("it is a directory in %s: name a file", dir)
	case !info.Mode().IsRegular():
		return "", 0, fmt.Errorf("it is not a regular file in %s (%s)", dir, info.Mode().Type())
	}
	if path, err = filepath.EvalSymlinks(filepath.Join(dir, name)); err != nil {
		return "", 0, err
	}
	again, err := os.Stat(path)
	if err == nil && !os.SameFile(info, again) {
		err = fmt.Errorf("%s was replaced while it was opened", path)
	}
	return path, info.Size(), err
}

// reread replaces the verification of a file whose content is not known: the last reads of each lane are repeated and
// must give the same data, and the digest of a sample shows if targets have different files.
func (t *rw) reread(b *workload.Bench) error {
	again := fileio.Aligned(t.bs)
	for _, l := range t.lanes {
		if err := l.rereadLast(again); err != nil {
			return err
		}
	}
	l, h := t.lanes[0], sha256.New()
	sample := t.sample(b.Seed)
	for _, r := range sample {
		if err := l.fetch(r); err != nil {
			return err
		}
		h.Write(l.buf)
	}
	b.Check("file_bytes", strconv.FormatInt(t.size(), 10))
	b.Check("data", hex.EncodeToString(h.Sum(nil)[:16]))
	b.Note("verified", fmt.Sprintf("no: the file is not tare's; the last reads were repeated, and %d of %d records "+
		"are compared between targets", len(slices.Compact(slices.Sorted(slices.Values(sample)))), t.records))
	return nil
}

// rereadLast compares the data of the lane's last reads with the file's present content.
func (l *lane) rereadLast(again []byte) error {
	same := func(got []byte, r int64) error {
		n, err := l.file.ReadAt(again, r*int64(l.bs))
		switch {
		case err != nil:
			return err
		case n != l.bs:
			return fmt.Errorf("record %d has only %d of %d bytes when it is read again", r, n, l.bs)
		case !bytes.Equal(got, again):
			return fmt.Errorf("record %d differs when it is read again", r)
		}
		return nil
	}
	if l.ring == nil {
		if l.read < 0 {
			return nil
		}
		return same(l.buf, l.read)
	}
	for s, o := range l.ring.slots {
		if o.record < 0 {
			continue
		}
		if err := same(l.ring.Buffer(s), o.record); err != nil {
			return err
		}
	}
	return nil
}
