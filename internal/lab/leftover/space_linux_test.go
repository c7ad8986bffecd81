package leftover

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A directory of a run outside is not taken for a dead run's by tare in a container that shares it, although the
// process is not there.
func TestOwnerInAnotherPIDNamespace(t *testing.T) {
	if base := os.Getenv("TARE_TEST_SEEN_FROM"); base != "" {
		for _, dir := range Find(base) {
			t.Errorf("taken for left over: %s", dir)
		}
		return
	}
	base := t.TempDir()
	dir, release, err := New(base, "r1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if found := Find(base); len(found) > 0 {
		t.Errorf("the own directory is left over: %v", found)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", self, "-test.run",
		"^"+t.Name()+"$", "-test.v")
	if os.Geteuid() == 0 {
		cmd.Args = append(cmd.Args[:1], cmd.Args[3:]...)
	}
	cmd.Env = append(os.Environ(), "TARE_TEST_SEEN_FROM="+base)
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare:") && os.Geteuid() != 0 {
		t.Skipf("no namespaces for this user: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v: %s", err, out)
	}
	// One that is dead in this namespace is.
	o, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	o.PID = 1 << 30
	if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(o.String()+"\n"+o.Where+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := Find(base); len(found) != 1 {
		t.Errorf("a dead owner's directory is not found: %v", found)
	}
}

// What lies in a folder that machines share is judged by the machine, the boot and the PID namespace of its owner.
func TestAliveElsewhere(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	boot, ticks, ok := strings.Cut(self.Start, "/")
	if !ok {
		t.Skip("this machine hides its boot id")
	}
	machine, space, _ := strings.Cut(self.Where, ".")
	if machine == "" || space == "" {
		t.Fatalf("this process is at %q", self.Where)
	}
	for _, c := range []struct {
		what, boot, ticks, where string
		alive                    bool
	}{
		{"this process", boot, ticks, self.Where, true},
		{"this process, of tare 0.2.0", boot, ticks, "", true},
		{"another process with that id", boot, "1" + ticks, self.Where, false},
		{"another boot, of tare 0.2.0", "b", ticks, "", false},
		{"another boot", "b", ticks, self.Where, false},
		{"a container of another boot", "b", ticks, machine + ".1", false},
		{"a container", boot, "1" + ticks, machine + ".1", true},
		{"another machine", "b", ticks, "0." + space, true},
		{"a container of another machine", "b", ticks, "0.1", true},
		{"a container with another host name", boot, "1" + ticks, "0.1", true},
		{"another host name since", boot, "1" + ticks, "0." + space, false},
	} {
		o := Owner{self.PID, c.boot + "/" + c.ticks, c.where}
		if got := o.Alive(); got != c.alive {
			t.Errorf("%s: alive is %v", c.what, got)
		}
		base := t.TempDir()
		dir := filepath.Join(base, prefix+"r1-1")
		begin := halfName(o)
		if c.where == "" {
			begin = strings.TrimSuffix(begin, ".")
		}
		made, err := os.MkdirTemp(base, begin+"*")
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, ownerFile), []byte(o.String()+"\n"+o.Where+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := []string{made, dir}
		if c.alive {
			want = nil
		}
		if found := Find(base); !slices.Equal(found, want) {
			t.Errorf("%s: found %v, want %v", c.what, found, want)
		}
	}
}

// Who is near can be stopped by its process id, also after the host's name has changed.
func TestNear(t *testing.T) {
	for _, c := range []struct {
		what  string
		owner Owner
		near  bool
	}{
		{"itself", Owner{5, "boot/1", "a.4"}, true},
		{"tare 0.2.0", Owner{5, "boot/1", ""}, true},
		{"another host name since", Owner{5, "boot/1", "b.4"}, true},
		{"a container", Owner{5, "boot/1", "a.7"}, false},
		{"a container with another host name", Owner{5, "boot/1", "b.7"}, false},
		{"another machine", Owner{5, "other/1", "b.4"}, false},
		{"a machine that hides its boot", Owner{5, "1", "b.4"}, false},
		{"a machine without namespaces", Owner{5, "boot/1", "b."}, false},
	} {
		if got := c.owner.near("a.4", "boot"); got != c.near {
			t.Errorf("%s: near is %v", c.what, got)
		}
	}
	if (Owner{5, "1", "b.4"}).near("a.4", "") || (Owner{5, "boot/1", "b."}).near("a.", "boot") {
		t.Error("what is not known is near")
	}
}

// What nobody can ask for is left over once nothing in it has changed for a month.
func TestForgotten(t *testing.T) {
	base := t.TempDir()
	make := func(name string, o Owner) string {
		dir := filepath.Join(base, prefix+name)
		err := os.MkdirAll(filepath.Join(dir, "deep", "deeper"), 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, ownerFile), []byte(o.String()+"\n"+o.Where+"\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	age := func(dir string, by time.Duration) {
		when := time.Now().Add(-by)
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, when, when))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	away := Owner{5, "other/1", "0.1"}
	old, busy, young, own := make("1-old", away), make("2-busy", away), make("3-young", away), make("4-own", self)
	for _, dir := range []string{old, busy, own} {
		age(dir, forgotten+time.Hour)
	}
	age(young, forgotten-time.Hour)
	now := time.Now()
	if err := os.Chtimes(filepath.Join(busy, "deep", "deeper"), now, now); err != nil {
		t.Fatal(err)
	}
	if found := Find(base); !slices.Equal(found, []string{old}) {
		t.Errorf("found %v, want %s", found, old)
	}
}

// What tare 0.2.0 reads of this process is what it would write itself, or it would take it for dead.
func TestOwnerAsOlderVersionsReadIt(t *testing.T) {
	base := t.TempDir()
	dir, release, err := New(base, "r1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	began, err := startTime(self.PID)
	if err != nil {
		t.Fatal(err)
	}
	want := strconv.Itoa(self.PID) + " " + began
	text, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if line, _, _ := strings.Cut(string(text), "\n"); err != nil || line != want {
		t.Errorf("the owner file begins with %q, %v, want %q", line, err, want)
	}
	name := strings.TrimPrefix(halfName(self)+"123", half)
	if line, err := url.PathUnescape(name[:strings.LastIndexByte(name, '-')]); err != nil || line != want {
		t.Errorf("the name of a half directory has %q, %v, want %q", line, err, want)
	}
}
