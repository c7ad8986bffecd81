package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/record"
)

// slow is work that is nearly always being done when something happens.
const slow = `- "null": {hang: 100ms}`

// One agent is killed on this host, one in a container, each in the middle of a trial.
func TestAgentKilled(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	l.plan("bad: local\nbox: namespace", slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	for _, target := range []string{"bad", "box"} {
		p.find(target, aWorker) // a trial is being run
		l.kill(p.find(target, anAgent), syscall.SIGKILL)
	}
	l.spared(p.end(), "bad", "the connection to the agent broke")
	d := l.read("out")
	for _, target := range []string{"bad", "box"} {
		l.undecided(d, target)
		l.evidence("out", target, "killed")
	}
}

// A worker that is killed costs its trial. One that is killed every time costs the cell.
func TestWorkerKilled(t *testing.T) {
	l := newLab(t)
	l.plan("bad: local\nonce: local", slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	p.strike("out", "once", 1)
	p.strike("out", "bad", verdict.GivenUp)
	l.spared(p.end(), "bad", "worker", "killed")
	d := l.read("out")
	l.undecided(d, "bad")
	l.evidence("out", "bad", "killed")
	for _, c := range d.Cells {
		if c.Target == "once" && c.Primary && (c.Blocks < 9 || len(c.Warnings) == 0) {
			t.Errorf("one trial in ten was lost, and the cell has %d blocks: %+v", c.Blocks, c)
		}
	}
}

// An agent that is stopped, as by a debugger, is a measurement at first and is given up in the end; here the user ends
// the run before.
func TestStoppedAgentDoesNotHoldTheUser(t *testing.T) {
	l := newLab(t)
	l.plan("bad: local", slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 6)
	l.kill(p.find("bad", anAgent), syscall.SIGSTOP)
	// The run stands still at its next trial: in three seconds two dozen would be done. One that goes on without it
	// comes to its end first, and that fails.
	n, since := l.lines("out"), time.Now()
	p.until("a run that waits for the stopped agent", func() bool {
		if m := l.lines("out"); m != n {
			n, since = m, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	began := time.Now()
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	o := p.end()
	if took := time.Since(began); o.code != 1 || took > 2*time.Minute || !strings.Contains(o.err,
		"tare run --resume out") {
		t.Errorf("exit code %d after %v:\n%s", o.code, took, o.err)
	}
	l.read("out")
	l.gone("out")
}

// Several of them hold him no longer than one.
func TestStoppedAgentsDoNotHoldTheUserOneAfterTheOther(t *testing.T) {
	l := newLab(t)
	targets := []string{"a", "b", "c", "d", "e", "f"}
	l.plan(strings.Join(targets, ": local\n")+": local", slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	for _, target := range targets {
		l.kill(p.find(target, anAgent), syscall.SIGSTOP)
	}
	began := time.Now()
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	o := p.end()
	// Ten seconds for the one at work, ten for the others, and some for the ladder that ends them; one after the other
	// it would be more than that for each.
	if took := time.Since(began); o.code != 1 || took > time.Minute ||
		!strings.Contains(o.err, "tare run --resume out") {
		t.Errorf("exit code %d after %v:\n%s", o.code, took, o.err)
	}
	l.read("out")
	l.gone("out")
}

// A machine whose ssh server goes down in the middle of a trial, connections and all.
func TestSSHServerGone(t *testing.T) {
	l := newLab(t)
	s := l.sshd()
	l.plan("far: "+s.spec("root"), slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	p.until("trial there", func() bool { return len(s.below(aWorker)) > 0 })
	s.kill()
	l.spared(p.end(), "far", "the connection to the agent broke")
	l.undecided(l.read("out"), "far")
	l.evidence("out", "far", "127.0.0.1")
}

// An unprivileged user of another machine with a directory that is not his.
func TestSSHWithoutPermission(t *testing.T) {
	l := newLab(t)
	s := l.sshd()
	need(t, "useradd", "userdel")
	const user = "tare-lab-nobody"
	if out, err := exec.Command("useradd", "--no-create-home", "--home-dir", l.dir, "--shell", "/bin/sh",
		user).CombinedOutput(); err != nil {
		t.Fatalf("useradd: %v %s", err, out)
	}
	t.Cleanup(func() { exec.Command("userdel", user).Run() })
	// A password that nothing matches: without one the account is locked, which ssh refuses earlier.
	if out, err := exec.Command("usermod", "-p", "*", user).CombinedOutput(); err != nil {
		t.Fatalf("usermod: %v %s", err, out)
	}
	forbidden := filepath.Join(l.dir, "forbidden")
	if err := os.Mkdir(forbidden, 0o700); err != nil {
		t.Fatal(err)
	}
	l.plan("far: "+s.spec(user)+"&dir="+forbidden, `- "null"`)
	l.spared(l.do("run", "plan.yaml", "-o", "out"), "far", forbidden, "dir=PATH")
	l.undecided(l.read("out"), "far")
	l.evidence("out", "far", "Permission denied")
}

// dockerAtWork begins a run in a container of a daemon of its own, and returns in the middle of it.
func dockerAtWork(t *testing.T) (*lab, *dockertest.Daemon, *process) {
	t.Helper()
	l := newLab(t)
	d := dockertest.New(t)
	l.env = append(l.env, "DOCKER_HOST="+d.Host)
	l.plan("box: docker", slow)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	return l, d, p
}

// The Docker daemon is killed in the middle of a trial and comes back later.
func TestDockerKilled(t *testing.T) {
	l, d, p := dockerAtWork(t)
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	o := p.end()
	l.spared(o, "box", "the connection to the agent broke")
	l.undecided(l.read("out"), "box")
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	// With no daemon the container could not be removed, and the user is told. What is left is for tare clean to find.
	if !strings.Contains(o.err, "close environment") {
		t.Errorf("nothing was said of what could not be removed:\n%s", o.err)
	}
	if o := l.do("clean"); o.code != 0 {
		t.Errorf("clean: exit code %d %s%s", o.code, o.out, o.err)
	}
	l.containers(d)
	l.gone("out")
}

// The Docker daemon is restarted in the middle of a trial, as by an update: the container ends, and is removed.
func TestDockerRestarted(t *testing.T) {
	l, d, p := dockerAtWork(t)
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	l.spared(p.end(), "box", "the connection to the agent broke")
	l.undecided(l.read("out"), "box")
	l.containers(d)
}

// containers holds that the daemon has none of tare's, or soon will have none: it removes one whose agent has left by
// itself.
func (l *lab) containers(d *dockertest.Daemon) {
	l.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		left, err := d.Containers()
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			l.Fatalf("containers left: %q %v", left, err)
		}
	}
}

// An agent that was made with another tare, and a way in that talks, and one that only talks.
func TestStrangersAtTheOtherEnd(t *testing.T) {
	l := newLab(t)
	other := filepath.Join(l.dir, "other-agent")
	cmd := exec.Command("go", "build", "-trimpath", "-o", other, "-ldflags",
		"-X tare/internal/version.Build=of-another-day", "tare/cmd/tare-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v %s", err, out)
	}
	l.file("noisy", "#!/bin/sh\nprintf 'Last login: never\\r\\n\\033[1mWelcome\\033[0m\\000\\377\\n'\nexec \"$@\"\n")
	l.file("liar", "#!/bin/sh\ncase \"$*\" in *--version*) exec \"$@\";; *'agent --dir'*) while :; do echo 'I am no "+
		"agent'; done;; *) exec \"$@\";; esac\n")
	for _, f := range []string{"noisy", "liar"} {
		if err := os.Chmod(filepath.Join(l.dir, f), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.plan(`bad: "command?argv=env&put=none&path=`+other+`"
		noisy: "command?argv='`+filepath.Join(l.dir, "noisy")+`'"
		liar: "command?argv='`+filepath.Join(l.dir, "liar")+`'"`, `- "null"`)
	o := l.do("run", "plan.yaml", "-o", "out")
	l.spared(o, "bad", "of-another-day", "use agents built together with")
	d := l.read("out")
	l.decided(d, "noisy")
	l.undecided(d, "bad")
	l.undecided(d, "liar")
	l.evidence("out", "liar", "I am no agent")
	if !strings.Contains(o.err, "suppress other output") {
		t.Errorf("no remedy for noise:\n%s", o.err)
	}
	for _, c := range d.Cells {
		if c.Target == "liar" && c.Verdict == record.Failed && (c.Failure == nil || c.Failure.Message == "") {
			t.Errorf("the cell does not say why: %+v", c)
		}
	}
	if slices.ContainsFunc(tasks(), func(p task) bool { return strings.Contains(p.line, l.dir) }) {
		t.Error("the liar still talks")
	}
}
