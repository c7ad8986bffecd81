package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"tare/internal/judge/failif"
	"tare/internal/judge/rundiff"
	"tare/internal/plan"
)

// exitCondition says that a --fail-if condition holds.
const exitCondition = 3

// failIf are the conditions of --fail-if.
type failIf struct {
	exprs      []string
	conditions []*failif.Condition
}

func (f *failIf) flag(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.exprs, "fail-if", nil,
		"exit with 3 when this certainly holds: 'ratio(TARGET, WORKLOAD) > 2.0', 'slower(TARGET, WORKLOAD, 10%)', "+
			"'value(TARGET, WORKLOAD, METRIC) > 5 ms' (repeatable)")
}

// parse reads the conditions. A mistake in them is one in the command line.
func (f *failIf) parse() error {
	f.conditions = nil
	for _, e := range f.exprs {
		c, err := failif.Parse(e)
		if err != nil {
			return usageError{fmt.Errorf("--fail-if: %w", err)}
		}
		f.conditions = append(f.conditions, c)
	}
	return nil
}

// judge answers every condition. A name that no figure has is a mistake in the command line.
func (f *failIf) judge(figures []failif.Figure) ([]failif.Outcome, error) {
	var out []failif.Outcome
	for _, c := range f.conditions {
		o, err := c.Eval(figures)
		if err != nil {
			return nil, usageError{fmt.Errorf("--fail-if: %w", err)}
		}
		out = append(out, o)
	}
	return out, nil
}

// checkFailIf parses the conditions and checks their names against a plan, before hours are spent on it.
func (cat *catalog) checkFailIf(f *failIf, p *plan.Plan) error {
	if err := f.parse(); err != nil {
		return err
	}
	_, err := f.judge(failif.Expected(p, cat.kind))
	return err
}

// tell prints the outcomes on standard error.
func (con *console) tell(outcomes []failif.Outcome) {
	for _, o := range outcomes {
		fmt.Fprintf(con.err, "tare: --fail-if %s: %s: %s\n", quoteArg(o.Expr), o.State, printableLine(o.Text))
	}
}

// ending turns the outcomes into the exit code: a condition that holds comes before anything that cannot be told.
func ending(outcomes []failif.Outcome, strict, conclusive bool) error {
	unknown := false
	for _, o := range outcomes {
		if o.State == failif.Holds {
			return codeError{exitCondition}
		}
		unknown = unknown || o.State == failif.Unknown
	}
	if strict && (unknown || !conclusive) {
		return codeError{exitInconclusive}
	}
	return nil
}

// judgeRun answers the conditions on one result.
func (f *failIf) judgeRun(s *rundiff.Side) ([]failif.Outcome, error) {
	if len(f.conditions) == 0 {
		return nil, nil
	}
	return f.judge(failif.Figures(s))
}
