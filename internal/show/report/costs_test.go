package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// paidModel is a run of which everything was asked: costs for their price with one that nobody knows, what a saving is
// worth, and writes with targets that flush alike, not at all, into memory, and in a way that nobody knows.
func paidModel() *Model {
	s := scene{targets: []string{"host", "box", "vm", "tmp", "lab"}, blocks: 15,
		workloads: append(work("cpu.prime", "fs.seqwrite fsync=end"),
			plan.Workload{Label: "make", Kind: "command", Params: workload.Params{}})}
	s.cost = func(label, target string) (float64, float64) {
		switch {
		case target == "box" && label == "make":
			return 0.8, 0.01 // the one that saves something
		case target == "box":
			return 1, 0.003
		}
		return 1.4, 0.02
	}
	var kept verdict.Input
	s.tweak = func(in *verdict.Input) {
		e := in.Environments
		e[0].Durability = &record.Durability{Verdict: record.NotDisproved, Class: "flushes", Layer: "the disk",
			Cuts: 30, Bound: 0.1, Text: "no acknowledged record was lost in 30 cuts"}
		e[1].Durability = &record.Durability{Verdict: record.Propagated, Class: "flushes",
			Layer: "the host's file system", Text: "each flush was seen to reach the host"}
		e[2].Durability = &record.Durability{Verdict: record.Disproved, Class: "ignores-flushes", Cuts: 3,
			Text: "the last 41 acknowledged records were gone after a power cut",
			Tests: []record.FlushTest{{Name: record.FlushCost, Verdict: record.Untested, Class: "ignores-flushes",
				Text: "a flush costs 0.04 ms there and 1.9 ms on the host", Seconds: 0.3}},
			Settings: []record.Warning{{Code: "qemu-cache", Text: "QEMU ignores flushes of this disk (cache=unsafe)",
				Remedy: "cache=none"}}}
		e[3].Durability = &record.Durability{Verdict: record.Untested, Class: "memory", Text: "its files are in memory"}
		e[4].Durability = &record.Durability{Verdict: record.Untested, Text: "nothing was tried"}
		kept = *in
	}
	r := s.result()
	m := NewModel(r)
	m.Trials, m.Plan, m.Bundle = kept.Trials, kept.Plan, "tare-20261121-0731"
	m.Normal, m.Worth = paidFor(r, kept.Plan, "make")
	return m
}

// TestCostsForms keeps golden files of the forms that have costs restated, savings and flushes in tables, and holds
// that every form which says that it has them does.
func TestCostsForms(t *testing.T) {
	m := paidModel()
	golden(t, "paid.markdown", render(t, Markdown, m))
	golden(t, "paid.github", render(t, GitHub, m))
	for _, f := range Renderers() {
		if f.Binary || f.Name == "html" || f.Name == "iozone" {
			continue // packed; a browser's; of matrices only
		}
		got := string(render(t, f.Render, m))
		for _, want := range []string{"price of box is not known", "nothing is saved"} {
			if strings.Contains(got, want) != f.ShowsCosts {
				t.Errorf("%s says that it has what was paid: %v; %q is in it: %v", f.Name, f.ShowsCosts, want,
					!f.ShowsCosts)
			}
		}
	}
}

// TestCostsSheets reads the workbook again and does its sums.
func TestCostsSheets(t *testing.T) {
	m := paidModel()
	f := openBook(t, m)
	rows := func(sheet string) [][]string {
		all, err := f.GetRows(sheet, excelize.Options{RawCellValue: true})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	done, refused := 0, 0
	for _, r := range rows("Cost per price of an hour") {
		switch {
		case len(r) == 15 && r[14] != "not restated because":
			refused++
			if r[14] == "" || r[3] != "" {
				t.Errorf("refused: %q", r)
			}
		case len(r) == 14 && r[1] == "vm":
			done++
			if r[6] != "0.05 EUR/h / 0.2 EUR/h" || number(r[7]) != 0.25 ||
				math.Abs(number(r[3])*number(r[7])-number(r[8])) > 1e-12 ||
				math.Abs(math.Abs(math.Log(number(r[12])/number(r[13])))-math.Log(4)) > 1e-9 {
				t.Errorf("restated: %q", r)
			}
		}
	}
	// Of vm and tmp the writes have no ratio to restate; box and lab have no price.
	if done != 2 || refused != 2*3+2 {
		t.Errorf("%d lines restated and %d refused", done, refused)
	}
	var box []string
	for _, r := range rows("Worth") {
		if r != nil && r[0] == "box" && len(r) > 10 {
			box = r
		}
	}
	w := &m.Worth.Answers[0]
	if w.Target != "box" || len(box) < 26 || number(box[8]) != w.PerUse.Center ||
		box[23] != w.BreakEvenDay.Format("2006-01-02") ||
		math.Abs(number(box[3])*(1-number(box[5]))-number(box[8])) > 1e-15 {
		t.Errorf("worth: %q, want %+v", box, w)
	}
	flushes := rows("Flushes")
	if len(flushes) != 2+5 || flushes[4][0] != "vm" || flushes[4][1] != record.Disproved ||
		!strings.Contains(flushes[4][6], "cache=none") || flushes[6][2] != "unknown" {
		t.Errorf("flushes: %q", flushes)
	}
	cells := rows("Cells")
	at := func(name string) int {
		for i, h := range cells[0] {
			if h == name {
				return i
			}
		}
		t.Fatalf("no column %s in %q", name, cells[0])
		return 0
	}
	flush, baseline := at("flush"), at("baseline flush")
	seen := map[string]bool{}
	for _, r := range cells[1:] {
		if r[0] != "fs.seqwrite fsync=end" {
			if len(r) > flush && r[flush] != "" {
				t.Errorf("a figure that writes nothing has a flush: %q", r)
			}
			continue
		}
		seen[r[flush]] = true
		if r[baseline] != "flushes (NOT DISPROVED)" {
			t.Errorf("baseline: %q", r)
		}
	}
	for _, want := range []string{"flushes (PROPAGATED)", "ignores-flushes (DISPROVED)", "memory (UNTESTED)",
		"unknown (UNTESTED)"} {
		if !seen[want] {
			t.Errorf("no cell has the flush %q: %v", want, seen)
		}
	}
	said := false
	for _, r := range rows("Summary") {
		said = said || len(r) > 0 && strings.Contains(r[0],
			"ranked only among targets that flush alike: host f NOT DISPROVED; box f PROPAGATED; vm i DISPROVED")
	}
	if !said {
		t.Error("the summary does not say what is ranked with what")
	}
}

// TestRawFlush holds that the raw rows of figures which write have the class of their target, and no others.
func TestRawFlush(t *testing.T) {
	rows, err := csv.NewReader(bytes.NewReader(render(t, CSV, paidModel()))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"host": "flushes", "box": "flushes", "vm": "ignores-flushes", "tmp": "memory",
		"lab": "unknown"}
	counted := 0
	for _, r := range rows[1:] {
		got := r[len(r)-1]
		if r[6] != "fs.seqwrite fsync=end" {
			if got != "" {
				t.Fatalf("%q has a flush", r)
			}
			continue
		}
		counted++
		if got != want[r[9]] {
			t.Fatalf("%s has %q, want %q", r[9], got, want[r[9]])
		}
	}
	if counted < 75 {
		t.Errorf("%d rows", counted)
	}
}
