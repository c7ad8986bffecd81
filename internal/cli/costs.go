package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/judge/costper"
	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/run/schedule"
	"tare/internal/show/report"
	"tare/internal/suggest"
)

// costOptions has the flags for figures beyond the ratios: costs per resource that is paid for, and the value of a
// saving. tare run and tare report share it.
type costOptions struct {
	per      string
	unequal  bool
	watts    []string
	prices   []string
	worth    string
	hourly   string
	workload string
	from     string
	uses     float64

	spec  costper.Spec
	asked *costper.WorthSpec // nil: nobody asks what it is worth
}

// flag adds the flags.
func (n *costOptions) flag(c *cobra.Command) {
	var pers []string
	for _, p := range costper.Pers() {
		pers = append(pers, string(p))
	}
	f := c.Flags()
	f.StringVar(&n.per, "per", "", "after the table, restate the costs per "+strings.Join(pers, ", ")+
		", from recorded facts, with the arithmetic")
	f.BoolVar(&n.unequal, "unequal-topology", false,
		"with --per: divide by cores even if they run different numbers of threads")
	f.StringArrayVar(&n.watts, "watts", nil,
		"power that an environment uses while it works, in W: NAME=35 (repeatable)")
	f.StringArrayVar(&n.prices, "price", nil, "price of an environment: NAME=0.12/h, NAME=40EUR/month (repeatable)")
	f.StringVar(&n.worth, "worth", "",
		"after the table, show when a candidate with this price has paid for itself: 140USD")
	f.Float64Var(&n.uses, "uses-per-day", 0,
		"with --worth: how often the work is done each day, on average over all days")
	f.StringVar(&n.hourly, "hourly", "", "with --worth: the price of an hour of waiting: 60USD")
	f.StringVar(&n.workload, "worth-workload", "",
		"with --worth: the workload that counts as one use [the first command, or else the first http.load]")
	f.StringVar(&n.from, "worth-from", "", "with --worth: the first day of use, as 2026-11-21 [today]")
}

// parse reads the flags' values. A mistake in them is one in the command line.
func (n *costOptions) parse() error {
	n.spec = costper.Spec{Per: costper.Per(n.per), UnequalTopology: n.unequal, Given: map[string]map[string]string{}}
	if n.per != "" && !slices.Contains(costper.Pers(), n.spec.Per) {
		return usagef("--per: there is no unit %q%s", n.per, suggest.MeantOrAll(n.per, perNames(), "there are:"))
	}
	if n.unequal && n.per == "" {
		return usagef("--unequal-topology goes with --per")
	}
	for _, kind := range []struct {
		flag   string
		values []string
		parse  func(string) (string, map[string]string, error)
	}{{"--watts", n.watts, costper.ParseWatts}, {"--price", n.prices, costper.ParsePrice}} {
		for _, v := range kind.values {
			target, facts, err := kind.parse(v)
			if err != nil {
				return usageError{fmt.Errorf("%s: %w", kind.flag, err)}
			}
			if n.spec.Given[target] == nil {
				n.spec.Given[target] = map[string]string{}
			}
			for k, f := range facts {
				n.spec.Given[target][k] = f
			}
		}
	}
	return n.parseWorth()
}

func (n *costOptions) parseWorth() error {
	if n.worth == "" {
		for _, f := range []struct {
			name string
			set  bool
		}{{"uses-per-day", n.uses != 0}, {"hourly", n.hourly != ""}, {"worth-workload", n.workload != ""},
			{"worth-from", n.from != ""}} {
			if f.set {
				return usagef("--%s goes with --worth", f.name)
			}
		}
		return nil
	}
	s := costper.WorthSpec{UsesPerDay: n.uses, Workload: n.workload, From: time.Now()}
	var err error
	if s.Price, err = costper.ParseMoney(n.worth); err != nil {
		return usageError{fmt.Errorf("--worth: %w", err)}
	}
	if n.hourly != "" {
		if s.Hourly, err = costper.ParseMoney(n.hourly); err != nil {
			return usageError{fmt.Errorf("--hourly: %w", err)}
		}
	}
	if n.from != "" {
		if s.From, err = time.Parse(time.DateOnly, n.from); err != nil {
			return usagef("--worth-from: %q is not a day such as 2026-11-21", n.from)
		}
	}
	if err := s.Check(); err != nil { // before a run, not after it
		return usageError{fmt.Errorf("--worth: %w", err)}
	}
	n.asked = &s
	return nil
}

