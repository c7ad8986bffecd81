package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/failif"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// hostile is text that does harm wherever it is not taken as text.
var hostile = []string{
	"=HYPERLINK(\"http://evil.example\",\"x\")", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1+1)", "＝1+1",
	"<script>alert(1)</script>", "a|b\r\n## c", "`rm -rf`",
	"\x1b]0;owned\x07", "\u202egnp.exe", "quote\"and,comma", "&amp;]]>", "[x](javascript:alert(1))",
	"@everyone #1 https://evil.example www.evil.example",
	"it's 'quoted'", "\u0000\ufffe\xff", strings.Repeat("long ", 1000),
}

// fileModel is a run with everything that the file forms show: raw trials of all sorts, record sizes, matrices, hostile
// names, cards, durability and gates.
func fileModel() *Model {
	s := scene{targets: []string{"host", "vm", "vm:9p"},
		workloads: work("cpu.prime", "fs.randread bs=4KiB", "fs.randread bs=16KiB"), blocks: 15}
	s.workloads[1].Params = workload.Params{"size": "64MiB", "bs": "4KiB", "direct": "false"}
	s.workloads[2].Params = workload.Params{"size": "64MiB", "bs": "16KiB", "direct": "false"}
	for _, direct := range []string{"false", "true"} {
		for _, size := range []string{"64KiB", "1MiB"} {
			for _, bs := range []string{"4KiB", "64KiB", "1MiB"} {
				if size == "64KiB" && bs == "1MiB" {
					continue
				}
				s.workloads = append(s.workloads,
					plan.Workload{Label: fmt.Sprintf("matrix %s %s direct=%s", size, bs, direct), Kind: matrixKind,
						Params: workload.Params{"size": size, "bs": bs, "direct": direct, "close": "true"}})
			}
		}
	}
	for i, h := range hostile {
		s.workloads = append(s.workloads, plan.Workload{Label: h, Kind: "memory.latency", Params: workload.Params{}})
		if i == 3 {
			break // the others are in messages: a family of thousands of cells decides nothing
		}
	}
	s.cost = func(label, target string) (float64, float64) {
		if target == "vm:9p" {
			return 8.4, 0.02
		}
		return 1.3, 0.01
	}
	var kept verdict.Input
	s.tweak = func(in *verdict.Input) {
		in.Environments[2].Spec = hostile[0]
		in.Environments[2].Inside.Kernel = hostile[1]
		in.Environments[2].Of = "vm"
		in.Environments[2].Mount = &record.Mount{Kind: "9p", Dir: "/mnt/9p", Type: "9p",
			Options: "trans=virtio,msize=512000", Server: hostile[5]}
		in.Environments[2].Durability = &record.Durability{Verdict: record.NotDisproved, Class: "flushes",
			Layer: "the host's disk", Cuts: 30, Bound: 0.1, Text: "no record was lost"}
		in.Environments[2].Card = []record.Property{{Name: "inotify", Title: "change events from the host arrive",
			Answer: "no", Rating: "bad"},
			{Name: "attr-cache", Title: "lag of attributes", Answer: "1.0 s", Seconds: 1, Rating: "neutral",
				Detail: hostile[8]}}
		in.Environments[1].Card = []record.Property{{Name: "inotify", Title: "change events from the host arrive",
			Answer: "yes", Rating: "good"}}
		for i := range in.Trials {
			t := &in.Trials[i]
			t.Start = time.Date(2026, 11, 21, 7, 31, 0, 0, time.UTC).Add(time.Duration(i) * time.Second)
			t.Host = &record.HostState{Quiet: i%7 != 0, WaitedNS: 1e6, Load1: 0.25, Steal: -1}
			if t.Workload == "cpu.prime" && t.Target == "vm" && t.Block < len(hostile) {
				if t.Block%2 == 1 {
					fail(t, "measure", hostile[t.Block])
				}
			}
		}
		in.Trials = append(in.Trials, record.Trial{Seq: len(in.Trials) + 1, Session: 1, Block: 3,
			Workload: "fs.randread bs=4KiB", Discarded: "steal above 10 %"})
		kept = *in
	}
	r := s.result()
	for i, h := range hostile {
		r.Findings = append(r.Findings, verdict.Finding{Code: "x", Severity: "warning", Text: h,
			Remedy: hostile[(i+3)%len(hostile)]})
	}
	r.Costs = []verdict.Cost{
		{Target: "host", Kind: "fs.randread", Label: "fs.randread size=64MiB", PerCallNS: 400, PerByteNS: 0.1,
			Text: "each call costs 400 ns, then 10 GB/s"},
		{Target: "vm:9p", Kind: "fs.randread", Label: "fs.randread size=64MiB", PerCallNS: 62e3, PerByteNS: 4.7,
			Error: 0.04, Text: "each call costs 62 us, then 210 MB/s"},
	}
	m := NewModel(r)
	m.Trials, m.Plan, m.Bundle = kept.Trials, kept.Plan, "tare-20261121-0731"
	m.FailIf = []failif.Outcome{{Expr: "ratio(vm:9p, fs.randread) > 2.0", State: failif.Holds,
		Text: "8.40 [8.30, 8.50] lies above 2.0"}, {Expr: "slower(vm, cpu.prime, 50%)", Text: hostile[5]},
		{Expr: "value(vm:9p, fs.randread) < 1e6", State: failif.Unknown, Text: "its verdict is withheld"}}
	return m
}

