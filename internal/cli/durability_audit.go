package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/run/durability"
)

// audited has the findings in one configuration.
type audited struct {
	File     string               `json:"file"`
	Kind     string               `json:"kind"`
	Findings []durability.Finding `json:"findings"`
}

// auditCommand is `tare durability audit`.
type auditCommand struct {
	*app
	flags struct {
		kind, format, failOn string
		docs                 []string
	}
}

func (cmd *auditCommand) command() *cobra.Command {
	for _, s := range durability.Sources() {
		cmd.flags.docs = append(cmd.flags.docs, fmt.Sprintf("  %-15s %s", s.Name, s.Doc))
	}
	c := &cobra.Command{
		Use: "audit FILE...", Short: "Check configurations for settings that ignore flushes",
		Long: `Read configurations and show which settings weaken what a flush promises, which program obeys them, and
what to do. - is standard input. A configuration without such settings proves nothing: it is a declaration, not a test.

What can be read:
` + strings.Join(cmd.flags.docs, "\n"),
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if cmd.flags.format != "text" && cmd.flags.format != "json" {
				return usagef("--format is text or json, not %q", cmd.flags.format)
			}
			if !slices.Contains([]string{"", failIgnores, failWeakens}, cmd.flags.failOn) {
				return usagef("--fail-on %q is not one of %s, %s", cmd.flags.failOn, failIgnores, failWeakens)
			}
			return cmd.durabilityAudit(args, cmd.flags.kind, cmd.flags.format, cmd.flags.failOn)
		},
	}
	c.Flags().StringVar(&cmd.flags.kind, "as", "",
		"what the files are: "+strings.Join(durability.SourceNames(), ", ")+" [seen from the text]")
	c.Flags().StringVar(&cmd.flags.format, "format", "text",
		"text, or json: one document for each file, on a line of its own")
	c.Flags().StringVar(&cmd.flags.failOn, "fail-on", "",
		"exit with 3 when a setting "+failIgnores+" flushes, or when one "+failWeakens+" them at all")
	return c
}

// Values of --fail-on; weakens includes ignores.
const (
	failIgnores = "ignores"
	failWeakens = "weakens"
)

// durabilityAudit reads every file, also after one that cannot be read, which weighs more than what failOn names.
func (cmd *auditCommand) durabilityAudit(files []string, kind, format, failOn string) error {
	var errs []error
	fail := false
	for _, name := range files {
		text, err := cmd.readConfig(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got := audited{File: name}
		if got.Kind, got.Findings, err = durability.Audit(name, kind, text); err != nil {
			if _, mistaken := errors.AsType[*durability.NotOneError](err); mistaken && kind != "" {
				err = usageError{err}
			}
			errs = append(errs, err)
			continue
		}
		fail = fail || slices.ContainsFunc(got.Findings, func(f durability.Finding) bool {
			return failOn == failWeakens || failOn == failIgnores && f.Ignores
		})
		if err := cmd.writeAudit(&got, format); err != nil {
			return err
		}
	}
	if err := errors.Join(errs...); err != nil || !fail {
		return err
	}
	return codeError{exitCondition}
}

func (cmd *auditCommand) readConfig(name string) ([]byte, error) {
	in := cmd.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, durability.MaxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", name, err)
	}
	return text, nil
}

func (cmd *auditCommand) writeAudit(got *audited, format string) error {
	if format == "json" {
		if got.Findings == nil {
			got.Findings = []durability.Finding{}
		}
		return json.NewEncoder(cmd.out).Encode(got)
	}
	fmt.Fprintf(cmd.out, "%s (%s)\n", printableLine(got.File), got.Kind)
	for _, f := range got.Findings {
		what := "weakens"
		if f.Ignores {
			what = "ignores flushes"
		}
		fmt.Fprintf(cmd.out, "  %s: %s, %s: %s\n      %s\n", f.Code, f.Layer, what, printableLine(f.Text),
			printableLine(f.Remedy))
	}
	if len(got.Findings) == 0 {
		fmt.Fprintln(cmd.out, "  no setting was found that ignores flushes; this is not a test")
	}
	return nil
}