// check is parse for a plan at hand.
func (n *costOptions) check(p *plan.Plan) error {
	if err := n.parse(); err != nil {
		return err
	}
	return n.names(p)
}

// costResult has the figures that the flags ask for. failed names those that the result does not have.
type costResult struct {
	table  *costper.Table
	worth  *costper.Answers
	spec   *costper.WorthSpec
	scope  string
	failed error
}

// compute answers what was asked for, as far as the figures can; p is the result's plan, whose names were checked.
func (n *costOptions) compute(r *verdict.Result, p *plan.Plan) *costResult {
	x := &costResult{spec: n.asked, scope: r.Run.Scope}
	if n.per != "" {
		x.table, x.failed = costper.Apply(r, p, n.spec)
	}
	if n.asked == nil {
		return x
	}
	found, err := costper.Ask(r, p, *n.asked)
	switch {
	case err == nil:
		x.worth = costper.NewAnswers(*n.asked, found)
	case x.failed != nil:
		x.failed = fmt.Errorf("%w; %w", x.failed, err)
	default:
		x.failed = err
	}
	return x
}

// names checks that every target with a price or a power is one of the plan's, and so is the workload that is a use.
func (n *costOptions) names(p *plan.Plan) error {
	if _, ok := p.Workload(n.workload); !ok && n.workload != "" {
		var labels []string
		for i := range p.Workloads {
			labels = append(labels, p.Workloads[i].Label)
		}
		return usagef("--worth-workload: there is no workload %q%s", n.workload,
			suggest.MeantOrAll(n.workload, labels, "there are:"))
	}
	for target := range n.spec.Given {
		if _, ok := p.Target(target); ok {
			continue
		}
		var known []string
		for _, e := range p.Targets {
			known = append(known, e.Name)
		}
		return usagef("--watts, --price: there is no target %q%s", target,
			suggest.MeantOrAll(target, known, "there are:"))
	}
	return nil
}

// say writes what was asked for below a report. A question that the figures cannot answer is an error, after those that
// they can answer have been. Lines are broken at width, and stand further in from the second one on.
func (x *costResult) say(w io.Writer, width int) error {
	var b bytes.Buffer
	if x.table != nil {
		b.WriteString("\n")
		if err := x.table.WriteText(&b, printableLine); err != nil {
			return err
		}
	}
	if x.worth != nil {
		b.WriteString("\nWorth\n")
		for i := range x.worth.Answers {
			if err := x.worth.Answers[i].WriteText(&b, *x.spec, x.scope, printableLine); err != nil {
				return err
			}
		}
	}
	for line := range strings.Lines(b.String()) {
		for _, part := range hanging(strings.TrimSuffix(line, "\n"), width) {
			if _, err := fmt.Fprintln(w, part); err != nil {
				return err
			}
		}
	}
	return x.failed
}

// hanging breaks a line at width; what follows the first part stands four columns further in.
func hanging(line string, width int) []string {
	text := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(text)]
	if text == "" {
		return []string{""}
	}
	first := report.Wrap(indent, text, width)[0]
	rest := strings.TrimSpace(line[len(first):])
	if rest == "" {
		return []string{first}
	}
	return append([]string{first}, report.Wrap(indent+"    ", rest, width)...)
}

func perNames() []string {
	var names []string
	for _, p := range costper.Pers() {
		names = append(names, string(p))
	}
	return names
}

// recording has what the user says of an environment's price and power written to the bundle with the environment.
type recording struct {
	schedule.Opener
	given map[string]map[string]string
}

// record wraps an opener; with nothing to record it is the opener itself.
func (n *costOptions) record(o schedule.Opener) schedule.Opener {
	if len(n.spec.Given) == 0 {
		return o
	}
	return recording{o, n.spec.Given}
}

// Open implements schedule.Opener.
func (r recording) Open(ctx context.Context, e *plan.Target, mounts []*plan.Target,
	session int) (schedule.Target, error) {
	t, err := r.Opener.Open(ctx, e, mounts, session)
	costper.Record(&t.Record, r.given[t.Record.Name])
	for i := range t.Mounts {
		costper.Record(&t.Mounts[i].Record, r.given[t.Mounts[i].Record.Name])
	}
	return t, err
}
