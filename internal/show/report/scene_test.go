package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/setdiff"
	"tare/internal/unit"
)

// kinds are stand-ins for the workload table with the shapes that matter to a report.
var kinds = []workload.Kind{
	{Name: "cpu.prime", Family: "cpu", Needs: workload.Needs{CPUBound: true}, Metrics: []unit.Metric{
		{Name: "events_per_second", Unit: "events/s", Better: unit.Higher, Timed: true, Primary: true},
		{Name: "time_10k_events", Unit: "s", Better: unit.Lower, Timed: true}}},
	{Name: "fs.randread", Family: "file system",
		Metrics: []unit.Metric{{Name: "ops_per_second", Unit: "ops/s", Better: unit.Higher, Timed: true,
			Primary: true}}},
	{Name: "fs.seqwrite", Family: "file system",
		Metrics: []unit.Metric{{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true,
			Primary: true}}},
	{Name: matrixKind, Family: "file system", Metrics: matrixMetrics()},
	{Name: "command", Family: "command", Metrics: []unit.Metric{{Name: "seconds", Unit: "s", Better: unit.Lower,
		Timed: true, Primary: true}}},
	{Name: "memory.latency", Family: "memory", Metrics: []unit.Metric{{Name: "latency", Unit: "ns", Better: unit.Lower,
		Timed: true, Primary: true}}},
}

// matrixMetrics are the thirteen of iozone; reading decides.
func matrixMetrics() []unit.Metric {
	var ms []unit.Metric
	for _, op := range matrixOps {
		ms = append(ms, unit.Metric{Name: op.String(), Unit: "KiB/s", Better: unit.Higher, Timed: true,
			Primary: op.String() == "read"})
	}
	return ms
}

func kindOf(name string) (*workload.Kind, bool) {
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i], true
		}
	}
	return nil, false
}

// base is what one unit of a kind costs on the baseline, as the metric's value.
var base = map[string]float64{"events_per_second": 2041, "time_10k_events": 4.9, "ops_per_second": 1.94e6,
	"mib_per_second": 410, "latency": 62.3, "seconds": 30}

// scene is a run made of synthetic trials. It goes through verdict.Evaluate like a real one.
type scene struct {
	targets   []string
	workloads []plan.Workload
	blocks    int
	// cost is the true ratio of a workload in a target, noise the spread of its logarithm; 0 is 1 % noise.
	cost  func(label, target string) (ratio, noise float64)
	tweak func(*verdict.Input)
}

