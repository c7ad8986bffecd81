package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"tare/internal/judge/failif"
	"tare/internal/judge/recurrence"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// pullOf is a comparison of a pull request with one result.
func pullOf(m *Model, seen ...recurrence.Seen) *Pull {
	p := &Pull{Name: "tare", Base: strings.Repeat("1", 40), Head: strings.Repeat("2", 40),
		Link: "https://github.com/o/r/actions/runs/1", Processor: "Test CPU", Annotate: "bench/main.go", Line: 3,
		Results: []PullResult{{Model: m, Figures: recurrence.CellsOf(m.Result), Seen: seen}}}
	return p
}

// headScene is base against head, where head costs so much.
func headScene(cost, noise float64) *Model {
	s := scene{targets: []string{"base", "head"}, workloads: work("command"), blocks: 15,
		cost: func(string, string) (float64, float64) { return cost, noise }}
	return NewModel(s.result())
}

func written(t *testing.T, write func(io.Writer, *Pull) error, p *Pull) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func holding(state failif.State) []failif.Outcome {
	return []failif.Outcome{{Expr: "slower(head, command, 5%)", State: state, Text: "ratio(head, command) is 1.2"}}
}

func TestPullGolden(t *testing.T) {
	slow := headScene(1.2, 0)
	slow.FailIf = holding(failif.Holds)
	golden(t, "pull-slower.md", []byte(written(t, PullComment, pullOf(slow, recurrence.Seen{Slower: true, Now: true,
		Times: 3, Of: 4,
		Commits: 2}))))
	golden(t, "pull-slower.annotations", []byte(written(t, PullAnnotations, pullOf(slow))))
	same := headScene(1, 0)
	same.FailIf = holding(failif.No)
	golden(t, "pull-same.md", []byte(written(t, PullComment, pullOf(same, recurrence.Seen{Slower: true, Times: 1, Of: 3,
		Commits: 1}))))
	golden(t, "pull-failed.md", []byte(written(t, PullComment, &Pull{Name: "tare", Problem: "head does not build",
		Log: "cc: @everyone <b>```\n::error::x\n\x1b[31mred\x1b[0m #1\n"})))
}

func TestPullConclusion(t *testing.T) {
	undecided := headScene(1.06, 0.3)
	with := func(m *Model, o []failif.Outcome) *Model {
		m.FailIf = o
		return m
	}
	for name, c := range map[string]struct {
		p    *Pull
		want PullConclusion
		say  string
	}{
		"slower":           {pullOf(with(headScene(1.2, 0), holding(failif.Holds))), PullFailure, "head costs 1.20x"},
		"slower, no limit": {pullOf(headScene(1.2, 0)), PullSuccess, "head costs 1.20x"},
		"the same": {pullOf(with(headScene(1, 0), holding(failif.No))), PullSuccess,
			"head costs the same as base"},
		"cannot be told": {pullOf(with(undecided, holding(failif.Unknown))), PullNeutral, "not certain enough"},
		"not so slow":    {pullOf(with(headScene(1.06, 0.3), holding(failif.No))), PullSuccess, "head"},
		"strict": {func() *Pull { p := pullOf(headScene(1.06, 0.3)); p.Strict = true; return p }(), PullFailure,
			"(--strict)"},
		"not built": {&Pull{Problem: "head does not build"}, PullFailure, "not compared: head does not build"},
	} {
		if got, say := c.p.Conclusion(); got != c.want || !strings.Contains(say, c.say) {
			t.Errorf("%s: %s, %s", name, got, say)
		}
	}
}

