package fs

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/histogram"
)

// Report verifies the data and turns the time into figures.
func (t *rw) Report(b *workload.Bench) error {
	verify, wrong := t.verify, "the storage returned other data than was written"
	if t.existing != "" {
		verify, wrong = t.reread, "another program writes to the file, or the storage does not keep its data"
	}
	if err := verify(b); err != nil {
		return &record.Failure{Kind: "measure", Message: fmt.Sprintf("verify %s: %v; %s", t.files[0], err, wrong)}
	}
	b.Check("record_bytes", strconv.Itoa(t.bs))
	if t.direct {
		if share, err := fileio.Resident(t.files[0]); err == nil {
			b.Note("resident_after", fmt.Sprintf("%.1f%%", 100*share))
			if share > 0.05 {
				b.Warn("direct-was-cached", fmt.Sprintf("direct I/O was accepted, but %.0f %% of the file is in the "+
					"page cache: the file system buffers it", 100*share),
					"use a work directory on a file system with real direct I/O (ext4, xfs), or direct=no")
			}
		}
	}
	if t.engine == enginePsync {
		b.Note("file_table", map[bool]string{true: "private", false: "shared"}[t.lanes[0].private])
	}
	b.Report("ops_per_second", b.Rate(1))
	b.Report("mib_per_second", b.Rate(float64(t.bs)/(1<<20)))
	if len(t.lanes) > 1 {
		first, last := t.lanes[0].took, t.lanes[0].took
		for _, l := range t.lanes {
			first, last = min(first, l.took), max(last, l.took)
		}
		// How long the first thread to finish was idle: during this time fewer threads worked.
		b.Note("threads_apart", fmt.Sprintf("%.1f%%", 100*float64(last-first)/float64(b.Elapsed)))
	}
	if t.timed {
		t.latencies(b)
	}
	return nil
}

// latencies reports percentiles over all operations of all threads.
func (t *rw) latencies(b *workload.Bench) {
	var reads, writes, all histogram.Histogram
	for _, l := range t.lanes {
		reads.Merge(l.reads)
		writes.Merge(l.writes)
	}
	all.Merge(&reads)
	all.Merge(&writes)
	b.Note("clock_ns", fmt.Sprintf("%.1f", histogram.ClockCost()))
	b.Note("latencies", strconv.FormatUint(all.Count(), 10))
	us := func(ns int64) float64 { return float64(max(ns, 1)) / 1000 } // a coarse clock may show 0
	for _, q := range quantiles {
		b.Report(q.name, us(all.Quantile(q.q)))
		if t.mixed && q.split {
			b.Report("read_"+q.name, us(reads.Quantile(q.q)))
			b.Report("write_"+q.name, us(writes.Quantile(q.q)))
		}
	}
	if all.Count() < 10_000 {
		b.Warn("few-latencies", fmt.Sprintf("%d operations were timed: the 99.9th percentile is based on only %d of "+
			"them",
			all.Count(), all.Count()/1000),
			"use longer trials, smaller records or a larger file")
	}
}

// verify reads a sample of records again, untimed, and compares it with the expected content. Records that this trial
// wrote must have its generation: an older one means that a write was lost.
func (t *rw) verify(b *workload.Bench) error {
	complete := t.write && !t.mixed && t.content.Stamped() // every record of every lane was written
	for _, l := range t.lanes {
		complete = complete && l.done >= l.records
		if err := l.verifyRead(); err != nil {
			return fmt.Errorf("the last timed read: %w", err)
		}
	}
	sample := t.sample(b.Seed)
	for i, l := range t.lanes {
		if i > 0 && t.lanes[i-1].path == l.path || t.create && l.done == 0 {
			continue
		}
		for _, r := range sample {
			if err := l.fetch(r); err != nil {
				return err
			}
			if g := t.content.Generation(l.buf); complete && g < t.gen {
				return fmt.Errorf("record %d still has generation %d, from before this trial (%d): the write was lost",
					r, g, t.gen)
			}
			if err := t.content.Verify(l.buf, r); err != nil {
				return err
			}
		}
	}
	for _, l := range t.lanes {
		if err := l.verifyWrite(); err != nil {
			return err
		}
	}
	if t.create { // the file's length depends on the work, so only its beginning can be compared
		sample = sample[:1]
	} else {
		b.Check("file_bytes", strconv.FormatInt(t.size(), 10))
	}
	b.Check("data", t.content.Digest(sample))
	return nil
}

// fetch reads one record again, by a plain read with every engine.
func (l *lane) fetch(r int64) error {
	n, err := l.file.ReadAt(l.buf, r*int64(l.bs))
	if err != nil {
		return err
	}
	if n != l.bs {
		return fmt.Errorf("record %d has only %d of %d bytes", r, n, l.bs)
	}
	l.read = -1
	return nil
}

// verifyRead checks the data of the last reads: one record, or those of the ring's slots.
func (l *lane) verifyRead() error {
	if l.ring == nil {
		if l.read < 0 {
			return nil
		}
		return l.content.Verify(l.buf, l.read)
	}
	for s, o := range l.ring.slots {
		if o.record < 0 || o.write {
			continue
		}
		if err := l.content.Verify(l.ring.Buffer(s), o.record); err != nil {
			return err
		}
	}
	return nil
}

// verifyWrite looks for the lane's last write in the file.
func (l *lane) verifyWrite() error {
	if l.wrote < 0 || !l.content.Stamped() {
		return nil
	}
	if err := l.fetch(l.wrote); err != nil {
		return err
	}
	if got := l.content.Generation(l.buf); got != l.wgen {
		return fmt.Errorf("record %d was written in generation %d and still has generation %d: the write was lost",
			l.wrote, l.wgen, got)
	}
	return l.content.Verify(l.buf, l.wrote)
}

// sample chooses the records that are verified: the first, the last and up to 14 between, of the existing ones.
func (t *rw) sample(seed uint64) []int64 {
	n := t.records
	if t.create {
		for _, l := range t.lanes {
			if l.done > 0 {
				n = min(n, (l.done-1)%l.records+1)
			}
		}
	}
	s := []int64{0}
	g := rand.New(rand.NewPCG(seed, uint64(n)))
	for range min(14, n-2) {
		s = append(s, g.Int64N(n))
	}
	if n > 1 {
		s = append(s, n-1)
	}
	return s
}
