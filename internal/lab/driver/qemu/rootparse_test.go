package qemu

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

func TestRootSettings(t *testing.T) {
	for _, v := range []string{"none", "debian", "/a/root.img", "./root.img", "a/b"} {
		if err := checkRoot(v); err != nil {
			t.Errorf("%q: %v", v, err)
		}
	}
	for _, v := range []string{"", "ubuntu", "root.img"} {
		if checkRoot(v) == nil {
			t.Errorf("%q was taken for a root image", v)
		}
	}
	if got, err := parsePackages("gcc,postgresql,gcc,g++"); err != nil ||
		!slices.Equal(got, []string{"g++", "gcc", "postgresql"}) {
		t.Errorf("%v %v", got, err)
	}
	for _, v := range []string{",", "gcc,", "-o", "a b", "gcc;id", "GCC", "a", strings.Repeat("a", 101)} {
		if _, err := parsePackages(v); err == nil {
			t.Errorf("%q was taken for packages", v)
		}
	}
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"packages", "gcc"}, "root=debian"},
		{[]string{"root", "/x", "packages", "gcc"}, "root=debian"},
		{[]string{"root", "fedora"}, "a path needs a slash"},
		{[]string{"accel", "kvm", "tcg", "single"}, "does not emulate"},
	} {
		s := spec(c.settings...)
		if _, err := parse(&s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v; want %q", c.settings, err, c.want)
		}
	}
	s := spec("accel", "tcg", "tcg", "single")
	if c, err := parse(&s); err != nil || c.accelOptions("tcg") != "tcg,thread=single" ||
		c.accelOptions("kvm") != "kvm" {
		t.Errorf("%+v %v", c, err)
	}
}

// TestRootThatIsNotHereIsSaid: a missing root image is reported before anything is opened, with the command that gets
// it.
func TestRootThatIsNotHereIsSaid(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	for _, c := range []struct {
		settings []string
		want     string // "": it exists
	}{
		{nil, ""},
		{[]string{"root", "/nowhere/at/all"}, "no such file"},
		{[]string{"root", os.Args[0]}, ""},
		{[]string{"root", "debian", "packages", "gcc,make"}, "tare guest build --packages gcc,make"},
		{[]string{"colour", "red"}, ""}, // opening reports the error
	} {
		s := spec(c.settings...)
		got := has(t.Context(), s)
		if said := got.Detail + "; " + got.Remedy; got.OK != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%v: %+v; want %q", c.settings, got, c.want)
		}
	}
}

func TestImageFormatIsNotGuessed(t *testing.T) {
	if _, err := proc.LookPath("qemu-img"); err != nil {
		lacking(t, "qemu-img is not installed")
	}
	dir := t.TempDir()
	for format, want := range map[string]string{"raw": "raw", "qcow2": "qcow2", "vdi": "VDI", "vmdk": "VMDK",
		"vhdx": "VHDX", "vpc": "VHD"} {
		path := filepath.Join(dir, format)
		if _, err := proc.Run(t.Context(), nil, "qemu-img", "create", "-q", "-f", format, path, "64M"); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := imageFormat(f)
		f.Close()
		switch {
		case format == want && (err != nil || got != want):
			t.Errorf("%s: %q %v", format, got, err)
		case format != want && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %q %v, want a refusal that names %s", format, got, err, want)
		}
	}
	if _, err := imageFormat(bytes.NewReader(make([]byte, 10))); err == nil {
		t.Error("a file of ten bytes was taken for an image")
	}
}

// A comma or quote in the image's path has no meaning for QEMU, and the image is opened read-only.
func TestRootIsOpenedForReading(t *testing.T) {
	c := config{root: rootImage{want: `/a,b"c`, path: `/a,b"c`, format: "raw"}}
	a := c.rootArguments("pci")
	if len(a) != 4 || strings.Count(a[1], `"read-only":true`) != 2 || !strings.Contains(a[1], `"filename":"/a,b\"c"`) ||
		!strings.Contains(a[3], "serial="+rootSerial) {
		t.Errorf("%q", a)
	}
	if (&config{}).rootArguments("pci") != nil {
		t.Error("a machine without a root image has a disk for one")
	}
}

func FuzzPackages(f *testing.F) {
	f.Add("gcc,g++")
	f.Add("-x,--")
	f.Fuzz(func(t *testing.T, v string) {
		list, err := parsePackages(v)
		if err != nil {
			return
		}
		for _, p := range list {
			if strings.HasPrefix(p, "-") || strings.ContainsAny(p, ", \t\n;$") {
				t.Errorf("%q gave package %q", v, p)
			}
		}
		if _, err := parseRoot(rootDebian, v, ""); err != nil {
			t.Error(err)
		}
	})
}
