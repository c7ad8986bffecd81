// Package cli is tare's command line: one file per command, and the only place that knows arguments, exit codes and the
// terminal.
//
// Exit codes: 0 done; 1 tare failed; 2 bad usage or plan; 3 a --fail-if condition holds; 4 inconclusive under --strict.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	kinds "tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/suggest"
	"tare/internal/version"
)

// The exit codes.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitInconclusive = 4
)

// app is what every command shares. Nothing below package cli looks at the process's arguments, streams or environment.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	// outFD and errFD are the descriptors of out and err when these are terminals, else -1.
	outFD, errFD int
	interrupts   *interrupts // nil in tests
	verbose      bool
	drivers      *env.Registry
	kinds        []workload.Kind
	log          *slog.Logger
}

// usageError is a mistake in the command line: exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// codeError ends the program with a certain code, after everything has been said.
type codeError struct{ code int }

func (e codeError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Main runs the command line and returns the exit code.
func Main(args []string, in *os.File, out, errOut *os.File) int {
	say := &screen{w: errOut}
	a := &app{in: in, out: out, err: say, getenv: os.Getenv, outFD: terminal(out), errFD: terminal(errOut)}
	ctx, stop := interruptible(context.Background(), say)
	defer stop.release()
	a.interrupts, say.broken = stop, stop.broken
	return a.run(ctx, args)
}

func terminal(f *os.File) int {
	if fd := int(f.Fd()); term.IsTerminal(fd) {
		return fd
	}
	return -1
}

// run is Main without the process around it: what tests call.
func (a *app) run(ctx context.Context, args []string) int {
	a.drivers, a.kinds = drivers.Drivers(), kinds.Kinds()
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if c, ok := errors.AsType[codeError](err); ok {
		return c.code
	}
	fmt.Fprintf(a.err, "tare: %s\n", strings.TrimRight(err.Error(), "\n"))
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[plan.Errors](err); ok {
		return exitUsage
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tare",
		Short: "Measure what the same work costs in different environments",
		Long: `tare runs the same work on bare metal, in containers, in virtual machines and on remote hosts, in turn.
It says what each costs compared with the others, how certain that is, and how to repeat it.

Try "tare run" to measure what this machine has, or "tare doctor" to see what it could have.`,
		SilenceUsage: true, SilenceErrors: true,
		Version: fmt.Sprintf("%s (build %s)", version.Version, version.Build),
		PersistentPreRun: func(*cobra.Command, []string) {
			level := slog.LevelWarn
			if a.verbose {
				level = slog.LevelDebug
			}
			a.log = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%s\nsee %q", flagMistake(err), c.CommandPath()+" --help")
	})
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "log what is being done to standard error")
	root.AddCommand(
		a.runCommand(), a.reportCommand(), a.verifyCommand(), a.listCommand(), a.doctorCommand(), a.initCommand(),
		a.diskCommand(), a.cardCommand(), a.durabilityCommand(),
		a.selftestCommand(), a.guestCommand(), a.cleanCommand(), a.versionCommand(), a.iozoneCommand(),
		a.compareCommand(), a.rerunCommand(), a.historyCommand(), a.bundleCommand(), a.manCommand(), a.completionCommand(),
	)
	root.CompletionOptions.DisableDefaultCmd = true
	a.completions(root)
	strictArgs(root)
	return root
}

// flagMistakes are what the parsers of numbers and durations say, and what a user can do with that.
var flagMistakes = []struct {
	said   *regexp.Regexp
	expect string
}{
	{regexp.MustCompile(`strconv\.ParseInt: .*`), "expected a whole number"},
	{regexp.MustCompile(`strconv\.ParseUint: .*`), "expected a whole number that is not negative"},
	{regexp.MustCompile(`strconv\.ParseFloat: .*`), "expected a number"},
	{regexp.MustCompile(`strconv\.ParseBool: .*`), "expected true or false"},
	{regexp.MustCompile(`time: .* duration .*`), "expected a duration such as 90s or 10m"},
}

// flagMistake is the text of an error about a flag.
func flagMistake(err error) string {
	text := err.Error()
	for _, m := range flagMistakes {
		text = m.said.ReplaceAllString(text, m.expect)
	}
	return text
}

// strictArgs makes wrong arguments a usage error everywhere and suggests the nearest command.
func strictArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) == nil {
				return nil
			}
			_, takes, _ := strings.Cut(c.Use, " ")
			if takes == "" || takes == "[flags]" {
				takes = "no arguments"
			}
			found := "nothing"
			if len(args) > 0 {
				found = printableLine(strings.Join(args, " "))
			}
			return usagef("%s takes %s, but got %s\nsee %q", c.CommandPath(), takes, found, c.CommandPath()+" --help")
		}
	} else if c.HasSubCommands() {
		c.Args = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			names := []string{}
			for _, s := range c.Commands() {
				names = append(names, s.Name())
			}
			return usagef("%s has no command %q%s\nsee %q", c.CommandPath(), args[0], suggest.DidYouMean(args[0], names), c.CommandPath()+" --help")
		}
		c.RunE = func(c *cobra.Command, args []string) error { return c.Help() }
	}
	for _, s := range c.Commands() {
		strictArgs(s)
	}
}

// holding tells that the command makes things from here on which it removes when it is stopped; text says so to the user.
func (a *app) holding(text string) {
	if a.interrupts != nil {
		a.interrupts.hold(text)
	}
}

// plainTerminal tells whether standard error is a terminal that can only be written on, line by line.
func (a *app) plainTerminal() bool {
	term := a.getenv("TERM")
	return term == "dumb" || term == "" && runtime.GOOS != "windows"
}

// width is the terminal's width, or the fallback when out is no terminal.
func (a *app) width(fallback int) int {
	if a.outFD >= 0 {
		if w, _, err := term.GetSize(a.outFD); err == nil && w > 20 {
			return w
		}
	}
	return fallback
}

// colour tells whether standard output wants colour: a terminal, and NO_COLOR unset (no-color.org).
func (a *app) colour() bool {
	return a.outFD >= 0 && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

func (a *app) kind(name string) (*workload.Kind, bool) {
	for i := range a.kinds {
		if a.kinds[i].Name == name {
			return &a.kinds[i], true
		}
	}
	return nil, false
}

func (a *app) tables() plan.Tables { return plan.Tables{Drivers: a.drivers, Kinds: a.kinds} }
