package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/show/sqllog"
	"tare/internal/sys/bzip2"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/log"
)

// sqlCommand is `tare sql`.
type sqlCommand struct {
	*app
}

func (cmd *sqlCommand) command() *cobra.Command {
	root := &cobra.Command{Use: "sql", Short: "Logs of database servers: what is in them, and what can be replayed"}
	root.AddCommand(cmd.sqlInspectCommand())
	return root
}

// sqlInspect is what `tare sql inspect` is told.
type sqlInspect struct {
	format, logFormat, prefix, dialect, zone string
	top                                      int
	policy                                   log.Policy
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

The exit code is 1 when a log cannot be read to its end; what was read is shown.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return cmd.sqlInspect(args, &o) },
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", "text", "text, or json: one document")
	f.StringVar(&o.logFormat, "log-format", "", "format of the log [found]")
	f.StringVar(&o.prefix, "prefix", "", "PostgreSQL's log_line_prefix [found among the usual ones]")
	f.StringVar(&o.dialect, "dialect", "mysql", "SQL of a file of statements: mysql or postgresql")
	f.StringVar(&o.zone, "zone", "UTC", "time zone of times without one, such as Europe/Berlin")
	f.IntVar(&o.top, "top", 20, "how many fingerprints to show; 0 shows all")
	f.BoolVar(&o.policy.Writes, "writes", false, "as if writes were replayed as well")
	f.BoolVar(&o.policy.Locks, "locks", false, "as if SELECT ... FOR UPDATE were replayed as well")
	return c
}

func (cmd *sqlCommand) sqlInspect(args []string, in *sqlInspect) error {
	if in.format != "text" && in.format != "json" {
		return usagef("--format is text or json, not %q", in.format)
	}
	if in.top < 0 {
		return usagef("--top is a number of fingerprints, not %d", in.top)
	}
	o := log.Options{Format: log.Format(in.logFormat), Prefix: in.prefix}
	switch in.dialect {
	case "mysql":
	case "postgresql":
		o.Dialect = lex.PostgreSQL
	default:
		return usagef("--dialect is mysql or postgresql, not %q", in.dialect)
	}
	var err error
	if o.Zone, err = time.LoadLocation(in.zone); err != nil {
		return usagef("--zone: %v", err)
	}
	parts := log.Join(cmd.logParts(args)...)
	defer parts.Close()
	r, err := log.Open(parts, o)
	if err != nil {
		return fmt.Errorf("read %s: %w", quoteArg(args[0]), err)
	}
	s, failed := log.Summarize(r, in.policy)
	s.Logs = args
	if in.top > 0 && len(s.Fingerprints) > in.top && in.format == "json" {
		s.Fingerprints = s.Fingerprints[:in.top]
	}
	if in.format == "json" {
		err = json.NewEncoder(cmd.out).Encode(s)
	} else {
		err = sqllog.Text(cmd.out, s, cmd.width(120), in.top)
	}
	return errors.Join(err, failed)
}

// bunzipWorkers bounds the memory that reading bzip2 takes.
const bunzipWorkers = 2

// logParts are the files of a log, each opened and decompressed when it is its turn.
func (cmd *sqlCommand) logParts(args []string) (parts []func() (io.ReadCloser, error)) {
	for _, name := range args {
		parts = append(parts, func() (io.ReadCloser, error) {
			p := &logPart{}
			src := cmd.in
			if name != "-" {
				f, err := os.Open(name)
				if err != nil {
					return nil, err
				}
				p.closers = append(p.closers, f)
				src = f
			}
			var err error
			p.Reader, _, err = log.Decompress(src, func(src io.Reader) io.Reader {
				z := bzip2.NewReader(src, bunzipWorkers)
				p.closers = append([]io.Closer{z}, p.closers...)
				return z
			})
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", name, err), p.Close())
			}
			return p, nil
		})
	}
	return parts
}

// logPart is a file with what decompresses it.
type logPart struct {
	io.Reader
	closers []io.Closer
}

func (p *logPart) Close() error {
	var errs []error
	for _, c := range p.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
