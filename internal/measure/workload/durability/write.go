package durability

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Plan describes the records to write.
type Plan struct {
	Classes []Class
	Seed    uint64 // of the contents
	Round   uint32 // makes the contents of rounds differ, too
}

// Limits of one round, so that a forgotten writer does not fill a disk.
const (
	slots   = 1024 // records in a preallocated file: 4 MiB
	files   = 512  // files that are created
	targets = 8    // files that are replaced in turn
	maxRead = 8 << 20
)

// writer puts one record after the other.
type writer interface {
	// put writes record n, from 0, and returns it when the system has acknowledged it. done means that there was no
	// room and nothing was written.
	put(n uint64, from origin) (r Record, done bool, err error)
	close() error
}

// Write writes into dir, which must be empty, until ctx is done or there is no more room: all classes at once, each in
// its own order. Each record is passed to emit as soon as it is acknowledged; several goroutines call emit. It ends
// early only when a write fails.
func Write(ctx context.Context, dir string, p Plan, emit func(Record) error) (err error) {
	writers := make([]writer, 0, len(p.Classes))
	defer func() {
		for _, w := range writers {
			err = errors.Join(err, w.close())
		}
	}()
	for _, c := range p.Classes {
		w, err := open(dir, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		writers = append(writers, w)
	}
	// The prepared file must survive itself, or its loss would look like the loss of every record in it.
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	var wait sync.WaitGroup
	var stop atomic.Bool
	errs := make([]error, len(writers))
	for i, w := range writers {
		wait.Go(func() {
			for n := uint64(0); ctx.Err() == nil && !stop.Load(); n++ {
				r, done, err := w.put(n, origin{p.Seed, p.Round})
				if err == nil && !done {
					err = emit(r)
				}
				if err != nil {
					errs[i] = fmt.Errorf("%s: record %d: %w", p.Classes[i], n+1, err)
					stop.Store(true)
				}
				if err != nil || done {
					return
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func open(dir string, c Class) (writer, error) {
	switch c {
	case Overwrite, DSync:
		f, err := prepare(dir, c)
		if err != nil {
			return nil, err
		}
		w := &overwriter{class: c, file: f}
		if c == DSync {
			f.Close()
			if w.file, err = openDSync(name(dir, c, 0)); err != nil {
				return nil, err
			}
		}
		return w, nil
	case Mapped:
		f, err := prepare(dir, c)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return openMap(f)
	case Append:
		f, err := os.OpenFile(name(dir, c, 0), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		return &appender{f}, f.Sync()
	case Create, CreateDir:
		return &creator{dir: dir, class: c}, nil
	case Rename:
		return &renamer{dir}, nil
	}
	return nil, fmt.Errorf("there is no such class")
}

func name(dir string, c Class, file uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d", c, file))
}

// prepare makes a file of slots with zeroes, written (not a hole) and flushed.
func prepare(dir string, c Class) (*os.File, error) {
	f, err := os.OpenFile(name(dir, c, 0), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(make([]byte, slots*slot)); err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// overwriter overwrites slots in turn.
type overwriter struct {
	class Class
	file  *os.File
}

func (w *overwriter) put(n uint64, from origin) (r Record, done bool, err error) {
	if n == slots {
		return r, true, nil
	}
	r = Record{Class: w.class, Seq: n + 1, Offset: n * slot}
	p := make([]byte, slot)
	fill(p, &r, from)
	if _, err = w.file.WriteAt(p, int64(r.Offset)); err == nil && w.class == Overwrite {
		err = syncData(w.file)
	}
	return r, false, err
}

func (w *overwriter) close() error { return w.file.Close() }

type appender struct{ file *os.File }

func (w *appender) put(n uint64, from origin) (r Record, done bool, err error) {
	if n == slots {
		return r, true, nil
	}
	r = Record{Class: Append, Seq: n + 1, Offset: n * appended}
	p := make([]byte, appended)
	fill(p, &r, from)
	if _, err = w.file.Write(p); err == nil {
		err = w.file.Sync()
	}
	return r, false, err
}

func (w *appender) close() error { return w.file.Close() }

type creator struct {
	dir   string
	class Class
}

func (w *creator) put(n uint64, from origin) (r Record, done bool, err error) {
	if n == files {
		return r, true, nil
	}
	r = Record{Class: w.class, Seq: n + 1, File: uint32(n)}
	if err = writeFile(name(w.dir, w.class, r.File), &r, from); err == nil && w.class == CreateDir {
		err = syncDir(w.dir)
	}
	return r, false, err
}

func (w *creator) close() error { return nil }

// writeFile makes a file of one record and syncs it.
func writeFile(path string, r *Record, from origin) error {
	p := make([]byte, slot)
	fill(p, r, from)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(p); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

type renamer struct{ dir string }

const newSuffix = ".new"

func (w *renamer) put(n uint64, from origin) (r Record, done bool, err error) {
	r = Record{Class: Rename, Seq: n + 1, File: uint32(n % targets)}
	path := name(w.dir, Rename, r.File)
	if err = writeFile(path+newSuffix, &r, from); err == nil {
		err = os.Rename(path+newSuffix, path)
	}
	if err == nil {
		err = syncDir(w.dir)
	}
	return r, false, err
}

func (w *renamer) close() error { return nil }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
