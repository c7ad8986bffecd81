package benchfmt

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tare/internal/unit"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t testing.TB, format string, out []byte) (*Suite, error) {
	t.Helper()
	p, err := New(format)
	if err != nil {
		t.Fatal(err)
	}
	return p(out)
}

// shown writes a suite as lines, for comparing.
func shown(s *Suite) []string {
	var lines []string
	for _, c := range s.Cases {
		line := c.Name + ":"
		for _, f := range c.Figures {
			sign := "<"
			if f.Better == unit.Higher {
				sign = ">"
			}
			line += fmt.Sprintf(" %s %.6g %s %s%d", f.Name, f.Value, f.Unit, sign, f.Repeats)
		}
		lines = append(lines, line)
	}
	for _, l := range s.Left {
		lines = append(lines, fmt.Sprintf("left: %s %s: %s", l.Case, l.Figure, l.Why))
	}
	return lines
}

func wantShown(t *testing.T, what string, s *Suite, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if got := shown(s); !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestGo(t *testing.T) {
	s, err := parse(t, "go", []byte(`goos: linux
pkg: example.com/a
cpu: Some Processor
BenchmarkJoin
BenchmarkJoin/size=10-8   	 1000	      1234 ns/op	 12.5 MB/s	 64 B/op	 2 allocs/op
BenchmarkJoin/size=10-8   	 1000	      1434 ns/op	 12.5 MB/s	 64 B/op	 2 allocs/op
BenchmarkJoin/size=10-8   	 1000	      1334 ns/op	 12.5 MB/s	 64 B/op	 2 allocs/op
    a_test.go:7: a note
BenchmarkZero-8	 10	 0.25 ns/op	 0 B/op	 0 allocs/op
BenchmarkOwn-8	 10	 5 ns/op	 40 hits/s	 3.5 misses
BenchmarkFast-8 is what the benchmark itself says
BenchmarkOdd-8	 10	 5 ns/op	 7
BenchmarkBad-8	 10	 five ns/op
Benchmarking is no benchmark 5 6
Unit misses better=higher
--- FAIL: BenchmarkLate-8 (0.00s)
PASS
ok  	example.com/a	1.2s
`))
	wantShown(t, "go", s, err,
		"BenchmarkJoin/size=10: time 1.334e-06 s <3 throughput 1.25e+07 B/s >3 bytes 64 B <3 allocs 2 allocs/op <3",
		"BenchmarkZero: time 2.5e-10 s <1",
		"BenchmarkOwn: time 5e-09 s <1 hits/s 40 hits/s >1 misses 3.5 misses >1",
		`left: BenchmarkOdd-8 : line 12: "7" has no unit`,
		"left: BenchmarkLate-8 : it failed",
		"left: BenchmarkZero bytes: 0 is no figure that can be compared",
		"left: BenchmarkZero allocs: 0 is no figure that can be compared",
		`left: BenchmarkBad ns/op: line 13: "five" is not a number`)

	// Names keep their number where it tells cases apart, and have their package where there are several.
	s, err = parse(t, "go", []byte("pkg: a\nBenchmarkX 9 1 ns/op\nBenchmarkX-2 9 2 ns/op\n"+
		"pkg: b\nBenchmarkX-2 9 3 ns/op\n"))
	wantShown(t, "go -cpu 1,2", s, err, "a.BenchmarkX: time 1e-09 s <1", "a.BenchmarkX-2: time 2e-09 s <1",
		"b.BenchmarkX-2: time 3e-09 s <1")
	s, err = parse(t, "go", sample(t, "go.txt"))
	if err != nil || len(s.Cases) < 3 || s.Cases[0].Figures[0].Unit != "s" {
		t.Errorf("real output: %+v, %v", s, err)
	}
}

func TestCriterion(t *testing.T) {
	s, err := parse(t, "criterion", sample(t, "criterion.txt"))
	wantShown(t, "text", s, err,
		"fib 20: time 2.6251e-05 s <1",
		"from_elem/1024: time 1.2e-07 s <1 throughput 3.92954e+07 B/s >1",
		"a group with a long name/and a long parameter: time 0.00352 s <1 throughput 2.1e+06 elem/s >1")
	s, err = parse(t, "criterion", sample(t, "criterion.ndjson"))
	wantShown(t, "messages", s, err,
		"norm: time 1.24e-07 s <1 throughput 8.06452e+09 B/s >1",
		"group/elements: time 5e-06 s <1 throughput 2e+06 elem/s >1",
		"left: broken time: it has no typical estimate")
	s, err = parse(t, "criterion", sample(t, "estimates.json"))
	wantShown(t, "estimates.json", s, err, "estimates.json: time 2.61e-05 s <1")
	flat := strings.Replace(string(sample(t, "estimates.json")), `"slope":{`, `"other":{`, 1)
	s, err = parse(t, "criterion", []byte(flat))
	wantShown(t, "flat sampling", s, err, "estimates.json: time 2.65e-05 s <1")
}

func TestDocuments(t *testing.T) {
	s, err := parse(t, "jmh", sample(t, "jmh.json"))
	wantShown(t, "jmh", s, err,
		"org.example.Strings.join avgt size=10: time 1.2345e-08 s <1 gc.alloc.rate.norm 48 B <1",
		"org.example.Strings.join thrpt size=1000: throughput 2.5e+06 ops/s >1",
		"left: org.example.Strings.join avgt size=10 gc.alloc.rate: it is neither better when higher nor when lower",
		"left: org.example.Strings.fail avgt time: NaN is no figure that can be compared")

	s, err = parse(t, "pytest", sample(t, "pytest.json"))
	if err != nil || len(s.Cases) != 2 || s.Cases[0].Name != "test_sample.py::test_sum[10]" ||
		s.Cases[0].Figures[0].Name != "time" || s.Cases[0].Figures[0].Unit != "s" || len(s.Left) != 0 {
		t.Errorf("pytest: %+v, %v", s, err)
	}
	s, err = parse(t, "google", sample(t, "google.json"))
	if err != nil || len(s.Cases) != 3 || s.Cases[0].Name != "BM_copy/64" || s.Cases[0].Figures[0].Repeats != 3 ||
		s.Cases[0].Figures[2].Unit != "B/s" || s.Cases[0].Figures[2].Better != unit.Higher || len(s.Left) != 1 {
		t.Errorf("google: %+v, %v", s, err)
	}
	s, err = parse(t, "google", []byte(`{"benchmarks": [
		{"name": "a_mean", "run_name": "a", "run_type": "aggregate", "aggregate_name": "mean", "real_time": 9,
		 "time_unit": "us"},
		{"name": "a_median", "run_name": "a", "run_type": "aggregate", "aggregate_name": "median", "real_time": 7,
		 "time_unit": "us"},
		{"name": "old", "iterations": 5, "real_time": 3, "cpu_time": 2}]}`))
	wantShown(t, "aggregates only, and an old row", s, err, "a: time 7e-06 s <1", "old: time 3e-09 s <1 cpu 2e-09 s <1")
}

func TestPattern(t *testing.T) {
	s, err := parse(t, `(?m)^(?P<name>\S+) took (?P<value>\S+?) ?(?P<unit>[a-z]*(?:/s)?)$`,
		[]byte("start\nparse took 12.5 ms\nparse took 13.5ms\nload took 3 ops/s\nnothing took 0 s\n"))
	wantShown(t, "pattern", s, err, "parse: value 0.013 s <2", "load: value 3 ops/s >1",
		"left: nothing value: 0 is no figure that can be compared")
	s, err = parse(t, `(?P<name>\w+)=(?P<value>\d+)`, []byte("a=1 b=2"))
	wantShown(t, "without a unit", s, err, "a: value 1  <1", "b: value 2  <1")
	for _, c := range [][2]string{{"nothing", `no format "nothing"; there are: go, criterion`},
		{"gogle", `did you mean "google"`}, {"(", "missing closing"}, {"(a)", "needs the groups"}, {"(?P<name>a)" + strings.Repeat("()", 10), "11 groups"},
		{"(?P<name>a)(?P<value>" + strings.Repeat("b", 5000) + ")", "5022 bytes"}} {
		if _, err := New(c[0]); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("New(%.40q): %v, want %q", c[0], err, c[1])
		}
	}
}

