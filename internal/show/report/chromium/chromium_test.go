package chromium

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestComplaints holds that what a page complains of is kept, and what it asks of a network.
func TestComplaints(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	text := `<script>console.log("fine"); console.error("not fine"); fetch("http://127.0.0.1:1/asked").catch(() => { document.title = "answered" });` +
		`setTimeout(() => { throw new Error("thrown") })</script>`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tab := Start(t).Open(file, 300, 200)
	tab.Until("the request is answered", `document.title === "answered"`)
	tab.Until("everything was said", `new Promise(done => setTimeout(() => done(true), 100))`)
	tab.mu.Lock()
	defer tab.mu.Unlock()
	said := strings.Join(tab.errors, "\n")
	for _, want := range []string{"not fine", "thrown", "Failed to load resource"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not among the complaints:\n%s", want, said)
		}
	}
	if strings.Contains(said, `"fine"`) {
		t.Errorf("what is no complaint is among them:\n%s", said)
	}
	if !slices.Contains(tab.asked, "http://127.0.0.1:1/asked") {
		t.Errorf("the page asked for %v", tab.asked)
	}
}
