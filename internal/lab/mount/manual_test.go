package mount

import (
	"fmt"
	"maps"
	"os"
	"slices"
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
	first := map[string]string{} // the kind that describes a row, by the row
	for _, k := range Kinds() {
		var rows []string
		as := map[string][]string{}
		for _, s := range k.Settings {
			name := "`" + s.Name + "=" + s.Default + "`"
			row := "| " + name + " | " + s.Doc + " |"
			if first[row] == "" {
				first[row] = k.Name
				rows = append(rows, row)
			} else {
				as[first[row]] = append(as[first[row]], name)
			}
		}
		fmt.Fprintf(&want, "\n### %s\n\n| setting | meaning |\n|---|---|\n%s\n", k.Name, strings.Join(rows, "\n"))
		for _, other := range slices.Sorted(maps.Keys(as)) {
			fmt.Fprintf(&want, "\nAs [`%s`](#%[1]s): %s.\n", other, strings.Join(as[other], ", "))
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
