package microvm

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// arMember finds the first member of an ar archive whose name begins with prefix, and returns its name and contents.
// See deb(5) and ar(5).
func arMember(r io.Reader, prefix string) (string, io.Reader, error) {
	const magic, headerSize = "!<arch>\n", 60
	var m [len(magic)]byte
	if _, err := io.ReadFull(r, m[:]); err != nil || string(m[:]) != magic {
		return "", nil, errors.New("it is not an ar archive, so not a .deb package")
	}
	for n := 0; n < 100; n++ {
		var h [headerSize]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return "", nil, fmt.Errorf("no member %s*: %w", prefix, err)
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
		if err != nil || size < 0 || string(h[58:]) != "`\n" {
			return "", nil, fmt.Errorf("header of member %d is damaged", n+1)
		}
		name := strings.TrimRight(strings.TrimSpace(string(h[:16])), "/")
		if strings.HasPrefix(name, prefix) {
			return name, io.LimitReader(r, size), nil
		}
		if _, err := io.CopyN(io.Discard, r, size+size%2); err != nil {
			return "", nil, fmt.Errorf("skip member %s: %w", name, err)
		}
	}
	return "", nil, fmt.Errorf("none of the first 100 members is called %s*", prefix)
}

// openDeb returns the files of a .deb package as a tar stream.
func openDeb(r io.Reader) (*tar.Reader, error) {
	name, data, err := arMember(bufio.NewReaderSize(r, 1<<20), "data.tar")
	if err != nil {
		return nil, err
	}
	plain, err := unpacker(name, data)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", name, err)
	}
	return tar.NewReader(io.LimitReader(plain, maxArchive)), nil
}

// extract writes regular files below dir and returns their names. keep maps a clean relative path with slashes to the
// file's name there, or to "" to skip the file. Links and devices are always skipped. A name that leads out of the
// folder is an error even if it is skipped, because no valid package has one.
func extract(t *tar.Reader, dir string, keep func(name string) string) ([]string, error) {
	var names []string
	var total int64
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return names, fmt.Errorf("read package: %w", err)
		}
		clean := path.Clean(h.Name)
		if !filepath.IsLocal(filepath.FromSlash(clean)) {
			return names, fmt.Errorf("the package contains %q, which is outside its folder", h.Name)
		}
		to := keep(clean)
		if to == "" || h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(to)) {
			return names, fmt.Errorf("the package contains %q, which would be written outside its folder", h.Name)
		}
		if total += h.Size; total > maxArchive {
			return names, fmt.Errorf("the package contains more than %d MiB", maxArchive>>20)
		}
		if err := writeNew(filepath.Join(dir, filepath.FromSlash(to)), t); err != nil {
			return names, err
		}
		names = append(names, to)
	}
}

// writeNew writes a file that must not exist yet. So a package with the same name twice is rejected, and no existing
// link is followed.
func writeNew(name string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// packageFields reads the first paragraph of `apt-cache show`: fields by lower-case name, with continuation lines
// joined.
func packageFields(text []byte) map[string]string {
	fields := map[string]string{}
	last := ""
	for _, line := range bytes.Split(text, []byte("\n")) {
		s := string(line)
		switch {
		case strings.TrimSpace(s) == "":
			if len(fields) > 0 {
				return fields
			}
		case s[0] == ' ' || s[0] == '\t':
			if last != "" {
				fields[last] += "\n" + strings.TrimSpace(s)
			}
		default:
			name, value, ok := strings.Cut(s, ":")
			if !ok {
				continue
			}
			last = strings.ToLower(name)
			fields[last] = strings.TrimSpace(value)
		}
	}
	return fields
}

// dependsOn returns the names in a Depends field that begin with prefix, without versions and alternatives.
func dependsOn(field, prefix string) []string {
	var names []string
	for _, d := range strings.Split(field, ",") {
		first, _, _ := strings.Cut(d, "|")
		if name, _, _ := strings.Cut(strings.TrimSpace(first), " "); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names
}
