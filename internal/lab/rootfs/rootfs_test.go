package rootfs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(what + ", and TARE_REQUIRE is set")
	}
	t.Skip(what)
}

func TestKey(t *testing.T) {
	key := func(o Options) string {
		o.Cache = "/cache"
		r, err := o.resolve()
		if err != nil {
			t.Fatal(err)
		}
		return r.key()
	}
	base := key(Options{Packages: []string{"bzip2", "postgresql"}})
	for name, same := range map[string]Options{
		"order":      {Packages: []string{"postgresql", "bzip2"}},
		"repetition": {Packages: []string{"postgresql", " bzip2", "bzip2"}},
		"defaults": {Packages: []string{"bzip2", "postgresql"}, Suite: DefaultSuite, Arch: runtime.GOARCH,
			Size: DefaultSize, Refresh: true},
	} {
		if key(same) != base {
			t.Errorf("%s changes the key", name)
		}
	}
	for name, other := range map[string]Options{
		"packages": {Packages: []string{"bzip2"}},
		"suite":    {Packages: []string{"bzip2", "postgresql"}, Suite: "trixie"},
		"size":     {Packages: []string{"bzip2", "postgresql"}, Size: 1 << 30},
	} {
		if key(other) == base {
			t.Errorf("another %s has the same key", name)
		}
	}
	if id := uuid(base); len(id) != 36 || id[14] != '8' || !strings.ContainsRune("89ab", rune(id[19])) {
		t.Errorf("%s is no UUID of version 8", id)
	}
}

func TestOptions(t *testing.T) {
	for name, bad := range map[string]Options{
		"an option as a package": {Packages: []string{"--include"}},
		"a path as a package":    {Packages: []string{"../x"}},
		"two packages in one":    {Packages: []string{"a,b"}},
		"an empty package":       {Packages: []string{""}},
		"an option as a suite":   {Suite: "-x"},
		"a path as a suite":      {Suite: "../../etc"},
		"another machine":        {Arch: "vax"},
		"too small":              {Size: 1 << 20},
		"too large":              {Size: MaxSize + 1<<20},
		"odd":                    {Size: DefaultSize + 1},
	} {
		bad.Cache = t.TempDir()
		_, err := Build(t.Context(), bad)
		if _, ok := errors.AsType[*OptionError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Lookup(bad); err == nil || errors.Is(err, ErrNotBuilt) {
			t.Errorf("%s is looked up: %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(bad.Cache, "*")); len(left) > 0 {
			t.Errorf("%s leaves %v", name, left)
		}
	}
}

func TestRemedy(t *testing.T) {
	_, err := Lookup(Options{Cache: t.TempDir(), Packages: []string{"bzip2", "xz-utils"}, Size: 1 << 30,
		Suite: "trixie"})
	want := "run: tare guest build --packages bzip2,xz-utils --suite trixie --size 1GiB"
	if !errors.Is(err, ErrNotBuilt) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

func TestChooseSources(t *testing.T) {
	all := parseSources("http://m/debian/\tbookworm\tmain\tDebian\n" +
		"http://m/debian/\tbookworm\tmain\tDebian\n" +
		"http://m/debian/\tbookworm-updates\tmain\tDebian\n" +
		"http://m/security/\tbookworm-security\tmain\tDebian\n" +
		"http://third/\tbookworm\tstable\tSomebody\n" +
		"http://m/debian/\tbookworm-backports\tmain\tDebian\r\n" +
		"nonsense\nhttp://m/ [trusted=yes]\tbookworm\tmain\tDebian\n\t\t\t\nhttp://m/\t\tmain\tDebian\n")
	lines := func(suite string) (s []string) {
		for _, x := range choose(all, suite) {
			s = append(s, x.line())
		}
		return s
	}
	if got := lines("bookworm"); !slices.Equal(got, []string{"deb http://m/debian/ bookworm main",
		"deb http://m/debian/ bookworm-updates main", "deb http://m/security/ bookworm-security main",
		"deb http://m/debian/ bookworm-backports main"}) {
		t.Errorf("bookworm: %q", got)
	}
	if got := lines("trixie"); !slices.Equal(got, []string{"deb http://m/debian/ trixie main"}) {
		t.Errorf("trixie: %q", got)
	}
	if got := choose(nil, "bookworm"); len(got) > 0 {
		t.Errorf("from nothing: %v", got)
	}
}

func FuzzParseSources(f *testing.F) {
	f.Add("http://m/debian/\tbookworm\tmain\tDebian\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range choose(parseSources(text), "bookworm") {
			if l := s.line(); len(strings.Fields(l)) != 4 || strings.ContainsAny(l, "[]#\n\r") {
				t.Errorf("%q", l)
			}
		}
	})
}

// TestSources uses this machine's own apt.
func TestSources(t *testing.T) {
	if _, err := proc.LookPath("apt-get"); err != nil {
		missing(t, "apt-get is not installed")
	}
	found, err := sources(t.Context(), DefaultSuite)
	if err != nil {
		missing(t, err.Error())
	}
	if found[0].component == "" || found[0].release != DefaultSuite {
		t.Errorf("%+v", found)
	}
	lines, err := settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "Acquire::") || !strings.HasSuffix(l, "\";") {
			t.Errorf("%q", l)
		}
	}
}

