package sock

import "time"

// Pace has packets leave at a rate. The zero value has none wait.
type Pace struct {
	Gap   time.Duration // between two packets; 0: none
	began time.Time
}

// Start begins with the first packet.
func (p *Pace) Start() { p.began = time.Now() }

// Wait returns when the i-th packet is due, from 0, and says when that is since the start. A sender that is late sends
// at once until it has caught up. It sleeps and never spins, because the CPU time of a sender is measured, too.
func (p *Pace) Wait(i int64) time.Duration {
	now := time.Since(p.began)
	if p.Gap > 0 {
		if early := time.Duration(i)*p.Gap - now; early > 0 {
			time.Sleep(early)
			now = time.Since(p.began)
		}
	}
	return now
}

// Arrivals has a receiver's counts of numbered packets.
type Arrivals struct {
	Received int64
	Next     int64 // one more than the highest number so far, from 0
	Late     int64 // came after one with a higher number
	Jitter   float64
	transit  time.Duration
}

// Add counts a packet that left at a time by the sender's clock and came at another by the receiver's. Jitter is that
// of RFC 3550, in ns: a mean of the differences between one packet's time on the way and the next one's, so that the
// two clocks need not agree.
func (a *Arrivals) Add(number int64, left, came time.Duration) {
	transit := came - left
	if a.Received > 0 {
		d := float64(transit - a.transit)
		if d < 0 {
			d = -d
		}
		a.Jitter += (d - a.Jitter) / 16
	}
	a.transit = transit
	a.Received++
	if number >= a.Next {
		a.Next = number + 1
	} else {
		a.Late++
	}
}

// Lost is how many of so many packets did not arrive. A network that doubles packets hides as many lost ones.
func (a *Arrivals) Lost(sent int64) int64 { return max(sent-a.Received, 0) }
