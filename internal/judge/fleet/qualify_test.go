package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a further host of the scene's kind, slower by so much on the log scale, with so much noise of its own.
func machine(slower, noise float64) Candidate {
	h := *scene(10).Hosts[6].Host
	h.Name, h.Machine, h.RunID = "n77", "77", "run77"
	h.Facts, h.Measures = maps.Clone(h.Facts), slices.Clone(h.Measures)
	for i := range h.Measures {
		m := &h.Measures[i]
		m.Center, m.SE = map[string]float64{"box/host": math.Log(1.12), "host": math.Log(0.4),
			"box": math.Log(0.44)}[strings.Trim(m.Target+"/"+m.Baseline, "/")], noise
		if !m.IsRatio() {
			m.Center += slower
		}
	}
	delete(h.Facts, "cpu.measured_mhz")
	if slower > 0 {
		h.Facts["cpu.microcode"] = "0x0f7"
	}
	return Candidate{Bundle: "n77.tare", Host: &h}
}

var asUsual = Demand{Margin: -1, Tolerance: 0.1}

func TestQualify(t *testing.T) {
	q := Qualify(scene(40), machine(0, 0.003), asUsual)
	if q.Verdict != Pass || len(q.Cells) != 3 || q.Hosts != 40 || q.Needs != nil {
		t.Errorf("one of the kind: %+v", q)
	}
	for i := range q.Cells {
		x := &q.Cells[i]
		if x.Verdict != Pass || !(x.AtMost > x.Against && x.AtMost < 1.1) ||
			!(x.NextLow < x.Value && x.Value < x.NextHigh) {
			t.Errorf("%+v", x)
		}
		if !x.IsRatio && x.LeftOut != 3 {
			t.Errorf("%d hosts are left out of the kind of %v, want the three sick ones", x.LeftOut, x.Key)
		}
	}
	q = Qualify(scene(40), machine(0.2, 0.003), asUsual)
	if q.Verdict != Fail || q.count(Fail) != 2 || q.Cells[0].Verdict != Pass {
		t.Errorf("a slow one: %+v", q)
	}
	if len(q.Differs) != 1 || q.Differs[0].Name != "cpu.microcode" || q.Differs[0].Like != 4 ||
		q.Differs[0].Others != 0 {
		t.Errorf("it differs in %+v", q.Differs)
	}
	// Its figure is too uncertain: blocks are asked for, and with as many it passes.
	q = Qualify(scene(40), machine(0, 0.08), asUsual)
	if q.Verdict != Unsure || q.Needs == nil || q.Needs.Blocks <= 10 || q.Needs.Hosts != 0 {
		t.Fatalf("a noisy one: %+v", q)
	}
	enough := machine(0, 0.08*math.Sqrt(10/float64(q.Needs.Blocks)))
	for i := range enough.Host.Measures {
		enough.Host.Measures[i].DF = float64(q.Needs.Blocks - 1)
	}
	if q := Qualify(scene(40), enough, asUsual); q.Verdict != Pass {
		t.Errorf("with as many blocks as it asked for: %+v", q)
	}
	// Too few hosts are no kind.
	for n := range 5 {
		q := Qualify(scene(n), machine(0.5, 0.003), asUsual)
		if q.Verdict != Unsure || n > 0 && (q.Needs == nil || q.Needs.Hosts != 5) {
			t.Errorf("%d hosts: %+v", n, q)
		}
	}
}

// TestQualifyAgain holds that what a machine was before its repair does not count against it.
func TestQualifyAgain(t *testing.T) {
	again := machine(0, 0.003)
	again.Host.Machine = scene(40).Hosts[1].Host.Machine // n01 was sick
	q := Qualify(scene(40), again, asUsual)
	if q.Verdict != Pass || q.Hosts != 39 || !slices.Equal(q.Earlier, []string{"n01"}) {
		t.Errorf("%+v", q)
	}
}

// TestQualifyOtherWork holds that figures of other work are held against nothing.
func TestQualifyOtherWork(t *testing.T) {
	for what, change := range map[string]func(m *Measure){
		"checks of the work are others":   func(m *Measure) { m.Checks = "other" },
		"another number of units of work": func(m *Measure) { m.Work = 7 },
		"it did not open":                 func(m *Measure) { m.Why = "it did not open" },
		"was not measured":                func(m *Measure) { m.Workload = "another" },
	} {
		c := machine(0, 0.003)
		change(&c.Host.Measures[2])
		q := Qualify(scene(40), c, asUsual)
		if q.Verdict != Unsure || !slices.ContainsFunc(q.Cells, func(x QualifiedCell) bool {
			return x.Verdict == Unsure && strings.Contains(x.Why, what)
		}) {
			t.Errorf("%s: %+v", what, q)
		}
	}
}

func TestQualifyGolden(t *testing.T) {
	hostile := machine(0.2, 0.003)
	hostile.Host.Name = "evil\x1b[31m\nname"
	hostile.Host.Facts["kernel"] = "6\x07\r"
	for name, q := range map[string]*Qualification{
		"pass":    Qualify(scene(40), machine(0, 0.003), asUsual),
		"fail":    Qualify(scene(40), machine(0.2, 0.003), asUsual),
		"unsure":  Qualify(scene(40), machine(0, 0.08), asUsual),
		"few":     Qualify(scene(4), machine(0, 0.003), asUsual),
		"nothing": Qualify(scene(0), machine(0, 0.003), asUsual),
		"hostile": Qualify(scene(40), hostile, asUsual),
	} {
		for _, f := range QualificationFormats() {
			var b bytes.Buffer
			if err := f.Render(&b, q, Options{}); err != nil {
				t.Fatal(err)
			}
			if f.Name == "json" {
				if err := json.Unmarshal(b.Bytes(), &Qualification{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if bytes.ContainsAny(b.Bytes(), "\x1b\x07\r") {
				t.Errorf("%s: a name's control characters reach the terminal", name)
			}
			golden := filepath.Join("testdata", fmt.Sprintf("qualify-%s.%s", name, f.Name))
			if updating() {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, b.Bytes()) {
				t.Errorf("%s is not what %s has:\n%s", name, golden, b.Bytes())
			}
		}
	}
}
