package httplog

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"tare/internal/sys/ledger"
)

// Schema names the form of a summary in JSON.
const Schema = "tare-http-inspect/1"

// Summary is a summary of a log, as `tare http inspect` shows it.
type Summary struct {
	Schema   string   `json:"schema"`
	Logs     []string `json:"logs"`
	Format   Format   `json:"format"`
	Account  Account  `json:"account"`
	Time     Span     `json:"time"`
	Sessions Sessions `json:"sessions"`
	// Timeline divides the time into at most 120 equal parts.
	Timeline []Bucket `json:"timeline"`
	// Methods, Statuses and Hosts count requests, the most frequent first.
	Methods  []Count `json:"methods"`
	Statuses []Count `json:"statuses"`
	Hosts    []Count `json:"hosts"`
	// Fingerprints are the kinds of requests, those with the most requests first. There are Distinct of them; the last
	// one has all that were not told apart any more.
	Fingerprints []Group  `json:"fingerprints"`
	Distinct     int      `json:"distinct_fingerprints"`
	Notes        []string `json:"notes"`
}

// Span is the time of a log, in RFC 3339; empty where it tells none.
type Span struct {
	First     string  `json:"first,omitempty"`
	Last      string  `json:"last,omitempty"`
	Seconds   float64 `json:"seconds"`
	Precision float64 `json:"precision_seconds"` // of the coarsest time
}

// Sessions are counts of sessions.
type Sessions struct {
	Total    int64 `json:"total"`
	MostOpen int64 `json:"most_open"` // at the same time: with requests within half an hour
	// MostRequests is the most requests within a second.
	MostRequests int64 `json:"most_requests_per_second"`
}

// Bucket is a part of the time of a log.
type Bucket struct {
	Start    string  `json:"start"`
	Seconds  float64 `json:"seconds"`
	Requests int64   `json:"requests"`
	Replayed int64   `json:"replayed"`
	Failed   int64   `json:"failed"`  // with a status from 400 on
	Bytes    int64   `json:"bytes"`   // sent, where the log tells
	Running  float64 `json:"running"` // requests at the same time, on average; from durations
	busy     int64   // microseconds
}

func (b *Bucket) add(o *Bucket) {
	b.Requests += o.Requests
	b.Replayed += o.Replayed
	b.Failed += o.Failed
	b.Bytes += o.Bytes
	b.busy += o.busy
}

// Count is a number of requests with a name.
type Count struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Replayed int64  `json:"replayed"`
}

// Group is a group of requests of one fingerprint.
type Group struct {
	ID       string  `json:"id"`
	Text     string  `json:"fingerprint"`
	Requests int64   `json:"requests"`
	Replayed int64   `json:"replayed"`
	Failed   int64   `json:"failed"` // with a status from 400 on
	Bytes    int64   `json:"bytes"`  // sent, where the log tells
	Seconds  float64 `json:"seconds"`
	Longest  float64 `json:"longest_seconds"`
	Example  string  `json:"example,omitempty"` // the first target, at most 1 KiB of it
	rest     bool
}

const (
	maxGroups = 20_000
	maxNames  = 200
)

// summarizer puts a summary together.
type summarizer struct {
	s                        *Summary
	r                        *Reader
	policy                   Policy
	groups                   map[uint64]*Group
	methods, statuses, hosts map[string]*Count
	first, last, coarse      int64
	second, within           int64
	line                     ledger.Timeline[Bucket]
	scratch                  []byte
}

// Summarize reads a log to its end and summarizes it, with the part that a policy lets replay. It returns the summary
// so far when reading fails, with the error.
func Summarize(r *Reader, p Policy) (*Summary, error) {
	z := &summarizer{s: &Summary{Schema: Schema, Format: r.format}, r: r, policy: p, groups: map[uint64]*Group{},
		methods: map[string]*Count{}, statuses: map[string]*Count{}, hosts: map[string]*Count{}, first: NoTime,
		last: NoTime, line: ledger.Timeline[Bucket]{Add: (*Bucket).add}}
	var q Request
	for {
		err := r.Next(&q)
		if err == io.EOF {
			return z.finish(), nil
		}
		if err != nil {
			return z.finish(), err
		}
		z.add(&q)
	}
}

