package rundiff

import (
	"bytes"
	"strings"
	"testing"
)

// wrapPlain is a wrapper as the terminal report has one.
func wrapPlain(prefix, text string, width int) []string {
	indent := strings.Repeat(" ", columns.StringWidth(prefix))
	lines := []string{prefix}
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		joined := strings.TrimRight(lines[last], " ") + " " + word
		if lines[last] == prefix || lines[last] == indent {
			joined = lines[last] + word
		}
		if columns.StringWidth(joined) <= width {
			lines[last] = joined
			continue
		}
		lines = append(lines, indent+word)
	}
	return lines
}

// TestTextKeepsToTheWidth holds that no line is wider than the terminal, and that nothing is lost by that.
func TestTextKeepsToTheWidth(t *testing.T) {
	words := func(s string) map[string]int {
		n := map[string]int{}
		for _, w := range strings.Fields(s) {
			n[strings.TrimSuffix(w, ":")]++
		}
		return n
	}
	var whole bytes.Buffer
	if err := Text(&whole, demo(), Options{}); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{200, 100, 80, 40} {
		var out bytes.Buffer
		if err := Text(&out, demo(), Options{Wrap: wrapPlain, Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if w := columns.StringWidth(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d columns of %d: %s", w, width, line)
			}
		}
		got := words(out.String())
		for w := range words(whole.String()) {
			if got[w] == 0 && w != "target" && w != "workload" { // heads of columns
				t.Errorf("%q is lost in %d columns", w, width)
			}
		}
		stacked := strings.Contains(out.String(), "\n  box cpu.prime\n      a: 1.50 [1.50, 1.51]\n"+
			"      b: 1.80 [1.79, 1.81]\n      change: ▲ 1.20 [1.19, 1.20]")
		if stacked != (width < 90) {
			t.Errorf("%d columns: stacked is %v:\n%s", width, stacked, &out)
		}
	}
}
