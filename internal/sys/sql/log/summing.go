package log

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tare/internal/sys/ledger"
	"tare/internal/sys/sql/lex"
)

// Summing is a summary that is being made of a log that grows. It is not safe for concurrent use.
type Summing struct{ z *summarizer }

// Sum begins a summary.
func Sum(r *Reader, p Policy) *Summing {
	f, wrapped := r.Format()
	return &Summing{&summarizer{r: r, plan: Planner{Policy: p, Dialect: r.Dialect()}, groups: map[groupKey]*Group{},
		names: map[string]*Count{}, why: map[string]*Count{}, active: map[uint64]struct{}{},
		line: ledger.Timeline[Bucket]{Width: second, Add: (*Bucket).add},
		s: &Summary{Schema: Schema, Format: f, Wrapped: wrapped, Prefix: r.Prefix(), Dialect: r.Dialect().String(),
			Time: Span{first: NoTime, last: NoTime}}}}
}

// Next adds an event. At the end of the log it returns io.EOF; any other error is one of reading.
func (s *Summing) Next(e *Event) error {
	err := s.z.r.Next(e)
	if err == nil {
		s.z.add(e)
	}
	return err
}

// Summary is how things stand. It is valid until the next call of any method.
func (s *Summing) Summary() *Summary {
	s.z.finish()
	return s.z.s
}

// Taken is how many bytes of the log have been accounted for.
func (s *Summing) Taken() int64 { return s.z.r.in.took }

// Begun is the text that was read behind that, at most n bytes of it. It is valid until the next call of any method.
func (s *Summing) Begun(n int64) []byte {
	b := s.z.r.in.bytes()
	return b[:min(n, int64(len(b)))]
}

// saved is a Summing with its Reader as a text. Its exported fields are as in a Summary.
type saved struct {
	Schema  string `json:"schema"`
	Policy  Policy `json:"policy"`
	Summary *Summary

	Notes        []string
	Took         int64
	Clock        savedClock
	Sessions     []savedSession
	Numbered     uint64 // sessions
	Forgotten    int64
	TextExecutes int
	Format       savedFormat

	Groups        []savedGroup
	Names, Why    map[string]*Count
	Classes       []Count
	Timed         bool
	Width, Origin int64
	Buckets       []savedBucket
	Second        int64
	Active        []uint64
	Open, Coarse  int64
	First, Last   int64
}

type savedClock struct {
	Last, Shift int64
	SetBack     int
	Again       bool
}

type savedSession struct {
	ID                       uint64
	Old                      bool
	Number                   uint64
	Fresh, Connected, Denied bool
	Execute, Prepare         int
	NoBackslash, Ansi        bool
	Statements               []savedStatement
	Prepares                 int64
}

type savedStatement struct {
	Number int64
	Text   []byte
}

// savedFormat is the state that the readers of the formats keep from one record to the next.
type savedFormat struct {
	Time, Precision int64
	Any             bool
	Database        []byte
	Ahead           int64
	HasAhead        bool
}

type savedGroup struct {
	Group
	Key, CommentKey uint64
	Rest            bool
}

type savedBucket struct {
	Bucket
	Busy int64
}

// Save returns everything that Restore needs to go on behind the bytes that are accounted for, so that nothing counts
// twice. It may also be called while the Reader waits for more of a record.
func (s *Summing) Save() ([]byte, error) {
	z, r := s.z, s.z.r
	if r.in.unwrap != nil {
		return nil, errors.New("what was read of a log in JSON cannot be saved")
	}
	v := saved{Schema: Schema, Policy: z.plan.Policy, Summary: s.Summary(), Notes: r.notes, Took: r.in.took,
		Clock:    savedClock{r.clock.last, r.clock.shift, r.clock.setBack, r.clock.again},
		Numbered: r.sess.count, Forgotten: r.sess.forgotten, TextExecutes: r.textExecutes,
		Names: z.names, Why: z.why, Classes: z.classes[:], Timed: z.timed, Width: z.line.Width, Origin: z.line.Origin,
		Second: z.second, Active: slices.Sorted(maps.Keys(z.active)), Open: z.open, Coarse: z.coarse,
		First: z.s.Time.first, Last: z.s.Time.last}
	switch f := r.reader.(type) {
	case *generalLog:
		v.Format = savedFormat{Time: f.time, Precision: f.prec, Any: f.any}
	case *slowLog:
		v.Format = savedFormat{Time: f.end, Precision: f.prec, Database: f.database, Ahead: f.ahead,
			HasAhead: f.hasAhead}
	case *pgCSV, *pgStderr, *pgJSON, *auditJSON, *auditCSV:
	default:
		return nil, fmt.Errorf("what was read of a log of the format %s cannot be saved", r.format)
	}
	for old, all := range map[bool]map[uint64]*session{false: r.sess.recent, true: r.sess.old} {
		for id, x := range all {
			t := savedSession{id, old, x.number, x.fresh, x.connected, x.denied, x.textExecute, x.textPrepare,
				x.noBackslash, x.ansi, nil, x.prepares}
			for _, p := range x.statements {
				t.Statements = append(t.Statements, savedStatement{p.number, p.text})
			}
			v.Sessions = append(v.Sessions, t)
		}
	}
	for k, g := range z.groups {
		v.Groups = append(v.Groups, savedGroup{*g, k.id, k.comment, g.rest})
	}
	for _, b := range z.line.Parts {
		v.Buckets = append(v.Buckets, savedBucket{b, b.busy})
	}
	v.Summary.Fingerprints = nil // they are the groups
	return json.Marshal(&v)
}

