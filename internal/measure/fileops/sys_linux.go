package fileops

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	flagDirect = unix.O_DIRECT
	seekData   = unix.SEEK_DATA
	seekHole   = unix.SEEK_HOLE
)

func errorName(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return unix.ErrnoName(e)
	}
	return ""
}

// aligned copies p to a buffer aligned for O_DIRECT.
func aligned(p []byte) []byte {
	const page = 4096
	room := make([]byte, len(p)+page)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(room))) % page)
	copy(room[skip:], p)
	return room[skip : skip+len(p) : skip+len(p)]
}

func dataSync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}

func status(info fs.FileInfo) *Status {
	s := &Status{Size: info.Size(), MtimeNS: info.ModTime().UnixNano(), Mode: info.Mode(), Blocks: -1}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Ino, s.Nlink, s.Blocks = st.Ino, uint64(st.Nlink), st.Blocks
	}
	return s
}

var entryTypes = map[byte]string{
	unix.DT_REG: "file", unix.DT_DIR: "directory", unix.DT_LNK: "link", unix.DT_UNKNOWN: "unknown",
}

// listing reads a directory with the types from getdents64(2). The standard library calls stat for types that a file
// system does not report, and hides that.
func listing(dir *os.File) ([]Entry, error) {
	var out []Entry
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(int(dir.Fd()), buf)
		if err != nil || n == 0 {
			return out, err
		}
		for p := buf[:n]; len(p) > 0; {
			// Inode and offset of 8 bytes each, length of 2, type of 1, then the name, ended by a zero byte.
			const header = 19
			if len(p) < header+2 {
				return out, errors.New("the kernel returned a malformed directory entry")
			}
			size := int(binary.NativeEndian.Uint16(p[16:]))
			if size < header+2 || size > len(p) {
				return out, errors.New("the kernel returned a malformed directory entry")
			}
			name, _, _ := bytes.Cut(p[header:size], []byte{0})
			if s := string(name); s != "." && s != ".." {
				kind, ok := entryTypes[p[18]]
				if !ok {
					kind = "other"
				}
				out = append(out, Entry{bytes.Clone(name), kind})
			}
			if len(out) == maxEntries {
				return out, nil
			}
			p = p[size:]
		}
	}
}

// access asks whether a file may be executed, which a mount can forbid independently of the file's mode.
func (b *Box) access(_ context.Context, r *Request, _ *Reply) error {
	info, err := b.root.Lstat(string(r.Name))
	if err != nil {
		return err
	}
	// Both checks keep the call below, which follows links, inside the directory.
	if !info.Mode().IsRegular() || bytes.IndexByte(r.Name, '/') >= 0 {
		return errors.New("it is not a regular file in the directory itself")
	}
	return unix.Faccessat(int(b.top.Fd()), string(r.Name), unix.X_OK, 0)
}

func (b *Box) setXattr(_ context.Context, r *Request, _ *Reply) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	return unix.Fsetxattr(int(f.Fd()), string(r.To), r.Data, 0)
}

func (b *Box) getXattr(_ context.Context, r *Request, reply *Reply) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	p := make([]byte, 4096)
	n, err := unix.Fgetxattr(int(f.Fd()), string(r.To), p)
	if err == nil {
		reply.Data = p[:n]
	}
	return err
}

func (b *Box) lock(_ context.Context, r *Request, _ *Reply) error {
	return b.lockCall(r, unix.LOCK_EX|unix.LOCK_NB, unix.F_WRLCK)
}

func (b *Box) unlock(_ context.Context, r *Request, _ *Reply) error {
	return b.lockCall(r, unix.LOCK_UN, unix.F_UNLCK)
}

func (b *Box) lockCall(r *Request, how int, kind int16) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	switch r.Kind {
	case Flock:
		return unix.Flock(int(f.Fd()), how)
	case Fcntl:
		// The lock belongs to the open file, not to the process, so that two handles of one agent exclude each other.
		return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Len: 1})
	}
	return fmt.Errorf("there is no lock %q", clip(r.Kind))
}

