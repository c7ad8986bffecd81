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

// A file that is given is one that somebody else made: a user's data, or what a disk was filled with. It is opened for
// reading alone, never made, changed or removed. What it must hold is not known, so that its content cannot be
// verified; see reread for what is looked at in the place of that.

// defaultSize is the size= of the record kinds. With file= it stands for all of the file.
const defaultSize = "64MiB"

// fileParam is the parameter of the kinds that can read a file which is there already.
func fileParam() workload.Param {
	return workload.Param{
		Name: "file", Type: workload.Text,
		Doc: "a file that is there already and is read in the place of one that tare makes: its path below the " +
			"mount; a directory of your own is one (dir:PATH). " +
			"It is opened for reading only and stays as it is; all of it is read, to its last whole record; size=, " +
			"where given, has to be its size. " +
			"What it holds is not known: a sample is read twice, and has to be the same in all targets",
	}
}

// agreeGiven says which parameters do not go with file=.
func (t *rw) agreeGiven(p workload.Params) error {
	switch {
	case !filepath.IsLocal(t.existing):
		return fmt.Errorf("file=%s is no path below the directory that is weighed: give one that does not begin "+
			"with / and does not lead out of it", t.existing)
	case t.own:
		return errors.New("file= names one file, and files=own asks for one for each thread: leave out files=own")
	case p["data"] != fileio.Random:
		return fmt.Errorf("data=%s says what tare writes, and nothing is written with file=: leave it out", p["data"])
	}
	return nil
}

// find looks for the file that is given and takes its size. What cannot be read as asked for is refused.
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
		return refuse("it has %s, which is less than one record: use a larger file or a smaller bs than %s",
			sizeText(size), sizeText(int64(t.bs)))
	case t.sized && asked != t.records:
		return refuse("it has %s, and size= says %s: leave out size=, or give what it has", sizeText(size),
			sizeText(asked*int64(t.bs)))
	case t.records/int64(t.threads) < int64(t.depth):
		return refuse("its %d records are too few for threads=%d and qd=%d: use a larger file, smaller records or "+
			"fewer at a time", t.records, t.threads, t.depth)
	case (t.cache == cacheCold || t.cache == cacheGuestCold) && b.Work > t.records:
		return &record.Failure{Kind: "cache-state",
			Message: fmt.Sprintf("reach cache=%s: %d reads are more than the %d records of file=%s, so that some "+
				"would not be cold; give size=%s",
				t.cache, b.Work, t.records, t.existing, sizeText(size))}
	}
	b.Note("prepared", "given")
	return nil
}

// locate returns where a file is whose name is relative to dir, and its size. Links are followed as long as they stay
// below dir.
func locate(dir, name string) (path string, size int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, fmt.Errorf("there is no such file in %s; a directory of yours is weighed as a mount, "+
			"NAME=dir:PATH", dir)
	case err != nil:
		return "", 0, fmt.Errorf("look at it in %s: %w; it has to be readable, and its links have to stay below "+
			"that directory", dir, err)
	case info.IsDir():
		return "", 0, fmt.Errorf("it is a directory in %s: name a file in it", dir)
	case !info.Mode().IsRegular():
		return "", 0, fmt.Errorf("it is no regular file in %s (%s)", dir, info.Mode().Type())
	}
	if path, err = filepath.EvalSymlinks(filepath.Join(dir, name)); err != nil {
		return "", 0, err
	}
	again, err := os.Stat(path)
	if err == nil && !os.SameFile(info, again) {
		err = fmt.Errorf("%s was exchanged while it was looked at", path)
	}
	return path, info.Size(), err
}

// reread stands in for the verification of a file whose content is not known: what each lane read last is read again
// and has to be the same, and the digest of a sample tells the targets of different files from each other.
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
	b.Note("verified", fmt.Sprintf("no: the file is not tare's own; what was read last was read again, and %d of %d "+
		"records are compared between targets", len(slices.Compact(slices.Sorted(slices.Values(sample)))), t.records))
	return nil
}

// rereadLast compares what the lane's last reads brought with what the file holds now.
func (l *lane) rereadLast(again []byte) error {
	same := func(got []byte, r int64) error {
		n, err := l.file.ReadAt(again, r*int64(l.bs))
		switch {
		case err != nil:
			return err
		case n != l.bs:
			return fmt.Errorf("record %d has %d of %d bytes when it is read again", r, n, l.bs)
		case !bytes.Equal(got, again):
			return fmt.Errorf("record %d is another when it is read again", r)
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
