// Package clock is the monotonic clock that work is timed by. It is package time's but on Windows: there that one reads
// the time of the last interrupt, which moves in steps of 0.5 to 15.6 ms (golang/go#31160), and this one the
// performance counter, which moves in steps of 100 ns or less.
package clock
