package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFleetOnSlurmWithoutSharedFolder has nodes that do not see the fleet's folder run a plan: program and result go
// over Slurm. One job is requeued in mid-run and one reaches its time limit, while no controller watches; both go on
// where they were. Nothing stays on the nodes.
func TestFleetOnSlurmWithoutSharedFolder(t *testing.T) {
	l := newLab(t)
	hidden, there := l.folder("nodes"), l.folder("there")
	s := l.slurm(slurmOptions{hide: hidden})
	l.file("plan.yaml", fleetPlan(40)+"budget: 20m\n")
	l.file("job.sh", "#!/bin/sh\n#SBATCH --partition=main --comment='of the user'\n"+
		"#SBATCH --nodes=4  # has no effect\nsrun program\n")
	args := []string{"fleet", "run", "plan.yaml", "--on", "slurm", "-o", "nodes", "--hosts", "n[1-2]", "--by", "name",
		"--every", "200ms", "--local", there, "--sbatch", "@job.sh"}
	p := l.start(args...)
	// The parts share a machine, and tare lets one work at a time.
	begun := func() (part string) {
		found, _ := filepath.Glob(filepath.Join(there, ".tare-fleet-*", "part"))
		for _, f := range found {
			name, err := filepath.Rel(l.dir, f)
			if n := l.lines(name); err == nil && n >= 8 && n < 80 {
				part = name
			}
		}
		return part
	}
	p.until("the first trials of a part", func() bool { return begun() != "" })
	first := begun()
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	if o := p.end(); o.code != 1 {
		t.Fatalf("a controller that is stopped: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	jobs := map[string]string{} // by part
	for line := range strings.Lines(s.say("squeue", "--noheader", "--format=%A %j %l")) {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("squeue says %q", line)
		}
		jobs[f[1][strings.LastIndexByte(f[1], '-')+1:]] = f[0]
		// The plan's budget, a tenth of it and five minutes.
		if f[2] != "27:00" {
			t.Errorf("the time limit of %s is %s", f[1], f[2])
		}
	}
	number := part(first)
	other := map[string]string{"1": "2", "2": "1"}[number]
	if len(jobs) != 2 {
		t.Fatalf("there are jobs %v", jobs)
	}
	s.say("scontrol", "requeue", jobs[number])
	s.lab.await("the requeue", func() bool {
		return strings.Contains(s.say("squeue", "--noheader", "--jobs="+jobs[number], "--format=%T"), "PENDING")
	})
	s.say("scontrol", "update", "jobid="+jobs[number], "starttime=now+3")
	s.lab.await("the other part's trials", func() bool {
		found, _ := filepath.Glob(filepath.Join(there, ".tare-fleet-*-"+other, "part"))
		if len(found) == 0 {
			return false
		}
		name, err := filepath.Rel(l.dir, found[0])
		return err == nil && l.lines(name) >= 4
	})
	s.limit(jobs[other])
	o := l.do(args...)
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	if !strings.Contains(o.out, "counted: all 2 hosts") {
		t.Errorf("%s%s", o.err, o.out)
	}
	// A job sees within a second that its result was fetched.
	s.lab.await("the end of what is on the nodes", func() bool {
		left, err := os.ReadDir(there)
		return err == nil && len(left) == 0
	})
}

// limit has a job reach its time limit.
func (s *slurm) limit(job string) {
	s.lab.Helper()
	s.say("scontrol", "update", "jobid="+job, "endtime=now")
	s.lab.await("the end of the job's time", func() bool {
		return strings.Contains(s.say("squeue", "--noheader", "--states=all", "--jobs="+job, "--format=%T"), "TIMEOUT")
	})
}
