package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
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

// httpInspect is what `tare http inspect` is told.
type httpInspect struct {
	format, out, logFormat, fields, zone string
	top                                  int
	request                              int64
	policy                               httplog.Policy
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

The exit code is 1 when a log cannot be read to its end; what was read is shown.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return cmd.inspect(args, &o) },
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", "", "text or json [by the name of -o, else text]")
	f.StringVarP(&o.out, "out", "o", "", "write to this file; - is standard output [-]")
	f.StringVar(&o.logFormat, "log-format", "", "format of the log: combined, json or har [found]")
	f.StringVar(&o.fields, "fields", "", "names of the fields in JSON, such as method=verb,target=req.path,time=at")
	f.StringVar(&o.zone, "zone", "UTC", "time zone of times without one, such as Europe/Berlin")
	f.IntVar(&o.top, "top", 20, "how many fingerprints to show; 0 shows all")
	f.Int64Var(&o.request, "request", -1,
		"show only the request with this number in the log, from 0, as a report names it")
	f.BoolVar(&o.policy.Writes, "writes", false, "as if requests that may change something were replayed as well")
	return c
}

func (cmd *httpCommand) inspect(args []string, in *httpInspect) (err error) {
	switch {
	case in.request < -1:
		return usagef("--request is a number from 0 on, not %d", in.request)
	case in.request >= 0 && in.format+in.out != "":
		return usagef("--request shows a text; leave --format and --out out")
	}
	if in.out == "-" {
		in.out = ""
	}
	if in.format == "" {
		in.format = cmp.Or(map[string]string{".json": "json"}[filepath.Ext(in.out)], "text")
	}
	if !slices.Contains([]string{"text", "json"}, in.format) {
		return usagef("--format is text or json, not %q", in.format)
	}
	if in.top < 0 {
		return usagef("--top is a number of fingerprints, not %d", in.top)
	}
	o := httplog.Options{Format: httplog.Format(in.logFormat), Fields: in.fields}
	if o.Zone, err = time.LoadLocation(in.zone); err != nil {
		return usageError{fmt.Errorf("--zone: %w", err)}
	}
	r, err := httplog.Open(o, supply.Parts(args, cmd.in)...)
	if err != nil {
		return fmt.Errorf("read %s: %w", quoteArg(args[0]), err)
	}
	defer r.Close()
	if in.request >= 0 {
		return cmd.request(r, in.request)
	}
	s, failed := httplog.Summarize(r, in.policy)
	s.Logs = args
	if in.top > 0 && len(s.Fingerprints) > in.top && in.format == "json" {
		s.Fingerprints = s.Fingerprints[:in.top]
	}
	write := func(w io.Writer) error {
		if in.format == "json" {
			return json.NewEncoder(w).Encode(s)
		}
		return logs.HTTP(w, s, cmd.width(120), in.top)
	}
	if in.out != "" {
		err = writeWhole(in.out, write)
	} else {
		err = write(cmd.out)
	}
	return errors.Join(err, failed)
}

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
