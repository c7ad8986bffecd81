package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test ./internal/show/report -update rewrites it):\n--- got\n%s--- want\n%s", file, got,
			want)
	}
}

func render(t *testing.T, r Renderer, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTerminal(t *testing.T) {
	for name, m := range scenes() {
		t.Run(name, func(t *testing.T) {
			got := render(t, Terminal, m)
			golden(t, name+".txt", got)
			limit := m.Text.Width
			if limit == 0 {
				limit = 80
			}
			for i, line := range strings.Split(string(got), "\n") {
				if m.Text.Color {
					break
				}
				// A command is not broken, so that it can be copied.
				command := strings.HasPrefix(line, "repeat: ") || strings.HasPrefix(line, "check: ") ||
					strings.HasPrefix(line, "go on: ")
				if w := width(line); w > limit && !command {
					t.Errorf("line %d is %d wide, more than %d: %s", i+1, w, limit, line)
				}
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("line %d has something a terminal may obey: %q", i+1, line)
				}
				if m.Text.ASCII && strings.ContainsFunc(line, func(r rune) bool { return r > 0x7e }) {
					t.Errorf("line %d is not ASCII: %s", i+1, line)
				}
			}
			if !bytes.Equal(got, render(t, Terminal, m)) {
				t.Error("a second rendering differs")
			}
		})
	}
}

// TestVerdictsAreThere guards the scene itself: the golden files must show every verdict.
func TestVerdictsAreThere(t *testing.T) {
	seen := map[record.Verdict]bool{}
	for _, c := range scenes()["verdicts-wide"].Result.Cells {
		seen[c.Verdict] = true
	}
	for _, v := range []record.Verdict{record.Different, record.Equivalent, record.Measured, record.Inconclusive,
		record.Withheld, record.Failed} {
		if !seen[v] {
			t.Errorf("no cell is %s", v)
		}
	}
}

// reportSchema is the published schema made strict: scripts are told to pass over fields that they do not know, but
// this program writes none that the schema does not have.
func reportSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	src, err := os.ReadFile("../../../docs/report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	var strict func(v any)
	strict = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				strict(x)
			}
		case map[string]any:
			if _, ok := v["properties"].(map[string]any); ok && v["type"] == "object" {
				v["additionalProperties"] = false
				objects++
			}
			for _, x := range v {
				strict(x)
			}
		}
	}
	strict(doc)
	if objects < 15 {
		t.Fatalf("only %d objects of the schema were made strict", objects)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("strict.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("strict.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, schema *jsonschema.Schema, src []byte) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("%v\n%.20000s", err, src)
	}
}

func TestJSON(t *testing.T) {
	schema := reportSchema(t)
	for name, m := range scenes() {
		t.Run(name, func(t *testing.T) {
			got := render(t, JSON, m)
			validate(t, schema, got)
			var back verdict.Result
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			if want := plainResult(m.Result); !reflect.DeepEqual(&back, want) {
				t.Errorf("read back:\n got %+v\nwant %+v", &back, want)
			}
			if bytes.Contains(got, []byte(": null")) {
				t.Error("there is a null")
			}
		})
	}
	golden(t, "groups.markdown", render(t, Markdown, scenes()["groups"]))
	for _, name := range []string{"verdicts-wide", "many", "hostile", "target-failed", "unfinished", "one-target"} {
		m := scenes()[name]
		m.Command = "tare run -e host -e 'vm=qemu?cpus=2' -w fs.randread:bs=4KiB --seed 7"
		golden(t, name+".issue", render(t, Issue, m))
	}
	golden(t, "unfinished.json", render(t, JSON, scenes()["unfinished"]))
}

func TestJSONOfNothing(t *testing.T) {
	r := &verdict.Result{Schema: verdict.Schema, Run: verdict.Run{ID: "x", Seconds: math.NaN()},
		Targets: []verdict.Target{{Target: record.Target{Name: "host"}, OpenS: math.Inf(1)}},
		Cells:   []verdict.Cell{{Ratio: record.Ratio{High: math.Inf(1), Verdict: record.Inconclusive}}}}
	got := render(t, JSON, NewModel(r))
	if bytes.Contains(got, []byte(": null")) || !math.IsInf(r.Cells[0].High, 1) {
		t.Errorf("arrays must not be null, and the result must stay as it was:\n%s", got)
	}
}

