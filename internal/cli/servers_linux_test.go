package cli_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// The servers of two mounts are killed in the middle of the run: one whose client waits for ever, and one for which the
// client has nobody to ask any more. Each is named as the cause, at once, and the rest goes on.
func TestServersOfMountsKilled(t *testing.T) {
	l := newLab(t)
	needVM(l)
	needRoot(t)
	need(l, "ganesha.nfsd", "rpcbind")
	l.plan(machine, "- fs.smallfiles")
	p := l.start("run", "plan.yaml", "-m", "vm:v=virtiofs", "-m", "vm:n=nfs?server=ganesha", "-o", "out")
	p.trials("out", 12) // warm-ups of five targets, and a block
	began := time.Now()
	for _, server := range []string{"virtiofsd --fd", "ganesha.nfsd -F"} {
		killed := false
		for _, task := range p.below("") {
			if strings.Contains(task.line, server) && !strings.HasPrefix(task.line, "/bin/sh") {
				syscall.Kill(task.pid, syscall.SIGKILL)
				killed = true
			}
		}
		if !killed {
			t.Fatalf("no %s runs:\n%s", server, p.err.String())
		}
	}
	p.until("word of both", func() bool {
		return strings.Contains(p.err.String(), "vm:v: the server of the mount") &&
			strings.Contains(p.err.String(), "vm:n: the server of the mount")
	})
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %v: trials without a server were waited for", took)
	}
	began = time.Now()
	o := p.end()
	// What the others still have to do takes a busy machine a while; three trials that are waited for take six minutes.
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("the rest took %v: trials without a server were waited for", took)
	}
	l.spared(o, "vm", "virtiofsd", "NFS-Ganesha", "has ended: signal: killed")
	d := l.read("out")
	l.decided(d, "vm")
	for _, target := range []string{"vm:v", "vm:n"} {
		l.undecided(d, target)
		l.evidence("out", strings.Replace(target, ":", "-", 1), "killed")
	}
}
