package verdict

import (
	"cmp"
	"slices"
)

// Rule is one row of the table of findings: a code and the test behind it. Rules are data, so that the manual can list
// them and a test can ask each for a scene that shows it.
type Rule struct {
	Code string
	// Severity is that of its findings; a rule whose findings are not all equally grave sets the others itself.
	Severity string
	Doc      string // what it says, in one sentence
	Needs    string // the evidence it rests on: the records without which the rule finds nothing
	find     func(e *finder, r *Result) []Finding
}

// Withholds reports whether the rule tells of cells without a verdict.
func (r Rule) Withholds() bool { return r.Severity == Withhold }

// Rules lists every rule in the order in which a report shows the findings of one severity. The reasons why a verdict
// was withheld are rules, too: the warning is on the cell, and the rule tells of it once for all workloads.
func Rules() []Rule {

	rules := []Rule{
		{Code: "damaged", Severity: Attend,
			Doc:   "the bundle was cut short, was edited, or is larger than a report can be",
			Needs: "what was wrong when the bundle was read", find: damageFindings},
		{Code: "target-failed", Severity: Attend, Doc: "an environment or a mount did not open",
			Needs: "how each environment and mount opened", find: openFindings},
		{Code: "nfs-udp-unavailable", Severity: Attend,
			Doc: "NFS over UDP was asked for and the guest's kernel has none", Needs: "an NFS mount that did not open",
			find: nfsRefusedFindings},
		{Code: "nfs-udp", Severity: Attend, Doc: "an NFS mount runs over UDP",
			Needs: "mount options read back from the kernel", find: nfsFindings},
		{Code: "boot-retried", Severity: Info, Doc: "an environment opened only after a failed attempt",
			Needs: "the record of each attempt", find: retryFindings},
		{Code: "clock-wrong", Severity: Attend, Doc: "the clock of a target is off by more than 1 %",
			Needs: "each trial's length by both clocks", find: clockFindings},

		{Code: "unequal-work", Severity: Withhold, Doc: "the two sides did not do the same work",
			Needs: "the checks of each trial, and of each group in it: counts, sums, bytes"},
		{Code: "unequal-access", Severity: Withhold, Doc: "direct I/O on one side and not on the other",
			Needs: "the state direct of each trial"},
		{Code: "durability-differs", Severity: Withhold,
			Doc:   "one side flushes to the disk and the other does not, or its server promises less",
			Needs: "a metric of writing, and of both sides a known durability class or the state server_promises"},
		{Code: "flushes-differ", Severity: Attend,
			Doc: "one side flushed to its disk and the other did not, or not a third as often",
			Needs: "of both sides the flushes that the disks or the servers counted in the trials, or a known " +
				"durability class",
			find: flushesFindings},
		{Code: "refused", Severity: Withhold,
			Doc:   "an environment does not offer what the plan asks for, such as O_DIRECT",
			Needs: "trials that were refused before they began"},
		{Code: "direct-refused", Severity: Withhold, Doc: "O_DIRECT was requested and refused",
			Needs: "the warning direct-refused of a trial"},
		{Code: "direct-was-cached", Severity: Withhold, Doc: "direct I/O was accepted, but the page cache served it",
			Needs: "the warning direct-was-cached of a trial"},
		{Code: "direct-in-memory", Severity: Withhold,
			Doc:   "direct I/O on a file system without a device, on one side only",
			Needs: "the warning direct-in-memory of trials on one side only"},
		{Code: "file-fits-cache", Severity: Withhold, Doc: "the plan asks for cold reads, but the file fits in a cache",
			Needs: "the warning file-fits-cache of a trial"},
		{Code: "client-bound", Severity: Withhold, Doc: "the load generator was the limit",
			Needs: "the state client_cpu_share of trials"},
		{Code: "short-trials", Severity: Withhold,
			Doc:   "trials with different amounts of work took very different times",
			Needs: "the length and the amount of work of each trial"},
		{Code: "target-lost", Severity: Withhold, Doc: "an environment was lost before a cell was decided",
			Needs: "the failures of trials"},
		{Code: "too-many-failed", Severity: Withhold, Doc: "more than one trial in ten of one side gave no figure",
			Needs: "the failures of trials"},
		{Code: "given-up", Severity: Withhold, Doc: "the last trials of a cell all failed",
			Needs: "the failures of trials"},

		{Code: "emulated", Severity: Attend, Doc: "the CPU is emulated in software",
			Needs: "the fact that tells how the CPU runs", find: emulatedFindings},
		{Code: "null-control-differs", Severity: Attend,
			Doc: "the host, measured against itself, differs by more than the margin", Needs: "the null control",
			find: biasedFindings},
		{Code: "noisy-host", Severity: Attend, Doc: "the null control spreads by more than half the margin",
			Needs: "the null control", find: noisyFindings},
		{Code: "level-changed", Severity: Withhold,
			Doc: "a ratio changed during the run and stayed where it was then: one of all blocks would be of " +
				"neither level",
			Needs: "at least 3 blocks, and a quarter of them, before and after, in one session", find: levelFindings},
		{Code: "two-modes", Severity: Attend,
			Doc:   "a side's times fall into two groups, between which its figure lies",
			Needs: "at least 10 blocks, or 10 samples within the trials", find: modesFindings},
		{Code: "spread-differs", Severity: Info, Doc: "a candidate varies more, or less, than what it is compared with",
			Needs: "at least 8 samples in each trial, or at least 8 blocks", find: spreadFindings},
		{Code: "tail-differs", Severity: Info,
			Doc:   "the slow end of a candidate's times lies farther out, or less far, than its baseline's",
			Needs: "at least 50 samples or timed operations in each trial; 500 for the 99th percentile",
			find:  tailFindings},
		{Code: "host-steal", Severity: Attend, Doc: "a hypervisor below this host takes CPU time from it",
			Needs: "the state of the host before each trial", find: stealFindings},
		{Code: "host-throttled", Severity: Attend, Doc: "the host's processors were throttled because of heat or power",
			Needs: "the state of the host before each trial", find: throttleFindings},
		{Code: "host-busy", Severity: Info, Doc: "most trials began while the host was busy",
			Needs: "the state of the host before each trial", find: busyFindings},
		{Code: "faster-than-baseline", Severity: Attend,
			Doc:   "a candidate writes or reads faster than the baseline itself",
			Needs: "a workload that writes or reads files", find: fasterFindings},
		{Code: "faster-than-device", Severity: Info,
			Doc:   "a workload on files is faster than the device without caches",
			Needs: "a workload with direct=yes in the baseline, and the same workload without it",
			find:  deviceFindings},
		{Code: "inodes-not-reused", Severity: Attend,
			Doc: "an ext4 without a journal created files ever more slowly, because it skips inodes that were just " +
				"deleted", Needs: "the state journal=none, and a workload that creates files", find: journalFindings},
		{Code: "misaligned-image", Severity: Attend,
			Doc:   "a guest's 4 KiB write touches more than one block of the host",
			Needs: "the fact disk.guest_blocks_per_write", find: alignmentFindings},
		{Code: "server-bound", Severity: Info, Doc: "the server's CPU was the limit of a load test",
			Needs: "the states client_cpu_share and server_cpu_share", find: serverFindings},
		{Code: "load-offered", Severity: Info,
			Doc:   "several hosts offered a load together, and none of them was the limit",
			Needs: "trials with the record of what each host did", find: offeredFindings},
		{Code: "network-explains-web", Severity: Info,
			Doc: "the cost of a web page is the cost of the network it comes over: of a round trip and the page's " +
				"bytes, or of a network workload, for the part of the page's time that this is in the baseline",
			Needs: "a network workload and a web workload with the same other end, both decided: http.fetch with " +
				"net.rr and net.stream direction=down, a page loaded from elsewhere with both from the same place " +
				"(from=), or a page and an iperf3 of another machine",
			find: networkFindings},
		{Code: "predicts-build", Severity: Info,
			Doc:   "a file workload ranks the targets in the same order as a build does",
			Needs: "file workloads and a build in at least 5 targets", find: predictsFindings},
		{Code: "no-predictor-of-build", Severity: Info,
			Doc:   "a file workload does not rank the targets in the same order as a build does",
			Needs: "file workloads and a build in at least 5 targets", find: failsToPredictFindings},
		{Code: "huge-pages-differ", Severity: Attend, Doc: "the two sides use memory pages of different sizes",
			Needs: "the state huge pages of memory workloads", find: pagesFindings},
		{Code: "unequal-cpus", Severity: Info, Doc: "the two sides have different numbers of cores or threads",
			Needs: "the processors of both sides, and a workload that can use more than one thread", find: cpuFindings},
		{Code: "settings-differ", Severity: Info, Doc: "settings that differ and may explain a ratio that is DIFFERENT",
			Needs: "the facts of both sides", find: settingFindings},
		{Code: "idle-cost", Severity: Info, Doc: "what an idle environment costs the host",
			Needs: "the facts idle.cpu, idle.rss_bytes and so on, which --idle-cost measures", find: idleFindings},
		{Code: "energy-for-work", Severity: Info, Doc: "what a unit of work costs in energy",
			Needs: "the metric energy_per_unit, which --energy measures", find: energyFindings},
		{Code: "energy-unmeasurable", Severity: Info, Doc: "energy was asked for and is not known",
			Needs: "the state energy of trials, which says why", find: noEnergyFindings},
		{Code: "blocks-discarded", Severity: Info, Doc: "blocks were discarded by a rule that sees only the host",
			Needs: "discarded blocks", find: discardFindings},
		{Code: "trials-failed", Severity: Attend, Doc: "trials gave no figures", Needs: "trials that failed",
			find: failedFindings},
	}
	for i := range rules {
		if rules[i].Withholds() && rules[i].find == nil {
			code := rules[i].Code
			rules[i].find = func(_ *finder, r *Result) []Finding { return withheldFindings(r, code) }
		}
	}
	return rules
}

// finder finds what a reader must know of the whole run.
type finder struct {
	Input
	index *index
	cells []*cellBuilder
}

// findings returns the findings of all rules about the run, those for information last.
func (e *finder) findings(r *Result) []Finding {
	var out []Finding
	for _, rule := range Rules() {
		for _, f := range rule.find(e, r) {
			f.Code = rule.Code
			if f.Severity == "" {
				f.Severity = rule.Severity
			}
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(order(a.Severity), order(b.Severity)) })
	return out
}

// order puts what is only good to know behind what must be read.
func order(severity string) int {
	if severity == Info {
		return 1
	}
	return 0
}
