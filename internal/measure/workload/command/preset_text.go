package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"tare/internal/sys/benchfmt"
	"tare/internal/unit"
)

// sysbench reads the report of sysbench 1.0 for any of its tests.
func sysbench() program {
	return program{name: "sysbench", parse: parseSysbench, figures: []unit.Metric{
		higher("sysbench_events_per_second", "events/s", "events per second; the test defines what an event is"),
		lower("sysbench_latency_ms", "ms", "mean time of an event"),
		lower("sysbench_p95_ms", "ms", "95th percentile of the time of an event"),
		higher("sysbench_transferred_mib_per_second", "MiB/s",
			"memory test: bytes transferred per second, in units of 1,048,576"),
		higher("sysbench_read_mib_per_second", "MiB/s", "fileio test: bytes read per second, in units of 1,048,576"),
		higher("sysbench_written_mib_per_second", "MiB/s",
			"fileio test: bytes written per second, in units of 1,048,576"),
		higher("sysbench_transactions_per_second", "tx/s", "database tests: transactions per second"),
		higher("sysbench_queries_per_second", "queries/s", "database tests: queries per second"),
	}}
}

func parseSysbench(out []byte) (*found, error) {
	f := newFound()
	// The cpu test prints the rate; every test prints the figures to compute it.
	if v, ok := number(out, "events per second:"); ok {
		f.set("sysbench_events_per_second", v)
	} else {
		events, ok1 := number(out, "total number of events:")
		total, _ := after(out, "total time:")
		seconds, err := benchfmt.Number(strings.TrimSuffix(total, "s"))
		if !ok1 || err != nil || seconds <= 0 {
			return nil, errors.New("the output is not a report of sysbench 1.0: it has no events and total time")
		}
		f.set("sysbench_events_per_second", events/seconds)
	}
	if len(f.values) == 0 {
		return nil, errors.New("sysbench counted no events")
	}
	for label, name := range map[string]string{
		"avg:": "sysbench_latency_ms", "95th percentile:": "sysbench_p95_ms",
		"read, MiB/s:": "sysbench_read_mib_per_second", "written, MiB/s:": "sysbench_written_mib_per_second",
	} {
		if v, ok := number(out, label); ok {
			f.set(name, v)
		}
	}
	for label, name := range map[string]string{"transactions:": "sysbench_transactions_per_second",
		"queries:": "sysbench_queries_per_second"} {
		if v, ok := bracketed(out, label); ok {
			f.set(name, v)
		}
	}
	if v, ok := transferred(out); ok {
		f.set("sysbench_transferred_mib_per_second", v)
	}
	return f, nil
}

// bracketed returns the rate in "label 123 (45.6 per sec.)".
func bracketed(out []byte, label string) (float64, bool) {
	rest, ok := after(out, label)
	if !ok {
		return 0, false
	}
	_, rest, _ = strings.Cut(rest, "(")
	word, _, _ := strings.Cut(rest, " ")
	v, err := benchfmt.Number(word)
	return v, err == nil
}

// transferred returns the rate in "5853.87 MiB transferred (5849.37 MiB/sec)".
func transferred(out []byte) (float64, bool) {
	_, rest, ok := strings.Cut(string(out), " MiB transferred (")
	if !ok {
		return 0, false
	}
	word, _, _ := strings.Cut(rest[:min(len(rest), 80)], " ")
	v, err := benchfmt.Number(word)
	return v, err == nil
}

// wrk reads the report of wrk, with or without --latency.
func wrk() program {
	return program{name: "wrk", parse: parseWrk, figures: []unit.Metric{
		higher("wrk_requests_per_second", "req/s", "responses per second"),
		higher("wrk_bytes_per_second", "B/s", "bytes received per second, headers included"),
		lower("wrk_latency_ms", "ms", "mean time from request to response"),
		lower("wrk_p50_ms", "ms", "median time from request to response (--latency)"),
		tailOf(lower("wrk_p99_ms", "ms", "99th percentile of the time from request to response (--latency)")),
	}}
}

