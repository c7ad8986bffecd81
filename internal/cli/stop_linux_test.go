package cli_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/bundle"
)

// Ctrl-C at every stage: the run ends soon, with what it has and the way to go on, and leaves nothing behind.
func TestInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		environments, workload string
		stage                  func(p *process)
	}{
		"Opening": {"slow: \"command?argv=sh -c 'exec sleep 3600'\"", `- "null"`, func(p *process) {
			p.until("opening", func() bool { return len(p.below("sleep 3600")) > 0 })
		}},
		"Calibration": {"box: local", `- "null": {hang: 1h}`, func(p *process) {
			p.until("worker", func() bool { return len(p.below(aWorker)) > 0 })
		}},
		"Trial": {"box: local", `- "null": {hang: 200ms}`, func(p *process) {
			p.trials("out", 5)
			p.until("worker", func() bool { return len(p.below(aWorker)) > 0 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.plan(c.environments, c.workload)
			p := l.start("run", "plan.yaml", "-o", "out")
			c.stage(p)
			before, began := l.lines("out"), time.Now()
			l.kill(p.cmd.Process.Pid, syscall.SIGINT)
			o := p.end()
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v to stop", took)
			}
			if o.code != 1 || !strings.Contains(o.err,
				"stopped before the end; continue with: tare run --resume out") ||
				!strings.Contains(o.err, "Ctrl-C again") {
				t.Errorf("exit code %d:\n%s", o.code, o.err)
			}
			if !strings.Contains(o.out, "This run has not ended") {
				t.Errorf("there is no report of what there is:\n%s", o.out)
			}
			if l.lines("out") < before {
				t.Error("trials were lost")
			}
			if d := l.read("out"); d.Run.Finished {
				t.Error("the report says that the run ended")
			}
			l.gone("out")
		})
	}
}

// The second Ctrl-C does not wait for anything. Processes end all the same; directories are for tare clean.
func TestInterruptedTwice(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	l.plan("box: namespace", slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 5)
	// A stopped agent cannot be closed in an orderly manner, so that there is time for the second signal.
	l.kill(p.find("good", anAgent), syscall.SIGSTOP)
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	p.until("first answer", func() bool { return strings.Contains(p.err.String(), "Ctrl-C again") })
	time.Sleep(time.Second) // two at once are one
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	if o := p.end(); o.code != 1 || !strings.Contains(o.err, "stopped at once") ||
		!strings.Contains(o.err, "tare clean") {
		t.Errorf("exit code %d:\n%s", o.code, o.err)
	}
	l.recovers("out")
}

// recovers holds what must be true after tare was killed, whenever that was: soon nothing of the run is alive or
// mounted, tare clean removes the rest, and the bundle, if it was begun, can be read, checked and gone on with.
func (l *lab) recovers(name string) {
	l.Helper()
	l.settled(filepath.Base(l.dir), false) // all of a run's command lines hold its TMPDIR
	if _, err := os.Stat(filepath.Join(l.dir, name, bundle.ManifestFile)); err != nil {
		l.do("clean")
		l.empty()
		return
	}
	l.settled(l.runID(name), false)
	before := l.lines(name)
	if o := l.do("report", name); o.code != 0 {
		l.Errorf("report: exit code %d %s", o.code, o.err)
	}
	if o := l.do("verify", name); o.code != 0 {
		l.Errorf("verify: exit code %d %s%s", o.code, o.out, o.err)
	}
	if o := l.do("clean"); o.code != 0 {
		l.Errorf("clean: exit code %d %s", o.code, o.err)
	}
	l.gone(name)
	l.empty()
	o := l.do("run", "--resume", name)
	if o.code != 0 || !strings.Contains(o.err, fmt.Sprintf("resuming after %d trials", before)) {
		l.Errorf("resume after %d trials: exit code %d:\n%s", before, o.code, o.err)
	}
	if d := l.read(name); !d.Run.Finished {
		l.Error("the resumed run is not finished")
	}
	l.gone(name)
	l.empty()
}

// empty holds that the lab's temporary directory is.
func (l *lab) empty() {
	l.Helper()
	if left, err := os.ReadDir(l.tmp); err != nil || len(left) > 0 {
		l.Errorf("left in TMPDIR: %v %v", left, err)
	}
}

// kill -9 at random moments of a run on this host and in a container.
func TestKilledAtAnyMoment(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	l.plan("box: namespace", "- \"null\"\n- fs.smallfiles: {files: 20}")
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for i := range 12 {
		name := fmt.Sprintf("out%d", i)
		p := l.start("run", "plan.yaml", "-o", name)
		// Openings take a tenth of a second, the whole run some: early moments are the more dangerous ones.
		after := time.Duration(rng.ExpFloat64() * float64(900*time.Millisecond))
		time.Sleep(after)
		seen := l.lines(name)
		p.cmd.Process.Kill()
		<-p.done
		// What was seen in the file was on disk, and at most the trial in flight is missing.
		if got := l.lines(name); got < seen {
			t.Errorf("%d trials were there and %d are left", seen, got)
		}
		l.settled(filepath.Base(l.dir), false)
		if _, err := os.Stat(filepath.Join(l.dir, name, bundle.ManifestFile)); err != nil {
			continue
		}
		for _, command := range []string{"report", "verify"} {
			if o := l.do(command, name); o.code != 0 {
				t.Errorf("killed after %v, %s: exit code %d %s%s", after, command, o.code, o.out, o.err)
			}
		}
	}
	if o := l.do("clean"); o.code != 0 {
		t.Errorf("clean: exit code %d %s", o.code, o.err)
	}
	l.empty()
	// One of them is gone on with.
	p := l.start("run", "plan.yaml", "-o", "last")
	p.trials("last", 12)
	p.cmd.Process.Kill()
	<-p.done
	l.recovers("last")
}

// A way in that ends up with the controller's own shell must die with it, too.
func TestKilledWhileOpening(t *testing.T) {
	l := newLab(t)
	l.plan("slow: \"command?argv=sh -c 'exec sleep 3601'\"", `- "null"`)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.until("opening", func() bool { return len(p.below("sleep 3601")) > 0 })
	p.cmd.Process.Kill()
	<-p.done
	l.settled("sleep 3601", false)
}

// Two runs into one bundle, or two resumes of it, do not mix.
func TestTwoWriters(t *testing.T) {
	l := newLab(t)
	l.plan("box: local", `- "null": {hang: 100ms}`)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 3)
	for want, args := range map[int][]string{2: {"run", "plan.yaml", "-o", "out"}, 1: {"run", "--resume", "out"}} {
		if o := l.do(args...); o.code != want || !strings.Contains(o.err, "out") {
			t.Errorf("%v: exit code %d: %s", args, o.code, o.err)
		}
	}
	if o := l.do("clean"); o.code != 0 || strings.Contains(o.out, l.runID("out")) {
		t.Errorf("clean took a run that is going on for a leftover: %s%s", o.out, o.err)
	}
	if o := p.end(); o.code != 0 {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
	l.read("out")
}

// The terminal's hangup and the system's shutdown end a run as Ctrl-C does.
func TestTerminated(t *testing.T) {
	l := newLab(t)
	l.plan("box: local", slow)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		name := fmt.Sprintf("out%d", sig)
		p := l.start("run", "plan.yaml", "-o", name)
		p.trials(name, 4)
		l.kill(p.cmd.Process.Pid, sig)
		if o := p.end(); o.code != 1 || !strings.Contains(o.err, "--resume") {
			t.Errorf("%v: exit code %d: %s", sig, o.code, o.err)
		}
		l.gone(name)
	}
}
