package cli

import (
	"strings"
	"testing"
)

func TestProcessorsThatChange(t *testing.T) {
	x := &processors{}
	x.see("local", "base of run 1", "Model A")
	x.see("qemu?accel=tcg", "vm of run 1", "QEMU Virtual CPU") // another kind of place has its own
	x.see("local", "head of run 1", "Model A")
	x.see("local", "box of run 1", "") // that nothing is known of
	if said := x.changed(); said != "" {
		t.Error(said)
	}
	x.see("local", "head of run 2", "Model B")
	if said := x.changed(); !strings.Contains(said, `"Model A" (base of run 1), then "Model B" (head of run 2)`) {
		t.Error(said)
	}
}

func TestAnnotateAt(t *testing.T) {
	for text, want := range map[string]struct {
		path string
		line int
	}{"": {"", 1}, "a/b.go": {"a/b.go", 1}, "a.go:7": {"a.go", 7}} {
		if path, line, err := annotateAt(text); err != nil || path != want.path || line != want.line {
			t.Errorf("%q: %s, %d, %v", text, path, line, err)
		}
	}
	for _, text := range []string{"/etc/passwd", "../a", "a:0", "a:b", "a:"} {
		if path, line, err := annotateAt(text); err == nil {
			t.Errorf("%q is %s, %d", text, path, line)
		}
	}
}