func parseWrk(out []byte) (*found, error) {
	f := newFound()
	rate, ok := number(out, "Requests/sec:")
	if !ok {
		return nil, errors.New("the output is not a report of wrk: it has no Requests/sec")
	}
	if rate <= 0 {
		return nil, errors.New("wrk got no response")
	}
	f.set("wrk_requests_per_second", rate)
	for label, name := range map[string]string{"Latency  ": "wrk_latency_ms", "50% ": "wrk_p50_ms",
		"99% ": "wrk_p99_ms"} {
		if v, ok := scaled(out, label, wrkTimes); ok {
			f.set(name, v)
		}
	}
	if v, ok := scaled(out, "Transfer/sec:", wrkBytes); ok {
		f.set("wrk_bytes_per_second", v)
	}
	if s, ok := after(out, "Socket errors:"); ok {
		f.warn("http-errors", "wrk reported socket errors: "+printable([]byte(s)),
			"use fewer connections, or read the server's log")
	}
	if s, ok := after(out, "Non-2xx or 3xx responses:"); ok {
		f.warn("http-errors", printable([]byte(s))+
			" responses were errors (neither 2xx nor 3xx): the work was not equal",
			"check the URL and the server's log")
	}
	return f, nil
}

// wrk's own units: milliseconds here; bytes with binary steps.
var (
	wrkTimes = []scale{{"us", 1e-3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}}
	wrkBytes = []scale{{"KB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}, {"TB", 1 << 40}, {"PB", 1 << 50}, {"B", 1}}
)

// scale is a unit's suffix and its size.
type scale struct {
	suffix string
	factor float64
}

// scaled returns the number with a unit that follows a label. A longer suffix precedes the shorter one that it ends
// with.
func scaled(out []byte, label string, units []scale) (float64, bool) {
	rest, ok := after(out, label)
	if !ok {
		return 0, false
	}
	word, _, _ := strings.Cut(rest, " ")
	for _, u := range units {
		if digits, ok := strings.CutSuffix(word, u.suffix); ok {
			v, err := benchfmt.Number(digits)
			return v * u.factor, err == nil
		}
	}
	return 0, false
}

// pgbench reads the report of pgbench, from PostgreSQL 9 on.
func pgbench() program {
	return program{name: "pgbench", parse: parsePgbench, figures: []unit.Metric{
		higher("pgbench_tps", "tx/s",
			"transactions per second; without the time to connect, if pgbench reports it separately"),
		lower("pgbench_latency_ms", "ms", "mean time of a transaction"),
		lower("pgbench_connect_ms", "ms", "time to open the connections"),
	}}
}

func parsePgbench(out []byte) (*found, error) {
	f := newFound()
	tps, ok := 0.0, false
	// Versions before 14 print two lines; the one that excludes connecting comes second.
	for line := range bytes.Lines(out) {
		rest, is := bytes.CutPrefix(bytes.TrimSpace(line), []byte("tps = "))
		if !is {
			continue
		}
		word, what, _ := strings.Cut(string(rest[:min(len(rest), 200)]), " ")
		if v, err := benchfmt.Number(word); err == nil &&
			(!ok || strings.Contains(what, "excluding") || strings.Contains(what, "without")) {
			tps, ok = v, true
		}
	}
	if !ok || tps <= 0 {
		return nil, errors.New("the output is not a report of pgbench with transactions: it has no tps above 0")
	}
	f.set("pgbench_tps", tps)
	if v, ok := number(out, "latency average ="); ok {
		f.set("pgbench_latency_ms", v)
	}
	if v, ok := number(out, "initial connection time ="); ok {
		f.set("pgbench_connect_ms", v)
	}
	if v, ok := number(out, "number of failed transactions:"); ok && v > 0 {
		f.warn("transactions-failed", fmt.Sprintf("%.0f transactions failed", v),
			"read the server's log; a lower isolation level or fewer clients may help")
	}
	if s, ok := after(out, "number of transactions actually processed:"); ok {
		if done, all, both := strings.Cut(s, "/"); both && done != all {
			return nil, fmt.Errorf("pgbench processed %s of %s transactions", done, all)
		}
	}
	return f, nil
}
