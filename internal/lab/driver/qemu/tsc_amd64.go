package qemu

import "time"

// rdtsc reads the CPU's time stamp counter.
func rdtsc() uint64

// tscTime is how long the counter is observed. Readings are exact to a microsecond, so the frequency is exact to 20
// ppm.
const tscTime = 50 * time.Millisecond

// hostTSC measures the frequency of this machine's time stamp counter, in kHz. Under TCG the guest's counter has the
// same frequency, because TCG passes on the host's counter.
func hostTSC() int64 {
	t0, c0 := tscReading()
	time.Sleep(tscTime)
	t1, c1 := tscReading()
	return int64(float64(c1-c0) / float64(t1.Sub(t0).Nanoseconds()) * 1e6)
}

// tscReading returns the clock and the counter at one moment. It uses the tightest of several readings, because this
// thread may be preempted during one.
func tscReading() (at time.Time, count uint64) {
	best := time.Hour
	for range 20 {
		before := time.Now()
		c := rdtsc()
		after := time.Now()
		if d := after.Sub(before); d < best {
			best, at, count = d, before.Add(d/2), c
		}
	}
	return at, count
}
