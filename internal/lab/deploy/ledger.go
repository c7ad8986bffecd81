package deploy

import (
	"context"

	"tare/internal/measure/wire"
)

// Ledger tells the agent to write or find records, and passes on the packed records of each frame as they arrive.
// Writing goes on until ctx ends or the disk is full; neither is an error. An error of tell ends it as well. Any other
// error is a *record.Failure.
func (s *Conn) Ledger(ctx context.Context, l wire.Ledger, tell func(packed []byte) error) error {
	if err := s.request(ctx, wire.TypeLedger, l); err != nil {
		return err
	}
	for {
		a, err := s.next(ctx)
		switch {
		case err != nil && s.Alive():
			return s.endLedger(l.Find, ctx)
		case err != nil:
			return err
		case a.frame.Type != wire.TypeLedger:
			return s.accept(a, wire.TypeLedger, nil)
		case len(a.frame.Payload) == 0:
			return nil
		}
		if err := tell(a.frame.Payload); err != nil {
			s.interrupt(ctx, wire.TypeLedger)
			return err
		}
	}
}

// endLedger cancels the request. Records written after ctx ended are not passed on, because the caller no longer counts
// them.
func (s *Conn) endLedger(find bool, ctx context.Context) error {
	err := s.interrupt(ctx, wire.TypeLedger)
	if find || !s.Alive() {
		return err
	}
	return nil
}
