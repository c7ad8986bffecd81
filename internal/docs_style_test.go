package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
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

// widest is how many columns a line of Markdown may have.
const widest = 120

// written are the comments around what a program writes into a document.
var written = map[string]*regexp.Regexp{
	"begin": regexp.MustCompile(`^<!-- (generated: .*|bench: begin|mounts: settings|written by .*) -->$`),
	"end":   regexp.MustCompile(`^<!-- (end|bench: end|mounts: end|until here) -->$`),
}

// tooWide returns the numbers, from 1, of the lines that are too wide and could be broken. Tables, fenced blocks and
// what a program writes stay as they are, and so do lines without a blank before the limit: a long link, a long code
// span.
func tooWide(lines []string) []int {
	var out []int
	fence, generated := "", false
	for i, l := range lines {
		text := strings.TrimLeft(l, " ")
		switch m := fenceRE.FindStringSubmatch(l); {
		case fence != "":
			if text == fence {
				fence = ""
			}
		case m != nil:
			fence = m[2]
		case written["begin"].MatchString(l):
			generated = true
		case written["end"].MatchString(l):
			generated = false
		case !generated && utf8.RuneCountInString(l) > widest && !strings.HasPrefix(text, "|") &&
			!strings.HasPrefix(text, "<!--") && breakable(l):
			out = append(out, i+1)
		}
	}
	return out
}

var (
	startRE = regexp.MustCompile(`^ *(?:[-*] |\d+\. |#+ |> )?`)
	wholeRE = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)")
)

// breakable tells whether a line has a blank within the limit, outside of code spans and of the targets of links.
func breakable(l string) bool {
	text := l[len(startRE.FindString(l)):]
	whole := wholeRE.ReplaceAllStringFunc(text, func(s string) string { return strings.ReplaceAll(s, " ", "_") })
	before, _, ok := strings.Cut(whole, " ")
	return ok && utf8.RuneCountInString(l)-utf8.RuneCountInString(text)+utf8.RuneCountInString(before) <= widest
}

// TestMarkdownFitsColumns holds that every Markdown file of the project can be read beside code.
func TestMarkdownFitsColumns(t *testing.T) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"node_modules", "testdata", "bin", "dist"}, d.Name()) ||
			strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found only %d files of Markdown: %v", len(files), files)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range tooWide(strings.Split(string(src), "\n")) {
			t.Errorf("%s:%d has more than %d columns: break the line", file, n, widest)
		}
	}
}

// TestTooWideSees holds that the guard above sees what it should, and leaves alone what it must.
func TestTooWideSees(t *testing.T) {
	long := strings.Repeat("x", widest-9)
	lines := []string{
		"# Words", // 1
		long + " and then more",
		"- " + long + " [a link](docs/README.md)",
		"| " + long + " | a row of a table |",
		"[" + long + "](a-target-that-is-too-long-to-be-broken.md)",
		"- `" + long + " in a code span`",
		"```",
		"$ tare run " + long, // 8
		"```",
		"<!-- generated: plan keys -->",
		long + " by a program", // 11
		"<!-- end -->",
		strings.Repeat("ä", widest), // as many columns as there may be, in twice as many bytes
		"1. one " + long + " three",
	}
	if got, want := tooWide(lines), []int{2, 3, 14}; !slices.Equal(got, want) {
		t.Errorf("lines %v are called too wide, not %v", got, want)
	}
}
