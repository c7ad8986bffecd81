package verdict

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// scene is a small run for one rule: what the targets are, what they did, and what a trial says of itself.
type scene struct {
	targets []string // the first is the baseline; "vm:9p" is a mount in vm
	work    []plan.Workload
	cost    map[string]float64                    // true cost by "workload target"; 1 where nothing is said
	tweak   func(*record.Environment)             // last word on each environment
	trial   func(*record.Trial)                   // last word on each trial
	base    func(workload, metric string) float64 // the baseline's figure; 100 where nothing is said
	damage  []string                              // what is wrong with the bundle
}

func sceneKind(name string) (*workload.Kind, bool) {
	rate := func(name, u string, primary bool) unit.Metric {
		return unit.Metric{Name: name, Unit: u, Better: unit.Higher, Timed: true, Primary: primary}
	}
	seconds := unit.Metric{Name: "seconds", Unit: "s", Better: unit.Lower, Timed: true, Primary: true}
	files := []unit.Metric{rate("mib_per_second", "MiB/s", true), rate("ops_per_second", "ops/s", false)}
	kinds := []workload.Kind{
		{Name: "cpu.prime", Family: "cpu", Needs: workload.Needs{CPUBound: true},
			Metrics: []unit.Metric{rate("events_per_second", "events/s", true)}},
		{Name: "memory.latency", Family: "memory", Metrics: []unit.Metric{seconds}},
		{Name: "fs.seqread", Family: "file system", Metrics: files},
		{Name: "fs.seqwrite", Family: "file system", Metrics: files},
		{Name: "fs.randread", Family: "file system", Metrics: files},
		{Name: "fs.mixed", Family: "file system", Metrics: files},
		{Name: "durability.fsync", Family: "file system", Metrics: []unit.Metric{seconds}},
		{Name: "restore", Family: "file system", Metrics: []unit.Metric{seconds}},
		{Name: "fs.smallfiles", Family: "file system",
			Metrics: []unit.Metric{rate("files_per_second", "files/s", true),
				rate("stat_per_second", "files/s", false)}},
		{Name: "fs.matrix", Family: "file system",
			Metrics: []unit.Metric{seconds, rate("write", "KiB/s", false), rate("read", "KiB/s", false)}},
		{Name: "dev.compile", Family: "file system", Metrics: []unit.Metric{rate("units_per_second", "units/s", true)}},
		{Name: "dev.journal", Family: "file system",
			Metrics: []unit.Metric{rate("commits_per_second", "commits/s", true)}},
		{Name: "net.stream", Family: "network", Metrics: []unit.Metric{rate("throughput", "MiB/s", true)}},
		{Name: "net.rr", Family: "network", Metrics: []unit.Metric{rate("round_trips_per_second", "round trips/s",
			true)}},
		{Name: "http.fetch", Family: "web", Metrics: []unit.Metric{rate("requests_per_second", "1/s", true)}},
		{Name: "http.get", Family: "web", Metrics: []unit.Metric{rate("requests_per_second", "1/s", true)}},
		{Name: "http.load", Family: "web", Metrics: []unit.Metric{rate("requests_per_second", "1/s", true),
			rate("mib_per_second", "MiB/s", false)}},
		{Name: "command", Family: "command", Metrics: []unit.Metric{seconds}},
	}
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i], true
		}
	}
	if k, ok := timesKind(name); ok {
		return k, true
	}
	return all.Lookup(name)
}

// on makes a workload of a kind with parameters "k=v", labelled with both.
func on(kind string, params ...string) plan.Workload {
	w := plan.Workload{Label: strings.Join(append([]string{kind}, params...), " "), Kind: kind,
		Params: workload.Params{}}
	for _, p := range params {
		k, v, _ := strings.Cut(p, "=")
		w.Params[k] = v
	}
	return w
}

