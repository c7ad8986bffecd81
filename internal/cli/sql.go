package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/run/supply"
	"tare/internal/show/logs"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/log"
	"tare/internal/unit"
)

// sqlCommand is `tare sql`.
type sqlCommand struct {
	*app
}

func (cmd *sqlCommand) command() *cobra.Command {
	root := &cobra.Command{Use: "sql", Short: "Logs of database servers: what is in them, and what can be replayed"}
	root.AddCommand(cmd.sqlInspectCommand(), cmd.sqlCaptureCommand())
	return root
}

// sqlInspect has the flags of `tare sql inspect`.
type sqlInspect struct {
	inspecting
	logFormat, prefix, dialect string
	policy                     log.Policy
	following                  following
}

func (cmd *sqlCommand) sqlInspectCommand() *cobra.Command {
	var o sqlInspect
	c := &cobra.Command{
		Use: "inspect LOG...", Short: "Show what is in a log, and what of it would be replayed",
		Long: `Show what is in the log of a database server, and what of it would be replayed and what not, and why.
Every byte is accounted for: replayed, skipped for a reason, ambiguous or lost.

A log is MySQL's, MariaDB's or Percona's general log, slow log or audit log, PostgreSQL's stderr, csvlog, jsonlog or
syslog, JSON of Cloud SQL, CloudWatch or a container's engine with these in it, or a file of statements. It may be
compressed with gzip, bzip2, zstd or xz. Name the parts of one that was rotated in the order of their times; "-" is
standard input. The format is found by the first 64 KiB.

With --follow, a log that grows is read until Ctrl-C, --for or --until; then everything is shown. If the log is rotated,
by renaming it or by copying and truncating it, the next one is read on. With --checkpoint, what was read is kept in a
file, from which the next call goes on, so that nothing counts twice.

The exit code is 1 when a log cannot be read to its end, or is PostgreSQL's and has messages only, as in another
language than English; what was read is shown.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return cmd.sqlInspect(c.Context(), args, &o) },
	}
	f := c.Flags()
	o.flags(f, "statement")
	f.StringVar(&o.logFormat, "log-format", "", "format of the log [found]")
	f.StringVar(&o.prefix, "prefix", "", "PostgreSQL's log_line_prefix [found]")
	f.StringVar(&o.dialect, "dialect", "mysql", "SQL of a file of statements: mysql or postgresql")
	f.BoolVar(&o.policy.Writes, "writes", false, "as if writes were replayed as well")
	f.BoolVar(&o.policy.Locks, "locks", false, "as if SELECT ... FOR UPDATE were replayed as well")
	o.following.flags(f)
	f.StringVar(&o.following.checkpoint, "checkpoint", "",
		"with --follow: file to go on from, and to keep what was read in")
	return c
}

func (cmd *sqlCommand) sqlInspect(ctx context.Context, args []string, in *sqlInspect) error {
	if err := in.following.check(args, in.number, "statement"); err != nil {
		return err
	}
	if err := in.check("statement"); err != nil {
		return err
	}
	o, err := supply.LogOptions(in.logFormat, in.prefix, in.dialect, in.zone)
	if err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	if in.following.follow {
		s, failed := cmd.sqlFollow(ctx, args[0], in, o)
		if s == nil {
			return failed
		}
		return cmd.sqlShow(s, args, in, failed)
	}
	parts := log.Join(supply.Parts(args, cmd.in)...)
	defer parts.Close()
	r, err := log.Open(parts, o)
	if err != nil {
		return fmt.Errorf("read %s: %w", quoteArg(args[0]), err)
	}
	if in.number >= 0 {
		return cmd.sqlStatement(r, in.number)
	}
	s, failed := log.Summarize(r, in.policy)
	if failed == nil && s.Silent() {
		failed = fmt.Errorf("%s has messages of PostgreSQL, and none of a statement or a session", quoteArg(args[0]))
	}
	return cmd.sqlShow(s, args, in, failed)
}

// sqlShow shows what is in a log. failed is the error that ended the reading of it.
func (cmd *sqlCommand) sqlShow(s *log.Summary, names []string, in *sqlInspect, failed error) error {
	s.Logs = names
	if in.top > 0 && len(s.Fingerprints) > in.top && in.format == "json" {
		s.Fingerprints = s.Fingerprints[:in.top]
	}
	return in.write(cmd.app, s, func(w io.Writer) error { return logs.Text(w, s, cmd.width(120), in.top) },
		func(w io.Writer) error { return logs.HTML(w, s, in.top) }, failed)
}

// sqlStatement shows one statement of a log.
func (cmd *sqlCommand) sqlStatement(r *log.Reader, number int64) error {
	var e log.Event
	for n := int64(0); ; {
		err := r.Next(&e)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the log has %s, numbered from 0", unit.Plural(n, "statement"))
		}
		if err != nil {
			return err
		}
		if !e.Op.Statement() {
			continue
		}
		if n == number {
			break
		}
		n++
	}
	text := cmp.Or(string(e.Text), string(e.Prepared))
	at := "no time in the log"
	if e.Time != log.NoTime {
		at = time.UnixMicro(e.Time).UTC().Format(time.RFC3339Nano)
	}
	fmt.Fprintf(cmd.out, "session %d, %s\n\n%s\n", e.Session, at, proc.Printable([]byte(text)))
	for i, p := range e.Params {
		value := "NULL"
		if p != nil {
			value = proc.Printable(p)
		}
		fmt.Fprintf(cmd.out, "parameter %d: %s\n", i+1, value)
	}
	return nil
}
