package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/internal/version"
)

// manCommand is `tare man`.
type manCommand struct {
	*app
}

// command returns the command that writes the manual pages: a hidden one, because packages call it and nobody else.
func (cmd *manCommand) command() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a folder, one for each command", Hidden: true,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return manTree(args[0], c.Root())
		},
	}
}

// manTree writes the page of a command and of all below it that are shown to users.
func manTree(dir string, c *cobra.Command) error {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	name := manName(c) + ".1"
	if err := writeWhole(filepath.Join(dir, name), func(w io.Writer) error { return manPage(w, c) }); err != nil {
		return fmt.Errorf("write manual page %s: %w", name, err)
	}
	for _, s := range c.Commands() {
		if !s.IsAvailableCommand() || s.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := manTree(dir, s); err != nil {
			return err
		}
	}
	return nil
}

// manName is a page's name: tare-guest-fetch.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// exitCodes are the exit codes with their meanings, which every page has.
var exitCodes = []struct {
	code int
	doc  string
}{
	{exitOK, "Done."},
	{exitFailed, "tare failed; standard error has the reason."},
	{exitUsage, "The command line or the plan is wrong; nothing was started."},
	{exitCondition, "A condition of --fail-if or --fail-on holds, or the machine of tare qualify fails."},
	{exitInconclusive, "With --strict: a cell is inconclusive, withheld or failed, or a condition cannot be decided. " +
		"tare qualify: it cannot tell."},
	{exitSkipped, "tare gallery: the site was built without the bundles that were named as skipped."},
}

// manPage writes one page in the man macros that every roff knows. It bears no date: the same program writes the same
// page.
//
// cobra/doc writes pages too, by way of Markdown. They have no exit status and no list of commands, all bear the
// program's title, show a bool as --ascii[=false], do not indent examples and do not set an option apart from its text.
// It would bring three modules and 400 KiB into the program.
func manPage(w io.Writer, c *cobra.Command) error {
	var b strings.Builder
	title := strings.ToUpper(manName(c))
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"tare %s\" \"tare manual\"\n", roffWord(title), roff(version.Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(c.Short))
	b.WriteString(".SH SYNOPSIS\n")
	if c.Runnable() && !c.HasAvailableSubCommands() {
		manBold(&b, c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		manBold(&b, c.CommandPath()+" COMMAND [flags]")
	}
	b.WriteString(".SH DESCRIPTION\n")
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	manText(&b, text)
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "GLOBAL OPTIONS", c.InheritedFlags())
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s. See \\fB%s\\fR(1).\n", roffWord(s.Name()),
					roff(strings.TrimSuffix(s.Short, ".")), roff(manName(s)))
			}
		}
	}
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", e.code, roff(e.doc))
	}
	b.WriteString(".SH SEE ALSO\n")
	see := []string{}
	if c.HasParent() {
		see = append(see, manName(c.Parent()))
	}
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			see = append(see, manName(s))
		}
	}
	for i, s := range see {
		comma := ","
		if i == len(see)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roffWord(s), comma)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// manFlags writes a section of flags; none where there are no flags to show.
func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", roffWord(title))
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, doc := pflag.UnquoteUsage(f)
		name := "\\fB\\-\\-" + roff(f.Name) + "\\fR"
		if f.Shorthand != "" {
			name = "\\fB\\-" + roff(f.Shorthand) + "\\fR, " + name
		}
		switch {
		case f.NoOptDefVal != "" && kind != "" && f.Value.Type() != "bool":
			name += "[=\\fI" + roff(kind) + "\\fR]"
		case kind != "":
			name += " \\fI" + roff(kind) + "\\fR"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", name, roff(doc))
	})
}

func manBold(b *strings.Builder, line string) {
	fmt.Fprintf(b, ".B %s\n.br\n", roffWord(line))
}

// manText writes paragraphs; what is indented by four blanks or a tab, as examples in the help are, keeps its lines.
func manText(b *strings.Builder, text string) {
	literal := false
	end := func() {
		if literal {
			b.WriteString(".fi\n.RE\n")
		}
		literal = false
	}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		code, indented := strings.CutPrefix(strings.Replace(line, "\t", "    ", 1), "    ")
		switch {
		case line == "":
			end()
			b.WriteString(".PP\n")
		case indented:
			if !literal {
				b.WriteString(".RS 4\n.nf\n")
			}
			literal = true
			b.WriteString(roff(code) + "\n")
		default:
			end()
			b.WriteString(roff(line) + "\n")
		}
	}
	end()
}

var roffReplacer = strings.NewReplacer(`\`, `\e`, `-`, `\-`, "\n", " ", "≤", `\(<=`, "×", `\(mu`)

// roff makes text that roff shows as it is: no escape of its own, and no line that it takes for a request.
func roff(s string) string {
	s = roffReplacer.Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}

// roffWord makes text that a macro takes as one argument.
func roffWord(s string) string {
	return `"` + strings.ReplaceAll(roff(s), `"`, `\(dq`) + `"`
}