// TestSchemaRefuses holds that the schema is not one that takes everything.
func TestSchemaRefuses(t *testing.T) {
	schema := reportSchema(t)
	good := render(t, JSON, scenes()["unfinished"])
	for name, edit := range map[string]func(m map[string]any){
		"schema":     func(m map[string]any) { m["schema"] = 2 },
		"no cells":   func(m map[string]any) { delete(m, "cells") },
		"null cells": func(m map[string]any) { m["cells"] = nil },
		"extra":      func(m map[string]any) { m["score"] = 9000 },
		"verdict":    func(m map[string]any) { m["cells"].([]any)[0].(map[string]any)["verdict"] = "BEST" },
		"ratio":      func(m map[string]any) { m["cells"].([]any)[0].(map[string]any)["ratio"] = "1.0" },
		"warnings":   func(m map[string]any) { delete(m["cells"].([]any)[0].(map[string]any), "warnings") },
		"severity": func(m map[string]any) {
			m["findings"] = []any{map[string]any{"code": "x", "severity": "dire", "text": "y"}}
		},
	} {
		var doc map[string]any
		if err := json.Unmarshal(good, &doc); err != nil {
			t.Fatal(err)
		}
		edit(doc)
		if err := schema.Validate(doc); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestRowsWithABaselineOfTheirOwn: a row's figure stands with the name of what it is of, where that is not the run's
// baseline, and in the column of that target stands a 1.
func TestRowsWithABaselineOfTheirOwn(t *testing.T) {
	cell := func(target, base string, ratio float64) verdict.Cell {
		return verdict.Cell{Workload: "site", Kind: "http.load", Metric: "rate", Unit: "req/s", Primary: true,
			Target:   target,
			Baseline: base, BaselineCenter: 10, Center: 10 / ratio,
			Ratio: record.Ratio{Center: ratio, Blocks: 10, Verdict: record.Different}}
	}
	r := &verdict.Result{Run: verdict.Run{Baseline: "host"},
		Targets: []verdict.Target{{Target: record.Target{Name: "host"}, Baseline: true},
			{Target: record.Target{Name: "box"}}, {Target: record.Target{Name: "vm"}, Against: "box"},
			{Target: record.Target{Name: "vm:9p", Of: "vm"}, Against: "vm"}},
		Cells: []verdict.Cell{cell("vm", "box", 4), cell("vm:9p", "vm", 1.5)}}
	m := NewModel(r)
	if len(m.Rows) != 1 || m.Rows[0].Base != "box" || m.Rows[0].BaselineText() != "box 10.0 req/s" {
		t.Fatalf("rows %+v", m.Rows)
	}
	for _, width := range []int{200, 30} {
		m.Text.Width = width
		text := string(render(t, Terminal, m))
		if !strings.Contains(text, "box 10.0 req/s") || strings.Contains(text, "host 10") ||
			strings.Contains(text, "host box") {
			t.Errorf("%d columns:\n%s", width, text)
		}
	}
	r.Cells = append(r.Cells, cell("box", "host", 2))
	if m = NewModel(r); m.Rows[0].Base != "" || m.Rows[0].BaselineText() != "10.0 req/s" {
		t.Errorf("with the run's baseline: %+v", m.Rows[0])
	}
}

func TestRatioText(t *testing.T) {
	for v, want := range map[float64]string{1: "1.00", 0.995: "0.99", 1.009: "1.01", 9.81: "9.81", 9.996: "10.0",
		14.23: "14.2", 99.96: "100", 242.4: "242",
		0.62: "0.62", 0.0512: "0.0512", 0.05: "0.05", 1e-5: "1.00e-05", 3e8: "3.00e+08", 0: "?", -1: "?",
		math.Inf(1): "?"} {
		if got := ratioText(v); got != want {
			t.Errorf("ratioText(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestSmallTexts(t *testing.T) {
	for got, want := range map[string]string{
		percentText(0.003): "0.3 %", percentText(0.02): "2 %", percentText(0.123): "12.3 %", percentText(2): "200 %",
		percentText(0.00001): "0.001 %", percentText(0.95): "95 %",
		durationText(400): "6 min 40 s", durationText(4.24): "4.2 s", durationText(60): "1 min",
		durationText(7500): "2 h 5 min", durationText(-1): "?", durationText(math.NaN()): "?",
		compactPercent(0.004): ".4%", compactPercent(0.03): "3%", compactPercent(0.0001): "0%",
		compactPercent(99): ">999%",
		shellWord("a/b.c"): "a/b.c", shellWord("a b"): "'a b'", shellWord("it's"): `'it'\''s'`, shellWord(""): "''",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	got := wrap("! ", "one two three 日本語日本語 "+strings.Repeat("x", 30), 16)
	want := []string{"! one two three", "  日本語日本語", "  xxxxxxxxxxxxxx", "  xxxxxxxxxxxxxx", "  xx"}
	if figure := wrap("", "it spreads by 0.3 %; and took 12.5 ms", 18); !reflect.DeepEqual(figure,
		[]string{"it spreads by", "0.3 %; and took", "12.5 ms"}) {
		t.Errorf("a figure is parted from its unit: %q", figure)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteError(t *testing.T) {
	m := scenes()["unfinished"]
	for _, f := range Renderers() {
		if err := f.Render(brokenPipe{}, m); err == nil {
			t.Errorf("%s: the error of the writer is lost", f.Name)
		}
	}
}

// FuzzTerminal holds that no name or message reaches the terminal with anything it would obey.
func FuzzTerminal(f *testing.F) {
	f.Add("box", "cpu.prime", "it failed", 80)
	f.Add("b\x1b[31m", "\u202e\r\n\t", strings.Repeat("\xff日", 300), 1)
	f.Fuzz(func(t *testing.T, target, label, text string, columns int) {
		r := &verdict.Result{Run: verdict.Run{Baseline: target, Version: text, Name: label, Scope: text, Alpha: 0.05},
			Targets: []verdict.Target{{Target: record.Target{Name: target}, Baseline: true},
				{Target: record.Target{Name: target + "x", Spec: text, Inside: record.Facts{Kernel: text}}}},
			Cells: []verdict.Cell{{Workload: label, Target: target + "x", Primary: true, Unit: text, BaselineCenter: 5,
				Ratio: record.Ratio{Verdict: record.Failed}, Failure: &record.Failure{Message: text},
				Warnings: []record.Warning{{Text: text, Remedy: label}}}},
			Findings: []verdict.Finding{{Text: text, Remedy: label}}}
		m := NewModel(r)
		m.Bundle = label
		m.Text = TextOptions{Width: columns % 200, Details: true}
		var b bytes.Buffer
		if err := Terminal(&b, m); err != nil {
			t.Fatal(err)
		}
		for _, c := range b.String() {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Fatalf("%U in %q", c, b.String())
			}
		}
	})
}

// TestOpenCellsOfMetricsAreTold: a warning of a metric that does not decide names it, and no form asks for more blocks
// than a plan may have.
func TestOpenCellsOfMetricsAreTold(t *testing.T) {
	open := record.Ratio{Center: 1.1, Low: 0.5, High: 2, Level: 0.95, Blocks: 10, Verdict: record.Inconclusive,
		BlocksNeeded: 11413}
	cell := func(metric string, primary bool) verdict.Cell {
		return verdict.Cell{Workload: "command", Kind: "command", Metric: metric, Primary: primary, Unit: "s",
			Better: "lower", Target: "box", Baseline: "host",
			Center: 1.1, BaselineCenter: 1, Ratio: open,
			Warnings: []record.Warning{{Code: "noisy-host", Text: "noise in " + metric}}}
	}
	m := NewModel(&verdict.Result{Run: verdict.Run{Baseline: "host"},
		Targets: []verdict.Target{{Target: record.Target{Name: "host"}, Baseline: true},
			{Target: record.Target{Name: "box"}}},
		Cells: []verdict.Cell{cell("seconds", true), cell("user_seconds", false)}})
	m.Text = TextOptions{Width: 120, Details: true}
	text := string(render(t, Terminal, m))
	for _, want := range []string{"* box command: noise in seconds",
		"* box command user_seconds: noise in user_seconds"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if text := string(render(t, JUnit, m)); strings.Contains(text, "11413") || strings.Count(text,
		"not even 500 blocks would decide it") != 2 {
		t.Errorf("%s", text)
	}
}

// TestFailureSaysWhatTheWorkSaid: an exit code does not tell why a command failed; its last line mostly does.
func TestFailureSaysWhatTheWorkSaid(t *testing.T) {
	for _, c := range []struct{ kind, evidence, want string }{
		{"measure", "building\nmake: *** No targets.\n", "; its output: make: *** No targets."},
		{"setup", "no make", "; its output: no make"},
		{"measure", "", ""},
		{"measure", "a\n ended with exit code 2 ", ""},
		{"measure", strings.Repeat("word ", 90), "; its output: " + strings.Repeat("word ", 39) + "word ..."},
		{"environment-died", "[    1.0] a console\n", ""},
	} {
		m := NewModel(&verdict.Result{Run: verdict.Run{Baseline: "host"},
			Targets: []verdict.Target{{Target: record.Target{Name: "host"}, Baseline: true},
				{Target: record.Target{Name: "box"}}},
			Cells: []verdict.Cell{{Workload: "command", Metric: "seconds", Primary: true, Unit: "s", Target: "box",
				Baseline: "host",
				Failure:  &record.Failure{Kind: c.kind, Message: "ended with exit code 2", Evidence: c.evidence},
				Ratio:    record.Ratio{Verdict: record.Failed}}}})
		m.Text = TextOptions{Width: 1000}
		text := strings.Join(strings.Fields(string(render(t, Terminal, m))), " ")
		if want := "box command: ended with exit code 2" + c.want + " null control"; !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
