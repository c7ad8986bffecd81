// Package benchfmt reads the figures that suites of benchmarks print: those of Go's testing package, criterion, JMH,
// pytest-benchmark and Google Benchmark, and any others by a regular expression.
//
// It is opinionated about comparing. A figure is a finite number above zero in seconds, bytes or a rate, with a
// direction; anything else is left out, and the suite says so. A case that is printed several times has the median.
// Names are those that the suite prints, without the parts that depend on the machine, so that the same case has the
// same name everywhere. Nothing is guessed of output that has another form: the error says what was expected and where.
package benchfmt

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"tare/internal/suggest"
	"tare/internal/unit"
)

// Bounds of a suite.
const (
	MaxBytes   = 8 << 20 // of the output
	MaxCases   = 4000
	MaxFigures = 32      // of a case
	MaxValues  = 100_000 // of all figures with their repetitions
	MaxName    = 300     // bytes of the name of a case, a figure or a unit
	MaxLeft    = 100     // omissions are told one by one up to this number
)

// Suite is the output of a suite of benchmarks.
type Suite struct {
	Cases []Case    // at least one, in the order of the output; no two have the same name
	Left  []Omitted // omissions, at most MaxLeft
	// More is the number of omissions beyond Left.
	More int
}

// Case is one benchmark of a suite.
type Case struct {
	Name    string   // valid UTF-8, of any characters
	Figures []Figure // at least one; the first is the one that the suite itself shows first

	printed string // the name with the parts that depend on the machine; "" where there are none
}

// Figure is one figure of a case.
type Figure struct {
	Name  string // "time", "bytes", "allocs", "throughput", or the suite's own name of it
	Value float64
	// Unit is "s", "B", "B/s", a count by the second such as "ops/s", or the suite's own where it is none of these.
	Unit    string
	Better  unit.Better
	Repeats int // how many values it is the median of
}

// Shared is the cases of the first suite that all the others have as well, with the same unit and direction, and for
// each suite the names of those that not every suite has. An omission from any suite is told of the first that has it.
func Shared(suites []*Suite) (*Suite, [][]string) {
	has := map[string]int{}
	key := func(c *Case) string { return c.Name + "\n" + c.Figures[0].Unit + "\n" + string(c.Figures[0].Better) }
	for _, s := range suites {
		for i := range s.Cases {
			has[key(&s.Cases[i])]++
		}
	}
	shared, only := &Suite{}, make([][]string, len(suites))
	for n, s := range suites {
		for i := range s.Cases {
			c := &s.Cases[i]
			switch {
			case has[key(c)] < len(suites):
				only[n] = append(only[n], c.Name)
			case n == 0:
				shared.Cases = append(shared.Cases, *c)
			}
		}
		for _, l := range s.Left {
			if len(shared.Left) < MaxLeft && !slices.Contains(shared.Left, l) {
				shared.Left = append(shared.Left, l)
			}
		}
		shared.More = max(shared.More, s.More)
	}
	return shared, only
}

// Omitted is a figure that cannot be compared, or a case that did not end well.
type Omitted struct {
	Case, Figure string // Figure is "" where there was none
	Why          string
}

// Parser reads the output of a suite, of at most MaxBytes. The error says where the output differs from the expected
// form.
type Parser func(out []byte) (*Suite, error)

// Format is a row of the table of formats.
type Format struct {
	Name  string
	Doc   string // one sentence: the program and its arguments
	Parse Parser
}

// Formats lists the formats that have a name.
func Formats() []Format {
	return []Format{
		{"go", "Go's testing package: go test -bench, or a compiled test binary with -test.bench", parseGo},
		{"criterion", "criterion (Rust): what cargo bench prints, or cargo criterion --message-format=json",
			parseCriterion},
		{"jmh", "JMH (Java): the file of -rf json", parseJMH},
		{"pytest", "pytest-benchmark (Python): the file of --benchmark-json", parsePytest},
		{"google", "Google Benchmark (C++): --benchmark_format=json", parseGoogle},
	}
}

// New returns the parser of a format's name, or of a regular expression with the groups name and value and perhaps
// unit, as in `(?m)^(?P<name>\w+): (?P<value>[0-9.]+) (?P<unit>\w+)$`.
func New(format string) (Parser, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == format {
			return bounded(f.Parse), nil
		}
		names = append(names, f.Name)
	}
	if !strings.Contains(format, "(") {
		return nil, fmt.Errorf("benchmarks: there is no format %q%s; or give a regular expression with the groups "+
			"(?P<name>...), (?P<value>...) and perhaps (?P<unit>...)", format,
			suggest.MeantOrAll(format, names, "there are:"))
	}
	re, err := regexp.Compile(format)
	if err != nil {
		return nil, fmt.Errorf("benchmarks: %w", err)
	}
	p, err := pattern(re)
	if err != nil {
		return nil, fmt.Errorf("benchmarks: the expression %s %w", re, err)
	}
	return bounded(p), nil
}

