package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tare/internal/plan"
	"tare/internal/record"
)

var commitsFaster = map[string]float64{"dev.journal fsync=true vm": 0.5}

// ruleScenes has a run that shows each finding, words that its text must have, and a run that is as near as can be and
// does not show it.
var ruleScenes = map[string]struct {
	shows, hides scene
	words        []string
}{
	"spread-differs": {
		two(on("command")).trials(spreading(0.08)), two(on("command")).trials(spreading(0.02)),
		[]string{"vm varies ", "times as much as host from run to run in command", "cost the same in the middle"}},
	"tail-differs": {
		two(on("command")).trials(tailed(100, 0.1, 0.8)), two(on("command")).trials(tailed(100, 0.2, 0.2)),
		[]string{"the slow end of the runs in vm lies farther out than in host", "in command their 90th percentile is",
			"times their median", "cost the same in the middle"}},
	"damaged": {
		scene{targets: []string{"host", "vm"}, work: []plan.Workload{on("cpu.prime")},
			damage: []string{"read trials of lab: line 7: the chain digest is wrong"}},
		two(on("cpu.prime")), []string{"does not cover the whole bundle", "line 7"}},
	"target-failed": {
		two(on("cpu.prime")).envs(inVM(func(re *record.Environment) {
			re.Error = &record.Failure{Kind: "open",
				Message: "no kernel"}
		})),
		two(on("cpu.prime")), []string{"vm", "no kernel"}},
	"nfs-udp-unavailable": {
		scene{targets: []string{"host", "vm", "vm:nfs"},
			work: []plan.Workload{on("fs.seqread")}}.envs(refusedNFS("mount nfs: nfs-udp-unavailable: the guest's " +
			"kernel ...")),
		scene{targets: []string{"host", "vm", "vm:nfs"},
			work: []plan.Workload{on("fs.seqread")}}.envs(refusedNFS("mount nfs: connection refused")),
		[]string{"6.1.0-41", "UDP"}},
	"nfs-udp": {
		two(on("fs.seqread")).envs(udp("udp")).costs(map[string]float64{"fs.seqread vm": 1.6}),
		two(on("fs.seqread")).envs(udp("tcp")), []string{"UDP", "fs.seqread", "1.6"}},
	"boot-retried": {
		two(on("cpu.prime")).envs(inVM(func(re *record.Environment) {
			re.Retries = []record.Failure{{Message: "no handshake within 20 s"}}
		})),
		two(on("cpu.prime")), []string{"attempt 2", "20 s"}},
	"clock-wrong": {
		two(on("cpu.prime")).envs(qemu).trials(vmTrials(func(t *record.Trial) { t.AgentNS = t.AgentNS * 120 / 100 })),
		two(on("cpu.prime")).envs(qemu).trials(vmTrials(func(t *record.Trial) { t.AgentNS = t.AgentNS * 1001 / 1000 })),
		[]string{"vm", "20 %"}},
	"unequal-work": {
		two(on("cpu.prime")).trials(vmTrials(func(t *record.Trial) { t.Checks["n"] = "2" })), two(on("cpu.prime")),
		[]string{"n is 2 in vm"}},
	"unequal-access": {
		two(on("fs.seqread")).trials(func(t *record.Trial) { t.State["direct"] = fmt.Sprint(t.Target == "vm") }),
		two(on("fs.seqread")).trials(func(t *record.Trial) { t.State["direct"] = "true" }),
		[]string{"direct I/O differs"}},
	"durability-differs": {
		two(on("dev.journal", "fsync=true")).envs(durable("ignores-flushes")).costs(commitsFaster),
		two(on("dev.journal", "fsync=true")).envs(durable("unknown")).costs(commitsFaster),
		[]string{"vm ignores flushes", "vm is faster (200 against", "because it does not wait for the disk"}},
	"level-changed": {
		two(on("cpu.prime", "")).trials(vmTrials(func(t *record.Trial) {
			if t.Block > 4 {
				t.Metrics["events_per_second"] /= 10
			}
		})),
		two(on("cpu.prime", "")).trials(vmTrials(func(t *record.Trial) {
			if t.Block%2 == 0 {
				t.Metrics["events_per_second"] /= 10
			}
		})),
		[]string{"has no verdict", "the ratio changed during the run and stayed", "in blocks 1 to 4"}},
	"two-modes": {
		two(on("command", "command=x")).trials(vmTrials(func(t *record.Trial) {
			t.Samples = map[string][]float64{"seconds": {0.035, 0.14, 0.036, 0.139, 0.035, 0.141}}
		})),
		two(on("command", "command=x")).trials(vmTrials(func(t *record.Trial) {
			t.Samples = map[string][]float64{"seconds": {0.035, 0.036, 0.037, 0.0365, 0.0355}}
		})),
		[]string{"vm has two modes within its trials: 50 % of the samples are about 140 ms", "the others about 35"}},
	"flushes-differ": {
		two(on("command", "command=x")).trials(flushing(5200, 1)),
		two(on("command", "command=x")).trials(flushing(5200, 2000)),
		[]string{"5.2 flushes for each run in host, 0.001 in vm", "no advantage"}},
	"refused": {
		two(on("fs.seqread", "direct=true")).trials(vmTrials(func(t *record.Trial) {
			t.Metrics, t.Error = nil, &record.Failure{Kind: "refused", Message: "tmpfs refuses O_DIRECT"}
		})), two(on("fs.seqread", "direct=true")), []string{"O_DIRECT"}},
	"direct-refused": {two(on("fs.seqread")).trials(warns("direct-refused",
		"9p refused O_DIRECT with \"invalid argument\"",
		"set direct=false on both sides, or mount it with a cache mode that has direct I/O")), two(on("fs.seqread")),
		[]string{"vm"}},
	"direct-was-cached": {two(on("fs.seqread")).trials(warns("direct-was-cached",
		"direct I/O was accepted, yet 98 % of the file was found in the page cache",
		"choose a mount that passes O_DIRECT on (virtiofs: direct=on)")), two(on("fs.seqread")), []string{"vm"}},
	"direct-in-memory": {two(on("fs.seqread")).trials(warns("direct-in-memory",
		"direct I/O on tmpfs, which has no device", "put the work directory on a disk")),
		two(on("fs.seqread")).trials(func(t *record.Trial) {
			t.Warnings = []record.Warning{{Code: "direct-in-memory", Text: "direct I/O on tmpfs"}}
		}), []string{"vm"}},
	"file-fits-cache": {two(on("fs.seqread")).trials(warns("file-fits-cache",
		"the plan says cold, and the file of 64 MiB fits the cache of 512 MiB", "choose a size larger than the cache")),
		two(on("fs.seqread")), []string{"vm"}},
	"client-bound": {
		two(on("http.get")).trials(vmTrials(func(t *record.Trial) {
			t.State[clientShare], t.State[serverShare] = "0.99", "0.41"
		})),
		two(on("http.get")).trials(vmTrials(func(t *record.Trial) { t.State[clientShare] = "0.80" })),
		[]string{"load generator used 99 % of its CPU time", "the server 41 % of its own"}},
	"short-trials": {
		two(on("cpu.prime")).trials(vmTrials(func(t *record.Trial) {
			t.Work, t.AgentNS, t.ControllerNS = 10, 6e6,
				6e6
		})),
		two(on("cpu.prime")).trials(vmTrials(func(t *record.Trial) { t.Work = 900 })), []string{"6ms in vm"}},
	"target-lost": {
		two(on("cpu.prime")).trials(func(t *record.Trial) {
			unsteady(t)
			died("environment-died", 11)(t)
		}).costs(map[string]float64{"cpu.prime vm": 1.03}), two(on("cpu.prime")), []string{"lost after 10 blocks"}},
	"too-many-failed": {two(on("cpu.prime")).trials(failed("timeout", 3, 7)),
		two(on("cpu.prime")).trials(failed("timeout", 3)), []string{"2 of 12 trials in vm"}},
	"given-up": {two(on("cpu.prime")).trials(died("measure", 5)), two(on("cpu.prime")),
		[]string{"its trials in vm all failed"}},
	"emulated": {two(on("cpu.prime")).envs(inVM(func(re *record.Environment) { re.Inside.Emulated = true })),
		two(on("cpu.prime")), []string{"vm", "emulated", "cpu.prime"}},
	"null-control-differs": {
		two(on("cpu.prime")).trials(func(t *record.Trial) {
			if t.Slot == record.NullSlot {
				t.Metrics["events_per_second"] /= 1.2
			}
		}), two(on("cpu.prime")), []string{"against itself"}},
	"noisy-host": {
		two(on("cpu.prime")).trials(unsteady), two(on("cpu.prime")), []string{"cpu.prime", "%"}},
	"host-steal": {
		two(on("cpu.prime")).trials(func(t *record.Trial) { t.Host.Steal = 0.03 }),
		two(on("cpu.prime")).trials(func(t *record.Trial) { t.Host.Steal = -1 }), []string{"3 % stolen"}},
	"host-throttled": {
		two(on("cpu.prime")).trials(func(t *record.Trial) { t.Host.Throttle = int64(t.Block % 2) }),
		two(on("cpu.prime")).trials(func(t *record.Trial) { t.Host.Throttle = -1 }), []string{"of 36 trials"}},
	"host-busy": {
		two(on("cpu.prime")).trials(func(t *record.Trial) { t.Host.Quiet, t.Host.Reason = t.Block%3 == 0, "load" }),
		two(on("cpu.prime")).trials(func(t *record.Trial) { t.Host.Quiet = t.Block%3 != 0 }),
		[]string{"24 of 36", "load"}},
	"faster-than-baseline": {
		two(on("durability.fsync")).costs(map[string]float64{"durability.fsync vm": 0.6}).
			envs(inVM(func(re *record.Environment) { re.Outside.Settings["cache"] = "unsafe" })),
		two(on("durability.fsync")).costs(map[string]float64{"durability.fsync vm": 0.97}),
		[]string{"because it does not wait for the disk", "cache=unsafe", "0.60"}},
	"faster-than-device": {
		two(on("fs.randread", "bs=4KiB", "direct=true"),
			on("fs.randread", "bs=4KiB", "direct=false")).figures(throughput(40, 1200)),
		// larger requests: the device may do more, too
		two(on("fs.randread", "bs=4KiB", "direct=true"),
			on("fs.randread", "bs=1MiB", "direct=false")).figures(throughput(40, 1200)),
		[]string{"host fs.randread bs=4KiB direct=false moves 1", "gives 40", "cache"}},
	"inodes-not-reused": {
		two(on("fs.smallfiles")).trials(unjournaled(400)), two(on("fs.smallfiles")).trials(unjournaled(5)),
		[]string{"host has no journal", "300 µs to", "fs.smallfiles"}},
	"misaligned-image": {
		two(on("fs.randread")).envs(inVM(func(re *record.Environment) {
			re.Outside.Extra[alignedKey], re.Outside.Extra["disk.format"] = "2", "vdi"
		})),
		two(on("fs.randread")).envs(inVM(func(re *record.Environment) { re.Outside.Extra[alignedKey] = "1" })),
		[]string{"touches 2 blocks", "vdi"}},
	"load-offered": {
		two(on("http.get")).trials(vmTrials(func(t *record.Trial) { t.Load = offered(0.41, 0.3) })),
		two(on("http.get")).trials(vmTrials(func(t *record.Trial) { t.Load = offered(0.41, 0.97) })),
		[]string{"by 2 hosts (c1, c2), none of them bound", "c1, used 41 %"}},
	"server-bound": {
		two(on("http.get")).trials(vmTrials(func(t *record.Trial) {
			t.State[clientShare], t.State[serverShare] = "0.4",
				"0.99"
		})),
		two(on("http.get")).trials(vmTrials(func(t *record.Trial) {
			t.State[clientShare], t.State[serverShare] = "0.4",
				"0.5"
		})), []string{"server's CPU", "99 %"}},
	"network-explains-web": {
		two(on("net.stream"), on("http.fetch")).costs(map[string]float64{"net.stream vm": 1.40, "http.fetch vm": 1.43}),
		two(on("net.stream"), on("http.fetch")).costs(map[string]float64{"net.stream vm": 1.40, "http.fetch vm": 1.10}),
		[]string{"1.4", "1.43", "the rest is 1.0"}},
	"predicts-build": {folders(false), folders(true),
		[]string{"fs.smallfiles", "dev.compile", "1.00", "over 6 targets in vm"}},
	"no-predictor-of-build": {folders(true), folders(false), []string{"fs.smallfiles does not rank", "p "}},
	"huge-pages-differ": {
		two(on("memory.latency")).trials(func(t *record.Trial) {
			t.State["huge_pages"] = map[bool]string{true: "0%", false: "100%"}[t.Target == "vm"]
		}),
		two(on("memory.latency")).trials(func(t *record.Trial) { t.State["huge_pages"] = "100%" }),
		[]string{"huge pages", "0%"}},
	"unequal-cpus": {
		two(on("command",
			"command=make -j8")).envs(inVM(func(re *record.Environment) { re.Inside.Cores, re.Inside.Threads = 4, 4 })),
		two(on("cpu.prime",
			"threads=1")).envs(inVM(func(re *record.Environment) { re.Inside.Cores, re.Inside.Threads = 4, 4 })),
		[]string{"4 cores with 4 threads", "4 cores with 8 threads"}},
	"settings-differ": {
		two(on("net.stream")).envs(nics).costs(map[string]float64{"net.stream vm": 3}),
		two(on("net.stream")).envs(nics), []string{"network card e1000 instead of virtio", "net.stream"}},
	"idle-cost": {
		two(on("cpu.prime")).envs(inVM(func(re *record.Environment) {
			re.Outside.Extra[idleCPU], re.Outside.Extra[idleRSS] = "0.031", "432013312"
			re.Outside.Extra[idleProcesses] = "3"
		})),
		two(on("cpu.prime")).envs(inVM(func(re *record.Environment) { re.Outside.Extra[idleCPU] = "unknown" })),
		[]string{"3.1 % of one CPU", "412 MiB of memory in 3 processes"}},
	"energy-for-work": {
		two(on("cpu.prime")).trials(spending(func(t *record.Trial) float64 {
			return map[string]float64{"host": 0.01, "vm": 0.0131}[t.Target] * (1 + 0.01*float64(t.Block%3))
		})),
		two(on("cpu.prime")), []string{"in vm: cpu.prime 1.31x [1.", "13.2 mJ", "instead of 10.1 mJ in host"}},
	"energy-unmeasurable": {
		two(on("cpu.prime")).trials(spending(func(*record.Trial) float64 { return 0 })),
		two(on("cpu.prime")).trials(spending(func(*record.Trial) float64 { return 0.01 })),
		[]string{"energy is unmeasurable here: no counters"}},
	"blocks-discarded": {
		two(on("cpu.prime")).trials(func(t *record.Trial) {
			if t.Block == 3 {
				t.Discarded = "host steal above 10 %"
			}
		}), two(on("cpu.prime")), []string{"1 block", "steal"}},
	"trials-failed": {
		two(on("cpu.prime")).trials(vmTrials(func(t *record.Trial) {
			if t.Block == 3 {
				t.Metrics, t.Error = nil, &record.Failure{Kind: "measure", Message: "x"}
			}
		})), two(on("cpu.prime")), []string{"1 trial"}},
}

