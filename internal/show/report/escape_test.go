package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"

	"tare/internal/judge/costper"
	"tare/internal/judge/failif"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// hostileModel has the text wherever a name or a message can stand.
func hostileModel(s string) *Model {
	r := &verdict.Result{Run: verdict.Run{ID: s, Name: s, Baseline: s, Version: s, Scope: s, Alpha: 0.05},
		Targets: []verdict.Target{{Target: record.Target{Name: s}, Baseline: true},
			{Target: record.Target{Name: s + "x", Spec: s, Inside: record.Facts{OS: s, Kernel: s, CPU: s}}}},
		Cells: []verdict.Cell{{Workload: s, Kind: s, Family: s, Metric: s, Unit: s, Target: s + "x", Baseline: s,
			Primary: true, Writes: true, BaselineCenter: 5, Center: 6,
			Ratio: record.Ratio{Center: 1.2, Low: 1.1, High: 1.3, Level: 0.95, Blocks: 10,
				Verdict: record.Different},
			Warnings: []record.Warning{{Text: s}}}},
		Families: []verdict.Summary{{Family: s, Target: s + "x", Ratio: 1.2, Low: 1.1, High: 1.3, Cells: 1}},
		Findings: []verdict.Finding{{Text: s, Remedy: s}}}
	g := verdict.Group{ID: s, Text: s, ExtraSeconds: 1, Share: 1, Base: verdict.GroupFigures{Count: 1},
		Ratio: record.Ratio{Center: 1.2, Verdict: record.Different}}
	r.Groups = []verdict.Grouped{{Workload: s, Target: s + "x", Baseline: s, Groups: []verdict.Group{g},
		Differences: []verdict.Difference{{Group: s, Base: &verdict.Returned{Sum: s, Text: s + " (end)"},
			Candidate: &verdict.Returned{Sum: s, Status: 200, Text: s + "x (end)"}}}}}
	m := NewModel(r)
	m.Plan = &plan.Plan{Name: s, Question: s, Baseline: s,
		Workloads: []plan.Workload{{Label: s, Kind: s, Params: workload.Params{"bs": s, s: s}}}}
	m.Bundle, m.FailIf = s, []failif.Outcome{{Expr: s, Text: s, State: failif.Holds}}
	m.Targets[0].Durability = &record.Durability{Verdict: s, Class: s, Layer: s, Text: s,
		Tests: []record.FlushTest{{Name: s, Verdict: s, Text: s}}, Settings: []record.Warning{{Text: s, Remedy: s}}}
	m.Targets[1].Durability = m.Targets[0].Durability
	m.Normal = &costper.Table{Per: costper.Per(s), Notes: []string{s}, Lines: []costper.Line{
		{Workload: s, Target: s + "x", Baseline: s, Unit: s, Measured: costper.Span{Center: 1.2}, Factor: 2, Ratio: 2.4,
			Terms: []costper.Term{{What: s, Unit: s, Candidate: 2, Baseline: 1, Source: s}}, Told: s},
		{Workload: s, Target: s + "y", Baseline: s, Refused: s}}}
	m.Worth = &costper.Answers{Price: costper.Money{Amount: 1, Currency: s}, UsesPerDay: 1,
		Hourly: costper.Money{Amount: 1, Currency: s},
		Answers: []costper.Worth{{Workload: s, Target: s + "x", Baseline: s, PerUse: costper.Span{Center: 1}},
			{Target: s, Refused: s}}}
	m.Trials = []record.Trial{
		{Seq: 1, Session: 1, Block: 1, Workload: s, Target: s, Slot: s, Work: 1,
			Figures: record.Figures{Metrics: map[string]float64{s: 1}}},
		{Seq: 2, Session: 1, Block: 1, Workload: s, Target: s + "x", Error: &record.Failure{Kind: s, Message: s}},
	}
	return m
}

// FuzzForms holds that foreign text stays text in every form: the CSV parses and has no formula, the XML is well
// formed, Markdown has no markup but its own, and the other lines keep their shape.
func FuzzForms(f *testing.F) {
	for _, h := range hostile {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 4096 {
			return
		}
		m := hostileModel(s)
		rows, err := csv.NewReader(bytes.NewReader(render(t, CSV, m))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if len(r) != len(rawHeader) {
				t.Fatalf("%d columns", len(r))
			}
			for i, v := range r {
				if textual := slices.Contains([]string{"run", "workload", "target", "slot", "metric", "error",
					"error_kind", "flush"}, rawHeader[i]); textual && v != "" &&
					strings.ContainsRune("=+-@＝＋－＠\t\r", []rune(v)[0]) {
					t.Fatalf("%s would be a formula: %q", rawHeader[i], v)
				}
			}
		}
		for _, form := range []Renderer{JUnit, SVG} {
			for d := xml.NewDecoder(bytes.NewReader(render(t, form, m))); ; {
				token, err := d.Token()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if e, ok := token.(xml.StartElement); ok &&
					(e.Name.Local == "script" || strings.HasPrefix(e.Name.Local, "foreign")) {
					t.Fatalf("element %s", e.Name.Local)
				}
			}
		}
		for _, form := range []Renderer{Markdown, GitHub} {
			noMarkup(t, string(render(t, form, m)))
		}
		noMarkup(t, oneBlock(t, string(render(t, Issue, m))))
		for line := range strings.Lines(string(render(t, Benchstat, m))) {
			if strings.ContainsFunc(line, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) {
				t.Fatalf("%q", line)
			}
		}
	})
}

