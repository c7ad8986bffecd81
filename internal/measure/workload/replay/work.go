package replay

import (
	"fmt"
	"io"
	"math/bits"

	"tare/internal/sys/sql/trace"
	"tare/internal/unit"
)

// job is a session of a trial's work, and what was measured of it as a whole. A lane writes to the jobs that it took.
type job struct {
	session int   // of the trace
	place   int64 // of its first statement among all of the trial
	round   int64 // how often the trace was replayed before
	connect int64 // ns that its connection took; 0 if it used another one's
	turns   []turn
	away    bool // another host does it
}

// work is the work of a trial: the sessions of so many shards of a trace.
type work struct {
	trace  *trace.Trace
	shards []trace.Shard // in the order in which work takes them
	jobs   []job         // of this host
	// statements is the number of this host's, all that of all hosts that do the work together.
	statements, all int64
	// The next fields are of all hosts: executions by fingerprint, and when the first session begins in the log and the
	// last one ends.
	executions  []int64
	first, last int64
	gaps        gaps
	lanes       int   // that it needs at least
	turns       int64 // transactions whose order is kept
}

// newWork makes the work of so many units: shards, or the whole trace. Shards are taken in the order of the log if its
// times or the order of its transactions are kept, else in one that spreads over the log, so that few shards are like
// all of them. It reads the sessions, so that a damaged trace is found now, and is in the page cache when the replay
// reads it.
func newWork(t *trace.Trace, units int64, o *Options) (*work, error) {
	w := &work{trace: t, shards: t.Shards(), executions: make([]int64, len(t.Fingerprints()))}
	if len(w.shards) == 0 {
		return nil, o.Failed("the log has no session that can be replayed: see tare sql inspect or tare http inspect")
	}
	if !o.Paced() && !o.Whole && !o.Ordered {
		w.shards = spread(w.shards)
	}
	if o.Whole {
		units *= int64(len(w.shards))
	}
	if w.all = w.upTo(units); w.all == 0 {
		return nil, o.Failed("the log has no statement that can be replayed: see tare sql inspect or tare http inspect")
	}
	if o.Idle > 0 {
		w.gaps = newGaps(t.Meta().Span, o.Idle.Microseconds())
	}
	for n := range units {
		s := w.shards[n%int64(len(w.shards))]
		for i := range s.Sessions {
			w.jobs = append(w.jobs, job{session: s.First + i, round: n / int64(len(w.shards))})
		}
	}
	w.divide(o)
	if err := w.survey(); err != nil {
		return nil, err
	}
	if w.statements == 0 {
		f := o.Failed("%s cannot be divided among %d hosts, which replay whole sessions: use longer trials, or "+
			"fewer hosts", unit.Plural(int64(min(len(w.jobs), t.Sessions())), "session"), len(o.Parts))
		if f.Kind = TooFew; units >= int64(len(w.shards)) { // longer ones have no other sessions
			f.Kind = "refused"
		}
		return nil, f
	}
	all := w.jobs
	w.jobs = w.jobs[:0]
	for i := range all {
		if !all[i].away {
			w.jobs = append(w.jobs, all[i])
		}
	}
	if o.Ordered {
		w.order()
	}
	return w, nil
}

// TooFew is the kind of failure of a trial that has less sessions than there are hosts to do it.
const TooFew = "load-too-few"

// divide leaves to the other hosts what is theirs. A session is done by the one that has least of its share so far,
// counted in statements, so that all are at work in every part of the log. That depends on nothing but the sessions and
// the shares, and where the log begins again, it is done in the same way.
func (w *work) divide(o *Options) {
	if len(o.Parts) == 0 {
		return
	}
	done, once := make([]float64, len(o.Parts)), 0 // once: jobs of the first round
	for i := range w.jobs {
		j := &w.jobs[i]
		if j.round > 0 {
			j.away = w.jobs[i-once].away
			continue
		}
		once++
		to := 0
		for k := range done {
			if done[k]/float64(o.Parts[k]) < done[to]/float64(o.Parts[to]) {
				to = k
			}
		}
		done[to] += float64(1 + w.trace.Info(j.session).Statements)
		j.away = to != o.Part
	}
}

// upTo returns the number of statements of so many shards.
func (w *work) upTo(shards int64) (n int64) {
	whole := shards / int64(len(w.shards))
	for i, s := range w.shards {
		times := whole
		if int64(i) < shards%int64(len(w.shards)) {
			times++
		}
		n += times * s.Statements
	}
	return n
}

// spread puts shards into the order of the van der Corput sequence: each next one is far from those before it.
func spread(shards []trace.Shard) (all []trace.Shard) {
	size := bits.Len(uint(len(shards) - 1))
	for i := range 1 << size {
		if k := int(bits.Reverse64(uint64(i)) >> (64 - size)); k < len(shards) {
			all = append(all, shards[k])
		}
	}
	return all
}

// survey reads each session once, also those of other hosts: what is told apart is the same for all of them.
func (w *work) survey() error {
	var c trace.Cursor
	var e trace.Event
	w.first = w.trace.Info(w.jobs[0].session).Start
	for i := range w.jobs {
		j := &w.jobs[i]
		s := w.trace.Info(j.session)
		w.first, w.last = min(w.first, s.Start), max(w.last, s.End)
		if j.place = w.statements; !j.away {
			w.statements += s.Statements
		}
		if j.round > 0 {
			continue // it was read in the first round
		}
		c.Reset(w.trace, j.session)
		var n int64
		for {
			err := c.Next(&e)
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			w.gaps.see(e.At)
			if e.Op.Statement() {
				w.executions[e.Fingerprint]++
				n++
			}
		}
		if n != s.Statements {
			return fmt.Errorf("read the trace: session %d has %d statements instead of %d", j.session, n, s.Statements)
		}
	}
	return nil
}
