package benchfmt

import (
	"fmt"
	"regexp"
	"strings"
)

// maxMetricName is how long the name of a metric may be, in bytes.
const maxMetricName = 63

// MetricLines writes a line of the parameter metric of the workload command for each case's first figure, or with all
// for each figure: NAME:UNIT:lower|higher:re:EXPRESSION. The expression has the case's name in it, so that a suite that
// prints another case in its place gives no figure instead of a wrong one; of a case that is printed several times it
// finds the first. without are the figures that no expression
// can find by their case's name; names that taken has are not given.
func (s *Suite) MetricLines(all bool, taken ...string) (lines, without []string) {
	used := map[string]bool{}
	for _, name := range taken {
		used[name] = true
	}
	for i := range s.Cases {
		c := &s.Cases[i]
		for j := range c.Figures {
			f := &c.Figures[j]
			if j > 0 && !all {
				break
			}
			if f.find == "" || strings.ContainsAny(f.printed, ": \t\n") {
				without = append(without, c.Name+" "+f.Name)
				continue
			}
			name := c.Name
			if j > 0 {
				name += " " + f.Name
			}
			lines = append(lines, fmt.Sprintf("%s:%s:%s:re:%s", metricName(name, used), f.printed, f.Better, f.find))
		}
	}
	return lines, without
}

// metricName makes a name of small letters, digits and underscores that is not used yet.
func metricName(name string, used map[string]bool) string {
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
	base := b.String()
	base = strings.Trim(base[:min(len(base), maxMetricName-5)], "_")
	if base == "" {
		base = "b"
	}
	out := base
	for n := 2; used[out]; n++ {
		out = fmt.Sprintf("%s_%d", base, n)
	}
	used[out] = true
	return out
}

// number is the group of a figure in an expression.
const number = `([0-9.eE+-]+)`

// goFind finds the figure of a line of Go's, on a machine with any number of processors.
func goFind(name, unitName string) string {
	return `(?m)^` + regexp.QuoteMeta(name) + `(?:-\d+)?\s+\d+\s(?:.*\s)?` + number + ` ` +
		regexp.QuoteMeta(unitName) + `(?:\s|$)`
}

// memberFind finds a number in the JSON object that has a text, both by their keys: the first one behind the text.
func memberFind(key, text, member string) string {
	if text == "" || strings.ContainsAny(text, `"\`) {
		return "" // each program escapes as it likes
	}
	return `(?s)"` + key + `": ?"` + regexp.QuoteMeta(text) + `".*?"` + member + `": ?` + number
}