// TestFiles keeps a golden file of every form that is text, and holds for all of them that a second rendering is the
// same.
func TestFiles(t *testing.T) {
	for _, f := range Renderers() {
		m := fileModel()
		if f.Name == "html" || f.Name == "iozone" {
			continue // has tests of its own
		}
		t.Run(f.Name, func(t *testing.T) {
			if f.Name == "xlsx" {
				m.Trials = m.Trials[:100] // the raw rows are what takes long
			}
			got := render(t, f.Render, m)
			again := fileModel()
			again.Trials = again.Trials[:len(m.Trials)]
			if !bytes.Equal(got, render(t, f.Render, again)) {
				t.Error("a second rendering differs")
			}
			if f.Binary || f.Name == "json" {
				return
			}
			if f.Name == "csv" || f.Name == "benchstat" {
				m := fileModel()
				m.Trials = slices.DeleteFunc(m.Trials, func(t record.Trial) bool {
					return t.Block > 4 || strings.HasPrefix(t.Workload, "matrix") &&
						(t.Workload != "matrix 1MiB 64KiB direct=true" || t.Block > 1)
				})
				got = render(t, f.Render, m)
			}
			// a case for each metric of each cell: the matrices are too many for a file that people compare
			if f.Name == "junit" {
				m := fileModel()
				m.Rows = slices.DeleteFunc(m.Rows, func(r Row) bool { return r.Kind == matrixKind && !r.Primary })
				got = render(t, f.Render, m)
			}
			if f.Name == "groups-csv" {
				got = render(t, f.Render, scenes()["groups"])
			}
			golden(t, "files."+f.Name, got)
			if f.Name == "csv" || f.Name == "groups-csv" {
				return // has CR as RFC 4180 wants it
			}
			for _, c := range string(got) {
				if c != '\n' && c != '\t' && (c < ' ' || c == 0x7f || c == '\u202e') {
					t.Fatalf("%U in the output", c)
				}
			}
		})
	}
}

// TestFormats holds that names and suffixes tell the forms apart.
func TestFormats(t *testing.T) {
	var names, suffixes []string
	for _, f := range Renderers() {
		if f.Name == "" || f.Doc == "" || f.Render == nil || slices.Contains(names, f.Name) ||
			f.Suffix != "" && (f.Suffix[0] != '.' || slices.Contains(suffixes, f.Suffix)) {
			t.Errorf("%+v", f)
		}
		names, suffixes = append(names, f.Name), append(suffixes, f.Suffix)
	}
}

