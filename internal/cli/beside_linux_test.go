package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/bundle"
	"tare/internal/record"
)

// beside adds a neighbour to the lab's plan, which works in the environment other.
func (l *lab) beside(work string) {
	l.Helper()
	path := filepath.Join(l.dir, "plan.yaml")
	src, err := os.ReadFile(path)
	if err != nil {
		l.Fatal(err)
	}
	l.file("plan.yaml", fmt.Sprintf("%sbeside:\n  hog: {in: other, workload: %s}\n", src, work))
}

// trialsOf reads the trials of a target.
func (l *lab) trialsOf(name, target string) (all []record.Trial) {
	l.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, name, bundle.TrialsFile))
	if err != nil {
		l.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var t record.Trial
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			l.Fatal(err)
		}
		if t.Target == target {
			all = append(all, t)
		}
	}
	return all
}

// firstProcessor is the lowest processor that this process may use.
func firstProcessor(t testing.TB) int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for n := range 1024 {
		if set.IsSet(n) {
			return n
		}
	}
	t.Fatal("no processor")
	return 0
}

// waited is the share of a target's trials in which its thread was ready and waited for a processor, their median;
// below 0 where this kernel does not tell.
func (l *lab) waited(name, target string) float64 {
	l.Helper()
	shares := []float64{-1}
	for _, t := range l.trialsOf(name, target) {
		if t.Error != nil || t.Account == nil {
			continue
		}
		if ready, known := t.Account.Counts[record.ReadyNS]; known {
			shares = append(shares, float64(ready)/float64(t.AgentNS))
		}
	}
	slices.Sort(shares)
	return shares[len(shares)/2]
}

// A neighbour on the same processor makes its victim wait for it and slower, on this host and in a container, and the
// same work in the same blocks without it is what that is compared with. So many threads are seen beside whatever else
// the machine does: on a busy one the victim shares its processor with some eight others before, and the kernel may
// move those to other processors when the neighbour comes.
func TestNeighbourOnTheSameProcessor(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	need(t, "taskset")
	cpu := firstProcessor(t)
	l.file("plan.yaml", fmt.Sprintf(`seed: 7
trial: 80ms
blocks: 10
environments:
  host: local?cpus=%[1]d
  box: namespace?cpus=%[1]d
  other: namespace?cpus=%[1]d
beside:
  hog: {in: other, workload: {kind: cpu.prime, threads: 24}}
workloads: [cpu.prime]
`, cpu))
	o := l.do("run", "plan.yaml", "-o", "out")
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	d := l.read("out")
	if len(d.Neighbours) != 2 {
		t.Fatalf("the matrix has %d cells: %+v", len(d.Neighbours), d.Neighbours)
	}
	for i, victim := range []string{"host", "box"} {
		n := &d.Neighbours[i]
		if n.Victim != victim || n.Target != victim+"+hog" || n.In != "other" || n.Load != "cpu.prime threads=24" ||
			n.Unit != "event" || n.Blocks < 6 {
			t.Errorf("%+v", n)
		}
		alone, beside := l.waited("out", victim), l.waited("out", n.Target)
		if beside >= 0 && beside < 0.3 {
			t.Errorf("%s waited for the processor in %.2f of its time beside it, and in %.2f alone", victim, beside,
				alone)
		}
		// On a busy machine a victim that is alone waits as well, and one neighbour more is hardly seen: the kernel
		// gives each session the same share.
		if n.Ratio < 1.15 && alone < 0.3 || n.Alone <= 0 || n.Beside <= 0 || n.Covered < 0.5 || n.Covered > 1 {
			t.Errorf("%s is not slower beside it, waiting %.2f of its time alone: %+v", victim, alone, n)
		}
		trials := l.trialsOf("out", n.Target)
		for _, tr := range trials {
			if tr.Error == nil && (tr.Beside == nil || tr.Beside.First.Work < 1 || tr.Beside.During.Work < 1) {
				t.Errorf("a trial has %+v", tr.Beside)
			}
		}
	}
	if trials := l.trialsOf("out", "other"); len(trials) > 0 {
		t.Errorf("%d trials were measured where the neighbour is", len(trials))
	}
	for _, want := range []string{
		"host beside a neighbour, against itself alone: hog is cpu.prime threads=24 in other.",
		"What the neighbours themselves did, of what they do alone: hog "} {
		if !strings.Contains(unwrapped(o.out), want) {
			t.Errorf("the report does not say %q:\n%s", want, o.out)
		}
	}
	l.gone("out")
}

// A neighbour's agent is killed in the middle of a trial: that is said once, and costs what it disturbs and nothing
// else.
func TestNeighbourKilled(t *testing.T) {
	l := newLab(t)
	l.plan("other: local", slow)
	l.beside("cpu.prime")
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 10)
	p.find("other", aWorker) // it is at work
	l.kill(p.find("other", anAgent), syscall.SIGKILL)
	o := p.end()
	l.spared(o, "other", "the neighbour hog (cpu.prime in other) was not at work")
	if n := strings.Count(o.err, "was not at work"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, o.err)
	}
	d := l.read("out")
	l.undecided(d, "host+hog")
	l.undecided(d, "good+hog")
	l.evidence("out", "other", "killed")
}

// A neighbour's worker is killed: the trial does not count, and the next one does.
func TestNeighbourWorkerKilled(t *testing.T) {
	l := newLab(t)
	l.plan("other: local", slow)
	l.beside("cpu.prime")
	p := l.start("run", "plan.yaml", "-o", "out")
	p.until("a block", func() bool { // a warm-up that fails costs the cell
		a, _ := l.failures("out", "host+hog")
		b, _ := l.failures("out", "good+hog")
		return a > 1 && b > 1
	})
	failed := func() int {
		_, a := l.failures("out", "host+hog")
		_, b := l.failures("out", "good+hog")
		return a + b
	}
	for failed() == 0 {
		syscall.Kill(p.find("other", aWorker), syscall.SIGKILL)
		n := l.lines("out")
		p.until("the end of the trial", func() bool { return l.lines("out") > n+1 })
	}
	if o := p.end(); o.code != 0 {
		t.Errorf("exit code %d:\n%s", o.code, o.err)
	}
	for _, target := range []string{"host+hog", "good+hog"} {
		for _, tr := range l.trialsOf("out", target) {
			if tr.Error != nil && tr.Error.Kind != "neighbour-failed" {
				t.Errorf("%s: %+v", target, tr.Error)
			}
		}
	}
	for _, n := range l.read("out").Neighbours {
		if n.Blocks < 8 || n.Verdict == record.Failed {
			t.Errorf("%s did not go on: %+v", n.Target, n)
			for _, tr := range l.trialsOf("out", n.Target) {
				t.Logf("block %d: %+v %+v", tr.Block, tr.Beside, tr.Error)
			}
		}
	}
	l.gone("out")
}

// Ctrl-C and kill -9 while a neighbour works leave nothing behind.
func TestStoppedBesideNeighbour(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"Interrupted": syscall.SIGINT, "Killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			needRoot(t)
			l.plan("other: namespace", slow)
			l.beside("cpu.prime")
			p := l.start("run", "plan.yaml", "-o", "out")
			p.trials("out", 8)
			p.find("other", aWorker)
			if !l.stopped(p, sig) {
				return
			}
			d := l.read("out")
			if len(d.Neighbours) != 2 || !d.Run.Finished {
				t.Errorf("%+v", d.Neighbours)
			}
		})
	}
}
