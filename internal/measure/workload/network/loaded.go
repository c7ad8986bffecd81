package network

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/sys/histogram"
)

// Bounds of the load of net.loaded. A stream's bytes are asked for in parts, each of which takes this long at least, so
// that the streams end soon after the round trips and the pauses between parts do not count.
const (
	leastPart = 1 << 20
	mostPart  = 1 << 30
	partTime  = 200 * time.Millisecond
	// warming is how long the streams run before the first round trip under load: queues fill and windows open.
	warming = 300 * time.Millisecond
)

// loaded is a trial of net.loaded.
type loaded struct {
	streams     // its connections are the load
	size        int
	echo        [1]*netpeer.Conn
	quiet, busy lane
	stop        atomic.Bool
	moved       atomic.Int64
	took        time.Duration // that the streams ran
}

func newLoaded(p workload.Params) (workload.Trial, error) {
	p = workload.Params{"direction": p["direction"], "streams": p["streams"], "block": "128KiB", "size": p["size"]}
	s, err := newStreams(p)
	if err != nil {
		return nil, err
	}
	return &loaded{streams: *s.(*streams), size: int(p.Int("size"))}, nil
}

func (t *loaded) Setup(ctx context.Context, b *workload.Bench) error {
	if err := t.connect(ctx, b, t.echo[:], netpeer.Echo, t.size); err != nil {
		return err
	}
	for _, l := range []*lane{&t.quiet, &t.busy} {
		l.message, l.answer = make([]byte, t.size), make([]byte, t.size)
		netpeer.Fill(l.message, b.Seed)
		l.times.Reset() // make its pages resident
	}
	return t.streams.Setup(ctx, b)
}

// Measure makes the round trips twice: with nothing else on the network, and while the streams run.
func (t *loaded) Measure(_ context.Context, b *workload.Bench) error {
	t.begin()
	defer t.end()
	if err := t.quiet.run(t.echo[0], b.Work, time.Now()); err != nil {
		return err
	}
	load := make(chan error, 1)
	began := time.Now()
	go func() { load <- each(t.team, len(t.conns), t.run) }()
	time.Sleep(warming)
	err := t.busy.run(t.echo[0], b.Work, time.Now())
	t.stop.Store(true)
	if e := <-load; e != nil {
		return fmt.Errorf("the streams: %w", e)
	}
	t.took = time.Since(began)
	return err
}

// run is one stream until the end of the round trips.
func (t *loaded) run(i int) error {
	part := int64(leastPart)
	for !t.stop.Load() {
		began := time.Now()
		var err error
		if t.receives(i) {
			_, err = t.conns[i].Down(t.blocks[i], part)
		} else {
			_, err = t.conns[i].Up(t.blocks[i], part)
		}
		if err != nil {
			return err
		}
		t.moved.Add(part)
		if time.Since(began) < partTime && part < mostPart {
			part *= 2
		}
	}
	return nil
}

func (t *loaded) Report(b *workload.Bench) error {
	if err := t.report(b, perRoundTrip); err != nil {
		return err
	}
	quantiles := func(prefix string, h *histogram.Histogram) {
		for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99} {
			b.Report(prefix+name, float64(h.Quantile(q)))
		}
	}
	quantiles("idle_", &t.quiet.times)
	quantiles("latency_", &t.busy.times)
	b.Report("latency_max", float64(t.busy.times.Max()))
	for name, q := range map[string]float64{"over_idle_p50": 0.5, "over_idle_p99": 0.99} {
		if idle := t.quiet.times.Quantile(q); idle > 0 {
			b.Report(name, float64(t.busy.times.Quantile(q))/float64(idle))
		}
	}
	b.Report("load", float64(t.moved.Load())/(1<<20)/max(t.took.Seconds(), 1e-9))
	return nil
}
