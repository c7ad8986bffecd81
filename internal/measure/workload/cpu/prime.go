package cpu

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"tare/internal/measure/workload"
	"tare/internal/sys/thread"
)

// prime is a trial of cpu.prime.
type prime struct {
	max     uint64
	threads int
	pin     bool

	want   uint64 // primes that each event must find
	team   *thread.Team
	shares []share
}

// share is one thread's part of the work. It fills two cache lines, so that no two threads write to the same one, nor
// to the pair that a prefetcher may fetch together.
type share struct {
	events int64
	wrong  int64  // events that did not find the right number
	found  uint64 // the count of the last wrong one
	_      [128 - 24]byte
}

func newPrime(p workload.Params) (workload.Trial, error) {
	return &prime{max: uint64(p.Int("max")), threads: int(p.Int("threads")), pin: p.Bool("pin")}, nil
}

func (t *prime) Setup(_ context.Context, b *workload.Bench) error {
	t.want = sievePrimes(t.max)
	t.shares = make([]share, t.threads)
	if usable, err := thread.UsableCPUs(); err == nil && t.threads > len(usable) {
		b.Warn("more-threads-than-processors",
			fmt.Sprintf("%d threads share %d usable processors", t.threads, len(usable)),
			"set threads to at most the number of processors of the smallest environment")
	}
	var err error
	t.team, err = thread.Start(t.threads, t.pin)
	return err
}

// Measure hands out events through a shared counter, as sysbench does with --events: a delayed thread takes fewer of
// them, and the others do not wait for it. The counter is touched once per event, outside the search.
func (t *prime) Measure(_ context.Context, b *workload.Bench) error {
	var next atomic.Int64
	work, limit, want := b.Work, t.max, t.want
	t.team.Do(func(i int) {
		var s share
		for next.Add(1) <= work {
			if n := countPrimes(limit); n != want {
				s.wrong++
				s.found = n
			}
			s.events++
		}
		t.shares[i] = s
	})
	return nil
}

// Report checks the counts and gives the figures.
func (t *prime) Report(b *workload.Bench) error {
	events := make([]string, len(t.shares))
	for i, s := range t.shares {
		if s.wrong != 0 {
			return fmt.Errorf("count primes below %d: %d of %d events of thread %d were wrong; the last found %d "+
				"instead of %d: this processor or its emulation computes wrong results",
				t.max, s.wrong, s.events, i, s.found, t.want)
		}
		events[i] = strconv.FormatInt(s.events, 10)
	}
	b.Check("primes_per_event", strconv.FormatUint(t.want, 10))
	b.Note("events_by_thread", strings.Join(events, " "))
	if t.pin {
		b.Note("processors", strings.Trim(fmt.Sprint(t.team.CPUs()), "[]"))
	}
	b.Report("events_per_second", b.Rate(1))
	b.Report("time_10k_events", 10_000/b.Rate(1))
	return nil
}

func (t *prime) Cleanup(*workload.Bench) error {
	if t.team != nil {
		t.team.Close()
	}
	return nil
}

// countPrimes is one event of sysbench's sb_cpu.c: for each c from 3 to limit-1 it divides by l = 2, 3, ... for as long
// as l <= sqrt(c), compared in double precision, until a division leaves no remainder; c is counted when none did.
//
// The division by 2 is written as the test of a bit that gcc and clang make of it in every build of sysbench. With it
// the loop is theirs, one 64-bit DIV, one conversion and one comparison for each l; without it this would be 5 % slower
// than sysbench. Comparing integers instead would make it 5 % faster and no longer the same work.
//
// limit must be below 1<<53, where the conversion to double is exact.
func countPrimes(limit uint64) (n uint64) {
	for c := uint64(3); c < limit; c++ {
		t := math.Sqrt(float64(int64(c)))
		l := uint64(2)
		if float64(int64(l)) <= t {
			if c&1 == 0 {
				continue
			}
			// The conversions go through int64, one instruction, where uint64 would add a branch.
			for l = 3; float64(int64(l)) <= t; l++ {
				if c%l == 0 {
					break
				}
			}
		}
		if float64(int64(l)) > t {
			n++
		}
	}
	return n
}

// sievePrimes counts the primes from 3 to limit-1 by the sieve of Eratosthenes over odd numbers: what countPrimes must
// find, by a way that shares nothing with it.
func sievePrimes(limit uint64) (n uint64) {
	if limit <= 3 {
		return 0
	}
	composite := make([]bool, limit/2) // index i stands for 2i+1
	for i := uint64(1); i < uint64(len(composite)); i++ {
		if composite[i] {
			continue
		}
		n++
		p := 2*i + 1
		if p > limit/p {
			continue
		}
		for m := p * p / 2; m < uint64(len(composite)); m += p {
			composite[m] = true
		}
	}
	return n
}
