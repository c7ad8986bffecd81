package gallery

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tare/internal/bundle"
	"tare/internal/bundle/redact"
	"tare/internal/version"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	version.Version, version.Build = "0.0.0", "test" // the golden pages are those of any build
	os.Exit(m.Run())
}

// build builds and fails the test if that fails.
func build(t testing.TB, o Options) *Summary {
	t.Helper()
	s, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tree are the files below a folder.
func tree(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(rel)], err = os.ReadFile(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// smallSite are the bundles of the golden site: two of the same work, one with a question, an emulated CPU and markup.
func smallSite(t testing.TB, dir string) []string {
	odd := plain(3)
	odd.run, odd.question = "odd", `Is <b>"x" & 'y'</b> slower?`
	odd.targets, odd.emulated = map[string]float64{"namespace": 1.005, "docker": 1.006, "qemu": 3.2}, true
	odd.work = []string{"cpu.prime max=2000"}
	return []string{put(t, dir, "a.tare", plain(1).packed(t)), put(t, dir, "b.tare", plain(2).packed(t)),
		put(t, dir, "c.tare", odd.packed(t))}
}

func TestSmallSite(t *testing.T) {
	tmp := t.TempDir()
	site := filepath.Join(tmp, "site")
	o := options(t, site, smallSite(t, tmp)...)
	o.Title, o.Command = "Weighed & found", nil
	s := build(t, o)
	if s.Results != 3 || s.Made != 3 || len(s.Skipped) != 0 {
		t.Errorf("%+v", s)
	}
	files := tree(t, site)
	golden := filepath.Join("testdata", "site")
	if *update {
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	for name, got := range files {
		switch {
		case len(got) >= maxPage:
			t.Errorf("%s has %d bytes", name, len(got))
		case strings.HasSuffix(name, bundle.Ext):
			out := filepath.Join(t.TempDir(), "out")
			if err := bundle.Unpack(filepath.Join(site, name), out); err != nil {
				t.Errorf("what is offered for download: %v", err)
			}
			continue
		case strings.HasPrefix(name, "assets/"), name == stateFile:
			continue
		}
		if strings.Contains(string(got), "<b>\"x\"") {
			t.Errorf("%s has markup of the plan's", name)
		}
		count++
		if *update {
			put(t, golden, name, got)
		}
		want, err := os.ReadFile(filepath.Join(golden, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(want, got) {
			t.Errorf("%s differs from the golden file (go test ./internal/show/gallery -update rewrites it)", name)
		}
	}
	if want := tree(t, golden); len(want) != count {
		t.Errorf("%d files, %d golden ones", count, len(want))
	}
	for _, left := range []string{lockName, partName} {
		for name := range files {
			if strings.Contains(name, left) {
				t.Errorf("%s was left behind", name)
			}
		}
	}
	if left, _ := os.ReadDir(o.Scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRebuild holds that a build writes what is new and nothing else.
func TestRebuild(t *testing.T) {
	tmp := t.TempDir()
	site := filepath.Join(tmp, "site")
	bundles := smallSite(t, tmp)
	build(t, options(t, site, bundles...))
	before := tree(t, site)
	s := build(t, options(t, site, bundles...))
	if s.Made != 0 || len(s.Written) != 0 || len(s.Removed) != 0 || s.Results != 3 {
		t.Errorf("nothing changed, but %+v", s)
	}
	// Another result: its own files, the lists that it stands in, and the pages of its work.
	more := plain(9)
	more.work = []string{"syscall op=null"}
	bundles = append(bundles, put(t, tmp, "d.tare", more.packed(t)))
	s = build(t, options(t, site, bundles[3]))
	if s.Made != 1 || s.Results != 4 {
		t.Errorf("%+v", s)
	}
	for _, name := range s.Written {
		switch {
		case strings.HasPrefix(name, "results/run-0009-"), strings.HasPrefix(name, "bundles/run-0009-"):
		case strings.HasPrefix(name, "work/syscall-"):
		case slices.Contains([]string{"index.html", "work.html", "lists/1.html", "data/1.js", stateFile}, name):
		default:
			t.Errorf("%s was written", name)
		}
	}
	if len(s.Written) != 8 {
		t.Errorf("%d files written: %v", len(s.Written), s.Written)
	}
	// A page that somebody changed is made again, of the bundle that the site has; foreign files stay.
	var page string
	for name := range before {
		if strings.HasPrefix(name, "results/odd") {
			page = name
		}
	}
	put(t, site, page, []byte("changed"))
	put(t, site, "CNAME", []byte("example.org"))
	put(t, site, "results/notes.txt", []byte("mine"))
	put(t, site, "results/gone-0123456789abcdef.html", []byte("of a build that was killed"))
	if s = build(t, options(t, site)); s.Made != 1 || !slices.Equal(s.Written, []string{page}) ||
		!slices.Equal(s.Removed, []string{"results/gone-0123456789abcdef.html"}) {
		t.Errorf("%+v", s)
	}
	after := tree(t, site)
	if !bytes.Equal(after[page], before[page]) || string(after["CNAME"]) != "example.org" ||
		string(after["results/notes.txt"]) != "mine" {
		t.Error("the page is another one, or a foreign file is gone")
	}
	// A page whose bundle is gone as well is missed.
	for name := range before {
		if strings.Contains(name, "/odd-") {
			os.Remove(filepath.Join(site, filepath.FromSlash(name)))
		}
	}
	if s = build(t, options(t, site)); len(s.Skipped) != 1 || s.Results != 3 {
		t.Errorf("%+v", s)
	}
	// Only what is named.
	o := options(t, site, bundles[0])
	o.Only = true
	if s = build(t, o); s.Results != 1 || s.Made != 0 || len(s.Removed) < 4 {
		t.Errorf("%+v", s)
	}
	for name := range tree(t, site) {
		if strings.Contains(name, "run-0002") || strings.Contains(name, "run-0009") {
			t.Errorf("%s is still there", name)
		}
	}
	// Without bundles for download.
	o.NoBundles = true
	if s = build(t, o); s.Results != 1 {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(filepath.Join(site, "bundles")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a bundle is still offered")
	}
	if s = build(t, o); s.Made != 0 || len(s.Written) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSameName has two bundles of one file name, one bundle of two names, and two that claim one run.
func TestSameName(t *testing.T) {
	tmp := t.TempDir()
	site := filepath.Join(tmp, "site")
	forged := plain(1)
	forged.targets = map[string]float64{"namespace": 9}
	a := put(t, tmp, "x/r.tare", plain(1).packed(t))
	s := build(t, options(t, site, a, put(t, tmp, "y/r.tare", plain(2).packed(t)),
		put(t, tmp, "x/again.tare", plain(1).packed(t)), put(t, tmp, "z/forged.tare", forged.packed(t))))
	if s.Results != 3 || s.Same != 1 || !slices.Equal(s.Twice, []string{"run-0001"}) {
		t.Errorf("%+v", s)
	}
	index := string(tree(t, site)["index.html"])
	if n := strings.Count(index, "another result claims the same run"); n != 2 {
		t.Errorf("%d results are marked", n)
	}
	// A run that went on: the same file holds more of it now.
	site = filepath.Join(tmp, "second")
	part := plain(4)
	part.running, part.blocks = true, 3
	name := put(t, tmp, "w/run.tare", part.packed(t))
	if s = build(t, options(t, site, name)); s.Results != 1 {
		t.Errorf("%+v", s)
	}
	put(t, tmp, "w/run.tare", plain(4).packed(t))
	if s = build(t, options(t, site, name)); s.Results != 1 || s.Made != 1 || len(s.Twice) != 0 || len(s.Removed) != 2 {
		t.Errorf("%+v", s)
	}
}

// TestStrangers has bundles of strangers, each with something that must not come to pass, beside a good one.
func TestStrangers(t *testing.T) {
	tmp := t.TempDir()
	good := plain(1).packed(t)
	files := plain(5).files(t)
	text := func(name string) string { return string(files[name]) }
	manifest := text(bundle.ManifestFile)
	edited := plain(6)
	edited.forge = func(f map[string][]byte) {
		f[bundle.TrialsFile] = bytes.Replace(f[bundle.TrialsFile], []byte(`"block":4`), []byte(`"block":5`), 1)
	}
	// Digests made to fit, but not the chain.
	chain := plain(7)
	chain.after = func(f map[string][]byte) {
		f[bundle.TrialsFile] = bytes.Replace(f[bundle.TrialsFile], []byte(`"work":1000`), []byte(`"work":1001`), 1)
	}
	wide := plain(8)
	wide.forge = func(f map[string][]byte) {
		f[bundle.ManifestFile] = bytes.Replace(f[bundle.ManifestFile], []byte(`"finished"`), []byte(`"running"`), 1)
	}
	large := strings.Repeat("x", 3<<20)
	whole, cut := filepath.Join(tmp, "whole.tare"), []byte(nil)
	if err := bundle.Pack(unpacked(t, files), whole); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(whole); err != nil {
		t.Fatal(err)
	} else {
		cut = data[:len(data)*2/3]
	}
	bad := map[string]struct {
		data []byte
		want string
	}{
		"edited":    {edited.packed(t), "changed"},
		"chain":     {chain.packed(t), "chain digest"},
		"state":     {wide.packed(t), "the run has not ended, but there are digests"},
		"truncated": {cut, "damaged or cut short"},
		"traversal": {archive(t, bundle.ManifestFile, manifest, "console/../../evil", "x"), "no such file"},
		"absolute":  {archive(t, bundle.ManifestFile, manifest, "/tmp/evil", "x"), "no such file"},
		"twice":     {archive(t, bundle.ManifestFile, manifest, bundle.ManifestFile, manifest), "twice"},
		"missing":   {archive(t, bundle.ManifestFile, manifest), "missing"},
		"newer":     {archive(t, bundle.ManifestFile, `{"schema":9,"version":"9.9"}`), "newer version"},
		"large":     {archive(t, bundle.ManifestFile, manifest, bundle.TrialsFile, large), "too large"},
		"long":      {[]byte(large), "too large"},
		"text":      {[]byte("hello"), "not a packed bundle"},
		"empty":     {nil, "not a packed bundle"},
	}
	bundles := []string{put(t, tmp, "good.tare", good)}
	for name, b := range bad {
		bundles = append(bundles, put(t, tmp, name+".tare", b.data))
	}
	folder := filepath.Join(tmp, "folder")
	put(t, folder, "readme", []byte("no bundle"))
	bundles = append(bundles, folder, filepath.Join(tmp, "nowhere.tare"))
	site := filepath.Join(tmp, "in", "site")
	o := options(t, site, bundles...)
	o.MaxBytes = 2 << 20
	s := build(t, o)
	if s.Results != 1 || len(s.Skipped) != len(bundles)-1 {
		t.Errorf("%+v", s)
	}
	for _, x := range s.Skipped {
		name := strings.TrimSuffix(filepath.Base(x.Bundle), bundle.Ext)
		if want := bad[name].want; !strings.Contains(x.Err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, x.Err, want)
		}
		if strings.Contains(x.Err.Error(), o.Scratch) {
			t.Errorf("%s: the error says where it was unpacked: %v", name, x.Err)
		}
	}
	if beside, _ := os.ReadDir(filepath.Join(tmp, "in")); len(beside) != 1 {
		t.Errorf("written beside the site: %v", beside)
	}
	if left, _ := os.ReadDir(o.Scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// Nothing but bad ones: no site.
	o.Dir = filepath.Join(tmp, "none")
	o.Bundles = bundles[1:]
	if _, err := Build(t.Context(), o); !errors.Is(err, ErrNothing) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(o.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("an empty site was left")
	}
	// A plan that lacks the parameter by which its kind has metrics.
	bare := plain(10)
	bare.work = []string{"cpu.prime max=2000"}
	bare.after = func(f map[string][]byte) {
		f[bundle.PlanFile] = bytes.ReplaceAll(f[bundle.PlanFile], []byte(`"cpu.prime"`), []byte(`"syscall"`))
	}
	if s := build(t, options(t, filepath.Join(tmp, "bare"), put(t, tmp, "bare.tare", bare.packed(t)))); s.Results != 1 {
		t.Errorf("%+v", s)
	}
	// A bound of time, and one of pairs.
	o = options(t, filepath.Join(tmp, "late"), bundles[0])
	o.Timeout = time.Nanosecond
	if s, err := Build(t.Context(), o); !errors.Is(err, ErrNothing) || len(s.Skipped) != 1 ||
		!strings.Contains(s.Skipped[0].Err.Error(), "longer than 1ns") {
		t.Errorf("%+v %v", s, err)
	}
	many := plain(9)
	many.blocks = 0
	for i := range 340 {
		many.work = append(many.work, fmt.Sprintf("cpu.prime max=%d", i))
	}
	for i := range 60 {
		many.targets[fmt.Sprintf("d%d", i)] = 1
	}
	old := drivers
	for i := range 60 {
		drivers = append(drivers[:len(drivers):len(drivers)], fmt.Sprintf("d%d", i))
	}
	data := many.packed(t)
	drivers = old
	o = options(t, filepath.Join(tmp, "many"), put(t, tmp, "many.tare", data))
	if s, err := Build(t.Context(), o); !errors.Is(err, ErrNothing) || len(s.Skipped) != 1 ||
		!strings.Contains(s.Skipped[0].Err.Error(), "pairs of a target and a workload") {
		t.Errorf("%+v %v", s, err)
	}
}

// unpacked writes the files of a bundle into a folder.
func unpacked(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		put(t, dir, name, data)
	}
	return dir
}

// TestNames holds that names are replaced unless the caller wants them, in pages, data and bundles.
func TestNames(t *testing.T) {
	tmp := t.TempDir()
	site := filepath.Join(tmp, "site")
	f := plain(1)
	f.host = "build-host.example.org"
	f.redacted, f.question = false, "What does acme's nightly cost?"
	name := put(t, tmp, "customer.tare", f.packed(t))
	holds := func(word string) (in []string) {
		for path, data := range tree(t, site) {
			if strings.HasSuffix(path, bundle.Ext) {
				out := filepath.Join(t.TempDir(), "out")
				if err := bundle.Unpack(filepath.Join(site, path), out); err != nil {
					t.Fatal(err)
				}
				for inside, text := range tree(t, out) {
					if bytes.Contains(text, []byte(word)) {
						in = append(in, path+"/"+inside)
					}
				}
			}
			if bytes.Contains(data, []byte(word)) {
				in = append(in, path)
			}
		}
		return in
	}
	build(t, options(t, site, name))
	if in := append(holds("build-host"), holds("customer")...); len(in) > 0 {
		t.Errorf("names are in %v", in)
	}
	if len(holds("acme")) == 0 {
		t.Fatal("the test looks for a word that is nowhere")
	}
	o := options(t, site) // what is there already, too
	o.Secrets = redact.Secrets{Words: []string{"acme"}}
	build(t, o)
	if in := holds("acme"); len(in) > 0 {
		t.Errorf("a word is in %v", in)
	}
	o = options(t, site, name)
	o.Names = true
	build(t, o)
	if len(holds("build-host")) == 0 {
		t.Error("a name is gone that the caller wanted")
	}
	// And back again.
	build(t, options(t, site, name))
	if in := holds("build-host"); len(in) > 0 {
		t.Errorf("a name is still in %v", in)
	}
}

// TestForeignFolder holds that a folder with something else in it is left alone, and so is what a link leads to.
func TestForeignFolder(t *testing.T) {
	tmp := t.TempDir()
	name := put(t, tmp, "a.tare", plain(1).packed(t))
	other := filepath.Join(tmp, "other")
	put(t, other, "index.html", []byte("mine"))
	put(t, other, "thesis.tex", []byte("mine"))
	if _, err := Build(t.Context(), options(t, other, name)); !errors.Is(err, ErrNotGallery) {
		t.Errorf("got %v", err)
	}
	if files := tree(t, other); len(files) != 2 || string(files["index.html"]) != "mine" {
		t.Errorf("%v", files)
	}
	site := filepath.Join(tmp, "site")
	for state, want := range map[string]string{
		`{"schema":2}`: "newer version", `{"schema":1,"files":{"../thesis.tex":"x"}}`: "no file of a gallery",
		`{"schema":1,"results":[{"id":"../x"}]}`: "has no name", `x`: "is damaged",
	} {
		put(t, site, stateFile, []byte(state))
		if _, err := Build(t.Context(), options(t, site, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", state, err, want)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	linked := filepath.Join(tmp, "linked")
	outside := filepath.Join(tmp, "outside")
	for _, dir := range []string{linked, outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(linked, "results")); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), options(t, linked, name)); err == nil {
		t.Error("a link out of the site was followed")
	}
	if files := tree(t, outside); len(files) > 0 {
		t.Errorf("written outside: %v", files)
	}
}

// TestOneAtATime holds that a build which finds another one at work leaves the site to it, and that a stopped one goes
// on later.
func TestOneAtATime(t *testing.T) {
	tmp := t.TempDir()
	dir := filepath.Join(tmp, "site")
	name := put(t, tmp, "a.tare", plain(1).packed(t))
	other, _, err := openSite(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), options(t, dir, name)); !errors.Is(err, bundle.ErrLocked) {
		t.Errorf("got %v", err)
	}
	if err := other.close(); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	o := options(t, dir, name)
	if _, err := Build(stopped, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(o.Scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// What a build that was killed leaves: a page without gallery.json, half a file, and the lock's file.
	put(t, dir, "results/run-0001-0123456789abcdef.html", []byte("of a build that was killed"))
	put(t, dir, "results/"+partName+"1-1", []byte("half"))
	put(t, dir, lockName, nil)
	if s := build(t, o); s.Results != 1 || len(s.Removed) != 2 {
		t.Errorf("%+v", s)
	}
	for path := range tree(t, dir) {
		for _, gone := range []string{partName, lockName, "0123456789"} {
			if strings.Contains(path, gone) {
				t.Errorf("%s is still there", path)
			}
		}
	}
}

// TestThousand holds what a thousand results are bounded by, and that each of them is found again.
func TestThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: a thousand bundles are judged")
	}
	const count = 1000
	tmp := t.TempDir()
	site := filepath.Join(tmp, "site")
	var bundles []string
	for i := range count {
		bundles = append(bundles, put(t, tmp, fmt.Sprintf("%d.tare", i), plain(i).packed(t)))
	}
	var peak atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	runtime.GC()
	go func() {
		defer close(stopped)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapInuse > peak.Load() {
				peak.Store(m.HeapInuse)
			}
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	began := time.Now()
	s := build(t, options(t, site, bundles...))
	close(stop)
	<-stopped
	if s.Results != count || s.Made != count || len(s.Skipped) > 0 {
		t.Errorf("%d results, %d made, %d skipped", s.Results, s.Made, len(s.Skipped))
	}
	if most := uint64(512 << 20); peak.Load() > most {
		t.Errorf("%d MiB of memory, more than %d", peak.Load()>>20, most>>20)
	}
	files := tree(t, site)
	pages, largest := 0, 0
	seen := map[string]int{}
	for name, data := range files {
		if strings.HasPrefix(name, "bundles/") || name == stateFile {
			continue
		}
		if largest = max(largest, len(data)); len(data) >= maxPage {
			t.Errorf("%s has %d bytes", name, len(data))
		}
		switch {
		case strings.HasPrefix(name, "results/"):
			pages++
		case strings.HasPrefix(name, "lists/"):
			seen["lists"] += bytes.Count(data, []byte(`<li class="result">`))
		case strings.HasPrefix(name, "data/"):
			seen["data"] += bytes.Count(data, []byte(`{"i":"`))
		}
	}
	if pages != count || seen["lists"] != count || seen["data"] != count {
		t.Errorf("%d pages, %d in lists, %d in the data", pages, seen["lists"], seen["data"])
	}
	t.Logf("%d bundles in %s, %d MiB of heap at most, the largest page %d bytes", count,
		time.Since(began).Round(time.Millisecond), peak.Load()>>20, largest)
	began = time.Now()
	if s = build(t, options(t, site, bundles...)); s.Made != 0 || len(s.Written) != 0 {
		t.Errorf("nothing changed, but %d made, %d written", s.Made, len(s.Written))
	}
	t.Logf("again in %s", time.Since(began).Round(time.Millisecond))
}
