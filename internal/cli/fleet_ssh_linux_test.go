package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare/internal/judge/fleet"
)

// TestFleetBySSH has hosts behind a real sshd run a plan: one cannot be reached, the controller is stopped and started,
// killed and started, and one part is killed in mid-run. Nothing stays behind on the hosts.
func TestFleetBySSH(t *testing.T) {
	l := newLab(t)
	s := l.sshd()
	// Three names of one machine, and one where nobody listens.
	l.file("inventory.ini", fmt.Sprintf(`elsewhere ansible_connection=winrm
[nodes]
n[1:3] ansible_port=%d
gone ansible_port=%d # nobody listens there
[nodes:vars]
ansible_host=127.0.0.1
ansible_user=root
`, s.port, freePort(l)))
	there := l.folder("there")
	l.file("plan.yaml", fleetPlan(12))
	args := []string{"fleet", "run", "plan.yaml", "--on", "ssh", "-o", "nodes", "--hosts", "inventory.ini", "--group",
		"nodes", "--by", "name", "--every", "300ms", "--at-once", "3", "--ssh",
		s.options(there)}
	p := l.start(args...)
	// The parts share a machine, and tare lets one work at a time.
	var victim string
	p.until("the first trials of a part", func() bool {
		found, _ := filepath.Glob(filepath.Join(there, ".tare-fleet-*", "part"))
		for _, f := range found {
			name, err := filepath.Rel(l.dir, f)
			if n := l.lines(name); err == nil && n >= 8 && n < 40 {
				victim = name
			}
		}
		return victim != ""
	})
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	if o := p.end(); o.code != 1 || !strings.Contains(o.err, "the same command goes on watching") {
		t.Fatalf("a controller that is stopped: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	for _, k := range tasks() {
		if strings.Contains(k.line, "fleet shard "+part(victim)+"/4") && strings.HasPrefix(k.line, "./tare") {
			l.kill(k.pid, syscall.SIGKILL)
		}
	}
	// The next one is killed once it has a result.
	p = l.start(args...)
	p.until("a result", func() bool {
		found, _ := filepath.Glob(filepath.Join(l.dir, "nodes", "run", "part-*.tare"))
		return len(found) > 0
	})
	l.kill(p.cmd.Process.Pid, syscall.SIGKILL)
	p.end()
	o := l.do(args...)
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	for _, want := range []string{"counted: 3 of 4 hosts", "missing: gone"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in:\n%s", want, o.out)
		}
	}
	if strings.Contains(o.out, "refused") {
		t.Errorf("a host was measured twice:\n%s", o.out)
	}
	if said := strings.Join(strings.Fields(o.err), " "); !strings.Contains(said, "failed gone") {
		t.Errorf("no word of the host that cannot be reached:\n%s", o.err)
	}
	o = l.do("fleet", "report", "nodes", "--format", "json")
	var r fleet.Report
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("%v: %s", err, o.err)
	}
	for _, h := range r.Hosts {
		if !h.Finished {
			t.Errorf("%s has not finished", h.Name)
		}
		l.settled(h.RunID, true)
	}
	left, err := os.ReadDir(there)
	if err != nil || len(left) > 0 {
		t.Errorf("left on the hosts: %v %v", left, err)
	}
}

// part is the number of the part whose folder a path leads through.
func part(path string) string {
	dir := filepath.Dir(path)
	return dir[strings.LastIndexByte(dir, '-')+1:]
}
