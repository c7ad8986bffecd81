package report

import (
	"encoding/json"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// noisyScene has a neighbour beside the host and beside the box, in an environment in which nothing is measured.
func noisyScene() *verdict.Result {
	targets := []string{"host", "host+hog", "box", "box+hog", "box+idler", "other"}
	work := func(label, kind string) plan.Workload {
		return plan.Workload{Label: label, Kind: kind, Targets: targets[:5]}
	}
	cost := map[string]float64{"host+hog": 2, "box": 1.5, "box+hog": 4.5, "box+idler": 1.5}
	return scene{targets: targets, blocks: 20, workloads: []plan.Workload{work("cpu.prime", "cpu.prime"),
		work("reads", "fs.randread")},
		cost: func(_, target string) (float64, float64) { return cost[target], 0 },
		tweak: func(in *verdict.Input) {
			in.Plan.Beside = []plan.Neighbour{
				{Name: "hog", Label: "cpu.prime threads=8", Kind: "cpu.prime",
					In: map[string]string{"host": "other", "box": "other"}},
				{Name: "idler", Label: "idler", Kind: "command", In: map[string]string{"box": "other"}}}
			for i := range in.Plan.Targets {
				e := &in.Plan.Targets[i]
				if like, beside, ok := strings.Cut(e.Name, "+"); ok {
					e.Like, e.Beside = like, beside
					if like != "host" {
						e.Against = like
					}
					in.Environments[i] = record.Environment{Target: record.Target{Name: e.Name, Like: like,
						Beside: beside}, Session: 1}
				}
			}
			for i := range in.Trials {
				if _, name, ok := strings.Cut(in.Trials[i].Target, "+"); ok {
					in.Trials[i].Beside = &record.Beside{Name: name, In: "other", Covered: 0.98,
						First: record.Pace{Work: 100, NS: 1e8}, During: record.Pace{Work: 150, NS: 3e8}}
				}
			}
		}}.result()
}

// TestNeighboursHaveAMatrix: the targets as they are alone, then each victim beside its neighbours, against itself.
func TestNeighboursHaveAMatrix(t *testing.T) {
	m := NewModel(noisyScene())
	m.Text.Width = 100
	out := string(render(t, Terminal, m))
	for _, want := range []string{
		"\nhost beside a neighbour, against itself alone: hog is cpu.prime threads=8 in other.\n",
		"\nbox beside a neighbour, against itself alone: hog is cpu.prime threads=8 in other; idler in other.\n",
		"What the neighbours themselves did, of what they do alone: hog 50 %, idler 50 %.\n",
		"▲ 2.0", "▲ 3.0", "= 1.00", "= same within 2 %",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	alone, matrices, _ := strings.Cut(out, "beside a neighbour")
	if strings.Contains(alone, "+hog") || strings.Contains(alone, "other") || !strings.Contains(alone, "▲ 1.5") {
		t.Errorf("the table of the targets alone:\n%s", alone)
	}
	host, box, _ := strings.Cut(matrices, "box beside")
	if strings.Contains(host, "idler") || strings.Contains(host, "▲ 3.0") || strings.Contains(box, "▲ 2.0") {
		t.Errorf("a matrix has another one's cells:\n%s", matrices)
	}
	if n := strings.Count(out, "mean of"); n != 0 {
		t.Errorf("%d means of one workload each", n)
	}
}

// TestNeighboursInOtherForms: columns like any other, but for what nothing is measured in; the matrix in JSON.
func TestNeighboursInOtherForms(t *testing.T) {
	m := NewModel(noisyScene())
	out := string(render(t, Markdown, m))
	if !strings.Contains(out, "box+hog/box") || strings.Contains(out, "| other/") {
		t.Error(out)
	}
	if n := len(m.Columns); n != 4 {
		t.Errorf("%d columns", n)
	}
	var d struct {
		Neighbours []verdict.Neighbour
	}
	if err := json.Unmarshal(render(t, JSON, m), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Neighbours) != 6 {
		t.Fatalf("%+v", d.Neighbours)
	}
	n := d.Neighbours[1]
	if n.Victim != "box" || n.Workload != "cpu.prime" || n.Neighbour != "hog" || n.In != "other" || n.Ratio < 2.9 ||
		n.Low > 3 || n.High < 3 || n.Verdict != record.Different || n.Alone != 1000 || n.Beside != 500 ||
		n.Covered != 0.98 || n.Blocks != 20 || n.Target != "box+hog" {
		t.Errorf("%+v", n)
	}
}

// TestAVictimThatDidNotOpen has no matrix: a finding tells of it.
func TestAVictimThatDidNotOpen(t *testing.T) {
	r := noisyScene()
	for i := range r.Targets {
		if r.Targets[i].Name == "box" {
			r.Targets[i].Error = &record.Failure{Kind: "open", Message: "box did not open"}
		}
	}
	if out := string(render(t, Terminal, NewModel(r))); strings.Contains(out, "box beside") ||
		!strings.Contains(out, "host beside") {
		t.Error(out)
	}
}
