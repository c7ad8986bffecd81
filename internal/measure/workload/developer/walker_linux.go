//go:build linux && (amd64 || arm64) && !portable

package developer

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
)

// listBuffer is the size of the buffer for entries, in bytes, as in glibc.
const listBuffer = 32 << 10

// walker walks a tree as find and rm do: a directory is opened relative to its parent and listed to its end, then its
// subdirectories. It stats an entry only if the listing does not report its type. Its memory is kept from one walk to
// the next.
type walker struct {
	counts
	unknown int64 // entries whose type the file system did not report
	levels  []*level
	status  unix.Stat_t
}

// level is the memory of one depth.
type level struct {
	buf   [listBuffer]byte
	dirs  []byte // names of the directories found, each ended by a zero byte
	files []byte // names of all other entries, for removal
}

func newWalker() *walker {
	w := &walker{}
	for len(w.levels) < 8 {
		w.deepen()
	}
	return w
}

func (w *walker) deepen() {
	l := &level{dirs: make([]byte, 0, listBuffer), files: make([]byte, 0, listBuffer)}
	clear(l.buf[:]) // touch every page now
	w.levels = append(w.levels, l)
}

// walk counts n and everything below.
func (w *walker) walk(r *root, n name) error { return w.visit(r.at, n, 0, false) }

// remove removes n and everything below, as rm -rf does.
func (w *walker) remove(r *root, n name) error {
	err := w.visit(r.at, n, 0, true)
	if err == nil {
		err = unlinkat(r.at, n, unix.AT_REMOVEDIR)
	}
	return err
}

func (w *walker) visit(parent uintptr, n *byte, depth int, remove bool) error {
	if depth == len(w.levels) {
		w.deepen()
	}
	dir := root{at: parent}
	h, err := dir.open(n, directory|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	w.dirs++
	err = w.inside(h.fd, depth, remove)
	if e := h.close(); err == nil {
		err = e
	}
	return err
}

func (w *walker) inside(fd uintptr, depth int, remove bool) error {
	l := w.levels[depth]
	l.dirs, l.files = l.dirs[:0], l.files[:0]
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_GETDENTS64, fd, uintptr(unsafe.Pointer(&l.buf)), listBuffer)
		if e != 0 {
			return e
		}
		if n == 0 {
			break
		}
		if err := w.take(l, fd, l.buf[:n], remove); err != nil {
			return err
		}
	}
	for rest := l.files; len(rest) > 0; {
		n := firstName(&rest)
		if err := unlinkat(fd, n, 0); err != nil {
			return err
		}
	}
	for rest := l.dirs; len(rest) > 0; {
		n := firstName(&rest)
		if err := w.visit(fd, n, depth+1, remove); err != nil {
			return err
		}
		if remove {
			if err := unlinkat(fd, n, unix.AT_REMOVEDIR); err != nil {
				return err
			}
		}
	}
	return nil
}

// take sorts the entries of one listing.
func (w *walker) take(l *level, fd uintptr, p []byte, remove bool) error {
	for len(p) > 0 {
		n, kind, rest, err := nextDirent(p)
		if err != nil {
			return err
		}
		p = rest
		if n[0] == '.' && (n[1] == 0 || n[1] == '.' && n[2] == 0) {
			continue
		}
		if kind == entryUnknown {
			w.unknown++
			if kind, err = w.ask(fd, n); err != nil {
				return err
			}
		}
		if kind == entryDirectory {
			l.dirs = append(l.dirs, n...)
			continue
		}
		w.files++
		if remove {
			l.files = append(l.files, n...)
		}
	}
	return nil
}

func (w *walker) ask(fd uintptr, n []byte) (kind int, err error) {
	if _, _, e := syscall.RawSyscall6(sysFstatat, fd, uintptr(unsafe.Pointer(unsafe.SliceData(n))),
		uintptr(unsafe.Pointer(&w.status)), unix.AT_SYMLINK_NOFOLLOW, 0, 0); e != 0 {
		return 0, e
	}
	if w.status.Mode&unix.S_IFMT == unix.S_IFDIR {
		return entryDirectory, nil
	}
	return entryOther, nil
}

// firstName takes the first of several names, each ended by a zero byte.
func firstName(names *[]byte) *byte {
	first := unsafe.SliceData(*names)
	*names = (*names)[bytes.IndexByte(*names, 0)+1:]
	return first
}

func unlinkat(fd uintptr, n *byte, flags uintptr) error {
	_, _, e := syscall.RawSyscall(unix.SYS_UNLINKAT, fd, uintptr(unsafe.Pointer(n)), flags)
	return orNil(e)
}

// note records whether the file system reports types: if not, a walk needs a stat for each entry.
func (w *walker) note(b *workload.Bench) {
	b.Note("stats_for_type", strconv.FormatInt(w.unknown, 10))
	b.Note("d_type", map[bool]string{true: "told", false: "not told"}[w.unknown == 0])
}
