package benchfmt

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tare/internal/unit"
)

// goLine is one line of results.
type goLine struct {
	pkg, name string
	number    int // of the line, from 1
	values    []string
}

// parseGo reads the text of Go's testing package: "BenchmarkX-8  100  123 ns/op  4 B/op", with configuration lines
// such as "pkg: example.com/x", and metadata of units as in golang.org/design/14313-benchmark-format. The number of
// processors at the end of a name is left out where all names have the same, because it depends on the machine. A name
// has its package before it where there are several.
func parseGo(out []byte) (*Suite, error) {
	b := newBuilder()
	better := map[string]unit.Better{}
	var lines []goLine
	pkg, number := "", 0
	for raw := range bytes.Lines(out) {
		number++
		line := strings.TrimRight(string(raw), "\r\n")
		switch {
		case strings.HasPrefix(line, "pkg: "):
			pkg = strings.TrimSpace(line[5:])
		case strings.HasPrefix(line, "Unit "):
			goUnit(line, better)
		case strings.HasPrefix(line, "--- FAIL: Benchmark"):
			name, _, _ := strings.Cut(line[len("--- FAIL: "):], " ")
			b.leave(name, "", "it failed")
		case isBenchmark(line):
			l, ok, err := goResult(line)
			if err != nil {
				b.leave(l.name, "", fmt.Sprintf("line %d: %v", number, err))
			}
			if ok {
				l.pkg, l.number = pkg, number
				lines = append(lines, l)
			}
		}
		if len(lines) > MaxValues {
			return nil, fmt.Errorf("there are more than %d results: run fewer benchmarks at a time", MaxValues)
		}
	}
	suffix := commonSuffix(lines)
	several := slices.ContainsFunc(lines, func(l goLine) bool { return l.pkg != lines[0].pkg })
	in := map[string]string{} // the package of a name; "" of one that several have
	for _, l := range lines {
		if p, ok := in[l.name]; ok && p != l.pkg {
			in[l.name] = ""
		} else {
			in[l.name] = l.pkg
		}
	}
	for _, l := range lines {
		printed := strings.TrimSuffix(l.name, suffix)
		name := printed
		if several {
			name = l.pkg + "." + name
		}
		find := func(u string) string {
			if several && in[l.name] == "" {
				return ""
			}
			return goFind(printed, u)
		}
		if err := l.add(b, name, better, find); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
	}
	s, err := b.done()
	if err != nil {
		return nil, fmt.Errorf("%w; Go prints benchmarks with -bench or -test.bench, as BenchmarkX 100 123 ns/op", err)
	}
	return s, nil
}

// isBenchmark tells whether a line begins as a result does: Benchmark is a word of its own there, as go test has it.
func isBenchmark(line string) bool {
	rest, ok := strings.CutPrefix(line, "Benchmark")
	r, _ := utf8.DecodeRuneInString(rest)
	return ok && !unicode.IsLower(r)
}

// goResult takes a line apart. ok is false for one that is no result, as the name alone is with -v; the error is of one
// that begins like a result.
func goResult(line string) (l goLine, ok bool, err error) {
	words := strings.Fields(line)
	l.name = words[0]
	if len(words) < 4 {
		return l, false, nil
	}
	if n, err := strconv.ParseInt(words[1], 10, 64); err != nil || n < 1 {
		return l, false, nil // what the benchmark itself printed
	}
	if len(words)%2 != 0 {
		return l, false, fmt.Errorf("%q has no unit", words[len(words)-1])
	}
	l.values = words[2:]
	return l, true, nil
}

// add adds the figures of a line.
func (l *goLine) add(b *builder, name string, better map[string]unit.Better, find func(u string) string) error {
	for i := 0; i < len(l.values); i += 2 {
		v, err := strconv.ParseFloat(l.values[i], 64)
		u := l.values[i+1]
		if err != nil && v == 0 {
			b.leave(name, u, fmt.Sprintf("line %d: %.60q is not a number", l.number, l.values[i]))
			continue
		}
		f := normal(v, u)
		f.Name, f.find = goFigure(u), find(u)
		if x := better[u]; x != "" {
			f.Better = x
		}
		if err := b.put(name, f); err != nil {
			return err
		}
	}
	return nil
}

// goFigure names a figure that the testing package itself prints; others have the name of their unit.
func goFigure(u string) string {
	switch u {
	case "ns/op":
		return "time"
	case "B/op":
		return "bytes"
	case "allocs/op":
		return "allocs"
	case "MB/s":
		return "throughput"
	}
	return u
}

// goUnit reads a line of metadata: Unit ns/op better=lower.
func goUnit(line string, better map[string]unit.Better) {
	words := strings.Fields(line)
	for _, w := range words[min(2, len(words)):] {
		switch v, ok := strings.CutPrefix(w, "better="); {
		case !ok || len(better) == MaxFigures:
		case v == string(unit.Lower), v == string(unit.Higher):
			better[words[1]] = unit.Better(v)
		}
	}
}

// commonSuffix is the number of processors that all names end in, as in -8; "" where they do not all end in the same.
func commonSuffix(lines []goLine) string {
	common := ""
	for i, l := range lines {
		at := strings.LastIndexByte(l.name, '-')
		if at < 0 || strings.Trim(l.name[at+1:], "0123456789") != "" || at+1 == len(l.name) {
			return ""
		}
		if s := l.name[at:]; i == 0 {
			common = s
		} else if s != common {
			return ""
		}
	}
	return common
}
