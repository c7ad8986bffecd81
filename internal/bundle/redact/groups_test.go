package redact

import (
	"fmt"
	"path/filepath"
	"testing"

	"tare/internal/bundle"
	"tare/internal/record"
)

// TestGroupsAreRedacted: a statement without its literals still names tables, and may name a host or a customer. Those
// go; what else stands in it and all figures stay, so that the copy says the same of each statement.
func TestGroupsAreRedacted(t *testing.T) {
	texts := [][2]string{
		{"SELECT a.id, b.name FROM orders AS a JOIN acme.items b ON a.item_id = b.id WHERE a.total / ? > ? LIMIT ?",
			"SELECT a.id, b.name FROM orders AS a JOIN anon-word-1.items b ON a.item_id = b.id WHERE a.total / ? > ? " +
				"LIMIT ?"},
		{"SELECT $1::text || x::date, a.b->>?, c/d, `info`.`name` FROM t0 WHERE e <> ? AND f[?:?]",
			"SELECT $1::text || x::date, a.b->>?, c/d, `info`.`name` FROM t0 WHERE e <> ? AND f[?:?]"},
		{"CREATE DEFINER = `alice`@`lab7.corp.example.net` VIEW v AS SELECT @x := ?, @@version",
			"CREATE DEFINER = `anon-user-1`@`anon-host-1` VIEW v AS SELECT @x := ?, @@version"},
		{"COPY t FROM PROGRAM ?; LOAD DATA INFILE ? INTO TABLE acme_orders",
			"COPY t FROM PROGRAM ?; LOAD DATA INFILE ? INTO TABLE acme_orders"},
	}
	dir, out := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "r")
	w, err := bundle.Create(dir, "run-1", testPlan())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Environments([]record.Environment{{Target: record.Target{Name: "host",
		Spec: "ssh:alice@lab7.corp.example.net"},
		Session: 1}}); err != nil {
		t.Fatal(err)
	}
	for block := range 2 {
		tr := testTrial(block)
		tr.Block = block
		for i, text := range texts {
			g := record.Group{ID: fmt.Sprintf("%016x", 0x5254_00ff_beef+i), Count: int64(i), Seconds: 0.5,
				Check: "525400aabbcc"}
			if block == 0 {
				g.Text = text[0]
			}
			tr.Groups = append(tr.Groups, g)
		}
		if err := w.Append(tr); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(bundle.Finished, 3); err != nil {
		t.Fatal(err)
	}
	if err := Bundle(dir, out, Secrets{Words: []string{"acme"}}); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := b.Load()
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		first, second := trials[0].Groups[i], trials[1].Groups[i]
		if first.Text != text[1] {
			t.Errorf("%s\nbecame %s\nwant   %s", text[0], first.Text, text[1])
		}
		if first.ID != second.ID || first.Check != second.Check || first.Count != int64(i) || first.Seconds != 0.5 {
			t.Errorf("%+v, then %+v", first, second)
		}
	}
}

// TestGivenNamesStay: what tare called an environment is no secret, unless another host is called so.
func TestGivenNamesStay(t *testing.T) {
	environment := func(name, spec, host string, mount bool) record.Environment {
		e := record.Environment{Target: record.Target{Name: name, Spec: spec, Inside: record.Facts{Hostname: host}}}
		if mount {
			e.Mount = &record.Mount{}
		}
		return e
	}
	all := []record.Environment{
		environment("box-site", "namespace?cpus=1", "box-site", false),
		environment("box-site:bind", "bind", "box-site", true),
		environment("vm-site", "qemu", "vm-site", false), environment("build7", "ssh:build7", "build7", false),
		environment("web01", "qemu", "web01", false), environment("other", "ssh:other", "WEB01", false),
	}
	m := newMask()
	m.spareGiven(all)
	for i := range all {
		m.learnEnvironment(&all[i])
	}
	m.seal()
	for name, stays := range map[string]bool{"box-site": true, "vm-site": true, "build7": false, "web01": false} {
		if got := m.text("it is " + name); (got == "it is "+name) != stays {
			t.Errorf("%s became %q", name, got)
		}
	}
}