func (s scene) result() *verdict.Result {
	p := &plan.Plan{Schema: 1, Name: "scene", Baseline: s.targets[0], Seed: 7, Mode: plan.Quick,
		Trial: 300 * time.Millisecond, Sessions: 1,
		Looks: []int{10, 15, 20, 30}, Alpha: 0.05, LookAlpha: 0.018, Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Workloads: s.workloads}
	in := verdict.Input{Run: verdict.Run{ID: "run-1", Version: "0.1.0", Build: "test", Seconds: 400, Finished: true},
		Plan: p, Kinds: kindOf}
	for _, name := range s.targets {
		p.Targets = append(p.Targets, plan.Target{Name: name, Spec: env.Spec{Name: name, Driver: "local"},
			Text: "local"})
		in.Environments = append(in.Environments, record.Environment{Session: 1, OpenNS: 1e8,
			Target: record.Target{Name: name, Spec: "local", Inside: record.Facts{OS: "linux", Arch: "amd64",
				Kernel: "6.1.0", Distro: "Debian 12", CPU: "Test CPU",
				Threads: 2, MemoryBytes: 4 << 30}}})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	seq := 0
	for block := 0; block <= s.blocks; block++ {
		for i := range s.workloads {
			w := &s.workloads[i]
			for j := -1; j < len(s.targets); j++ { // -1 is the hidden slot of the baseline
				target, slot := s.targets[max(0, j)], ""
				if j < 0 {
					slot = record.NullSlot
				}
				if !w.On(target) || j < 0 && block == 0 {
					continue
				}
				ratio, noise := 1.0, 0.0
				if s.cost != nil && j > 0 {
					ratio, noise = s.cost(w.Label, target)
				}
				if noise == 0 {
					noise = 0.003
				}
				seq++
				t := record.Trial{Seq: seq, Session: 1, Block: block, Workload: w.Label, Target: target, Slot: slot,
					Work:    1000,
					AgentNS: 3e8, ControllerNS: 3e8, RTTNS: 1e5,
					Figures: record.Figures{Metrics: map[string]float64{}, Checks: map[string]string{"n": "1228"}}}
				f := ratio * math.Exp(noise*rng.NormFloat64())
				k, _ := kindOf(w.Kind)
				for i, m := range k.Metrics {
					v := base[m.Name]
					if v == 0 { // a matrix: figures that grow with the record and tell the operations apart
						v = 1e5*float64(i+1) + 1000*math.Log2(float64(sizeOf(w.Params, "bs")))
					}
					t.Metrics[m.Name] = m.Value(m.Cost(v) * f)
				}
				in.Trials = append(in.Trials, t)
			}
		}
	}
	if s.tweak != nil {
		s.tweak(&in)
	}
	return verdict.Evaluate(in)
}

func work(labels ...string) []plan.Workload {
	var out []plan.Workload
	for _, l := range labels {
		kind := l
		for _, k := range kinds {
			if len(l) > len(k.Name) && l[:len(k.Name)] == k.Name {
				kind = k.Name
			}
		}
		p := workload.Params{}
		if _, v, ok := strings.Cut(l, "fsync="); ok {
			p["fsync"] = v
		}
		out = append(out, plan.Workload{Label: l, Kind: kind, Params: p})
	}
	return out
}

func trialsOf(in *verdict.Input, label, target string, f func(*record.Trial)) {
	for i := range in.Trials {
		if t := &in.Trials[i]; t.Workload == label && t.Target == target {
			f(t)
		}
	}
}

func fail(t *record.Trial, kind, message string) {
	t.Metrics, t.Error = nil, &record.Failure{Kind: kind, Message: message}
}

// answers are a sketch of executions of the group with the number 2, two of which return something else in one target.
func answers(other bool) []byte {
	var s setdiff.Sketch
	for n := range uint64(2000) {
		e := setdiff.Element{Number: n, Kind: 2 * 0x9e3779b9 >> 32, Rows: 1, Sum: n * 0x9e3779b97f4a7c15}
		switch {
		case other && n == 1203:
			e.Rows, e.Sum = record.RefusedRows, 0x4c8f_11d2_0b5e_77a3
		case other && n == 411:
			e.Rows, e.Sum = 0, 0
		}
		s.Add(e)
	}
	return s.Bytes()
}

// shownIn is what one of these two returned.
func shownIn(target string) []record.Shown {
	return []record.Shown{{Number: 411, Text: "<p>the same\nand <script>" + target + "</script>"}}
}

// statements are the groups of a trial: as the replay of a log makes them.
func statements(rng *rand.Rand, t *record.Trial) []record.Group {
	texts := []string{"SELECT name, price FROM items WHERE id = ?",
		"SELECT `a|b`, count(*) FROM orders WHERE status IN (?) GROUP BY 1 ORDER BY 2 DESC LIMIT ?",
		"SELECT * FROM items WHERE text LIKE ? -- <script>", "UPDATE customers SET seen = now() WHERE id = ?"}
	out := make([]record.Group, 0, 100)
	for i := range cap(out) {
		text := fmt.Sprintf("SELECT x FROM t%d WHERE y = ?", i)
		if i < len(texts) {
			text = texts[i]
		}
		g := record.Group{ID: fmt.Sprintf("%016x", i*0x9e3779b9), Count: int64(4000 / (i + 1)), Rows: 10, Check: "1228"}
		if t.Warmup() {
			g.Text = text
		}
		cost := 2e-4 * math.Exp(0.01*rng.NormFloat64())
		switch {
		case t.Target == "vm" && i == 1:
			cost *= 4
		case t.Target == "vm" && i == 3:
			cost *= 0.6
		case t.Target == "vm" && i == 0:
			cost *= 1.021 // straddles the margin
		}
		g.P50, g.P99, g.Seconds = cost, 3*cost, 1.2*cost*float64(g.Count)
		out = append(out, g)
	}
	return out
}

// scenes are the reports that golden files are kept of.
func scenes() map[string]*Model {
	verdicts := func(s *scene) {
		s.targets = []string{"host", "box", "vm", "vm-e1000"}
		s.workloads = work("cpu.prime", "cpu.prime threads=2", "fs.randread bs=4KiB", "fs.seqwrite fsync=end",
			"memory.latency")
		s.workloads[4].Targets = []string{"host", "box", "vm"}
		s.blocks = 30
		s.cost = func(label, target string) (float64, float64) {
			switch {
			case target == "box" && label == "memory.latency":
				return 1.02, 0.002 // straddles the margin
			case target == "box" && label == "fs.randread bs=4KiB":
				return 1.05, 0.3 // too noisy to tell
			case target == "box":
				return 1, 0
			case target == "vm" && label == "fs.seqwrite fsync=end":
				return 0.62, 0.02
			case target == "vm-e1000" && label == "fs.randread bs=4KiB":
				return 242, 0.03
			}
			return 9.8, 0.01
		}
		s.tweak = func(in *verdict.Input) {
			trialsOf(in, "fs.seqwrite fsync=end", "vm-e1000",
				func(t *record.Trial) { fail(t, "measure", "fsync: input/output error") })
			trialsOf(in, "cpu.prime threads=2", "vm-e1000", func(t *record.Trial) { t.Checks["n"] = "1227" })
		}
	}
	var all scene
	verdicts(&all)
	emulatedVM := all
	emulatedVM.tweak = func(in *verdict.Input) {
		in.Environments[2].Inside.Emulated = true
		in.Environments[3].Inside.Emulated = true
	}
	dead := scene{targets: []string{"host", "box", "vm"}, workloads: work("cpu.prime", "fs.randread"), blocks: 15,
		tweak: func(in *verdict.Input) {
			in.Environments[2] = record.Environment{Session: 1, Target: record.Target{Name: "vm", Spec: "qemu",
				Error: &record.Failure{Kind: "boot",
					Message: "vm: boot: no handshake within 30 s; the console ends in \x1b[2JKernel panic"}}}
			kept := in.Trials[:0]
			for _, t := range in.Trials {
				if t.Target != "vm" {
					kept = append(kept, t)
				}
			}
			in.Trials = kept
		}}
	many := scene{targets: []string{"host", "box"}, blocks: 20}
	for i := range 40 {
		many.workloads = append(many.workloads, work(fmt.Sprintf("fs.randread size=%dMiB", 1<<(i%10)+i))...)
	}
	many.cost = func(label, _ string) (float64, float64) { return 1 + float64(len(label)%3)/10, 0.01 }
	hostile := scene{targets: []string{"host", "box"}, blocks: 12,
		workloads: work("cpu.prime", "fs.randread 日本語の名前", "fs.randread \x1b]0;owned\x07\u202eevil")}
	hostile.tweak = func(in *verdict.Input) {
		trialsOf(in, "cpu.prime", "box", func(t *record.Trial) {
			fail(t, "measure",
				"\x1b[31mred\x1b[0m\nnext line \u202e")
		})
	}
	early := scene{targets: []string{"host", "box"}, blocks: 3, workloads: work("cpu.prime", "fs.randread"),
		tweak: func(in *verdict.Input) { in.Run.Finished = false }}

	ten := scene{workloads: work("cpu.prime", "fs.randread bs=4KiB", "fs.seqwrite fsync=end"), blocks: 15,
		targets: []string{"host", "vm", "vm:virtiofs", "vm:9p", "vm:nfs", "vm:smb", "vm:sshfs", "vm:rsync", "box",
			"box:bind"},
		cost: func(label, target string) (float64, float64) { return 1 + float64(len(label)*len(target))/20, 0.01 }}
	// Of a hundred statements one is slow in vm, one is fast, and most are rare; box answered one of them otherwise.
	replayed := scene{targets: []string{"host", "vm", "box"}, blocks: 15, workloads: work("cpu.prime"),
		cost: func(_, target string) (float64, float64) {
			return map[string]float64{"vm": 1.2, "box": 1}[target], 0.01
		}}
	replayed.tweak = func(in *verdict.Input) {
		rng := rand.New(rand.NewPCG(4, 5))
		for i := range in.Trials {
			t := &in.Trials[i]
			t.Groups = statements(rng, t)
			if t.Target == "box" {
				t.Groups[2].Check, t.Groups[2].Rows = "1227", 9
			}
			t.Sketch = answers(t.Target == "box")
			t.Shown = shownIn(t.Target)
		}
	}
	first := replayed
	first.blocks = 10
	details := func(m *Model) *Model {
		f := fileModel()
		m.Targets[2].Card, m.Targets[3].Card = f.Targets[1].Card, f.Targets[2].Card
		m.Targets[3].Of, m.Targets[3].Mount, m.Targets[3].Durability = "vm", f.Targets[2].Mount, f.Targets[2].Durability
		m.Costs = f.Costs
		return m
	}

	with := func(s scene, o TextOptions) *Model {
		m := NewModel(s.result())
		m.Text, m.Bundle = o, "tare-20261121-0731"
		return m
	}
	return map[string]*Model{
		"verdicts-wide":    with(all, TextOptions{Width: 140}),
		"verdicts-100":     with(all, TextOptions{Width: 100}),
		"verdicts-80":      with(all, TextOptions{Width: 80}),
		"verdicts-40":      with(all, TextOptions{Width: 40}),
		"verdicts-ascii":   with(all, TextOptions{Width: 140, ASCII: true}),
		"verdicts-colour":  with(all, TextOptions{Width: 140, Color: true}),
		"verdicts-details": with(all, TextOptions{Width: 120, Details: true}),
		"emulated":         with(emulatedVM, TextOptions{Width: 120}),
		"target-failed":    with(dead, TextOptions{}),
		"one-target": with(scene{targets: []string{"host"}, workloads: work("cpu.prime"), blocks: 5,
			tweak: func(in *verdict.Input) {
				rng := rand.New(rand.NewPCG(6, 7))
				for i := range in.Trials {
					in.Trials[i].Groups = statements(rng, &in.Trials[i])
				}
			}}, TextOptions{}),
		"groups":      with(replayed, TextOptions{Width: 100}),
		"groups-10":   with(first, TextOptions{Width: 100}), // blocks
		"groups-60":   with(replayed, TextOptions{Width: 60, ASCII: true}),
		"many":        with(many, TextOptions{}),
		"hostile":     with(hostile, TextOptions{Details: true}),
		"ten":         with(ten, TextOptions{Width: 80}),
		"ten-wide":    with(ten, TextOptions{Width: 160}),
		"ten-details": details(with(ten, TextOptions{Width: 80, Details: true})),
		"unfinished":  with(early, TextOptions{}),
	}
}
