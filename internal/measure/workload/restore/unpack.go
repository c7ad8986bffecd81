package restore

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxEntries bounds the files of one archive.
const maxEntries = 10_000_000

// unpack writes an archive's directories, files and symbolic links below a root and returns the bytes of the files.
// Entries and links that lead outside are refused, and so is every other kind of entry. os.Root checks again when a
// name is used: an entry cannot go through a link that came before it.
func unpack(r io.Reader, root *os.Root, buf []byte) (bytes int64, err error) {
	t := tar.NewReader(r)
	var links []string
	for n := 0; ; n++ {
		h, err := t.Next()
		if err == io.EOF {
			if err := checkLinks(root, links); err != nil {
				return bytes, err
			}
			// The rest after the archive's end is read, too: the checksum of the compressed stream comes last.
			_, err := io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{r}, buf)
			return bytes, err
		}
		if err != nil {
			return bytes, fmt.Errorf("read archive: %w", err)
		}
		if n == maxEntries {
			return bytes, fmt.Errorf("read archive: it has more than %d entries", maxEntries)
		}
		name, err := inside(h.Name)
		if err != nil {
			return bytes, err
		}
		if err := extract(t, h, root, name, buf); err != nil {
			return bytes, fmt.Errorf("unpack %s: %w", h.Name, err)
		}
		switch h.Typeflag {
		case tar.TypeReg:
			bytes += h.Size
		case tar.TypeSymlink:
			links = append(links, name)
		}
	}
}

// checkLinks follows every link once all exist: a link whose target looks inside can lead outside through another link.
// Such links are removed.
func checkLinks(root *os.Root, links []string) error {
	var wrong error
	for _, name := range links {
		if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			wrong = errors.Join(wrong, fmt.Errorf("refuse archive: follow link %.200q: %w", name, err),
				root.Remove(name))
		}
	}
	return wrong
}

// onlyReader and onlyWriter hide methods with which io.CopyBuffer would ignore the buffer and allocate one.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// inside checks a name: relative, without "..", and with the same meaning on every system.
func inside(name string) (string, error) {
	clean := path.Clean(name)
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "", errors.New("refuse archive: an entry has no name")
	case path.IsAbs(name) || strings.ContainsRune(name, '\\'):
		return "", fmt.Errorf("refuse archive: entry %.200q has an absolute name", name)
	case clean == ".." || strings.HasPrefix(clean, "../") || !filepath.IsLocal(filepath.FromSlash(clean)):
		return "", fmt.Errorf("refuse archive: entry %.200q is outside the tree", name)
	}
	return clean, nil
}

func extract(t *tar.Reader, h *tar.Header, root *os.Root, name string, buf []byte) error {
	err := extractOne(t, h, root, name, buf)
	if errors.Is(err, fs.ErrNotExist) { // archives need not name the directories
		if e := root.MkdirAll(path.Dir(name), 0o755); e != nil {
			return e
		}
		err = extractOne(t, h, root, name, buf)
	}
	return err
}

func extractOne(t *tar.Reader, h *tar.Header, root *os.Root, name string, buf []byte) error {
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) || strings.ContainsRune(h.Linkname, '\\') {
			return fmt.Errorf("refuse archive: the target %.200q of a link is outside the tree", h.Linkname)
		}
		if _, err := inside(path.Join(path.Dir(name), h.Linkname)); err != nil {
			return fmt.Errorf("refuse archive: the target %.200q of a link is outside the tree", h.Linkname)
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode)&0o755|0o600)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(onlyWriter{f}, onlyReader{t}, buf)
		if c := f.Close(); err == nil {
			err = c
		}
		if err == nil {
			err = root.Chtimes(name, h.ModTime, h.ModTime)
		}
		return err
	}
	return fmt.Errorf("refuse archive: an entry of type %q is not a file, directory or symbolic link", h.Typeflag)
}

// sumTree computes the checksum of an unpacked tree in dir, with the standard library.
func sumTree(dir, role string) (tree, error) {
	s := newTreeSum()
	err := filepath.WalkDir(filepath.Join(dir, role), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		var content []byte
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			content = []byte("-> " + target)
		} else if content, err = os.ReadFile(at); err != nil {
			return err
		}
		s.add(filepath.ToSlash(rel), content)
		return nil
	})
	return s.tree(), err
}
