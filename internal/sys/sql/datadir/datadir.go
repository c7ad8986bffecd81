// Package datadir copies the data directory of a stopped database server, or any other tree of files, through a tar
// archive with a SHA-256 of each file. Equal files give equal archives.
//
// It is opinionated: the directory of a running server is refused, because a copy of it would be inconsistent. Owners
// and times are not copied. In a data directory, symbolic links, such as those of tablespaces on other disks, are
// refused.
package datadir

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Family is the kind of server that uses a data directory.
type Family string

// The families. MariaDB belongs to MySQL.
const (
	MySQL      Family = "mysql"
	PostgreSQL Family = "postgresql"
)

// sums is the name of the archive's last entry. It has a line for each file, in the format of sha256sum.
const (
	sums    = ".tare-sha256"
	maxSums = 256 << 20 // its maximum size in bytes
)

// FamilyOf returns the family of a data directory, and an error for other directories.
func FamilyOf(dir string) (Family, error) {
	var err error
	for _, f := range []struct {
		name string
		is   Family
	}{{"PG_VERSION", PostgreSQL}, {"ibdata1", MySQL}} {
		if _, err = os.Stat(filepath.Join(dir, f.name)); err == nil {
			return f.is, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s is not the data directory of a database server: it has neither PG_VERSION nor ibdata1",
		dir)
}

// Idle returns an error if a server uses a data directory, or was killed there.
func Idle(dir string) error {
	pids, err := filepath.Glob(filepath.Join(globbed(dir), "*.pid"))
	if err != nil {
		return err
	}
	if len(pids) > 0 { // postmaster.pid of PostgreSQL; MySQL names its file after the host
		return fmt.Errorf("a server uses %s, or was killed there: %s exists; stop the server first", dir,
			filepath.Base(pids[0]))
	}
	for _, name := range []string{"aria_log_control", "ibdata1"} {
		pid, locked, err := lockedBy(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if locked {
			by := "a process of another PID namespace"
			if pid > 0 {
				by = fmt.Sprintf("process %d", pid)
			}
			return fmt.Errorf("a server uses %s: %s has locked %s; stop the server first", dir, by, name)
		}
	}
	return nil
}

// globbed returns a pattern that matches a path.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// Pack writes the archive of a data directory.
func Pack(dst io.Writer, dir string) error {
	if err := Idle(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	p := packer{root: root, tar: tar.NewWriter(dst)}
	return errors.Join(p.all(dir), Idle(dir)) // a server that was started meanwhile changes files
}

type packer struct {
	root *os.Root
	tar  *tar.Writer
	sums bytes.Buffer
	tree bool // symbolic links and what may be executed are copied as such
}

// all packs the whole directory, which is called dir.
func (p *packer) all(dir string) error {
	if err := fs.WalkDir(p.root.FS(), ".", p.add); err != nil {
		return fmt.Errorf("pack %s: %w", dir, err)
	}
	return errors.Join(p.file(sums, int64(p.sums.Len()), 0o600, &p.sums), p.tar.Close())
}

// add packs an entry of the directory. WalkDir sorts the entries.
func (p *packer) add(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if skip, err := p.skipped(d); skip {
		return err
	}
	switch {
	case name == ".":
		return nil
	case d.IsDir():
		return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o700,
			Format: tar.FormatPAX})
	case d.Type()&fs.ModeSocket != 0:
		return nil // left by a killed server
	case p.tree && d.Type()&fs.ModeSymlink != 0:
		return p.link(name)
	case !d.Type().IsRegular():
		what := "; tablespaces outside the data directory are not supported"
		if p.tree {
			what = ""
		}
		return fmt.Errorf("%s is neither a file nor a directory%s", name, what)
	case strings.Contains(name, "\n"):
		return fmt.Errorf("the name %q contains a line feed", name)
	}
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	digest, mode := sha256.New(), int64(0o600)
	if p.tree && (info.Mode()&0o111 != 0 || runtime.GOOS == "windows") { // which has no such bits
		mode = 0o700
	}
	if err := p.file(name, info.Size(), mode, io.TeeReader(f, digest)); err != nil {
		return err
	}
	fmt.Fprintf(&p.sums, "%x  %s\n", digest.Sum(nil), name)
	return nil
}

func (p *packer) file(name string, size, mode int64, content io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: mode, Format: tar.FormatPAX}
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, content)
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && n != size {
		return fmt.Errorf("%s has changed during the copy: does a program use it?", name)
	}
	return err
}

// Is reports whether a file is a tar archive, such as one of Pack, and not SQL.
func Is(src io.ReaderAt) bool {
	var b [5]byte
	_, err := src.ReadAt(b[:], 257)
	return err == nil && string(b[:]) == "ustar"
}

// UnpackFile is Unpack for the archive in a file. With links, which PackTree packs, they lead where they led, also to
// what lies outside, but nothing is created there.
func UnpackFile(name, dir string, links bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unpackAll(f, dir, links)
}

// Unpack creates a data directory from an archive of Pack and checks all files. The directory must not exist; only its
// owner has access. After an error the caller has to remove it.
func Unpack(src io.Reader, dir string) error { return unpackAll(src, dir, false) }

func unpackAll(src io.Reader, dir string, links bool) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	in, got := tar.NewReader(src), new(bytes.Buffer)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return errors.New("unpack the archive: it is truncated")
		}
		if err == nil && h.Name == sums {
			return check(in, got.Bytes())
		}
		if err == nil && links && h.Typeflag == tar.TypeSymlink {
			err = root.Symlink(h.Linkname, filepath.FromSlash(h.Name))
		} else if err == nil {
			err = unpack(root, h, in, got)
		}
		if err != nil {
			return fmt.Errorf("unpack the archive: %w", err)
		}
	}
}

// unpack creates one entry and adds its checksum to got.
func unpack(root *os.Root, h *tar.Header, in io.Reader, got *bytes.Buffer) error {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse") { // a small archive would become large files
			return fmt.Errorf("%q is a sparse file", h.Name)
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.Mkdir(filepath.FromSlash(strings.TrimSuffix(h.Name, "/")), 0o700)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%q is neither a file nor a directory", h.Name)
	}
	f, err := root.OpenFile(filepath.FromSlash(h.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL,
		fs.FileMode(0o600|h.Mode&0o100))
	if err != nil {
		return err
	}
	digest := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, digest), in)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(got, "%s  %s\n", hex.EncodeToString(digest.Sum(nil)), h.Name)
	return nil
}

// check compares the checksums of the unpacked files with those in the archive.
func check(in io.Reader, got []byte) error {
	want, err := io.ReadAll(io.LimitReader(in, maxSums))
	if err != nil {
		return fmt.Errorf("unpack the archive: %w", err)
	}
	if bytes.Equal(want, got) {
		return nil
	}
	for wanted := range bytes.Lines(want) {
		have, rest, _ := bytes.Cut(got, []byte("\n"))
		if wanted = bytes.TrimSuffix(wanted, []byte("\n")); !bytes.Equal(wanted, have) {
			return fmt.Errorf("unpack the archive: it lists %q, the unpacked file is %q", wanted, have)
		}
		got = rest
	}
	return errors.New("unpack the archive: it contains files that it does not list")
}
