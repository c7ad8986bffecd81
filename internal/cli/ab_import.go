package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/internal/judge/hyperfine"
	"tare/internal/show/report"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// imported shows what an export of hyperfine's says, and what cannot be told from it.
func (cmd *abCommand) imported(c *cobra.Command, args []string) error {
	name := cmd.flags.export
	if len(args) > 0 {
		return usagef("--import runs nothing; leave %s out", printableLine(strings.Join(args, " ")))
	}
	for _, other := range []string{"git", "image", "env", "parameter-list", "fail-if", "out"} {
		if c.Flags().Changed(other) {
			return usagef("--import runs nothing, so there is no verdict and no bundle; leave --%s out", other)
		}
	}
	in := cmd.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return usageError{fmt.Errorf("--import: %w", err)}
		}
		defer f.Close()
		in = f
	}
	all, err := hyperfine.Read(in)
	if err != nil {
		return usageError{fmt.Errorf("--import %s: %w", name, err)}
	}
	return showImported(cmd.out, all, cmd.width(100))
}

// shortest bounds a command in a table, in characters.
const shortest = 40

func showImported(w io.Writer, all []hyperfine.Result, width int) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	seconds := func(v float64) string {
		switch {
		case math.IsNaN(v):
			return "-"
		case v == 0:
			return "0"
		}
		return unit.Format(v, "s")
	}
	fmt.Fprintln(tw, "command\truns\tmedian\tmean\tfrom\tto\tuser\tsystem\tratio of means")
	for i := range all {
		r := &all[i]
		mean := seconds(r.Mean)
		if r.Spread > 0 {
			mean += " ± " + seconds(r.Spread)
		}
		ratio := ""
		if i > 0 && r.Ratio > 0 {
			ratio = report.RatioText(r.Ratio)
			if r.RatioSpread > 0 {
				ratio += " ± " + report.RatioText(r.RatioSpread)
			}
		}
		runs := "?"
		if r.Runs > 0 {
			runs = fmt.Sprint(r.Runs)
		}
		command := r.Command
		if r.Parameters != "" {
			command = unit.Cut(command, shortest/2) + " (" + r.Parameters + ")"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", unit.Cut(printableLine(command), shortest), runs,
			seconds(r.Median), mean, seconds(r.Min), seconds(r.Max), seconds(r.User), seconds(r.System), ratio)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nThere is no verdict, because of what cannot be told from this file:")
	for _, text := range hyperfine.Untold(all) {
		for _, l := range report.Wrap("- ", printableLine(text), min(width, 100)) {
			fmt.Fprintln(w, l)
		}
	}
	if len(all) > 1 && len(all) <= maxVariants {
		fmt.Fprintln(w)
		for _, l := range report.Wrap("", printableLine(inTurn(all)), width) {
			fmt.Fprintln(w, l)
		}
	}
	return nil
}

// inTurn is a sentence with the command line that runs the commands of an export in turn, by a shell where they need
// one, as hyperfine ran them.
func inTurn(all []hyperfine.Result) string {
	words, shell, seen := []string{"tare ab"}, false, map[string]bool{}
	for i := range all {
		c := all[i].Command
		shell = shell || hyperfine.ShellSigns(c)
		program, _, _ := strings.Cut(strings.TrimSpace(c), " ")
		if _, err := proc.LookPath(program); seen[c] || err != nil && !strings.Contains(program, "/") &&
			!hyperfine.ShellSigns(c) {
			return fmt.Sprintf("For a verdict run the commands in turn, with tare ab. They may not be in this file: "+
				"where hyperfine is given names (-n) the export has these instead, and %q is no command of this "+
				"machine, or is there twice.", c)
		}
		seen[c] = true
		words = append(words, quoteArg(c))
	}
	if shell {
		words[0] += " -S default"
	}
	return "For a verdict run them in turn: " + strings.Join(words, " ")
}

// ofHyperfine are flags of hyperfine's that tare ab does not have: whoever types them out of habit is told what does
// the same here.
var ofHyperfine = []struct{ name, letter, instead string }{
	{"warmup", "w", "leave it out: the first trial of each command is a warm-up that counts for nothing"},
	{"runs", "r", "use --blocks N, or --budget; a block has as many runs as fit a trial"},
	{"min-runs", "m", "leave it out: a verdict takes at least ten blocks"},
	{"max-runs", "M", "use --blocks N"},
	{"reference", "", "put it first: the others are compared with the first command"},
	{"parameter-step-size", "D", "write it behind the range: -P NAME=MIN..MAX..STEP"},
	{"export-json", "", "use -o FOLDER, and then tare report --format json FOLDER"},
	{"export-csv", "", "use -o FOLDER, and then tare report --format csv FOLDER"},
	{"export-markdown", "", "use -o FOLDER, and then tare report --format markdown FOLDER"},
	{"output", "", "leave it out: output is thrown away, or compared with --check-output"},
	{"style", "", "use --quiet or --ascii"},
	{"sort", "", "leave it out: the first command is the one that the others are compared with"},
	{"time-unit", "u", "leave it out: each time has the unit that suits it"},
}

func addHyperfine(fl *pflag.FlagSet) {
	for _, f := range ofHyperfine {
		fl.StringP(f.name, f.letter, "", f.instead)
		fl.Lookup(f.name).Hidden = true
	}
}

// refuseHyperfine is the error for a flag of hyperfine's, with the flag that does the same here.
func refuseHyperfine(fl *pflag.FlagSet) error {
	for _, f := range ofHyperfine {
		if fl.Changed(f.name) {
			return usagef("tare ab has no --%s as hyperfine does: %s", f.name, f.instead)
		}
	}
	return nil
}
