package sock

import (
	"math"
	"testing"
	"time"
)

// TestArrivals holds the account of numbered packets against sequences that were counted by hand, and the jitter
// against the formula of RFC 3550, 6.4.1: J += (|D| - J) / 16.
func TestArrivals(t *testing.T) {
	type packet struct {
		number     int64
		left, came time.Duration
	}
	on := func(numbers ...int64) (all []packet) { // in time: no jitter
		for i, n := range numbers {
			all = append(all, packet{n, time.Duration(i) * 1000, time.Duration(i)*1000 + 70})
		}
		return all
	}
	for name, c := range map[string]struct {
		packets              []packet
		sent                 int64
		received, next, late int64
		lost                 int64
		jitter               float64
	}{
		"none":            {nil, 3, 0, 0, 0, 3, 0},
		"all":             {on(0, 1, 2, 3), 4, 4, 4, 0, 0, 0},
		"first lost":      {on(2, 3), 4, 2, 4, 0, 2, 0},
		"middle lost":     {on(0, 3), 4, 2, 4, 0, 2, 0},
		"last lost":       {on(0, 1), 4, 2, 2, 0, 2, 0},
		"two swapped":     {on(0, 2, 1, 3), 4, 4, 4, 1, 0, 0},
		"one far behind":  {on(1, 2, 3, 0), 4, 4, 4, 1, 0, 0},
		"backwards":       {on(3, 2, 1, 0), 4, 4, 4, 3, 0, 0},
		"a double":        {on(0, 1, 1, 2), 3, 4, 3, 1, 0, 0},
		"a double hides":  {on(0, 1, 1, 3), 4, 4, 4, 1, 0, 0},
		"lost and behind": {on(0, 4, 2, 6), 8, 4, 7, 1, 4, 0},
		// On the way for 10, 26, 26 and 10: differences of 16, 0 and 16.
		"jitter": {[]packet{{0, 0, 10}, {1, 100, 126}, {2, 200, 226}, {3, 300, 310}}, 4, 4, 4, 0, 0,
			0.9375 + (16-0.9375)/16},
		// The clocks differ by an hour, which is no jitter: on the way for 3600 s and 0, 32, 0 ns more.
		"clocks apart": {[]packet{{0, 0, time.Hour}, {1, 50, time.Hour + 82}, {2, 100, time.Hour + 100}}, 3, 3, 3, 0, 0,
			2 + (32-2)/16.0},
		// The receiver's clock is behind the sender's.
		"clock behind": {[]packet{{0, time.Hour, 5}, {1, time.Hour + 100, 89}}, 2, 2, 2, 0, 0, 1},
		// Jitter is of packets as they come, also of one that was overtaken: on the way for 10, 10, 170.
		"overtaken": {[]packet{{0, 0, 10}, {2, 200, 210}, {1, 100, 270}}, 3, 3, 3, 1, 0, 10},
	} {
		var a Arrivals
		for _, p := range c.packets {
			a.Add(p.number, p.left, p.came)
		}
		if a.Received != c.received || a.Next != c.next || a.Late != c.late || a.Lost(c.sent) != c.lost ||
			math.Abs(a.Jitter-c.jitter) > 1e-9 {
			t.Errorf("%s: %+v and %d lost; want received %d, next %d, late %d, lost %d, jitter %v", name, a,
				a.Lost(c.sent), c.received, c.next, c.late, c.lost, c.jitter)
		}
	}
	// A steady difference is approached: after many packets, jitter is that difference.
	var a Arrivals
	for i := range int64(400) {
		a.Add(i, time.Duration(i)*1000, time.Duration(i)*1000+time.Duration(i%2)*64)
	}
	if math.Abs(a.Jitter-64) > 1e-6 {
		t.Errorf("packets that alternate by 64 ns have a jitter of %v", a.Jitter)
	}
}
