package verdict

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestExcerpts(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, c := range []struct {
		a, b, from, to string
		at             int
	}{
		{"<p>one</p>", "<p>two</p>", "<p>one</p> (end)", "<p>two</p> (end)", 3},
		{"first line\nsame then a", "first line\nsame then b", "…same then a (end)", "…same then b (end)", 21},
		{"", "something", " (end)", "something (end)", 0},
		{long + "a", long + "b", "…" + strings.Repeat("é", 20) + "a (end)", "…" + strings.Repeat("é", 20) + "b (end)",
			600},
		{"é", "è", "é (end)", "è (end)", 0}, // the second byte differs
		{"a" + long, "b" + long, "a" + strings.Repeat("é", 79) + "…", "b" + strings.Repeat("é", 79) + "…", 0},
	} {
		from, to, at := excerpts(c.a, c.b)
		if from != c.from || to != c.to || at != c.at || !utf8.ValidString(from+to) {
			t.Errorf("%.20q and %.20q: %q, %q at %d; want %q, %q at %d", c.a, c.b, from, to, at, c.from, c.to, c.at)
		}
	}
}
