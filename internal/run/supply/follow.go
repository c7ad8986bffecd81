package supply

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/internal/sys/sql/log"
)

// Follower reads a log that grows. It goes on in the next file if the log is renamed and a new one has its name, and at
// the beginning of the file if that becomes shorter. All functions are called by the goroutine that reads.
type Follower struct {
	Path string
	Tell func(string) // what happened to the log, for the user
	// Idle is called when the log has no more for now, and, with end, when it is not read any further.
	Idle func(end bool)

	ctx   context.Context // ends the log
	poll  time.Duration   // between looks at a log that does not grow
	begun []byte          // bytes to read before all files
	queue []place         // places to read before Path
	now   *followedFile   // nil: none yet
	total int64           // bytes before it
	ended bool
}

// Place is how far a log has been read: a file that begins with some bytes. Its name may be another one since.
type Place struct {
	Offset int64    `json:"offset"`
	Head   int64    `json:"head"`   // bytes, 0 if nothing has been read
	Digest [32]byte `json:"digest"` // of these, SHA-256
}

// place is where to begin in a file.
type place struct {
	path   string
	file   *os.File // nil: not open yet
	offset int64
	time   time.Time // when a renamed file was written to last
}

const headSize = 4 << 10

// Follow reads a log until ctx is done, from its beginning or from where a checkpoint was made. The caller closes it.
func Follow(ctx context.Context, path string, from *Checkpoint, tell func(string)) (*Follower, error) {
	f := &Follower{Path: path, Tell: tell, Idle: func(bool) {}, ctx: ctx,
		poll: 200 * time.Millisecond}
	if from != nil {
		f.total, f.begun = from.Total, from.Begun
		if from.Place.Head > 0 {
			if err := f.find(&from.Place); err != nil {
				return nil, err
			}
		}
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(cmp.Or(err, fmt.Errorf("%s is no file, and only files can be followed", path)),
			f.Close())
	}
	if len(f.queue) > 0 {
		return f, nil
	}
	file, err := os.Open(path) // now: it may be renamed at any time
	f.queue = []place{{path: path, file: file}}
	return f, err
}

// find finds the file that a place is in, and those that came after it.
func (f *Follower) find(from *Place) error {
	if file := openAt(f.Path, from); file != nil {
		f.queue = []place{{path: f.Path, file: file, offset: from.Offset}}
		return nil
	}
	all, err := f.renamed()
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].file = openAt(all[i].path, from); all[i].file != nil {
			f.Tell(fmt.Sprintf("%s was renamed to %s: going on there", f.Path, all[i].path))
			all[i].offset = from.Offset
			f.queue = all[i:]
			return nil
		}
	}
	f.Tell(fmt.Sprintf("the file that was read as %s is gone: what was added to it since may be missing", f.Path))
	return nil
}

