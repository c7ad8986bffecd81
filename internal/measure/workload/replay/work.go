package replay

import (
	"fmt"
	"io"
	"math/bits"

	"tare/internal/sys/sql/trace"
)

// job is a session of a trial's work, and what was measured of it as a whole. A lane writes to the jobs that it took.
type job struct {
	session int   // of the trace
	place   int64 // of its first statement among all of the trial
	round   int64 // how often the trace was replayed before
	connect int64 // ns that its connection took; 0 if it used another one's
	turns   []turn
}

// work is what a trial does: the sessions of so many shards of a trace.
type work struct {
	trace  *trace.Trace
	shards []trace.Shard // in the order in which work takes them
	jobs   []job
	// statements is their number, and executions by fingerprint.
	statements int64
	executions []int64
	gaps       gaps
	lanes      int   // that it needs at least
	turns      int64 // transactions whose order is kept
}

// newWork makes the work of so many units: shards, or the whole trace. Shards are taken in the order of the log if its
// times or the order of its transactions are kept, else in one that spreads over the log, so that few shards are like
// all of them. It reads the sessions, so that a damaged trace is found now, and is in the page cache when the replay
// reads it.
func newWork(t *trace.Trace, units int64, o *Options) (*work, error) {
	w := &work{trace: t, shards: t.Shards(), executions: make([]int64, len(t.Fingerprints()))}
	if len(w.shards) == 0 {
		return nil, o.Failed("the log has no session that can be replayed: tare sql inspect LOG says why")
	}
	if !o.Paced() && !o.Whole && !o.Ordered {
		w.shards = spread(w.shards)
	}
	if o.Whole {
		units *= int64(len(w.shards))
	}
	if w.statements = w.upTo(units); w.statements == 0 {
		return nil, o.Failed("the log has no statement that can be replayed: tare sql inspect LOG says why")
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
	if err := w.survey(); err != nil {
		return nil, err
	}
	if o.Ordered {
		w.order()
	}
	return w, nil
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

// survey reads each session once.
func (w *work) survey() error {
	var c trace.Cursor
	var e trace.Event
	var place int64
	for i := range w.jobs {
		j := &w.jobs[i]
		j.place = place
		place += w.trace.Info(j.session).Statements
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
		if n != w.trace.Info(j.session).Statements {
			return fmt.Errorf("read the trace: session %d has %d statements instead of %d", j.session, n,
				w.trace.Info(j.session).Statements)
		}
	}
	return nil
}
