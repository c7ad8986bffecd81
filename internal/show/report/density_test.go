package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// denseScene has a box alone, and in 2, 4, 8 and 16 copies: four keep the floor, eight do not, and 16 were not tried.
func denseScene(also ...string) *verdict.Result {
	targets := append(also, "box", "box@2", "box@4", "box@8", "box@16")
	cost := map[string]float64{"box": 1.1, "box@2": 1.2, "box@4": 1.6, "box@8": 3.5}
	if len(also) == 0 {
		cost["box"] = 1
	}
	return scene{targets: targets, blocks: 20, workloads: work("cpu.prime"),
		cost: func(_, target string) (float64, float64) { return cost[target], 0 },
		tweak: func(in *verdict.Input) {
			in.Plan.Copies = &plan.Copies{Steps: []int{2, 4, 8, 16}, Floor: 0.5, Targets: []string{"box"}}
			for i := range in.Plan.Targets {
				e := &in.Plan.Targets[i]
				if _, err := fmt.Sscanf(e.Name, "box@%d", &e.Copies); err == nil {
					e.Like = "box"
					if in.Plan.Baseline != "box" {
						e.Against = "box"
					}
				}
			}
			var trials []record.Trial
			for _, t := range in.Trials {
				n := 1
				fmt.Sscanf(t.Target, "box@%d", &n)
				if t.Target == "box@16" {
					t.Figures, t.Error = record.Figures{}, &record.Failure{Kind: "below-floor",
						Message: "not tried: with " +
							"8 copies each did 29 % of what one does alone, far below the floor of 50 %"}
					if t.Block > 0 {
						continue
					}
				}
				t.Copies = &record.Copies{Covered: 0.9}
				for i := range n {
					slow := 1 - 0.1*float64(i)/float64(n)
					t.Copies.Each = append(t.Copies.Each, record.Copy{NS: 3e8, Metrics: map[string]float64{
						"events_per_second": slow * t.Metrics["events_per_second"]},
						Memory: record.Memory{Resident: 24 << 20, Proportional: 10 << 20}})
				}
				trials = append(trials, t)
			}
			in.Trials = trials
		}}.result()
}

func TestDensityHasATable(t *testing.T) {
	m := NewModel(denseScene("host"))
	m.Text.Width = 110
	out := string(render(t, Terminal, m))
	for _, want := range []string{
		"\ncpu.prime of box in several copies at once, against one alone. The floor is 50 % for each.\n",
		"copies  each does", "shared out", "24.0 MiB", "10.0 MiB", "not kept", "not tried",
		"\nUp to 4 copies each keep 50 % of what one does alone; with 8 they do not.\n",
		"16: not tried: with 8 copies each did 29 %",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	alone, _, _ := strings.Cut(out, "in several copies")
	if strings.Contains(alone, "box@") {
		t.Errorf("the table of the environments alone has copies:\n%s", alone)
	}
	for line := range strings.Lines(out) {
		if width(line) > 111 {
			t.Errorf("a line of %d columns: %s", width(line), line)
		}
	}
	m.Text.Width = 40
	narrow := string(render(t, Terminal, m))
	if strings.Contains(narrow, "shared out") || !strings.Contains(narrow, "each does") {
		t.Errorf("on a narrow page:\n%s", narrow)
	}
}

// A density of one environment is all that its report has, and the figures in JSON are those of the cells.
func TestDensityInJSON(t *testing.T) {
	var d struct{ Density []verdict.Density }
	if err := json.Unmarshal(render(t, JSON, NewModel(denseScene())), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Density) != 1 || d.Density[0].Keeps != 4 || d.Density[0].Breaks != 8 {
		t.Fatalf("%+v", d.Density)
	}
	s := d.Density[0].Steps[2]
	if s.Copies != 4 || s.Target != "box@4" || s.Share < 0.61 || s.Share > 0.64 || s.Low > s.Share ||
		s.High < s.Share ||
		s.Throughput < 2.4 || s.Slowest > s.Share || s.Slowest < 0.9*s.Share || s.State != verdict.KeepsFloor ||
		s.Covered != 0.9 || s.Resident != 24<<20 || s.Proportional != 10<<20 || s.Blocks != 20 {
		t.Errorf("%+v", s)
	}
	if s := d.Density[0].Steps[4]; s.State != verdict.NotTried || s.Share != 0 || !strings.Contains(s.Why, "29 %") {
		t.Errorf("%+v", s)
	}
}
