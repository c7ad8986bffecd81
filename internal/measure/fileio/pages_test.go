package fileio

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

// What the kernel says of a buffer agrees with what was asked for: ordinary pages unless the system gives huge ones
// unasked, huge ones where the kernel has them.
func TestPagesAreSaid(t *testing.T) {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil { // no Linux, or a kernel without huge pages
		b := HugePages.Aligned(4 << 20)
		clear(b)
		if got := PagesOf(b); got != "unknown" && got != string(OrdinaryPages) {
			t.Errorf("a system without huge pages on %s says %q", runtime.GOOS, got)
		}
		return
	}
	for _, pages := range []Pages{OrdinaryPages, HugePages} {
		b := pages.Aligned(16 << 20)
		clear(b)
		got := PagesOf(b)
		switch {
		case pages == OrdinaryPages && !strings.Contains(string(mode), "[always]") && got == string(HugePages),
			pages == HugePages && strings.Contains(string(mode), "[never]") && got != string(OrdinaryPages),
			got != string(OrdinaryPages) && got != string(HugePages) && !strings.HasSuffix(got, "% huge"):
			t.Errorf("asked for %s pages, with the system's setting %q, got %q", pages, mode, got)
		}
		c := pages.NewContent(Random, 1<<20, 1)
		if same := OrdinaryPages.NewContent(Random, 1<<20, 1); string(c.Record(3, 5)) != string(same.Record(3, 5)) {
			t.Errorf("content in %s pages differs", pages)
		}
		runtime.KeepAlive(b)
	}
}
