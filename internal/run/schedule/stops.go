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
	mu     sync.Mutex
	seen   stopped
	awake  time.Time     // when it ticked last
	gap    time.Duration // since the tick before it, where it was late
	waited time.Duration // how late a tick was at most since caughtUp; not where tare was stopped
	end    func()
}

// stopped is how often and how long.
type stopped struct {
	times int
	total time.Duration
}

const (
	// awakeEvery is how often the clock ticks. So long a tick may be late on a busy machine as well.
	awakeEvery = 500 * time.Millisecond
	// goingOn is how long the news that tare goes on may take to where it is counted.
	goingOn = 100 * time.Millisecond
)

// watchStops begins to count. The caller calls end.
func watchStops() *stops {
	s := &stops{awake: time.Now()}
	continued := make(chan os.Signal, 8)
	ignore := notifyContinued(continued)
	over := make(chan struct{})
	s.end = func() {
		ignore()
		close(over)
	}
	go func() {
		tick := time.NewTicker(awakeEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.tick()
			case <-continued:
				s.goOn()
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
	if d := now.Sub(s.awake); d > 2*awakeEvery {
		s.gap = d
		s.waited = max(s.waited, d-awakeEvery)
	}
	s.awake = now
}

// goOn counts a stop that has just ended. The tick after it may have come before.
func (s *stops) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.seen.times++
	if d := max(now.Sub(s.awake), s.gap); d > awakeEvery {
		s.seen.total += d
	}
	s.gap, s.awake, s.waited = 0, now, 0
}

// caughtUp returns how long tare itself waited for a processor at the most since it was asked last, as far as its clock
// shows that; 0 for less than half a second.
func (s *stops) caughtUp() time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.waited
	s.waited = 0
	return d
}

// late tells whether a stop may just have ended that is not counted yet.
func (s *stops) late() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gap > 0 || time.Since(s.awake) > 2*awakeEvery
}

// sofar is what was counted until now.
func (s *stops) sofar() stopped {
	if s == nil {
		return stopped{}
	}
	for end := time.Now().Add(goingOn); s.late() && time.Now().Before(end); {
		time.Sleep(goingOn / 10)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// since is what was counted after before.
func (s *stops) since(before stopped) stopped {
	now := s.sofar()
	return stopped{now.times - before.times, now.total - before.total}
}

// rule is the rule by which a block is discarded during which tare was stopped; "" when it was not. It sees neither the
// targets nor their figures.
func (s stopped) rule() string {
	switch {
	case s.times == 0:
		return ""
	case s.total < time.Second:
		return "tare itself was stopped during a block"
	}
	return fmt.Sprintf("tare itself was stopped for %.0f s during a block", s.total.Seconds())
}
