package log

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"tare/internal/sys/ledger"
	"tare/internal/sys/sql/lex"
)

// Schema names the form of a summary in JSON.
const Schema = "tare-sql-inspect/1"

// Summary is a summary of a log, as `tare sql inspect` shows it.
type Summary struct {
	Schema  string   `json:"schema"`
	Logs    []string `json:"logs"`
	Format  Format   `json:"format"`
	Wrapped string   `json:"wrapped,omitempty"` // the format around the log
	Prefix  string   `json:"log_line_prefix,omitempty"`
	Dialect string   `json:"dialect"`
	Account Account  `json:"account"`
	Time    Span     `json:"time"`
	// Sessions of the log; Begun began before it.
	Sessions Sessions `json:"sessions"`
	// Timeline divides the time into at most 120 equal parts.
	Timeline []Bucket `json:"timeline"`
	// Classes are the classes of the statements, Volatile the reasons why their results cannot be compared between
	// servers.
	Classes  []Count `json:"classes"`
	Volatile []Count `json:"volatile"`
	// Databases are those that the log names, with the number of records that do.
	Databases []Count `json:"databases"`
	// Fingerprints are the kinds of statements, those with the most time first, or with the most statements where the
	// log has no durations. There are Distinct of them; the last one has all that were not told apart any more.
	Fingerprints []Group  `json:"fingerprints"`
	Distinct     int      `json:"distinct_fingerprints"`
	Notes        []string `json:"notes"`
}

// Silent tells whether a log of PostgreSQL has messages, and none of a statement or a session: as where they are in
// another language.
func (s *Summary) Silent() bool {
	messages := slices.ContainsFunc(s.Account.Reasons, func(r Reason) bool { return r.Reason == whyMessages })
	return messages && s.Account.Statements.Total == 0 && s.Sessions.Total == 0
}

// Span is the time of a log, in RFC 3339; empty where it tells none.
type Span struct {
	First     string  `json:"first,omitempty"`
	Last      string  `json:"last,omitempty"`
	Seconds   float64 `json:"seconds"`
	Precision float64 `json:"precision_seconds"` // of the coarsest time
	first     int64
	last      int64
}

// Sessions are counts of sessions.
type Sessions struct {
	Total      int64 `json:"total"`
	Begun      int64 `json:"begun_before"`    // before the log began
	Denied     int64 `json:"denied"`          // whose login failed
	MostOpen   int64 `json:"most_open"`       // at the same time, by the log's account of their ends
	MostActive int64 `json:"most_per_second"` // that asked something within the same second
}

// Bucket is a part of the time of a log.
type Bucket struct {
	Start      string  `json:"start"`
	Seconds    float64 `json:"seconds"`
	Statements int64   `json:"statements"`
	Reads      int64   `json:"reads"`
	Active     int64   `json:"most_per_second"` // sessions that asked something within the same second
	Open       int64   `json:"most_open"`       // sessions
	Running    float64 `json:"running"`         // statements at the same time, on average; from durations
	busy       int64
}

// Count is a number of statements with a name.
type Count struct {
	Name       string `json:"name"`
	Statements int64  `json:"statements"`
	Replayed   int64  `json:"replayed"`
}

// Group is a group of statements of one fingerprint.
type Group struct {
	ID         string  `json:"id"`
	Text       string  `json:"fingerprint"`
	Comment    string  `json:"comment,omitempty"` // that statements begin with, numbers left out
	Class      string  `json:"class"`
	Reason     string  `json:"reason,omitempty"`
	Volatile   string  `json:"volatile,omitempty"`
	Statements int64   `json:"statements"`
	Replayed   int64   `json:"replayed"`
	Bytes      int64   `json:"bytes"`             // of texts
	Seconds    float64 `json:"seconds"`           // all durations, where the log has them
	Longest    float64 `json:"longest_seconds"`   // of them
	Rows       int64   `json:"rows"`              // sent, where the log tells
	Example    string  `json:"example,omitempty"` // the first one, at most 1 KiB of it
	rest       bool
}

const (
	maxGroups   = 20_000
	maxText     = 1 << 10 // bytes of a fingerprint or an example
	maxComment  = 120
	maxNames    = 200
	lateSeconds = 3600 // times that go back further than this are told
)

