package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare/internal/judge/verdict"
)

// Copies of a container on one processor share it, and each of four cannot do what one does alone. How much that is
// depends on what else runs there.
func TestDensityOnOneProcessor(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	o := l.do("density", "-e", fmt.Sprintf("box=namespace?cpus=%d", firstProcessor(t)), "-w", "cpu.prime:trial=40ms",
		"--max", "4", "--floor", "0.02", "--blocks", "10", "--seed", "7", "-o", "out")
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	d := l.read("out")
	if len(d.Density) != 1 || len(d.Density[0].Steps) != 3 {
		t.Fatalf("%+v", d.Density)
	}
	steps := d.Density[0].Steps
	for i := range steps {
		s := &steps[i]
		if s.Share <= 0 || s.Blocks < 6 || s.Covered < 0.5 || s.Covered > 1 || s.Throughput <= 0 {
			t.Errorf("%+v", s)
		}
		if s.Resident < 1<<20 || s.Proportional < 1<<16 || s.Proportional > s.Resident {
			t.Errorf("%d copies have %d and %d bytes each", s.Copies, s.Resident, s.Proportional)
		}
	}
	if steps[2].Share > 0.9 || steps[0].State != verdict.KeepsFloor {
		t.Errorf("%+v", steps)
	}
	for _, tr := range l.trialsOf("out", "box@4") {
		if tr.Error == nil && (tr.Copies == nil || len(tr.Copies.Each) != 4) {
			t.Errorf("a trial has %+v", tr.Copies)
		}
	}
	for _, want := range []string{"cpu.prime of box in several copies at once, against one alone. The floor is 2 % for",
		"copies  each does"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("the report does not say %q:\n%s", want, o.out)
		}
	}
	l.gone("out")
}

// Ctrl-C and kill -9 while copies work leave nothing behind.
func TestStoppedInCopies(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"Interrupted": syscall.SIGINT, "Killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			needRoot(t)
			l.plan("box: namespace", slow)
			path := filepath.Join(l.dir, "plan.yaml")
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			l.file("plan.yaml", string(src)+"copies: {steps: [3], floor: 10%, targets: [box]}\n")
			p := l.start("run", "plan.yaml", "-o", "out")
			p.trials("out", 10)
			p.find("box-copy3", aWorker)
			if !l.stopped(p, sig) {
				return
			}
			if d := l.read("out"); len(d.Density) != 1 || !d.Run.Finished || d.Density[0].Steps[1].Blocks < 8 {
				t.Errorf("%+v", d.Density)
			}
		})
	}
}

// Nothing is begun for what cannot be.
func TestDensityRefused(t *testing.T) {
	l := newLab(t)
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"-w", "cpu.prime"}, "name an environment (-e)"},
		{[]string{"-e", "host"}, "the work to do in copies of it (-w)"},
		{[]string{"-e", "host", "-w", "env.launch"}, "cannot be done in several copies at once: the controller does " +
			"it"},
		{[]string{"-e", "host", "-w", "cpu.prime", "--max", "1"}, "--max 1: expected the greatest number of copies, " +
			"from 2 to 256"},
		{[]string{"-e", "host", "-w", "cpu.prime", "--floor", "1.5"}, "expected a share above 0 and at most 1"},
		{[]string{"-e", "host", "-w", "cpu.prime", "--floor", "0"}, "expected a share above 0 and at most 1"},
		{[]string{"-e", "host", "-w", "cpu.prime", "--floor", "150%"}, "expected a share above 0 and at most 1"},
		{[]string{"-e", "host", "-w", "cpu.prime", "--floor", "half"}, `0.5 or 50%, found "half"`},
	} {
		if o := l.do(append([]string{"density"}, x.args...)...); o.code != 2 || !strings.Contains(o.err, x.want) {
			t.Errorf("%q: exit code %d: %s", x.args, o.code, o.err)
		}
	}
}
