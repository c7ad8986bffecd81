//go:build unix

package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/measure/workload"
)

func TestVariablesAreSet(t *testing.T) {
	t.Setenv("TARE_TEST_A", "of the worker")
	dir := t.TempDir()
	must(t, dir, 1, map[string]string{"env": "TARE_TEST_A=1=2\nTARE_TEST_B=two words\n",
		"command": `sleep 0.01; echo "$TARE_TEST_A,$TARE_TEST_B" >out`, "prepare": `echo "$TARE_TEST_B" >before`})
	for name, want := range map[string]string{"out": "1=2,two words\n", "before": "two words\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	k := Kinds()[0]
	for _, bad := range []string{"NAME", "=x", "A=1\nB", "A=\x00"} {
		p, err := k.Resolve(map[string]string{"command": "true", "env": bad})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.New(p); err == nil || !strings.Contains(err.Error(), "NAME=VALUE") {
			t.Errorf("env %q: %v", bad, err)
		}
	}
}

// TestSparseParameters holds that work without the newer parameters is written as before there were such.
func TestSparseParameters(t *testing.T) {
	p, err := Kinds()[0].Resolve(map[string]string{"command": "true", "env": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"env", "check", "setup"} {
		if v, ok := p[name]; ok {
			t.Errorf("%s is %q, though it was not given", name, v)
		}
	}
}

func TestOutputIsChecked(t *testing.T) {
	given := func(line string) map[string]string {
		return map[string]string{"command": line, "shell": "none", "check": "output"}
	}
	sum := func(line string) string { return must(t, t.TempDir(), 3, given(line)).Checks["output"] }
	a := sum("printf abc")
	if a != sum("printf abc") || a == sum("printf abd") || !strings.HasPrefix(a, "3 bytes, SHA-256 ba7816bf8f01cfea") {
		t.Errorf("abc is %s, abd is %s", a, sum("printf abd"))
	}
	b := must(t, t.TempDir(), 3, map[string]string{"command": "echo x >>n; sleep 0.01; cat n", "check": "output"})
	if got := b.Checks["output"]; got != changing {
		t.Errorf("outputs that differ from run to run: %s", got)
	}
	if b.Shown != nil {
		t.Error("a trial that counts shows its output")
	}
	if got := must(t, t.TempDir(), 1, map[string]string{"command": "sleep 0.01"}).Checks["output"]; got != "" {
		t.Errorf("an output that nobody asked for: %s", got)
	}

	k := Kinds()[0]
	p, _ := k.Resolve(given(`printf 'one\ntwo\n\033'`))
	w, err := k.New(p)
	if err != nil {
		t.Fatal(err)
	}
	warm := &workload.Bench{Dir: t.TempDir(), Work: 2, Warmup: true}
	ctx := context.Background()
	err = errors.Join(w.Setup(ctx, warm), w.Measure(ctx, warm), w.Cleanup(warm))
	if err != nil || len(warm.Shown) != 1 || warm.Shown[0].Text != "one\ntwo\n\\u001b" {
		t.Errorf("the warm-up shows %+v, %v", warm.Shown, err)
	}
	if _, err := k.Resolve(map[string]string{"command": "true", "check": "exit"}); err == nil {
		t.Error("check=exit is accepted")
	}
}

func TestAnyExitCode(t *testing.T) {
	b := must(t, t.TempDir(), 2, map[string]string{"command": "sleep 0.01; exit 3", "exit": "-1"})
	if b.State["exit_code"] != "3" {
		t.Errorf("exit_code is %q", b.State["exit_code"])
	}
	f := failed(t, map[string]string{"command": "kill -9 $$", "exit": "-1"})
	if !strings.Contains(f.Message, "signal") {
		t.Errorf("a run that was killed: %s", f.Message)
	}
}

func TestPageFaultsAreCounted(t *testing.T) {
	b := must(t, t.TempDir(), 2, map[string]string{"command": "sleep 0.01", "shell": "none"})
	if n := b.Metrics["page_faults"]; n < 1 {
		t.Errorf("a run takes %v page faults", n)
	}
}