func TestRefused(t *testing.T) {
	long := strings.Repeat("X", MaxName+1)
	for _, c := range []struct{ format, out, want string }{
		{"go", "PASS\n", "no benchmark; Go prints"},
		{"go", "Benchmark" + long + " 9 1 ns/op\n", "line 1: the name of a case has 310 bytes, at most 300"},
		{"go", "BenchmarkX 9 NaN ns/op\n", "no benchmark has a figure to compare: BenchmarkX time: NaN"},
		{"go", "BenchmarkX 9 1e999 ns/op\n", "+Inf is no figure"},
		{"go", "BenchmarkX 9 -1 ns/op\n", "-1e-09 is no figure"},
		{"go", "Benchmark\xff 9 1 ns/op\n", "is not UTF-8"},
		{"criterion", "", "no benchmark; criterion prints"},
		{"criterion", "x  time: [1 ns 2 ns]\n", "line 1: expected three figures"},
		{"criterion", "x  time: [1 ns two ns 3 ns]\n", `line 1: "two" is not a number`},
		{"criterion", "        time: [1 ns 2 ns 3 ns]\n", "line 1: a case has no name"},
		{"criterion", `{"a": 1}`, "neither a message"},
		{"criterion", "{\"reason\":\"x\"}\n{\"reason\":", "line 2 is not JSON"},
		{"jmh", "no", "no JSON document; run JMH with -rf json"},
		{"jmh", "[]", "the output has no benchmark"},
		{"jmh", `[{"benchmark": ""}]`, "it has no primaryMetric"},
		{"jmh", `[{"benchmark": " ", "primaryMetric": {"score": 1, "scoreUnit": "s/op"}}]`,
			"result 1: a case has no name"},
		{"pytest", `{"benchmarks": [{"name": "a", "stats": {"median": null}}]}`, "a time: NaN"},
		{"pytest", `{"benchmarks": [{"name": "a", "stats": {"median": NaN}}]}`, "not JSON"},
		{"google", `{"benchmarks": [{"name": "a", "error_occurred": true, "error_message": "m"}]}`,
			"it did not run to its end: m"},
		{"google", `{"benchmarks": [{"run_name": "a", "run_type": "aggregate", "aggregate_name": "mean"}]}`,
			"the median is used"},
		{"google", `{"benchmarks": [{"name": 5}]}`, "benchmark 1: json"},
		{`(?P<name>a)(?P<value>b)`, "ab", `match 1: the group value is "b"`},
		{`(?P<name>a)(?P<value>b)`, "c", "no match"},
		{"go", strings.Repeat("x", MaxBytes+1), "at most 8 MiB"},
	} {
		if s, err := parse(t, c.format, []byte(c.out)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60q: %+v, %v; want %q", c.format, c.out, s, err, c.want)
		}
	}
}

