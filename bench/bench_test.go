package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/record"
	"tare/internal/sys/proc"
)

// number finds a number in hyperfine's report.
func number(t *testing.T, text, name string) float64 {
	t.Helper()
	var report struct{ Results []map[string]any }
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatal(err)
	}
	v, ok := report.Results[0][name].(float64)
	if !ok {
		t.Fatalf("there is no number %s in %s", name, text)
	}
	return v
}

func TestJudge(t *testing.T) {
	flat := func(v float64) []float64 { return slices.Repeat([]float64{v}, 10) }
	wobbling := []float64{90, 110, 95, 105, 92, 108, 97, 103, 99, 101} // median 100
	rate := figure{unit: "ops/s", goal: 0.98, agrees: true}
	lower := figure{unit: "s", goal: 1, atMost: true}
	for _, c := range []struct {
		name               string
		f                  figure
		tare, peer         []float64
		verdict, agreement string
	}{
		{"faster", rate, flat(120), flat(100), "met", "+20.0 %: they differ"},
		{"slower", rate, flat(90), flat(100), "missed", "-10.0 %: they differ"},
		{"same", rate, flat(101), flat(100), "met", "+1.0 %: agree"},
		{"within the spread", rate, flat(104), wobbling, "met", "+4.0 %: agree within the peer's spread"},
		{"below, in noise", rate, flat(97.5), wobbling, "missed, not surely", "-2.5 %: agree"},
		{"quicker", lower, flat(0.9), flat(1), "met", ""},
		{"equal is not above", lower, flat(1), flat(1), "met", ""},
		{"too slow", lower, flat(1.1), flat(1), "missed", ""},
		{"alone", figure{unit: "s", goal: 0.3, atMost: true}, flat(0.2), nil, "met", ""},
		{"alone, too slow", figure{unit: "s", goal: 0.3, atMost: true}, flat(0.4), nil, "missed", ""},
		{"alone, nothing used", figure{unit: "%", goal: 0.1, atMost: true}, flat(0), nil, "met", ""},
		{"few", rate, []float64{120, 120}, []float64{100, 100}, "met, not surely", "+20.0 %: they differ"},
		{"no goal", figure{unit: "s", agrees: true}, flat(1), flat(1), "", "+0.0 %: agree"},
	} {
		j := judge(c.f, c.tare, c.peer)
		if j.verdict != c.verdict || j.agreement != c.agreement {
			t.Errorf("%s: got %q, %q; want %q, %q", c.name, j.verdict, j.agreement, c.verdict, c.agreement)
		}
	}
	// The ratio is taken within pairs: what hits both sides of a pair does not touch it.
	tare, peer := slices.Clone(wobbling), slices.Clone(wobbling)
	for i := range tare {
		tare[i] *= 1.05
	}
	if e := judge(rate, tare, peer).estimate; e.Low < 1.0499 || e.High > 1.0501 {
		t.Errorf("got %v to %v, want 1.05", e.Low, e.High)
	}
}