// throughput gives workloads with direct I/O one figure and those without another, in MiB/s.
func throughput(direct, buffered float64) func(workload, metric string) float64 {
	return func(workload, _ string) float64 {
		if strings.Contains(workload, "direct=true") {
			return direct
		}
		return buffered
	}
}

// folders is a virtual machine with five folders, in which small files and the build agree about the order or do not.
func folders(disagree bool) scene {
	s := scene{targets: []string{"vm", "vm:a", "vm:b", "vm:c", "vm:d", "vm:e"},
		work: []plan.Workload{on("fs.smallfiles"), on("dev.compile")}, cost: map[string]float64{}}
	other := []float64{1, 3, 1.4, 6, 1.2, 2} // neither rising nor falling
	for i, t := range s.targets {
		s.cost["dev.compile "+t] = float64(1 + i)
		s.cost["fs.smallfiles "+t] = float64(1 + i*i)
		if disagree {
			s.cost["fs.smallfiles "+t] = other[i]
		}
	}
	return s
}

func TestEveryRuleHasAScene(t *testing.T) {
	for _, rule := range Rules() {
		s, ok := ruleScenes[rule.Code]
		if !ok {
			t.Errorf("no scene shows %s", rule.Code)
			continue
		}
		f := finding(s.shows.evaluate(), rule.Code)
		if f == nil {
			t.Errorf("%s: the scene made for it does not show it: %+v", rule.Code, s.shows.evaluate().Findings)
			continue
		}
		for _, w := range s.words {
			if !strings.Contains(f.Text, w) {
				t.Errorf("%s: %q is not in: %s", rule.Code, w, f.Text)
			}
		}
		if f.Severity == "" || f.Remedy == "" || rule.Doc == "" || rule.Needs == "" || strings.HasSuffix(f.Text, ".") {
			t.Errorf("%s: %+v", rule.Code, f)
		}
		if g := finding(s.hides.evaluate(), rule.Code); g != nil {
			t.Errorf("%s is said where it is not so: %s", rule.Code, g.Text)
		}
	}
	for code := range ruleScenes {
		if !slices.ContainsFunc(Rules(), func(r Rule) bool { return r.Code == code }) {
			t.Errorf("a scene for %s, which is no rule", code)
		}
	}
}

