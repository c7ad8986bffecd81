package report

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tare/internal/judge/costper"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/show/report/chromium"
	"tare/internal/show/report/page"
	"tare/internal/unit"
)

// pageKinds are kinds with the metrics that the page has charts of its own for.
var pageKinds = []workload.Kind{
	{Name: "net.latency", Family: "network", Metrics: []unit.Metric{
		{Name: "p50_us", Unit: "us", Better: unit.Lower, Primary: true},
		{Name: "p90_us", Unit: "us", Better: unit.Lower},
		{Name: "p99_us", Unit: "us", Better: unit.Lower, Tail: true},
		{Name: "p999_us", Unit: "us", Better: unit.Lower, Tail: true}}},
}

func pageKind(name string) (*workload.Kind, bool) {
	for i := range pageKinds {
		if pageKinds[i].Name == name {
			return &pageKinds[i], true
		}
	}
	return kindOf(name)
}

// pageWork are workloads with parameters: a curve over record sizes, a matrix, and latencies.
func pageWork() []plan.Workload {
	all := work("cpu.prime", "memory.latency", "fs.seqwrite fsync=end")
	for _, bs := range []string{"1KiB", "4KiB", "16KiB", "64KiB", "256KiB"} {
		all = append(all, plan.Workload{Label: "fs.randread bs=" + bs, Kind: "fs.randread",
			Params: workload.Params{"bs": bs, "size": "64MiB"}})
	}
	for _, size := range []string{"64KiB", "1MiB", "64MiB"} {
		for _, bs := range []string{"4KiB", "16KiB", "64KiB", "1MiB"} {
			all = append(all, plan.Workload{Label: fmt.Sprintf("fs.matrix size=%s bs=%s", size, bs), Kind: "fs.matrix",
				Params: workload.Params{"bs": bs, "size": size}})
		}
	}
	return append(all, plan.Workload{Label: "net.latency", Kind: "memory.latency", Params: workload.Params{}})
}

