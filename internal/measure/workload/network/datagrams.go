package network

import (
	"context"
	"strconv"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// datagrams is a trial of net.udp with the run's peer.
type datagrams struct {
	down bool
	size int
	gap  time.Duration

	ends
	flow *netpeer.Flow
	got  sock.Arrivals
	undo func()
}

func newDatagrams(p workload.Params) (workload.Trial, error) {
	down := p["direction"] == "down"
	if p["server"] != "" {
		return newForeign(p, !down, down)
	}
	return &datagrams{down: down, size: int(p.Int("size")), gap: gap(p)}, nil
}

// gap is the time between two datagrams.
func gap(p workload.Params) time.Duration {
	if rate := p.Int("rate"); rate > 0 {
		return time.Second / time.Duration(rate)
	}
	return 0
}

func (t *datagrams) Setup(_ context.Context, b *workload.Bench) error {
	d, err := netpeer.NewDialer(b.Peer.Address, b.Peer.Token, netpeer.Datagrams, t.size)
	if err != nil {
		return err
	}
	if t.flow, err = d.Flow(); err != nil {
		return err
	}
	t.undo = thread.Room(1)
	return t.open(b)
}

func (t *datagrams) Measure(_ context.Context, b *workload.Bench) (err error) {
	t.begin()
	defer t.end()
	if t.down {
		t.got, err = t.flow.Down(b.Work, t.gap)
	} else {
		t.got, err = t.flow.Up(b.Work, t.gap)
	}
	return err
}

func (t *datagrams) Report(b *workload.Bench) error {
	if err := t.report(b, perDatagram); err != nil {
		return err
	}
	reportDatagrams(b, t.got.Received, b.Work, t.got.Late, t.got.Jitter, t.gap > 0)
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
	}
}

func (t *datagrams) Cleanup(*workload.Bench) error {
	if t.undo != nil {
		t.undo()
	}
	if t.flow != nil {
		t.flow.Close()
	}
	return t.close()
}
