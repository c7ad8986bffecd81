package network

import (
	"context"
	"errors"

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
	threads  int             // at each end

	ends
	team     *thread.Team
	groups   []*netpeer.Together // of each thread; none, if each connection has its own
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
	return &streams{up: up, down: down, conns: make([]*netpeer.Conn, n), size: int(p.Int("block")),
		threads: min(n, int(p.Int("threads")))}, nil
}

// receives tells whether the environment receives on the i-th connection.
func (t *streams) receives(i int) bool { return t.down && (!t.up || i >= len(t.conns)/2) }

func (t *streams) Setup(ctx context.Context, b *workload.Bench) (err error) {
	senders := 0
	for senders < len(t.conns) && !t.receives(senders) {
		senders++
	}
	t.receipts = make([]netpeer.Receipt, len(t.conns))
	if t.threads < len(t.conns) {
		err = t.gather(ctx, b, senders)
	} else if err = t.connect(ctx, b, t.conns[:senders], netpeer.Up, t.size); err == nil {
		err = t.connect(ctx, b, t.conns[senders:], netpeer.Down, t.size)
		for i := range t.conns {
			block := make([]byte, t.size)
			netpeer.Fill(block, b.Seed+uint64(i)) // written to, so that its pages are resident
			t.blocks = append(t.blocks, block)
		}
	}
	if err != nil {
		return err
	}
	t.undo = thread.Room(t.threads)
	if t.threads > 1 {
		if t.team, err = thread.Start(t.threads, false); err != nil {
			return err
		}
	}
	return t.open(b)
}

// gather makes the connections of threads that serve several: the g-th serves every t.threads-th one from there on.
func (t *streams) gather(ctx context.Context, b *workload.Bench, senders int) error {
	d, err := netpeer.NewDialer(b.Peer.Address, b.Peer.Token, netpeer.Up, t.size)
	if err != nil {
		return err
	}
	for g := range t.threads {
		up, down := 0, 0
		for i := g; i < len(t.conns); i += t.threads {
			if i < senders {
				up++
			} else {
				down++
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		group, err := d.Together(up, down)
		t.groups = append(t.groups, group)
		if err != nil {
			return err
		}
		for k, c := range group.Conns {
			t.conns[g+k*t.threads] = c
		}
	}
	return nil
}

// move has a thread do its part when the streams move so many bytes together: for each stream that it serves an equal
// share.
func (t *streams) move(i int, bytes int64) (err error) {
	n := len(t.conns)
	if t.groups != nil {
		g := t.groups[i]
		var up, down int64
		for k := range g.Conns {
			if part := share(bytes, i+k*t.threads, n); t.receives(i + k*t.threads) {
				down += part
			} else {
				up += part
			}
		}
		if err = g.Move(up, down); err != nil {
			return err
		}
		for k, r := range g.Receipts {
			t.receipts[i+k*t.threads] = r
		}
		return nil
	}
	if bytes = share(bytes, i, n); t.receives(i) {
		t.receipts[i], err = t.conns[i].Down(t.blocks[i], bytes)
	} else {
		t.receipts[i], err = t.conns[i].Up(t.blocks[i], bytes)
	}
	return err
}

func (t *streams) Measure(_ context.Context, b *workload.Bench) error {
	t.begin()
	defer t.end()
	return each(t.team, t.threads, func(g int) error { return t.move(g, b.Work<<20) })
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
	var errs []error
	for _, g := range t.groups {
		errs = append(errs, g.Close())
	}
	return errors.Join(append(errs, t.close())...)
}
