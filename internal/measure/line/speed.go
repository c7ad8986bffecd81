package line

import (
	"context"
	"encoding/binary"
	"strconv"
	"time"
)

// Speed has the rates and the round trip of a line with nothing else on it.
type Speed struct {
	RoundTrip time.Duration // of the shortest frame, the fastest of a few; 0 if it could not be measured
	// Bytes of data in a second; 0 if it could not be measured.
	ToGuest, FromGuest float64
}

// ask is a frame of a measurement.
type ask struct {
	answers byte   // wanted
	size    uint16 // of each, in bytes
	filler  int    // that are sent with it
}

func (a ask) head() []byte { return binary.LittleEndian.AppendUint16([]byte{a.answers}, a.size) }

func parseAsk(b []byte) (a ask, ok bool) {
	if len(b) < 3 {
		return a, false
	}
	a = ask{b[0], binary.LittleEndian.Uint16(b[1:]), len(b) - 3}
	return a, a.size <= maxData
}

// measureTime bounds each step of a measurement, on a line that loses frames.
const measureTime = 3 * time.Second

// measure fills in speed. A step that loses a frame leaves its figure out.
func (c *Conn) measure(ctx context.Context) {
	var s Speed
	lost := 0
	for i := 0; i < 5 && lost < 3; i++ {
		if t := c.ask(ctx, ask{answers: 1}); t == 0 {
			lost++
		} else if s.RoundTrip == 0 || t < s.RoundTrip {
			s.RoundTrip = t
		}
	}
	if s.RoundTrip > 0 {
		rate := func(step func(n int) []ask) (perSecond float64) {
			// More is sent while that takes no longer than a moment.
			for n := 2; n <= 2048; n *= 4 {
				t := c.ask(ctx, step(n)...)
				for ; t == 0 && perSecond == 0 && lost < 3; lost++ {
					t = c.ask(ctx, step(n)...)
				}
				if t == 0 {
					break
				}
				perSecond = float64(n*maxData) / max(t-s.RoundTrip, t/4, 1).Seconds()
				if t > 100*time.Millisecond {
					break
				}
			}
			return perSecond
		}
		// Frames are answered now and then, as the stream's data is acknowledged.
		const often = 8
		s.ToGuest = rate(func(n int) []ask {
			steps := make([]ask, n)
			for i := range steps {
				steps[i].filler = maxData
				if i%often == often-1 || i == n-1 {
					steps[i].answers = 1
				}
			}
			return steps
		})
		s.FromGuest = rate(func(n int) (steps []ask) {
			for ; n > 0; n -= often {
				steps = append(steps, ask{answers: byte(min(n, often)), size: maxData})
			}
			return steps
		})
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.speed = s
}

// ask sends frames and waits for all answers, with no more on their way than the stream may have. It returns how long
// that took, or 0 if an answer did not come.
func (c *Conn) ask(ctx context.Context, steps ...ask) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	p := c.p
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	answered := func(want int64) bool {
		for p.seen.answers < want {
			if ctx.Err() != nil || c.err != nil {
				return false
			}
			p.changed.Wait()
		}
		return true
	}
	type part struct {
		answers int64 // that have come when it is over
		bytes   int
	}
	var parts []part // on their way
	now := part{answers: p.seen.answers}
	flying := 0
	began := time.Now()
	for _, s := range steps {
		bytes := s.filler + int(s.answers)*int(s.size)
		for len(parts) > 0 && flying+bytes > window {
			if !answered(parts[0].answers) {
				return 0
			}
			flying -= parts[0].bytes
			parts = parts[1:]
		}
		flying += bytes
		now.bytes += bytes
		if s.answers > 0 {
			now.answers += int64(s.answers)
			parts = append(parts, now)
			now.bytes = 0
		}
		c.asked = append(c.asked, s)
		p.changed.Broadcast()
	}
	if !answered(now.answers) {
		return 0
	}
	return max(p.answeredAt.Sub(began), 1)
}

// Speed is the line's speed when the session was opened.
func (c *Conn) Speed() Speed {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.speed
}

// Facts are the speed of a line and the counts of its errors, as facts of an environment.
func (c *Conn) Facts() map[string]string {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	facts := map[string]string{
		"line.damaged_frames":   strconv.FormatInt(c.p.seen.damaged, 10),
		"line.noise_bytes":      strconv.FormatInt(c.p.seen.noise, 10),
		"line.bytes_sent_again": strconv.FormatInt(c.again, 10),
	}
	if c.speed.RoundTrip > 0 {
		facts["line.round_trip_us"] = strconv.FormatInt(c.speed.RoundTrip.Microseconds(), 10)
	}
	for name, rate := range map[string]float64{"line.to_guest_bytes_per_second": c.speed.ToGuest,
		"line.from_guest_bytes_per_second": c.speed.FromGuest} {
		if rate > 0 {
			facts[name] = strconv.FormatFloat(rate, 'f', 0, 64)
		}
	}
	return facts
}
