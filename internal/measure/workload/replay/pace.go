package replay

import (
	"fmt"
	"sort"
	"strconv"
	"time"

	"tare/internal/sys/histogram"
	"tare/internal/sys/sql/trace"
)

// The words for a pace. A number is how many times as fast as the log.
const (
	PaceFlat     = "flat"     // as fast as the server answers
	PaceOriginal = "original" // as in the log
)

// ParsePace returns a pace in seconds of the log per second, 0 for flat.
func ParsePace(name, text string) (float64, error) {
	switch text {
	case PaceFlat:
		return 0, nil
	case PaceOriginal:
		return 1, nil
	}
	const most = 1e6
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 1/most && f <= most) {
		return 0, fmt.Errorf("%s: %q is not %s, %s or a factor such as 2.0, which is twice as fast", name, text,
			PaceFlat, PaceOriginal)
	}
	return f, nil
}

// pacing computes the times at which sessions and statements are due. Times of the log are in microseconds, due times
// in ns since the beginning of the replay.
type pacing struct {
	trace          *trace.Trace
	think, connect float64 // the pace within sessions, and before them
	gaps           []gap
	origin, span   int64 // of the work, by the axis
}

// axis is a time of the log without the parts that are cut out.
func (p *pacing) axis(at int64) int64 {
	n := sort.Search(len(p.gaps), func(i int) bool { return p.gaps[i].end > at })
	if n == 0 {
		return at
	}
	return at - p.gaps[n-1].cut
}

// session returns when a session is due; ok is false if it is when a lane is free.
func (p *pacing) session(j *job) (due int64, ok bool) {
	start := p.trace.Info(j.session).Start
	if p.connect == 0 || start < 0 {
		return 0, false
	}
	return scaled(p.axis(start)-p.origin+j.round*p.span, p.connect), true
}

// statement returns when an event is due in a session that began at begun; ok is false if it is at once.
func (p *pacing) statement(j *job, begun, at int64) (due int64, ok bool) {
	if p.think == 0 || at < 0 {
		return 0, false
	}
	return begun + scaled(p.axis(at)-p.axis(p.trace.Info(j.session).Start), p.think), true
}

func scaled(us int64, pace float64) int64 { return int64(float64(us) * 1000 / pace) }

// gap is a part of the log in which no session does anything, and which is longer than it is to be.
type gap struct {
	end int64 // the first event behind it
	cut int64 // the time that is cut out in all, up to there
}

// gaps finds the parts of a log in which nothing happens, from events in any order. It divides the log into parts that
// are as long as the shortest such gap, so that a gap is always between two parts.
type gaps struct {
	longest     int64 // that a gap may be
	width       int64 // of a part; 0 to find nothing
	first, last []int64
}

// maxParts bounds the memory: a gap that is shorter than this part of the log may not be found.
const maxParts = 1 << 20

func newGaps(span, longest int64) gaps {
	g := gaps{longest: longest, width: max(longest, span/maxParts, 1)}
	n := span/g.width + 1
	g.first, g.last = make([]int64, n), make([]int64, n)
	for i := range g.first {
		g.first[i], g.last[i] = -1, -1
	}
	return g
}

func (g *gaps) see(at int64) {
	if g.width == 0 || at < 0 {
		return
	}
	i := min(at/g.width, int64(len(g.first))-1)
	if g.first[i] < 0 || at < g.first[i] {
		g.first[i] = at
	}
	g.last[i] = max(g.last[i], at)
}

func (g *gaps) found() (all []gap) {
	last, cut := int64(-1), int64(0)
	for i, first := range g.first {
		if first < 0 {
			continue
		}
		if last >= 0 && first-last > g.longest {
			cut += first - last - g.longest
			all = append(all, gap{first, cut})
		}
		last = g.last[i]
	}
	return all
}

// blame is the reason why something begins later than it is due.
type blame uint8

const (
	ofServer blame = iota // what came before in the session took longer than in the log
	ofLanes               // all lanes had a session
	ofClient              // it was waited for, and the wait was too long
	blames
)

func (b blame) String() string { return [...]string{"server", "lanes", "client"}[b] }

// timekeeper keeps a lane to the schedule.
type timekeeper struct {
	base  time.Time
	now   int64             // the last reading of the clock
	begun int64             // when the session should have begun
	late  int64             // how much of that it has not caught up
	lags  *histogram.Shared // of all lanes
	sums  [blames]int64     // of lags in ns, by reason
	quit  func() bool       // the trial is to stop
}

// clock reads the clock: ns since the replay began.
func (k *timekeeper) clock() int64 {
	k.now = int64(time.Since(k.base))
	return k.now
}

// nap bounds how long a lane does not notice that the trial is to stop.
const nap = 50 * time.Millisecond

// await waits until something is due, reads the clock, and returns how late it is. It returns false when the trial is
// to stop.
func (k *timekeeper) await(due int64) (lag int64, ok bool) {
	if k.now >= due {
		k.clock()
	}
	for k.now < due {
		sleep(min(time.Duration(due-k.now), nap))
		if k.clock(); k.quit() {
			return 0, false
		}
	}
	lag = k.now - due
	k.lags.Record(lag)
	return lag, true
}

// session waits for the beginning of a session. Without a schedule it begins now.
func (k *timekeeper) session(due int64, scheduled bool) bool {
	k.begun, k.late = k.clock(), 0
	if !scheduled {
		return true
	}
	why := ofClient
	if k.now > due {
		why = ofLanes
	}
	lag, ok := k.await(due)
	k.sums[why] += lag
	k.begun, k.late = due, lag
	return ok
}

// event waits for an event within a session. Of what it is late, the session brings along what its last event was late
// because no lane was free; the rest came since.
func (k *timekeeper) event(due int64) bool {
	waits := k.now <= due
	lag, ok := k.await(due)
	k.late = min(k.late, lag)
	if waits {
		k.sums[ofClient] += lag
		return ok
	}
	k.sums[ofLanes] += k.late
	k.sums[ofServer] += lag - k.late
	return ok
}

// newPacing makes the schedule of a trial's work.
func newPacing(w *work, o *Options) pacing {
	p := pacing{trace: w.trace, think: o.Think, connect: o.Connect, gaps: w.gaps.found()}
	p.origin = p.axis(w.first)
	p.span = p.axis(w.last) - p.origin
	return p
}
