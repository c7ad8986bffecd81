// Package ledger keeps the account of a log that is read: the fate of every byte and of every record in it.
package ledger

import (
	"cmp"
	"slices"
)

// Parts are amounts by their fate. Total is the sum of the others.
type Parts struct {
	Total     int64 `json:"total"`
	Replayed  int64 `json:"replayed"`
	Skipped   int64 `json:"skipped"`
	Ambiguous int64 `json:"ambiguous"`
	Lost      int64 `json:"lost"`
}

// Part is one of the four.
type Part string

// What can become of a byte or a record.
const (
	Replayed  Part = "replayed"
	Skipped   Part = "skipped"   // on purpose, for a reason
	Ambiguous Part = "ambiguous" // it may have been misread
	Lost      Part = "lost"      // it could not be read
)

// Add counts n of a part.
func (p *Parts) Add(part Part, n int64) {
	p.Total += n
	switch part {
	case Replayed:
		p.Replayed += n
	case Skipped:
		p.Skipped += n
	case Ambiguous:
		p.Ambiguous += n
	default:
		p.Lost += n
	}
}

// Reason is why something was skipped, is ambiguous or lost, with how much of it.
type Reason struct {
	Part           Part
	Reason         string
	Records, Bytes int64
}

type key struct {
	part   Part
	reason string
}

// Ledger is an account that is being kept. The zero value is empty.
type Ledger struct {
	Bytes, Records Parts
	reasons        map[key]*Reason
	last           *Reason
}

// maxReasons bounds how many reasons are told apart: some have a word of the log in them.
const maxReasons = 500

// Add accounts for some records and bytes. Replayed ones need no reason.
func (l *Ledger) Add(part Part, reason string, records, bytes int64) {
	l.Bytes.Add(part, bytes)
	l.Records.Add(part, records)
	if part == Replayed {
		return
	}
	// Runs of the same reason are the rule.
	if l.last == nil || l.last.Part != part || l.last.Reason != reason {
		l.last = l.reason(part, reason)
	}
	l.last.Records += records
	l.last.Bytes += bytes
}

func (l *Ledger) reason(part Part, reason string) *Reason {
	k := key{part, reason}
	if l.reasons == nil {
		l.reasons = map[key]*Reason{}
	}
	if l.reasons[k] == nil && len(l.reasons) >= maxReasons {
		k.reason = "other reasons"
	}
	if l.reasons[k] == nil {
		l.reasons[k] = &Reason{Part: part, Reason: k.reason}
	}
	return l.reasons[k]
}

// Reasons lists the reasons, the largest of each part first.
func (l *Ledger) Reasons() []Reason {
	all := make([]Reason, 0, len(l.reasons))
	for _, r := range l.reasons {
		all = append(all, *r)
	}
	order := map[Part]int{Skipped: 0, Ambiguous: 1, Lost: 2}
	slices.SortFunc(all, func(x, y Reason) int {
		return cmp.Or(order[x.Part]-order[y.Part], cmp.Compare(y.Records, x.Records), cmp.Compare(y.Bytes, x.Bytes),
			cmp.Compare(x.Reason, y.Reason))
	})
	return all
}

// Restore makes a ledger go on from what another one had.
func Restore(bytes, records Parts, reasons []Reason) Ledger {
	l := Ledger{Bytes: bytes, Records: records}
	for _, r := range reasons {
		*l.reason(r.Part, r.Reason) = r
	}
	return l
}