// pageModel is a run with something for every part of the page.
func pageModel() *Model {
	s := scene{targets: []string{"host", "box", "vm", "vm:9p"}, workloads: pageWork(), blocks: 15}
	s.cost = func(label, target string) (float64, float64) {
		w := 0.0
		for _, b := range []byte(label) {
			w += float64(b%7) / 20
		}
		switch target {
		case "box":
			return 1, 0.003
		case "vm:9p":
			return 4 + 3*w, 0.05
		}
		if label == "fs.seqwrite fsync=end" {
			return 0.62, 0.02
		}
		return 1.1 + w/4, 0.02
	}
	var kept verdict.Input
	s.tweak = func(in *verdict.Input) {
		in.Kinds = pageKind
		in.Plan.Workloads[len(in.Plan.Workloads)-1].Kind = "net.latency" // the scene knows only its own kinds
		in.Plan.Question = "What does a shared folder cost a developer?"
		addPageTrials(in)
		e := in.Environments
		e[2].Inside.Kernel, e[2].Inside.Hypervisor = "6.1.0-cloud", "kvm"
		e[3].Of, e[3].Inside = "vm", e[2].Inside
		e[3].Mount = &record.Mount{Kind: "9p", Dir: "/mnt/9p", HostDir: "/srv/share", Type: "9p", Source: "share",
			Options: "rw,trans=virtio,msize=512000", Server: "QEMU 7.2.22"}
		for i, answer := range []string{"yes", "yes", "yes", "no"} {
			rating := map[string]string{"yes": "good", "no": "bad"}[answer]
			e[i].Card = []record.Property{
				{Name: "inotify", Title: "change events from the host arrive", Answer: answer, Rating: rating,
					Detail: "a file was changed outside and watched inside for 2 s"},
				{Name: "attr-cache", Title: "lag of attributes", Answer: fmt.Sprintf("%d.0 s", i), Seconds: float64(i),
					Rating: "neutral"}}
		}
		e[0].Durability = &record.Durability{Verdict: record.NotDisproved, Class: "flushes", Cuts: 30, Bound: 0.1,
			Text: "no acknowledged record was lost in 30 cuts"}
		e[2].Durability = &record.Durability{Verdict: record.Disproved, Class: "ignores-flushes",
			Layer: "the hypervisor's cache", Cuts: 3,
			Text:     "the last 41 acknowledged records were gone after a power cut",
			Evidence: []string{"cut 2: record 1,204 acknowledged, last found 1,163"}}
		e[2].Durability.Tests = []record.FlushTest{{Name: record.FlushCost, Verdict: record.Untested,
			Class: "ignores-flushes", Text: "a flush costs 0.04 ms there and 1.9 ms on the host", Seconds: 0.3}}
		e[2].Durability.Settings = []record.Warning{{Code: "qemu-cache",
			Text: "QEMU ignores flushes of this disk (cache=unsafe)", Remedy: "cache=none"}}
		e[2].Disks, e[3].Disks = []record.DiskMap{*agedDisk()},
			[]record.DiskMap{{Name: "data", Text: "edited", Bytes: 1, Cell: 1, Data: []int{1, 2}}}
		rng := rand.New(rand.NewPCG(4, 5))
		for _, label := range []string{"cpu.prime", "memory.latency"} {
			for _, target := range s.targets {
				trialsOf(in, label, target, func(t *record.Trial) {
					t.Groups, t.Sketch, t.Shown = statements(rng, t), answers(false), shownIn(t.Target)
				})
			}
		}
		trialsOf(in, "memory.latency", "vm", func(t *record.Trial) {
			t.Checks["n"], t.Groups[7].Check, t.Groups[7].Rows = "1227", "1227", 9
			t.Sketch = answers(true)
		})
		trialsOf(in, "fs.randread bs=256KiB", "vm:9p", func(t *record.Trial) {
			fail(t, "measure",
				"read: input/output error")
		})
		kept = *in
	}
	r := s.result()
	r.Findings = append(r.Findings, verdict.Finding{Code: "flush", Severity: "warning", Targets: []string{"vm"},
		Text: "vm fs.seqwrite: the guest's fsync takes 0.04 ms where the host's takes 1.9 ms: flushes do not reach " +
			"the disk (cache=unsafe)", Remedy: "-e 'vm=qemu?cache=none'"})
	for _, t := range []string{"host", "vm:9p"} {
		c := verdict.Cost{Target: t, Kind: "fs.randread", Label: "fs.randread size=64MiB", PerCallNS: 400,
			PerByteNS: 0.1, Error: 0.03, Text: "each call costs 400 ns, then 10 GB/s"}
		if t != "host" {
			c.PerCallNS, c.PerByteNS, c.Quantum, c.PerQuantumNS, c.Text = 62e3, 1.7, 4096, 900,
				"each call costs 62 µs, each 4 KiB 0.9 µs, then 590 MB/s"
		}
		for _, b := range []int64{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10} {
			ns := c.PerCallNS + float64(b)*c.PerByteNS
			if c.Quantum > 0 {
				ns += math.Ceil(float64(b)/float64(c.Quantum)) * c.PerQuantumNS
			}
			c.Points = append(c.Points, verdict.Point{Bytes: b, NS: ns * 1.02})
		}
		r.Costs = append(r.Costs, c)
	}
	m := NewModel(r)
	m.Trials, m.Plan, m.Bundle = kept.Trials, kept.Plan, "tare-20261121-0731"
	m.Flames = []record.Flame{*pageFlame()}
	m.Normal, m.Worth = paidFor(r, kept.Plan, "net.latency")
	// As if the use had been told as a rate of two connections.
	w := &m.Worth.Answers[0]
	rate := 2 / w.Use
	more := costper.Span{Center: rate/w.Ratio.Center - rate, Low: rate/w.Ratio.High - rate,
		High: rate/w.Ratio.Low - rate}
	w.Capacity = &costper.Capacity{Unit: "req/s", AtOnce: 2, Rate: rate, More: more, PerMore: costper.Span{
		Center: 140 / more.Center, Low: 140 / more.High, High: 140 / more.Low}}
	return m
}

