package datadir

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestTree: links, what may be executed, and files of git's, which stay behind.
func TestTree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has other links, and no bits for what may be executed")
	}
	dir := made(t, map[string]string{"a/run": "#!/bin/sh\n", "a/text": "x", ".git": "gitdir: y", "sub/.git/config": "z",
		"sub/b": "b"})
	err := errors.Join(os.Chmod(filepath.Join(dir, "a/run"), 0o755), os.Symlink("run", filepath.Join(dir, "a/link")),
		os.Symlink("/nowhere", filepath.Join(dir, "dangling")))
	if err != nil {
		t.Fatal(err)
	}
	pack := func(dir string) []byte {
		t.Helper()
		var b bytes.Buffer
		if err := PackTree(&b, dir); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	archive, to := pack(dir), filepath.Join(t.TempDir(), "tree")
	if err := unpackAll(bytes.NewReader(archive), to, true); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(archive, pack(to)) {
		t.Error("the unpacked tree makes another archive")
	}
	for name, mode := range map[string]os.FileMode{"a/run": 0o700, "a/text": 0o600} {
		if st, err := os.Stat(filepath.Join(to, name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	for name, want := range map[string]string{"a/link": "run", "dangling": "/nowhere"} {
		if at, err := os.Readlink(filepath.Join(to, name)); err != nil || at != want {
			t.Errorf("%s leads to %q, %v", name, at, err)
		}
	}
	for _, name := range []string{".git", "sub/.git"} {
		if _, err := os.Lstat(filepath.Join(to, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Unpack(bytes.NewReader(archive), filepath.Join(t.TempDir(), "data")); err == nil {
		t.Error("a data directory may have links")
	}
}

// Nothing is written through a link to what lies outside, and a part of an archive is not taken for the whole.
func TestTreeStaysInside(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a right there")
	}
	outside := t.TempDir()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Typeflag: tar.TypeSymlink, Name: "a", Linkname: outside},
		{Typeflag: tar.TypeReg, Name: "a/y"}, {Typeflag: tar.TypeReg, Name: sums}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unpackAll(&b, filepath.Join(t.TempDir(), "tree"), true); err == nil {
		t.Error("a file behind a link is unpacked")
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	b.Reset()
	if err := PackTree(&b, made(t, map[string]string{"x": "one"})); err != nil {
		t.Fatal(err)
	}
	if err := unpackAll(bytes.NewReader(b.Bytes()[:600]), filepath.Join(t.TempDir(), "tree"), true); err == nil {
		t.Error("a part of an archive is taken for the whole")
	}
}