func (z *summarizer) add(q *Request) {
	part, reason := z.policy.Decide(q)
	z.r.Settle(part, reason)
	replayed := int64(0)
	if part == ledger.Replayed {
		replayed = 1
	}
	method := string(q.Method)
	if q.Bad == whyGarbage {
		method = "(no request)"
	} else if method == "" {
		method = "(not told)"
	}
	status := "(not told)"
	if q.Status > 0 {
		status = strconv.Itoa(q.Status)
	}
	count(z.methods, method, replayed)
	count(z.statuses, status, replayed)
	if len(q.Host) > 0 {
		count(z.hosts, string(q.Host), replayed)
	}
	failed := int64(0)
	if q.Status >= 400 {
		failed = 1
	}
	z.at(q, &Bucket{Requests: 1, Replayed: replayed, Failed: failed, Bytes: max(0, q.Bytes), busy: max(0, q.Duration)})
	g := z.group(q)
	g.Requests++
	g.Replayed += replayed
	g.Failed += failed
	g.Bytes += max(0, q.Bytes)
	if q.Duration >= 0 {
		seconds := float64(q.Duration) / second
		g.Seconds += seconds
		g.Longest = max(g.Longest, seconds)
	}
}

func count(m map[string]*Count, name string, replayed int64) {
	c := m[name]
	if c == nil {
		if len(m) >= maxNames {
			name = "(others)"
		}
		if c = m[name]; c == nil {
			c = &Count{Name: name}
			m[name] = c
		}
	}
	c.Requests++
	c.Replayed += replayed
}

func (z *summarizer) at(q *Request, one *Bucket) {
	if q.Time == NoTime {
		return
	}
	z.line.At(q.Time, Bucket{}).add(one)
	if z.first == NoTime {
		z.first, z.last = q.Time, q.Time
	}
	if q.Time < z.last-3600*second {
		z.r.note("times go back by more than an hour: are the logs in the order of their times?")
	}
	z.first, z.last, z.coarse = min(z.first, q.Time), max(z.last, q.Time), max(z.coarse, q.Precision)
	if now := q.Time / second; now != z.second {
		z.second, z.within = now, 0
	}
	z.within++
	z.s.Sessions.MostRequests = max(z.s.Sessions.MostRequests, z.within)
}

func (z *summarizer) group(q *Request) *Group {
	z.scratch = Fingerprint(z.scratch[:0], q)
	id := ID(z.scratch)
	g := z.groups[id]
	if g == nil && len(z.groups) >= maxGroups {
		id = 0
		g = z.groups[id]
	}
	if g == nil {
		g = &Group{ID: fmt.Sprintf("%016X", id), Text: string(z.scratch),
			Example: string(q.Target[:min(len(q.Target), maxText)])}
		if id == 0 {
			g = &Group{Text: "(fingerprints that were not told apart)", rest: true}
		}
		z.groups[id] = g
	}
	return g
}

func (z *summarizer) finish() *Summary {
	s := z.s
	s.Account, s.Notes = z.r.Account(), append([]string{}, z.r.notes...)
	if n, first := z.r.Messages(); s.TooManyMessages(z.r) {
		s.Notes = append(s.Notes,
			fmt.Sprintf("%d lines are read as messages of the server and not as requests; the first "+
				"begins with %q; if they are requests, name their fields (--fields, fields=)", n, first))
	}
	s.Sessions.Total, s.Sessions.MostOpen = int64(z.r.sessions.count), int64(z.r.sessions.most)
	if z.first != NoTime {
		s.Time = Span{rfc3339(z.first), rfc3339(z.last), float64(z.last-z.first) / second, float64(z.coarse) / second}
	}
	s.Timeline = []Bucket{}
	for i, b := range z.line.Parts {
		b.Start = rfc3339(z.line.Origin + int64(i)*z.line.Width)
		b.Seconds = float64(z.line.Width) / second
		b.Running = float64(b.busy) / float64(z.line.Width)
		s.Timeline = append(s.Timeline, b)
	}
	s.Methods, s.Statuses, s.Hosts = sorted(z.methods), sorted(z.statuses), sorted(z.hosts)
	s.Distinct, s.Fingerprints = len(z.groups), []Group{}
	for _, g := range z.groups {
		s.Fingerprints = append(s.Fingerprints, *g)
	}
	slices.SortFunc(s.Fingerprints, func(a, b Group) int {
		if a.rest != b.rest {
			if a.rest {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Text, b.Text))
	})
	return s
}

// TooManyMessages tells whether more than a tenth of the lines cannot be read as requests, so that the log may be
// misread.
func (s *Summary) TooManyMessages(r *Reader) bool {
	return r.messages*10 > s.Account.Requests.Total+r.messages
}

func sorted(m map[string]*Count) []Count {
	out := []Count{}
	for _, c := range m {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func rfc3339(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.999999Z07:00")
}