// paidFor asks the real questions: what each costs for its price, with one whose price nobody knows, and what is saved
// in each use.
func paidFor(r *verdict.Result, p *plan.Plan, use string) (*costper.Table, *costper.Answers) {
	given := map[string]map[string]string{"host": {costper.PricePerHour: "0.2", costper.Currency: "EUR"},
		"vm":  {costper.PricePerHour: "0.05", costper.Currency: "EUR"},
		"tmp": {costper.PricePerHour: "0.2", costper.Currency: "EUR"}}
	table, err := costper.Apply(r, p, costper.Spec{Per: costper.Price, Given: given})
	if err != nil {
		panic(err)
	}
	asked := costper.WorthSpec{Price: costper.Money{Amount: 140, Currency: "EUR"}, UsesPerDay: 50000,
		Hourly:   costper.Money{Amount: 60, Currency: "EUR"},
		Workload: use, From: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
	found, err := costper.Ask(r, p, asked)
	if err != nil {
		panic(err)
	}
	return table, costper.NewAnswers(asked, found)
}

// pageFlame is a flame graph of vm: a lookup takes most of what it takes more, and what serves it was sampled.
func pageFlame() *record.Flame {
	return &record.Flame{Workload: "cpu.prime", Target: "vm", Baseline: "host", Unit: "event", Rounds: 5,
		Made: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), BaselineInside: true, LeftOut: 3, LeftOutNS: 12,
		Frames: []record.FlameFrame{{Name: "all", NS: 200_000, BaseNS: 100_000},
			{Depth: 1, Name: "main", NS: 150_000, BaseNS: 90_000, Shown: true},
			{Depth: 2, Name: "walk", NS: 120_000, BaseNS: 60_000, Shown: true},
			{Depth: 3, Name: "sys_stat", Kernel: true, NS: 110_000, BaseNS: 50_000, Shown: true},
			{Depth: 4, Name: "lookup<layer>_of_a_name_that_is_longer_than_its_box", Kernel: true, NS: 100_000,
				BaseNS: 1000, Shown: true},
			{Depth: 2, Name: "sort", NS: 20_000, BaseNS: 20_500},
			{Depth: 2, Name: "rest", NS: 50, BaseNS: 9000, Shown: true},
			{Depth: 1, Name: "idle", NS: 40_000, BaseNS: 1}}}
}

// agedDisk is a disk of 1 GiB with everything that the page draws: data in order, data in disorder, compressed,
// inherited and zero pieces, and free space.
func agedDisk() *record.DiskMap {
	const piece = 1 << 20
	pieces := make([]record.DiskCell, 1024)
	for i := range pieces {
		p := &pieces[i]
		p.Host = -1
		switch {
		case i < 300:
			p.Data, p.Host = piece, int64(i)*piece
		case i < 500:
			p.Data, p.Breaks, p.Host = piece/2, int64(1+i%7), int64(300+i*577%200)*piece
		case i < 560:
			p.Compressed, p.Host, p.Breaks = piece, int64(500+i/4)*piece, 1
		case i < 640:
			p.Zero = piece
		case i < 700:
			p.Data, p.Inherited, p.Host = piece, piece, int64(i)*piece
		}
	}
	m := record.NewDiskMap(int64(len(pieces))*piece, piece, pieces)
	m.Name, m.State, m.Format, m.Text = "scratch", "aged", "qcow2", "1,400 pieces per GiB in the image, 12 on the host"
	return m
}

// addPageTrials fills in what the plain scene leaves out: figures of the page's own kinds, samples, states, times, and
// a discarded block.
func addPageTrials(in *verdict.Input) {
	for i := range in.Trials {
		t := &in.Trials[i]
		t.Start = time.Date(2026, 11, 21, 7, 31, 0, 0, time.UTC).Add(time.Duration(i) * 400 * time.Millisecond)
		t.State = map[string]string{"direct": "no", "switches_involuntary": fmt.Sprint(i % 9)}
		t.Host = &record.HostState{Quiet: i%11 != 0}
		for _, rate := range []string{"events_per_second", "ops_per_second", "mib_per_second"} {
			if v := t.Metrics[rate]; v > 0 { // their time is to be taken apart
				t.AgentNS = int64(3e8 * base[rate] / v)
				t.ControllerNS = t.AgentNS
			}
		}
		t.Account = pageAccount(t)
		w, _ := in.Plan.Workload(t.Workload)
		cost := math.Exp(0.02 * math.Sin(float64(i)))
		if t.Target == "vm:9p" {
			cost *= 6 + math.Sin(float64(len(t.Workload)))
		} else if t.Target == "vm" {
			cost *= 1.4
		}
		switch w.Kind {
		case matrixKind:
			t.Metrics = map[string]float64{}
			for i, op := range matrixOps {
				t.Metrics[op.String()] = 90000 / cost * float64(1+len(t.Workload)%5) * float64(2+i%3)
			}
		case "net.latency":
			if t.Target == "box" {
				cost *= 0.7 // the one that saves something
			}
			t.Metrics = map[string]float64{"p50_us": 80 * cost, "p90_us": 130 * cost, "p99_us": 400 * cost,
				"p999_us": 2100 * cost * cost}
		case "memory.latency":
			t.Samples = map[string][]float64{"latency": {60 * cost, 62 * cost, 64 * cost, 75 * cost}}
		}
	}
	in.Trials = append(in.Trials, record.Trial{Seq: len(in.Trials) + 1, Session: 1, Block: 3, Workload: "cpu.prime",
		Discarded: "steal above 10 %"})
}

