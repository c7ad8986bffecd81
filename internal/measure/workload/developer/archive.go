package developer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tare/internal/measure/fileio"
)

// poolSize is the number of incompressible bytes from which the contents of all files are cut. Each file begins at its
// own offset, so that hardly any page repeats.
const poolSize = 16 << 20

// archiveRecord is the size of an unpacking tar's writes: its record of 20 blocks of 512 bytes.
const archiveRecord = 10 << 10

// archiveTime is the time of modification that all files in the archive have: 2001-02-03 04:05:06 UTC.
const archiveTime = 981173106

// archive is a source tree in memory with names ready for system calls.
type archive struct {
	tree  *tree
	pool  []byte
	dirs  []name
	files []name
	roots []name
}

// newArchive generates an archive of so many modules, to be unpacked into s, and makes the directories above them.
func newArchive(s *site, modules int, seed uint64) (*archive, error) {
	a := &archive{tree: newTree(modules, seed), pool: make([]byte, poolSize)}
	fileio.FillRandom(a.pool, seed)
	for _, d := range a.tree.above {
		if err := s.root.mkdir(s.root.name(d)); err != nil {
			return nil, fileio.Explain("create", filepath.Join(s.path, d), err)
		}
	}
	a.dirs, a.roots = s.names(a.tree.dirs), s.names(a.tree.roots)
	a.files = make([]name, len(a.tree.files))
	for i := range a.files {
		a.files[i] = s.root.name(a.tree.files[i].path)
	}
	return a, nil
}

// unpack writes module m as GNU tar does (strace tar xf ARCHIVE), except that it does not change owners, which only
// root's tar does, and that a directory has its final permissions from the start.
func (a *archive) unpack(r *root, m int) error {
	dirs := a.dirs[m*moduleDirs : (m+1)*moduleDirs]
	for _, d := range dirs {
		if err := r.mkdir(d); err != nil {
			return fmt.Errorf("create a directory of module %d: %w", m, err)
		}
	}
	for i := m * moduleFiles; i < (m+1)*moduleFiles; i++ {
		if err := a.extract(r, i); err != nil {
			return fmt.Errorf("unpack file %d: %w", i, err)
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := r.setTimes(dirs[i], archiveTime); err != nil {
			return fmt.Errorf("set the times of a directory of module %d: %w", m, err)
		}
	}
	return nil
}

func (a *archive) extract(r *root, i int) error {
	h, err := r.open(a.files[i], onlyNew)
	if err != nil {
		return err
	}
	for p := a.content(i); len(p) > 0 && err == nil; {
		n := min(len(p), archiveRecord)
		err, p = h.write(p[:n]), p[n:]
	}
	if err == nil {
		err = h.setTimes(archiveTime)
	}
	if err == nil {
		err = h.chmod(0o644)
	}
	if e := h.close(); err == nil {
		err = e
	}
	return err
}

func (a *archive) content(i int) []byte {
	f := &a.tree.files[i]
	return a.pool[f.from : f.from+f.size]
}

// unpackAll writes the first n modules, untimed.
func (a *archive) unpackAll(ctx context.Context, s *site, n int) error {
	for m := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.unpack(s.root, m); err != nil {
			return fileio.Explain("unpack into", s.path, err)
		}
	}
	return nil
}

// verify compares module m on disk, through the standard library, with the archive: names, sizes, times, every byte. It
// returns a digest of what was found.
func (a *archive) verify(s *site, m int) (digest string, err error) {
	h := sha256.New()
	for i := m * moduleFiles; i < (m+1)*moduleFiles; i++ {
		f := &a.tree.files[i]
		at := filepath.Join(s.path, filepath.FromSlash(f.path))
		st, err := os.Stat(at)
		if err != nil {
			return "", err
		}
		if st.ModTime().Unix() != archiveTime {
			return "", fmt.Errorf("%s has the modification time %v, not the one in the archive", at, st.ModTime().UTC())
		}
		got, err := os.ReadFile(at)
		if err != nil {
			return "", err
		}
		if !bytes.Equal(got, a.content(i)) {
			return "", fmt.Errorf("the content of %s differs from what was written", at)
		}
		fmt.Fprintf(h, "%s %d\n", f.path, len(got))
		h.Write(got)
	}
	found, err := seen(filepath.Join(s.path, filepath.FromSlash(a.tree.roots[m])))
	if err != nil {
		return "", err
	}
	if found != moduleCounts {
		return "", fmt.Errorf("%s contains %d directories and %d files, but %d and %d were unpacked", a.tree.roots[m],
			found.dirs, found.files, moduleDirs, moduleFiles)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// counts has the directories and files of a walk, including the directory that it begins with.
type counts struct{ dirs, files int64 }

var moduleCounts = counts{moduleDirs, moduleFiles}

// seen counts the entries below a directory, with the standard library.
func seen(dir string) (c counts, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			c.dirs++
		default:
			c.files++
		}
		return nil
	})
	return c, err
}

// pathDigest is evidence of equal paths.
func pathDigest(paths []string) string { return fileio.Digest([]byte(strings.Join(paths, "\x00"))) }
