//go:build unix

package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/sys/sql/datadir"
)

// TestTree: what was copied is run where dir says, with its links; it is unpacked once, and the next trial finds what
// the first one left there.
func TestTree(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	bin := filepath.Join(from, "bin")
	err := errors.Join(os.Mkdir(bin, 0o755), os.Symlink("real", filepath.Join(bin, "prog")),
		os.WriteFile(filepath.Join(bin, "real"), []byte("#!/bin/sh\necho run >>count\ntest ! -e ../.git\n"), 0o755),
		os.WriteFile(filepath.Join(from, ".git"), []byte("gitdir: elsewhere\n"), 0o600))
	archive, err2 := os.Create(filepath.Join(to, "archive"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(datadir.PackTree(archive, from), archive.Close()); err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Dir: filepath.Join(to, "cell"), Work: 2, Files: map[string]string{"tree": archive.Name()}}
	if err := os.Mkdir(b.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	trial := func(given map[string]string) error {
		p, err := Kinds()[0].Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		x, err := newTrial(p)
		if err != nil {
			t.Fatal(err)
		}
		if err = x.Setup(t.Context(), b); err == nil {
			err = x.Measure(t.Context(), b)
		}
		return errors.Join(err, x.Cleanup(b))
	}
	given := map[string]string{"tree": from, "dir": "bin", "command": "./prog", "shell": "none"}
	for range 2 {
		if err := trial(given); err != nil {
			t.Fatal(err)
		}
	}
	count, err := os.ReadFile(b.Dir + ".tree/bin/count")
	if err != nil || strings.Count(string(count), "run") != 4 {
		t.Errorf("%q, %v", count, err)
	}
	given["dir"] = "nowhere"
	if err := trial(given); err == nil || !strings.Contains(err.Error(), "nowhere is not a directory") {
		t.Errorf("%v", err)
	}
	b.Files, b.Dir = nil, filepath.Join(to, "other")
	if err := trial(given); err == nil || !strings.Contains(err.Error(), "command: tree="+from) {
		t.Errorf("what was not sent is run: %v", err)
	}
}
