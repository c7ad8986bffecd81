package cli_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"tare/internal/bundle"
	"tare/internal/lab/envtest"
	"tare/internal/sys/cgroup"
)

// A limited container's control groups go with the run: at its end, after Ctrl-C, and by tare clean after kill -9.
func TestControlGroupsGoWithTheRun(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	envtest.NeedControlGroups(t)
	groups := func(out string) []string {
		b, err := bundle.Open(filepath.Join(l.dir, out))
		if err != nil {
			t.Fatal(err)
		}
		return cgroup.Find("tare+" + b.Manifest.RunID + "+")
	}
	l.plan("box: namespace?quota=0.5&weight=64\nfree: namespace", slow)
	if o := l.do("run", "plan.yaml", "-o", "whole"); o.code != 0 {
		t.Fatalf("exit code %d: %s%s", o.code, o.out, o.err)
	}
	l.gone("whole")
	for name, how := range map[string]syscall.Signal{"stopped": syscall.SIGINT, "killed": syscall.SIGKILL} {
		p := l.start("run", "plan.yaml", "-o", name)
		p.trials(name, 4)
		if len(groups(name)) == 0 {
			t.Errorf("%s: there is no group while it runs", name)
		}
		l.kill(p.cmd.Process.Pid, how)
		p.end()
		if how == syscall.SIGKILL { // another test's clean may have been here before
			if o := l.do("clean"); o.code != 0 {
				t.Errorf("clean: exit code %d: %s%s", o.code, o.out, o.err)
			}
		}
		if left := groups(name); len(left) > 0 {
			t.Errorf("%s: groups %v", name, left)
		}
		l.gone(name)
	}
}