// mapping is a mapped file. It closes its descriptor after mmap(2).
type mapping struct{ memory []byte }

func (m *mapping) Close() error { return unix.Munmap(m.memory) }

func (b *Box) mapFile(_ context.Context, r *Request, reply *Reply) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	protection := unix.PROT_READ
	if r.Sync {
		protection |= unix.PROT_WRITE
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, int(r.Size), protection, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	return b.keep(&mapping{memory}, reply)
}

// part returns the bytes of a map that a request asks for.
func (b *Box) part(r *Request, size int) (m *mapping, p []byte, err error) {
	if m, err = held[*mapping](b, r.Handle); err != nil {
		return nil, nil, err
	}
	if r.Offset > int64(len(m.memory)) || int64(size) > int64(len(m.memory))-r.Offset {
		return nil, nil, fmt.Errorf("%d bytes at %d are outside the map of %d bytes", size, r.Offset, len(m.memory))
	}
	return m, m.memory[r.Offset:][:size], nil
}

func (b *Box) poke(_ context.Context, r *Request, _ *Reply) error {
	m, p, err := b.part(r, len(r.Data))
	if err != nil {
		return err
	}
	copy(p, r.Data)
	if r.Sync {
		return unix.Msync(m.memory, unix.MS_SYNC)
	}
	return nil
}

func (b *Box) peek(_ context.Context, r *Request, reply *Reply) error {
	_, p, err := b.part(r, int(r.Size))
	if err == nil {
		reply.Data = bytes.Clone(p)
	}
	return err
}

// watch is an inotify instance on the side's directory.
type watch struct{ fd int }

func (w *watch) Close() error { return unix.Close(w.fd) }

func (b *Box) watch(_ context.Context, _ *Request, reply *Reply) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	// The descriptor's own name, because the path may have changed; not every container has /proc.
	const mask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_DELETE |
		unix.IN_MOVED_TO | unix.IN_ATTRIB
	_, err = unix.InotifyAddWatch(fd, "/proc/self/fd/"+strconv.Itoa(int(b.top.Fd())), mask)
	runtime.KeepAlive(b.top)
	if errors.Is(err, unix.ENOENT) {
		_, err = unix.InotifyAddWatch(fd, b.path, mask)
	}
	if err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	return b.keep(&watch{fd}, reply)
}

// events waits until the watch reports a name. All events until then are read.
func (b *Box) events(ctx context.Context, r *Request, reply *Reply) error {
	w, err := held[*watch](b, r.Handle)
	if err != nil {
		return err
	}
	began := time.Now()
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Read(w.fd, buf)
		if err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
		for p := buf[:max(n, 0)]; len(p) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(p[12:]))
			if size > len(p) {
				return errors.New("the kernel returned a malformed event")
			}
			name, _, _ := bytes.Cut(p[unix.SizeofInotifyEvent:size], []byte{0})
			reply.Seen = reply.Seen || bytes.Equal(name, r.Name)
			if len(reply.Names) < maxEntries {
				reply.Names = append(reply.Names, strconv.Quote(string(name)))
			}
			p = p[size:]
		}
		reply.WaitedNS = int64(time.Since(began))
		if left := time.Duration(r.TimeoutNS - reply.WaitedNS); reply.Seen || left <= 0 || ctx.Err() != nil {
			return nil
		} else if n <= 0 {
			// In slices, so that a cancelled request ends.
			ready := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(ready, int(min(left, 50*time.Millisecond)/time.Millisecond)+1); err != nil &&
				err != unix.EINTR {
				return err
			}
		}
	}
}

// statOnce and createOnce are one step of a race. They are bare calls, because os.Root uses memory that the threads
// share.

func statOnce(_ *os.Root, top *os.File, name string) error {
	var st unix.Stat_t
	return unix.Fstatat(int(top.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
}

func createOnce(_ *os.Root, top *os.File, name string) error {
	dir := int(top.Fd())
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Close(fd), unix.Unlinkat(dir, name, 0))
}
