//go:build portable || !linux || !(amd64 || arm64)

package developer

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// root is a directory by its absolute path: everything below it goes through the standard library.
type root struct{ path string }

// name is an absolute path.
type name = string

func openRoot(path string) (*root, error) {
	st, err := os.Stat(path)
	if err == nil && !st.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("not a directory")}
	}
	if err != nil {
		return nil, err
	}
	return &root{path}, nil
}

func (r *root) close() error { return nil }

// enter does nothing: names are absolute.
func (r *root) enter() (leave func(), err error) { return func() {}, nil }

// name makes a name of a path with slashes. It allocates: names are made before the clock starts.
func (r *root) name(path string) name { return filepath.Join(r.path, filepath.FromSlash(path)) }

// status is a file's status from stat.
type status struct{ info os.FileInfo }

func (s *status) size() int64     { return s.info.Size() }
func (s *status) modified() int64 { return s.info.ModTime().UnixNano() } // ns since 1970
func (s *status) inode() uint64   { return inode(s.info) }

// lstat asks for a file's status and does not follow a link.
func (r *root) lstat(n name, s *status) (err error) {
	s.info, err = os.Lstat(n)
	return err
}

// absent tells whether an error means that the name does not exist.
func absent(err error) bool { return errors.Is(err, os.ErrNotExist) }

// The ways to open a file.
const (
	forReading = os.O_RDONLY
	orMade     = os.O_RDWR | os.O_CREATE
	emptied    = os.O_RDWR | os.O_CREATE | os.O_TRUNC
	onlyNew    = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	directory  = os.O_RDONLY
)

// handle is an open file.
type handle struct{ f *os.File }

// number is the file's descriptor.
func (h handle) number() uintptr { return h.f.Fd() }

func (r *root) open(n name, how int) (handle, error) {
	f, err := os.OpenFile(n, how, 0o600)
	return handle{f}, err
}

func (r *root) mkdir(n name) error { return os.Mkdir(n, 0o700) }

func (r *root) rename(from, to name) error { return os.Rename(from, to) }

func (r *root) unlink(n name) error { return os.Remove(n) }

// setTimes sets a directory's modification time, in seconds since 1970: an archiver's last step.
func (r *root) setTimes(n name, at int64) error { return os.Chtimes(n, time.Time{}, time.Unix(at, 0)) }

// setTimes sets an open file's modification time, in seconds since 1970.
func (h handle) setTimes(at int64) error {
	return os.Chtimes(h.f.Name(), time.Time{}, time.Unix(at, 0))
}

// chmod sets an open file's permissions.
func (h handle) chmod(mode uint32) error { return os.Chmod(h.f.Name(), os.FileMode(mode)) }

// stat asks for the status of an open file.
func (h handle) stat(s *status) (err error) {
	s.info, err = h.f.Stat()
	return err
}

// read is one read: it may return fewer bytes than asked for, and returns 0 at the end.
func (h handle) read(p []byte) (int, error) { return short(h.f.Read(p)) }

// readAt is one read at off.
func (h handle) readAt(p []byte, off int64) (int, error) { return short(h.f.ReadAt(p, off)) }

// short makes the end of the file a short read without an error, as read(2) does.
func short(n int, err error) (int, error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// write writes all of p.
func (h handle) write(p []byte) error {
	_, err := h.f.Write(p)
	return err
}

// writeAt writes all of p at off.
func (h handle) writeAt(p []byte, off int64) error {
	_, err := h.f.WriteAt(p, off)
	return err
}

func (h handle) truncate(size int64) error { return h.f.Truncate(size) }

// flush writes an open file to stable storage as a C program's fsync does.
func (h handle) flush() error { return plainSync(h.f) }

// close closes the file.
func (h handle) close() error { return h.f.Close() }
