package verdict

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
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

var severityWords = map[string]string{Info: "Good to know", Attend: "Read it before using the figures", Withhold: "The reason why cells have no verdict"}

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
			fmt.Fprintf(&b, "\n### `%s`\n\n%s. It needs %s.\n\n> %s.\n\nRemedy: %s.\n", r.Code, strings.ToUpper(r.Doc[:1])+r.Doc[1:], r.Needs, plainText(f.Text), plainText(f.Remedy))
		}
	}
	b.WriteString("\n")
	return b.String()
}

// plainText keeps what findings say from being taken for Markdown.
func plainText(s string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "<", "&lt;").Replace(s)
}
