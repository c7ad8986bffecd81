package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/record"
	"tare/internal/sys/sql/log"
)

// said returns what a peer once said.
func said(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "peers", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestParseFio(t *testing.T) {
	r, err := parseFio([]byte(said(t, "fio-3.33.json")))
	if err != nil {
		t.Fatal(err)
	}
	if r.TotalIOs != 2048 || r.IOPS < 1000 || r.Latency.Mean < 100 {
		t.Errorf("got %+v", r)
	}
	for text, want := range map[string]string{
		"fio: no such file": "no JSON",
		`{"jobs":[]}`:       "0 jobs",
		`{"jobs":[{"error":28,"read":{"iops":1,"total_ios":1,"clat_ns":{"mean":1}}}]}`: "error 28",
		`{"jobs":[{"read":{}}]}`: "no reads",
		`{"jobs":[{"read":`:      "unexpected EOF",
	} {
		if _, err := parseFio([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", text, err, want)
		}
	}
}

func TestParseSysbench(t *testing.T) {
	rate, events, err := parseSysbench(said(t, "sysbench-1.0.20.txt"))
	if err != nil || events != 300 || rate < 10 {
		t.Errorf("got %v events/s, %d events, %v", rate, events, err)
	}
	for _, text := range []string{"", "events per second: x", "    events per second: 12.5\n",
		"events per second: 0\ntotal number of events: 1\n"} {
		if _, _, err := parseSysbench(text); err == nil {
			t.Errorf("%q was taken for a report", text)
		}
	}
}

func TestParseMbw(t *testing.T) {
	text := said(t, "mbw-1.2.2.txt")
	r, err := parseMbw(text)
	if err != nil || r.passes != 3 || r.mib != 16 || r.rate < 10 {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, text := range []string{"", text + text, strings.ReplaceAll(text, "AVG", "SUM"),
		strings.ReplaceAll(text, "MiB/s", "GiB/s")} {
		if _, err := parseMbw(text); err == nil {
			t.Errorf("%q was taken for a report", text)
		}
	}
}

// What Debian's mbw calls MEMCPY is the loop, and the other way round.
func TestMbwLabels(t *testing.T) {
	for _, c := range []struct{ version, method, labels, label, fails string }{
		{version: "1.2.2-1.1", method: "memcpy", labels: "mbw-1.2", label: "dumb"},
		{version: "1.2.2-1+b1", method: "dumb", labels: "mbw-1.2", label: "memcpy"},
		{version: "1.2.2-1.1", method: "mcblock", labels: "mbw-1.2", label: "mcblock"},
		{version: "1.4-1", method: "memcpy", labels: "mbw-2.0", label: "memcpy"},
		{version: "1:2.0-1", method: "dumb", labels: "mbw-2.0", label: "dumb"},
		{version: "2.0-3", method: "mcblock", labels: "mbw-2.0", label: "mcblock"},
		{version: "1.3-1", method: "dumb", fails: "1.3"},
		{version: "unknown", method: "dumb", fails: "two numbers"},
	} {
		labels, label, err := mbwLabels(c.version, c.method)
		if labels != c.labels || label != c.label || (err == nil) != (c.fails == "") {
			t.Errorf("%s %s: got %q %q %v", c.version, c.method, labels, label, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: got %v, want an error with %q", c.version, err, c.fails)
		}
	}
}

func TestParseHyperfine(t *testing.T) {
	times, err := parseHyperfine([]byte(said(t, "hyperfine-1.15.0.json")))
	if err != nil || len(times) != 4 || times[0] <= 0 || times[0] > 1 {
		t.Errorf("got %v, %v", times, err)
	}
	for _, text := range []string{"", "{}", `{"results":[{"times":[]}]}`,
		`{"results":[{"times":[1],"exit_codes":[1]}]}`,
		`{"results":[{"times":[1],"exit_codes":[null]}]}`, `{"results":[{"times":[1]},{"times":[1]}]}`} {
		if _, err := parseHyperfine([]byte(text)); err == nil {
			t.Errorf("%s was taken for a report", text)
		}
	}
}

// hyperfine's own mean and standard deviation of its times are what this program computes of them.
func TestMeanAndSpreadAreHyperfines(t *testing.T) {
	text := said(t, "hyperfine-1.15.0.json")
	times, err := parseHyperfine([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := meanAndSpread(times, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"mean", "stddev"} {
		want := number(t, text, name)
		if math.Abs(got[i]-want) > 1e-9*want {
			t.Errorf("%s: got %v, hyperfine says %v", name, got[i], want)
		}
	}
	if _, err := meanAndSpread(times, 5); err == nil {
		t.Error("a missing time was not noticed")
	}
}

func TestParseProc(t *testing.T) {
	if d, err := parseSchedstat("1500000 200 3\n"); err != nil || d != 1500*time.Microsecond {
		t.Errorf("schedstat: %v, %v", d, err)
	}
	if mb, err := parseStatm("1000 500 200 1 0 300 0\n", 4096); err != nil || mb != 2.048 {
		t.Errorf("statm: %v, %v", mb, err)
	}
	for _, text := range []string{"", "x", "-1 -1"} {
		if d, err := parseSchedstat(text); err == nil {
			t.Errorf("schedstat %q gave %v", text, d)
		}
		if mb, err := parseStatm(text, 4096); err == nil {
			t.Errorf("statm %q gave %v", text, mb)
		}
	}
	self, err := onCPU(os.Getpid())
	if err == nil && self <= 0 {
		t.Errorf("this process has run for %v", self)
	}
	if mb, err := residentMB(os.Getpid()); err == nil && (mb < 1 || mb > 10_000) {
		t.Errorf("this process has %v MB", mb)
	}
}

// FuzzParse holds every reader of a peer's report to two promises: no panic, and no figure that is not positive.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"fio-3.33.json", "sysbench-1.0.20.txt", "mbw-1.2.2.txt", "hyperfine-1.15.0.json"} {
		f.Add([]byte(said(f, name)))
	}
	f.Add([]byte("12 34 56"))
	f.Add([]byte("1.2.2-1.1"))
	f.Add([]byte(beginMark + "\n" + endMark))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		if r, err := parseFio(text); err == nil && !(r.IOPS > 0) {
			t.Errorf("fio: %+v", r)
		}
		if rate, _, err := parseSysbench(string(text)); err == nil && !(rate > 0) {
			t.Errorf("sysbench: %v", rate)
		}
		if r, err := parseMbw(string(text)); err == nil && !(r.rate > 0) {
			t.Errorf("mbw: %+v", r)
		}
		if times, err := parseHyperfine(text); err == nil && len(times) == 0 {
			t.Error("hyperfine: no times")
		}
		if d, err := parseSchedstat(string(text)); err == nil && d < 0 {
			t.Errorf("schedstat: %v", d)
		}
		if mb, err := parseStatm(string(text), 4096); err == nil && mb < 0 {
			t.Errorf("statm: %v", mb)
		}
		if labels, label, err := mbwLabels(string(text), "dumb"); err == nil && (labels == "" || label == "") {
			t.Errorf("mbw version: %q %q", labels, label)
		}
		whole, err := between(string(text), "P", "x", false)
		if err == nil && !strings.Contains(whole, "### P\n\nx\n") {
			t.Errorf("between: %q", whole)
		}
		_, _ = between(string(text), "P", string(text), true) // does not panic
	})
}

func TestParseIperf3(t *testing.T) {
	// Two streams at 64 MiB in all, of which 55 MiB had arrived when it ended.
	report := said(t, "iperf3-3.12.json")
	rate, err := parseIperf3([]byte(report), 64<<20)
	if err != nil || math.Abs(rate-13511785860.71575/8) > 1 {
		t.Errorf("got %v bytes/s, %v", rate, err)
	}
	for _, c := range []struct {
		text, want string
		asked      int64
	}{
		{report, "the work is not the same", 1 << 30},
		{`{"error":"unable to connect to server"}`, "unable to connect", 1},
		{`{}`, "the work is not the same", 1},
		{"iperf3: no", "read iperf3's report", 1},
	} {
		if _, err := parseIperf3([]byte(c.text), c.asked); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestParseWrk(t *testing.T) {
	const report = "Running 1s test @ http://127.0.0.1:80/\n  1 threads and 2 connections\n" +
		"  Thread Stats   Avg      Stdev     Max   +/- Stdev\n" +
		"    Latency    48.32us   94.46us   4.46ms   99.05%\n    Req/Sec    43.54k     4.80k   50.87k    81.82%\n" +
		"  47635 requests in 1.10s, 754.44MB read\n"
	if rate, requests, err := parseWrk(report + "Requests/sec:  43309.91\nTransfer/sec:    685.93MB\n"); err != nil ||
		rate != 43309.91 || requests != 47635 {
		t.Errorf("%v, %v, %v", rate, requests, err)
	}
	for _, bad := range []string{
		"", report, report + "Requests/sec:      0.00\n", report +
			"  Non-2xx or 3xx responses: 47635\nRequests/sec:  43309.91\n",
		report + "  Socket errors: connect 0, read 5, write 0, timeout 0\nRequests/sec:  43309.91\n",
		"Requests/sec:  43309.91\n", "  0 requests in 1.10s, 0.00MB read\nRequests/sec:  43309.91\n",
	} {
		if rate, _, err := parseWrk(bad); err == nil {
			t.Errorf("%q gives %v", bad, rate)
		}
	}
}

func TestParseRate(t *testing.T) {
	rate, n, err := parseRate(said(t, "sysbench-oltp-1.0.20.txt"), sysbenchTransactions)
	if err != nil || n != 28032 || rate < 10 {
		t.Errorf("sysbench: %v a second, %d, %v", rate, n, err)
	}
	rate, n, err = parseRate(said(t, "pgbench-15.txt"), pgbenchTransactions)
	if err != nil || n != 20 || rate < 10 {
		t.Errorf("pgbench: %v a second, %d, %v", rate, n, err)
	}
	for _, text := range []string{"", "    transactions: 5\n", "    transactions: 5 (0.00 per sec.)\n",
		"    transactions: x (1 per sec.)\n"} {
		if _, _, err := parseRate(text, sysbenchTransactions); err == nil {
			t.Errorf("%q was taken for a report", text)
		}
	}
}

func TestParseDigest(t *testing.T) {
	n, err := parseDigest([]byte(said(t, "pt-query-digest-3.2.1.json")))
	if err != nil || n != 15 {
		t.Errorf("got %d queries, %v", n, err)
	}
	for _, text := range []string{"", "# no events", "{", "{}", `{"global":{"query_count":0}}`} {
		if _, err := parseDigest([]byte(text)); err == nil {
			t.Errorf("%q was taken for a report", text)
		}
	}
}

func TestParseUpgrade(t *testing.T) {
	text := said(t, "pt-upgrade-3.2.1.txt")
	n, differ, why, err := parseUpgrade(text)
	if err != nil || n != 1122 || differ != 6 || len(why) == 0 || why[0] != "Query time" {
		t.Errorf("got %d queries, %d differ in %q, %v", n, differ, why, err)
	}
	for _, text := range []string{"", strings.ReplaceAll(text, "queries_no_diffs", "x"),
		strings.ReplaceAll(text, "failed_queries        0", "failed_queries        1"),
		strings.ReplaceAll(text, "queries_with_errors   0", "queries_with_errors   2")} {
		if _, _, _, err := parseUpgrade(text); err == nil {
			t.Errorf("%.80q was taken for a report", text)
		}
	}
}

func TestCompareGroups(t *testing.T) {
	a := []record.Group{{ID: "1", Count: 3, Check: "x"}, {ID: "2", Count: 4}, {ID: "3", Count: 5, Check: "y"}}
	for _, c := range []struct {
		change func(*record.Group)
		want   int64
	}{
		{func(*record.Group) {}, 0},
		{func(g *record.Group) { g.Check = "z" }, 5},
		{func(g *record.Group) { g.Errors = 1 }, 5},
		{func(g *record.Group) { g.ID = "4" }, 5},
	} {
		b := slices.Clone(a)
		c.change(&b[2])
		if n, differ := compareGroups(a, b); n != 12 || differ != c.want {
			t.Errorf("%+v: %d of %d differ, want %d of 12", b[2], differ, n, c.want)
		}
	}
}

// What the log of the rows has is what the reader of logs finds in it.
func TestGeneralLog(t *testing.T) {
	l := newGeneralLog(1, 200_000)
	r, err := log.Open(l, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := log.Summarize(r, log.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.checkInspect(out); err != nil || s.Format != log.General || s.Sessions.Begun != 0 {
		t.Errorf("%v: %+v", err, s.Sessions)
	}
	l.statements++
	if err := l.checkInspect(out); err == nil {
		t.Error("a statement that is missing was not missed")
	}
}

func TestParseIperf3Datagrams(t *testing.T) {
	const report = `{"end":{"sum":{"packets":1000,"lost_packets":200,"seconds":2}}}`
	if rate, err := parseIperf3Datagrams([]byte(report), 1000); err != nil || rate != 400 {
		t.Errorf("%v, %v", rate, err)
	}
	for text, want := range map[string]string{
		"":                       "read iperf3's report",
		`{"error":"it is busy"}`: "it is busy",
		`{"end":{"sum":{}}}`:     "the work is not the same",
		`{"end":{"sum":{"packets":1000,"lost_packets":1000,"seconds":2}}}`: "the work is not the same",
	} {
		if _, err := parseIperf3Datagrams([]byte(text), 1000); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
