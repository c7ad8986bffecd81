package microvm

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deb makes a .deb package of tar entries, uncompressed, which dpkg also accepts.
func deb(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, h := range entries {
		body := []byte(nil)
		if h.Typeflag == tar.TypeReg {
			body = []byte("content of " + h.Name)
			h.Size = int64(len(body))
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		body []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.xz", []byte("odd")}, {"data.tar", data.Bytes()}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, 0, 0, 0, "100644", len(m.body))
		out.Write(m.body)
		if len(m.body)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

func all(name string) string { return name }

func TestPackageIsUnpacked(t *testing.T) {
	b := deb(t,
		tar.Header{Name: "./boot/", Typeflag: tar.TypeDir},
		tar.Header{Name: "./boot/vmlinuz-6.1", Typeflag: tar.TypeReg},
		tar.Header{Name: "./boot/System.map-6.1", Typeflag: tar.TypeReg},
		tar.Header{Name: "./usr/lib/modules/6.1/kernel/a.ko", Typeflag: tar.TypeReg},
		tar.Header{Name: "./lib/modules/6.1/modules.builtin", Typeflag: tar.TypeReg},
		tar.Header{Name: "./usr/share/doc/x", Typeflag: tar.TypeReg},
		tar.Header{Name: "./boot/vmlinuz-link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
	)
	r, err := openDeb(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	names, err := extract(r, dir, kept)
	if got := strings.Join(names, " "); err != nil ||
		got != "vmlinuz-6.1 modules/6.1/kernel/a.ko modules/6.1/modules.builtin" {
		t.Fatalf("kept %q, %v", got, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "vmlinuz-6.1")); err != nil ||
		string(b) != "content of ./boot/vmlinuz-6.1" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "vmlinuz-link")); err == nil {
		t.Error("a link was made")
	}
}

func TestHostilePackagesAreRefused(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"up":       {{Name: "../evil", Typeflag: tar.TypeReg}},
		"up deep":  {{Name: "./boot/../../evil", Typeflag: tar.TypeReg}},
		"absolute": {{Name: "/evil", Typeflag: tar.TypeReg}},
		"twice":    {{Name: "a", Typeflag: tar.TypeReg}, {Name: "a", Typeflag: tar.TypeReg}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := openDeb(bytes.NewReader(deb(t, entries...)))
			if err != nil {
				t.Fatal(err)
			}
			outer := t.TempDir()
			dir := filepath.Join(outer, "in", "side")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := extract(r, dir, all); err == nil {
				t.Error("it was unpacked")
			}
			for _, f := range []string{filepath.Join(outer, "evil"), filepath.Join(outer, "in", "evil"), "/evil"} {
				if _, err := os.Lstat(f); err == nil {
					t.Errorf("%s was written", f)
				}
			}
		})
	}
	t.Run("through a link", func(t *testing.T) {
		outer := t.TempDir()
		b := deb(t, tar.Header{Name: "d", Typeflag: tar.TypeSymlink, Linkname: outer},
			tar.Header{Name: "d/evil", Typeflag: tar.TypeReg})
		r, err := openDeb(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := extract(r, t.TempDir(), all); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(outer, "evil")); err == nil {
			t.Error("a file was written through a link")
		}
	})
	for name, b := range map[string][]byte{"nothing": nil, "not an ar": []byte("PK\x03\x04 something else"),
		"cut": deb(t, tar.Header{Name: "a", Typeflag: tar.TypeReg})[:150]} {
		r, err := openDeb(bytes.NewReader(b))
		if err == nil {
			_, err = extract(r, t.TempDir(), all)
		}
		if err == nil {
			t.Errorf("%s was read as a package", name)
		}
	}
}

func FuzzDeb(f *testing.F) {
	f.Add(deb(f, tar.Header{Name: "./boot/vmlinuz-6.1", Typeflag: tar.TypeReg},
		tar.Header{Name: "../x", Typeflag: tar.TypeReg}))
	f.Add([]byte("!<arch>\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := openDeb(bytes.NewReader(b))
		if err != nil {
			return
		}
		// Only names: the fuzzer tests paths and sizes, and sparse entries expand to nothing.
		for range 1000 {
			h, err := r.Next()
			if err != nil {
				return
			}
			if to := kept(strings.TrimPrefix(h.Name, "./")); to != "" && !strings.HasPrefix(to, "vmlinu") &&
				!strings.HasPrefix(to, "config") && !strings.HasPrefix(to, "modules/") {
				t.Errorf("%q would be kept as %q", h.Name, to)
			}
			if _, err := io.CopyN(io.Discard, r, 1<<20); err != nil && err != io.EOF {
				return
			}
		}
	})
}

func FuzzPackageFields(f *testing.F) {
	f.Add([]byte("Package: linux-image-cloud-amd64\nVersion: 6.1.192-2\n" +
		"Depends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2), b | c\nDescription: x\n more\n .\n\n" +
		"Package: other\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fields := packageFields(b)
		for _, d := range dependsOn(fields["depends"], "linux-image-") {
			if strings.ContainsAny(d, " ,|") {
				t.Errorf("%q is not a package name", d)
			}
		}
	})
}

func TestPackageFields(t *testing.T) {
	f := packageFields([]byte("Package: linux-image-cloud-amd64\nVersion: 6.1.192-2\n" +
		"Depends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2), kmod | module-init-tools\nDescription: x\n more\n" +
		"\nPackage: other\n"))
	if f["package"] != "linux-image-cloud-amd64" || f["version"] != "6.1.192-2" || f["description"] != "x\nmore" {
		t.Errorf("%v", f)
	}
	if d := dependsOn(f["depends"], "linux-image-"); len(d) != 1 || d[0] != "linux-image-6.1.0-56-cloud-amd64" {
		t.Errorf("%v", d)
	}
}
