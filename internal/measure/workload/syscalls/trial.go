package syscalls

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/sys/thread"
)

// operation is one measured operation. All methods are called on the same operating system thread.
type operation interface {
	// prepare gets ready; dir belongs to this trial.
	prepare(dir string) error
	// round does the operation count times and returns the time of the operations only.
	round() (time.Duration, error)
	// close undoes prepare, even if prepare failed or was never called.
	close() error
}

// noter is implemented by operations that record state of their run.
type noter interface {
	note(b *workload.Bench)
}

// phase is one operation and the times of its rounds.
type phase struct {
	opInfo
	op     operation
	spent  time.Duration
	rounds []float64 // in the metric's unit, as far as kept
}

// trial is a trial of the kind syscall.
type trial struct {
	phases []*phase
	team   *thread.Team
}

func newTrial(p workload.Params) (workload.Trial, error) {
	t := &trial{}
	for _, info := range selected(p["op"]) {
		op, err := newOperation(info)
		if err != nil {
			return nil, fmt.Errorf("syscall: %w", err)
		}
		t.phases = append(t.phases, &phase{opInfo: info, op: op})
	}
	return t, nil
}

func (t *trial) Setup(ctx context.Context, b *workload.Bench) error {
	var err error
	if t.team, err = thread.Start(1, true); err != nil {
		return err
	}
	b.Note("processor", strconv.Itoa(t.team.CPUs()[0]))
	t.team.Do(func(int) {
		for _, p := range t.phases {
			if err = ctx.Err(); err != nil {
				return
			}
			if err = p.op.prepare(b.Dir); err != nil {
				return
			}
			p.rounds = make([]float64, 0, workload.MaxSamples)
			// One round warms the caches, and finds errors during setup.
			if _, err = p.op.round(); err != nil {
				return
			}
		}
	})
	return err
}

// Measure does all operations in every round, so that a long disturbance affects all of them.
func (t *trial) Measure(_ context.Context, b *workload.Bench) error {
	work := b.Work
	for _, p := range t.phases {
		p.spent, p.rounds = 0, p.rounds[:0]
	}
	var err error
	t.team.Do(func(int) {
		for range work {
			for _, p := range t.phases {
				var d time.Duration
				if d, err = p.op.round(); err != nil {
					return
				}
				p.spent += d
				if len(p.rounds) < cap(p.rounds) {
					p.rounds = append(p.rounds, p.figure(d))
				}
			}
		}
	})
	return err
}

// figure turns the time of one round into the operation's metric.
func (p *phase) figure(d time.Duration) float64 { return float64(d) / float64(p.count) / p.scale }

// Report gives the figures.
func (t *trial) Report(b *workload.Bench) error {
	for _, p := range t.phases {
		b.Check(p.name+"_per_round", strconv.Itoa(p.count))
		b.Report(p.metric.Name, p.figure(p.spent)/float64(b.Work))
		b.Sample(p.metric.Name, p.rounds)
		if n, ok := p.op.(noter); ok {
			n.note(b)
		}
	}
	return nil
}

func (t *trial) Cleanup(*workload.Bench) error {
	var errs []error
	for _, p := range t.phases {
		errs = append(errs, p.op.close())
	}
	if t.team != nil {
		t.team.Close()
	}
	return errors.Join(errs...)
}
