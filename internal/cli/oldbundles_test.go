package cli

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/bundle"
)

var update = flag.Bool("update", false, "write the golden files")

// TestOldBundles holds that the bundles of testdata/bundles, which earlier builds measured, report the same words and
// figures as they did then, in every form that is text. Package report has the test of the HTML page's data.
func TestOldBundles(t *testing.T) {
	golden, err := filepath.Abs("../../testdata/reports")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../../testdata/bundles")
	bundles, err := os.ReadDir(".")
	if err != nil || len(bundles) < 2 {
		t.Fatalf("%d bundles, %v", len(bundles), err)
	}
	use := map[string]string{"demo": "syscall op=null", "mounts": "durability.fsync"}
	for _, e := range bundles {
		name := strings.TrimSuffix(e.Name(), bundle.Ext)
		// What a use saves is sure of neither: the report says so, and tare ends with 1.
		paid := []string{"--per", "price", "--price", "host=0.10USD/h", "--price", "box=0.12USD/h", "--worth", "140USD",
			"--uses-per-day", "20",
			"--worth-workload", use[name], "--worth-from", "2026-11-21"}
		paidCode := exitFailed
		if use[name] == "" { // the bundle of a release, of host and box
			paid, paidCode = nil, exitOK
		}
		fail := []string{"--fail-if", "ratio(box, cpu.prime) > 0.01", "--fail-if", "value(host, cpu.prime) > 1"}
		for _, f := range []struct {
			form string
			args []string
			code int
		}{
			{"text", nil, exitOK}, {"details.text", []string{"--details", "--ascii"}, exitOK},
			{"paid.text", paid, paidCode},
			{"json", nil, exitOK}, {"paid.json", paid, paidCode}, {"markdown", paid, paidCode},
			{"github", paid, paidCode}, {"issue", nil, exitOK},
			{"junit", fail, exitCondition}, {"csv", nil, exitOK}, {"benchstat", nil, exitOK}, {"svg", nil, exitOK},
			{"iozone", nil, exitOK},
		} {
			if f.form == "iozone" && name != "mounts" {
				continue // it has no matrix
			}
			format := f.form[strings.IndexByte(f.form, '.')+1:]
			code, out, said := reported(t, append([]string{e.Name(), "--format", format}, f.args...))
			if code != f.code {
				t.Errorf("%s as %s: exit code %d, want %d: %s", name, f.form, code, f.code, said)
			}
			same(t, filepath.Join(golden, name, f.form), append(out, said...))
		}
	}
}

// reported runs tare report as a user does who reads it from a pipe.
func reported(t *testing.T, args []string) (code int, out, said []byte) {
	t.Helper()
	var o, e bytes.Buffer
	a := &app{console: console{in: strings.NewReader(""), out: &o, err: &e, getenv: func(string) string { return "" },
		outFD: -1, errFD: -1}}
	return a.run(context.Background(), append([]string{"report"}, args...)), o.Bytes(), e.Bytes()
}

// same compares with a golden file, or writes it.
func same(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	is, was := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(is), len(was)) {
		if is[i] != was[i] {
			t.Errorf("%s: line %d is\n%s\nand was\n%s\n(go test ./internal/cli -run OldBundles -update writes it anew)",
				file, i+1, is[i], was[i])
			return
		}
	}
	t.Errorf("%s has %d lines, and had %d", file, len(is), len(was))
}