// summarizer puts a summary together.
type summarizer struct {
	s       *Summary
	plan    Planner
	r       *Reader
	groups  map[groupKey]*Group
	classes [8]Count
	names   map[string]*Count
	why     map[string]*Count
	timed   bool

	line    ledger.Timeline[Bucket]
	second  int64 // the one that active is of
	active  map[uint64]struct{}
	open    int64
	were    int64 // open before the event
	coarse  int64
	scratch []byte
	comment []byte
}

type groupKey struct{ id, comment uint64 }

// Summarize reads a log to its end and summarizes it, with the part that a policy lets replay. It returns the summary
// so far when reading fails, with the error.
func Summarize(r *Reader, p Policy) (*Summary, error) { return summarize(r, p, func() {}) }

// summarize is Summarize with a function that is called for each event.
func summarize(r *Reader, p Policy, each func()) (*Summary, error) {
	s := Sum(r, p)
	var e Event
	for {
		err := s.Next(&e)
		if err == io.EOF {
			return s.Summary(), nil
		}
		if err != nil {
			return s.Summary(), err
		}
		each()
	}
}

func (z *summarizer) add(e *Event) {
	z.were = z.open
	d := z.plan.Decide(e)
	z.r.Settle(d.Part, d.Reason)
	if e.Begun {
		z.s.Sessions.Begun++
		z.open++
	}
	switch e.Op {
	case Connect:
		z.open++
	case Denied:
		z.s.Sessions.Denied++
		z.open--
	case Quit:
		z.open--
	}
	z.open = max(0, z.open)
	z.s.Sessions.MostOpen = max(z.s.Sessions.MostOpen, z.open)
	z.s.Sessions.Total = max(z.s.Sessions.Total, int64(e.Session))
	if len(e.Database) > 0 {
		count(z.names, string(e.Database), d.Part)
	}
	b := z.at(e)
	if !e.Op.Statement() {
		return
	}
	if b != nil {
		b.Statements++
		if d.Verdict.Class.ReadOnly() {
			b.Reads++
		}
		b.busy += max(0, e.Duration)
	}
	c := &z.classes[d.Verdict.Class]
	c.Statements++
	if d.Part == Replayed {
		c.Replayed++
	}
	if d.Verdict.Volatile != "" && d.Part == Replayed {
		count(z.why, d.Verdict.Volatile, d.Part)
	}
	z.group(e, &d)
}

func count(m map[string]*Count, name string, part Part) {
	c := m[name]
	if c == nil {
		if len(m) >= maxNames {
			return
		}
		c = &Count{Name: name}
		m[name] = c
	}
	c.Statements++
	if part == Replayed {
		c.Replayed++
	}
}

// at returns the part of the time that an event belongs to, nil for none.
func (z *summarizer) at(e *Event) *Bucket {
	t := e.Time
	if t == NoTime {
		return nil
	}
	span := &z.s.Time
	if span.first == NoTime {
		span.first, span.last = t, t
	}
	if t < span.last-lateSeconds*second {
		z.r.note("times go back by more than an hour: are the logs in the order of their times?")
	}
	span.first, span.last = min(span.first, t), max(span.last, t)
	z.coarse = max(z.coarse, e.Precision)
	b := z.line.At(t, Bucket{Open: z.were})
	if now := t / second; now > z.second {
		z.second = now
		clear(z.active)
	}
	if t/second == z.second && e.Op.Statement() && len(z.active) < maxSessions {
		z.active[e.Session] = struct{}{}
		b.Active = max(b.Active, int64(len(z.active)))
		z.s.Sessions.MostActive = max(z.s.Sessions.MostActive, b.Active)
	}
	b.Open = max(b.Open, z.open)
	return b
}

func (b *Bucket) add(o *Bucket) {
	b.Statements += o.Statements
	b.Reads += o.Reads
	b.busy += o.busy
	b.Active, b.Open = max(b.Active, o.Active), max(b.Open, o.Open)
}

// group counts a statement with those of its kind.
func (z *summarizer) group(e *Event, d *Decision) {
	g := d.kind.group
	if g == nil {
		g = z.find(e, d)
		d.kind.group = g
	}
	g.Statements++
	if d.Part == Replayed {
		g.Replayed++
	}
	g.Bytes += int64(len(e.Text))
	if e.Duration >= 0 {
		z.timed = true
		seconds := float64(e.Duration) / float64(second)
		g.Seconds += seconds
		g.Longest = max(g.Longest, seconds)
	}
	g.Rows += max(0, e.Rows)
}

