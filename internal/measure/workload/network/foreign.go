package network

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"tare/internal/measure/workload"
	"tare/internal/sys/iperf3"
	"tare/internal/sys/thread"
)

// foreign is a trial whose other end is an iperf3 server.
type foreign struct {
	test iperf3.Test

	ends
	server *iperf3.Client
	team   *thread.Team
	undo   func()
}

func newForeign(p workload.Params, up, down bool) (workload.Trial, error) {
	if err := oneEnd(p); err != nil {
		return nil, err
	}
	t := iperf3.Test{Server: p["server"], Up: up, Down: down, Streams: int(p.Int("streams"))}
	if _, datagrams := p["size"]; datagrams {
		t.UDP, t.Block, t.Gap = true, int(p.Int("size")), gap(p)
	} else {
		t.Block, t.Threads = int(p.Int("block")), int(p.Int("threads"))
		if t.Block > iperf3.MaxBlock {
			return nil, fmt.Errorf("block=%s: iperf3 takes blocks of at most 1MiB", p["block"])
		}
	}
	return &foreign{test: t}, nil
}

func (t *foreign) Setup(_ context.Context, b *workload.Bench) (err error) {
	t.test.Amount = b.Work
	if !t.test.UDP {
		t.test.Amount <<= 20
	}
	if t.server, err = iperf3.Open(t.test); err != nil {
		return err
	}
	n := t.server.Threads()
	t.undo = thread.Room(n)
	if n > 1 {
		t.team, err = thread.Start(n, false)
	}
	return err
}

func (t *foreign) Measure(context.Context, *workload.Bench) error {
	t.begin()
	defer t.end()
	return t.server.Explain(each(t.team, t.server.Threads(), func(i int) error {
		defer thread.Quiet()()
		return t.server.Move(i)
	}))
}

func (t *foreign) Report(b *workload.Bench) error {
	info, known := t.server.Info()
	o, err := t.server.Finish(max(t.client, 0))
	if err != nil {
		return err
	}
	if t.test.UDP {
		reportDatagrams(b, o.Received, o.Sent, o.Late, o.Jitter, t.test.Gap > 0)
		t.reportWith(b, perDatagram, o.ServerCPU, 1)
		return nil
	}
	b.Report("throughput", b.Rate(1))
	reportInfo(b, info, 1, known)
	if o.Retransmits >= 0 {
		b.Note("retransmits", strconv.FormatInt(o.Retransmits, 10))
	}
	t.reportWith(b, perGiB, o.ServerCPU, 1)
	return nil
}

func (t *foreign) Cleanup(*workload.Bench) error {
	if t.team != nil {
		t.team.Close()
	}
	if t.undo != nil {
		t.undo()
	}
	if t.server == nil {
		return nil
	}
	return t.server.Close()
}

// oneEnd refuses two other ends.
func oneEnd(p workload.Params) error {
	if p[workload.ToParam] != "" {
		return errors.New("server= and to= both name the other end: leave one of them out")
	}
	return nil
}