// noMarkup fails on any tag that is not one of the form's own.
func noMarkup(t *testing.T, text string) {
	t.Helper()
	for _, own := range []string{"<!-- -->", "<details>", "</details>", "<summary>", "</summary>"} {
		text = strings.ReplaceAll(text, own, "")
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "`") || strings.HasPrefix(line, "> ") {
			continue // a code span takes nothing for markup; an alert is ours
		}
		if strings.ContainsAny(line, "<>") {
			t.Fatalf("markup in %q", line)
		}
	}
}

// oneBlock takes the plan out of an evidence block, which must be the only code block there and end.
func oneBlock(t *testing.T, text string) string {
	t.Helper()
	head, rest, ok := strings.Cut(text, "\n```")
	if !ok {
		return text
	}
	ticks := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
	_, end, closed := strings.Cut(rest[len(ticks):], "\n```"+ticks+"\n")
	if !closed || strings.Contains(end, "```") {
		t.Fatalf("the plan does not end where it should: %q", text)
	}
	return head + end
}

// TestEvidenceBlockIsBounded: the block is read at a glance, however much was measured.
func TestEvidenceBlockIsBounded(t *testing.T) {
	m := scenes()["many"]
	for range 3000 {
		m.Findings = append(m.Findings, verdict.Finding{Text: strings.Repeat("long finding ", 60)})
	}
	m.Command = "tare run"
	got := string(render(t, Issue, m))
	if lines := strings.Count(got, "\n"); lines > 28 || len(got) > 10_000 {
		t.Errorf("%d lines, %d bytes:\n%s", lines, len(got), got)
	}
	m.Command, m.Plan = "", &plan.Plan{Name: strings.Repeat("x", longestIssuePlan)}
	if got := string(render(t, Issue, m)); strings.Contains(got, "```") || !strings.Contains(got, "`tare rerun`") {
		t.Errorf("a plan that is too long:\n%s", got)
	}
}

// TestMarkdownTables counts the cells of every line of every table: text never adds one.
func TestMarkdownTables(t *testing.T) {
	for _, h := range hostile {
		cells := 0
		for line := range strings.Lines(string(render(t, Markdown, hostileModel(h)))) {
			if !strings.HasPrefix(line, "|") {
				cells = 0
				continue
			}
			n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			if cells > 0 && n != cells {
				t.Errorf("%d cells, then %d: %s", cells, n, line)
			}
			cells = n
		}
	}
}

func TestInert(t *testing.T) {
	for in, want := range map[string]string{"=1": "'=1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "＝1": "'＝1",
		"a=1": "a=1", "": "", "'=1": "'=1"} {
		if got := inert(in); got != want {
			t.Errorf("inert(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCode(t *testing.T) {
	for in, want := range map[string]string{"a": "`a`", "a`b": "``a`b``", "`": "`` ` ``", "``x": "``` ``x ```"} {
		if got := code(in); got != want {
			t.Errorf("code(%q) = %s, want %s", in, got, want)
		}
	}
}

// TestLimits holds the bounds that keep a form usable when a run is large.
func TestLimits(t *testing.T) {
	m := hostileModel("x")
	for range 3000 {
		m.Findings = append(m.Findings, verdict.Finding{Text: strings.Repeat("long finding ", 60)})
	}
	if n := len(render(t, GitHub, m)); n > maxSummary || n < 300 {
		t.Errorf("the summary has %d bytes", n)
	}
	row := m.Rows[0]
	for range 2000 {
		m.Rows = append(m.Rows, row)
	}
	if svg := string(render(t, SVG, m)); strings.Count(svg, "<text") > 5*maxForest ||
		!strings.Contains(svg, "not shown") {
		t.Errorf("%d texts", strings.Count(svg, "<text"))
	}
}

// FuzzSizeOf holds that no text of a parameter gives a size below 0.
func FuzzSizeOf(f *testing.F) {
	f.Add("4KiB")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, text string) {
		if sizeOf(workload.Params{"bs": text}, "bs") < 0 {
			t.Fatal("negative size")
		}
	})
}

// TestTicks holds that the ticks of any axis are inside it, ascending, few, spread over it, and have 1 among them.
func TestTicks(t *testing.T) {
	for _, r := range [][2]float64{{1, 1}, {0.99, 1.004}, {1, 1.35}, {0.62, 1.2}, {0.9, 3.9}, {1, 4.1}, {0.3, 12},
		{1, 245}, {1e-4, 1e3}, {1e-12, 1e15}} {
		a := newLogAxis([][2]float64{r}, 0, 600)
		ticks := a.ticks(9)
		if len(ticks) < 2 || len(ticks) > 9 || !slices.ContainsFunc(ticks,
			func(v float64) bool { return math.Abs(v-1) < 1e-9 }) {
			t.Errorf("%v: %v", r, ticks)
			continue
		}
		at := -50.0
		for _, v := range ticks {
			x := a.at(v)
			if v < a.low*(1-1e-9) || v > a.high*(1+1e-9) || x < at+28 {
				t.Errorf("%v: %v at %v", r, ticks, x)
			}
			at = x
		}
		if first := a.at(ticks[0]); first > 250 || at < 350 {
			t.Errorf("%v: %v leave much of the axis empty", r, ticks)
		}
	}
}
