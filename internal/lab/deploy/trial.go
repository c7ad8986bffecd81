package deploy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tare/internal/measure/timeaccount"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

// Outcome is the result of one trial on the controller's side.
type Outcome struct {
	Result wire.Result // Samples included
	Start  time.Time   // controller's wall clock when the trial was asked for
	// ControllerNS is how long Measure took by the controller's monotonic clock, in ns: from the arrival of Begin to
	// that of End, less Result.SlackNS. It is exact to RTTSpreadNS, because both marks travel the same way.
	ControllerNS int64
	SetupNS      int64 // from the request to the arrival of Begin, controller's clock, ns
	// Account says where the time of Measure went.
	Account     *record.Account
	RTTNS       int64 // median of the round trips just before and after the trial, ns
	RTTSpreadNS int64 // largest minus smallest of them, ns
	// EndedNS is when Measure had ended, by the agent's monotonic clock, and Clocks are comparisons of that with the
	// controller's, just before the trial and just after it.
	EndedNS int64
	Clocks  []ClockPair
	// Load says who offered the load; only where several environments did (package crowd).
	Load *record.Load
	// Copies says what each of several agents did, if they did the trial together as one.
	Copies *record.Copies
}

// Held is how a trial begins and ends that is done together with others.
type Held struct {
	// Ready is called when the trial is set up, with what its worker offers (workload.Bench) and the longest of the
	// round trips just before, ns. It returns when its timed part is to begin, by wire.Now; an error gives the trial
	// up.
	Ready func(ctx context.Context, offer string, rtt int64) (at int64, err error)
	// Over, if not nil, is closed when the others have ended, which the worker is told.
	Over <-chan struct{}
	// Ended, if not nil, is called when the timed part has ended, as soon as the agent's word for it arrives.
	Ended func()
}

// pings is the number of round trips measured before a trial, and again after it.
const pings = 3

// Run asks the agent for one trial. The error is a *record.Failure. It is the trial's failure if Alive is still true
// afterwards, else the environment's. A trial's own failure is also in Outcome.Result.Error. When ctx ends, the trial
// is cancelled.
func (s *Conn) Run(ctx context.Context, run wire.Run) (Outcome, error) {
	return s.RunTold(ctx, run, func(bool) {})
}

// RunTold is Run. It calls mark when the timed part begins, and when it has ended, as soon as the agent's word for it
// arrives. mark must be quick.
func (s *Conn) RunTold(ctx context.Context, run wire.Run, mark func(begins bool)) (Outcome, error) {
	return s.run(ctx, run, mark, nil)
}

// RunHeld is Run for a trial whose clock starts together with those of others.
func (s *Conn) RunHeld(ctx context.Context, run wire.Run, h Held) (Outcome, error) {
	run.Held = true
	return s.run(ctx, run, func(begins bool) {
		if !begins && h.Ended != nil {
			h.Ended()
		}
	}, &h)
}

func (s *Conn) run(ctx context.Context, run wire.Run, mark func(begins bool), h *Held) (Outcome, error) {
	o := Outcome{Start: time.Now()}
	before, err := s.Ping(ctx, pings)
	if err != nil {
		return o, err
	}
	o.Start = time.Now()
	sent := wire.Now()
	if err := s.request(ctx, wire.TypeRun, run); err != nil {
		return o, err
	}
	if h != nil && h.Over != nil {
		done, trial := make(chan struct{}), s.trial
		defer close(done)
		go func() {
			select {
			case <-h.Over:
				_ = s.out.Mark(wire.TypeEnd, trial) // a stream that is broken is noticed by who reads it
			case <-done:
			}
		}()
	}
	o.Clocks = before.Pairs
	starts, begin, end, err := s.follow(ctx, &o, mark, h)
	if err != nil {
		return o, err
	}
	r := &o.Result
	o.Account = timeaccount.Of(timeaccount.Input{OS: s.Hello().OS, ElapsedNS: r.ElapsedNS,
		Threads: run.Params["threads"], State: r.State, Before: r.Before, After: r.After})
	r.Before, r.After = nil, nil
	if o.Result.Error != nil {
		return o, o.Result.Error
	}
	if end == 0 {
		return o, s.lost(fmt.Errorf("the agent sent a result without Begin and End"))
	}
	// While a trial is held, its slack grows: it is from the Begin that its worker sent.
	o.SetupNS, o.ControllerNS = starts-sent, end-begin-o.Result.SlackNS
	after, err := s.Ping(ctx, pings)
	if err != nil {
		return o, err
	}
	trips := []int64{}
	o.Clocks = slices.Concat(before.Pairs, after.Pairs)
	for _, p := range o.Clocks {
		trips = append(trips, p.RTTNS)
	}
	slices.Sort(trips)
	o.RTTNS = (trips[(len(trips)-1)/2] + trips[len(trips)/2]) / 2
	o.RTTSpreadNS = trips[len(trips)-1] - trips[0]
	return o, nil
}

