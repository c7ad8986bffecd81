package log

import "tare/internal/sys/sql/lex"

// Policy says which statements of a log may be replayed. The zero value is for a server whose data must stay as they
// are: only statements that read, and those that set the state of a session. It goes by the text alone, so that the
// replay needs a transaction and an account, too, that can only read.
type Policy struct {
	Writes bool // also statements that change rows, tables or anything but the server itself, and unknown ones
	Locks  bool // SELECT ... FOR UPDATE and the like as well
}

// Decision is the treatment of an event.
type Decision struct {
	Part    Part // Replayed, Skipped or Ambiguous
	Reason  string
	Verdict lex.Verdict      // of a statement
	kind    *cachedStatement // of it
}

// Planner applies a policy to the events of one log. It is not safe for concurrent use.
type Planner struct {
	Policy
	Dialect lex.Dialect
	reasons map[classReason]string
	kinds   statementCache
}

type classReason struct {
	class  lex.Class
	reason string
}

// Decide returns the treatment of an event.
func (p *Planner) Decide(e *Event) Decision {
	d := Decision{Part: Replayed}
	if e.Op == Query || e.Op == Execute || e.Op == Prepare {
		d.kind = p.kinds.get(e, lex.Options{Dialect: p.Dialect})
		d.Verdict = d.kind.verdict
		if d.Verdict.Reason == lex.Executes && len(e.Prepared) > 0 {
			d.Verdict = lex.Classify(e.Prepared, lex.Options{Dialect: p.Dialect})
		}
	}
	switch {
	case e.Ambiguous != "":
		d.Part, d.Reason = Ambiguous, e.Ambiguous
	case e.Op == Denied:
		d.Part, d.Reason = Skipped, "logins that failed"
	case e.Unfit != "":
		d.Part, d.Reason = Skipped, e.Unfit
	case p.lacks(e, d.Verdict):
		d.Part, d.Reason = Skipped, whyNoValues
	case e.Routine:
		d.Part, d.Reason = Skipped, whyStored
	case e.logged && d.Verdict.Encoding:
		d.Part, d.Reason = Skipped, whyEncoding
	case d.Verdict.Routine && p.Writes:
		d.Part, d.Reason = Skipped, whyRoutine
	case !p.allows(d.Verdict):
		d.Part, d.Reason = Skipped, p.reason(d.Verdict)
	}
	return d
}

// lacks tells whether values are missing that a statement was carried out with.
func (p *Planner) lacks(e *Event, v lex.Verdict) bool {
	if p.Dialect == lex.PostgreSQL {
		return e.Op == Execute && v.Params > len(e.Params)
	}
	return e.Op.Statement() && v.Params > 0
}

func (p *Planner) allows(v lex.Verdict) bool {
	switch {
	case v.Class.ReadOnly():
		return true
	case v.Class == lex.Admin:
		return false
	case v.Class == lex.SideEffect && v.Reason == lex.LocksRows && p.Locks:
		return true
	}
	return p.Writes
}

// reason is a verdict's, made once.
func (p *Planner) reason(v lex.Verdict) string {
	key := classReason{v.Class, v.Reason}
	s, ok := p.reasons[key]
	if !ok {
		if p.reasons == nil {
			p.reasons = map[classReason]string{}
		}
		s = v.Class.String() + ": " + v.Reason
		p.reasons[key] = s
	}
	return s
}
