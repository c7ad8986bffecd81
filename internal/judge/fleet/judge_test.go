package fleet

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/record"
	"tare/internal/stats"
)

// The flag is the simulations'.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// scene is a fleet of n hosts on which a box costs 12 % more than the host, of which three are sick: their clocks are
// lower and their microcode is another. On one the box failed, and one is missing.
func scene(n int) *Admitted {
	rng := rand.New(rand.NewPCG(8, 9))
	a := &Admitted{Plan: strings.Repeat("ab", 32), Build: "1a2b3c", By: ByMachine, Expected: n + 1,
		Missing: []string{"part 7 of 41"}, Refused: []Refusal{{Bundle: "in/n90.tare", Host: "n90", Code: Damaged,
			Text: "the archive is damaged or cut short after 3 files", Remedy: "fetch it from its host again"}}}
	for i := range n {
		h := &Host{Name: fmt.Sprintf("n%02d", i), Machine: fmt.Sprintf("%032x", i), RunID: fmt.Sprintf("%012x", i),
			Plan: a.Plan, PlanName: "nodes", Build: a.Build, Version: "1.0", Finished: i != 5, Alpha: 0.05,
			Precision: 0.01, Sessions: 1, Facts: map[string]string{"kernel": "6.1.0", "processor": "Ideal CPU",
				"cpu.microcode":    "0x100",
				"cpu.measured_mhz": fmt.Sprint(2900 + rng.IntN(20)), "machine.bios_date": "01/02/2026"}}
		sick := 0.0
		if i < 3 {
			sick = 0.2
			h.Facts["cpu.measured_mhz"], h.Facts["cpu.microcode"] = fmt.Sprint(2400+i), "0x0f7"
		}
		if i%4 == 0 {
			h.Facts["machine.bios_date"] = "09/09/2025"
		}
		add := func(k Key, primary bool, center, host, noise float64, unit string) {
			m := Measure{Key: k, Kind: "cpu.prime", Family: "cpu", Unit: unit, Better: "lower", Primary: primary,
				Center: center + host*rng.NormFloat64() + noise*rng.NormFloat64(), SE: noise, DF: 9, Blocks: 10,
				State: record.Different, Margin: 0.02, Same: 0.02, Checks: "c",
				Nested: stats.Nested{Block: 90 * noise * noise, BlockDF: 9}}
			h.Measures = append(h.Measures, m)
		}
		add(Key{"cpu.prime", "time", "box", "host"}, true, math.Log(1.12), 0.01, 0.003, "s")
		add(Key{"cpu.prime", "latency", "box", "host"}, false, 0, 0.02, 0.003, "s")
		add(Key{"cpu.prime", "time", "host", ""}, true, math.Log(0.4)+sick, 0.01, 0.003, "s")
		add(Key{"cpu.prime", "time", "box", ""}, true, math.Log(0.44)+sick, 0.01, 0.003, "s")
		if i == 9 {
			m := &h.Measures[0]
			m.Why, m.State, m.Center, m.SE = "box did not open: no user namespaces here", record.Failed, 0, 0
			h.Measures = slices.Delete(h.Measures, 3, 4)
		}
		a.Hosts = append(a.Hosts, Candidate{Bundle: "in/" + h.Name + ".tare", Host: h})
	}
	return a
}

func TestJudge(t *testing.T) {
	r := Judge(scene(40))
	c := &r.Cells[0]
	if !c.IsRatio || c.Hosts != 39 || c.Failed != 1 || c.Verdict != record.Different || c.Showing != 39 {
		t.Errorf("%+v", c)
	}
	if !(c.Low < 1.12 && c.High > 1.12 && c.NextLow < c.Low && c.NextHigh > c.High) {
		t.Errorf("%g [%g, %g], next %g to %g", c.Center, c.Low, c.High, c.NextLow, c.NextHigh)
	}
	if c.HostSD < 0.006 || c.HostSD > 0.014 {
		t.Errorf("hosts differ by %g, want 0.01", c.HostSD)
	}
	for _, part := range []string{"cpu.prime costs more in box than in host: 1.12 [", "across 39 of 41 hosts",
		"on a further host of the kind between", "39 of 39 hosts show it", "1 missing", "1 failed",
		"1 host has not finished"} {
		if !strings.Contains(c.Sentence, part) {
			t.Errorf("no %q in: %s", part, c.Sentence)
		}
	}
	var odd []string
	for _, o := range r.Apart {
		if o.IsRatio {
			t.Errorf("the ratio is the same on sick hosts: %+v", o)
		}
		odd = append(odd, o.Host+" "+o.Target)
		if len(o.Differs) != 2 || o.Differs[0].Name != "cpu.measured_mhz" || o.Differs[1].Name != "cpu.microcode" ||
			o.Differs[1].Like != 3 || o.Differs[1].Others != 0 {
			t.Errorf("%s differs in %+v", o.Host, o.Differs)
		}
	}
	slices.Sort(odd)
	if want := "n00 box, n00 host, n01 box, n01 host, n02 box, n02 host"; strings.Join(odd, ", ") != want {
		t.Errorf("apart are %q, want %q", strings.Join(odd, ", "), want)
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		for j := 1; j < len(c.Order); j++ {
			if c.Order[j].Value > c.Order[j-1].Value {
				t.Errorf("%v: %s comes after %s", c.Key, c.Order[j].Host, c.Order[j-1].Host)
			}
		}
	}
}

