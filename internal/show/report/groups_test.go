package report

import (
	"strings"
	"testing"

	"tare/internal/record"
)

// TestUnequalGroupsAreBounded: a server with other data answers every statement otherwise. As many of them are shown as
// may explain a difference, and the rest is counted. That of all others together has a sign, too.
func TestUnequalGroupsAreBounded(t *testing.T) {
	m := scenes()["groups"]
	gs := &m.Result.Groups[1]
	for i := range gs.Groups[:14] {
		g := &gs.Groups[i]
		g.Verdict, g.Ratio, g.Share = record.Withheld, record.Ratio{Verdict: record.Withheld}, 0
	}
	gs.Groups[3].ID = record.OtherGroup
	groups, more := shownGroups(gs)
	if more != 4 || len(groups) != mostGroups {
		t.Errorf("%d groups, and %d more", len(groups), more)
	}
	for name, renderer := range map[string]Renderer{"text": Terminal, "markdown": Markdown} {
		out := string(render(t, renderer, m))
		others := ""
		for line := range strings.Lines(out) {
			if strings.Contains(line, "all others") {
				others = line
			}
		}
		if !strings.Contains(out, "The work of 4 more parts differs.") || !strings.Contains(others, " ? ") {
			t.Errorf("%s: %q in\n%s", name, others, out)
		}
	}
}
