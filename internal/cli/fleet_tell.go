package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"tare/internal/run/dispatch"
	"tare/internal/unit"
)

const (
	// mostHostsTold is the largest number of hosts of a fleet at which each change of each has a line.
	mostHostsTold = 64
	// mostOfSort bounds the hosts of a larger one that are named as failed, and those that are named as stuck.
	mostOfSort = 20
	// tellEvery is the time between two lines of counts.
	tellEvery = 30 * time.Second
)

// fleetTeller writes the progress of the parts of a fleet: each change, or in a large fleet the number of parts in each
// phase, and those that fail.
type fleetTeller struct {
	w     io.Writer
	quiet bool // only what failed
	now   func() time.Time

	hosts int
	named map[dispatch.Phase]int
	last  string
	at    time.Time
}

func (t *fleetTeller) large() bool { return t.hosts > mostHostsTold }

// part writes the new phase of a part.
func (t *fleetTeller) part(p dispatch.Part) {
	bad := p.Phase == dispatch.Failed || p.Phase == dispatch.Stuck
	if t.quiet && p.Phase != dispatch.Failed || t.large() && !bad {
		return
	}
	if t.large() {
		if t.named == nil {
			t.named = map[dispatch.Phase]int{}
		}
		if t.named[p.Phase]++; t.named[p.Phase] > mostOfSort {
			if t.named[p.Phase] == mostOfSort+1 {
				fmt.Fprintf(t.w, "%-9s  more, which are counted below and are in the report\n", p.Phase)
			}
			return
		}
	}
	text := p.Host
	if p.Job != "" {
		text += ", job " + p.Job
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	fmt.Fprintf(t.w, "%-9s  %s\n", p.Phase, printableLine(text))
}

// round writes the number of parts of a large fleet in each phase, now and then and at the end.
func (t *fleetTeller) round(parts []dispatch.Part) {
	t.hosts = len(parts)
	if t.quiet || !t.large() {
		return
	}
	count, left := map[dispatch.Phase]int{}, len(parts)
	for i := range parts {
		count[parts[i].Phase]++
	}
	left -= count[dispatch.Done] + count[dispatch.Failed]
	var said []string
	for _, phase := range []dispatch.Phase{dispatch.Absent, dispatch.Ended, dispatch.Waiting, dispatch.Stuck,
		dispatch.Working, dispatch.Done, dispatch.Failed} {
		if n := count[phase]; n > 0 {
			words := map[dispatch.Phase]string{dispatch.Absent: "not asked for yet",
				dispatch.Ended: "to be asked for again"}
			said = append(said, fmt.Sprintf("%d %s", n, cmp.Or(words[phase], string(phase))))
		}
	}
	text := strings.Join(said, ", ")
	now := t.now()
	if text == t.last || left > 0 && !t.at.IsZero() && now.Sub(t.at) < tellEvery {
		return
	}
	t.last, t.at = text, now
	fmt.Fprintf(t.w, "%-9s  %s\n", unit.Plural(len(parts), "host"), text)
}
