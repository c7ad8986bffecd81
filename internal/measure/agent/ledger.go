package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tare/internal/measure/wire"
	"tare/internal/measure/workload/durability"
)

// foundAtOnce is the number of records in one frame when they are found, not written.
const foundAtOnce = 1000

// ledger writes or finds records and reports them at once. It runs beside the agent's loop, which accepts a Cancel.
func (a *server) ledger(ctx context.Context, f wire.Frame) error {
	var l wire.Ledger
	if err := f.Decode(&l); err != nil {
		return a.refuse(f, "refused", err.Error())
	}
	classes, err := ledgerClasses(&l)
	if err != nil {
		return a.refuse(f, "refused", err.Error())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l.Find {
			failed = a.find(&l, classes, f.Trial)
		} else {
			failed = a.write(ctx, &l, classes, f.Trial)
		}
	}()
	if gone := a.attend(done, cancel, "records are being written"); gone != nil {
		return gone
	}
	if failed != nil {
		return a.refuse(f, "ledger", failed.Error())
	}
	return a.out.Mark(wire.TypeLedger, f.Trial)
}

func ledgerClasses(l *wire.Ledger) ([]durability.Class, error) {
	if !filepath.IsAbs(l.Dir) {
		return nil, fmt.Errorf("write records: %q is not an absolute path", l.Dir)
	}
	classes := []durability.Class{}
	seen := map[durability.Class]bool{}
	for _, name := range l.Classes {
		c, err := durability.ParseClass(name)
		if err == nil && seen[c] {
			err = fmt.Errorf("%s is named twice", c)
		}
		if err != nil {
			return nil, fmt.Errorf("write records: %w", err)
		}
		seen[c] = true
		classes = append(classes, c)
	}
	if len(classes) == 0 {
		return nil, errors.New("write records: no class is given")
	}
	return classes, nil
}

func (a *server) write(ctx context.Context, l *wire.Ledger, classes []durability.Class, trial uint32) error {
	if err := os.Mkdir(l.Dir, 0o700); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return durability.Write(ctx, l.Dir, durability.Plan{Classes: classes, Seed: l.Seed, Round: l.Round},
		func(r durability.Record) error {
			return a.out.Write(wire.Frame{Type: wire.TypeLedger, Trial: trial, Payload: r.Pack(nil)})
		})
}

func (a *server) find(l *wire.Ledger, classes []durability.Class, trial uint32) error {
	var packed []byte
	flush := func() error {
		if len(packed) == 0 {
			return nil
		}
		err := a.out.Write(wire.Frame{Type: wire.TypeLedger, Trial: trial, Payload: packed})
		packed = packed[:0]
		return err
	}
	err := durability.Find(l.Dir, classes, l.Round, func(r durability.Record) error {
		packed = r.Pack(packed)
		if len(packed) < foundAtOnce*durability.RecordSize {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return fmt.Errorf("find records: %w", err)
	}
	return nil
}
