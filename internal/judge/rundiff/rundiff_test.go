package rundiff

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/sys/sql/promise"
	"tare/internal/unit"
)

var update = flag.Bool("update", false, "write the golden files")

func testKinds(name string) (*workload.Kind, bool) {
	if name != "cpu.prime" && name != "fs.smallfiles" && name != "dev.journal" {
		return nil, false
	}
	return &workload.Kind{Name: name, Family: "cpu", Needs: workload.Needs{CPUBound: true}, Metrics: []unit.Metric{
		{Name: "rate", Unit: "events/s", Better: unit.Higher, Timed: true, Primary: true},
		{Name: "latency", Unit: "ns", Better: unit.Lower, Timed: true},
	}}, true
}

// scene is a run of two workloads on host and box whose truth is known.
type scene struct {
	seed   uint64
	blocks int
	host   float64 // cost of the host
	box    float64 // ... of the box, against it
	day    int
	change func(*plan.Plan, []record.Environment, []record.Trial)
}

func (s scene) side(name string) Side {
	looks := []int{10, 15, 20, 30}
	p := &plan.Plan{Schema: 1, Baseline: "host", Seed: 1, Mode: plan.Quick, Trial: 300 * time.Millisecond, Sessions: 1,
		Looks: looks,
		Alpha: 0.05, LookAlpha: stats.LookAlpha(looks, 0.05), Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Targets: []plan.Target{
			{Name: "host", Text: "local", Spec: env.Spec{Name: "host", Driver: "local"}},
			{Name: "box", Text: "namespace", Spec: env.Spec{Name: "box", Driver: "namespace"}}},
		Workloads: []plan.Workload{
			{Label: "cpu.prime", Kind: "cpu.prime", Params: workload.Params{"max": "10000"},
				Work: map[string]int64{"host": 100, "box": 100}},
			{Label: "fs.smallfiles", Kind: "fs.smallfiles", Work: map[string]int64{"host": 10, "box": 10}}}}
	facts := record.Facts{OS: "linux", Arch: "amd64", Hostname: "weigher", CPU: "Ideal CPU", Cores: 4, Threads: 8,
		MemoryBytes: 16 << 30,
		Kernel:      "6.1.0", Extra: map[string]string{"kernel.uptime_s": "1000", "cpu.governor": "performance",
			"work.free_bytes": "123"}}
	envs := []record.Environment{{Session: 1, Target: record.Target{Name: "host", Spec: "local", Inside: facts}},
		{Session: 1, Target: record.Target{Name: "box", Spec: "namespace", Inside: facts}}}
	for i := range envs {
		extra := map[string]string{}
		for k, v := range facts.Extra {
			extra[k] = v
		}
		envs[i].Inside.Extra = extra
	}
	r := rand.New(rand.NewPCG(s.seed, 1))
	var trials []record.Trial
	for b := range s.blocks {
		for _, w := range p.Workloads {
			for _, slot := range []struct{ target, slot string }{{"host", ""}, {"box", ""}, {"host", record.NullSlot}} {
				cost := s.host * math.Exp(0.004*r.NormFloat64())
				if slot.target == "box" {
					cost *= s.box
				}
				ns := int64(3e8 * cost)
				trials = append(trials, record.Trial{Seq: len(trials) + 1, Session: 1, Block: b + 1, Workload: w.Label,
					Target: slot.target, Slot: slot.slot,
					Work: w.Work["host"], AgentNS: ns, ControllerNS: ns,
					Figures: record.Figures{Checks: map[string]string{"n": "1229"},
						Metrics: map[string]float64{"rate": 1000 / cost, "latency": 50 * cost}}})
			}
		}
	}
	if s.change != nil {
		s.change(p, envs, trials)
	}
	res := verdict.Evaluate(verdict.Input{Plan: p, Kinds: testKinds, Environments: envs, Trials: trials,
		Run: verdict.Run{ID: name, Version: "1.0", Build: "b1", Finished: true}})
	return Side{Name: name, Result: res, Plan: p, Trials: trials, Kinds: testKinds,
		Created: time.Date(2026, 11, 1+s.day, 12, 0, 0, 0, time.UTC)}
}

func compareScenes(a, b scene) *Comparison { return Compare([]Side{a.side("a"), b.side("b")}) }

func cell(t *testing.T, c *Comparison, workload string) *Cell {
	t.Helper()
	for i := range c.Pairs[0].Cells {
		if x := &c.Pairs[0].Cells[i]; x.Workload == workload && x.Primary {
			return x
		}
	}
	t.Fatalf("no cell of %s", workload)
	return nil
}

func codes(ws []record.Warning) string {
	out := []string{}
	for _, w := range ws {
		out = append(out, w.Code)
	}
	return strings.Join(out, " ")
}

