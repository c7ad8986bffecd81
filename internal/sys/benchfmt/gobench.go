package benchfmt

import (
	"bytes"
	"encoding/json"
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
//
// A benchmark that prints has its figures on a line of their own behind its output; they belong to its name. With -json
// each package's output is put together first.
func parseGo(out []byte) (*Suite, error) {
	r := &goReader{b: newBuilder(), better: map[string]unit.Better{}}
	for raw := range bytes.Lines(goText(out)) {
		r.number++
		r.line(strings.TrimRight(string(raw), "\r\n"))
		if len(r.lines) > MaxValues {
			return nil, fmt.Errorf("there are more than %d results: run fewer benchmarks at a time", MaxValues)
		}
	}
	r.broken()
	suffix := commonSuffix(r.lines)
	several := slices.ContainsFunc(r.lines, func(l goLine) bool { return l.pkg != r.lines[0].pkg })
	for _, l := range r.lines {
		name, printed := strings.TrimSuffix(l.name, suffix), l.name
		if several {
			name, printed = l.pkg+"."+name, l.pkg+"."+printed
		}
		if err := l.add(r.b, name, r.better); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		if i, ok := r.b.at[name]; ok {
			r.b.suite.Cases[i].printed = printed
		}
	}
	s, err := r.b.done()
	if err != nil {
		return nil, fmt.Errorf("%w; Go prints benchmarks with -bench or -test.bench, as BenchmarkX 100 123 ns/op", err)
	}
	return s, nil
}

// goText is the text of go test, put together from the events of -json if it is that: an output may come in pieces, and
// packages at the same time.
func goText(out []byte) []byte {
	if head := bytes.TrimLeft(out, " \t\r\n"); len(head) == 0 || head[0] != '{' {
		return out
	}
	text, order := map[string][]byte{}, []string{}
	for line := range bytes.Lines(out) {
		var event struct{ Package, Output string }
		if json.Unmarshal(line, &event) != nil || event.Output == "" {
			continue
		}
		if _, ok := text[event.Package]; !ok {
			order = append(order, event.Package)
		}
		text[event.Package] = append(text[event.Package], event.Output...)
	}
	var all []byte
	for _, name := range order {
		all = append(append(append(all, "pkg: "+name+"\n"...), text[name]...), '\n')
	}
	return all
}

// goReader reads Go's text line by line.
type goReader struct {
	b      *builder
	better map[string]unit.Better
	lines  []goLine
	pkg    string
	number int    // of the line, from 1
	waits  string // the name of a benchmark that has printed before its figures
}

func (r *goReader) line(line string) {
	switch {
	case strings.HasPrefix(line, "pkg: "):
		r.pkg = strings.TrimSpace(line[5:])
	case strings.HasPrefix(line, "Unit "):
		goUnit(line, r.better)
	case strings.HasPrefix(line, "--- FAIL: Benchmark"):
		name, _, _ := strings.Cut(line[len("--- FAIL: "):], " ")
		r.b.leave(name, "", "it failed")
		r.waits = ""
	case isBenchmark(line):
		r.broken()
		l, ok, err := goResult(line)
		if err != nil {
			r.b.leave(l.name, "", fmt.Sprintf("line %d: %v", r.number, err))
		} else if ok {
			r.keep(l)
		} else if name, rest, _ := strings.Cut(line, "\t"); strings.TrimSpace(rest) != "" {
			r.waits = strings.TrimSpace(name)
		}
	case r.waits != "":
		if l, ok, err := goResult(r.waits + " " + line); ok && err == nil && strings.HasSuffix(l.values[1], "/op") {
			r.keep(l)
			r.waits = ""
		}
	}
}

func (r *goReader) keep(l goLine) {
	l.pkg, l.number = r.pkg, r.number
	r.lines = append(r.lines, l)
}

// broken tells of a benchmark whose figures did not come.
func (r *goReader) broken() {
	if r.waits != "" {
		r.b.leave(r.waits, "", "its line is broken by what it printed, and no figures follow")
		r.waits = ""
	}
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
		return l, false, nil // the benchmark's own output
	}
	if len(words)%2 != 0 {
		return l, false, fmt.Errorf("%q has no unit", words[len(words)-1])
	}
	l.values = words[2:]
	return l, true, nil
}

// add adds the figures of a line.
func (l *goLine) add(b *builder, name string, better map[string]unit.Better) error {
	told := map[string]bool{} // by this line
	for i := 0; i < len(l.values); i += 2 {
		v, err := strconv.ParseFloat(l.values[i], 64)
		u := l.values[i+1]
		if err != nil && v == 0 {
			b.leave(name, u, fmt.Sprintf("line %d: %.60q is not a number", l.number, l.values[i]))
			continue
		}
		f := normal(v, u)
		if f.Name = goFigure(u, f.Unit); told[f.Name] {
			f.Name = u
		}
		told[f.Name] = true
		if x := better[u]; x != "" {
			f.Better = x
		}
		if err := b.put(name, f); err != nil {
			return err
		}
	}
	return nil
}

// goFigure names a figure: those of the testing package itself as it means them, others by their unit as it is
// compared, which is the same whatever multiple of it a run prints. A value that is printed in two multiples of one
// unit is two figures.
func goFigure(u, compared string) string {
	switch {
	case u == "ns/op":
		return "time"
	case u == "B/op":
		return "bytes"
	case u == "allocs/op":
		return "allocs"
	case compared == "B/s":
		return "throughput"
	case compared == "s" && strings.HasSuffix(u, "/op"):
		return "s/op"
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