func TestSeenText(t *testing.T) {
	for want, s := range map[string]recurrence.Seen{
		"":                             {Of: 3},
		"first run":                    {Now: true, Times: 1, Of: 1, Commits: 1, Slower: true},
		"seen in 3 of the last 4 runs": {Now: true, Times: 3, Of: 4, Commits: 1, Slower: true},
		"seen in 1 of the last 2 runs": {Now: true, Times: 1, Of: 2, Commits: 1},
		"not now; slower in 1 of the 1 run before":              {Times: 1, Of: 2, Commits: 1, Slower: true},
		"not now; faster in 2 of the 3 runs before (2 commits)": {Times: 2, Of: 4, Commits: 2},
	} {
		if got := seenText(s); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestPullCheckIsBounded(t *testing.T) {
	m := headScene(1.2, 0)
	for i := range 300 {
		m.FailIf = append(m.FailIf, failif.Outcome{Expr: fmt.Sprint(i, strings.Repeat(" and x", 600)),
			Text: strings.Repeat("long ", 3000), State: failif.Holds})
		m.Findings = append(m.Findings, verdict.Finding{Text: strings.Repeat("long finding ", 60)})
	}
	for i := range 300 {
		c := m.Cells[0]
		c.Workload = fmt.Sprintf("case %d %s", i, strings.Repeat("x", 300))
		m.Cells = append(m.Cells, c)
	}
	p := pullOf(m)
	if n := len(written(t, PullComment, p)); n > 65_000 || n < 10_000 {
		t.Errorf("the comment has %d bytes", n)
	}
	if text := written(t, PullComment, p); !strings.Contains(text, "would be too long; the bundle has it") ||
		!strings.HasSuffix(text, "[the run](https://github.com/o/r/actions/runs/1)</sub>\n") {
		t.Errorf("it ends with %q", text[len(text)-300:])
	}
	var check checkRun
	text := written(t, func(w io.Writer, p *Pull) error { return PullCheck(w, p, p.Head) }, p)
	if err := json.Unmarshal([]byte(text), &check); err != nil {
		t.Fatal(err)
	}
	if len(check.Output.Annotations) != mostAnnotations || len(check.Output.Summary) > 65_535 ||
		check.Conclusion != "failure" || check.Output.Annotations[0].Path != "bench/main.go" {
		t.Errorf("%d annotations, a summary of %d bytes", len(check.Output.Annotations), len(check.Output.Summary))
	}
	for _, a := range check.Output.Annotations {
		if len([]rune(a.Title)) > 255 || len(a.Message) > 65_536 {
			t.Errorf("a title of %d, a message of %d", len(a.Title), len(a.Message))
		}
	}
	if n := strings.Count(written(t, PullAnnotations, p), "\n"); n > 2*mostCommands {
		t.Errorf("%d lines for the runner", n)
	}
	// Without a file it is where GitHub's runner puts such remarks.
	p.Annotate = ""
	if a := p.annotations()[0]; a.Path != ".github" || a.Start != 3 {
		t.Errorf("%+v", a)
	}
}

// FuzzPull: foreign text stays text in a comment, and in what the runner reads.
func FuzzPull(f *testing.F) {
	for _, h := range hostile {
		f.Add(h)
	}
	f.Add("a\n::error::b")
	f.Add("@everyone #1 www.x.y")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 4096 {
			return
		}
		m := hostileModel(s)
		p := pullOf(m)
		p.Processor, p.Log, p.Base = s, s, s+strings.Repeat("1", 12)
		p.Results[0].Seen = []recurrence.Seen{{Now: true, Times: 2, Of: 2}}
		for _, problem := range []string{"", s + "x"} {
			p.Problem = problem
			text := written(t, PullComment, p)
			if problem != "" {
				head, rest, fenced := strings.Cut(text, "```")
				if at := strings.LastIndex(rest, "```"); fenced && at >= 0 {
					text = head + rest[at+3:]
				}
			}
			text = strings.Replace(text, PullMarker("tare"), "", 1)
			for _, own := range []string{"<sub>", "</sub>"} {
				text = strings.Replace(text, own, "", 1)
			}
			noMarkup(t, text)
			if strings.Contains(strings.ReplaceAll(text, "@<!-- -->", ""), "@") && !strings.Contains(text, "`") {
				t.Fatalf("a mention in %q", text)
			}
			for line := range strings.Lines(written(t, PullAnnotations, p)) {
				if !strings.HasPrefix(line, "::error ") && !strings.HasPrefix(line, "::warning ") &&
					!strings.HasPrefix(line, "::notice ") {
					t.Fatalf("the runner reads %q", line)
				}
			}
		}
	})
}

// TestPullRowOfAFailure: what failed has no ratio.
func TestPullRowOfAFailure(t *testing.T) {
	m := headScene(1.2, 0)
	m.Cells[0].Verdict = record.Withheld
	if text := written(t, PullComment, pullOf(m)); !strings.Contains(text, "| ? WITHHELD") || strings.Contains(text,
		"1.20 [") {
		t.Error(text)
	}
}

// TestPullOfASuite: each case has its row, and the title counts them.
func TestPullOfASuite(t *testing.T) {
	m := headScene(1.2, 0)
	m.Plan = &plan.Plan{Workloads: []plan.Workload{{Label: "command", Kind: "command",
		Params: workload.Params{"metric": "parse_small:s:lower:re:x\nwrite:s:lower:re:y\nscan:s:lower:re:z"}}}}
	m.Cells[0].Metric, m.Cells[0].Verdict = "parse_small", record.Equivalent
	for i, name := range []string{"write", "scan"} {
		c := m.Cells[0]
		c.Metric, c.Primary, c.Verdict = name, false, []record.Verdict{record.Different, record.Inconclusive}[i]
		m.Cells = append(m.Cells, c)
	}
	p := pullOf(m, recurrence.Seen{}, recurrence.Seen{Slower: true, Now: true, Times: 2, Of: 4, Commits: 1},
		recurrence.Seen{})
	text := written(t, PullComment, p)
	for _, want := range []string{"tare: Of 3 cases, head costs more than base in 1 and less in 0", "| parse\\_small |",
		"seen in 2 of the last 4 runs"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q:\n%s", want, text)
		}
	}
	if strings.Index(text, "| write") > strings.Index(text, "| parse") {
		t.Errorf("what differs is not first:\n%s", text)
	}
	if a := p.annotations(); len(a) != 1 || a[0].Title != "tare: write" {
		t.Errorf("%+v", a)
	}
}
