package datadir

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// made creates a directory with some files; names that end in a slash are directories.
func made(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a [data] directory")
	for name, text := range files {
		path := filepath.Join(dir, name)
		folder := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			folder = path
		}
		err := os.MkdirAll(folder, 0o700)
		if folder != path {
			err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func packed(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Pack(&b, dir); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var some = map[string]string{"PG_VERSION": "15\n", "base/1/2": strings.Repeat("x", 100_000), "base/1/a'b c": "",
	"global/": "", "pg_wal/archive/": ""}

func TestPackAndUnpack(t *testing.T) {
	dir := made(t, some)
	archive := packed(t, dir)
	if !bytes.Equal(archive, packed(t, made(t, some))) {
		t.Error("the same files make another archive")
	}
	if !Is(bytes.NewReader(archive)) || Is(strings.NewReader("CREATE TABLE a")) {
		t.Error("Is does not distinguish an archive from SQL")
	}
	to := filepath.Join(t.TempDir(), "data")
	if err := Unpack(bytes.NewReader(archive), to); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(archive, packed(t, to)) {
		t.Error("the unpacked directory makes another archive")
	}
	for name, want := range some {
		st, err := os.Stat(filepath.Join(to, name))
		if err != nil || st.IsDir() != strings.HasSuffix(name, "/") {
			t.Errorf("%s: %v", name, err)
		} else if text, err := os.ReadFile(filepath.Join(to, name)); !st.IsDir() && string(text) != want {
			t.Errorf("%s has %d bytes (%v)", name, len(text), err)
		}
	}
	if err := Unpack(bytes.NewReader(archive), to); !errors.Is(err, os.ErrExist) {
		t.Errorf("a directory that exists: %v", err)
	}
}

// A changed file and a truncated archive are detected.
func TestDamage(t *testing.T) {
	archive := packed(t, made(t, map[string]string{"PG_VERSION": "15\n", "base/1/2": "one two three"}))
	unpack := func(b []byte) error {
		return Unpack(bytes.NewReader(b), filepath.Join(t.TempDir(), "data"))
	}
	at := bytes.Index(archive, []byte("one two"))
	archive[at] ^= 1
	if err := unpack(archive); err == nil || !strings.Contains(err.Error(), "base/1/2") {
		t.Errorf("a changed file: %v", err)
	}
	archive[at] ^= 1
	for n := 0; n < at+512; n += 256 {
		if err := unpack(archive[:n]); err == nil {
			t.Errorf("%d bytes of the archive are accepted as a whole", n)
		}
	}
}

// Unexpected entries are refused, and nothing is created outside the directory.
func TestUnpackIsNotFooled(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"outside": {Typeflag: tar.TypeReg, Name: "../x"}, "absolute": {Typeflag: tar.TypeReg, Name: "/x"},
		"link": {Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/etc"}, "device": {Typeflag: tar.TypeChar, Name: "x"},
		"folder": {Typeflag: tar.TypeDir, Name: "../x/"}, "no sums": {Typeflag: tar.TypeReg, Name: "x"},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := errors.Join(w.WriteHeader(&h), w.Close()); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := Unpack(&b, filepath.Join(dir, "data")); err == nil {
			t.Errorf("%s: it is unpacked", name)
		}
		if _, err := os.Lstat(filepath.Join(dir, "x")); err == nil {
			t.Errorf("%s: it is outside", name)
		}
	}
}

// A sparse file could be much larger than its archive.
func TestUnpackRefusesSparseFiles(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	content := make([]byte, 512+1) // a block that says where the data is: one byte after 999,999 zeros
	copy(content, "1\n999999\n1\n")
	// The writer refuses the real names of these records.
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: int64(len(content)),
		PAXRecords: map[string]string{"GNU_sparse.major": "1", "GNU_sparse.minor": "0", "GNU_sparse.name": "x",
			"GNU_sparse.realsize": "1000000"}})
	if err == nil {
		_, err = w.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	archive := bytes.ReplaceAll(b.Bytes(), []byte("GNU_sparse"), []byte("GNU.sparse"))
	dir := filepath.Join(t.TempDir(), "data")
	if err := Unpack(bytes.NewReader(archive), dir); err == nil || !strings.Contains(err.Error(), "is a sparse file") {
		t.Errorf("got %v", err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, what, want string }{
		{"postmaster.pid", "", "postmaster.pid exists"}, {"host.pid", "", "host.pid exists"},
		{"pg_tblspc/16384", "link", "16384 is neither a file nor a directory"},
	} {
		if c.what == "link" && runtime.GOOS == "windows" {
			continue
		}
		dir := made(t, map[string]string{"PG_VERSION": "15\n", "pg_tblspc/": ""})
		path := filepath.Join(dir, c.name)
		err := os.WriteFile(path, nil, 0o600)
		if c.what == "link" {
			err = errors.Join(os.Remove(path), os.Symlink(t.TempDir(), path))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := Pack(io.Discard, dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := FamilyOf(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not the data directory") {
		t.Errorf("an empty directory: %v", err)
	}
}

// FuzzUnpack checks that nothing is created outside the new directory.
func FuzzUnpack(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Typeflag: tar.TypeDir, Name: "a/"}, {Typeflag: tar.TypeReg, Name: "a/b"},
		{Typeflag: tar.TypeReg, Name: sums}} {
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, archive []byte) {
		dir := t.TempDir()
		_ = Unpack(bytes.NewReader(archive), filepath.Join(dir, "data"))
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("%v: %v", names, err)
		}
	})
}
