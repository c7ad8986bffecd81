package failif

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/internal/suggest"
	"tare/internal/unit"
)

// The figures that conditions speak of.
const (
	Ratio  = "ratio"  // a candidate's cost against the baseline
	Value  = "value"  // a figure in its own unit
	Change = "change" // a ratio in one result against the same in another
)

// Figure is one number with its interval that a condition can be about.
type Figure struct {
	Name     string // Ratio, Value or Change
	Target   string
	Workload string // label
	Kind     string
	Metric   string
	Primary  bool
	Unit     string // of a Value
	Center   float64
	Low      float64 // Low and High are 0 when there is no interval
	High     float64
	Doubt    string // why there is no interval, or why it is not to be used; "" when it can be used
}

// State is the answer to a condition.
type State int

// The answers.
const (
	No      State = iota // it does not hold
	Unknown              // the intervals do not tell
	Holds
)

// MarshalText names the answer for programs.
func (s State) MarshalText() ([]byte, error) {
	return []byte([...]string{"no", "unknown", "holds"}[s]), nil
}

// String is the answer in words.
func (s State) String() string { return [...]string{"does not hold", "cannot be decided", "HOLDS"}[s] }

// Outcome is a condition with its answer.
type Outcome struct {
	Expr  string `json:"expr"` // as the user wrote it
	State State  `json:"state"`
	Text  string `json:"text"` // why, with figures
}

// Eval answers the condition. The error is a mistake in it: a name that no figure has.
func (c *Condition) Eval(figures []Figure) (Outcome, error) {
	e := &evaluator{figures: figures}
	state, err := e.node(&c.top)
	if err != nil {
		return Outcome{}, fmt.Errorf("condition %q: %w", c.Expr, err)
	}
	return Outcome{Expr: c.Expr, State: state, Text: strings.Join(e.said, "; ")}, nil
}

type evaluator struct {
	figures []Figure
	said    []string
}

// node answers all of its parts, also where the first decides, so that every wrong name is told and every figure shown.
func (e *evaluator) node(n *node) (State, error) {
	if n.kind == kindTest {
		return e.test(&n.test)
	}
	states := make([]State, len(n.kids))
	for i := range n.kids {
		var err error
		if states[i], err = e.node(&n.kids[i]); err != nil {
			return No, err
		}
	}
	switch n.kind {
	case kindAnd:
		return slices.Min(states), nil
	case kindOr:
		return slices.Max(states), nil
	}
	return Holds - states[0], nil
}

func (e *evaluator) test(t *test) (State, error) {
	f, err := e.find(t)
	if err != nil {
		return No, err
	}
	limit, err := convert(t.limit, t.unit, f.Unit)
	if err != nil {
		return No, fmt.Errorf("%s: %w", t.text, err)
	}
	what := fmt.Sprintf("%s(%s, %s)", f.Name, f.Target, f.Workload)
	if !f.Primary {
		what = fmt.Sprintf("%s(%s, %s, %s)", f.Name, f.Target, f.Workload, f.Metric)
	}
	if f.Doubt != "" || !(f.High > 0) {
		why := f.Doubt
		if why == "" {
			why = "it has no interval yet"
		}
		e.said = append(e.said, fmt.Sprintf("%s cannot be decided: %s", what, why))
		return Unknown, nil
	}
	state := against(f, t.op, limit)
	e.said = append(e.said, fmt.Sprintf("%s is %s [%s, %s], %s is %s %s", what, f.show(f.Center), f.show(f.Low),
		f.show(f.High),
		[...]string{"no part of which", "only a part of which", "all of which"}[state], t.op, f.show(limit)))
	return state, nil
}

// against holds when the whole interval is on the limit's right side.
func against(f *Figure, op string, limit float64) State {
	var all, none bool
	switch op {
	case ">":
		all, none = f.Low > limit, f.High <= limit
	case ">=":
		all, none = f.Low >= limit, f.High < limit
	case "<":
		all, none = f.High < limit, f.Low >= limit
	case "<=":
		all, none = f.High <= limit, f.Low > limit
	}
	switch {
	case all:
		return Holds
	case none:
		return No
	}
	return Unknown
}

