package deploy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

// A trial that is held has prepared everything and begins when it is told to, and that wait is in none of its times but
// the preparation.
func TestHeldTrialBeginsWhenItIsTold(t *testing.T) {
	s, stream := connect(t, t.TempDir())
	const wait = 300 * time.Millisecond
	// The wait is in neither clock's time: they differ by what marks need on their way. A busy machine may pause for
	// longer than this one is held, but not most times.
	short := 0
	for range 3 {
		workers, began, ended := 0, int64(0), []int64{}
		o, err := s.RunHeld(within(t, patience), wire.Run{Job: job("t.spin"), Work: 1}, deploy.Held{
			Ready: func(context.Context, string, int64) (int64, error) {
				workers = len(children(stream.Pid()))
				time.Sleep(wait)
				began = wire.Now()
				return began, nil
			}, Ended: func() { ended = append(ended, wire.Now()) }})
		if err != nil {
			t.Fatal(err)
		}
		if workers != 1 {
			t.Errorf("%d workers were ready", workers)
		}
		if len(ended) != 1 || ended[0]-began < o.Result.ElapsedNS {
			t.Errorf("it began at %d, took %d, and ended at %v", began, o.Result.ElapsedNS, ended)
		}
		if o.SetupNS < int64(wait) || o.Result.ElapsedNS <= 0 {
			t.Errorf("prepared in %v, took %v", time.Duration(o.SetupNS), time.Duration(o.Result.ElapsedNS))
		}
		took, seen := time.Duration(o.Result.ElapsedNS), time.Duration(o.ControllerNS)
		t.Logf("took %v by the agent, %v by the controller", took, seen)
		if took < wait && seen < wait && (seen-took).Abs() <= wait/3 {
			short++
		}
	}
	if short < 2 {
		t.Errorf("the wait is in the time: %d of 3 were as short as the work", short)
	}
}

// A trial that is given up while it is held ends its worker; the agent goes on.
func TestHeldTrialGivenUp(t *testing.T) {
	s, stream := connect(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.RunHeld(ctx, wire.Run{Job: job("t.idle"), Work: 1}, deploy.Held{
		Ready: func(ctx context.Context, _ string, _ int64) (int64, error) {
			cancel()
			<-ctx.Done()
			return 0, ctx.Err()
		}})
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "cancelled" {
		t.Errorf("got %v", err)
	}
	if !s.Alive() || len(children(stream.Pid())) != 0 {
		t.Fatalf("alive %v, workers %v", s.Alive(), children(stream.Pid()))
	}
	run(t, s, wire.Run{Job: job("t.idle"), Work: 1})
}