// Restore takes up a state that Save returned. The Reader must not have read anything, and its source must begin behind
// the bytes that were accounted for.
func (s *Summing) Restore(text []byte) error {
	var v saved
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	z, r := s.z, s.z.r
	switch {
	case v.Schema != Schema || v.Summary == nil || len(v.Classes) != len(z.classes) || v.Width <= 0 ||
		v.Width > 1<<52 || len(v.Buckets) > ledger.MaxParts || max(v.Origin, -v.Origin) > 1<<58:
		return errors.New("it was written by another version")
	case v.Policy != z.plan.Policy:
		return errors.New("it was made with other options: --writes, --locks")
	case v.Summary.Format != r.format || v.Summary.Dialect != r.dialect.String():
		return fmt.Errorf("it is of a log of the format %s", v.Summary.Format)
	}
	z.s, r.notes = v.Summary, v.Notes
	z.s.Time.first, z.s.Time.last = v.First, v.Last
	r.in.took = v.Took
	a := &v.Summary.Account
	var reasons []ledger.Reason
	for _, x := range a.Reasons {
		reasons = append(reasons, ledger.Reason{Part: x.Part, Reason: x.Reason, Records: x.Statements, Bytes: x.Bytes})
	}
	r.account = accountant{ledger.Restore(a.Bytes, a.Statements, reasons), a.Resyncs}
	r.clock.last, r.clock.shift, r.clock.setBack, r.clock.again = v.Clock.Last, v.Clock.Shift, v.Clock.SetBack,
		v.Clock.Again
	r.sess.count, r.sess.forgotten, r.textExecutes = v.Numbered, v.Forgotten, v.TextExecutes
	for i := range v.Sessions {
		r.sess.restore(&v.Sessions[i])
	}
	switch f := r.reader.(type) {
	case *generalLog:
		f.time, f.prec, f.any = v.Format.Time, v.Format.Precision, v.Format.Any
	case *slowLog:
		f.end, f.prec, f.database = v.Format.Time, v.Format.Precision, v.Format.Database
		f.ahead, f.hasAhead = v.Format.Ahead, v.Format.HasAhead
	}
	for i := range v.Groups {
		g := &v.Groups[i]
		g.Group.rest = g.Rest
		z.groups[groupKey{g.Key, g.CommentKey}] = &g.Group
	}
	copy(z.classes[:], v.Classes)
	for _, b := range v.Buckets {
		b.Bucket.busy = b.Busy
		z.line.Parts = append(z.line.Parts, b.Bucket)
	}
	for _, id := range v.Active {
		z.active[id] = struct{}{}
	}
	z.names, z.why = orEmpty(v.Names), orEmpty(v.Why)
	z.timed, z.second, z.open, z.coarse = v.Timed, v.Second, v.Open, v.Coarse
	z.line.Width, z.line.Origin = v.Width, v.Origin
	return nil
}

func orEmpty(m map[string]*Count) map[string]*Count {
	if m == nil {
		m = map[string]*Count{}
	}
	maps.DeleteFunc(m, func(_ string, c *Count) bool { return c == nil })
	return m
}

// restore takes up a session.
func (s *sessions) restore(v *savedSession) {
	x := &session{number: v.Number, fresh: v.Fresh, connected: v.Connected, denied: v.Denied, textExecute: v.Execute,
		textPrepare: v.Prepare, noBackslash: v.NoBackslash, ansi: v.Ansi, prepares: v.Prepares}
	for _, p := range v.Statements {
		x.statements = append(x.statements, prepared{p.Number, p.Text})
		s.prepared += len(p.Text)
	}
	if v.Old {
		s.old[v.ID] = x
	} else {
		s.recent[v.ID] = x
	}
}

// OptionsOf returns the options with which the log of a text of Save has to be opened.
func OptionsOf(text []byte, o Options) (Options, error) {
	var v struct{ Summary *Summary }
	if err := json.Unmarshal(text, &v); err != nil || v.Summary == nil {
		return o, errors.New("it has no summary")
	}
	o.Format, o.Prefix, o.Sample = v.Summary.Format, v.Summary.Prefix, -1
	if o.Dialect = lex.MySQL; v.Summary.Dialect == lex.PostgreSQL.String() {
		o.Dialect = lex.PostgreSQL
	}
	return o, nil
}
