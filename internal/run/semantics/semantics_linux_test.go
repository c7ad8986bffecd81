package semantics

import (
	"testing"
)

func TestTwoViewsOfOneDirectory(t *testing.T) {
	dir := t.TempDir()
	inside, host := sides(t, dir, dir)
	card := made(t, inside, host, Options{})
	want(t, card, yes, "case", "names", "unicode", "d-type", "symlink", "hard-link", "exec-bit", "o-excl",
		"rename-open", "unlink-open",
		"mmap", "flock", "fcntl", "inotify", "close-to-open", "close-to-open-host", "flock-across", "fcntl-across",
		"o-excl-across", "rename-across",
		"mmap-to-host", "mmap-from-host", "inotify-from-host", "inotify-to-host")
	want(t, card, "255 bytes", "name-max")
	for _, n := range []string{"attr-cache", "lag-create", "lag-modify", "lag-delete", "lag-create-host",
		"lag-modify-host", "lag-delete-host"} {
		// One kernel shows a change at once; a busy machine may need a moment to run the watcher.
		if p := card[n]; p.Seconds <= 0 || p.Seconds > 1 {
			t.Errorf("%s: %v s", n, p.Seconds)
		}
	}
	if got, all := len(card), len(lines(true)); got != all {
		t.Errorf("%d of %d lines", got, all)
	}
}
