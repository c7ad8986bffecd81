package mount

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestManual checks that the manual's table of settings matches the program; with -update it writes the table.
func TestManual(t *testing.T) {
	const file, begin, end = "../../../docs/mounts.md", "<!-- mounts: settings -->\n", "<!-- mounts: end -->"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	have, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no %q ... %q", file, begin, end)
	}
	var want strings.Builder
	for _, k := range Kinds() {
		fmt.Fprintf(&want, "\n### %s\n\n%s\n\n| setting | default | meaning |\n|---|---|---|\n", k.Name, k.Doc)
		for _, s := range k.Settings {
			fmt.Fprintf(&want, "| `%s` | `%s` | %s |\n", s.Name, s.Default, s.Doc)
		}
	}
	want.WriteString("\n")
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have != want.String() {
		t.Errorf("the settings in %s are not the program's: go test ./internal/lab/mount -run Manual -update", file)
	}
}
