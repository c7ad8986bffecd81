package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/bundle"
	"tare/internal/judge/history/pgtest"
)

// TestHistoryOnAServer goes the way of a fleet that records in PostgreSQL: tables, two hosts, a server that goes away,
// bundles taken out and collected, what is refused, what is pruned.
func TestHistoryOnAServer(t *testing.T) {
	l := newLab(t)
	p := pgtest.Start(t)
	address := p.Address("postgres")
	l.env = append(l.env, "PGPASSWORD="+pgtest.Password)
	// on calls tare and holds its exit code and what it says, on either stream.
	on := func(code int, args []string, want ...string) string {
		t.Helper()
		o := l.do(args...)
		all := o.out + o.err
		if o.code != code {
			t.Errorf("tare %s ended with %d, want %d:\n%s", strings.Join(args, " "), o.code, code, all)
		}
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("tare %s: no %q in:\n%s", strings.Join(args, " "), w, all)
			}
		}
		if strings.Contains(all, pgtest.Password) {
			t.Errorf("tare %s tells the password:\n%s", strings.Join(args, " "), all)
		}
		return all
	}
	history := func(args ...string) []string { return append([]string{"history"}, append(args, "--store", address)...) }

	on(0, history("migrate"), "the tables have version 3")
	demo, err := filepath.Abs("../../testdata/bundles/demo")
	if err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(l.dir, "demo.tare")
	if err := bundle.Pack(demo, packed); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	l.file("cut.tare", string(text[:len(text)-2000]))
	edited := filepath.Join(l.dir, "edited")
	if err := os.CopyFS(edited, os.DirFS(demo)); err != nil {
		t.Fatal(err)
	}
	trials, err := os.ReadFile(filepath.Join(edited, bundle.TrialsFile))
	if err != nil {
		t.Fatal(err)
	}
	l.file("edited/"+bundle.TrialsFile, strings.Replace(string(trials), `"work":`, `"work":1`, 1))
	on(1, history("add", "cut.tare", "edited", "nothing", packed), "added      run 6a5ce9bc1b0b", "cut.tare", "edited",
		"nothing", "3 bundles of 4 not recorded")
	on(0, history("add", demo), "unchanged  run 6a5ce9bc1b0b")

	l.file("plan.yaml", `name: nodes
trial: 20ms
blocks: 10
environments:
  host: local
workloads:
  - "null"
`)
	shard := func(k string) []string {
		return []string{"fleet", "shard", k + "/2", "plan.yaml", "--host", "n" + k, "-q", "--store", address}
	}
	on(0, shard("1"))
	p.Kill()
	on(1, append(history("add", demo), "--patience", "0"), "does the server run")
	on(0, []string{"fleet", "shard", "2/2", "plan.yaml", "--host", "n2", "-q"})
	p.Begin()
	on(0, shard("2"), "part 2 of 2 is finished")
	on(0, shard("2"))
	on(0, history("fetch", "--plan", "plan.yaml", "-o", "bundles"), "fetched    bundles/n1-", "fetched    bundles/n2-")
	on(0, history("fetch", "--plan", "plan.yaml", "-o", "bundles"), "is there   bundles/n1-")
	on(0, []string{"fleet", "collect", "nodes", "bundles", "--by", "name", "--store", address}, "2 of 2 hosts",
		"0 runs, 2 recorded before")
	on(0, history("show"), "host/null")

	// Before anything is measured.
	l.env = append(l.env, "PGPASSWORD=wrong")
	on(1, []string{"run", "plan.yaml", "-o", "late", "--store", address}, "PGPASSWORD")
	if _, err := os.Stat(filepath.Join(l.dir, "late")); err == nil {
		t.Error("a run whose result cannot be recorded was begun")
	}
	l.env = append(l.env, "PGPASSWORD="+pgtest.Password)
	for _, args := range [][]string{history("prune"), history("prune", "--older-than", "soon"), history("fetch"),
		history("pin", "6a5ce9bc1b0c"),
		{"run", "plan.yaml", "--store", "postgres://me:" + pgtest.Password + "@127.0.0.1/x"}} {
		on(2, args)
	}
	on(0, history("pin", "6a5ce9bc1b0b"), "pinned 1 run of 1")
	on(0, history("prune", "--older-than", "1ns", "--bundles-older-than", "1ns", "--keep", "0", "--dry-run"),
		"would remove 2 runs", "kept 1 pinned")
	on(0, history("prune", "--bundles-older-than", "1ns"), "removed 0 runs, and 2 bundles of others")
	on(1, history("fetch", "--plan", "plan.yaml"), "0 of 1 bundle kept there")
	on(0, history("fetch", "6a5ce9bc1b0b", "-o", "bundles"), "fetched")
	on(0, history("prune", "--older-than", "1ns", "--keep", "0"), "removed 2 runs")
	out := on(0, history("show"))
	if strings.Contains(out, "host/null") {
		t.Errorf("runs that were pruned are shown:\n%s", out)
	}
	if !json.Valid([]byte(l.do("history", "dashboard").out)) {
		t.Error("the dashboard is no JSON")
	}
}
