package benchfmt

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxMetricName bounds the name of a metric, in bytes.
const maxMetricName = 63

// Line is a line of the parameter metric of the workload command: one figure of one case, which the format's parser
// finds in the output of each run.
type Line struct {
	Name string // of the metric
	Case string // as the suite calls it
	Text string
	// Plain tells that the name says which case it is: nothing was cut, and no other has the same letters.
	Plain bool
}

// Lines returns a line for each case's first figure, or with all for each figure; the second form is for an expression:
//
//	NAME:UNIT:lower|higher:FORMAT:"CASE" FIGURE
//	NAME:UNIT:lower|higher:each:"CASE" FIGURE EXPRESSION
//
// format is the argument of New; names that taken has are not given. without are the figures that no line can be of.
func (s *Suite) Lines(format string, all bool, taken ...string) (lines []Line, without []string) {
	used := map[string]bool{}
	for _, name := range taken {
		used[name] = true
	}
	how, expression := format, ""
	if strings.Contains(format, "(") {
		how, expression = Each, " "+format
	}
	skip := s.together()
	for i := range s.Cases {
		c := &s.Cases[i]
		for j := range c.Figures {
			f := &c.Figures[j]
			if j > 0 && !all {
				break
			}
			if strings.ContainsAny(f.Unit, ": \t\n") || strings.ContainsAny(format, "\n") {
				without = append(without, c.Name+" "+f.Name)
				continue
			}
			name := c.Name[skip:]
			if j > 0 {
				name += " " + f.Name
			}
			l := Line{Case: c.Name}
			l.Name, l.Plain = metricName(name, used)
			l.Text = fmt.Sprintf("%s:%s:%s:%s:%s %s%s", l.Name, f.Unit, f.Better, how, strconv.QuoteToGraphic(c.Name),
				strconv.QuoteToGraphic(f.Name), expression)
			lines = append(lines, l)
		}
	}
	return lines, without
}

// together is the length of the common beginning of all names, in bytes, that ends a word, where some name is too long
// for a metric: the package of all benchmarks, say. The part that tells cases apart stands at the end.
func (s *Suite) together() int {
	long := false
	common := s.Cases[0].Name
	for i := range s.Cases {
		name := s.Cases[i].Name
		long = long || len(name) > maxMetricName-5
		n := 0
		for n < min(len(common), len(name)) && common[n] == name[n] {
			n++
		}
		common = common[:n]
	}
	if !long || len(s.Cases) == 1 {
		return 0
	}
	return strings.LastIndexAny(common, "./: ") + 1
}

// metricName makes a name of small letters, digits and underscores that is not used yet. Of one that is too long the
// beginning and the end stay. plain tells that it is the only one of these letters, whole.
func metricName(name string, used map[string]bool) (metric string, plain bool) {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimPrefix(name, "Benchmark")) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9' && b.Len() > 0:
			b.WriteRune(r)
		case r >= '0' && r <= '9':
			b.WriteString("b_" + string(r))
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	base := strings.Trim(b.String(), "_")
	const most, head = maxMetricName - 5, 18 // five for _9999
	if plain = base != ""; !plain {
		base = "b"
	}
	if len(base) > most {
		base, plain = strings.Trim(base[:head], "_")+"_"+strings.Trim(base[len(base)-(most-head-1):], "_"), false
	}
	out := base
	for n := 2; used[out]; n++ {
		out, plain = fmt.Sprintf("%s_%d", base, n), false
	}
	used[out] = true
	return out, plain
}

// Each is the form of a line whose figures an expression finds, each with the name of its case.
const Each = "each"

// Selector is one figure of one case.
type Selector struct {
	Format       string // an argument of New
	Case, Figure string
}

// ParseWanted reads the text behind the form of a line: "CASE" "FIGURE", and with the form Each an expression.
func ParseWanted(form, text string) (w Selector, err error) {
	w.Format = form
	for _, into := range []*string{&w.Case, &w.Figure} {
		quoted, err := strconv.QuotedPrefix(text)
		if err == nil {
			*into, err = strconv.Unquote(quoted)
		}
		if err != nil || *into == "" {
			return w, errors.New(`after the format come the names of the case and of its figure: go:"BenchmarkX" "time"`)
		}
		text = strings.TrimPrefix(text[len(quoted):], " ")
	}
	switch {
	case form == Each:
		w.Format = text
	case text != "":
		return w, fmt.Errorf("%.60q is too much: behind the names of the case and of its figure nothing follows", text)
	}
	_, err = New(w.Format)
	return w, err
}

// Find returns the figures that are wanted of a suite, in their order; the error names the first that it has not. The
// case of a wanted name is the one that is printed so, and otherwise the one that is called so without the parts that
// depend on the machine: where a run prints only one of BenchmarkX and BenchmarkX-4, it is not taken for the other.
func (s *Suite) Find(wanted []Selector) ([]float64, error) {
	names := map[string]bool{}
	for _, w := range wanted {
		names[w.Case] = true
	}
	cases := map[string]*Case{}
	for i := range s.Cases {
		c := &s.Cases[i]
		if c.printed != c.Name && names[c.printed] {
			cases[c.printed] = c
		} else if cases[c.Name] == nil {
			cases[c.Name] = c
		}
	}
	values := make([]float64, len(wanted))
	for i, w := range wanted {
		c := cases[w.Case]
		if c == nil {
			return nil, fmt.Errorf("the output has no case %.200q", w.Case)
		}
		for _, f := range c.Figures {
			if f.Name == w.Figure {
				values[i] = f.Value
			}
		}
		if values[i] == 0 {
			return nil, fmt.Errorf("the case %.200q has no figure %.60q", w.Case, w.Figure)
		}
	}
	return values, nil
}
