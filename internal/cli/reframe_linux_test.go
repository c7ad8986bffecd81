package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// TestReFrame has a real ReFrame run the test class of contrib by its local scheduler: a plan's figures are its
// performance variables, and a plan that cannot be run fails.
func TestReFrame(t *testing.T) {
	l := newLab(t)
	root := os.Getenv("TARE_REFRAME")
	if root == "" {
		missing(l, "TARE_REFRAME names no Python environment with ReFrame; scripts/deps.sh reframe makes one")
	}
	class, err := filepath.Abs("../../contrib/reframe/tare.py")
	if err != nil {
		t.Fatal(err)
	}
	l.file("plan.yaml", "name: p\nbaseline: host\ntrial: 20ms\nblocks: 10\nenvironments:\n  host: local\n"+
		"  same: local\nworkloads:\n  - \"null\"\n")
	run := func(plan string) (out string, err error) {
		cmd := exec.Command(filepath.Join(root, "bin", "reframe"), "-c", class, "-r", "--performance-report",
			"--prefix="+filepath.Join(l.dir, "out"), "--report-file="+filepath.Join(l.dir, "report.json"),
			"-S", "tare.plan="+filepath.Join(l.dir, plan))
		cmd.Dir, cmd.Env = l.dir, append(l.env, "HOME="+l.dir, "PYTHONDONTWRITEBYTECODE=1")
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	out, err := run("plan.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	src, err := os.ReadFile(filepath.Join(l.dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report any
	if err := json.Unmarshal(src, &report); err != nil {
		t.Fatal(err)
	}
	names := []string{"null_in_host", "null_in_same"}
	// On a busy machine a verdict may be withheld, and then there is no ratio to hand on.
	if !reframeWithheld(t, filepath.Join(l.dir, "out")) {
		names = append(names, "null_in_same_ratio")
	}
	for _, name := range names {
		if !strings.Contains(string(src), name) {
			t.Errorf("ReFrame has no %s:\n%s", name, out)
		}
	}
	if out, err := run("none.yaml"); err == nil {
		t.Errorf("a plan that is not there passes:\n%s", out)
	}
}

// reframeWithheld tells whether the report that a run left below ReFrame's folder has a ratio that was withheld.
func reframeWithheld(t *testing.T, dir string) (withheld bool) {
	t.Helper()
	reports, err := filepath.Glob(filepath.Join(dir, "output", "*", "*", "*", "*", "report.json"))
	if err != nil || len(reports) != 1 {
		t.Fatalf("ReFrame kept %q, %v", reports, err)
	}
	src, err := os.ReadFile(reports[0])
	if err != nil {
		t.Fatal(err)
	}
	var r verdict.Result
	if err := json.Unmarshal(src, &r); err != nil {
		t.Fatal(err)
	}
	for i := range r.Cells {
		withheld = withheld || r.Cells[i].Primary && r.Cells[i].Verdict == record.Withheld
	}
	return withheld
}
