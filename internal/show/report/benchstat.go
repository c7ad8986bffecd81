package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tare/internal/unit"
)

// Benchstat writes the raw trials in Go's benchmark format, a line for each trial that the verdicts use: no warm-up, no
// null control, no discarded block. Compare the targets with
//
//	benchstat -col target FILE
//
// The first figure of a line has its plain unit, the others are named (time_10k_events-ns). Times are in ns and bytes
// in B, which benchstat scales itself. benchstat takes the samples as independent and not by block, so its intervals
// are wider than tare's where the host drifts.
func Benchstat(w io.Writer, m *Model) error {
	b := &benchText{names: map[string]string{}, taken: map[string]bool{}, units: map[string]string{}}
	b.trials(m)
	var out bytes.Buffer
	fmt.Fprintf(&out, "run: %s\ntare: %s\n", benchValue(m.Run.ID), benchValue(m.Run.Version))
	if d := m.damage(); d != "" {
		fmt.Fprintf(&out, "%s: %s\n", damaged, benchValue(d))
	}
	for i := range m.Cells {
		// benchstat sees the figures of both sides only, and would rank them.
		if c := &m.Cells[i]; c.Primary && c.UnlikeWrites() {
			fmt.Fprintf(&out, "not-ranked: %s against %s, %s: they flush differently\n", benchValue(c.Target),
				benchValue(c.Baseline), benchValue(c.Workload))
		}
	}
	if len(m.Targets) > 0 {
		goos, goarch := m.Targets[0].Inside.OS, m.Targets[0].Inside.Arch
		for i := range m.Targets {
			f := &m.Targets[i].Inside
			goos, goarch = agree(goos, f.OS), agree(goarch, f.Arch)
		}
		// A setting that differs would make benchstat part the table in two, so only common ones are told.
		for _, s := range [][2]string{{"goos", goos}, {"goarch", goarch}} {
			if s[1] != "" {
				fmt.Fprintf(&out, "%s: %s\n", s[0], benchValue(s[1]))
			}
		}
	}
	for _, u := range slices.Sorted(maps.Keys(b.units)) {
		fmt.Fprintf(&out, "Unit %s better=%s\n", u, b.units[u])
	}
	for i := range m.Targets {
		name := m.Targets[i].Name
		if lines := b.lines[name]; len(lines) > 0 {
			fmt.Fprintf(&out, "\ntarget: %s\n%s", benchValue(name), strings.Join(lines, ""))
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write benchmark text: %w", err)
	}
	return nil
}

func agree(a, b string) string {
	if a == b {
		return a
	}
	return ""
}

type benchText struct {
	names map[string]string // workload label to benchmark name
	taken map[string]bool
	units map[string]string // unit to the direction that is better
	lines map[string][]string
}

func (b *benchText) trials(m *Model) {
	b.lines = map[string][]string{}
	figures := map[int64]string{}
	m.eachRaw(func(r *rawRow) error { // its only errors are ours, and there are none
		if r.Warmup || r.Slot != nil || r.Discarded != nil || r.ErrorKind != nil || r.Value == nil || r.Unit == nil ||
			r.Better == nil {
			return nil
		}
		v, u := benchUnit(*r.Value, *r.Unit)
		if !*r.Primary {
			u = benchWord(*r.Metric) + "-" + u
		}
		b.units[u] = *r.Better
		figure := "\t" + strconv.FormatFloat(v, 'g', -1, 64) + " " + u
		if *r.Primary {
			figures[r.Seq] = figure + figures[r.Seq]
		} else {
			figures[r.Seq] += figure
		}
		return nil
	})
	for i := range m.Trials {
		t := &m.Trials[i]
		if f := figures[int64(t.Seq)]; f != "" {
			b.lines[t.Target] = append(b.lines[t.Target],
				fmt.Sprintf("%s\t%d%s\n", b.name(t.Workload), max(1, t.Work), f))
		}
	}
}

// name makes a workload's label the name of a benchmark: "fs.randread bs=4KiB" is BenchmarkFs.randread/bs=4KiB. Two
// labels never give one name.
func (b *benchText) name(label string) string {
	if n, ok := b.names[label]; ok {
		return n
	}
	var parts []string
	for _, w := range strings.Fields(clean(label)) {
		parts = append(parts, benchWord(w))
	}
	base := strings.Join(parts, "/")
	r, n := utf8.DecodeRuneInString(base)
	base = "Benchmark" + string(unicode.ToUpper(r)) + base[n:]
	name := base
	for i := 2; b.taken[name]; i++ {
		name = fmt.Sprintf("%s#%02d", base, i)
	}
	b.taken[name] = true
	b.names[label] = name
	return name
}

// benchWord is text without spaces, which the format uses between fields.
func benchWord(s string) string { return strings.Join(strings.Fields(clean(s)), "_") }

// benchValue is the value of a setting: the rest of its line.
func benchValue(s string) string { return clean(s) }

// benchUnit restates times in ns and bytes in B, the units that benchstat knows how to scale.
func benchUnit(v float64, name string) (float64, string) {
	base, per := name, ""
	if before, ok := strings.CutSuffix(name, "/s"); ok {
		base, per = before, "/s"
	}
	if f := secondsIn[base]; f > 0 && per == "" {
		return unit.Round(v*f*1e9, 12), "ns"
	}
	if f := bytesIn[base]; f > 0 {
		return unit.Round(v*f, 15), "B" + per
	}
	return v, benchWord(name)
}

// secondsIn and bytesIn are the factors from a unit to the base unit.
var (
	secondsIn = map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
	bytesIn   = map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "MB": 1e6,
		"GB": 1e9}
)
