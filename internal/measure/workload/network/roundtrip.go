package network

import (
	"context"
	"fmt"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/sys/histogram"
	"tare/internal/sys/thread"
)

// roundTrips is a trial of net.rr.
type roundTrips struct {
	size  int
	conns []*netpeer.Conn

	ends
	team  *thread.Team
	lanes []lane
}

// lane has the buffers and times of one connection.
type lane struct {
	message, answer []byte
	times           histogram.Histogram
}

func (t *roundTrips) Setup(ctx context.Context, b *workload.Bench) (err error) {
	if err := t.connect(ctx, b, t.conns, netpeer.Echo, t.size); err != nil {
		return err
	}
	t.lanes = make([]lane, len(t.conns))
	for i := range t.lanes {
		l := &t.lanes[i]
		l.message, l.answer = make([]byte, t.size), make([]byte, t.size)
		netpeer.Fill(l.message, b.Seed+uint64(i))
		l.times.Reset() // make its pages resident
	}
	if len(t.conns) > 1 {
		if t.team, err = thread.Start(len(t.conns), false); err != nil {
			return err
		}
	}
	return t.open(b)
}

func (t *roundTrips) Measure(_ context.Context, b *workload.Bench) error {
	t.begin()
	defer t.end()
	began := time.Now()
	return each(t.team, len(t.conns), func(i int) error {
		if n := share(b.Work, i, len(t.conns)); n > 0 {
			return t.lanes[i].run(t.conns[i], n, began)
		}
		return nil
	})
}

// run makes n round trips. began is an earlier point in time.
func (l *lane) run(c *netpeer.Conn, n int64, began time.Time) error {
	if err := c.Ask(n); err != nil {
		return err
	}
	last := time.Since(began)
	for i := range n {
		l.message[0] = byte(i)
		if err := c.Write(l.message); err != nil {
			return err
		}
		if err := c.Read(l.answer); err != nil {
			return err
		}
		if l.answer[0] != byte(i) {
			return fmt.Errorf("round trip %d: the returned message begins with %#x, not with %#x",
				i+1, l.answer[0], byte(i))
		}
		now := time.Since(began)
		l.times.Record(int64(now - last))
		last = now
	}
	return nil
}

func (t *roundTrips) Report(b *workload.Bench) error {
	if err := t.report(b, perRoundTrip); err != nil {
		return err
	}
	var all histogram.Histogram
	for i := range t.lanes {
		all.Merge(&t.lanes[i].times)
	}
	b.Report("round_trips_per_second", b.Rate(1))
	for name, q := range map[string]float64{"latency_p50": 0.5, "latency_p90": 0.9, "latency_p99": 0.99} {
		b.Report(name, float64(all.Quantile(q)))
	}
	b.Report("latency_max", float64(all.Max()))
	b.Pool("latency_", &all)
	return nil
}

func (t *roundTrips) Cleanup(*workload.Bench) error {
	if t.team != nil {
		t.team.Close()
	}
	return t.close()
}