// TestBounds holds that a suite is never larger than it may be, and says what it lost.
func TestBounds(t *testing.T) {
	lines := func(n int, line func(i int) string) []byte {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return []byte(b.String())
	}
	if _, err := parse(t, "go", lines(MaxCases+1, func(i int) string {
		return fmt.Sprintf("Benchmark%d 1 1 ns/op\n", i)
	})); err == nil || !strings.Contains(err.Error(), "more than 4000 cases") {
		t.Errorf("cases: %v", err)
	}
	if _, err := parse(t, "go", lines(MaxValues+1, func(int) string { return "BenchmarkX 1 1 ns/op\n" })); err == nil ||
		!strings.Contains(err.Error(), "more than 100000") {
		t.Errorf("values: %v", err)
	}
	s, err := parse(t, "go", lines(1, func(int) string {
		line := "BenchmarkX 1 1 ns/op"
		for i := range MaxFigures + MaxLeft {
			line += fmt.Sprintf(" 1 u%d", i)
		}
		return line + "\n"
	}))
	if err != nil || len(s.Cases[0].Figures) != MaxFigures || len(s.Left) != MaxLeft || s.More != 1 {
		t.Errorf("figures: %d, %d, %v", len(s.Left), s.More, err)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		v      float64
		u      string
		want   float64
		wanted string
		better unit.Better
	}{
		{2, "ms", 2e-3, "s", unit.Lower}, {2, "µs/op", 2e-6, "s", unit.Lower}, {3, "KiB", 3072, "B", unit.Lower},
		{3, "MB/s", 3e6, "B/s", unit.Higher}, {3, "ops/ms", 3000, "ops/s", unit.Higher},
		{3, "ops/min", 0.05, "ops/s", unit.Higher}, {2, "Gelem/s", 2e9, "elem/s", unit.Higher},
		{2, "Kmelons", 2, "Kmelons", unit.Lower}, {2, "allocs/op", 2, "allocs/op", unit.Lower},
		{2, "", 2, "", unit.Lower}, {2, " ns ", 2e-9, "s", unit.Lower}, {2, "ns/frame", 2, "ns/frame", unit.Lower},
	} {
		f := normal(c.v, c.u)
		if math.Abs(f.Value-c.want) > 1e-12*c.want || f.Unit != c.wanted || f.Better != c.better {
			t.Errorf("%v %q: %+v", c.v, c.u, f)
		}
	}
}

