package cli

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/judge/failif"
	"tare/internal/judge/rundiff"
	"tare/internal/record"
	"tare/internal/show/report"
	"tare/internal/suggest"
)

// compareFlags are the flags of `tare compare`.
type compareFlags struct {
	format, out string
	options     rundiff.Options
	strict      bool
	failIf      failIf
}

// compareCommand is `tare compare`.
type compareCommand struct {
	*app
	flags compareFlags
}

func (cmd *compareCommand) command() *cobra.Command {
	f := &cmd.flags
	c := &cobra.Command{
		Use: "compare BUNDLE BUNDLE [BUNDLE...]", Short: "Compare results of different machines or days",
		Long: `Compare the first result with each of the others: what differs between them, each ratio in both, and the change of each
ratio with its interval. Ratios are compared, not figures, because the ratio to the baseline cancels most of what differs
between machines. The two results share no blocks, so the comparison is unpaired and less precise than one within a run.
The line at the top gives the scope: two machines, two days, two boots.

In --fail-if, change(TARGET, WORKLOAD) is the factor by which the ratio changed, and slower(TARGET, WORKLOAD, 10%) tests
that change; ratio and value are those of the later result.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return cmd.compare(args) },
	}
	c.Flags().StringVar(&f.format, "format", "text", oneOf(comparisonFormats()))
	c.Flags().StringVarP(&f.out, "out", "o", "", "write to this file; - is standard output [-]")
	c.Flags().BoolVar(&f.options.Details, "details", false, "show every metric, not only the primary ones")
	c.Flags().BoolVar(&f.options.ASCII, "ascii", false, "ASCII characters only")
	c.Flags().BoolVar(&f.strict, "strict", false,
		"exit with 4 when a change, or a --fail-if condition, cannot be decided")
	f.failIf.flag(c)
	return c
}

func comparisonFormats() []string {
	var names []string
	for _, f := range rundiff.Formats() {
		names = append(names, f.Name)
	}
	return names
}

func (cmd *compareCommand) compare(args []string) error {
	f := &cmd.flags
	if err := f.failIf.parse(); err != nil {
		return err
	}
	formats := rundiff.Formats()
	i := slices.Index(comparisonFormats(), f.format)
	if i < 0 {
		return usagef("--format is %s, not %q%s", oneOf(comparisonFormats()), f.format,
			suggest.DidYouMean(f.format, comparisonFormats()))
	}
	sides := make([]rundiff.Side, len(args))
	for i, arg := range args {
		b, err := cmd.load(arg)
		if err != nil {
			return err
		}
		cmd.complain(b)
		sides[i] = *b.side()
	}
	c := rundiff.Compare(sides)
	outcomes, err := f.failIf.judgeComparison(c, sides)
	if err != nil {
		return err
	}
	f.options.Wrap, f.options.Width = report.Wrap, cmd.width(100)
	render := func(w io.Writer) error { return formats[i].Render(w, c, f.options) }
	if f.out == "" || f.out == "-" {
		err = render(cmd.out)
	} else {
		err = writeWhole(f.out, render)
	}
	if err != nil {
		return err
	}
	cmd.tell(outcomes)
	return ending(outcomes, f.strict, told(c))
}

func (f *failIf) judgeComparison(c *rundiff.Comparison, sides []rundiff.Side) ([]failif.Outcome, error) {
	var out []failif.Outcome
	for i := range c.Pairs {
		p := &c.Pairs[i]
		some, err := f.judge(failif.Changes(p, &sides[p.To]))
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// told tells whether every primary change has a verdict.
func told(c *rundiff.Comparison) bool {
	for i := range c.Pairs {
		for j := range c.Pairs[i].Cells {
			x := &c.Pairs[i].Cells[j]
			switch x.Verdict {
			case record.Different, record.Equivalent, record.Measured:
			default:
				if x.Primary {
					return false
				}
			}
		}
	}
	return true
}

// nameOf is a bundle's path without what a shell's completion leaves at its end.
func nameOf(arg string) string {
	if n := strings.TrimRight(arg, `/\`); n != "" {
		return n
	}
	return arg
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
