package logs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"tare/internal/sys/httplog"
	"tare/internal/sys/ledger"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// HTTP writes a summary of the log of a web server for people, width columns wide, with the first top fingerprints, or
// all for 0.
func HTTP(w io.Writer, s *httplog.Summary, width, top int) error {
	t := &text{w: w, width: width}
	for _, name := range s.Logs {
		t.line("%s", proc.Line(name))
	}
	t.line("  format    %s", s.Format)
	if s.Time.First != "" {
		t.line("  time      %s to %s, %s, to the nearest %s", s.Time.First, s.Time.Last,
			unit.Format(s.Time.Seconds, "s"), unit.Format(s.Time.Precision, "s"))
	} else {
		t.line("  time      the log tells none")
	}
	t.line("  sessions  %s; at most %s within half an hour, at most %s", whole(s.Sessions.Total),
		whole(s.Sessions.MostOpen), unit.Plural(s.Sessions.MostRequests, "request")+" in a second")
	t.accounts("requests", s.Account.Requests, s.Account.Bytes, httpReasons(s))
	t.line("")
	for _, c := range []struct {
		name   string
		counts []httplog.Count
	}{{"methods", s.Methods}, {"statuses", s.Statuses}, {"hosts", s.Hosts}} {
		var all []string
		for _, n := range c.counts[:min(8, len(c.counts))] {
			all = append(all, proc.Line(n.Name)+" "+percent(n.Requests, s.Account.Requests.Total))
		}
		if more := len(c.counts) - 8; more > 0 {
			all = append(all, fmt.Sprintf("and %d more", more))
		}
		if all != nil {
			t.line("  %-8s  %s", c.name, strings.Join(all, ", "))
		}
	}
	t.timeline(httpTimelines(s))
	t.requests(s, top)
	for _, n := range s.Notes {
		t.line("note: %s", proc.Line(n))
	}
	return t.err
}

// httpReasons are the reasons for which a part of a log is not replayed.
func httpReasons(s *httplog.Summary) (all []ledger.Reason) {
	for _, r := range s.Account.Reasons {
		all = append(all, ledger.Reason{Part: r.Part, Reason: r.Reason, Records: r.Requests, Bytes: r.Bytes})
	}
	return all
}

// requests lists the fingerprints.
func (t *text) requests(s *httplog.Summary, top int) {
	shown := first(s.Fingerprints, top)
	if len(shown) == 0 {
		return
	}
	timed := slices.ContainsFunc(shown, func(g httplog.Group) bool { return g.Seconds > 0 })
	t.line("")
	t.line("  %d of %s fingerprints", len(shown), whole(int64(s.Distinct)))
	head := []string{"ID", "requests", "replayed", "failed"}
	if timed {
		head = append(head, "time")
	}
	rows := [][]string{head}
	for i := range shown {
		g := &shown[i]
		row := []string{g.ID, whole(g.Requests), whole(g.Replayed), whole(g.Failed)}
		if timed {
			row = append(row, unit.Format(g.Seconds, "s"))
		}
		rows = append(rows, row)
	}
	t.list(1, rows, func(i int) string { return proc.Line(shown[i].Text) })
}
