package leftover

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNewFindRelease(t *testing.T) {
	base := t.TempDir()
	dir, release, err := New(base, "r1")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || !strings.HasPrefix(filepath.Base(dir), "tare-run-r1-") {
		t.Fatalf("%s: %v %v", dir, info, err)
	}
	if found := Find(base); len(found) != 0 {
		t.Errorf("a live run's directory must not be found: %v", found)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if err := release(); err != nil {
		t.Errorf("second release: %v", err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestPrivateDir(t *testing.T) {
	dir, release, err := New(t.TempDir(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for path, want := range map[string]string{dir: dir, filepath.Join(dir, "main", "sub"): dir, t.TempDir(): "",
		filepath.Dir(dir): "", "": ""} {
		if got := PrivateDir(path); got != want {
			t.Errorf("%s lies in %q, want %q", path, got, want)
		}
	}
}

func TestNewRefusesBadRunID(t *testing.T) {
	for _, id := range []string{"", "../x", "a/b", "-rf", "a b", strings.Repeat("x", 65)} {
		if dir, _, err := New(t.TempDir(), id); err == nil {
			t.Errorf("run id %q made %s", id, dir)
		}
	}
}

// TestKilledRun starts this test binary as a process that makes a directory, and kills it.
func TestKilledRun(t *testing.T) {
	const role = "TARE_LEFTOVER_TEST_BASE"
	if base := os.Getenv(role); base != "" {
		dir, _, err := New(base, "killed")
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(base, "made"), []byte(dir), 0o600)
		time.Sleep(10 * time.Minute)
	}
	base := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledRun$")
	cmd.Env = append(os.Environ(), role+"="+base)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	for end := time.Now().Add(2 * time.Minute); dir == ""; time.Sleep(10 * time.Millisecond) {
		b, _ := os.ReadFile(filepath.Join(base, "made"))
		if dir = string(b); time.Now().After(end) {
			cmd.Process.Kill()
			t.Fatal("the child made no directory")
		}
	}
	if found := Find(base); len(found) != 0 {
		t.Errorf("found while its owner lives: %v", found)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if found := Find(base); !slices.Equal(found, []string{dir}) {
		t.Fatalf("found %v, want %s", found, dir)
	}
	if lines, err := Clean(true, base, base); err != nil || !slices.Equal(lines, []string{"directory " + dir}) {
		t.Errorf("dry: %v %v", lines, err)
	}
	if lines, err := Clean(false, base, base); err != nil || len(lines) != 1 {
		t.Errorf("clean: %v %v", lines, err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestFindIsNotFooled(t *testing.T) {
	base, elsewhere := t.TempDir(), t.TempDir()
	mk := func(name, owner string, age time.Duration) string {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if owner != "" {
			if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(owner), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(dir, when, when); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	mk("tare-run-live-1", self.String()+"\n", 0)
	mk("tare-run-new-1", "", time.Minute)
	mk("other-run-x", "", 48*time.Hour)
	mk("tare-run-huge-1", strings.Repeat("9", 1<<20), 0)
	if err := os.Symlink(elsewhere, filepath.Join(base, "tare-run-link-1")); err != nil {
		t.Fatal(err)
	}
	want := []string{mk("tare-run-old-1", "", 2*time.Hour)}
	if self.Start != "" {
		want = append(want, mk("tare-run-reused-1", Owner{PID: self.PID, Start: "0" + self.Start}.String()+"\n", 0))
	}
	if got := Find(base); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestRemoveClosedDirectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.MkdirAll(filepath.Join(dir, "work", "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, "work", "work"), 0)
	os.Chmod(filepath.Join(dir, "work"), 0o500)
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

func FuzzParseOwner(f *testing.F) {
	f.Add("12 boot/34")
	f.Add("12")
	f.Add("-1 x y")
	f.Fuzz(func(t *testing.T, line string) {
		o, err := ParseOwner(line)
		if err != nil {
			return
		}
		again, err := ParseOwner(o.String())
		if err != nil || again != o {
			t.Fatalf("%+v becomes %+v, %v", o, again, err)
		}
	})
}

// TestShortIsAmongTheBases: clean searches the short base, too.
func TestShortIsAmongTheBases(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for longest, want := range map[int]string{1 << 10: os.TempDir(), 4: Short(4)} {
		got := Short(longest)
		if got != want || !slices.Contains(Bases(), got) {
			t.Errorf("at most %d bytes: %s, of %v; want %s", longest, got, Bases(), want)
		}
	}
	if runtime.GOOS == "linux" && Short(4) != "/tmp" {
		t.Errorf("the short place is %s", Short(4))
	}
}

// TestKilledAtAnyMoment starts this test binary as a process that makes and removes directories as fast as it can, and
// kills it. Everything left must immediately be recognised as left over.
func TestKilledAtAnyMoment(t *testing.T) {
	const role = "TARE_LEFTOVER_TEST_BUSY"
	if base := os.Getenv(role); base != "" {
		for {
			// Stop at one defined moment: the directory is made and not released.
			hold := os.Getenv(role+"_HOLD") != ""
			dir, release, err := New(base, "busy")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "z"} { // before and after the owner, in the order of a directory listing
				if err := os.MkdirAll(filepath.Join(dir, name, "deep"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if hold {
				os.WriteFile(filepath.Join(dir, "held"), nil, 0o600)
				time.Sleep(time.Hour)
			}
			if err := release(); err != nil {
				t.Fatal(err)
			}
		}
	}
	base := t.TempDir()
	left := 0
	for i := range 60 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledAtAnyMoment$")
		cmd.Env = append(os.Environ(), role+"="+base)
		held := i == 0
		if held {
			cmd.Env = append(cmd.Env, role+"_HOLD=1")
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Wait until it works, which its directories show.
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Microsecond) {
			if entries, _ := filepath.Glob(filepath.Join(base, "*", "held")); len(entries) > 0 {
				break
			}
			if entries, _ := os.ReadDir(base); len(entries) > 0 && !held {
				break
			}
			if time.Now().After(end) {
				cmd.Process.Kill()
				t.Fatal("the child made no directory")
			}
		}
		time.Sleep(time.Duration(i) * 37 * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait()
		if entries, _ := os.ReadDir(base); len(entries) > 0 {
			left++
		} else if held {
			t.Error("a kill with the directory made left nothing: this test has no power here")
		}
		if _, err := Clean(false, base); err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(base); err != nil || len(entries) > 0 {
			t.Fatalf("left after the cleaning: %v %v", entries, err)
		}
	}
	t.Logf("%d of 60 kills left something", left)
}

func TestHalfMadeIsKnownByItsName(t *testing.T) {
	base := t.TempDir()
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	dead := Owner{PID: self.PID, Start: "another/1", Where: self.Where}
	var want []string
	for _, o := range []Owner{self, dead} {
		dir, err := os.MkdirTemp(base, halfName(o)+"*")
		if err != nil {
			t.Fatal(err)
		}
		if o == dead {
			want = append(want, dir)
		}
		if got, err := halfOwner(filepath.Base(dir)); err != nil || got != o {
			t.Errorf("%s is owned by %+v, %v; want %+v", dir, got, err, o)
		}
	}
	for _, name := range []string{half, half + "x", half + "%zz-1", half + "0-1"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS == "linux" && !slices.Equal(Find(base), want) {
		t.Errorf("found %v, want %v", Find(base), want)
	}
}
