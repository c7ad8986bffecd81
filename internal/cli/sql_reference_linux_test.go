package cli_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestReferenceReplay replays a log on MariaDB here and on a host that is reached by SSH, whose servers tare starts.
// The result is a reference: it is repeated later, when a row of the data has become another, and compared.
func TestReferenceReplay(t *testing.T) {
	l := newLab(t)
	need(l, "mariadbd")
	s := l.sshd()
	var log strings.Builder
	log.WriteString("261121  0:05:31\t    8 Connect\tu@localhost on kept using Socket\n")
	for i := range 2000 {
		fmt.Fprintf(&log, "\t\t    8 Query\tSELECT title FROM item WHERE id = %d\n"+
			"\t\t    8 Query\tSELECT COUNT(*) FROM item\n",
			i%4)
	}
	l.file("a.log", log.String())
	dump := func(title string) {
		l.file("a.sql", "CREATE TABLE item (id INT PRIMARY KEY, title TEXT);\n"+
			"INSERT INTO item VALUES (0, 'a'), (1, '"+title+"'), (2, 'c'), (3, 'd');\n")
	}
	dump("b")
	l.file("plan.yaml", "trial: 20ms\nblocks: 6\nenvironments:\n  host: local\n  far: "+s.spec("root")+"\nworkloads:\n"+
		"  - {kind: sql.replay, server: mariadb, log: a.log, data: a.sql, lanes: 2, whole: yes}\n")
	o := l.do("run", "plan.yaml", "-o", "reference")
	if o.code != 0 || !strings.Contains(o.out, "all executions of a trial together") {
		t.Fatalf("exit %d: %s\n%s", o.code, o.out, o.err)
	}
	if left := s.below("mariadbd"); len(left) > 0 {
		t.Errorf("servers are left: %d", left)
	}
	compared := func(again string) string {
		t.Helper()
		if o := l.do("rerun", "reference", "-o", again); o.code != 0 {
			t.Fatalf("exit %d: %s\n%s", o.code, o.out, o.err)
		}
		o := l.do("compare", "reference", again, "--details")
		if o.code != 0 {
			t.Fatalf("exit %d: %s\n%s", o.code, o.out, o.err)
		}
		return o.out
	}
	// Six blocks decide nothing, but each fingerprint has a ratio on both sides.
	out := compared("again")
	if strings.Contains(out, "WITHHELD") || !strings.Contains(out, "select title from item") ||
		!strings.Contains(out, "Parts of the work, and how their ratios changed") {
		t.Errorf("the same work:\n%s", out)
	}
	dump("B")
	out = compared("changed")
	for _, want := range []string{"WITHHELD", "Parts of the work that gave something else", " rows of ",
		" statements, sum ",
		"Executions that returned something else"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "how their ratios changed\n") && strings.Contains(out, "EQUIVALENT") {
		t.Errorf("other work is compared:\n%s", out)
	}
}
