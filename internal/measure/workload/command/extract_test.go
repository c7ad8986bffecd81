package command

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func output(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestPresetsReadRealOutput compares with figures read by eye (fio's with jq) from what the programs of Debian 12
// printed.
func TestPresetsReadRealOutput(t *testing.T) {
	for _, c := range []struct {
		preset, file string
		want         map[string]float64
		warnings     int
	}{
		{"fio", "fio-randread.json", map[string]float64{
			"fio_iops": 16253.968254, "fio_mib_per_second": 66576253.0 / (1 << 20), "fio_read_iops": 16253.968254,
			"fio_read_mib_per_second": 66576253.0 / (1 << 20), "fio_read_latency_ns": 55618.915039,
			"fio_read_p99_ns": 257024}, 0},
		{"iperf3", "iperf3-tcp.json", map[string]float64{"iperf3_bits_per_second": 34519135380.04125}, 0},
		{"iperf3", "iperf3-udp.json", map[string]float64{"iperf3_bits_per_second": 50062595.36184007,
			"iperf3_jitter_ms": 0.003266126811116524}, 0},
		{"sysbench", "sysbench-cpu.txt", map[string]float64{"sysbench_events_per_second": 5246.86,
			"sysbench_latency_ms": 0.38, "sysbench_p95_ms": 0.32}, 0},
		{"sysbench", "sysbench-memory.txt", map[string]float64{"sysbench_events_per_second": 5994366 / 1.0001,
			"sysbench_transferred_mib_per_second": 5849.37}, 0},
		{"sysbench", "sysbench-threads.txt", map[string]float64{"sysbench_events_per_second": 1683 / 1.0003,
			"sysbench_latency_ms": 0.59, "sysbench_p95_ms": 0.61}, 0},
		{"sysbench", "sysbench-fileio.txt", map[string]float64{"sysbench_events_per_second": 126047 / 1.0004,
			"sysbench_latency_ms":          0.01,
			"sysbench_read_mib_per_second": 1135.04, "sysbench_written_mib_per_second": 756.69}, 0},
		{"wrk", "wrk.txt", map[string]float64{"wrk_requests_per_second": 47857.16,
			"wrk_bytes_per_second": 38.79 * (1 << 20), "wrk_latency_ms": 0.09147,
			"wrk_p50_ms": 0.079, "wrk_p99_ms": 0.167}, 0},
		{"wrk", "wrk-404.txt", map[string]float64{"wrk_requests_per_second": 57068.78,
			"wrk_bytes_per_second": 16.76 * (1 << 20), "wrk_latency_ms": 0.073}, 1},
		{"pgbench", "pgbench.txt", map[string]float64{"pgbench_tps": 2315.773468, "pgbench_latency_ms": 0.864,
			"pgbench_connect_ms": 4.417}, 0},
		{"pgbench", "pgbench-t100.txt", map[string]float64{"pgbench_tps": 1871.082421, "pgbench_latency_ms": 0.534,
			"pgbench_connect_ms": 2.491}, 0},
		{"pgbench", "pgbench-connect.txt", map[string]float64{"pgbench_tps": 339.835520, "pgbench_latency_ms": 2.943},
			0},
	} {
		ex, err := newExtractor(c.preset, "")
		if err != nil {
			t.Fatal(err)
		}
		f, err := ex.extract(output(t, c.file))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		compare(t, c.file, f.values, c.want)
		if len(f.warnings) != c.warnings {
			t.Errorf("%s: warnings %v, want %d", c.file, f.warnings, c.warnings)
		}
		if _, ok := f.values[ex.metrics()[0].Name]; !ok {
			t.Errorf("%s: the headline %s is missing", c.file, ex.metrics()[0].Name)
		}
	}
}

func compare(t *testing.T, what string, got, want map[string]float64) {
	t.Helper()
	for name, w := range want {
		if g := got[name]; math.Abs(g-w) > 1e-9*w {
			t.Errorf("%s: %s is %v, want %v", what, name, g, w)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s = %v is not expected", what, name, g)
		}
	}
}

// TestFIOJobsAreSummed holds two jobs of reads and writes against sums over the same document.
func TestFIOJobsAreSummed(t *testing.T) {
	out := output(t, "fio-randrw.json")
	f, err := parseFIO(out)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(pointers ...string) (s float64) {
		for _, p := range pointers {
			path, err := parsePointer(p)
			if err != nil {
				t.Fatal(err)
			}
			v, err := numberAt(out, path)
			if err != nil {
				t.Fatal(err)
			}
			s += v
		}
		return s
	}
	for name, want := range map[string]float64{
		"fio_read_iops": sum("/jobs/0/read/iops", "/jobs/1/read/iops"),
		"fio_iops": sum("/jobs/0/read/iops", "/jobs/1/read/iops", "/jobs/0/write/iops",
			"/jobs/1/write/iops"),
		"fio_write_mib_per_second": sum("/jobs/0/write/bw_bytes", "/jobs/1/write/bw_bytes") / (1 << 20),
		"fio_write_p99_ns": max(sum("/jobs/0/write/clat_ns/percentile/99.000000"),
			sum("/jobs/1/write/clat_ns/percentile/99.000000")),
	} {
		if got := f.values[name]; math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

func TestPresetsRefuseWhatIsNoResult(t *testing.T) {
	for _, c := range []struct{ preset, out, want string }{
		{"iperf3", string(output(t, "iperf3-refused.json")), "Connection refused"},
		{"iperf3", `{"end":{}}`, "received nothing"},
		{"fio", "fio: file not found\n", "--output-format=json"},
		{"fio", `{"jobs":[]}`, "no jobs"},
		{"fio", `{"jobs":[{"error":28,"jobname":"w"}]}`, "error 28"},
		{"fio", `{"jobs":[{"jobname":"w"}]}`, "neither read nor wrote"},
		{"sysbench", "FATAL: something\n", "not a report of sysbench"},
		{"wrk", "unable to connect\n", "not a report of wrk"},
		{"pgbench", "pgbench: error: connection refused", "not a report of pgbench"},
		{"pgbench", "number of transactions actually processed: 7/10\ntps = 3.5 (without initial connection time)\n",
			"7 of 10"},
	} {
		ex, err := newExtractor(c.preset, "")
		if err != nil {
			t.Fatal(err)
		}
		if f, err := ex.extract([]byte(c.out)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q gave %v, %v; want an error with %q", c.preset, c.out, f, err, c.want)
		}
	}
}

// TestPgbenchBefore14 reads the two lines that the manual of PostgreSQL 13 shows.
func TestPgbenchBefore14(t *testing.T) {
	f, err := parsePgbench([]byte("latency average = 11.013 ms\ntps = 896.967014 (including connections " +
		"establishing)\ntps = 924.113364 (excluding connections establishing)\n"))
	if err != nil || f.values["pgbench_tps"] != 924.113364 {
		t.Errorf("got %v, %v", f, err)
	}
}

func TestUserMetrics(t *testing.T) {
	out := []byte("note: starting\n{\"a/b\": {\"m~n\": [1, 2.5, \"7e3\"]}, \"big\": 12345678901234567890, \"no\": " +
		"null}\nrate=12.5 MB\n")
	for _, c := range []struct {
		spec string
		want float64
		err  string
	}{
		{`x:ops/s:higher:json:/a~1b/m~0n/1`, 2.5, ""},
		{`x:ops/s:higher:json:/a~1b/m~0n/2`, 7000, ""},
		{`x:ops/s:higher:json:/big`, 12345678901234567890, ""},
		{`x:ops/s:higher:json:/a~1b/m~0n/3`, 0, "list has 3 entries"},
		{`x:ops/s:higher:json:/a~1b/m~0n/01`, 0, "list has 3 entries"},
		{`x:ops/s:higher:json:/no`, 0, "not a number"},
		{`x:ops/s:higher:json:/none`, 0, "nothing at /none"},
		{`rate:MB/s:higher:re:rate=([0-9.]+)`, 12.5, ""},
		{`rate:MB/s:higher:re:(?m)^(rate)=`, 0, "not a number"},
		{`rate:MB/s:higher:re:speed=(\d+)`, 0, "no match"},
		{`rate:MB/s:higher:re:(\d):(\d)`, 0, "no match"},
	} {
		ex, err := newExtractor(presetNone, c.spec)
		if err != nil {
			t.Errorf("%s: %v", c.spec, err)
			continue
		}
		f, err := ex.extract(out)
		switch {
		case c.err == "" && (err != nil || f.values[ex.metrics()[0].Name] != c.want):
			t.Errorf("%s: %v, %v; want %v", c.spec, f, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: error %v, want one with %q", c.spec, err, c.err)
		}
	}
	for _, bad := range []string{
		"x", "x:y:higher:re", "X:s:lower:re:(a)", "x:s:best:re:(a)", "x:s:lower:re:a", "x:s:lower:re:(",
		"x:s:lower:xml:/a", "x:s:lower:json:a", "x:s:lower:json:/a~2",
		"x:s:lower:json:/a~", "seconds:s:lower:re:(a)", "x:s:lower:re:(a)\nx:s:lower:re:(b)",
	} {
		if _, err := newExtractor(presetNone, bad); err == nil {
			t.Errorf("metric %q is accepted", bad)
		}
	}
	if ex, err := newExtractor(presetNone, " \n"); ex != nil || err != nil {
		t.Errorf("no metric gave %v, %v", ex, err)
	}
}

// TestPointersOfRFC6901 is the table of the RFC's section 5, for the members that are numbers.
func TestPointersOfRFC6901(t *testing.T) {
	doc := []byte(`{"": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8}`)
	for pointer, want := range map[string]float64{"/": 0, "/a~1b": 1, "/c%d": 2, "/e^f": 3, "/g|h": 4, `/i\j`: 5,
		`/k"l`: 6, "/ ": 7, "/m~0n": 8} {
		path, err := parsePointer(pointer)
		if err != nil {
			t.Errorf("%q: %v", pointer, err)
			continue
		}
		if got, err := numberAt(doc, path); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", pointer, got, err, want)
		}
	}
}

// TestHostileJSONIsBounded feeds what would make a careless search for the document quadratic.
func TestHostileJSONIsBounded(t *testing.T) {
	for _, line := range []string{"[\n", "[\n\n", "{", "[", "\n"} {
		out := bytes.Repeat([]byte(line), maxOutput/len(line))
		if _, err := numberAt(out, nil); err == nil {
			t.Errorf("%q repeated is taken for a number", line)
		}
	}
}

func FuzzPresets(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 10 {
		f.Fatal("the captured outputs are missing", err)
	}
	for _, name := range files {
		f.Add(output(f, filepath.Base(name)))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, p := range presets() {
			got, err := p.extract(out[:min(len(out), maxOutput)])
			if err != nil {
				continue
			}
			if !(got.values[p.figures[0].Name] > 0) {
				t.Errorf("%s: no error and no headline: %v", p.name, got.values)
			}
			declared := map[string]bool{}
			for _, m := range p.figures {
				declared[m.Name] = true
			}
			for name, v := range got.values {
				if !declared[name] || !(v > 0) || math.IsInf(v, 0) {
					t.Errorf("%s: %s = %v", p.name, name, v)
				}
			}
		}
	})
}

func FuzzPointer(f *testing.F) {
	f.Add("/a~1b/0", []byte(`{"a/b":[1]}`))
	f.Add("", []byte("7"))
	f.Fuzz(func(t *testing.T, pointer string, doc []byte) {
		path, err := parsePointer(pointer)
		if err != nil {
			return
		}
		if v, err := numberAt(doc, path); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("%q in %q is %v", pointer, doc, v)
		}
	})
}

func FuzzMetricLine(f *testing.F) {
	f.Add("x:ops/s:higher:json:/a/0", []byte(`{"a":[3]}`))
	f.Add(`rate:MB/s:higher:re:rate=([0-9.]+)`, []byte("rate=7"))
	f.Fuzz(func(t *testing.T, spec string, out []byte) {
		ex, err := newExtractor(presetNone, spec)
		if err != nil || ex == nil {
			return
		}
		if got, err := ex.extract(out); err == nil && len(got.values) != len(ex.metrics()) {
			t.Errorf("%q: %d figures of %d without an error", spec, len(got.values), len(ex.metrics()))
		}
	})
}

func TestSplitWords(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"", nil}, {"  \t\n", nil}, {"a b  c", []string{"a", "b", "c"}}, {`a\ b c`, []string{"a b", "c"}},
		{`'a "b' c`, []string{`a "b`, "c"}},
		{`"a\"b\n$x\$"`, []string{`a"b\n$x$`}}, {`''`, []string{""}}, {`a''b""c`, []string{"abc"}},
		{"a\\\nb", []string{"ab"}}, {`\'`, []string{"'"}},
	} {
		got, err := splitWords(c.line)
		if err != nil || strings.Join(got, "\x00") != strings.Join(c.want, "\x00") || len(got) != len(c.want) {
			t.Errorf("%q: %q, %v; want %q", c.line, got, err, c.want)
		}
	}
	for _, bad := range []string{"'a", `"a`, `a\`, `"a\"`} {
		if got, err := splitWords(bad); err == nil {
			t.Errorf("%q is split into %q", bad, got)
		}
	}
	if _, err := commandLine(shellNone, " "); err == nil {
		t.Error("an empty command line is accepted")
	}
	if _, err := commandLine(shellDefault, "a\x00b"); err == nil {
		t.Error("a zero byte is accepted")
	}
	if argv, err := commandLine("bash --norc", "echo a"); err != nil ||
		strings.Join(argv, "|") != "bash|--norc|-c|echo a" {
		t.Errorf("%q, %v", argv, err)
	}
}

// FuzzSplitWords quotes the words again and wants the same words back.
func FuzzSplitWords(f *testing.F) {
	f.Add(`a 'b c' "d\"e" f\ g`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitWords(line)
		if err != nil {
			return
		}
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := splitWords(strings.Join(quoted, " "))
		if err != nil || strings.Join(again, "\x00") != strings.Join(words, "\x00") || len(again) != len(words) {
			t.Errorf("%q gives %q and, quoted, %q, %v", line, words, again, err)
		}
	})
}

func TestPrintable(t *testing.T) {
	if got := printable([]byte("a\x1b[31mb\r\n\xff\tü\x00")); got != "a\\u001b[31mb\n\\xff\tü\\u0000" {
		t.Errorf("%q", got)
	}
}
