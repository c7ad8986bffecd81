package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

// Conn is a connection to one agent. It serves one request at a time and is not safe for concurrent use, except for
// Alive.
type Conn struct {
	stream    env.Stream
	witnesses []env.Diagnoser
	hello     wire.Hello
	in        *wire.Reader
	out       *wire.Writer
	arrivals  chan arrival
	closed    chan struct{}
	close     sync.Once
	trial     uint32

	mu   sync.Mutex
	dead *record.Failure
}

// arrival is a frame and its time of arrival by the controller's monotonic clock.
type arrival struct {
	frame wire.Frame
	at    int64
	err   error
}

// read stamps every frame as soon as it is complete.
func (c *Conn) read() {
	for {
		f, err := c.in.Read()
		a := arrival{frame: f, at: wire.Now(), err: err}
		select {
		case c.arrivals <- a:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Hello is what the agent reported about itself.
func (c *Conn) Hello() wire.Hello { return c.hello }

// Alive tells whether the connection can still serve requests.
func (c *Conn) Alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead == nil
}

// sendTime is how long a message may still take after its context has ended. A working agent reads it at once, but this
// process may not get the processor at once.
const sendTime = 5 * time.Second

// send runs a write. It gives up sendTime after ctx has ended; the stream then contains half a frame and the connection
// is lost. A write that completes before that counts as sent, because ctx bounds the answer.
func (c *Conn) send(ctx context.Context, write func() error) error {
	done := make(chan error, 1)
	go func() { done <- write() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(sendTime)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return fmt.Errorf("the agent accepts no more messages: %w", ctx.Err())
	}
}

// next waits for the next frame of this request. It skips frames of earlier requests that were given up.
func (c *Conn) next(ctx context.Context) (arrival, error) {
	for {
		select {
		case a := <-c.arrivals:
			if a.err == nil && a.frame.Trial < c.trial {
				if a.frame.Trial == 0 && a.frame.Type == wire.TypeFailure {
					return a, c.lost(c.accept(a, 0, nil)) // the agent rejected the welcome
				}
				continue
			}
			if a.err == nil && a.frame.Trial > c.trial {
				a.err = fmt.Errorf("the agent answered request %d before it was made", a.frame.Trial)
			}
			if a.err == io.EOF {
				a.err = errors.New("the agent has ended")
			}
			if a.err != nil {
				return a, c.lost(a.err)
			}
			return a, nil
		case <-ctx.Done():
			return arrival{}, ctx.Err()
		}
	}
}

// ask sends a request and returns its one answer, which must be of type want. If the agent answers with a Failure, that
// is the error.
func (c *Conn) ask(ctx context.Context, t wire.Type, request any, want wire.Type, answer any) (arrival, error) {
	if err := c.request(ctx, t, request); err != nil {
		return arrival{}, err
	}
	a, err := c.next(ctx)
	if err != nil && ctx.Err() != nil && c.Alive() {
		// The connection can go on, because a late answer is skipped. But a worker may still run: cancel it.
		return a, c.interrupt(ctx, t)
	}
	if err != nil {
		return a, err
	}
	return a, c.accept(a, want, answer)
}

func (c *Conn) accept(a arrival, want wire.Type, answer any) error {
	if a.frame.Type == wire.TypeFailure && want != wire.TypeFailure {
		f := &record.Failure{}
		if err := a.frame.Decode(f); err != nil {
			return c.lost(err)
		}
		return f
	}
	if a.frame.Type != want {
		return c.lost(fmt.Errorf("the agent answered with a %s frame, not a %s frame", a.frame.Type, want))
	}
	if answer == nil {
		return nil
	}
	if err := a.frame.Decode(answer); err != nil {
		return c.lost(err)
	}
	return nil
}

func (c *Conn) request(ctx context.Context, t wire.Type, request any) error {
	return c.begin(ctx, t, func() error {
		if request == nil {
			return c.out.Mark(t, c.trial)
		}
		return c.out.JSON(t, c.trial, request)
	})
}

// requestPacked is request with a payload that is not JSON.
func (c *Conn) requestPacked(ctx context.Context, t wire.Type, payload []byte) error {
	return c.begin(ctx, t, func() error {
		return c.out.Write(wire.Frame{Type: t, Trial: c.trial, Payload: payload})
	})
}

// begin begins a request: it gives it a number, and write sends it.
func (c *Conn) begin(ctx context.Context, t wire.Type, write func() error) error {
	c.mu.Lock()
	dead := c.dead
	c.mu.Unlock()
	if dead != nil {
		return dead
	}
	if err := ctx.Err(); err != nil {
		return given(ctx, t.String())
	}
	c.trial++
	if err := c.send(ctx, write); err != nil {
		return c.lost(err)
	}
	return nil
}

// cancelled is the kind of failure of a request that the user cancelled.
const cancelled = "cancelled"

// given is the failure of a request that was given up because ctx ended.
func given(ctx context.Context, what string) *record.Failure {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return &record.Failure{Kind: "timeout", Message: what +
			" took longer than its deadline; give it more time or less work"}
	}
	return &record.Failure{Kind: cancelled, Message: what + " was cancelled"}
}

// cancelTime is how long an agent has to end cancelled work. The agent itself gives up a worker that does not end after
// three seconds, and what the worker left behind after five more. A virtual machine under load takes several times as
// long.
const cancelTime = 30 * time.Second

// interrupt cancels the request in flight and waits until the agent confirms it. If the user cancelled, it waits that
// long only for an agent that answers a ping; a stopped one does not.
func (c *Conn) interrupt(ctx context.Context, t wire.Type) error {
	failure := given(ctx, t.String())
	leaving := failure.Kind == cancelled
	patience := cancelTime
	if leaving {
		patience = answerTime
	}
	began := time.Now()
	end, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	limit := time.AfterFunc(patience, cancel)
	defer limit.Stop()
	err := c.send(end, func() error {
		err := c.out.Mark(wire.TypeCancel, c.trial)
		if err == nil && leaving {
			err = c.out.Mark(wire.TypePing, c.trial)
		}
		return err
	})
	if err != nil {
		return c.lost(err)
	}
	for {
		a, err := c.next(end)
		if err != nil && c.Alive() {
			c.lost(fmt.Errorf("the agent did not end a cancelled %s within %v", t, patience))
			failure.Message += "; the agent no longer answers"
			return failure
		}
		if err != nil {
			return err
		}
		if a.frame.Type == wire.TypePong && leaving && t != wire.TypePing {
			patience = cancelTime
			limit.Reset(patience - time.Since(began))
			continue
		}
		switch a.frame.Type {
		case wire.TypeBegin, wire.TypeEnd, wire.TypeSamples:
			continue
		case wire.TypeLedger:
			if len(a.frame.Payload) > 0 {
				continue
			}
		case wire.TypeResult:
			var r wire.Result
			if a.frame.Decode(&r) == nil && r.Error != nil {
				failure.Evidence = r.Error.Evidence
			}
		}
		return failure
	}
}

// Facts asks the agent for what it sees of the environment.
func (c *Conn) Facts(ctx context.Context) (record.Facts, error) { return c.FactsAt(ctx, "") }

// FactsAt is Facts with the file system of root, or of the agent's own choice if root is empty.
func (c *Conn) FactsAt(ctx context.Context, root string) (f record.Facts, err error) {
	_, err = c.ask(ctx, wire.TypeFacts, wire.FactsOf{Root: root}, wire.TypeFacts, &f)
	return f, err
}

// Mount tells the agent to mount a folder. The agent must own its system (PID 1).
func (c *Conn) Mount(ctx context.Context, m *guestabi.Mount) (got wire.Mounted, err error) {
	_, err = c.ask(ctx, wire.TypeMount, m, wire.TypeMount, &got)
	return got, err
}

// Calibrate asks for the amount of work that takes at least q.TargetNS.
func (c *Conn) Calibrate(ctx context.Context, q wire.Calibrate) (got wire.Calibrated, err error) {
	_, err = c.ask(ctx, wire.TypeCalibrate, q, wire.TypeCalibrated, &got)
	return got, err
}

// Trace passes a request of package sys/trace on to the agent's tracer, and decodes the answer. The error is a
// *record.Failure if the agent has no tracer, or its tracer has failed.
func (c *Conn) Trace(ctx context.Context, request, answer any) error {
	_, err := c.ask(ctx, wire.TypeTrace, request, wire.TypeTrace, answer)
	return err
}

// Release tells the agent to remove a cell's directory.
func (c *Conn) Release(ctx context.Context, cell string) error {
	_, err := c.ask(ctx, wire.TypeRelease, wire.Release{Cell: cell}, wire.TypeRelease, nil)
	return err
}

// RTT is the round-trip time to an agent, in ns by the controller's clock.
type RTT struct {
	Median, Min, Max int64
	// Pairs are readings of both clocks, for the check of the agent's clock rate.
	Pairs []ClockPair
}

// ClockPair is a reading of the agent's clocks between two readings of the controller's.
type ClockPair struct {
	ControllerNS int64 // middle of the round trip, by the controller's monotonic clock
	RTTNS        int64 // length of the round trip: the pair is exact to half of it
	AgentNS      int64 // the agent's monotonic clock
	AgentWallNS  int64 // the agent's wall clock, Unix ns
}

// Ping measures n round trips, at least one.
func (c *Conn) Ping(ctx context.Context, n int) (RTT, error) {
	var rtt RTT
	var trips []int64
	for range max(n, 1) {
		sent := wire.Now()
		var p wire.Pong
		a, err := c.ask(ctx, wire.TypePing, nil, wire.TypePong, &p)
		if err != nil {
			return rtt, err
		}
		trips = append(trips, a.at-sent)
		rtt.Pairs = append(rtt.Pairs, ClockPair{ControllerNS: sent + (a.at-sent)/2, RTTNS: a.at - sent,
			AgentNS: p.MonoNS, AgentWallNS: p.WallNS})
	}
	slices.Sort(trips)
	rtt.Min, rtt.Median, rtt.Max = trips[0], trips[len(trips)/2], trips[len(trips)-1]
	return rtt, nil
}

// byeTime is how long an agent has to clean up and end. answerTime is how long it has to answer the ping before that,
// so that a stopped agent does not hold up the user.
const (
	byeTime    = 35 * time.Second
	answerTime = 10 * time.Second
)

// Close tells the agent to clean up and end, and closes the stream. It is idempotent. The error says what may be left
// behind.
func (c *Conn) Close() (err error) {
	c.close.Do(func() {
		if c.Alive() {
			err = c.bye()
		}
		c.retire()
		close(c.closed)
		if e := c.stream.Close(); err == nil && e != nil {
			err = fmt.Errorf("close the connection to the agent: %w", e)
		}
	})
	return err
}

// retire marks the connection as closed. Unlike lost it collects no evidence, which takes a container engine a second.
func (c *Conn) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead == nil {
		c.dead = &record.Failure{Kind: Died, Message: "the session was closed"}
	}
}

func (c *Conn) bye() error {
	for _, q := range []struct {
		ask, answer wire.Type
		within      time.Duration
	}{{wire.TypePing, wire.TypePong, answerTime}, {wire.TypeBye, wire.TypeBye, byeTime}} {
		if err := c.last(q.ask, q.answer, q.within); err != nil {
			return fmt.Errorf("end the agent: %w", err)
		}
	}
	return nil
}

// last makes a request that is not cancelled if no answer comes in time, because the connection is closed next.
func (c *Conn) last(t, want wire.Type, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := c.request(ctx, t, nil); err != nil {
		return err
	}
	a, err := c.next(ctx)
	if err != nil {
		return err
	}
	return c.accept(a, want, nil)
}
