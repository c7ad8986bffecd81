package semantics

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tare/internal/measure/fileops"
)

func lagTrials() []trial {
	return []trial{
		{lines: []line{
			{"lag-create-host", "a file made inside is on the host after"},
			{"lag-modify-host", "a file changed inside reads new on the host after"},
			{"lag-delete-host", "a file deleted inside is gone on the host after"},
		}, across: true, limit: 7 * time.Second, run: func(t *try) { tryLags(t, t.in, t.out, "-host") }},
		{lines: []line{{"attr-cache", "a file's new size on the host shows inside after"}}, across: true,
			limit: 6 * time.Second, run: tryAttributes},
		{lines: []line{
			{"lag-create", "a file made on the host is inside after"},
			{"lag-modify", "a file changed on the host reads new inside after"},
			{"lag-delete", "a file deleted on the host is gone inside after"},
		}, across: true, limit: 7 * time.Second, run: func(t *try) { tryLags(t, t.out, t.in, "") }},
	}
}

// The most often a lag is measured, and the longest that is waited for.
const (
	lagRepeats  = 15
	longestLag  = 2 * time.Second
	longestAttr = 5 * time.Second
	// shortestWait is the least time that is worth waiting: a shorter wait without a change tells nothing.
	shortestWait = time.Second
)

// patience is how long one of several waits may take, at most longest. Where too little time is left, the lines of the
// trial stay untested.
func (t *try) patience(longest time.Duration, waits int) time.Duration {
	limit := min(longest, t.left()/time.Duration(waits))
	if limit < shortestWait && t.err() == nil {
		t.in.err = errors.New("no time was left to wait for changes that do not show at once")
	}
	return limit
}

// lags are the lags of one kind of change. A change that was not seen within the limit has at least the limit.
type lags struct {
	seen   []time.Duration
	unseen int
	gap    time.Duration // the longest pause between two looks, one of which saw it
	limit  time.Duration // that was waited
	full   time.Duration // that is worth a rating when nothing was seen
}

// lag has the watcher wait for what change does, and measures how long after the change it sees it.
func (t *try) lag(l *lags, watcher, changer *actor, wait fileops.Request, change func()) {
	wait.Op, wait.TimeoutNS = fileops.Wait, int64(l.limit)
	p := watcher.start(wait)
	// The watcher has to be looking, and to have looked once: what it saw then is what it may hold on to.
	t.pause(2*t.rtt + 5*time.Millisecond)
	change()
	changed := time.Now()
	got, at := watcher.await(p)
	if t.err() != nil {
		return
	}
	if !got.Seen {
		l.unseen++
		return
	}
	way := t.rtt / 2
	if watcher == t.in {
		at = at.Add(-way)
	}
	if changer == t.in {
		changed = changed.Add(-way)
	}
	l.seen = append(l.seen, max(0, at.Sub(changed)))
	l.gap = max(l.gap, time.Duration(got.GapNS))
}

// quantile of the lags, by nearest rank; those unseen are the longest.
func (l *lags) quantile(q float64) (d time.Duration, atLeast bool) {
	slices.Sort(l.seen)
	n := len(l.seen) + l.unseen
	i := min(n-1, int(q*float64(n)))
	if i >= len(l.seen) {
		return l.limit, true
	}
	return l.seen[i], false
}

// resolution is the shortest lag that can be told from none: the way to the agent and back, and what two looks and a
// scheduler take.
func (t *try) resolution() time.Duration { return t.rtt + 3*time.Millisecond }

