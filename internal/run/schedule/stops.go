package schedule

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// stops knows how often and for how long tare itself was stopped, as by Ctrl-Z. Agents work on meanwhile, so that a
// trial is longer by the controller's clock than it was, and the budget is spent on nothing. That it was stopped, the
// system says when it goes on; for how long, only a clock that ticks can tell. A nil stops saw none.
type stops struct {
	mu       sync.Mutex
	counted  stopCount
	lastTick time.Time     // when it ticked last
	gap      time.Duration // since the tick before it, where it was late
	lateness time.Duration // how late a tick was at most since takeLateness; not where tare was stopped
	end      func()
}

// stopCount is a number of stops and their total length.
type stopCount struct {
	times int
	total time.Duration
}

const (
	// tickInterval is the period of the clock. A tick may be late by as much on a busy machine as well.
	tickInterval = 500 * time.Millisecond
	// signalDelay bounds the time from the signal that tare goes on until it is counted.
	signalDelay = 100 * time.Millisecond
)

// watchStops begins to count. The caller calls end.
func watchStops() *stops {
	s := &stops{lastTick: time.Now()}
	continued := make(chan os.Signal, 8)
	ignore := notifyContinued(continued)
	over := make(chan struct{})
	s.end = func() {
		ignore()
		close(over)
	}
	go func() {
		tick := time.NewTicker(tickInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.tick()
			case <-continued:
				s.continued()
			case <-over:
				return
			}
		}
	}()
	return s
}

func (s *stops) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.gap = 0
	if d := now.Sub(s.lastTick); d > 2*tickInterval {
		s.gap = d
		s.lateness = max(s.lateness, d-tickInterval)
	}
	s.lastTick = now
}

// continued counts a stop that has just ended. The tick after it may have come before.
func (s *stops) continued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.counted.times++
	if d := max(now.Sub(s.lastTick), s.gap); d > tickInterval {
		s.counted.total += d
	}
	s.gap, s.lastTick, s.lateness = 0, now, 0
}

// takeLateness returns how long tare itself waited for a processor at the most since it was asked last, as far as its
// clock shows that; 0 for less than half a second.
func (s *stops) takeLateness() time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.lateness
	s.lateness = 0
	return d
}

// late tells whether a stop may just have ended that is not counted yet.
func (s *stops) late() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gap > 0 || time.Since(s.lastTick) > 2*tickInterval
}

// count returns the stops until now.
func (s *stops) count() stopCount {
	if s == nil {
		return stopCount{}
	}
	for end := time.Now().Add(signalDelay); s.late() && time.Now().Before(end); {
		time.Sleep(signalDelay / 10)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted
}

// since returns the stops after before.
func (s *stops) since(before stopCount) stopCount {
	now := s.count()
	return stopCount{now.times - before.times, now.total - before.total}
}

// rule is the rule by which a block is discarded during which tare was stopped; "" when it was not. It sees neither the
// targets nor their figures.
func (s stopCount) rule() string {
	switch {
	case s.times == 0:
		return ""
	case s.total < time.Second:
		return "tare itself was stopped during a block"
	}
	return fmt.Sprintf("tare itself was stopped for %.0f s during a block", s.total.Seconds())
}
