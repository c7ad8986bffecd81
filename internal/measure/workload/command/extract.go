package command

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tare/internal/record"
	"tare/internal/suggest"
	"tare/internal/sys/benchfmt"
	"tare/internal/unit"
)

// extractor reads figures from a command's standard output, which may be anything of up to maxOutput bytes.
type extractor interface {
	metrics() []unit.Metric
	extract(out []byte) (*found, error)
}

// found are the figures in one run's output.
type found struct {
	values   map[string]float64
	notes    map[string]string
	warnings []record.Warning
}

func newFound() *found { return &found{values: map[string]float64{}, notes: map[string]string{}} }

// set keeps a figure if it can be compared: a cost or rate of zero has no ratio.
func (f *found) set(name string, v float64) {
	if v > 0 && !math.IsInf(v, 0) {
		f.values[name] = v
	}
}

func (f *found) warn(code, text, remedy string) {
	f.warnings = append(f.warnings, record.Warning{Code: code, Text: text, Remedy: remedy})
}

// newExtractor makes the extractor of the parameters preset and metric; nil when no figures are read.
func newExtractor(preset, metric string) (extractor, error) {
	var all chain
	if preset != presetNone && preset != "" {
		i := slices.IndexFunc(presets(), func(p program) bool { return p.name == preset })
		if i < 0 {
			return nil, fmt.Errorf("command: preset: %q is not known%s", preset,
				suggest.DidYouMean(preset, presetNames()))
		}
		all = append(all, presets()[i])
	}
	for _, line := range strings.Split(metric, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		m, err := parseMetric(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("command: metric %q: %w", line, err)
		}
		if m.find != nil {
			all = append(all, m)
			continue
		}
		i := slices.IndexFunc(all, func(e extractor) bool {
			s, ok := e.(*suiteMetrics)
			return ok && s.wanted[0].Format == m.wanted.Format
		})
		if i < 0 {
			parse, err := benchfmt.New(m.wanted.Format)
			if err != nil {
				return nil, fmt.Errorf("command: metric %q: %w", line, err)
			}
			i, all = len(all), append(all, &suiteMetrics{parse: parse})
		}
		s := all[i].(*suiteMetrics)
		s.list, s.wanted = append(s.list, m.metric), append(s.wanted, m.wanted)
	}
	if len(all) == 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	for _, m := range append(all.metrics(), ownMetrics(false)...) {
		if seen[m.Name] {
			return nil, fmt.Errorf("command: metric %s is declared twice; give it another name", m.Name)
		}
		seen[m.Name] = true
	}
	return all, nil
}

// chain reads figures from the same output by several extractors.
type chain []extractor

func (c chain) metrics() []unit.Metric {
	var ms []unit.Metric
	for _, e := range c {
		ms = append(ms, e.metrics()...)
	}
	return ms
}

func (c chain) extract(out []byte) (*found, error) {
	all := newFound()
	for _, e := range c {
		f, err := e.extract(out)
		if err != nil {
			return nil, err
		}
		maps.Copy(all.values, f.values)
		maps.Copy(all.notes, f.notes)
		all.warnings = append(all.warnings, f.warnings...)
	}
	return all, nil
}

// userMetric is one line of the parameter metric.
type userMetric struct {
	metric unit.Metric
	find   func(out []byte) (float64, error) // nil for a figure of a suite
	wanted benchfmt.Selector                 // of a suite
}

// suiteMetrics are lines of the parameter metric whose figures one parser reads, at once.
type suiteMetrics struct {
	parse  benchfmt.Parser
	list   []unit.Metric
	wanted []benchfmt.Selector // of each metric
}

func (s *suiteMetrics) metrics() []unit.Metric { return s.list }

func (s *suiteMetrics) extract(out []byte) (*found, error) {
	suite, err := s.parse(out)
	if err != nil {
		return nil, fmt.Errorf("metric %s: %w", s.list[0].Name, err)
	}
	values, err := suite.Find(s.wanted)
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w; every run must print all cases", s.wanted[0].Format, err)
	}
	f := newFound()
	for i, v := range values {
		f.values[s.list[i].Name] = v
	}
	return f, nil
}

func (u *userMetric) metrics() []unit.Metric { return []unit.Metric{u.metric} }

func (u *userMetric) extract(out []byte) (*found, error) {
	v, err := u.find(out)
	if err != nil {
		return nil, fmt.Errorf("metric %s: %w; every run must print it", u.metric.Name, err)
	}
	if !(v > 0) || math.IsInf(v, 0) {
		return nil, fmt.Errorf("metric %s is %v: only figures above 0 can be compared", u.metric.Name, v)
	}
	f := newFound()
	f.values[u.metric.Name] = v
	return f, nil
}

var metricName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`) })

// parseMetric reads NAME:UNIT:lower|higher:json:/pointer, NAME:UNIT:lower|higher:re:REGEX, or what benchfmt's Lines
// writes of a suite.
func parseMetric(text string) (*userMetric, error) {
	part := strings.SplitN(text, ":", 5)
	if len(part) < 5 {
		return nil, errors.New("write NAME:UNIT:lower|higher:json:/pointer or NAME:UNIT:lower|higher:re:REGEX")
	}
	name, unitName, better, how, where := part[0], part[1], unit.Better(part[2]), part[3], part[4]
	if !metricName().MatchString(name) {
		return nil, fmt.Errorf("%q is not a valid name: use lower-case letters, digits and underscores, beginning "+
			"with a letter",
			name)
	}
	if better != unit.Lower && better != unit.Higher {
		return nil, fmt.Errorf("%q must be lower or higher: which of them is better", better)
	}
	u := &userMetric{metric: unit.Metric{Name: name, Unit: unitName, Better: better, Printed: true,
		Doc: "read from the command's output by " + how + " " + where}}
	switch how {
	case "json":
		path, err := parsePointer(where)
		if err != nil {
			return nil, err
		}
		u.find = func(out []byte) (float64, error) { return numberAt(out, path) }
	case "re":
		re, err := regexp.Compile(where)
		if err != nil {
			return nil, err
		}
		if re.NumSubexp() < 1 {
			return nil, fmt.Errorf("the expression %s has no group: put parentheses around the figure", where)
		}
		u.find = func(out []byte) (float64, error) { return firstGroup(out, re) }
	default:
		forms := []string{"json", "re", benchfmt.Each}
		for _, f := range benchfmt.Formats() {
			forms = append(forms, f.Name)
		}
		if !slices.Contains(forms, how) {
			return nil, fmt.Errorf("%q must be one of %s", how, strings.Join(forms, ", "))
		}
		var err error
		if u.wanted, err = benchfmt.ParseWanted(how, where); err != nil {
			return nil, err
		}
		u.metric.Doc = fmt.Sprintf("%s of the case %s, which the command prints", u.wanted.Figure, u.wanted.Case)
	}
	return u, nil
}

// firstGroup returns the number in the first group of the first match. Where the second group is called unit, it has
// the unit of a time, which may differ from run to run, and the number is in seconds.
func firstGroup(out []byte, re *regexp.Regexp) (float64, error) {
	m := re.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("the output has no match for the expression %s", re)
	}
	v, err := benchfmt.Number(string(m[1]))
	if err == nil && re.SubexpIndex("unit") == 2 {
		s := benchfmt.Second(string(m[2]))
		if s == 0 {
			err = fmt.Errorf("%q is no unit of time", m[2])
		}
		v *= s
	}
	return v, err
}