// FuzzParsers holds for every format and any output that a suite keeps what its type promises.
func FuzzParsers(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 7 {
		f.Fatal("the samples are missing", err)
	}
	for _, name := range files {
		f.Add(sample(f, filepath.Base(name)))
	}
	f.Add([]byte("BenchmarkX-8 9 NaN ns/op 0 B/op\n"))
	f.Add([]byte("0 time:[0 00 1 \xb5 0 0]"))
	formats := []string{`(?P<name>[^=]*)=(?P<value>\S*)(?P<unit> \S*)?`}
	for _, x := range Formats() {
		formats = append(formats, x.Name)
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, format := range formats {
			s, err := parse(t, format, out)
			if err != nil {
				if s != nil || err.Error() == "" {
					t.Fatalf("%s: %v with %+v", format, err, s)
				}
				continue
			}
			check(t, format, s)
		}
	})
}

func check(t *testing.T, format string, s *Suite) {
	t.Helper()
	if len(s.Cases) == 0 || len(s.Cases) > MaxCases || len(s.Left) > MaxLeft || s.More > 0 && len(s.Left) < MaxLeft {
		t.Fatalf("%s: %d cases, %d and %d left out", format, len(s.Cases), len(s.Left), s.More)
	}
	lines, without := s.Lines(format, true)
	named := map[string]bool{}
	var wanted []Selector
	for _, l := range lines {
		part := strings.SplitN(l.Text, ":", 5)
		if len(part) < 5 || part[0] != l.Name || named[l.Name] {
			t.Fatalf("%s: %+v", format, l)
		}
		named[l.Name] = true
		w, err := ParseWanted(part[3], part[4])
		if err != nil || w.Format != format {
			t.Fatalf("%s: %+v of %q: %v", format, w, l.Text, err)
		}
		wanted = append(wanted, w)
	}
	if _, err := s.Find(wanted); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	if len(lines)+len(without) < len(s.Cases) {
		t.Fatalf("%s: %d and %d lines of %d cases", format, len(lines), len(without), len(s.Cases))
	}
	seen := map[string]bool{}
	for _, c := range s.Cases {
		if seen[c.Name] || checkName("case", c.Name) != nil || !utf8.ValidString(c.Name) || len(c.Figures) == 0 ||
			len(c.Figures) > MaxFigures {
			t.Fatalf("%s: %+v", format, c)
		}
		seen[c.Name] = true
		for _, x := range c.Figures {
			if !(x.Value > 0) || math.IsInf(x.Value, 0) || x.Repeats < 1 || checkName("figure", x.Name) != nil ||
				x.Better != unit.Lower && x.Better != unit.Higher {
				t.Fatalf("%s: %s: %+v", format, c.Name, x)
			}
		}
	}
}

