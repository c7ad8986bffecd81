package microvm

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// realPrograms are the installed ones of the programs that mounts run in the guest.
func realPrograms(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, name := range []string{"sshfs", "ssh", "rsync"} {
		p, err := proc.LookPath(name)
		if err != nil {
			if os.Getenv("TARE_REQUIRE") != "" {
				t.Fatalf("%s is not installed", name)
			}
			continue
		}
		paths = append(paths, p)
	}
	if len(paths) == 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("none of sshfs, ssh and rsync is installed, and TARE_REQUIRE is set")
		}
		t.Skip("none of sshfs, ssh and rsync is installed")
	}
	return paths
}

// The dynamic linker itself reports which libraries a program links, and where it found them.
func TestProgramsComeWithWhatTheLinkerFinds(t *testing.T) {
	for _, p := range realPrograms(t) {
		files, err := Programs(runtime.GOARCH, p)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			got = append(got, f.Path)
		}
		c := &closure{root: "/", files: map[string]File{}}
		l, err := c.links(p)
		if err != nil || l.linker == "" {
			t.Fatalf("%s: %+v %v", p, l, err)
		}
		out, err := proc.Run(t.Context(), nil, l.linker, "--list", p)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for line := range strings.Lines(string(out)) {
			_, rest, ok := strings.Cut(line, " => ")
			if !ok {
				continue
			}
			want++
			lib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if !slices.Contains(got, lib) {
				t.Errorf("%s links %s, which was not found; found are %v", p, lib, got)
			}
		}
		if want < 2 || !slices.Contains(got, l.linker) || !slices.IsSorted(got) {
			t.Errorf("%s: the linker names %d libraries, found are %v", p, want, got)
		}
		// Only these, the program, its linker, and the name service of older C libraries.
		if extra := len(got) - want - 2; extra < 0 || extra > 2 {
			t.Errorf("%s: %d files for %d libraries: %v", p, len(got), want, got)
		}
	}
}

