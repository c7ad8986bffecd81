package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/run/supply"
	"tare/internal/show/logs"
	"tare/internal/sys/httplog"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// httpCommand is `tare http`.
type httpCommand struct {
	*app
}

func (cmd *httpCommand) command() *cobra.Command {
	root := &cobra.Command{Use: "http", Short: "Access logs of web servers: what is in them, and what can be replayed"}
	root.AddCommand(cmd.inspectCommand())
	return root
}

// httpInspect has the flags of `tare http inspect`.
type httpInspect struct {
	inspecting
	logFormat, fields string
	hosts             string
	policy            httplog.Policy
	following         following
}

func (cmd *httpCommand) inspectCommand() *cobra.Command {
	var o httpInspect
	c := &cobra.Command{
		Use: "inspect LOG...", Short: "Show what is in an access log, and what of it would be replayed",
		Long: `Show what is in the access log of a web server, and what of it would be replayed and what not, and why.
Every byte is accounted for: replayed, skipped for a reason, ambiguous or lost.

A log is one in the common or the combined format of Apache and nginx, with a virtual host before it or more behind it;
one of JSON, an object in each line, as nginx (escape=json) and Caddy write it, or with your names of the fields in
--fields; or a HAR file, which a browser saves. It may be compressed with gzip, bzip2, zstd or xz. Name the parts of one
that was rotated in the order of their times; "-" is standard input. The format is found by the first 64 KiB.

With --follow, a log that grows is read until Ctrl-C, --for or --until; then everything is shown. If the log is rotated,
by renaming it or by copying and truncating it, the next one is read on.

The exit code is 1 when a log cannot be read to its end; what was read is shown.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return cmd.inspect(c.Context(), args, &o) },
	}
	f := c.Flags()
	o.flags(f, "request")
	o.following.flags(f)
	f.StringVar(&o.logFormat, "log-format", "", "format of the log: combined, json or har [found]")
	f.StringVar(&o.fields, "fields", "", "names of the fields in JSON, such as method=verb,target=req.path,time=at")
	f.StringVar(&o.hosts, "hosts", "",
		"only requests for these hosts, NAME+NAME, or all [all; of a HAR file the first]")
	f.BoolVar(&o.policy.Writes, "writes", false, "as if requests that may change something were replayed as well")
	return c
}

func (cmd *httpCommand) inspect(ctx context.Context, args []string, in *httpInspect) (err error) {
	if err := in.following.check(args, in.number, "request"); err != nil {
		return err
	}
	if err := in.check("request"); err != nil {
		return err
	}
	o := httplog.Options{Format: httplog.Format(in.logFormat), Fields: in.fields}
	if o.Zone, err = time.LoadLocation(in.zone); err != nil {
		return usageError{fmt.Errorf("--zone: %w", err)}
	}
	r, err := httplog.Open(o, supply.Parts(args, cmd.in)...)
	if err != nil {
		return fmt.Errorf("read %s: %w", quoteArg(args[0]), err)
	}
	defer func() { r.Close() }()
	if in.following.follow {
		if r, err = cmd.follow(ctx, args[0], in, o, r); err != nil {
			return fmt.Errorf("follow %s: %w", quoteArg(args[0]), err)
		}
	}
	if in.number >= 0 {
		return cmd.request(r, in.number)
	}
	s, failed := httplog.Summarize(r, in.policy.For(r, in.hosts))
	if failed == nil && s.TooManyMessages(r) {
		failed = errors.New("more than a tenth of the lines are no requests that can be read; the notes have the first")
	}
	s.Logs = args
	if in.top > 0 && len(s.Fingerprints) > in.top && in.format == "json" {
		s.Fingerprints = s.Fingerprints[:in.top]
	}
	return in.write(cmd.app, s, func(w io.Writer) error { return logs.HTTP(w, s, cmd.width(120), in.top) },
		func(w io.Writer) error { return logs.HTTPPage(w, s, in.top) }, failed)
}

// follow reads a log again, whose beginning another reader has, until it is to end.
func (cmd *httpCommand) follow(ctx context.Context, path string, in *httpInspect, o httplog.Options,
	begun *httplog.Reader) (*httplog.Reader, error) {
	if o.Format = begun.Format(); o.Format == httplog.HAR {
		return begun, errors.New("a HAR file is written as a whole, and only a log can be followed")
	}
	if err := supply.Plain(path); err != nil {
		return begun, err
	}
	ctx, stop, err := in.following.bound(ctx)
	if err != nil {
		return begun, err
	}
	line := &statusLine{console: &cmd.console}
	f, err := supply.Follow(ctx, path, nil, line.tell)
	if err != nil {
		stop()
		return begun, err
	}
	cmd.holding("the whole account is shown")
	r, err := httplog.Open(o, func() (io.ReadCloser, error) {
		return struct {
			io.Reader
			io.Closer
		}{f.Source(), closer(func() error { stop(); return f.Close() })}, nil
	})
	if err != nil {
		return begun, err
	}
	return r, begun.Close()
}

// closer closes something.
type closer func() error

func (c closer) Close() error { return c() }

// request shows one request of a log.
func (cmd *httpCommand) request(r *httplog.Reader, number int64) error {
	var q httplog.Request
	for n := int64(0); n <= number; n++ {
		if err := r.Next(&q); errors.Is(err, io.EOF) {
			return fmt.Errorf("the log has %s, numbered from 0", unit.Plural(n, "request"))
		} else if err != nil {
			return err
		}
	}
	at := "no time"
	if q.Time != httplog.NoTime {
		at = time.UnixMicro(q.Time).UTC().Format(time.RFC3339Nano)
	}
	fmt.Fprintf(cmd.out, "session %d, %s, status %d\n", q.Session, at, q.Status)
	if q.Bad != "" {
		fmt.Fprintln(cmd.out, q.Bad)
	}
	fmt.Fprintf(cmd.out, "\n%s %s\n", proc.Line(string(q.Method)), proc.Line(string(q.Target)))
	for _, h := range []struct {
		name  string
		value []byte
	}{{"Host", q.Host}, {"Referer", q.Referer}, {"User-Agent", q.Agent}} {
		if len(h.value) > 0 {
			fmt.Fprintf(cmd.out, "%s: %s\n", h.name, proc.Line(string(h.value)))
		}
	}
	for _, h := range q.Headers {
		fmt.Fprintln(cmd.out, proc.Line(string(h)))
	}
	if len(q.Body) > 0 {
		fmt.Fprintf(cmd.out, "\n%s\n", proc.Printable(q.Body))
	}
	return nil
}