// image makes an image with the real mke2fs, of a system with a few files.
func image(t testing.TB, o Options) (Options, string) {
	t.Helper()
	for _, p := range []string{"mke2fs", "e2fsck", "debugfs"} {
		if _, err := proc.LookPath(p); err != nil {
			missing(t, p+" is not installed")
		}
	}
	o.Cache = t.TempDir()
	o, err := o.resolve()
	if err != nil {
		t.Fatal(err)
	}
	root, dir := t.TempDir(), filepath.Join(o.Cache, folder, o.key())
	for _, d := range []string{filepath.Join(root, "etc"), dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A link at the path of a file to be written must not lead out.
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "etc", "resolv.conf")); err != nil {
		t.Fatal(err)
	}
	if err := tidy(root); err != nil {
		t.Fatal(err)
	}
	if p, err := os.ReadFile(outside); err != nil || string(p) != "mine" {
		t.Fatalf("a file outside holds %q, %v", p, err)
	}
	img := Image{Key: o.key(), Suite: o.Suite, Arch: o.Arch, Packages: o.Packages, Size: o.Size, UUID: uuid(o.key())}
	if err := writeExt4(t.Context(), root, filepath.Join(dir, imageName), img); err != nil {
		t.Fatal(err)
	}
	if err := seal(t.Context(), dir, img); err != nil {
		t.Fatal(err)
	}
	return o, dir
}

func TestImage(t *testing.T) {
	o, dir := image(t, Options{Size: MinSize})
	got, err := Lookup(o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Path != filepath.Join(dir, imageName) || got.Size != MinSize || got.SHA256 == "" ||
		time.Since(got.Built) > time.Hour {
		t.Errorf("%+v", got)
	}
	out, err := proc.Run(t.Context(), nil, "debugfs", "-R", "cat /etc/hostname", got.Path)
	if err != nil || string(out) != "tare\n" {
		t.Errorf("the image's name is %q, %v", out, err)
	}
	out, err = proc.Run(t.Context(), nil, "dumpe2fs", "-h", got.Path)
	if err != nil || !strings.Contains(string(out), got.UUID) || !strings.Contains(string(out), Label) {
		t.Errorf("%s, %v", out, err)
	}
	if again, err := Build(t.Context(), o); err != nil || again.Path != got.Path || !again.Built.Equal(got.Built) {
		t.Errorf("it is built again: %+v, %v", again, err)
	}
	if all, err := List(o.Cache); err != nil || len(all) != 1 || all[0].Key != got.Key {
		t.Errorf("listed: %+v, %v", all, err)
	}
	// Another modification time alone is not a change, but another byte is.
	if err := os.Chtimes(got.Path, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := Lookup(o); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(got.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(got.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 5000); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Lookup(o); !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("a changed image: %v", err)
	}
	if err := os.Truncate(got.Path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := Lookup(o); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("a short image: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Lookup(o); err == nil {
		t.Error("a damaged manifest is read")
	}
	if all, err := List(o.Cache); err != nil || len(all) > 0 {
		t.Errorf("listed: %+v, %v", all, err)
	}
}

// TestBuild builds a real system. A package that does not exist fails with the tool's reason and leaves nothing. A
// cancelled build leaves nothing. A complete build has the requested packages.
func TestBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute or two")
	}
	if err := needed(); err != nil {
		missing(t, err.Error())
	}
	if _, err := sources(t.Context(), DefaultSuite); err != nil {
		missing(t, err.Error())
	}
	cache := t.TempDir()
	empty := func(when string) {
		t.Helper()
		left, err := os.ReadDir(filepath.Join(cache, folder))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", when, left, err)
		}
	}
	if _, err := Build(t.Context(), Options{Cache: cache, Packages: []string{"no-such-package-at-all"}}); err == nil ||
		!strings.Contains(err.Error(), "no-such-package-at-all") {
		t.Errorf("an unknown package: %v", err)
	}
	empty("an unknown package")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := Build(ctx, Options{Cache: cache, Progress: func(what string) {
		if what == "installing packages" {
			time.AfterFunc(2*time.Second, cancel) // no machine has installed them by then
		}
	}}); err == nil {
		t.Error("a build that was stopped succeeds")
	}
	empty("a build that was stopped")
	o := Options{Cache: cache, Packages: []string{"bzip2"}, Size: 1 << 30}
	type result struct {
		img  Image
		err  error
		said []string
	}
	second := make(chan result, 1)
	first := o
	begin := sync.OnceFunc(func() {
		go func() {
			var r result
			o.Progress = func(what string) { r.said = append(r.said, what) }
			r.img, r.err = Build(t.Context(), o)
			second <- r
		}()
	})
	first.Progress = func(string) { begin() }
	img, err := Build(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if r := <-second; r.err != nil || r.img.SHA256 != img.SHA256 || slices.Contains(r.said, "installing packages") {
		t.Errorf("a build at the same time: %+v", r)
	}
	if err := img.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"/usr/bin/bzip2", "/usr/bin/dpkg"} {
		out, err := proc.Run(t.Context(), nil, "debugfs", "-R", "stat "+name, img.Path)
		if err != nil || !strings.Contains(string(out), "Type: regular") {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
	if img.Versions["bzip2"] == "" || img.Tool == "" {
		t.Errorf("%+v", img)
	}
}
