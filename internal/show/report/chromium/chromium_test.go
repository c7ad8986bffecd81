package chromium

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUntilAcrossPages holds that a page may go on to another one in the middle of a question.
func TestUntilAcrossPages(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "first.html")
	for name, text := range map[string]string{
		first:                             `<script>addEventListener("load", () => setTimeout(() => { location.href = "second.html" }, 300))</script>`,
		filepath.Join(dir, "second.html"): `<p>second`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tab := Start(t).Open(first, 300, 200)
	// The first page never answers, so the question is always under way when it is left.
	tab.Until("the second page is there", `location.pathname.endsWith("second.html") || new Promise(() => {})`)
	tab.Clean()
}