// A goal that is nearer to 1 than two digits say has three, and its ratio four. A figure of tare's alone is no ratio.
func TestFigures(t *testing.T) {
	r := row{name: "r", peer: "p", figures: []figure{{name: "coarse", unit: "s", goal: 1.1, atMost: true},
		{name: "fine", unit: "s", goal: 1.002, atMost: true},
		{name: "alone", unit: "%", goal: 0.2, atMost: true, alone: true}}}
	side := func(v float64) [][]float64 {
		values := slices.Repeat([]float64{v}, 8)
		return [][]float64{values, values, values}
	}
	lines, _, _ := (&outcome{row: &r, tare: side(0.1), peer: side(0.1)}).lines()
	var got []string
	for _, l := range lines {
		got = append(got, strings.Join([]string{l[2], l[3], l[5], l[6]}, " | "))
	}
	want := []string{"100 ms | 1.000 (1.000 to 1.000) | at most 1.10 | met",
		"100 ms | 1.0000 (1.0000 to 1.0000) | at most 1.002 | met",
		"none | 0.100 % to 0.100 % | at most 0.200 % | met"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-list"}, 0, "fio-buffered"},
		{[]string{"-h"}, 0, "usage: go run ./bench"},
		{[]string{"no-such-row"}, 2, `no row "no-such-row"`},
		{[]string{"-pairs", "0"}, 2, "from 1 to 1000"},
		{[]string{"-length", "1ms"}, 2, "from 50ms to 1m"},
		{[]string{"-dir", "/no/such/directory", "agent-size"}, 1, "/no/such/directory"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), c.args, false, &out, &out); code != c.code ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("%v: code %d, %s; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}

func TestChoose(t *testing.T) {
	names := func(given ...string) string {
		chosen, err := choose(rows(), given)
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for _, r := range chosen {
			s = append(s, r.name)
		}
		return strings.Join(s, " ")
	}
	if got := names("hyperfine", "fio-direct"); got != "fio-direct hyperfine" {
		t.Errorf("got %s", got)
	}
	if got := names(agreement); strings.Contains(got, "hyperfine") || !strings.Contains(got,
		"fio-direct grid-psync-direct-seqread-4k") || !strings.Contains(got, "sysbench-cpu-1") {
		t.Errorf("got %s", got)
	}
	if got := strings.Fields(names(grid)); len(got) != 48 || !strings.HasPrefix(got[0], grid+"-") ||
		!strings.HasPrefix(got[47], grid+"-") {
		t.Errorf("the grid's rows are %v", got)
	}
	seen := map[string]bool{}
	for _, r := range rows() {
		if seen[r.name] || len(r.figures) == 0 || r.open == nil {
			t.Errorf("row %s is there twice, or does nothing", r.name)
		}
		seen[r.name] = true
	}
}

// simple is a row that needs no peer, for tests of what happens around rows.
func simple(open func(context.Context, *bench) (*contest, error)) row {
	return row{name: "simple", what: "nothing", peer: "nobody", figures: []figure{{unit: "s", goal: 1, atMost: true}},
		open: open}
}

func measured(t *testing.T, required bool, rows ...row) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := measure(t.Context(), settings{pairs: 6, length: time.Second, seed: 1, dir: t.TempDir()}, rows, required,
		&out, &out)
	return out.String(), err
}

func TestMissingPeer(t *testing.T) {
	r := simple(func(context.Context, *bench) (*contest, error) { return nil, errors.New("opened") })
	r.programs = []string{"no-such-program-as-this"}
	text, err := measured(t, false, r)
	if err != nil || !strings.Contains(text, "not run: no-such-program-as-this is not installed") {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := measured(t, true, r); err == nil || !strings.Contains(err.Error(), "TARE_REQUIRE") {
		t.Errorf("got %v although the peer is required", err)
	}
	late := simple(func(context.Context, *bench) (*contest, error) { return nil, missing{"it is Sunday"} })
	if text, err := measured(t, false, late); err != nil || !strings.Contains(text, "not run: it is Sunday") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestFailingSide(t *testing.T) {
	closed := 0
	r := simple(func(context.Context, *bench) (*contest, error) {
		return &contest{
			tare:  func(context.Context) ([]float64, error) { return []float64{1}, nil },
			peer:  func(context.Context) ([]float64, error) { return nil, errors.New("the peer is ill") },
			close: func() error { closed++; return nil },
		}, nil
	})
	text, err := measured(t, false, r)
	if err == nil || !strings.Contains(err.Error(), "run nobody: the peer is ill") ||
		!strings.Contains(text, "failed: run nobody") {
		t.Errorf("%v: %s", err, text)
	}
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
}

// Both sides run once in each pair, in an order that varies, and the warm-up is not counted.
func TestPairs(t *testing.T) {
	var order []string
	count := func(who string, v float64) side {
		return func(context.Context) ([]float64, error) {
			order = append(order, who)
			if len(order) <= 2 {
				return []float64{1000}, nil
			}
			return []float64{v}, nil
		}
	}
	r := simple(func(context.Context, *bench) (*contest, error) {
		return &contest{tare: count("t", 2), peer: count("p", 1)}, nil
	})
	text, err := measured(t, false, r)
	if err != nil || !strings.Contains(text, "2.000 (2.000 to 2.000)") || !strings.Contains(text, "| missed ") {
		t.Errorf("%v: %s", err, text)
	}
	firsts := map[string]bool{}
	for i := 0; i < len(order); i += 2 {
		if order[i] == order[i+1] {
			t.Errorf("pair %d is %v", i/2, order[i:i+2])
		}
		firsts[order[i]] = true
	}
	if len(order) != 14 || len(firsts) != 2 {
		t.Errorf("the order was %v", order)
	}
}

// A run replaces the last one of the same kind of processor and leaves those of others; of several kinds a table stands
// side by side.
func TestInsert(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.md")
	if err := os.WriteFile(path, []byte("# A\n"+beginMark+"\n"+endMark+"\nend\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	result := func(ratio, medians string) string {
		var b strings.Builder
		writeTable(&b, [][]string{columns, {"copy", "2", "1", ratio, "1 %", "at least 1", "met", medians}})
		return "Measured today.\n\n" + b.String()
	}
	for _, r := range []struct{ processor, text string }{
		{"P 1", result("9.999 (9 to 10)", "")}, {"P 1", result("1.100 (1 to 2)", "+9.0 %: they differ")},
		{"Q", result("1.020 (1 to 2)", "+2.0 %: agree")},
		{"Q", result("1.010 (1 to 2)", "+1.0 %: agree")},
	} {
		if err := insert(path, r.processor, r.text, false); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var side strings.Builder
	writeTable(&side, [][]string{{"row", "P 1", "Q"},
		{"copy", "1.100 (1 to 2), met, +9.0 %: they differ", "1.010 (1 to 2), met"}})
	want := "# A\n" + beginMark + "\n\n### Side by side\n\n" + side.String() + "\n### P 1\n\n" +
		result("1.100 (1 to 2)", "+9.0 %: they differ") +
		"\n### Q\n\n" + result("1.010 (1 to 2)", "+1.0 %: agree") + "\n" + endMark + "\nend\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := os.WriteFile(path, []byte("no markers"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := insert(path, "P", "new", false); err == nil || !strings.Contains(err.Error(), beginMark) {
		t.Errorf("got %v for a file without markers", err)
	}
}

// Some rows that are measured again replace their own lines and descriptions, and the count of those that agree. A new
// row is put at the end.
func TestInsertSomeRows(t *testing.T) {
	result := func(when string, agreed string, lines ...[]string) string {
		var b strings.Builder
		b.WriteString("Measured on " + when + ".\n\n- a machine\n\n")
		writeTable(&b, append([][]string{columns}, lines...))
		b.WriteString("\nAgreement: in " + agreed + " comparisons the medians lie within 3 % of each other or " +
			"within the peer's own spread.\n" + toldHead)
		for _, l := range lines {
			if !strings.Contains(l[0], ": time") {
				b.WriteString("- **" + rowName(l) + "**: told " + when + "\n  - more\n")
			}
		}
		return b.String()
	}
	line := func(name, medians string) []string {
		return []string{name, "2", "1", "1", "1 %", "", "", medians}
	}
	full := result("day 1", "1 of 2", line("a", "+1.0 %: agree"), line("boot", ""), line("c", "+9.0 %: they differ"))
	some := result("day 2", "2 of 2", line("boot: rate", "+0.1 %: agree"), line("boot: time", ""),
		line("c", "+9.0 %: agree within the peer's spread"), line("new", ""))
	old := beginMark + "\n\n### P\n\n" + full + "\n" + endMark
	got, err := between(old, "P", some, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- a machine\n- 3 rows of these again: boot, c, new. Measured on day 2.\n\n| row ", "in 3 of 3 comparisons",
		"- **a**: told day 1\n  - more\n- **boot**: told day 2\n  - more\n- **c**: told day 2\n  - more\n" +
			"- **new**: told day 2\n  - more\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	third, err := between(got, "P", result("day 3", "2 of 2", line("c", ""), line("new", "")), true)
	if err != nil {
		t.Fatal(err)
	}
	want := "- a machine\n- 1 row of these again: boot. Measured on day 2.\n- 2 rows of these again: c, new. " +
		"Measured on day 3.\n\n| row "
	if !strings.Contains(third, want) {
		t.Errorf("lacks %q:\n%s", want, third)
	}
	fourth, err := between(third, "P", result("day 4", "2 of 2", line("boot", "")), true)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(fourth, "Measured on day 2") {
		t.Errorf("names a run of which no row is left:\n%s", fourth)
	}
	var names []string
	for _, l := range tableLines(got) {
		names = append(names, l[0])
	}
	if want := "a|boot: rate|boot: time|c|new"; strings.Join(names, "|") != want {
		t.Errorf("rows %q, want %q", names, want)
	}
	if _, err := between(old, "Q", some, true); err == nil || !strings.Contains(err.Error(), "no full run on a Q") {
		t.Errorf("got %v for a processor that has no section", err)
	}
}

// The grid is whole, and each of its rows asks both sides for the same.
func TestGrid(t *testing.T) {
	cells := gridCells()
	if len(cells) != 48 {
		t.Errorf("the grid has %d rows, want 3 sizes by 2 by 2 by 2 by 2", len(cells))
	}
	b := &bench{settings: settings{seed: 1}}
	for _, c := range cells {
		kind, params := c.params()
		argv := strings.Join(c.argv(b, "FILE", 10), " ")
		for _, same := range []struct{ theirs, ours bool }{
			{strings.Contains(argv, "write"), strings.HasSuffix(kind, "write")},
			{strings.Contains(argv, "--rw=rand"), strings.HasPrefix(kind, "fs.rand")},
			{strings.Contains(argv, "--direct=1"), params["direct"] == "yes"},
			{strings.Contains(argv, "--iodepth=8"), params["qd"] == "8"},
			{strings.Contains(argv, "--bs="+c.record+" "), params["bs"] == strings.ToUpper(c.record)+"iB"},
		} {
			if same.theirs != same.ours {
				t.Errorf("%s: %s %v is not %s", c.row().name, kind, params, argv)
			}
		}
	}
}

// The manual's table has the rows that there are.
func TestManualHasAllRows(t *testing.T) {
	text, err := os.ReadFile("results.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows() {
		if strings.HasPrefix(r.name, grid+"-") { // told of as a whole: there are 48
			r.name = grid
		}
		if !strings.Contains(string(text), "`go run ./bench "+r.name+"`") {
			t.Errorf("bench/results.md does not tell of row %s: run go run ./bench -o bench/results.md", r.name)
		}
	}
}

func TestOwnMbwRefuses(t *testing.T) {
	need(t, "gcc")
	bin := filepath.Join(t.TempDir(), "mbw20")
	if err := compile(t.Context(), bin, mbwSource); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"memcopy", "1", "1024", "1"}, {"dumb", "0", "1", "1"},
		{"mcblock", "1", "2097152", "1"}, {"dumb", "1", "1", "0"}} {
		if out, err := program(t.Context(), append([]string{bin}, args...)...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
	// A block that does not divide the array is ended by a shorter one.
	out, err := program(t.Context(), bin, "mcblock", "1", "100000", "2")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := parseMbw(string(out)); err != nil || r.passes != 2 || r.mib != 1 {
		t.Errorf("%+v, %v: %s", r, err, out)
	}
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := proc.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("%s is not installed, and TARE_REQUIRE is set", p)
		}
		t.Skipf("%s is not installed", p)
	}
}

// Rows with the real peers, once and briefly: what is tested is that both sides did the same work and were read, not
// how fast they were.
func TestRealRows(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the agent and runs the peers")
	}
	names := []string{
		"fio-buffered", "fio-direct", "grid-psync-direct-randread-64k", "grid-io_uring-buffered-seqwrite-1m",
		"pread-loop", "pread-in-fio", "sysbench-cpu-2", "mbw-2.0-mcblock", "mbw-packaged-memcpy", "net-down-4",
		"iperf-net-down-1", "iperf-veth-udp",
		"hyperfine", "agent-idle", "web-2", "load-32", "load-new",
		"load-tls", "load-rate", "load-10000", "sql-inspect", "sql-upgrade-point", "sql-checksum-mariadb",
	}
	// It takes minutes to build, and so no run of the tests has to have it.
	if _, err := findOha(); err == nil {
		names = append(names, "load-rate-oha")
	}
	for _, row := range names {
		t.Run(row, func(t *testing.T) {
			chosen, err := choose(rows(), []string{row})
			if err != nil {
				t.Fatal(err)
			}
			need(t, chosen[0].programs...)
			var out bytes.Buffer
			s := settings{pairs: 1, length: 50 * time.Millisecond, seed: 1, dir: t.TempDir()}
			if err := measure(t.Context(), s, chosen, true, &out, &out); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if n := strings.Count(out.String(), "| "+row); n != len(chosen[0].figures) {
				t.Errorf("%d lines for %d figures:\n%s", n, len(chosen[0].figures), out.String())
			}
			if left, _ := filepath.Glob(filepath.Join(s.dir, "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestPrimaryVerdict(t *testing.T) {
	report := `{"cells": [{"primary": false, "verdict": "EQUIVALENT"}, {"primary": true, "verdict": "DIFFERENT"}]}`
	if v, err := primaryVerdict([]byte(report)); err != nil || v != record.Different {
		t.Errorf("%q, %v", v, err)
	}
	for _, bad := range []string{"", "{}", `{"cells": [{"primary": true}]}`} {
		if v, err := primaryVerdict([]byte(bad)); err == nil {
			t.Errorf("%q has the verdict %q", bad, v)
		}
	}
}