// TestShared: cases that all suites have, with the same unit; the others are named for each suite.
func TestShared(t *testing.T) {
	read := func(text string) *Suite {
		s, err := parse(t, "go", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := read("BenchmarkA-8 10 5 ns/op\nBenchmarkB-8 10 5 ns/op\nBenchmarkC-8 10 5 widgets\nBenchmarkD-8 1 1 ns/op\n")
	b := read("BenchmarkD-2 10 7 ns/op\nBenchmarkA-2 10 7 ns/op\nBenchmarkE-2 10 7 ns/op\n")
	shared, only := Shared([]*Suite{a, b})
	var names []string
	for _, c := range shared.Cases {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"BenchmarkA", "BenchmarkD"}) || len(only) != 2 ||
		!slices.Contains(only[0], "BenchmarkB") || !slices.Equal(only[1], []string{"BenchmarkE"}) {
		t.Errorf("shared %q, only %q", names, only)
	}
	if shared, _ := Shared([]*Suite{b, read("BenchmarkX 10 7 ns/op\n")}); len(shared.Cases) != 0 {
		t.Errorf("%+v", shared)
	}
}

// read has a suite parsed that must be right.
func read(t *testing.T, format, out string) *Suite {
	t.Helper()
	s, err := parse(t, format, []byte(out))
	if err != nil {
		t.Fatalf("%s: %v in\n%s", format, err, out)
	}
	return s
}

// TestLines holds the names of metrics, and that each line is read as what it was made of.
func TestLines(t *testing.T) {
	for _, c := range []struct{ format, file, line string }{
		{"go", "go.txt", `sum_10:s:lower:go:"BenchmarkSum/10" "time"`},
		{"pytest", "pytest.json", `test_sample_py_test_sum_10:s:lower:pytest:"`},
		{"google", "google.json", `bm_copy_64:s:lower:google:"BM_copy/64" "time"`},
		{"criterion", "criterion.ndjson", `norm:s:lower:criterion:"norm" "time"`},
		{"criterion", "criterion.txt", `fib_20:s:lower:criterion:"fib 20" "time"`},
		{"criterion", "estimates.json", `estimates_json:s:lower:criterion:"estimates.json" "time"`},
		{"jmh", "jmh.json", `org_example_strings_join_avgt_size_10:s:lower:jmh:"org.example.Strings.join avgt size=10" "time"`},
		{`(?m)^Benchmark(?P<name>\S+?)(?:-\d+)?\s+\d+\s+(?P<value>[0-9.]+) (?P<unit>\S+)`, "go.txt",
			`sum_10:s:lower:each:"Sum/10" "value" (?m)^Benchmark(?P<name>`},
	} {
		s := read(t, c.format, string(sample(t, c.file)))
		check(t, c.format, s)
		if lines, without := s.Lines(c.format, false); len(without) > 0 || len(lines) != len(s.Cases) ||
			!strings.HasPrefix(lines[0].Text, c.line) {
			t.Errorf("%s: %+v, without %q; want %s", c.file, lines[0], without, c.line)
		}
	}
	names := func(taken string, of ...string) (out string) {
		s := &Suite{}
		for _, name := range of {
			s.Cases = append(s.Cases, Case{Name: name, Figures: []Figure{{Name: "time", Unit: "s"}}})
		}
		lines, _ := s.Lines("go", false, taken)
		for _, l := range lines {
			out += " " + l.Name
			if !l.Plain {
				out += "!"
			}
		}
		return strings.TrimSpace(out)
	}
	x := strings.Repeat("x", 40)
	for got, want := range map[string]string{
		names("seconds", "BenchmarkA/b=1", "BenchmarkA_b-1", "7", "Ω", "seconds"): "a_b_1 a_b_1_2! b_7 b! seconds_2!",
		names("", "BenchmarkGet", "BenchmarkGET"):                                 "get get_2!",
		names("", x+x+"a"): "xx",
		names("", x+"."+x+".run kind=a", x+"."+x+".run kind=b",
			x+"."+x+".walk kind=a"): "run_kind_a run_kind_b walk_kind_a",
	} {
		if strings.HasPrefix(want, "xx") {
			if len(got) != 59 || !strings.HasSuffix(got, "xa!") {
				t.Errorf("%q", got)
			}
		} else if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, bad := range []string{`BenchmarkX time`, `"X"`, `"X" "time" more`, `"" "time"`, `"X" ""`, `"X`} {
		if w, err := ParseWanted("go", bad); err == nil {
			t.Errorf("%s is read as %+v", bad, w)
		}
	}
}

// TestFindsTheSameCaseElsewhere: what is found in another run, where units, order and other cases have changed; nothing
// where the case is not there.
func TestFindsTheSameCaseElsewhere(t *testing.T) {
	const jmh = `[{"benchmark":"X.a","mode":"avgt","params":{"z":"1","b":"%s"},"primaryMetric":{"score":%s,"scoreUnit":"%s"}},
		{"benchmark":"X.plain","mode":"avgt","primaryMetric":{"score":3.5E-4,"scoreUnit":"us/op"}}]`
	const event = `{"Action":"output","Package":"%s","Output":%q}` + "\n"
	pattern := `(?P<name>\w+)=(?P<value>[0-9.]+) ?(?P<unit>\w*)`
	for _, c := range []struct {
		format, here, there string
		want                map[string]float64 // by case; 0: it finds nothing
	}{
		{"criterion", "a b  time: [1.0 ms 1.5 ms 2.0 ms]\na very long name\n   time: [1 ns 2 ns 3 ns]\n",
			"Benchmarking a b\na b  time: [900 µs 950 µs 1.0 ms]\na very long name\n\ttime: [1 µs 2 µs 3 µs]\n",
			map[string]float64{"a b": 950e-6, "a very long name": 2e-6}},
		{"criterion", "b  time: [1.0 ms 1.5 ms 2.0 ms]\n", "a b  time: [1.0 ms 1.5 ms 2.0 ms]\n",
			map[string]float64{"b": 0}},
		{"criterion",
			"test fib_20 ... bench:      26,251 ns/iter (+/- 246)\ntest io ... bench: 2.5 ms/iter (+/- 1) = 9 MB/s\n",
			"running 2 tests\ntest io ... bench: 3 ms/iter (+/- 1)\ntest fib_20 ... bench: 1,026,251 ns/iter (+/- " +
				"246)\n",
			map[string]float64{"fib_20": 1026251e-9, "io": 3e-3}},
		{"jmh", fmt.Sprintf(jmh, "2", "7.25", "ns/op"), fmt.Sprintf(jmh, "2", "8.5", "ms/op"),
			map[string]float64{"X.a avgt b=2 z=1": 8.5e-3, "X.plain avgt": 3.5e-10}},
		{"jmh", fmt.Sprintf(jmh, "2", "7.25", "ns/op"), fmt.Sprintf(jmh, "3", "8.5", "ns/op"),
			map[string]float64{"X.a avgt b=2 z=1": 0, "X.plain avgt": 3.5e-10}},
		{pattern, "ba=2 ms, a=1.5ms, c=3 apples, d=4", "c=6 apples, ba=3 ms, d=5, a=900us",
			map[string]float64{"ba": 3e-3,
				"a": 900e-6, "c": 6, "d": 5}},
		{"go", "BenchmarkWork-4 9 400 ns/op\nBenchmarkWork 9 100 ns/op\n",
			"BenchmarkWork-4 9 400 ns/op\nBenchmarkWork 9 200 ns/op\n",
			map[string]float64{"BenchmarkWork-4": 400e-9, "BenchmarkWork": 200e-9}},
		{"go", "BenchmarkWork-4 9 400 ns/op\nBenchmarkWork 9 100 ns/op\n", "BenchmarkWork-4 9 400 ns/op\n",
			map[string]float64{"BenchmarkWork-4": 400e-9, "BenchmarkWork": 0}},
		{"go", "BenchmarkA-8 9 4 ns/op\nBenchmarkA-8 9 6 ns/op\nBenchmarkA-8 9 5 ns/op\n",
			"BenchmarkA-2 9 40 ns/op\nBenchmarkA-2 9 60 ns/op\nBenchmarkA-2 9 50 ns/op\n",
			map[string]float64{"BenchmarkA": 50e-9}},
		{"go", "pkg: a\nBenchmarkX-8 9 4 ns/op\npkg: b\nBenchmarkX-8 9 6 ns/op\n",
			"pkg: b\nBenchmarkX-4 9 7 ns/op\npkg: a\nBenchmarkX-4 9 5 ns/op\n",
			map[string]float64{"a.BenchmarkX": 5e-9, "b.BenchmarkX": 7e-9}},
		{"go",
			"BenchmarkA-8 \t 1000\t 1000 ns/op\nBenchmarkB-8 \tstarting\nmore\n    1000\t 2000 ns/op\t 3 " +
				"B/op\nBenchmarkC-8 9 3 ns/op\n",
			"BenchmarkA-8 \t 1000\t 1000 ns/op\nBenchmarkB-8 1 4000 ns/op\nBenchmarkC-8 9 3 ns/op\n",
			map[string]float64{"BenchmarkA": 1e-6, "BenchmarkB": 4e-6, "BenchmarkC": 3e-9}},
		{"go", fmt.Sprintf(event, "a", "BenchmarkX-8 \t") + fmt.Sprintf(event, "b", "BenchmarkY-8 \t") +
			fmt.Sprintf(event, "a", " 9\t 4 ns/op\n") + fmt.Sprintf(event, "b", " 9\t 6 ns/op\n") + `{"Action":"pass"}`,
			"pkg: a\nBenchmarkX-8 9 5 ns/op\npkg: b\nBenchmarkY-8 9 7 ns/op\n",
			map[string]float64{"a.BenchmarkX": 5e-9, "b.BenchmarkY": 7e-9}},
		{"go", "BenchmarkA 9 3 MB/s\nBenchmarkB 9 2 ms/op\n", "BenchmarkA 9 2500 kB/s\nBenchmarkB 9 900 us/op\n",
			map[string]float64{"BenchmarkA": 2.5e6, "BenchmarkB": 9e-4}},
		{"pytest", `{"benchmarks": [{"fullname": "t[3]", "params": {"median": 3}, "stats": {"median": 0.5}},
			{"stats": {"median": 5.0}, "extra_info": {"median": 42}, "fullname": "t.gr\u00f6\u00dfe"}]}`,
			`{"benchmarks": [{"stats": {"median": 6.0}, "fullname": "t.größe"}, {"fullname": "t[3]", "params": {"median": 3},
			"stats": {"median": 0.25}}]}`, map[string]float64{"t[3]": 0.25, "t.größe": 6}},
	} {
		s := read(t, c.format, c.here)
		lines, without := s.Lines(c.format, false)
		if len(lines) != len(c.want) || len(without) > 0 {
			t.Errorf("%s: without %q\n%+v", c.format, without, lines)
		}
		there := read(t, c.format, c.there)
		var all []Selector
		for _, l := range lines {
			part := strings.SplitN(l.Text, ":", 5)
			w, err := ParseWanted(part[3], part[4])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
		}
		for _, w := range all {
			// The others are wanted as well, as in a trial, but for those that are not there.
			wanted := []Selector{w}
			for _, other := range all {
				if other.Case != w.Case && c.want[other.Case] > 0 {
					wanted = append(wanted, other)
				}
			}
			values, err := there.Find(wanted)
			switch want := c.want[w.Case]; {
			case want == 0 && err == nil:
				t.Errorf("%s: finds %v for %s", c.format, values[0], w.Case)
			case want > 0 && (err != nil || math.Abs(values[0]-want) > 1e-9*want):
				t.Errorf("%s: %s finds %v, %v; want %v", c.format, w.Case, values, err, want)
			}
		}
	}
}

// TestBrokenLine: a benchmark that prints and then has no figures is told of.
func TestBrokenLine(t *testing.T) {
	s := read(t, "go", "BenchmarkA-8\tstarting\nBenchmarkB-8 9 3 ns/op\n")
	if len(s.Left) != 1 || s.Left[0].Case != "BenchmarkA-8" || !strings.Contains(s.Left[0].Why,
		"broken by what it printed") {
		t.Errorf("%+v", s.Left)
	}
}

// TestManyCases: all cases of a long file are found.
func TestManyCases(t *testing.T) {
	var b strings.Builder
	for i := range 666 {
		fmt.Fprintf(&b, `,{"benchmark":"x.B%d.run","mode":"ss","primaryMetric":{"score":%d,"scoreUnit":"ms/op","rawData":[[%s1]]}}`,
			i, i+1, strings.Repeat("1.0,", 600))
	}
	s := read(t, "jmh", "["+b.String()[1:]+"]")
	if lines, without := s.Lines("jmh", false); len(lines) != 666 || len(without) > 0 {
		t.Errorf("%d lines, %d without", len(lines), len(without))
	}
}

// FuzzPatterns holds that no expression of a user's breaks anything.
func FuzzPatterns(f *testing.F) {
	f.Add(`(?P<name>\w+)=(?P<value>\d+)`, []byte("a=1"))
	f.Fuzz(func(t *testing.T, format string, out []byte) {
		p, err := New(format)
		if err != nil {
			return
		}
		if s, err := p(out); err == nil {
			check(t, format, s)
		}
	})
}