// renamed lists the files whose names begin with that of the log, the one that was written to last at the end.
func (f *Follower) renamed() (all []place, err error) {
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if rest, ok := strings.CutPrefix(e.Name(), filepath.Base(f.Path)); ok && rest != "" && err == nil &&
			info.Mode().IsRegular() {
			all = append(all, place{path: filepath.Join(filepath.Dir(f.Path), e.Name()), time: info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b place) int { return a.time.Compare(b.time) })
	return all, nil
}

// openAt opens a file if it is the one that a place is in.
func openAt(path string, p *Place) *os.File {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	if info, err := file.Stat(); err == nil && info.Size() >= p.Offset {
		if digest, err := digestOf(file, p.Head); err == nil && digest == p.Digest {
			return file
		}
	}
	file.Close()
	return nil
}

func digestOf(file io.ReaderAt, n int64) (d [32]byte, err error) {
	h := sha256.New()
	if _, err = io.Copy(h, io.NewSectionReader(file, 0, n)); err == nil {
		h.Sum(d[:0])
	}
	return d, err
}

// Source is the log.
func (f *Follower) Source() *log.Files {
	files := log.JoinAll(f.next)
	files.Waits = f.waits
	return files
}

// waits tells whether the file that is being read has no more for now.
func (f *Follower) waits() bool {
	if f.now == nil || f.now.finished || f.ended {
		return false
	}
	info, err := f.now.file.Stat()
	return err == nil && info.Size() <= f.now.size
}

// next opens the next file.
func (f *Follower) next() (io.ReadCloser, error) {
	if f.ended {
		return nil, io.EOF
	}
	if n := len(f.begun); n > 0 {
		begun := f.begun
		f.begun, f.total = nil, f.total+int64(n)
		return io.NopCloser(bytes.NewReader(begun)), nil
	}
	at := place{path: f.Path}
	if len(f.queue) > 0 {
		at, f.queue = f.queue[0], f.queue[1:]
	}
	file, err := at.file, error(nil)
	if file == nil {
		file, err = f.open(at.path)
	}
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(at.offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if f.now != nil {
		f.total += f.now.size - f.now.begin
		if err := f.now.file.Close(); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	f.now = &followedFile{f: f, file: file, begin: at.offset, size: at.offset, finished: len(f.queue) > 0}
	return f.now, nil
}

// open opens a file. One that has just been renamed comes again.
func (f *Follower) open(path string) (*os.File, error) {
	for {
		file, err := os.Open(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
		if f.pause(); f.ended {
			return nil, io.EOF
		}
	}
}

// pause waits for a moment in which the log may grow.
func (f *Follower) pause() {
	f.Idle(false)
	select {
	case <-f.ctx.Done():
		f.ended = true
	case <-time.After(f.poll):
	}
}

// followedFile is a file that is being followed.
type followedFile struct {
	f           *Follower
	file        *os.File
	begin, size int64 // where it was begun, and how far it was read
	finished    bool  // it does not grow any more
	silent      int64 // its size when it had nothing more, and another had its name
}

func (x *followedFile) Read(b []byte) (int, error) {
	for {
		n, err := x.file.Read(b)
		x.size += int64(n)
		if n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		if x.finished {
			return 0, io.EOF
		}
		if x.f.ended {
			x.f.Idle(true)
			return 0, io.EOF
		}
		if x.f.pause(); x.f.ended {
			continue // it may have grown once more
		}
		if err := x.look(); err != nil {
			return 0, err
		}
	}
}

// look finds out whether a file that had no more to read was rotated, cut or removed.
func (x *followedFile) look() error {
	info, err := x.file.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(x.f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is being renamed
	case err != nil:
		return err
	case os.SameFile(info, now) && info.Size() < x.size:
		x.f.Tell(fmt.Sprintf("%s has become shorter, and is read from its beginning: what was written just before may "+
			"be missing", x.f.Path))
		x.finished = true
	case os.SameFile(info, now) || now.Size() == 0 || info.Size() > x.size:
	case x.silent == x.size: // the server does not write to it any more
		x.f.Tell(x.f.Path + " is another file now: going on there")
		x.finished = true
		all, err := x.f.renamed()
		for _, p := range all { // they came and went meanwhile
			if p.time.After(info.ModTime()) {
				x.f.queue = append(x.f.queue, p)
			}
		}
		return err
	default:
		x.silent = x.size
	}
	return nil
}

// Close leaves the file open: a checkpoint may need its beginning.
func (x *followedFile) Close() error { return nil }

// Close closes the files.
func (f *Follower) Close() error {
	var errs []error
	if f.now != nil {
		errs = append(errs, f.now.file.Close())
	}
	for _, p := range f.queue {
		if p.file != nil {
			errs = append(errs, p.file.Close())
		}
	}
	return errors.Join(errs...)
}

// Checkpoint is the state of reading a log that is followed: its findings, and the place in it.
type Checkpoint struct {
	Schema  string          `json:"schema"`
	Path    string          `json:"path"`
	Place   Place           `json:"place"`
	Total   int64           `json:"total"` // bytes that are accounted for
	Begun   []byte          `json:"begun"` // bytes read behind these, in a file before that of Place
	Summary json.RawMessage `json:"summary"`
}

const checkpointSchema = "tare-sql-checkpoint/1"

// Checkpoint makes one.
func (f *Follower) Checkpoint(s *log.Summing) (*Checkpoint, error) {
	c := &Checkpoint{Schema: checkpointSchema, Path: f.Path, Total: s.Taken()}
	left := c.Total - f.total // of the file that is being read now
	if left < 0 {
		c.Begun = append(c.Begun, s.Begun(-left)...)
		left = 0
	}
	var err error
	if x := f.now; x != nil {
		c.Place.Offset, c.Place.Head = x.begin+left, min(x.size, headSize)
		c.Place.Digest, err = digestOf(x.file, c.Place.Head)
	}
	if err == nil {
		c.Summary, err = s.Save()
	}
	return c, err
}

// ReadCheckpoint reads the checkpoint of a log; it is nil if there is none.
func ReadCheckpoint(name, path string) (*Checkpoint, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	c := &Checkpoint{}
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	switch {
	case err != nil:
	case c.Schema != checkpointSchema:
		err = errors.New("it is no checkpoint of this version of tare")
	case c.Path != path:
		err = fmt.Errorf("it belongs to the log %s", c.Path)
	}
	if err != nil {
		return nil, fmt.Errorf("go on from the checkpoint %s: %w; remove it to begin anew", name, err)
	}
	return c, nil
}

// Write writes the checkpoint so that the name always holds a whole one. Only the user can read it: it has statements.
func (c *Checkpoint) Write(name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
	if err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	err = json.NewEncoder(f).Encode(c)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the checkpoint: %w", err), os.Remove(f.Name()))
	}
	return nil
}
