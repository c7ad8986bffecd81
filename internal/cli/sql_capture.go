package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/measure/dbserver"
	"tare/internal/run/capture"
	"tare/internal/sys/sql"
	"tare/internal/unit"
)

// sqlCapture has the flags of `tare sql capture`.
type sqlCapture struct {
	server, address, user, passwordFile, defaultsFile, tls, tlsCA string
	log, limit, sample, out                                       string
	length                                                        time.Duration
	force, dry                                                    bool
}

func (cmd *sqlCommand) sqlCaptureCommand() *cobra.Command {
	var in sqlCapture
	c := &cobra.Command{
		Use: "capture", Short: "Turn the log of a server on for a while, and write it to a file",
		Long: `Turn the log of all statements of a database server on, wait, turn it off, and write what was logged to a
file for "tare sql inspect". First it says which settings it changes, what the server is asked now, and how fast its log
would grow; --dry-run stops there.

    tare sql capture --server mariadb --address /run/mysqld/mysqld.sock --user root --for 10m -o shop.log.gz
    tare sql capture --server postgresql --address 127.0.0.1:5432 --user postgres --sample 10% -o shop.csv.gz

Every setting is restored, however the capture ends; after kill -9, and for a server that did not come back in time,
"tare clean" does it. Ctrl-C ends the capture early and keeps what was logged.

The password is in --password-file, in --defaults-file, or where MYSQL_PWD, PGPASSWORD or PGPASSFILE say.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return cmd.sqlCapture(c.Context(), &in) },
	}
	f := c.Flags()
	f.StringVar(&in.server, "server", "", "mariadb, mysql or postgresql")
	f.StringVar(&in.address, "address", "", "path of the server's socket, or a numeric address with a port")
	f.StringVar(&in.user, "user", "", "user who may change settings")
	f.StringVar(&in.passwordFile, "password-file", "", "file whose first line is the user's password")
	f.StringVar(&in.defaultsFile, "defaults-file", "", "option file of MySQL with the password in its section [client]")
	f.StringVar(&in.tls, "tls", sql.TLSOff, "off, require (encrypt), or verify (the server's certificate, too)")
	f.StringVar(&in.tlsCA, "tls-ca", "", "file of the authorities that may have signed the certificate [the system's]")
	f.StringVar(&in.log, "log", "general", "log of MySQL and MariaDB: general, or slow, which has durations")
	f.DurationVar(&in.length, "for", 10*time.Minute, "how long to capture")
	f.StringVar(&in.limit, "limit", "1GiB", "size of the server's log at which the capture ends")
	f.StringVar(&in.sample, "sample", "100%", "share of the sessions to keep, each of them whole")
	f.StringVarP(&in.out, "out", "o", "", "the new file; it is compressed if it ends in .gz")
	f.BoolVar(&in.force, "force", false, "replace the file if it exists")
	f.BoolVarP(&in.dry, "dry-run", "n", false, "only show what would be done, and what it costs")
	return c
}

// look is the time for which a server's load is measured before a capture.
const look = 2 * time.Second

// captureOptions checks the flags.
func (cmd *sqlCommand) captureOptions(in *sqlCapture) (o capture.Options, err error) {
	o = capture.Options{Slow: in.log == "slow", For: in.length, Out: in.out, Force: in.force, Look: look,
		Getenv: cmd.getenv, Target: capture.Target{Product: dbserver.Product(in.server), Address: in.address,
			User: in.user, TLS: in.tls}}
	switch o.Product {
	case dbserver.MariaDB, dbserver.MySQL:
	case dbserver.PostgreSQL:
		if in.log != "general" || in.defaultsFile != "" {
			return o, usagef("--log and --defaults-file have no effect on PostgreSQL")
		}
	default:
		return o, usagef("--server is mariadb, mysql or postgresql, not %q", in.server)
	}
	if _, err := netip.ParseAddrPort(in.address); err != nil && !strings.HasPrefix(in.address, "/") {
		return o, usagef("--address is the absolute path of a socket, or a numeric address with a port such as "+
			"127.0.0.1:3306, not %q", in.address)
	}
	if in.user == "" {
		return o, usagef("--user: name a user who may change settings")
	}
	if in.log != "general" && in.log != "slow" {
		return o, usagef("--log is general or slow, not %q", in.log)
	}
	if in.tls != sql.TLSOff && in.tls != sql.TLSRequire && in.tls != sql.TLSVerify {
		return o, usagef("--tls is off, require or verify, not %q", in.tls)
	}
	if in.tls != sql.TLSOff && strings.HasPrefix(in.address, "/") {
		return o, usagef("--tls has no effect on a Unix socket, whose data stays on this machine; leave it out")
	}
	if in.tlsCA != "" && in.tls != sql.TLSVerify {
		return o, usagef("--tls-ca has no effect without --tls=verify")
	}
	if in.passwordFile != "" && in.defaultsFile != "" {
		return o, usagef("--password-file and --defaults-file: give one of them")
	}
	if in.length <= 0 {
		return o, usagef("--for is a time such as 10m, not %v", in.length)
	}
	if in.out == "" && !in.dry {
		return o, usagef("-o: name a file for the log")
	}
	if o.Limit, err = unit.ParseSize(in.limit); err != nil || o.Limit == 0 {
		return o, usagef("--limit: %q is not a size such as 64MiB or 1GiB", in.limit)
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(in.sample, "%"), 64)
	if err != nil || !(percent > 0 && percent <= 100) || !strings.HasSuffix(in.sample, "%") {
		return o, usagef("--sample is a share of the sessions such as 10%%, not %q", in.sample)
	}
	o.Share = percent / 100
	if in.tlsCA != "" {
		if o.Authority, err = filepath.Abs(in.tlsCA); err != nil {
			return o, err
		}
	}
	o.Secret, err = capture.FindSecret(o.Product, in.passwordFile, in.defaultsFile, cmd.getenv)
	return o, err
}

func (cmd *sqlCommand) sqlCapture(ctx context.Context, in *sqlCapture) (err error) {
	o, err := cmd.captureOptions(in)
	if err != nil {
		return err
	}
	o.Began = func() {
		fmt.Fprintln(cmd.out, "\nthe log is on; Ctrl-C ends the capture early and keeps what was logged")
	}
	c, err := capture.Prepare(ctx, o)
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cmd.capturePlan(&o, &c.Plan)
	if in.dry || ctx.Err() != nil {
		return ctx.Err()
	}
	cmd.holding("the server's settings are restored, and what was logged is written")
	r, err := c.Run(ctx)
	if r != nil {
		cmd.captured(&o, r)
	}
	if err == nil && r.Abandoned != nil {
		err = r.Abandoned
	}
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}

func bytesOf(n float64) string { return unit.Format(n, "B") }

// capturePlan writes the steps of a capture, and its cost.
func (cmd *sqlCommand) capturePlan(o *capture.Options, p *capture.Plan) {
	say := func(what, format string, args ...any) {
		fmt.Fprintf(cmd.out, "  %-10s%s\n", what, printableLine(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(cmd.out, "%s, version %s\n", &o.Target, printableLine(p.Version))
	if p.Along {
		say("log", "%s, which the server keeps already: what it writes from now on is copied", p.File)
	} else {
		say("log", "%s, removed afterwards", p.File)
	}
	for _, c := range p.Changes {
		say("change", "%s from %q to %q", c.Name, c.From, c.To)
	}
	asked := "statements"
	if o.Product == dbserver.PostgreSQL {
		asked = "transactions"
	}
	say("load", "%s, measured for %v", unit.Format(p.Load.Statements, asked+"/s"), o.Look)
	grows := "the log would grow by"
	if o.Product == dbserver.PostgreSQL {
		grows += " at least" // it does not count statements
	}
	say("cost", "%s %s/s, %s in %v", grows, bytesOf(p.Load.Bytes), bytesOf(p.Load.Bytes*o.For.Seconds()), o.For)
	full := "not met at that rate"
	if seconds := float64(o.Limit) / p.Load.Bytes; seconds < o.For.Seconds() {
		full = fmt.Sprintf("met after %v at that rate", time.Duration(seconds*float64(time.Second)).
			Round(time.Second))
	}
	say("limit", "%s, %s; looked at every %v: what is written meanwhile comes on top", bytesOf(float64(o.Limit)),
		full, capture.Poll)
	if p.Room >= 0 {
		say("room", "%s on the disk of the log", bytesOf(float64(p.Room)))
	} else {
		say("room", "cannot be seen from here")
	}
	for _, n := range p.Notes {
		say("note", "%s", n)
	}
}

// captured writes the result of a capture.
func (cmd *sqlCommand) captured(o *capture.Options, r *capture.Result) {
	if r.Why != "" {
		fmt.Fprintf(cmd.out, "the capture ended after %v: %s\n", r.Took.Round(time.Second/10), r.Why)
	}
	if r.Written {
		text := fmt.Sprintf("%s of log in %s", bytesOf(float64(r.Bytes)), o.Out)
		if o.Share < 1 {
			text = fmt.Sprintf("%d of %d sessions, of %s of log, in %s", r.Kept, r.Sessions, bytesOf(float64(r.Bytes)),
				o.Out)
		}
		fmt.Fprintln(cmd.out, printableLine(text))
	}
	for _, l := range r.Left {
		fmt.Fprintln(cmd.out, printableLine("left: "+l))
	}
}
