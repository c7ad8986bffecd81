package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOccupied: only processes below the top of all are in the way.
func TestOccupied(t *testing.T) {
	for _, c := range []struct {
		what  string
		files map[string]string
		want  bool
	}{
		{"the top of all", map[string]string{"cgroup.procs": "1\n2\n"}, false},
		{"the top of a container", map[string]string{"cgroup.type": "domain\n", "cgroup.procs": "1\n"}, true},
		{"one that earlier attempts have changed",
			map[string]string{"cgroup.type": "domain threaded\n", "cgroup.procs": "1\n"}, true},
		{"one whose processes are in groups", map[string]string{"cgroup.type": "domain\n", "cgroup.procs": ""}, false},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := occupied(dir); got != c.want {
			t.Errorf("%s: occupied is %v", c.what, got)
		}
	}
}
