package ledger

import "slices"

// MaxParts is the most parts of a Timeline.
const MaxParts = 120

// Timeline divides the time of a log into equal parts, which get wider as the log gets longer. Times need not be in
// order. The zero value with Add set is empty.
type Timeline[P any] struct {
	Origin, Width int64 // when the first part begins, and the width of each, in microseconds
	Parts         []P
	Add           func(to, more *P) // makes two parts one
}

const second = 1_000_000

// At returns the part that a time belongs to. A part that is new behind all others begins as fresh. The result is good
// until the next call.
func (l *Timeline[P]) At(t int64, fresh P) *P {
	if len(l.Parts) == 0 {
		l.Origin, l.Width = t-t%second, max(l.Width, second)
	}
	for t < l.Origin {
		if len(l.Parts) >= MaxParts {
			l.widen()
		}
		var none P
		l.Origin -= l.Width
		l.Parts = slices.Insert(l.Parts, 0, none)
	}
	for (t-l.Origin)/l.Width >= MaxParts {
		l.widen()
	}
	n := int((t - l.Origin) / l.Width)
	for len(l.Parts) <= n {
		l.Parts = append(l.Parts, fresh)
	}
	return &l.Parts[n]
}

// widen makes each two parts one.
func (l *Timeline[P]) widen() {
	l.Width *= 2
	half := (len(l.Parts) + 1) / 2
	for i := range half {
		p := l.Parts[2*i]
		if 2*i+1 < len(l.Parts) {
			l.Add(&p, &l.Parts[2*i+1])
		}
		l.Parts[i] = p
	}
	l.Parts = l.Parts[:half]
}
