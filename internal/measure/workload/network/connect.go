package network

import (
	"context"
	"fmt"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
)

// connections is a trial of net.connect.
type connections struct {
	ends
	dialer *netpeer.Dialer
}

func (t *connections) Setup(_ context.Context, b *workload.Bench) (err error) {
	if t.dialer, err = netpeer.NewDialer(b.Peer.Address, b.Peer.Token, netpeer.Touch, 0); err != nil {
		return err
	}
	return t.open(b)
}

func (t *connections) Measure(_ context.Context, b *workload.Bench) error {
	t.begin()
	defer t.end()
	for i := range b.Work {
		if err := t.dialer.Touch(); err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, b.Work, err)
		}
	}
	return nil
}

func (t *connections) Report(b *workload.Bench) error {
	if err := t.report(b, perConnection); err != nil {
		return err
	}
	b.Report("connections_per_second", b.Rate(1))
	return nil
}

func (t *connections) Cleanup(*workload.Bench) error { return t.close() }