func (s scene) input() Input {
	p := &plan.Plan{
		Baseline: s.targets[0], Seed: 1, Mode: plan.Quick, Sessions: 1, Looks: []int{10, 15},
		Trial: 300 * time.Millisecond,
		Alpha: 0.05, LookAlpha: stats.LookAlpha([]int{10, 15}, 0.05), Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Workloads: s.work,
	}
	in := Input{Run: Run{ID: "r1", Finished: true}, Plan: p, Kinds: sceneKind, Damage: s.damage}
	for _, name := range s.targets {
		of, _, mount := strings.Cut(name, ":")
		if !mount {
			of = ""
		}
		p.Targets = append(p.Targets, plan.Target{Name: name, Of: of, Text: "local"})
		re := record.Environment{Target: record.Target{Name: name, Of: of, Spec: "local"}, Session: 1, OpenNS: 1e8}
		re.Inside = record.Facts{OS: "linux", Cores: 4, Threads: 8, MemoryBytes: 8 << 30, WorkFS: "ext4 (rw,relatime)",
			Extra: map[string]string{}}
		re.Outside = record.Facts{Settings: map[string]string{}, Extra: map[string]string{}}
		if mount {
			re.Mount = &record.Mount{Kind: "9p", Settings: map[string]string{}}
		}
		if s.tweak != nil {
			s.tweak(&re)
		}
		in.Environments = append(in.Environments, re)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for block := 0; block <= 12; block++ {
		for i := range s.work {
			for j := -1; j < len(s.targets); j++ {
				if j < 0 && block == 0 {
					continue
				}
				in.Trials = append(in.Trials, s.one(rng, block, &s.work[i], j))
			}
		}
	}
	for i := range in.Trials {
		in.Trials[i].Seq = i + 1
	}
	return in
}

func (s scene) one(rng *rand.Rand, block int, w *plan.Workload, j int) record.Trial {
	target, slot := s.targets[max(j, 0)], ""
	if j < 0 {
		slot = record.NullSlot
	}
	cost := factor(s.cost, w.Label+" "+target) * math.Exp(0.003*rng.NormFloat64())
	t := record.Trial{
		Session: 1, Block: block, Workload: w.Label, Target: target, Slot: slot, Work: 1000, AgentNS: int64(3e8 * cost),
		ControllerNS: int64(3e8 * cost),
		Figures: record.Figures{Metrics: map[string]float64{}, Checks: map[string]string{"n": "1"},
			State: map[string]string{}},
		Host: &record.HostState{Quiet: true},
	}
	if w.Params["direct"] != "" {
		t.State["direct"] = w.Params["direct"]
	}
	kind, _ := sceneKind(w.Kind)
	for _, m := range kind.MetricsFor(w.Params) {
		v := 100.0
		if s.base != nil {
			v = s.base(w.Label, m.Name)
		}
		t.Metrics[m.Name] = m.Value(m.Cost(v) * cost)
	}
	if s.trial != nil {
		s.trial(&t)
	}
	return t
}

func (s scene) evaluate() *Result { return Evaluate(s.input()) }

// two is a host and a virtual machine doing some work.
func two(work ...plan.Workload) scene { return scene{targets: []string{"host", "vm"}, work: work} }

func (s scene) costs(m map[string]float64) scene                      { s.cost = m; return s }
func (s scene) envs(f func(*record.Environment)) scene                { s.tweak = f; return s }
func (s scene) trials(f func(*record.Trial)) scene                    { s.trial = f; return s }
func (s scene) figures(f func(workload, metric string) float64) scene { s.base = f; return s }

// inVM changes the environment called vm alone.
func inVM(f func(*record.Environment)) func(*record.Environment) {
	return func(re *record.Environment) {
		if re.Name == "vm" {
			f(re)
		}
	}
}

// vmTrials changes the trials in vm alone.
func vmTrials(f func(*record.Trial)) func(*record.Trial) {
	return func(t *record.Trial) {
		if t.Target == "vm" {
			f(t)
		}
	}
}

// warns has every trial in vm carry a warning, as a workload attaches it.
func warns(code, text, remedy string) func(*record.Trial) {
	return vmTrials(func(t *record.Trial) { t.Warnings = []record.Warning{{Code: code, Text: text, Remedy: remedy}} })
}

func class(c string) func(*record.Environment) {
	return inVM(func(re *record.Environment) { re.Durability = &record.Durability{Class: c} })
}

// durable gives host a disk that is flushed, and vm a class.
func durable(c string) func(*record.Environment) {
	return func(re *record.Environment) {
		re.Durability = &record.Durability{Class: flushes}
		class(c)(re)
	}
}

// qemu makes vm what its name says: it has a clock of its own.
var qemu = inVM(func(re *record.Environment) { re.Spec = "qemu:debian" })

func udp(proto string) func(*record.Environment) {
	return inVM(func(re *record.Environment) {
		re.Mount = &record.Mount{Kind: "nfs", Type: "nfs", Options: "rw,vers=3,proto=" + proto}
	})
}

// spending gives each trial the energy of a unit of its work, in J; 0 is not known.
func spending(of func(*record.Trial) float64) func(*record.Trial) {
	return func(t *record.Trial) {
		if v := of(t); v > 0 {
			t.Metrics[record.Energy], t.State["energy"] = v, "rapl"
		} else {
			t.State["energy"] = record.NotMeasured + "no counters"
		}
	}
}

// unsteady has the null control and vm go up and down by a tenth and more.
func unsteady(t *record.Trial) {
	if (t.Target == "vm" || t.Slot == record.NullSlot) && t.Metrics != nil {
		t.Metrics["events_per_second"] *= 1 + 0.05*float64(t.Block*t.Block%7-2)
	}
}

// unjournaled has the host make files in an ext4 without a journal: each block takes so many per cent longer than the
// first.
func unjournaled(percent int64) func(*record.Trial) {
	return func(t *record.Trial) {
		if t.Target == "host" {
			t.State["journal"] = "none"
			t.ControllerNS = t.AgentNS * (100 + percent*int64(t.Block)) / 100
		}
	}
}

func refusedNFS(message string) func(*record.Environment) {
	return func(re *record.Environment) {
		re.Inside.Kernel = "6.1.0-41"
		if re.Name == "vm:nfs" {
			re.Error = &record.Failure{Kind: "open", Message: message}
		}
	}
}

// died has the trials in vm fail from a block on.
func died(kind string, from int) func(*record.Trial) {
	return vmTrials(func(t *record.Trial) {
		if t.Block >= from {
			t.Metrics, t.Error = nil, &record.Failure{Kind: kind, Message: "gone"}
		}
	})
}

// failed has the trials in vm fail in some blocks.
func failed(kind string, blocks ...int) func(*record.Trial) {
	return vmTrials(func(t *record.Trial) {
		if slices.Contains(blocks, t.Block) {
			t.Metrics, t.Error = nil, &record.Failure{Kind: kind, Message: "the trial had not ended after 2m0s"}
		}
	})
}
