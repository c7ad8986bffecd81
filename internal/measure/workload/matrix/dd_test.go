//go:build linux

package matrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
)

func helperDD(dir string) error {
	k := ddKind()
	p, err := k.Resolve(map[string]string{"size": "5000", "bs": "1000", "pause": "0s", "sync": "no"})
	if err != nil {
		return err
	}
	w, err := k.New(p)
	if err != nil {
		return err
	}
	b := &workload.Bench{Dir: dir, Work: 1}
	if err := w.Setup(context.Background(), b); err != nil {
		return err
	}
	return w.Measure(context.Background(), b)
}

// TestDDSequence compares the calls on the file, and how it is opened, with those of dd itself.
func TestDDSequence(t *testing.T) {
	dd := need(t, "dd")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "dd")
	var theirs []string
	for _, args := range [][]string{{"if=/dev/zero", "of=" + name, "bs=1000", "count=5"},
		{"if=" + name, "of=/dev/null", "bs=1000"}} {
		// dd copies the descriptor to 0 or 1 and closes the first; dup2 is not followed, so its calls are read as
		// strace shows them by name.
		theirs = append(theirs, named(t, name, append([]string{dd}, args...)...)...)
	}
	t.Setenv(helper, t.TempDir()+":dd")
	mine := filepath.Join(strings.TrimSuffix(os.Getenv(helper), ":dd"), "dd")
	ours := named(t, mine, self)
	// tare opens the devices once, before the time: how matters, when does not.
	if a, b := devices(&ours), devices(&theirs); !slices.Equal(a, b) {
		t.Errorf("the devices are opened as %q, dd's as %q", a, b)
	}
	// dd looks for the end of the file, which tare knows.
	theirs = slices.DeleteFunc(theirs, func(s string) bool { return s == "read zero 0" || s == "read file 0" })
	if !slices.Equal(ours, theirs) {
		t.Errorf("the calls are\n%s\ndd's are\n%s", strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
	}
	if len(ours) != 22 {
		t.Errorf("%d calls for 5 blocks each way and 2 openings, want 22", len(ours))
	}
}

// devices takes the openings of devices out of a list of calls and returns them sorted.
func devices(calls *[]string) (opened []string) {
	*calls = slices.DeleteFunc(*calls, func(s string) bool {
		is := strings.HasPrefix(s, "openat zero ") || strings.HasPrefix(s, "openat null ")
		if is {
			opened = append(opened, s)
		}
		return is
	})
	slices.Sort(opened)
	return opened
}

func TestDD(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "fs.dd")
	for _, given := range []map[string]string{
		{"size": "1MiB", "bs": "4KiB", "pause": "0s"},
		{"size": "1000000", "bs": "777", "pause": "0s", "sync": "no"},
		{"size": "3MiB", "bs": "1MiB", "pause": "1ms", "data": "random"},
		{"size": "1MiB", "bs": "512", "pause": "0s", "data": "random"},
	} {
		b := trialtest.Run(t, k, given, 2)
		p, _ := k.Resolve(given)
		want := fmt.Sprint(p.Int("size") / p.Int("bs") * p.Int("bs"))
		if b.Checks["file_bytes"] != want {
			t.Errorf("%v: %s bytes, want %s", given, b.Checks["file_bytes"], want)
		}
		round := 2 * float64(p.Int("size")/p.Int("bs")*p.Int("bs")) / 1e6
		if parts := round/2/b.Metrics["write"] + round/2/b.Metrics["read"]; parts/b.Metrics["round_seconds"] < 0.999 ||
			parts/b.Metrics["round_seconds"] > 1.001 {
			t.Errorf("%v: the halves take %v s and the round %v s", given, parts, b.Metrics["round_seconds"])
		}
	}
	for _, bad := range []map[string]string{{"size": "1KiB", "bs": "4KiB"}, {"pause": "2m"}} {
		p, err := k.Resolve(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.New(p); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}
