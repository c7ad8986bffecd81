package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/internal/bundle"
	drivers "tare/internal/lab/driver/all"
	kinds "tare/internal/measure/workload/all"
	"tare/internal/plan"
)

// TestCommandLineKeepsItsPromise holds what docs/upgrading.md promises: all that the last release had is still there.
// testdata/promise.txt has its commands, flags and what these take, exit codes, drivers, kinds of work, keys of a plan
// and schemas. What is new may be missing in it. When a release is made, -update writes it anew; what then disappears
// needs a line below Removed in CHANGELOG.md.
func TestCommandLineKeepsItsPromise(t *testing.T) {
	file := filepath.Join("..", "..", "testdata", "promise.txt")
	now := promised()
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(was) < 300 {
		t.Fatalf("only %d promises", len(was))
	}
	for _, p := range was {
		if _, ok := slices.BinarySearch(now, p); !ok {
			t.Errorf("the last release had %q, and this has not: see docs/upgrading.md", p)
		}
	}
}

// promised are this program's promises, sorted.
func promised() []string {
	a := &app{console: console{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{},
		getenv: func(string) string { return "" }, outFD: -1, errFD: -1}}
	a.drivers, a.kinds = drivers.Drivers(), kinds.Kinds()
	all := []string{fmt.Sprintf("bundle schema %d", bundle.Schema), fmt.Sprintf("plan schema %d", plan.Schema)}
	for _, e := range exitCodes {
		all = append(all, fmt.Sprintf("exit code %d", e.code))
	}
	for _, d := range a.drivers.All() {
		all = append(all, "driver "+d.Name)
	}
	for i := range a.kinds {
		all = append(all, "work "+a.kinds[i].Name)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, "command "+c.CommandPath())
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			line := fmt.Sprintf("%s --%s %s", c.CommandPath(), f.Name, f.Value.Type())
			if f.Shorthand != "" {
				line += " -" + f.Shorthand
			}
			all = append(all, line)
		})
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() {
				walk(s)
			}
		}
	}
	walk(a.root())
	slices.Sort(all)
	return all
}