func TestAFasterHostChangesNoRatio(t *testing.T) {
	c := compareScenes(scene{seed: 1, blocks: 20, host: 1, box: 1.5},
		scene{seed: 2, blocks: 20, host: 0.5, box: 1.5, day: 3,
			change: func(_ *plan.Plan, envs []record.Environment, _ []record.Trial) {
				for i := range envs {
					envs[i].Inside.CPU, envs[i].Inside.Hostname = "Faster CPU", "other"
				}
			}})
	p := &c.Pairs[0]
	if x := cell(t, c, "cpu.prime"); x.Verdict != record.Equivalent || math.Abs(x.Center-1) > 0.02 {
		t.Errorf("%+v", x.Ratio)
	}
	if p.Scope != "two machines" || p.SameHost != No || !strings.Contains(codes(p.Warnings), "other-host") {
		t.Errorf("scope %q, warnings %s", p.Scope, codes(p.Warnings))
	}
	for _, v := range p.Values {
		if v.From.Target == "host" && (math.Abs(v.Cost-0.5) > 0.02 || v.Low > 0.5 || v.High < 0.49) {
			t.Errorf("%s %s cost %v [%v, %v]", v.From.Target, v.From.Metric, v.Cost, v.Low, v.High)
		}
	}
}

// TestUnlikeWrites: what a target writes in one run is not ranked against another in which it keeps it less well.
func TestUnlikeWrites(t *testing.T) {
	run := func(class, promises string) scene {
		return scene{seed: 1, blocks: 12, host: 1, box: 1.5,
			change: func(p *plan.Plan, envs []record.Environment, trials []record.Trial) {
				p.Workloads[1].Kind, p.Workloads[1].Params = "dev.journal", workload.Params{"fsync": "true"}
				for i := range envs {
					envs[i].Durability = &record.Durability{Class: class}
				}
				for i := range trials {
					trials[i].State = map[string]string{promise.State: promises}
				}
			}}
	}
	const full, off = "sqlite synchronous=FULL", "sqlite synchronous=OFF"
	for _, c := range []struct {
		a, b scene
		says string
	}{
		{run("flushes", full), run("flushes", full), ""},
		{run("flushes", ""), run("unknown", full), ""},
		{run("flushes", full), run("memory", full),
			"host passes flushes on to the disk in the first result, and it keeps its files in memory in the second"},
		{run("flushes", full), run("flushes", off), "synchronous is FULL in the first result and OFF in the second"},
	} {
		p := &compareScenes(c.a, c.b).Pairs[0]
		for _, v := range p.Values {
			if (v.Cost == 0) != (c.says != "" && v.From.Kind == "dev.journal") {
				t.Errorf("%s: %s %s costs %v", c.says, v.From.Kind, v.From.Metric, v.Cost)
			}
		}
		var all []string
		for _, w := range p.Warnings {
			if w.Code == "durability-differs" {
				all = append(all, w.Text)
			}
		}
		if said := strings.Join(all, "\n"); !strings.Contains(said, c.says) || (said != "") != (c.says != "") {
			t.Errorf("%q is said, want %q", said, c.says)
		}
	}
}

func TestAChangedEnvironmentIsFound(t *testing.T) {
	c := compareScenes(scene{seed: 1, blocks: 20, host: 1, box: 1.5},
		scene{seed: 2, blocks: 20, host: 1, box: 1.8, day: 1})
	x := cell(t, c, "cpu.prime")
	if x.Verdict != record.Different || x.Low > 1.2 || x.High < 1.2 {
		t.Errorf("%+v", x.Ratio)
	}
	if s := Sentence(x, c.Pairs[0].Scope); !strings.Contains(s, "costs more against host than before") ||
		!strings.Contains(s, "two days on one machine") {
		t.Error(s)
	}
	if back := compareScenes(scene{seed: 2, blocks: 20, host: 1, box: 1.8, day: 1},
		scene{seed: 1, blocks: 20, host: 1, box: 1.5}); math.Abs(cell(t, back, "cpu.prime").Center*x.Center-1) > 1e-9 {
		t.Error("the comparison is not the same backwards")
	}
}