// TestJudgeUnequalWork holds that hosts whose work was other than most hosts' are counted and not used.
func TestJudgeUnequalWork(t *testing.T) {
	a := scene(12)
	a.Hosts[4].Host.Measures[2].Checks = "other"
	a.Hosts[5].Host.Measures[2].Work = 7
	r := Judge(a)
	i := slices.IndexFunc(r.Cells, func(c Cell) bool { return !c.IsRatio && c.Target == "host" })
	if c := &r.Cells[i]; c.Hosts != 10 || c.Withheld != 2 || !strings.Contains(c.Why, "n04: the checks") {
		t.Errorf("%+v", c)
	}
}

func TestJudgeFew(t *testing.T) {
	for n := range 6 {
		r := Judge(scene(n))
		if n == 0 && len(r.Cells) != 0 {
			t.Errorf("no hosts have cells: %+v", r.Cells)
		}
		for i := range r.Cells {
			c := &r.Cells[i]
			if (c.NextLow > 0) != (n >= stats.LeastNext) {
				t.Errorf("%d hosts predict a further one between %g and %g", n, c.NextLow, c.NextHigh)
			}
		}
		if err := JSON(&bytes.Buffer{}, r, Options{}); err != nil {
			t.Errorf("%d hosts: %v", n, err)
		}
	}
}

func TestFisher(t *testing.T) {
	// The lady tasting tea: all four cups right of eight, one in 70; three or more, 17 in 70.
	for _, c := range []struct {
		a, m, c, n int
		want       float64
	}{{4, 4, 0, 4, 1. / 70}, {3, 4, 1, 4, 17. / 70}, {0, 3, 2, 5, 1}, {1, 1, 0, 37, 1. / 38}} {
		if got := fisher(c.a, c.m, c.c, c.n); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("fisher(%d of %d, %d of %d) is %g, want %g", c.a, c.m, c.c, c.n, got, c.want)
		}
	}
}

func TestGolden(t *testing.T) {
	hostile := scene(8)
	hostile.Hosts[3].Host.Name = "evil\x1b[31m\nname"
	hostile.Hosts[3].Host.PlanName = "plan\x07"
	for name, a := range map[string]*Admitted{"nodes": scene(40), "hostile": hostile, "none": {Expected: 3,
		Missing: []string{"3 of 3, whose names are not known"}}} {
		r := Judge(a)
		for _, f := range Formats() {
			var b bytes.Buffer
			if err := f.Render(&b, r, Options{}); err != nil {
				t.Fatal(err)
			}
			if f.Name == "json" {
				if err := json.Unmarshal(b.Bytes(), &Report{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue // its figures differ in the last digit from processor to processor
			}
			if bytes.ContainsAny(b.Bytes(), "\x1b\x07\r") {
				t.Errorf("%s: a name's control characters reach the terminal", name)
			}
			golden := filepath.Join("testdata", name+"."+f.Name)
			if updating() {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
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

// BenchmarkJudge judges 1,000 hosts of 60 cells.
func BenchmarkJudge(b *testing.B) {
	a := scene(1000)
	for i := range a.Hosts {
		h := a.Hosts[i].Host
		one := h.Measures[0]
		h.Measures = nil
		for n := range 60 {
			m := one
			m.Workload = fmt.Sprintf("w%02d", n)
			m.Why, m.SE, m.Center = "", 0.003, one.Center+0.001*float64(i%7)
			h.Measures = append(h.Measures, m)
		}
	}
	for b.Loop() {
		Judge(a)
	}
}
