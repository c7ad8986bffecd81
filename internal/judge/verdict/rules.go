package verdict

import (
	"cmp"
	"slices"
)

// Rule is one row of the table of findings: a code and the test behind it. Rules are data, so that the manual can list
// them and a test can ask each for a scene that shows it.
type Rule struct {
	Code string
	// Severity is what its findings have; a rule whose findings are not all equally grave sets the others itself.
	Severity string
	Doc      string // what it says, in one sentence
	Needs    string // what a bundle must hold for it to speak
	find     func(e *evaluation, r *Result) []Finding
}

// Gates reports whether the rule tells of cells without a verdict.
func (r Rule) Gates() bool { return r.Severity == Withhold }

// Rules lists every rule in the order in which a report shows the findings of one severity. The reasons why a verdict
// was withheld are rules, too: the gate puts the warning on the cell, the rule tells of it once for all workloads.
func Rules() []Rule {
	const withheldBy = "cells that the gate met"
	rules := []Rule{
		{Code: "target-failed", Severity: Attend, Doc: "an environment or a mount did not open", Needs: "environments", find: openFindings},
		{Code: "nfs-udp-unavailable", Severity: Attend, Doc: "NFS over UDP was asked for and the guest's kernel has none", Needs: "a failed mount", find: nfsRefusedFindings},
		{Code: "nfs-udp", Severity: Attend, Doc: "an NFS mount runs over UDP", Needs: "mount options read back from the kernel", find: nfsFindings},
		{Code: "boot-retried", Severity: Info, Doc: "an environment opened only after a failed attempt", Needs: "environments", find: retryFindings},
		{Code: "clock-wrong", Severity: Attend, Doc: "the clock of a target is off by more than 1 %", Needs: "both clocks of each trial", find: clockFindings},

		{Code: "unequal-work", Severity: Withhold, Doc: "the evidence of equal work differs", Needs: withheldBy},
		{Code: "unequal-access", Severity: Withhold, Doc: "direct I/O on one side and not on the other", Needs: withheldBy},
		{Code: "durability-differs", Severity: Withhold, Doc: "one side flushes to the disk and the other does not", Needs: withheldBy},
		{Code: "refused", Severity: Withhold, Doc: "an environment does not offer what the plan asks for, such as O_DIRECT", Needs: withheldBy},
		{Code: "direct-refused", Severity: Withhold, Doc: "O_DIRECT was asked for and not given", Needs: withheldBy},
		{Code: "direct-was-cached", Severity: Withhold, Doc: "direct I/O was accepted and served from memory", Needs: withheldBy},
		{Code: "direct-in-memory", Severity: Withhold, Doc: "direct I/O on a file system without a device, on one side only", Needs: withheldBy},
		{Code: "file-fits-cache", Severity: Withhold, Doc: "the plan says cold and the file fits a cache", Needs: withheldBy},
		{Code: "client-bound", Severity: Withhold, Doc: "the load generator was the limit", Needs: withheldBy},
		{Code: "short-trials", Severity: Withhold, Doc: "trials of different work came out at very different lengths", Needs: withheldBy},
		{Code: "target-lost", Severity: Withhold, Doc: "an environment was lost before a cell was decided", Needs: withheldBy},
		{Code: "too-many-failed", Severity: Withhold, Doc: "more than one trial in ten of one side gave no figure", Needs: withheldBy},
		{Code: "given-up", Severity: Withhold, Doc: "the trials of a cell came to fail one after the other", Needs: withheldBy},

		{Code: "emulated", Severity: Attend, Doc: "the CPU is emulated in software", Needs: "facts", find: emulatedFindings},
		{Code: "null-control-differs", Severity: Attend, Doc: "the host differs from itself by more than the margin", Needs: "the null control", find: biasedFindings},
		{Code: "noisy-host", Severity: Attend, Doc: "the null control spreads by more than half the margin", Needs: "the null control", find: noisyFindings},
		{Code: "host-steal", Severity: Attend, Doc: "a hypervisor below this host takes CPU time from it", Needs: "the gate's look before each trial", find: stealFindings},
		{Code: "host-throttled", Severity: Attend, Doc: "the host's processors were throttled because of heat or power", Needs: "the gate's look before each trial", find: throttleFindings},
		{Code: "host-busy", Severity: Info, Doc: "most trials began although the host was not quiet", Needs: "the gate's look before each trial", find: busyFindings},
		{Code: "faster-than-baseline", Severity: Attend, Doc: "a candidate writes or reads faster than the baseline itself", Needs: "a workload that writes or reads files", find: fasterFindings},
		{Code: "faster-than-device", Severity: Info, Doc: "a file figure is above what the device gives when caches are bypassed", Needs: "a workload with direct=yes in the baseline, and the same without", find: deviceFindings},
		{Code: "inodes-not-reused", Severity: Attend, Doc: "an ext4 without a journal made files ever more slowly, because it passes over those just deleted", Needs: "state journal=none, and work that makes files", find: journalFindings},
		{Code: "misaligned-image", Severity: Attend, Doc: "a guest's 4 KiB write touches more than one block of the host", Needs: "fact disk.guest_blocks_per_write", find: alignmentFindings},
		{Code: "server-bound", Severity: Info, Doc: "the server's CPU was the limit of a load test", Needs: "states client_cpu_share and server_cpu_share", find: serverFindings},
		{Code: "network-explains-web", Severity: Info, Doc: "what a web page costs is what the network costs: a round trip and the page's bytes, or a network workload by itself", Needs: "a network and a web workload, both decided; for http.fetch best net.rr and net.stream direction=down", find: networkFindings},
		{Code: "predicts-build", Severity: Info, Doc: "a file workload puts the targets in the order in which they build", Needs: "file workloads and a build in at least 5 targets", find: predictsFindings},
		{Code: "no-predictor-of-build", Severity: Info, Doc: "a file workload does not put the targets in the order in which they build", Needs: "file workloads and a build in at least 5 targets", find: failsToPredictFindings},
		{Code: "huge-pages-differ", Severity: Attend, Doc: "memory lies in pages of different sizes", Needs: "states of memory workloads", find: pagesFindings},
		{Code: "unequal-cpus", Severity: Info, Doc: "the two sides have different numbers of cores or threads", Needs: "facts and a workload that can use more than one thread", find: cpuFindings},
		{Code: "settings-differ", Severity: Info, Doc: "settings that differ and can explain a ratio that is DIFFERENT", Needs: "facts of both sides", find: settingFindings},
		{Code: "idle-cost", Severity: Info, Doc: "what an idle environment costs the host", Needs: "facts idle.cpu and idle.rss_bytes", find: idleFindings},
		{Code: "blocks-discarded", Severity: Info, Doc: "blocks are not used, by a rule that sees only the host", Needs: "trials", find: discardFindings},
		{Code: "trials-failed", Severity: Attend, Doc: "trials gave no figures", Needs: "trials", find: failedFindings},
	}
	for i := range rules {
		if rules[i].Gates() && rules[i].find == nil {
			code := rules[i].Code
			rules[i].find = func(_ *evaluation, r *Result) []Finding { return withheldFindings(r, code) }
		}
	}
	return rules
}

// findings tells what a reader must know of the whole run, what is only good to know last.
func (e *evaluation) findings(r *Result) []Finding {
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