// bounded refuses an output that is too long, before anything is made of it.
func bounded(p Parser) Parser {
	return func(out []byte) (*Suite, error) {
		if len(out) > MaxBytes {
			return nil, fmt.Errorf("the output has %d bytes; at most %d MiB of figures are read: run fewer benchmarks "+
				"at a time", len(out), MaxBytes>>20)
		}
		return p(out)
	}
}

// builder collects the figures of a suite.
type builder struct {
	suite  Suite
	at     map[string]int // of suite.Cases, by name
	values map[[2]int][]float64
	count  int
}

func newBuilder() *builder { return &builder{at: map[string]int{}, values: map[[2]int][]float64{}} }

// leave tells of something that is left out.
func (b *builder) leave(name, figure, why string) {
	l := Omitted{cutName(name), cutName(figure), why}
	switch {
	case slices.Contains(b.suite.Left, l): // in a repetition
	case len(b.suite.Left) == MaxLeft:
		b.suite.More++
	default:
		b.suite.Left = append(b.suite.Left, l)
	}
}

// cutName makes a name that is only told no longer than one that is kept.
func cutName(s string) string {
	if len(s) <= MaxName {
		return s
	}
	return strings.ToValidUTF8(s[:MaxName], "") + "..."
}

func checkName(what, s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return fmt.Errorf("a %s has no name", what)
	case len(s) > MaxName:
		return fmt.Errorf("the name of a %s has %d bytes, at most %d are read (%.60q)", what, len(s), MaxName, s)
	case !utf8.ValidString(s):
		return fmt.Errorf("the name of a %s is not UTF-8: %.60q", what, s)
	}
	return nil
}

// add adds a value in a unit as the suite writes it, which also tells the direction.
func (b *builder) add(name, figure string, v float64, unitName string) error {
	f := normal(v, unitName)
	f.Name = figure
	return b.put(name, f)
}

// put adds a value that is in its final unit.
func (b *builder) put(name string, f Figure) error {
	if err := checkName("case", name); err != nil {
		return err
	}
	if err := checkName("figure", f.Name); err != nil {
		return err
	}
	if len(f.Unit) > MaxName {
		return fmt.Errorf("the unit of %s has %d bytes, at most %d are read", f.Name, len(f.Unit), MaxName)
	}
	if !(f.Value > 0) || math.IsInf(f.Value, 0) {
		b.leave(name, f.Name, fmt.Sprintf("%v is no figure that can be compared", f.Value))
		return nil
	}
	i, ok := b.at[name]
	if !ok {
		if len(b.suite.Cases) == MaxCases {
			return fmt.Errorf("there are more than %d cases: run fewer benchmarks at a time", MaxCases)
		}
		i = len(b.suite.Cases)
		b.at[name] = i
		b.suite.Cases = append(b.suite.Cases, Case{Name: name})
	}
	c := &b.suite.Cases[i]
	j := slices.IndexFunc(c.Figures, func(x Figure) bool { return x.Name == f.Name })
	switch {
	case j < 0 && len(c.Figures) == MaxFigures:
		b.leave(name, f.Name, fmt.Sprintf("a case has at most %d figures", MaxFigures))
		return nil
	case j < 0:
		j = len(c.Figures)
		c.Figures = append(c.Figures, f)
	case c.Figures[j].Unit != f.Unit:
		b.leave(name, f.Name, fmt.Sprintf("it has two units, %s and %s", c.Figures[j].Unit, f.Unit))
		return nil
	}
	if b.count++; b.count > MaxValues {
		return fmt.Errorf("there are more than %d figures: run fewer benchmarks at a time", MaxValues)
	}
	b.values[[2]int{i, j}] = append(b.values[[2]int{i, j}], f.Value)
	return nil
}

// done ends a suite: each figure is the median of its values.
func (b *builder) done() (*Suite, error) {
	if len(b.suite.Cases) == 0 {
		why := "the output has no benchmark"
		if len(b.suite.Left) > 0 {
			l := b.suite.Left[0]
			why = fmt.Sprintf("no benchmark has a figure to compare: %s: %s", strings.TrimSpace(l.Case+" "+l.Figure),
				l.Why)
		}
		return nil, errors.New(why)
	}
	for at, values := range b.values {
		slices.Sort(values)
		n := len(values)
		f := &b.suite.Cases[at[0]].Figures[at[1]]
		f.Value, f.Repeats = values[n/2], n
		if low := values[(n-1)/2]; low < f.Value { // their sum may be too large for a number, and a half of one 0
			f.Value = low + (f.Value-low)/2
		}
	}
	return &b.suite, nil
}