// pageAccount says where the time of a trial went: in vm more of it in the kernel, in vm:9p most of it waiting. Only
// the processors of host and box count.
func pageAccount(t *record.Trial) *record.Account {
	parts := map[string][5]float64{"vm": {0.4, 0.5, 0.02, 0, 0.08}, "vm:9p": {0.1, 0.2, 0.02, 0.08, 0.6}}
	of, ok := parts[t.Target]
	if !ok {
		of = [5]float64{0.6, 0.3, 0.02, 0, 0.08}
	}
	a := &record.Account{Lanes: 1, Counts: map[string]int64{}, Unmeasured: map[string]string{
		record.InstructionsUser: "there is no counter of the processor: a virtual machine without a virtual PMU"}}
	for i, name := range record.AccountParts() {
		noise := 1 + 0.01*math.Sin(float64(t.Seq*(i+3)))
		a.Counts[name] = int64(of[i] * noise * float64(t.AgentNS))
	}
	if !ok {
		delete(a.Unmeasured, record.InstructionsUser)
		for i, name := range []string{record.InstructionsUser, record.InstructionsKernel, record.CyclesUser,
			record.CyclesKernel} {
			a.Counts[name] = int64(float64(i+2) * float64(t.AgentNS))
		}
	}
	return a
}

// largeModel has 2,000 cells of 12 blocks.
func largeModel() *Model {
	s := scene{targets: []string{"host", "a", "b", "c", "d"}, blocks: 12, workloads: nil}
	for i := range 500 {
		s.workloads = append(s.workloads, work(fmt.Sprintf("fs.randread size=%dMiB", i+1))...)
	}
	s.cost = func(label, target string) (float64, float64) {
		return 1 + float64(len(label)*int(target[0])%40)/10, 0.02
	}
	var kept verdict.Input
	s.tweak = func(in *verdict.Input) { kept = *in }
	m := NewModel(s.result())
	m.Trials, m.Plan, m.Bundle = kept.Trials, kept.Plan, "large"
	return m
}

// hostilePage is a run whose every text tries to become markup, script or another text than it is.
func hostilePage() *Model {
	m := fileModel()
	const img = `"><img src=x onerror="window.owned=1">`
	for i := range m.Targets {
		m.Targets[i].Name += img
	}
	for i := range m.Cells {
		m.Cells[i].Target += img
		m.Cells[i].Baseline += img
	}
	for i := range m.Result.Families {
		m.Result.Families[i].Target += img
	}
	for i := range m.Trials {
		m.Trials[i].Target += img
	}
	m.Run.Baseline += img
	f := pageFlame()
	f.Workload, f.Target, f.Baseline = m.Cells[0].Workload, m.Cells[0].Target, m.Run.Baseline
	for i := range f.Frames {
		f.Frames[i].Name += img + "</text><script>window.owned=1</script>\u202e"
	}
	m.Flames = []record.Flame{*f}
	p := *m.Plan
	p.Question = "</script><script>window.owned=1</script><!-- \u2028\u2029\n"
	m.Plan = &p
	m.Run.Name = `</title><script>window.owned=1</script>`
	return m
}

// browser starts a browser for the page. It comes before all that is made for the page to show.
func browser(t *testing.T) *chromium.Browser {
	t.Helper()
	if _, ok := page.HTML(); !ok {
		chromium.Missing(t, "the page is not built (make web, with Node.js)")
	}
	return chromium.Start(t)
}

// pageFile writes a model as a page and returns the file.
func pageFile(t testing.TB, m *Model) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, m); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
