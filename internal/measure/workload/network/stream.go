package network

import (
	"context"
	"strconv"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/sys/thread"
)

// streams is a trial of net.stream.
type streams struct {
	down  bool
	size  int
	conns []*netpeer.Conn

	ends
	team     *thread.Team
	blocks   [][]byte
	receipts []netpeer.Receipt
	undo     func() // of the room made for them
}

func (t *streams) Setup(ctx context.Context, b *workload.Bench) (err error) {
	op := netpeer.Up
	if t.down {
		op = netpeer.Down
	}
	if err := t.connect(ctx, b, t.conns, op, t.size); err != nil {
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
		if t.down {
			t.receipts[i], err = t.conns[i].Down(t.blocks[i], bytes)
		} else {
			t.receipts[i], err = t.conns[i].Up(t.blocks[i], bytes)
		}
		return err
	})
}

func (t *streams) Report(b *workload.Bench) error {
	resent, known := int64(0), true
	for i, r := range t.receipts {
		n := r.Retransmits
		if !t.down {
			n = t.conns[i].Retransmits()
		}
		resent, known = resent+n, known && n >= 0
	}
	if known {
		b.Note("retransmits", strconv.FormatInt(resent, 10))
	}
	b.Report("throughput", b.Rate(1))
	return t.report(b, perGiB)
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
