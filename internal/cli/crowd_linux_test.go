package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"tare/internal/record"
)

// counted are the trials of an environment that count. Where the machine is busy, a host may begin too late, or end too
// early.
func (l *lab) counted(out, name string) (good []record.Trial) {
	l.Helper()
	for _, tr := range l.trialsOf(out, name) {
		switch {
		case tr.Error == nil:
			good = append(good, tr)
		case tr.Error.Kind != "load-apart":
			l.Errorf("%+v", tr.Error)
		}
	}
	return good
}

// Two environments offer the load on the nginx of a third: the report says so, and each trial's record has what both
// did.
func TestLoadFromTwoEnvironments(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	need(t, "nginx")
	l.file("plan.yaml", `seed: 7
trial: 400ms
blocks: 6
environments:
  web: local
  c1: local
  c2: namespace?net=host
workloads:
  - { kind: http.load, rate: 200, from: c1*3+c2 }
`)
	o := l.do("run", "plan.yaml", "-o", "out")
	if o.code != 0 {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	if want := "was offered by 2 hosts (c1, c2)"; !strings.Contains(unwrapped(o.out), want) {
		t.Errorf("the report does not say %q:\n%s", want, o.out)
	}
	good := l.counted("out", "web")
	for _, tr := range good {
		if x := tr.Load; x == nil || len(x.Hosts) != 2 || x.Hosts[0].Work < 2*x.Hosts[1].Work ||
			x.Hosts[0].Work+x.Hosts[1].Work != tr.Work {
			t.Errorf("a trial has %+v", x)
		}
	}
	if len(good) == 0 {
		t.Error("no trial counts")
	}
	for _, name := range []string{"c1", "c2"} {
		if trials := l.trialsOf("out", name); len(trials) > 0 {
			t.Errorf("%d trials were measured in %s", len(trials), name)
		}
	}
	d := l.read("out")
	if len(d.Cells) == 0 || d.Cells[0].Target != "web" || d.Cells[0].Verdict == record.Failed {
		t.Errorf("the cells are %+v", d.Cells)
	}
	if o := l.do("verify", "out"); o.code != 0 {
		t.Errorf("verify: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	l.gone("out")
}

// Two environments replay a log together on the MariaDB that tare starts in a third.
func TestReplayFromTwoEnvironments(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	need(t, "mariadbd")
	l.file("plan.yaml", `seed: 7
trial: 500ms
blocks: 6
environments:
  base: local
  c1: local
  c2: namespace?net=host
workloads:
  - { kind: sql.replay, log: shop, data: shop, items: 100, views: 300, lanes: 2, from: c1+c2 }
`)
	// On a busy machine one of them may begin too late, or end too early, in each trial of a run.
	good, out := 0, ""
	var o outcome
	for try := 1; good == 0 && try <= 4; try++ {
		out = fmt.Sprint("out", try)
		if o = l.do("run", "plan.yaml", "-o", out); o.code != 0 {
			t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
		}
		for _, tr := range l.counted(out, "base") {
			good++
			if x := tr.Load; x == nil || len(x.Hosts) != 2 ||
				fmt.Sprint(x.Hosts[0].Work+x.Hosts[1].Work) != tr.State["statements"] || len(tr.Groups) < 2 {
				t.Errorf("a trial has %+v, %v", x, tr.State)
			}
		}
	}
	// A host that is bound is a verdict of its own on a machine of two processors.
	if want := "2 hosts"; good > 0 && !strings.Contains(unwrapped(o.out), want) {
		t.Errorf("the report does not say %q:\n%s", want, o.out)
	}
	if good == 0 {
		t.Error("no trial counts")
	}
	if o := l.do("verify", out); o.code != 0 {
		t.Errorf("verify: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	l.gone(out)
}
