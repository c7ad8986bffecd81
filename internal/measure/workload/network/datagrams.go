package network

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// datagrams is a trial of net.udp with the run's peer.
type datagrams struct {
	up, down bool
	size     int
	gap      time.Duration

	ends
	flows []*netpeer.Flow // those that send come first
	got   []sock.Arrivals
	team  *thread.Team
	undo  func()
}

func newDatagrams(p workload.Params) (workload.Trial, error) {
	up, down, n := p["direction"] != "down", p["direction"] != "up", int(p.Int("streams"))
	if p["server"] != "" {
		return newForeign(p, up, down)
	}
	if up && down {
		n *= 2
	}
	return &datagrams{up: up, down: down, size: int(p.Int("size")), gap: gap(p),
		flows: make([]*netpeer.Flow, n), got: make([]sock.Arrivals, n)}, nil
}

// gap is the time between two datagrams of a stream.
func gap(p workload.Params) time.Duration {
	if rate := p.Int("rate"); rate > 0 {
		return time.Second / time.Duration(rate)
	}
	return 0
}

// receives tells whether the environment receives the i-th stream.
func (t *datagrams) receives(i int) bool { return t.down && (!t.up || i >= len(t.flows)/2) }

func (t *datagrams) Setup(ctx context.Context, b *workload.Bench) error {
	d, err := netpeer.NewDialer(b.Peer.Address, b.Peer.Token, netpeer.Datagrams, t.size)
	if err != nil {
		return err
	}
	for i := range t.flows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if t.flows[i], err = d.Flow(); err != nil {
			return fmt.Errorf("stream %d of %d: %w", i+1, len(t.flows), err)
		}
	}
	t.undo = thread.Room(len(t.flows))
	if len(t.flows) > 1 {
		if t.team, err = thread.Start(len(t.flows), false); err != nil {
			return err
		}
	}
	return t.open(b)
}

func (t *datagrams) Measure(_ context.Context, b *workload.Bench) error {
	t.begin()
	defer t.end()
	return each(t.team, len(t.flows), func(i int) (err error) {
		n := share(b.Work, i, len(t.flows))
		switch {
		case n == 0: // fewer datagrams than streams
		case t.receives(i):
			t.got[i], err = t.flows[i].Down(n, t.gap)
		default:
			t.got[i], err = t.flows[i].Up(n, t.gap)
		}
		return err
	})
}

func (t *datagrams) Report(b *workload.Bench) error {
	if err := t.report(b, perDatagram); err != nil {
		return err
	}
	var received, late int64
	jitter, receivers := 0.0, 0.0
	for _, a := range t.got {
		received, late = received+a.Received, late+a.Late
		if a.Received > 1 { // jitter is of differences
			jitter, receivers = jitter+a.Jitter, receivers+1
		}
	}
	reportDatagrams(b, received, b.Work, late, jitter/max(receivers, 1), t.gap > 0)
	return nil
}

// reportDatagrams reports what was received of so many datagrams.
func reportDatagrams(b *workload.Bench, received, sent, late int64, jitter float64, paced bool) {
	if !paced {
		b.Report("datagrams_per_second", float64(received)/b.Elapsed.Seconds())
	}
	b.Report("jitter", jitter)
	b.Report("arrived", 100*float64(min(received, sent))/float64(max(sent, 1)))
	b.Note("lost", strconv.FormatInt(max(sent-received, 0), 10))
	if late >= 0 { // an iperf3 server does not tell
		b.Note("reordered", strconv.FormatInt(late, 10))
		b.Report("in_order", 100*float64(max(received-late, 0))/float64(max(received, 1)))
	}
}

func (t *datagrams) Cleanup(*workload.Bench) error {
	if t.team != nil {
		t.team.Close()
	}
	if t.undo != nil {
		t.undo()
	}
	for _, f := range t.flows {
		if f != nil {
			f.Close()
		}
	}
	return t.close()
}
