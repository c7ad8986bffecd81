package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// finished makes a bundle that has ended, with evidence.
func finished(t testing.TB, trials int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "b")
	w, err := Create(dir, "run-1", testPlan())
	if err != nil {
		t.Fatal(err)
	}
	for i := range trials {
		if err := w.Append(testTrial(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Evidence(strings.Repeat("long", 25), []byte("boot\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(Finished, 1); err != nil {
		t.Fatal(err)
	}
	return dir
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPackAndUnpack(t *testing.T) {
	dir, tmp := finished(t, 40), t.TempDir()
	a, b, back := filepath.Join(tmp, "a.tare"), filepath.Join(tmp, "b.tare"), filepath.Join(tmp, "back")
	for _, out := range []string{a, b} {
		if err := Pack(dir, out); err != nil {
			t.Fatal(err)
		}
	}
	x, _ := os.ReadFile(a)
	y, _ := os.ReadFile(b)
	if !bytes.Equal(x, y) {
		t.Error("the same bundle gave two archives")
	}
	if err := Unpack(a, back); err != nil {
		t.Fatal(err)
	}
	was, is := files(t, dir), files(t, back)
	if len(was) != len(is) || len(is) != 5 {
		t.Fatalf("%d files became %d", len(was), len(is))
	}
	for name, content := range was {
		if is[name] != content {
			t.Errorf("%s came back otherwise", name)
		}
	}
	if err := Pack(dir, a); err == nil {
		t.Error("an archive was overwritten")
	}
	if err := Unpack(a, back); err == nil {
		t.Error("a folder was overwritten")
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, ".tare-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPackRefuses(t *testing.T) {
	dir, w := newBundle(t, 3)
	out := filepath.Join(t.TempDir(), "x.tare")
	if err := Pack(dir, out); !errors.Is(err, ErrLocked) {
		t.Errorf("a run that goes on: %v", err)
	}
	w.Close()
	if err := Pack(dir, out); err != nil {
		t.Errorf("a killed run: %v", err)
	}
	bad := finished(t, 3)
	if err := os.WriteFile(filepath.Join(bad, EnvironmentsFile), []byte("[ ]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Pack(bad, out+"2"); !errors.Is(err, ErrDamaged) {
		t.Errorf("an edited bundle: %v", err)
	}
	if _, err := os.Lstat(out + "2"); err == nil {
		t.Error("a refused bundle left an archive")
	}
}

// archive makes a packed bundle out of any entries.
func archive(t testing.TB, entries ...any) string {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for i := 0; i < len(entries); i += 2 {
		h, body := entries[i].(tar.Header), entries[i+1].(string)
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(body))
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "x.tare")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestUnpackRefusesHostileArchives(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join(finished(t, 1), ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	first := tar.Header{Name: ManifestFile}
	good := string(manifest)
	for name, c := range map[string]struct {
		entries []any
		want    string
	}{
		"traversal": {[]any{first, good, tar.Header{Name: "console/../../evil"}, "x"}, "no such file"},
		"absolute":  {[]any{first, good, tar.Header{Name: "/etc/cron.d/evil"}, "x"}, "no such file"},
		"backslash": {[]any{first, good, tar.Header{Name: `console/..\evil`}, "x"}, "no such file"},
		"foreign":   {[]any{first, good, tar.Header{Name: "run.sh"}, "x"}, "no such file"},
		"symlink": {[]any{first, good, tar.Header{Name: PlanFile, Typeflag: tar.TypeSymlink,
			Linkname: "/etc/passwd"}, ""}, "only plain files"},
		"hard link": {[]any{first, good, tar.Header{Name: PlanFile, Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
			""}, "only plain files"},
		"device": {[]any{first, good, tar.Header{Name: TrialsFile, Typeflag: tar.TypeBlock}, ""},
			"only plain files"},
		"pipe": {[]any{first, good, tar.Header{Name: TrialsFile, Typeflag: tar.TypeFifo}, ""},
			"only plain files"},
		"folder": {[]any{first, good, tar.Header{Name: EvidenceDir + "/", Typeflag: tar.TypeDir}, ""},
			"only plain files"},
		"twice": {[]any{first, good, first, good}, "twice"},
		"record": {[]any{first, good, tar.Header{Name: PlanFile,
			PAXRecords: map[string]string{"SCHILY.xattr.user.x": "y"}}, "x"}, "tar record"},
		"no manifest": {[]any{tar.Header{Name: PlanFile}, "x"}, "does not come first"},
		"newer": {[]any{first, `{"schema":9,"version":"9.9"}`, tar.Header{Name: "future.bin"}, "x"},
			"newer version of tare"},
		"large plan": {[]any{first, good, tar.Header{Name: PlanFile}, strings.Repeat("#", 2<<20)},
			"more than a bundle may have"},
		"not a bundle": {[]any{first, `{}`}, "not a tare bundle"},
		"empty":        {nil, "not a packed bundle"},
		"hash":         {[]any{first, good, tar.Header{Name: PlanFile}, "x: 1\n"}, "was changed after tare wrote it"},
	} {
		t.Run(name, func(t *testing.T) {
			in, tmp := archive(t, c.entries...), t.TempDir()
			err := Unpack(in, filepath.Join(tmp, "sub"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(tmp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestUnpackRefusesBombs(t *testing.T) {
	// 300 MiB of zeros in less than a MiB.
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(finished(t, 1), ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	const size = 300 << 20
	w := tar.NewWriter(z)
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ManifestFile, Size: int64(len(manifest)), Mode: 0o644})
	w.Write(manifest)
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: TrialsFile, Size: size, Mode: 0o644})
	io.CopyN(w, zeros{}, size)
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	name := filepath.Join(tmp, "bomb.tare")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(name, filepath.Join(tmp, "out")); err == nil || !strings.Contains(err.Error(), "times its size") {
		t.Errorf("a bomb of %d bytes: %v", b.Len(), err)
	}
	// And the bound on everything together.
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	x := &extraction{root: root, in: &counter{r: bytes.NewReader(b.Bytes())}, limit: 1 << 20, seen: map[string]bool{}}
	if err := x.run(); err == nil || !strings.Contains(err.Error(), "more than a bundle may have") {
		t.Errorf("over the bound: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestExtractKeepsWhatIsReadable(t *testing.T) {
	const all = 60
	dir, w := newBundle(t, 0)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range all { // long and not to be compressed, so that much of the archive is trials
		tr := testTrial(i)
		for range 1000 {
			tr.Samples["lat"] = append(tr.Samples["lat"], random.Float64())
		}
		if err := w.Append(tr); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(Finished, 1); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	name := filepath.Join(tmp, "x.tare")
	if err := Pack(dir, name); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, whole[:len(whole)*9/10], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(name, filepath.Join(tmp, "strict")); !errors.Is(err, ErrDamaged) {
		t.Errorf("Unpack of a truncated archive: %v", err)
	}
	out := t.TempDir()
	if err := Extract(name, out); !errors.Is(err, ErrDamaged) {
		t.Errorf("Extract says %v", err)
	}
	b, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := b.Load()
	if !errors.Is(err, ErrDamaged) || len(trials) == 0 || len(trials) >= all {
		t.Errorf("%d trials could be read: %v", len(trials), err)
	}
}

func FuzzExtract(f *testing.F) {
	out := filepath.Join(f.TempDir(), "seed.tare")
	if err := Pack(finished(f, 3), out); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(out)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)/2])
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, src []byte) {
		tmp := t.TempDir()
		dir := filepath.Join(tmp, "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		x := &extraction{root: root, in: &counter{r: bytes.NewReader(src)}, limit: 1 << 20, seen: map[string]bool{}}
		if x.run() == nil {
			Open(dir)
		}
		if beside, _ := os.ReadDir(tmp); len(beside) != 1 {
			t.Errorf("something was written outside: %v", beside)
		}
		for name := range files(t, dir) {
			if name != ManifestFile && !validPath(name) {
				t.Errorf("wrote %q", name)
			}
		}
	})
}