// follow reads the frames of a trial up to its result. starts is when its timed part is to start, begin when its Begin
// came, which is the same unless it is held.
func (s *Conn) follow(ctx context.Context, o *Outcome, mark func(begins bool), h *Held) (starts, begin, end int64,
	err error) {
	var samples map[string][]float64
	for {
		a, err := s.next(ctx)
		if err != nil {
			if s.Alive() {
				err = s.interrupt(ctx, wire.TypeRun)
			}
			return 0, 0, 0, err
		}
		switch t := a.frame.Type; {
		case t == wire.TypeBegin && begin == 0:
			starts, begin = a.at, a.at
			if h != nil {
				at, err := s.release(ctx, h, string(a.frame.Payload), o.Clocks)
				if err != nil {
					return 0, 0, 0, err
				}
				starts = max(starts, at)
			}
			mark(true)
		case t == wire.TypeEnd && begin != 0 && end == 0:
			end = a.at
			o.EndedNS, _ = wire.Stamped(a.frame.Payload)
			mark(false)
		case t == wire.TypeSamples:
			name, values, err := wire.UnpackSamples(a.frame.Payload)
			if err != nil {
				return 0, 0, 0, s.lost(err)
			}
			if samples == nil {
				samples = map[string][]float64{}
			}
			if _, twice := samples[name]; twice || len(samples) == maxSampleSets {
				return 0, 0, 0, s.lost(fmt.Errorf("the agent sent samples of %.40q twice, or of too many metrics",
					name))
			}
			samples[name] = values
		default:
			err := s.accept(a, wire.TypeResult, &o.Result)
			o.Result.Samples = samples
			return starts, begin, end, err
		}
	}
}

// release has a trial that is held begin when that is due, and returns when that is, by wire.Now.
func (s *Conn) release(ctx context.Context, h *Held, offer string, clocks []ClockPair) (at int64, err error) {
	longest := int64(0)
	for _, p := range clocks {
		longest = max(longest, p.RTTNS)
	}
	if at, err = h.Ready(ctx, offer, longest); err != nil {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		return 0, s.interrupt(gone, wire.TypeRun)
	}
	offset, _ := Offset(clocks)
	err = s.send(ctx, func() error {
		return s.out.Write(wire.Frame{Type: wire.TypeBegin, Trial: s.trial, Payload: wire.StampAt(at - offset)})
	})
	if err != nil {
		return 0, s.lost(err)
	}
	return at, nil
}

// Offset is the controller's monotonic clock less the agent's, and how far off that can be, both in ns: half of the
// shortest round trip, because nobody knows in which direction it took longer.
func Offset(clocks []ClockPair) (offset, within int64) {
	for i, p := range clocks {
		if i == 0 || p.RTTNS/2 < within {
			offset, within = p.ControllerNS-p.AgentNS, p.RTTNS/2
		}
	}
	return offset, within
}

// maxSampleSets bounds the number of metrics with samples in one trial.
const maxSampleSets = 64