// TestACalmRunHasNoFindings holds that no rule speaks for the sake of speaking.
func TestACalmRunHasNoFindings(t *testing.T) {
	s := scene{targets: []string{"host", "vm", "vm:9p"}}
	for _, k := range []string{"cpu.prime", "memory.latency", "fs.seqread", "fs.seqwrite", "fs.smallfiles",
		"dev.compile", "net.stream", "http.get", "command"} {
		s.work = append(s.work, on(k))
	}
	if f := s.evaluate().Findings; len(f) != 0 {
		t.Errorf("%+v", f)
	}
}

// TestGravestFirst holds the order that reports rely on.
func TestGravestFirst(t *testing.T) {
	s := two(on("cpu.prime")).envs(inVM(func(re *record.Environment) {
		re.Retries = []record.Failure{{Message: "x"}}
		re.Inside.Emulated = true
	}))
	f := s.evaluate().Findings
	if len(f) != 2 || f[0].Code != "emulated" || f[1].Code != "boot-retried" {
		t.Errorf("%+v", f)
	}
}

// TestMountsDoNotRepeatTheirEnvironment holds that ten folders of one machine do not say ten times what the machine
// has.
func TestMountsDoNotRepeatTheirEnvironment(t *testing.T) {
	s := scene{targets: []string{"host", "vm", "vm:a", "vm:b"},
		work: []plan.Workload{on("fs.seqread"), on("command", "command=make")}, cost: map[string]float64{}}
	for _, target := range s.targets[1:] {
		s.cost["fs.seqread "+target], s.cost["command command=make "+target] = 2, 2
	}
	r := s.envs(func(re *record.Environment) {
		re.Inside.Extra["cpu.governor"] = "performance"
		if re.Name != "host" {
			re.Inside.Extra["cpu.governor"] = "powersave"
			re.Inside.Cores, re.Inside.Threads = 2, 2
		}
		if re.Name == "vm:b" {
			re.Inside.Extra["work.disk.read_ahead_kb"] = "4096"
		} else {
			re.Inside.Extra["work.disk.read_ahead_kb"] = "128"
		}
	}).evaluate()
	var cpus, settings []Finding
	for _, f := range r.Findings {
		switch f.Code {
		case "unequal-cpus":
			cpus = append(cpus, f)
		case "settings-differ":
			settings = append(settings, f)
		}
	}
	if len(cpus) != 1 || len(cpus[0].Targets) != 3 || !strings.HasPrefix(cpus[0].Text, "vm has 2 cores") ||
		cpus[0].Severity != Attend {
		t.Errorf("%+v", cpus)
	}
	if len(settings) != 2 || !strings.Contains(settings[0].Text, "governor powersave instead of") ||
		strings.Contains(settings[1].Text, "governor") || !strings.Contains(settings[1].Text,
		"read-ahead 4096 instead of") {
		t.Errorf("%+v", settings)
	}
}