func TestWhatIsNotCompared(t *testing.T) {
	plain := scene{seed: 1, blocks: 20, host: 1, box: 1.5}
	with := func(change func(*plan.Plan, []record.Environment, []record.Trial)) scene {
		s := plain
		s.seed, s.change = 2, change
		return s
	}
	for name, c := range map[string]struct {
		change  func(*plan.Plan, []record.Environment, []record.Trial)
		verdict record.Verdict
		code    string
	}{
		"parameters": {func(p *plan.Plan, _ []record.Environment, _ []record.Trial) {
			p.Workloads[0].Params = workload.Params{"max": "20000"}
		}, record.Withheld, "other-work"},
		"checks": {func(_ *plan.Plan, _ []record.Environment, ts []record.Trial) {
			for i := range ts {
				ts[i].Checks = map[string]string{"n": "2262"}
			}
		}, record.Withheld, "unequal-work"},
		"withheld there": {func(_ *plan.Plan, _ []record.Environment, ts []record.Trial) {
			for i := range ts {
				if ts[i].Target == "box" {
					ts[i].Checks = map[string]string{"n": "1"}
				}
			}
		}, record.Withheld, "withheld"},
		"failed": {func(_ *plan.Plan, _ []record.Environment, ts []record.Trial) {
			for i := range ts {
				if ts[i].Target == "box" {
					ts[i].Error = &record.Failure{Kind: "measure", Message: "no"}
				}
			}
		}, record.Failed, "no-figure"},
		"emulated": {func(_ *plan.Plan, envs []record.Environment, _ []record.Trial) { envs[1].Inside.Emulated = true },
			record.Equivalent, "emulated"},
	} {
		got := cell(t, compareScenes(plain, with(c.change)), "cpu.prime")
		if got.Verdict != c.verdict || !strings.Contains(codes(got.Warnings), c.code) {
			t.Errorf("%s: %s with %q", name, got.Verdict, codes(got.Warnings))
		}
		if got.Verdict == record.Withheld && got.Center != 0 {
			t.Errorf("%s: a ratio of %v is shown all the same", name, got.Center)
		}
	}
	few := plain
	few.blocks = 3
	if x := cell(t, compareScenes(plain, few), "cpu.prime"); x.Verdict != record.Inconclusive ||
		codes(x.Warnings) != "no-interval" {
		t.Errorf("three blocks: %s %s", x.Verdict, codes(x.Warnings))
	}
}

func TestScope(t *testing.T) {
	at := func(day int, up string) scene {
		return scene{seed: uint64(day), blocks: 10, host: 1, box: 1, day: day,
			change: func(_ *plan.Plan, envs []record.Environment, _ []record.Trial) {
				for i := range envs {
					envs[i].Inside.Extra["kernel.uptime_s"] = up
				}
			}}
	}
	for _, c := range []struct {
		a, b scene
		want string
	}{
		{at(0, "1000"), at(0, "1000"), "two runs on one boot of one machine (same host facts)"},
		{at(0, "1000"), at(1, "87400"), "two runs on one boot of one machine (same host facts)"},
		{at(0, "1000"), at(1, "1000"), "two days on one machine (same host facts), booted in between"},
		{at(0, "1000"), at(0, "5000"), "two runs on one machine (same host facts), booted in between"},
	} {
		if got := compareScenes(c.a, c.b).Pairs[0].Scope; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	a, b := at(0, "1").side("a"), at(0, "1").side("b")
	b.Redacted = true
	if got := Compare([]Side{a, b}).Pairs[0].Scope; got != "two runs; it is not known whether on one machine" {
		t.Errorf("redacted: %q", got)
	}
}

// demo is a comparison with something of everything.
func demo() *Comparison {
	return compareScenes(scene{seed: 1, blocks: 20, host: 1, box: 1.5},
		scene{seed: 2, blocks: 20, host: 1.1, box: 1.8, day: 9,
			change: func(p *plan.Plan, envs []record.Environment, _ []record.Trial) {
				p.Trial = time.Second
				p.Workloads[1].Params = workload.Params{"files": "<b>|`x`\x1b[31m"}
				envs[0].Inside.Kernel, envs[0].Inside.Extra["cpu.governor"] = "6.12.0", "powersave"
				envs[0].Inside.Extra["work.free_bytes"] = "9"
			}})
}

func TestDifferences(t *testing.T) {
	seen := map[string]string{}
	for _, d := range demo().Pairs[0].Differences {
		seen[d.Area+" "+d.Where+" "+d.Name] = d.From + " -> " + d.To
	}
	for key, want := range map[string]string{
		"plan  trial": "300ms -> 1s", "host  kernel": "6.1.0 -> 6.12.0",
		"host  cpu.governor": "performance -> powersave",
	} {
		if seen[key] != want {
			t.Errorf("%s: %q, want %q", key, seen[key], want)
		}
	}
	for key := range seen {
		if strings.Contains(key, "free") || strings.Contains(key, "uptime") {
			t.Errorf("%s is told", key)
		}
	}
}

func TestGolden(t *testing.T) {
	for _, f := range Formats() {
		for _, o := range []Options{{}, {Details: true, ASCII: true}} {
			name := "demo." + f.Name
			if o.ASCII {
				name = "demo-details." + f.Name
			}
			var got, again bytes.Buffer
			if err := f.Render(&got, demo(), o); err != nil {
				t.Fatal(err)
			}
			if err := f.Render(&again, demo(), o); err != nil || !bytes.Equal(got.Bytes(), again.Bytes()) {
				t.Errorf("%s differs between two renderings: %v", name, err)
			}
			if bytes.ContainsRune(got.Bytes(), '\x1b') ||
				f.Name == "markdown" && bytes.Contains(got.Bytes(), []byte("<b>")) {
				t.Errorf("%s passes foreign markup on", name)
			}
			if f.Name == "json" && !json.Valid(got.Bytes()) {
				t.Error("no JSON")
			}
			file := filepath.Join("testdata", name)
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s is not as in testdata (-update renews it): %v\n%s", name, err, got.String())
			}
		}
	}
}
