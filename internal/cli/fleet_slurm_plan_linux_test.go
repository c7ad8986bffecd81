package cli_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestFleetOnSlurmByPlan has the plan say how the jobs are asked for, and a flag that counts more. One of the jobs is
// cancelled by hand while it waits for its machine: its host is missing, it is not asked for again, and the others
// count.
func TestFleetOnSlurmByPlan(t *testing.T) {
	l := newLab(t)
	s := l.slurm(slurmOptions{})
	l.file("plan.yaml", fleetPlan(12)+`budget: 20m
slurm:
  partition: main
  constraint: here
  time: 90m
  memory: 100MiB
  sbatch:
    - --comment='of the plan'
`)
	args := []string{"fleet", "run", "plan.yaml", "--on", "slurm", "-o", "nodes", "--hosts", "n[1-3]", "--by", "name",
		"--every", "200ms", "--sbatch", "--time=17"}
	p := l.start(args...)
	// The parts share a machine: while one works, the others say that they wait for it.
	working, waiting := "", ""
	p.until("a part that works and another that waits", func() bool {
		working, waiting = "", ""
		for _, k := range []string{"1", "2", "3"} {
			switch n := l.lines("nodes/run/part-" + k); {
			case n >= 4:
				working = k
			case n == 0:
				waiting = k
			}
		}
		return working != "" && waiting != "" &&
			strings.Contains(p.err.String(), ": another part of a fleet works on this machine")
	})
	jobs := map[string]string{} // by part
	for line := range strings.Lines(s.say("squeue", "--noheader", "--states=all", "--format=%j|%A|%P|%f|%l|%m|%k")) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 3)
		if len(f) != 3 {
			t.Fatalf("squeue says %q", line)
		}
		k := f[0][strings.LastIndexByte(f[0], '-')+1:]
		if jobs[k] = f[1]; f[2] != "main|here|17:00|100M|of the plan" {
			t.Errorf("part %s was asked for with %s", k, f[2])
		}
	}
	if len(jobs) != 3 {
		t.Fatalf("there are jobs %v", jobs)
	}
	s.say("scancel", jobs[waiting])
	o := p.end()
	said := strings.Join(strings.Fields(o.err), " ")
	if o.code != 0 || strings.Count(said, fmt.Sprintf("failed n%s, job %s: its job was cancelled", waiting,
		jobs[waiting])) != 1 {
		t.Errorf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	for _, want := range []string{"counted: 2 of 3 hosts", "missing: n" + waiting, "Not in it: 1 missing"} {
		if !strings.Contains(strings.Join(strings.Fields(o.out), " "), want) {
			t.Errorf("no %q in:\n%s", want, o.out)
		}
	}
	if again := strings.Fields(s.say("squeue", "--noheader", "--states=all", "--format=%A")); len(again) != 3 {
		t.Errorf("jobs were asked for again: %v", again)
	}
	// What Slurm refuses is in its own words, and the host is named.
	o = l.do("fleet", "run", "plan.yaml", "--on", "slurm", "-o", "other", "--hosts", "n1", "--every", "100ms",
		"--sbatch", "--partition=nosuch")
	if o.code != 1 || !strings.Contains(o.err, "invalid partition") && !strings.Contains(o.err, "Invalid partition") ||
		!strings.Contains(o.err, "nothing was measured") {
		t.Errorf("a partition that is not there: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
}
