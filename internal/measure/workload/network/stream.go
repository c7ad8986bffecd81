package network

import (
	"context"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// streams is a trial of net.stream with the run's peer.
type streams struct {
	up, down bool
	size     int
	conns    []*netpeer.Conn // those that send come first

	ends
	team     *thread.Team
	blocks   [][]byte
	receipts []netpeer.Receipt
	undo     func() // of the room made for them
}

func newStreams(p workload.Params) (workload.Trial, error) {
	up, down, n := p["direction"] != "down", p["direction"] != "up", int(p.Int("streams"))
	if p["server"] != "" {
		return newForeign(p, up, down)
	}
	if up && down {
		n *= 2
	}
	return &streams{up: up, down: down, conns: make([]*netpeer.Conn, n), size: int(p.Int("block"))}, nil
}

// receives tells whether the environment receives on the i-th connection.
func (t *streams) receives(i int) bool { return t.down && (!t.up || i >= len(t.conns)/2) }

func (t *streams) Setup(ctx context.Context, b *workload.Bench) (err error) {
	senders := 0
	for senders < len(t.conns) && !t.receives(senders) {
		senders++
	}
	if err := t.connect(ctx, b, t.conns[:senders], netpeer.Up, t.size); err != nil {
		return err
	}
	if err := t.connect(ctx, b, t.conns[senders:], netpeer.Down, t.size); err != nil {
		return err
	}
	t.undo = thread.Room(len(t.conns))
	t.receipts = make([]netpeer.Receipt, len(t.conns))
	for i := range t.conns {
		block := make([]byte, t.size)
		netpeer.Fill(block, b.Seed+uint64(i)) // written to, so that its pages are resident
		t.blocks = append(t.blocks, block)
	}
	if len(t.conns) > 1 {
		if t.team, err = thread.Start(len(t.conns), false); err != nil {
			return err
		}
	}
	return t.open(b)
}

func (t *streams) Measure(_ context.Context, b *workload.Bench) error {
	t.begin()
	defer t.end()
	return each(t.team, len(t.conns), func(i int) (err error) {
		bytes := share(b.Work<<20, i, len(t.conns))
		if t.receives(i) {
			t.receipts[i], err = t.conns[i].Down(t.blocks[i], bytes)
		} else {
			t.receipts[i], err = t.conns[i].Up(t.blocks[i], bytes)
		}
		return err
	})
}

func (t *streams) Report(b *workload.Bench) error {
	if err := t.report(b, perGiB); err != nil {
		return err
	}
	sum, known := sock.Info{}, true
	for i, r := range t.receipts {
		info, ok := r.Info, r.Info.Resent >= 0
		if !t.receives(i) {
			info, ok = t.conns[i].Info()
		}
		sum.Resent, sum.RTT, sum.Window = sum.Resent+info.Resent, sum.RTT+info.RTT, sum.Window+info.Window
		known = known && ok
	}
	reportInfo(b, sum, int64(len(t.conns)), known)
	b.Report("throughput", b.Rate(1))
	return nil
}

func (t *streams) Cleanup(*workload.Bench) error {
	if t.team != nil {
		t.team.Close()
	}
	if t.undo != nil {
		t.undo()
	}
	return t.close()
}