// TestMountsOfWhatDidNotOpen holds that one failure is told once, for the environment and all mounts in it.
func TestMountsOfWhatDidNotOpen(t *testing.T) {
	r := scene{targets: []string{"host", "vm", "vm:a", "vm:b"},
		work: []plan.Workload{on("fs.seqread")}}.envs(func(re *record.Environment) {
		if re.Name != "host" {
			re.Error = &record.Failure{Kind: "open", Message: "no kernel"}
		}
	}).evaluate()
	f := finding(r, "target-failed")
	if f == nil || len(r.Findings) != 1 || !slices.Equal(f.Targets, []string{"vm", "vm:a", "vm:b"}) {
		t.Errorf("%+v", r.Findings)
	}
}

// What an environment costs while it does nothing is said as far as it is known, and once for all of which nothing is.
func TestIdleCostThatIsNotKnown(t *testing.T) {
	target := func(name string, facts ...string) Target {
		extra := map[string]string{}
		for i := 0; i < len(facts); i += 2 {
			extra[facts[i]] = facts[i+1]
		}
		return Target{Target: record.Target{Name: name, Outside: record.Facts{Extra: extra}}}
	}
	no := record.NotMeasured + "nobody knows"
	found := idleFindings(nil, &Result{Targets: []Target{target("host"), target("a", idleCPU, no),
		target("b", idleCPU, no, idleRSS, "2097152", idleProcesses, "1"), target("c", idleCPU, no),
		target("d", idleCPU, record.NotMeasured+"other")}})
	var got []string
	for _, f := range found {
		got = append(got, f.Text)
	}
	want := []string{"what a, c costs the host while it is idle is not known: nobody knows",
		"b costs the host 2 MiB of memory in 1 process; what it takes of the processors is not known: nobody knows",
		"what d costs the host while it is idle is not known: other"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestMisalignedMount: a mounted disk speaks for itself, and a share's files are on no disk of the machine.
func TestMisalignedMount(t *testing.T) {
	image := func(blocks, format string) map[string]string {
		return map[string]string{alignedKey: blocks, "disk.format": format}
	}
	outside := record.Facts{Extra: image("2", "vdi")}
	r := &Result{Targets: []Target{
		{Target: record.Target{Name: "vm", Outside: outside}},
		{Target: record.Target{Name: "vm:9p", Outside: outside, Files: record.Files{Mount: &record.Mount{Kind: "9p"}}}},
		{Target: record.Target{Name: "vm:even", Outside: outside, Files: record.Files{Mount: &record.Mount{Kind: "disk",
			Facts: image("1", "qcow2")}}}},
		{Target: record.Target{Name: "vm:odd", Outside: outside, Files: record.Files{Mount: &record.Mount{Kind: "disk",
			Facts: image("1.9", "vhd")}}}},
	}}
	found := alignmentFindings(nil, r)
	if len(found) != 2 || found[0].Targets[0] != "vm" || found[1].Targets[0] != "vm:odd" ||
		!strings.Contains(found[1].Text, "vhd") {
		t.Errorf("%+v", found)
	}
}

// TestManyMounts holds that an environment stands for its mounts where they are many, and only then.
func TestManyMounts(t *testing.T) {
	r := &Result{Targets: []Target{{Target: record.Target{Name: "host"}}, {Target: record.Target{Name: "vm"}},
		{Target: record.Target{Name: "lab"}}, {Target: record.Target{Name: "lab:a", Of: "lab"}}}}
	names := []string{"vm", "lab", "lab:a"}
	for _, m := range []string{"vm:a", "vm:b", "vm:c"} {
		r.Targets = append(r.Targets, Target{Target: record.Target{Name: m, Of: "vm"}})
		names = append(names, m)
	}
	if got := strings.Join(withMounts(r, names), ", "); got != "vm, lab, lab:a, vm:a, vm:b, vm:c" {
		t.Error(got)
	}
	r.Targets = append(r.Targets, Target{Target: record.Target{Name: "vm:d", Of: "vm"}})
	if got := strings.Join(withMounts(r, append(names, "vm:d")), ", "); got != "vm and its 4 mounts, lab, lab:a" {
		t.Error(got)
	}
	if got := strings.Join(withMounts(r, []string{"vm:a", "vm:b", "vm:c", "vm:d"}),
		", "); got != "vm:a, vm:b, vm:c, vm:d" {
		t.Error(got)
	}
}

// Whatever touches a medium and is far below the host's own cost is asked about, by what it does there, once for all
// workloads of a target.
func TestFasterThanTheHostItself(t *testing.T) {
	for kind, verbs := range map[string]string{
		"fs.seqwrite": "writes", "fs.mixed": "writes", "durability.fsync": "writes", "restore": "writes",
		"dev.journal": "writes", "fs.smallfiles": "writes",
		"fs.seqread": "reads", "fs.randread": "reads", "fs.matrix": "writes reads", "cpu.prime": "", "net.stream": "",
		"command": "",
	} {
		var said []string
		for _, f := range two(on(kind)).costs(map[string]float64{kind + " vm": 0.1}).evaluate().Findings {
			if f.Code == "faster-than-baseline" {
				said = append(said, strings.Fields(f.Text)[1])
				if !strings.HasPrefix(f.Text, "vm ") || !strings.Contains(f.Text, "cache") || f.Remedy == "" ||
					len(f.Workloads) != 1 {
					t.Errorf("%s: %+v", kind, f)
				}
			}
		}
		if got := strings.Join(said, " "); got != verbs {
			t.Errorf("%s at a tenth of the cost: findings say %q, want %q", kind, got, verbs)
		}
	}
	// One finding for many workloads, and none for a column that is not certain.
	s := two(on("fs.matrix", "bs=4KiB"), on("fs.matrix", "bs=64KiB"), on("fs.matrix", "bs=1MiB"))
	s.cost = map[string]float64{"fs.matrix bs=4KiB vm": 0.5, "fs.matrix bs=64KiB vm": 0.2, "fs.matrix bs=1MiB vm": 0.97}
	for _, f := range s.evaluate().Findings {
		if f.Code == "faster-than-baseline" && (len(f.Workloads) != 2 || !strings.Contains(f.Text,
			"2 workloads (most in fs.matrix bs=64KiB") || !strings.Contains(f.Text, "0.20")) {
			t.Errorf("%+v", f)
		}
	}
}

// offered is the record of a load that two hosts offered, with the shares of their CPU time.
func offered(first, second float64) *record.Load {
	return &record.Load{Covered: 1, Hosts: []record.LoadHost{{Name: "c1", CPUShare: first},
		{Name: "c2", CPUShare: second, Bound: second >= bound}}}
}