func (f *Figure) show(v float64) string {
	if f.Name == Value {
		return unit.Format(v, f.Unit)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// find looks the figure up, name by name, so that the error tells which one is wrong.
func (e *evaluator) find(t *test) (*Figure, error) {
	name := t.figure
	if name == "" {
		name = Ratio
		if slices.ContainsFunc(e.figures, func(f Figure) bool { return f.Name == Change }) {
			name = Change
		}
	}
	var of []*Figure
	for i := range e.figures {
		if e.figures[i].Name == name {
			of = append(of, &e.figures[i])
		}
	}
	if len(of) == 0 {
		if name == Change {
			return nil, fmt.Errorf("%s: change needs two results; use it with tare compare", t.text)
		}
		return nil, fmt.Errorf("%s: the result has no %s", t.text, name)
	}
	of, err := choose(of, "target", t.target, func(f *Figure) string { return f.Target })
	if err != nil {
		return nil, err
	}
	if of, err = chooseWorkload(of, t.workload); err != nil {
		return nil, err
	}
	if t.metric != "" {
		if of, err = choose(of, "metric", t.metric, func(f *Figure) string { return f.Metric }); err != nil {
			return nil, err
		}
		return of[0], nil
	}
	for _, f := range of {
		if f.Primary {
			return f, nil
		}
	}
	return of[0], nil
}

func choose(of []*Figure, what, want string, name func(*Figure) string) ([]*Figure, error) {
	var found []*Figure
	var names []string
	for _, f := range of {
		n := name(f)
		if n == want {
			found = append(found, f)
		}
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(found) == 0 {
		hint := suggest.DidYouMean(want, names)
		if hint == "" {
			hint = "; there are: " + list(names)
		}
		return nil, fmt.Errorf("there is no %s %q here%s", what, want, hint)
	}
	return found, nil
}

// chooseWorkload takes a label, or a kind that only one workload has.
func chooseWorkload(of []*Figure, want string) ([]*Figure, error) {
	var labels []string
	for _, f := range of {
		if f.Kind == want && !slices.Contains(labels, f.Workload) {
			labels = append(labels, f.Workload)
		}
	}
	label := func(f *Figure) string { return f.Workload }
	switch {
	case slices.ContainsFunc(of, func(f *Figure) bool { return f.Workload == want }) || len(labels) == 0:
		return choose(of, "workload", want, label)
	case len(labels) > 1:
		return nil, fmt.Errorf("%d workloads are of kind %s; name one by its label: %s", len(labels), want,
			list(labels))
	}
	return choose(of, "workload", labels[0], label)
}

func list(names []string) string {
	const most = 12
	quoted := []string{}
	for _, n := range names[:min(len(names), most)] {
		quoted = append(quoted, strconv.Quote(n))
	}
	if len(names) > most {
		quoted = append(quoted, "...")
	}
	return strings.Join(quoted, ", ")
}

// factors are the units that a limit may be given in, by family: times, bytes.
var factors = []map[string]float64{
	{"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60},
	{"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"TiB": 1 << 40},
}

// prefixes stand before counted things where reports show large numbers of them: "12.3 k ev/s", "1.94 M/s".
var prefixes = map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

// counted restates v where both units are of one counted thing, called by its name or as reports call it, perhaps with
// a prefix. A prefix alone is one of the figure's own unit.
func counted(v float64, from, to string) (float64, bool) {
	if f, ok := prefixes[from]; ok {
		return v * f, true
	}
	a, rate := strings.CutSuffix(from, "/s")
	b, rated := strings.CutSuffix(to, "/s")
	prefix, name, _ := strings.Cut(a, " ")
	if prefixes[prefix] == 0 {
		prefix, name = "", a
	}
	if rate != rated || name != b && name != unit.ShortName(b) {
		return 0, false
	}
	return v * prefixes[prefix], true
}

// convert restates v, given in one unit, in another.
func convert(v float64, from, to string) (float64, error) {
	if from == "" || from == to {
		return v, nil
	}
	if !slices.ContainsFunc(factors, func(f map[string]float64) bool { return f[strings.TrimSuffix(to, "/s")] > 0 }) {
		if counted, ok := counted(v, from, to); ok {
			return counted, nil
		}
	}
	a, b := strings.TrimSuffix(from, "/s"), strings.TrimSuffix(to, "/s")
	if (a == from) == (b == to) {
		for _, f := range factors {
			if f[a] > 0 && f[b] > 0 {
				return v * f[a] / f[b], nil
			}
		}
	}
	return 0, fmt.Errorf("the limit is in %q, the figure in %q", from, to)
}
