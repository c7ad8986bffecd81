package recurrence

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// run is a run of pull request 7 with one figure.
func run(id, head string, v record.Verdict, ratio float64) Run {
	return Run{Schema: Schema, ID: id, Time: time.Unix(1e9, 0).UTC(), Change: "github:o/r#7", Name: "tare", Head: head,
		Processor: "Model A", Cells: []Cell{{"head", "command", "seconds", v, ratio, ratio - 0.01, ratio + 0.01}}}
}

func TestJudge(t *testing.T) {
	other := func(x Run, change func(*Run)) Run {
		change(&x)
		return x
	}
	slow, fast, none := record.Different, record.Different, record.Inconclusive
	for name, c := range map[string]struct {
		before    []Run
		now       Run
		want      Seen
		elsewhere int
	}{
		"first": {nil, run("1", "a", slow, 1.2), Seen{true, true, 1, 1, 1}, 0},
		"three of four": {[]Run{run("1", "a", slow, 1.2), run("2", "a", none, 1.1), run("3", "b", slow, 1.3)},
			run("4", "b", slow, 1.2), Seen{true, true, 3, 4, 2}, 0},
		"only the last four": {[]Run{run("0", "a", slow, 1.2), run("1", "a", none, 1), run("2", "a", none, 1.1),
			run("3", "b", none, 1.3)}, run("4", "b", slow, 1.2), Seen{true, true, 1, 4, 1}, 0},
		"another direction": {[]Run{run("1", "a", fast, 0.8)}, run("2", "a", slow, 1.2), Seen{true, true, 1, 2, 1}, 0},
		"not now": {[]Run{run("1", "a", fast, 0.8), run("2", "a", slow, 1.2)}, run("3", "a", none, 1),
			Seen{true, false, 1, 3, 1}, 0},
		"never": {[]Run{run("1", "a", none, 1)}, run("2", "a", record.Equivalent, 1), Seen{false, false, 0, 2, 0}, 0},
		"another processor": {[]Run{other(run("1", "a", slow, 1.2), func(r *Run) { r.Processor = "Model B" })},
			run("2", "a", slow, 1.2), Seen{true, true, 1, 1, 1}, 1},
		"another pull request": {[]Run{other(run("1", "a", slow, 1.2), func(r *Run) { r.Change = "github:o/r#8" })},
			run("2", "a", slow, 1.2), Seen{true, true, 1, 1, 1}, 0},
		"another comparison": {[]Run{other(run("1", "a", slow, 1.2), func(r *Run) { r.Name = "size" })},
			run("2", "a", slow, 1.2), Seen{true, true, 1, 1, 1}, 0},
		"not measured then": {[]Run{other(run("1", "a", slow, 1.2), func(r *Run) { r.Cells = nil })},
			run("2", "a", slow, 1.2), Seen{true, true, 1, 1, 1}, 0},
		"itself": {[]Run{run("2", "a", slow, 1.2)}, run("2", "a", slow, 1.2), Seen{true, true, 1, 1, 1}, 0},
	} {
		got, elsewhere := Judge(c.before, c.now, 4)
		if len(got) != 1 || got[0] != c.want || elsewhere != c.elsewhere {
			t.Errorf("%s: %+v and %d elsewhere, want %+v and %d", name, got, elsewhere, c.want, c.elsewhere)
		}
	}
}

// TestUnknownProcessorsAreNotOne: two runs that do not know their processors may have been on two.
func TestUnknownProcessorsAreNotOne(t *testing.T) {
	a, b := run("1", "a", record.Different, 1.2), run("2", "a", record.Different, 1.2)
	a.Processor, b.Processor = "", ""
	if seen, elsewhere := Judge([]Run{a}, b, 4); seen[0].Of != 1 || elsewhere != 1 {
		t.Errorf("%+v, %d", seen, elsewhere)
	}
}

func TestHistoryIsKeptAndBounded(t *testing.T) {
	var runs []Run
	for i := range MaxRuns + 20 {
		runs = Add(runs, run(fmt.Sprint(i), "a", record.Different, 1.2))
	}
	if len(runs) != MaxRuns || runs[0].ID != "20" {
		t.Fatalf("%d runs from %s", len(runs), runs[0].ID)
	}
	var b bytes.Buffer
	if err := Write(&b, runs); err != nil {
		t.Fatal(err)
	}
	text := "no run\n{}\n\n" + b.String() + `{"schema":2,"run":"x"}` + "\n" + `{"schema":1,"run":"cut`
	got, damaged, err := Read(strings.NewReader(text))
	if err != nil || damaged != 4 || !reflect.DeepEqual(got, runs) {
		t.Errorf("%d runs, %d damaged, %v", len(got), damaged, err)
	}
	if _, _, err := Read(strings.NewReader(strings.Repeat("x", MaxFile+1))); err == nil {
		t.Error("a history without end is read")
	}
	// What is written can be read, whatever the runs are.
	big := run("big", "a", record.Different, 1.2)
	for range maxCells - 1 {
		big.Cells = append(big.Cells, Cell{Target: strings.Repeat("\x00", maxText), Metric: strings.Repeat("\x01",
			maxText)})
	}
	b.Reset()
	if err := Write(&b, []Run{big, big, big, big, big}); err != nil || b.Len() > MaxFile {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	if got, damaged, err = Read(&b); len(got) != 1 || damaged != 0 || err != nil {
		t.Errorf("%d runs, %d damaged, %v", len(got), damaged, err)
	}
}

func TestCellsOfAResult(t *testing.T) {
	cell := func(target, metric string, primary bool, v record.Verdict) verdict.Cell {
		return verdict.Cell{Target: target, Baseline: "base", Workload: "command", Metric: metric, Primary: primary,
			Ratio: record.Ratio{Center: 1.2, Verdict: v}}
	}
	r := &verdict.Result{Cells: []verdict.Cell{cell("head", "user", false, record.Different),
		cell("head", "seconds", true, record.Inconclusive), cell("head", "faults", false, record.Inconclusive),
		cell("base", "seconds", true, record.Equivalent)}}
	got := CellsOf(r)
	if len(got) != 3 || got[0].Metric != "seconds" || got[1].Metric != "user" {
		t.Errorf("%+v", got)
	}
	seen := []Seen{{Times: 1}, {Times: 2}, {}}
	if Find(got, seen, &r.Cells[0]).Times != 2 || Find(got, seen, &r.Cells[3]).Times != 0 {
		t.Error("a figure is not found again")
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, []Run{run("1", "a", record.Different, 1.2), run("2", "b", record.Inconclusive,
		1)}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":1,"run":"x","cells":[{"ratio":-1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		runs, _, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		if len(runs) > MaxRuns {
			t.Fatalf("%d runs", len(runs))
		}
		var b bytes.Buffer
		if err := Write(&b, runs); err != nil {
			t.Fatal(err)
		}
		again, damaged, err := Read(&b)
		if err != nil || damaged > 0 || len(again) != len(runs) {
			t.Fatalf("%d runs of %d, %d damaged, %v", len(again), len(runs), damaged, err)
		}
		if len(runs) > 0 {
			Judge(runs, runs[len(runs)-1], 4)
		}
	})
}