// The programs run in a folder with only these files.
func TestProgramsRunWithNothingElse(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal("changing the root directory needs root, and TARE_REQUIRE is set")
	} else if os.Geteuid() != 0 {
		t.Skip("changing the root directory needs root")
	}
	paths := realPrograms(t)
	files, err := Programs(runtime.GOARCH, paths...)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, f := range files {
		to := filepath.Join(root, f.Path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(f.Path)
		if err != nil || int64(len(b)) != f.Size {
			t.Fatalf("%+v: %v", f, err)
		}
		if err := os.WriteFile(to, b, os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	// as in the guest
	for name, text := range map[string]string{"dev/null": "", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	version := map[string]string{"ssh": "-V"}
	for _, p := range paths {
		arg := version[filepath.Base(p)]
		if arg == "" {
			arg = "--version"
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		cmd := proc.Command(ctx, p, arg)
		cmd.Path, cmd.Env, cmd.Dir = p, []string{"PATH=/usr/bin"}, "/"
		cmd.SysProcAttr.Chroot = root
		out, err := proc.RunCmd(cmd, nil)
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", p, err, out)
		}
	}
}

func TestProgramsThatCannotRunThereAreRefused(t *testing.T) {
	foreign := "arm64"
	if runtime.GOARCH == foreign {
		foreign = "amd64"
	}
	if _, err := Programs(foreign, "/bin/ls"); err == nil || !strings.Contains(err.Error(), foreign) {
		t.Errorf("another architecture: %v", err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		script: "script", "/etc/hostname": "not a program", "ls": "absolute", "/nowhere/at/all": "no such file",
		"/etc": "not a file",
	} {
		if _, err := Programs(runtime.GOARCH, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if files, err := Programs(foreign); err != nil || files != nil {
		t.Errorf("no programs at all: %v %v", files, err)
	}
}

func TestAgentMustBeStatic(t *testing.T) {
	program, err := proc.LookPath("ls")
	if err != nil {
		t.Fatal(err)
	}
	_, _, libs := tree(t)
	if err := CheckAgent(program); len(libs) > 0 && (err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0")) {
		t.Errorf("a dynamic agent: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckAgent(text); err != nil {
		t.Error(err)
	}
}

// tree copies the program and its libraries to a made-up root, where a test can move them.
func tree(t *testing.T) (root, program string, libs []File) {
	t.Helper()
	program, err := proc.LookPath("ls")
	if err != nil {
		t.Fatal(err)
	}
	files, err := Programs(runtime.GOARCH, program)
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	for _, f := range files {
		putFile(t, root, f.Path, f.Path)
		if strings.Contains(f.Path, ".so") && !strings.Contains(f.Path, "ld-linux") &&
			!strings.Contains(f.Path, "nss") {
			libs = append(libs, f)
		}
	}
	if len(libs) == 0 {
		t.Skip("ls is linked statically here")
	}
	return root, program, libs
}

func putFile(t *testing.T, root, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to = filepath.Join(root, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestLibraryInAListedFolderBringsTheLinkersCache(t *testing.T) {
	root, program, libs := tree(t)
	lib := libs[0].Path
	if err := os.Rename(filepath.Join(root, lib), filepath.Join(root, filepath.Base(lib))); err != nil {
		t.Fatal(err)
	}
	c := &closure{root: root, files: map[string]File{}}
	if err := c.program(program); err == nil || !strings.Contains(err.Error(), filepath.Base(lib)) {
		t.Errorf("a library that is not there: %v", err)
	}
	for name, text := range map[string]string{
		"/etc/ld.so.conf":          "include /etc/ld.so.conf.d/*.conf # more\nrelative\n",
		"/etc/ld.so.conf.d/a.conf": "/opt/libs\n", "/etc/ld.so.cache": "cache",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	putFile(t, root, lib, filepath.Join("/opt/libs", filepath.Base(lib)))
	// A library for another machine comes first and is skipped.
	if err := os.WriteFile(filepath.Join(root, "/etc/ld.so.conf.d/0.conf"), []byte("/opt/foreign\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	putFile(t, root, lib, filepath.Join("/opt/foreign", filepath.Base(lib)))
	f, err := os.OpenFile(filepath.Join(root, "/opt/foreign", filepath.Base(lib)), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xf3, 0}, 18); err != nil { // e_machine: RISC-V
		t.Fatal(err)
	}
	f.Close()
	c = &closure{root: root, files: map[string]File{}}
	if err := c.program(program); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.files["/opt/libs/"+filepath.Base(lib)]; !ok {
		t.Errorf("found are %v", c.list())
	}
	if _, ok := c.files[ldCache]; !ok {
		t.Errorf("the guest's linker would not find it: %v", c.list())
	}
}

func TestConfListsAreRead(t *testing.T) {
	dirs, includes := parseConf("# x\n/a/b/ # c\n\ninclude\tx/*.conf /y\nincluded\nhwcap 0 nosegneg\n/d\n")
	if !slices.Equal(dirs, []string{"/a/b", "/d"}) || !slices.Equal(includes, []string{"x/*.conf", "/y"}) {
		t.Errorf("%q %q", dirs, includes)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ldConf), []byte("include /etc/ld.so.conf\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := libraryDirs(root, "/lib64/ld-linux-x86-64.so.2"); err == nil ||
		!strings.Contains(err.Error(), "include each other") {
		t.Errorf("a list that includes itself: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/ld-musl-x86_64.path"), []byte("/m1:/m2\n/m3"), 0o644); err != nil {
		t.Fatal(err)
	}
	if dirs, err := libraryDirs(root, "/lib/ld-musl-x86_64.so.1"); err != nil || len(dirs) != 3 ||
		dirs[2].path != "/m3" || dirs[0].listed == "" {
		t.Errorf("musl: %v %v", dirs, err)
	}
}

func FuzzReadLinks(f *testing.F) {
	if b, err := os.ReadFile("/proc/self/exe"); err == nil {
		f.Add(b[:4096])
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := readLinks(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		if l.linker != "" && !filepath.IsAbs(l.linker) {
			t.Errorf("linker %q", l.linker)
		}
		for _, n := range l.needed {
			if n == "" {
				t.Error("a library without a name")
			}
		}
	})
}

func FuzzParseConf(f *testing.F) {
	f.Add("include x\n/a\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		dirs, _ := parseConf(text)
		for _, d := range dirs {
			if !filepath.IsAbs(d) {
				t.Errorf("folder %q", d)
			}
		}
	})
}
