//go:build unix

package command

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/sys/benchfmt"
)

const goSuite = `package suite

import (
	"strconv"
	"strings"
	"testing"
)

func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{1, 64} {
		parts := strings.Split(strings.Repeat("x,", n), ",")
		b.Run("parts="+strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i++ {
				_ = strings.Join(parts, "")
			}
		})
	}
}

func BenchmarkItoa(b *testing.B) {
	for i := 0; i < b.N; i++ {
		_ = strconv.Itoa(i)
	}
}
`

// TestSuiteOfGoBenchmarks compiles Go benchmarks, and has one trial report a figure of each of their cases, by the
// lines that are made of what they print.
func TestSuiteOfGoBenchmarks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/suite\n\ngo 1.21\n",
		"suite_test.go": goSuite} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "test", "-c", "-o", "suite.test", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the benchmarks: %v: %s", err, out)
	}
	line := filepath.Join(dir, "suite.test") + " -test.run=NONE -test.bench=. -test.benchtime=200x"
	out, err := exec.Command("sh", "-c", line).Output()
	if err != nil {
		t.Fatal(err)
	}
	parse, err := benchfmt.New("go")
	if err != nil {
		t.Fatal(err)
	}
	suite, err := parse(out)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	lines, without := texts(suite, "go", true, "seconds", "user_seconds", "system_seconds", "max_rss_bytes")
	if len(suite.Cases) != 3 || len(without) != 0 {
		t.Fatalf("%+v, without %q", suite, without)
	}
	given := map[string]string{"command": line, "shell": "none", "metric": strings.Join(lines, "\n")}
	b := must(t, dir, 2, given)
	k := Kinds()[0]
	p, err := k.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	if first := k.Primary(p); first.Name != "join_parts_1" || first.Unit != "s" {
		t.Errorf("the first case decides: %+v", first)
	}
	for _, name := range []string{"join_parts_1", "join_parts_64", "join_parts_64_bytes", "join_parts_64_allocs",
		"itoa"} {
		if v := b.Metrics[name]; !(v > 0) || math.IsInf(v, 0) {
			t.Errorf("%s is %v of %v, by\n%s", name, v, b.Metrics, strings.Join(lines, "\n"))
		}
	}
	// A suite without one of the cases fails, whatever it prints in its place.
	given["command"] = strings.Replace(line, "bench=.", "bench=Itoa", 1)
	if f := failed(t, given); !strings.Contains(f.Message, `the output has no case "BenchmarkJoin/parts=1"`) {
		t.Errorf("%+v", f)
	}
}

// texts are the lines of a suite for the parameter metric.
func texts(s *benchfmt.Suite, format string, all bool, taken ...string) (out, without []string) {
	lines, without := s.Lines(format, all, taken...)
	for _, l := range lines {
		out = append(out, l.Text)
	}
	return out, without
}

// TestSuitesOfOtherTools has the figures of each format's sample taken by the lines that are made of it.
func TestSuitesOfOtherTools(t *testing.T) {
	for file, format := range map[string]string{"go.txt": "go", "criterion.txt": "criterion",
		"criterion.ndjson": "criterion", "jmh.json": "jmh", "pytest.json": "pytest", "google.json": "google"} {
		out, err := os.ReadFile(filepath.Join("../../../sys/benchfmt/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		parse, err := benchfmt.New(format)
		if err != nil {
			t.Fatal(err)
		}
		suite, err := parse(out)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		lines, without := texts(suite, format, false)
		if len(lines) < 2 || len(without) > 0 {
			t.Errorf("%s: %d lines, without %q", file, len(lines), without)
		}
		for i, line := range lines {
			x, err := newExtractor(presetNone, line)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			got, err := x.extract(out)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			m := x.metrics()[0]
			want := suite.Cases[i].Figures[0]
			if v := got.values[m.Name]; m.Unit == want.Unit && math.Abs(v-want.Value) > 1e-9*want.Value {
				t.Errorf("%s: %s is %v, want %v", file, m.Name, v, want.Value)
			}
		}
	}
	x, err := newExtractor(presetNone, `x:s:lower:re:took ([0-9.]+) (?P<unit>\S+)`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]float64{"took 1.5 ms": 1.5e-3, "took 20 µs": 20e-6, "took 3 s": 3} {
		if got, err := x.extract([]byte(text)); err != nil || math.Abs(got.values["x"]-want) > 1e-12 {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := x.extract([]byte("took 3 apples")); err == nil || !strings.Contains(err.Error(),
		`"apples" is no unit of time`) {
		t.Errorf("%v", err)
	}
}