func TestAnswers(t *testing.T) {
	m := fileModel()
	var got []string
	for _, a := range m.Answers() {
		got = append(got, a.Text)
	}
	all := strings.Join(got, "\n")
	if len(got) != 6 || !strings.Contains(all, "File system: vm:9p costs 8.4") ||
		!strings.Contains(all, "against host on average over 12 workloads, on this boot.") {
		t.Errorf("%s", all)
	}
	s := scene{targets: []string{"host", "vm", "box"},
		workloads: work("fs.randread", "fs.seqwrite bs=4KiB", "fs.seqwrite bs=64KiB"), blocks: 15}
	s.cost = func(label, target string) (float64, float64) {
		switch {
		case target == "box" && label == "fs.randread":
			return 1.7, 0.01
		case target == "box":
			return 1, 0.003
		}
		return map[string]float64{"fs.randread": 0.5, "fs.seqwrite bs=4KiB": 2, "fs.seqwrite bs=64KiB": 8}[label], 0.01
	}
	for i, want := range []string{", from 0.50x in fs.randread to 8.0", ", but 1.7"} {
		if text := NewModel(s.result()).Answers()[i].Text; !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	empty := NewModel(&verdict.Result{Targets: []verdict.Target{{Target: record.Target{Name: "host"}, Baseline: true},
		{Target: record.Target{Name: "vm"}}}})
	if a := empty.Answers(); len(a) != 1 || a[0].Text != "Nothing is known of vm yet." {
		t.Errorf("%+v", a)
	}
}

// TestAnswersOfWhatRan says nothing of a family that was not to run in a target, and of an emulated CPU wherever it
// counts.
func TestAnswersOfWhatRan(t *testing.T) {
	s := scene{targets: []string{"host", "vm", "box"}, workloads: work("cpu.prime", "fs.randread", "fs.seqwrite"),
		blocks: 20}
	s.workloads[0].Targets = []string{"host", "vm"}
	s.cost = func(_, target string) (float64, float64) { return map[string]float64{"vm": 3, "box": 1}[target], 0.003 }
	s.tweak = func(in *verdict.Input) { in.Environments[1].Inside.Emulated = true }
	m := NewModel(s.result())
	var got []string
	for _, a := range m.Answers() {
		got = append(got, a.Text)
	}
	if len(got) != 3 || !strings.HasPrefix(got[0], "CPU: vm costs 3.0") ||
		!strings.HasSuffix(got[0], ", on an emulated CPU, on this boot.") ||
		!strings.HasPrefix(got[1], "File system: vm costs 3.0") ||
		!strings.HasPrefix(got[2], "File system: box costs") || strings.Contains(got[2], "emulated") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// TestAnswersWithoutTheWithheld says what a mean is without.
func TestAnswersWithoutTheWithheld(t *testing.T) {
	for want, labels := range map[string][]string{
		"against host on average over 2 workloads, without 1 of 3 whose verdict is withheld, on": {"fs.randread",
			"fs.seqwrite", "fs.randread bs=64KiB"},
		"against host in 1 workload, without 2 of 3 whose verdict is withheld, on": {"fs.randread",
			"fs.seqwrite bs=4KiB", "fs.seqwrite bs=64KiB"},
	} {
		s := scene{targets: []string{"host", "vm"}, workloads: work(labels...), blocks: 15}
		s.cost = func(string, string) (float64, float64) { return 2, 0.003 }
		s.tweak = func(in *verdict.Input) {
			in.Environments[0].Durability = &record.Durability{Class: "flushes"}
			in.Environments[1].Durability = &record.Durability{Class: "memory"}
		}
		if a := NewModel(s.result()).Answers(); len(a) != 1 || !strings.Contains(a[0].Text, want) {
			t.Errorf("%+v, want %q", a, want)
		}
	}
}

func TestBrokenAnswers(t *testing.T) {
	const room = 200
	for _, text := range []string{"short", strings.Repeat("word ", 12), strings.Repeat("word ", 4000),
		strings.Repeat("x", 100_000), " " + strings.Repeat("x", 500)} {
		lines := broken(text, room)
		if len(lines) > 2 || lines[0].goesOn || !strings.HasPrefix(text, strings.TrimSuffix(lines[0].text, "…")) {
			t.Errorf("%.20q: %+v", text, lines)
		}
		for _, l := range lines {
			if textWidth(l.text, 14, false) > room {
				t.Errorf("%.20q: %q is wider than there is room", text, l.text)
			}
		}
	}
	if got := broken("one two three four five six seven eight", 200); len(got) != 2 ||
		got[0].text+" "+got[1].text != "one two three four five six seven eight" {
		t.Errorf("%+v", got)
	}
}

// TestNobodyIsRankedByFlushes holds for every form: work that lasts has no ratio between a disk and memory, and that of
// a command, of which only the counters tell, has its mark.
func TestNobodyIsRankedByFlushes(t *testing.T) {
	s := scene{targets: []string{"host", "vm"}, workloads: work("fs.seqwrite", "command"), blocks: 15}
	for i := range s.workloads {
		if s.workloads[i].Label == "command" {
			s.workloads[i].Kind = "command"
		}
	}
	s.cost = func(string, string) (float64, float64) { return 0.3, 0.003 }
	var kept verdict.Input
	s.tweak = func(in *verdict.Input) {
		in.Environments[0].Durability = &record.Durability{Class: "flushes"}
		in.Environments[1].Durability = &record.Durability{Class: "memory"}
		in.Environments[0].Inside.WorkFS, in.Environments[1].Inside.WorkFS = "ext4 (rw)", "tmpfs (rw)"
		known := in.Kinds
		in.Kinds = func(name string) (*workload.Kind, bool) {
			if name != "command" {
				return known(name)
			}
			return &workload.Kind{Name: name, Family: "command", Metrics: []unit.Metric{{Name: "seconds", Unit: "s",
				Better: unit.Lower, Timed: true, Primary: true}}}, true
		}
		for i := range in.Trials {
			x := &in.Trials[i]
			if x.Workload != "command" {
				continue
			}
			x.Metrics = map[string]float64{"seconds": 1}
			x.Account = &record.Account{Lanes: 1, Counts: map[string]int64{record.DiskFlushes: 5200}}
			if x.Target == "vm" {
				x.Metrics["seconds"], x.Account.Counts[record.DiskFlushes] = 0.3, 0
			}
		}
		kept = *in
	}
	m := NewModel(s.result())
	m.Trials, m.Plan, m.Bundle = kept.Trials, kept.Plan, "tare-20261121-0731"
	for _, c := range m.Cells {
		if c.Primary && c.Workload == "command" && (!c.UnlikeFlushes() || !(c.Ratio.Center > 0) ||
			c.Verdict == record.Different) || c.Primary && c.Workload == "fs.seqwrite" && c.Ratio.Center != 0 {
			t.Fatalf("%+v", c)
		}
	}
	if len(m.Result.Families) != 0 {
		t.Errorf("a mean: %+v", m.Result.Families)
	}
	marks := map[string]string{"text": "\u2260", "json": `"flushes-differ"`, "markdown": "\u2260",
		"svg": "sides flush differently", "benchstat": "not-ranked: vm against host, command", "junit": "not ranked",
		"github": "flush differently", "issue": "flush"}
	for _, f := range Renderers() {
		if f.Name == "html" || f.Name == "iozone" {
			continue // the page has the data of json; no fs.matrix
		}
		var out bytes.Buffer
		if err := f.Render(&out, m); err != nil {
			t.Fatal(f.Name, err)
		}
		text := out.String()
		if !strings.Contains(text, marks[f.Name]) {
			t.Errorf("%s has no mark %q:\n%.3000s", f.Name, marks[f.Name], text)
		}
		if f.Binary || f.Name == "json" {
			continue // whose words are in the others, or for scripts
		}
		if strings.Contains(text, "costs less") || strings.Contains(text, string(record.Different)) {
			t.Errorf("%s ranks:\n%.3000s", f.Name, text)
		}
	}
	for _, a := range m.Answers() {
		if strings.Contains(a.Text, "costs") {
			t.Errorf("it is an answer: %s", a.Text)
		}
	}
}