// find returns the group of a statement.
func (z *summarizer) find(e *Event, d *Decision) *Group {
	o := lex.Options{Dialect: z.plan.Dialect}
	z.scratch = lex.Fingerprint(z.scratch[:0], e.Text, o)
	z.comment = lex.FoldNumbers(z.comment[:0], lex.LeadingComment(e.Text, o), maxComment)
	id := lex.ID(z.scratch)
	key := groupKey{id: id}
	if len(z.comment) > 0 {
		key.comment = hash(z.comment)
	}
	g := z.groups[key]
	if g == nil && len(z.groups) >= maxGroups {
		key = groupKey{}
		g = z.groups[key]
	}
	if g == nil {
		g = z.newGroup(e, d, id)
		z.groups[key] = g
	}
	return g
}

func (z *summarizer) newGroup(e *Event, d *Decision, id uint64) *Group {
	if len(z.groups) >= maxGroups {
		return &Group{Text: "(fingerprints that were not told apart)", rest: true}
	}
	return &Group{ID: fmt.Sprintf("%016X", id), Text: text(z.scratch), Comment: text(z.comment),
		Class: d.Verdict.Class.String(), Reason: d.Verdict.Reason, Volatile: d.Verdict.Volatile, Example: text(e.Text)}
}

// text is the beginning of a text.
func text(b []byte) string { return string(b[:min(len(b), maxText)]) }

func (z *summarizer) finish() {
	s := z.s
	z.r.settle()
	s.Account = z.r.Account()
	s.Notes = append([]string{}, z.r.Notes()...)
	if n := z.r.sess.forgotten; n > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d sessions were silent for so long that they count as two", n))
	}
	if z.r.textExecutes > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("what %d EXECUTE carried out is not in the log", z.r.textExecutes))
	}
	if s.Silent() {
		s.Notes = append(s.Notes, "no line of the log is a statement or a session: the server has to log statements "+
			"(log_statement), and messages in English (lc_messages)")
	}
	if z.r.clock.setBack > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("the clock was set back by an hour %d times", z.r.clock.setBack))
	}
	if s.Time.first != NoTime {
		s.Time.First, s.Time.Last = rfc3339(s.Time.first), rfc3339(s.Time.last)
		s.Time.Seconds = float64(s.Time.last-s.Time.first) / float64(second)
		s.Time.Precision = float64(z.coarse) / float64(second)
	}
	s.Timeline = []Bucket{}
	for i, b := range z.line.Parts {
		b.Start = rfc3339(z.line.Origin + int64(i)*z.line.Width)
		b.Seconds = float64(z.line.Width) / float64(second)
		b.Running = float64(b.busy) / float64(z.line.Width)
		s.Timeline = append(s.Timeline, b)
	}
	s.Classes = []Count{}
	for class := range z.classes {
		if c := z.classes[class]; c.Statements > 0 {
			c.Name = lex.Class(class).String()
			s.Classes = append(s.Classes, c)
		}
	}
	slices.SortFunc(s.Classes, byStatements)
	s.Volatile, s.Databases = sorted(z.why), sorted(z.names)
	s.Distinct = len(z.groups)
	s.Fingerprints = []Group{}
	for _, g := range z.groups {
		s.Fingerprints = append(s.Fingerprints, *g)
	}
	slices.SortFunc(s.Fingerprints, func(a, b Group) int {
		byTime := 0
		if z.timed {
			byTime = cmp.Compare(b.Seconds, a.Seconds)
		}
		if a.rest != b.rest {
			if a.rest {
				return 1
			}
			return -1
		}
		return cmp.Or(byTime, cmp.Compare(b.Statements, a.Statements), cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Comment, b.Comment))
	})
}

func byStatements(a, b Count) int {
	return cmp.Or(cmp.Compare(b.Statements, a.Statements), cmp.Compare(a.Name, b.Name))
}

func sorted(m map[string]*Count) []Count {
	out := []Count{}
	for _, c := range m {
		out = append(out, *c)
	}
	slices.SortFunc(out, byStatements)
	return out
}

func rfc3339(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.999999Z07:00")
}
