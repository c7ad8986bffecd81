package schedule

import (
	"cmp"
	"errors"
	"log/slog"

	"tare/internal/bundle"
	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// reporter sends the run's events, and keeps the evidence of failures.
type reporter struct {
	tell     func(Event)
	log      *slog.Logger
	evidence Evidence // nil: nothing is kept
}

// keep writes the evidence of a failure into the bundle; where there is none, its message. An error never ends a run;
// if the disk is full, the next trial says so.
func (n *reporter) keep(name string, f *record.Failure) {
	text := cmp.Or(f.Evidence, f.Message)
	if n.evidence == nil || text == "" {
		return
	}
	if _, err := n.evidence.Evidence(bundle.EvidenceName(name), []byte(text)); err != nil {
		n.log.Warn("keep evidence", "file", name, "error", err)
	}
}

// failure turns an error into its record.
func failure(kind string, err error) *record.Failure {
	if f, ok := errors.AsType[*record.Failure](err); ok {
		return f
	}
	f := &record.Failure{Kind: kind, Message: err.Error()}
	if o, ok := errors.AsType[*env.OpenError](err); ok {
		f.Evidence = printable(o.Evidence)
	}
	if h, ok := errors.AsType[*deploy.HandshakeError](err); ok && f.Evidence == "" {
		f.Evidence = printable(h.Evidence())
	}
	return f
}

func printable(b []byte) string { return proc.Printable(b) }
