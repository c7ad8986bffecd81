package report

import (
	"strings"
	"testing"
)

// TestBrief holds that a result in short says what the table says, and nothing that the table leaves out.
func TestBrief(t *testing.T) {
	for name, scene := range scenes() {
		plain := *scene
		m := &plain
		m.Text = TextOptions{}
		b := NewBrief(m)
		if b.Title == "" || b.Subtitle == "" || len(b.Targets) != len(m.Targets) {
			t.Errorf("%s: %+v", name, b)
		}
		if len(m.Targets) > 1 && len(b.Answers) == 0 {
			t.Errorf("%s: no answer", name)
		}
		if b.Headline == "" != (len(b.Answers) == 0) || !strings.Contains(strings.Join(b.Answers, "\n"), b.Headline) {
			t.Errorf("%s: the headline %q is no answer", name, b.Headline)
		}
		table := string(render(t, Markdown, m))
		for _, w := range b.Work {
			for _, c := range w.Cells {
				if c.Class == "" || c.Sign == "" || c.Word == "" || (c.Ratio == "") != (c.Center == 0) {
					t.Errorf("%s, %s in %s: %+v", name, w.Workload, c.Target, c)
				}
				if (c.Class == "withheld" || c.Class == "failed") && c.Ratio != "" {
					t.Errorf("%s, %s in %s: %s shows a ratio", name, w.Workload, c.Target, c.Class)
				}
				if c.Ratio != "" && !strings.Contains(table, c.Sign+" "+c.Ratio) {
					t.Errorf("%s, %s in %s: %s %s is not in the table", name, w.Workload, c.Target, c.Sign, c.Ratio)
				}
				for _, mark := range c.Marks {
					if mark == "" {
						t.Errorf("%s, %s in %s: a mark without words", name, w.Workload, c.Target)
					}
				}
			}
		}
		for _, n := range b.Notes {
			if n.Kind == "" || n.Text == "" {
				t.Errorf("%s: %+v", name, n)
			}
		}
	}
}
