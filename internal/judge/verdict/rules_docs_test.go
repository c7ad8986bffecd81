package verdict

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the part of docs/findings.md that comes from the rules")

const (
	manual      = "../../../docs/findings.md"
	manualBegin = "<!-- written by go test ./internal/judge/verdict -run Manual -update -->\n"
	manualEnd   = "<!-- until here -->\n"
)

// TestManual holds that the manual explains every finding with what it really says on the run made for it.
func TestManual(t *testing.T) {
	src, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(src), manualBegin)
	_, tail, ended := strings.Cut(rest, manualEnd)
	if !ok || !ended {
		t.Fatalf("%s has no part that comes from the rules", manual)
	}
	want := head + manualBegin + explainedText(t) + manualEnd + tail
	if *update {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(src) {
		t.Errorf("%s does not say what the rules say; write it anew with -update", manual)
	}
}

var severityWords = map[string]string{Info: "Good to know", Attend: "Read it before using the figures",
	Withhold: "The reason why cells have no verdict"}

func explainedText(t *testing.T) string {
	var b strings.Builder
	for _, severity := range []string{Withhold, Attend, Info} {
		fmt.Fprintf(&b, "\n## %s\n", severityWords[severity])
		for _, r := range Rules() {
			if r.Severity != severity {
				continue
			}
			s, ok := ruleScenes[r.Code]
			if !ok {
				t.Fatalf("no scene shows %s", r.Code)
			}
			f := finding(s.shows.evaluate(), r.Code)
			if f == nil {
				t.Fatalf("the scene made for %s does not show it", r.Code)
			}
			fmt.Fprintf(&b, "\n### `%s`\n\n", r.Code)
			for i, line := range []string{
				"> " + plainText(f.Text) + ".",
				"Evidence: " + r.Needs + ".",
				"Remedy: " + plainText(f.Remedy) + ".",
			} {
				if i > 0 {
					b.WriteString("\n")
				}
				b.WriteString(wrapped(line))
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

// wrapped breaks a paragraph into lines of at most 120 columns, each marked as a quotation if the first is.
func wrapped(text string) string {
	mark := ""
	if strings.HasPrefix(text, "> ") {
		mark = "> "
	}
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+n > 120:
			b.WriteString("\n" + mark)
			column = len(mark)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String() + "\n"
}

// plainText keeps what findings say from being taken for Markdown.
func plainText(s string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "<", "&lt;").Replace(s)
}
