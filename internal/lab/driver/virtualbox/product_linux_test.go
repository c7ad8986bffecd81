package virtualbox

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// TestUnfitProgram meets programs of the name VBoxManage that are not good enough. They are scripts: no release that is
// too old runs on this system.
func TestUnfitProgram(t *testing.T) {
	t.Setenv(rootVar, "")
	for name, c := range map[string]struct{ script, says string }{
		"too old": {"echo WARNING: a driver is missing; echo 5.2.44r139111",
			"VirtualBox 5.2.44r139111 is too old; 6.1"},
		"no answer":  {"echo the system is broken >&2; exit 3", "the system is broken"},
		"no version": {"echo WARNING: nothing", "is not a version"},
	} {
		t.Run(name, func(t *testing.T) {
			standIn(t, c.script)
			if s := probe(t.Context()); s.OK || !strings.Contains(s.Detail, c.says) || s.Remedy != installRemedy {
				t.Errorf("%+v", s)
			}
			for _, settings := range []map[string]string{nil, {"clone": linked, "engine": interpreter}} {
				o := env.Options{Spec: env.Spec{Name: "mine", Driver: name, Arg: "NAME", Settings: settings},
					RunID: "unfit", Dir: t.TempDir()}
				_, err := driver{}.Open(t.Context(), o)
				x, ok := errors.AsType[*env.OpenError](err)
				if !ok || !strings.Contains(err.Error(), c.says) || x.Remedy != installRemedy {
					t.Errorf("%v: %v", settings, err)
				}
			}
		})
	}
}

// TestNoProgram: VBoxManage is nowhere. The error says so before anything is made, for a machine of tare's and for one
// of the user's.
func TestNoProgram(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("machines are made on x86-64 only")
	}
	t.Setenv(rootVar, "")
	t.Setenv("PATH", t.TempDir())
	usual := programFolders
	programFolders = []string{t.TempDir()}
	t.Cleanup(func() { programFolders = usual })
	if s := probe(t.Context()); s.OK || s.Detail != "VBoxManage is not installed" || s.Remedy != installRemedy {
		t.Errorf("%+v", s)
	}
	for _, arg := range []string{"", "NAME"} {
		dir := t.TempDir()
		o := env.Options{Spec: env.Spec{Name: "vb", Driver: name, Arg: arg}, RunID: "none", Dir: dir}
		_, err := driver{}.Open(t.Context(), o)
		x, ok := errors.AsType[*env.OpenError](err)
		if !ok || x.Op != "find VirtualBox" || !strings.Contains(err.Error(), "VBoxManage is not installed") ||
			x.Remedy != installRemedy {
			t.Errorf("%q: %v", arg, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// TestProgramOfAnotherUser: VBoxManage is there, and this user may not run it.
func TestProgramOfAnotherUser(t *testing.T) {
	t.Setenv(rootVar, "")
	standIn(t, "echo 7.2.22r1")
	path, err := proc.LookPath("VBoxManage")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(path))
	usual := programFolders
	programFolders = []string{t.TempDir()}
	t.Cleanup(func() { programFolders = usual })
	want := path + " is there, but this user may not run it"
	if s := probe(t.Context()); s.OK || s.Detail != want {
		t.Errorf("%+v", s)
	}
	for _, arg := range []string{"", "NAME"} {
		o := env.Options{Spec: env.Spec{Name: "vb", Driver: name, Arg: arg}, RunID: "other", Dir: t.TempDir()}
		_, err := driver{}.Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", arg, err)
		}
	}
}

// standIn puts a script in the place of VBoxManage.
func standIn(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "VBoxManage"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestSettingsOfExisting says which settings a machine of the user's takes.
func TestSettingsOfExisting(t *testing.T) {
	standIn(t, "exit 1")
	for _, c := range []struct {
		s    env.Spec
		says string
	}{
		{spec("memory", "1GiB"), "memory= is not possible; leave the setting out, or work in a clone"},
		{spec("identity", "/key"), "ssh=[USER@]HOST[:PORT]"},
		{spec("snapshot", "old"), "snapshot= is not possible; leave the setting out, or work in a clone: clone=linked"},
		{spec("clone", linked, "memory", "1GiB"), "memory= is not possible; leave it out"},
		{spec("clone", linked, "ssh", "me@there"), "ssh= is not possible; leave it out"},
	} {
		c.s.Arg = "NAME"
		_, err := driver{}.Open(t.Context(), env.Options{Spec: c.s, RunID: "settings", Dir: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.s, err, c.says)
		}
	}
}
