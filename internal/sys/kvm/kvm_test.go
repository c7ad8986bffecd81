package kvm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine writes what KVM tells of a machine.
func machine(t *testing.T, debug, name string, files map[string]string) {
	t.Helper()
	dir := filepath.Join(debug, "kvm", name)
	if err := os.MkdirAll(filepath.Join(dir, "vcpu0"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExits(t *testing.T) {
	debug, pid := t.TempDir(), os.Getpid()
	machine(t, debug, fmt.Sprintf("%d-11", pid), map[string]string{"exits": "1000\n", "io_exits": "600\n",
		"halt_exits": "30\n", "irq_injections": "7\n"})
	machine(t, debug, fmt.Sprintf("%d-14", pid), map[string]string{"exits": "5\n", "io_exits": "1\n"})
	machine(t, debug, "1-9", map[string]string{"exits": "77\n"})
	if err := os.WriteFile(filepath.Join(debug, "kvm", "exits"), []byte("1082\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Exits(debug, pid)
	want := map[string]int64{"exits": 1005, "io_exits": 601, "halt_exits": 30}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for name, c := range map[string]struct{ debug, says string }{
		"no machine of it":  {debug, "no machine of process"},
		"nothing is there":  {t.TempDir(), "is not mounted"},
		"no such directory": {filepath.Join(t.TempDir(), "none"), "is not mounted"},
	} {
		if _, err := Exits(c.debug, 1<<22+1); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	other := t.TempDir()
	if err := os.Mkdir(filepath.Join(other, "sched"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Exits(other, pid); err == nil || !strings.Contains(err.Error(), "KVM is not loaded") {
		t.Errorf("without KVM: %v", err)
	}
}

func FuzzExits(f *testing.F) {
	f.Add("12\n", "3")
	f.Add("-1", "99999999999999999999")
	f.Add("", "4611686018427387904")
	f.Fuzz(func(t *testing.T, exits, halts string) {
		debug := t.TempDir()
		for _, fd := range []string{"3", "4"} {
			machine(t, debug, fmt.Sprintf("%d-%s", os.Getpid(), fd), map[string]string{"exits": exits,
				"halt_exits": halts})
		}
		got, err := Exits(debug, os.Getpid())
		for name, v := range got {
			if err != nil || v < 0 {
				t.Errorf("%s is %d, %v", name, v, err)
			}
		}
	})
}
