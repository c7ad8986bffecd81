// Package cli is tare's command line: one file per command, and the only place that knows arguments, exit codes and the
// terminal.
//
// Exit codes: 0 done; 1 tare failed; 2 bad usage or plan; 3 a --fail-if condition holds, or a machine does not qualify;
// 4 inconclusive under --strict, or it cannot be told whether a machine qualifies; 5 a gallery was built without some
// of its bundles.
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

// app has the shared state of all commands. Nothing below package cli looks at the process's arguments, streams or
// environment.
type app struct {
	console
	catalog
}

// console is the process around the program: streams, variables, terminal.
type console struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	// outFD and errFD are the descriptors of out and err when these are terminals, else -1.
	outFD, errFD int
	interrupts   *interrupts // nil in tests
	verbose      bool
	log          *slog.Logger
}

// catalog lists the environments that tare can enter and the work that it can measure.
type catalog struct {
	drivers *env.Registry
	kinds   []workload.Kind
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
	a := &app{console: console{in: in, out: out, err: say, getenv: os.Getenv, outFD: terminal(out),
		errFD: terminal(errOut)}}
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
	err := unknownCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return exitOK
	}
	if c, ok := errors.AsType[codeError](err); ok {
		return c.code
	}
	fmt.Fprintf(a.err, "tare: %s\n", strings.TrimRight(printable(err.Error()), "\n"))
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
		(&runCommand{app: a}).command(), (&reportCommand{app: a}).command(), (&verifyCommand{app: a}).command(),
		(&listCommand{app: a}).command(), (&doctorCommand{app: a}).command(), (&initCommand{app: a}).command(),
		(&diskCommand{app: a}).command(), (&cardCommand{app: a}).command(), (&durabilityCommand{app: a}).command(),
		(&selftestCommand{app: a}).command(), (&guestCommand{app: a}).command(), (&cleanCommand{app: a}).command(),
		(&versionCommand{app: a}).command(), (&iozoneCommand{app: a}).command(), (&compareCommand{app: a}).command(),
		(&rerunCommand{app: a}).command(), (&historyCommand{app: a}).command(), (&bundleCommand{app: a}).command(),
		(&sqlCommand{app: a}).command(), (&httpCommand{app: a}).command(), (&netCommand{app: a}).command(),
		(&stackCommand{app: a}).command(), (&sweepCommand{app: a}).command(), (&planCommand{app: a}).command(),
		(&abCommand{app: a}).command(), (&pullCommand{app: a}).command(),
		(&galleryCommand{app: a}).command(),
		(&whyCommand{app: a}).command(), (&densityCommand{app: a}).command(),
		(&fleetCommand{app: a}).command(), (&qualifyCommand{app: a}).command(),
		(&manCommand{app: a}).command(), (&completionCommand{app: a}).command(),
	)
	root.CompletionOptions.DisableDefaultCmd = true
	(&completer{a}).completions(root)
	strictArgs(root)
	return root
}

// flagMistakes are the errors of the parsers of numbers and durations, with words that a user understands.
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
			return usagef("%s has no command %q%s\nsee %q", c.CommandPath(), args[0],
				suggest.DidYouMean(args[0], names), c.CommandPath()+" --help")
		}
		c.RunE = func(c *cobra.Command, args []string) error { return c.Help() }
	}
	for _, s := range c.Commands() {
		strictArgs(s)
	}
}

// unknownCommand refuses a word that a group of commands does not have, also beside --help, at which cobra shows the
// group's help and looks no further.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // __complete and __completeNoDesc
		return nil
	}
	root.InitDefaultHelpCmd()
	c, rest, err := root.Find(args)
	if err != nil || !c.HasSubCommands() {
		return nil
	}
	for _, word := range rest {
		if !strings.HasPrefix(word, "-") {
			return c.Args(c, []string{word})
		}
	}
	return nil
}

// holding tells that the command makes things from here on which it removes when it is stopped; text says so to the
// user.
func (con *console) holding(text string) {
	if con.interrupts != nil {
		con.interrupts.hold(text)
	}
}

// plainTerminal tells whether standard error is a terminal that can only be written on, line by line.
func (con *console) plainTerminal() bool {
	term := con.getenv("TERM")
	return term == "dumb" || term == "" && runtime.GOOS != "windows"
}

// width is the terminal's width, or the fallback when out is no terminal.
func (con *console) width(fallback int) int {
	if con.outFD >= 0 {
		if w, _, err := term.GetSize(con.outFD); err == nil && w > 20 {
			return w
		}
	}
	return fallback
}

// colour tells whether standard output wants colour: a terminal, and NO_COLOR unset (no-color.org).
func (con *console) colour() bool {
	return con.outFD >= 0 && con.getenv("NO_COLOR") == "" && con.getenv("TERM") != "dumb"
}

func (cat *catalog) kind(name string) (*workload.Kind, bool) {
	for i := range cat.kinds {
		if cat.kinds[i].Name == name {
			return &cat.kinds[i], true
		}
	}
	return nil, false
}

func (cat *catalog) tables() plan.Tables { return plan.Tables{Drivers: cat.drivers, Kinds: cat.kinds} }