// sayLag answers a line with the median, and with the longest, of a hundred the 99th percentile, where it is another. A
// lag below what can be resolved is good, one of a tenth of a second or more is what developers notice.
func (t *try) sayLag(name string, l *lags, what string) {
	if len(l.seen)+l.unseen == 0 {
		return
	}
	resolution := t.resolution()
	write := func(q float64) (time.Duration, string) {
		d, more := l.quantile(q)
		switch {
		case more:
			return d, "more than " + duration(d)
		case d < resolution:
			return resolution, "below " + duration(resolution)
		}
		return d, duration(d)
	}
	middle, answer := write(0.5)
	worst, tail := write(0.99)
	n := len(l.seen) + l.unseen
	tail = tailName(n) + " " + tail
	detail := fmt.Sprintf("%s: p50 %s, %s, n=%d; true to %s", what, answer, tail, n, duration(max(t.rtt, l.gap)))
	if worst > 2*middle {
		answer += ", " + tail
	}
	rating := neutral
	switch {
	case l.unseen > 0 && l.limit < l.full: // it may be a little more than the wait, or never
	case worst >= 100*time.Millisecond:
		rating = bad
	case middle <= max(resolution, 10*time.Millisecond):
		rating = good
	}
	t.sayTime(name, middle, answer, rating, "%s", detail)
}

// tailName is the name of the 99th percentile by nearest rank among n values.
func tailName(n int) string {
	if n < 100 {
		return "max"
	}
	return "p99"
}

// tryLags measures how long the watcher's side goes on seeing what was, after the changer made, changed and deleted a
// file.
func tryLags(t *try, changer, watcher *actor, suffix string) {
	limit := t.patience(longestLag, 3)
	if t.err() != nil {
		return
	}
	create, modify, remove := &lags{limit: limit, full: longestLag}, &lags{limit: limit, full: longestLag},
		&lags{limit: limit, full: longestLag}
	round := time.Duration(0)
	for i := range lagRepeats {
		// Another round only if there is time for it: a round that is cut off says nothing.
		if i > 0 && round*3/2 > t.left() {
			break
		}
		turn := time.Now()
		name := []byte(fmt.Sprintf("lag%s-%d", suffix, i))
		t.lag(create, watcher, changer, fileops.Request{Name: name, Until: fileops.UntilThere},
			func() { changer.put(string(name), "old") })
		t.pause(tick)
		t.lag(modify, watcher, changer, fileops.Request{Name: name, Until: fileops.UntilData, Data: []byte("new")},
			func() { changer.put(string(name), "new") })
		t.lag(remove, watcher, changer, fileops.Request{Name: name, Until: fileops.UntilGone},
			func() { changer.do(fileops.Request{Op: fileops.Remove, Name: name}) })
		round = time.Since(turn)
	}
	t.sayLag("lag-create"+suffix, create, "a name that was looked for before it was there")
	t.sayLag("lag-modify"+suffix, modify, "a file of the same size, opened and read at each look")
	t.sayLag("lag-delete"+suffix, remove, "a name that was looked at while it was there")
}

// attrRepeats is how often the life of attributes is measured.
const attrRepeats = 4

// tryAttributes asks for a file's size inside, so that it may be kept there, lets the host change it, and looks until
// the new one shows. Looking does not lengthen the life of what is kept; the time between the first look and the change
// would shorten what is seen of it, and is added.
func tryAttributes(t *try) {
	l := &lags{limit: longestAttr, full: longestAttr}
	round := time.Duration(0)
	t.in.put("attributes-age", "")
	t.settle(t.out, "attributes-age")
	size := int64(0)
	for i := range attrRepeats {
		left := t.left()
		if i > 0 && round*3/2 > left {
			break
		}
		if i == 0 {
			if l.limit = t.patience(longestAttr, 1); t.err() != nil {
				return
			}
		}
		turn := time.Now()
		size++
		t.in.stat("attributes-age")
		asked := time.Now()
		var changed time.Time
		before := len(l.seen)
		t.lag(l, t.in, t.out, fileops.Request{Name: []byte("attributes-age"), Until: fileops.UntilSize, Size: size},
			func() {
				changed = time.Now()
				t.out.do(fileops.Request{Op: fileops.Put, Name: []byte("attributes-age"), Data: []byte("x"),
					Flags: fileops.Append})
			})
		if len(l.seen) > before && l.seen[before] > t.resolution() {
			l.seen[before] += changed.Sub(asked)
		}
		round = time.Since(turn)
	}
	t.sayLag("attr-cache", l, "a file's status, requested again and again after the host had appended to it")
}
