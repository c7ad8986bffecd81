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
	begin, end, err := s.follow(ctx, &o, mark)
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
	o.SetupNS, o.ControllerNS = begin-sent, end-begin-o.Result.SlackNS
	after, err := s.Ping(ctx, pings)
	if err != nil {
		return o, err
	}
	trips := []int64{}
	for _, p := range slices.Concat(before.Pairs, after.Pairs) {
		trips = append(trips, p.RTTNS)
	}
	slices.Sort(trips)
	o.RTTNS = (trips[(len(trips)-1)/2] + trips[len(trips)/2]) / 2
	o.RTTSpreadNS = trips[len(trips)-1] - trips[0]
	return o, nil
}

// follow reads the frames of a trial up to its result.
func (s *Conn) follow(ctx context.Context, o *Outcome, mark func(begins bool)) (begin, end int64, err error) {
	var samples map[string][]float64
	for {
		a, err := s.next(ctx)
		if err != nil {
			if s.Alive() {
				err = s.interrupt(ctx, wire.TypeRun)
			}
			return 0, 0, err
		}
		switch t := a.frame.Type; {
		case t == wire.TypeBegin && begin == 0:
			begin = a.at
			mark(true)
		case t == wire.TypeEnd && begin != 0 && end == 0:
			end = a.at
			mark(false)
		case t == wire.TypeSamples:
			name, values, err := wire.UnpackSamples(a.frame.Payload)
			if err != nil {
				return 0, 0, s.lost(err)
			}
			if samples == nil {
				samples = map[string][]float64{}
			}
			if _, twice := samples[name]; twice || len(samples) == maxSampleSets {
				return 0, 0, s.lost(fmt.Errorf("the agent sent samples of %.40q twice, or of too many metrics", name))
			}
			samples[name] = values
		default:
			err := s.accept(a, wire.TypeResult, &o.Result)
			o.Result.Samples = samples
			return begin, end, err
		}
	}
}

// maxSampleSets bounds the number of metrics with samples in one trial.
const maxSampleSets = 64
