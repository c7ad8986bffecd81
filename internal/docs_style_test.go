package internal_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// decisions are the files of docs/decisions, its index included.
func decisions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "decisions", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatalf("only %d files in docs/decisions", len(files))
	}
	return files
}

var decisionRE = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)

// TestDocsDecisions holds that every decision has its number, its three parts and its line in the index.
func TestDocsDecisions(t *testing.T) {
	index := ""
	seen := map[string]string{}
	for _, file := range decisions(t) {
		lines, _ := readDocument(t, file)
		text := strings.Join(lines, "\n")
		name := filepath.Base(file)
		if name == "README.md" {
			index = text
			continue
		}
		m := decisionRE.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("%s: name it NNNN-what-was-decided.md", file)
			continue
		}
		if other := seen[m[1]]; other != "" {
			t.Errorf("%s and %s have one number", file, other)
		}
		seen[m[1]] = file
		if !strings.HasPrefix(text, "# "+strings.TrimLeft(m[1], "0")+". ") {
			t.Errorf("%s: begin with `# %s. TITLE`", file, strings.TrimLeft(m[1], "0"))
		}
		for _, part := range []string{"Context", "Decision", "Reason"} {
			if !strings.Contains(text, "\n**"+part+".** ") {
				t.Errorf("%s has no paragraph that begins with **%s.**", file, part)
			}
		}
	}
	for number, file := range seen {
		if !strings.Contains(index, "- ["+number+"]("+filepath.Base(file)+") ") {
			t.Errorf("docs/decisions/README.md does not list %s", filepath.Base(file))
		}
	}
}
