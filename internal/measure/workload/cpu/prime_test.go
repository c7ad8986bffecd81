package cpu

import (
	"context"
	"math/big"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
)

func TestKnownCounts(t *testing.T) {
	for limit, want := range map[uint64]uint64{10_000: 1228, 20_000: 2261} {
		if got := countPrimes(limit); got != want {
			t.Errorf("countPrimes(%d) = %d, want %d", limit, got, want)
		}
		if got := sievePrimes(limit); got != want {
			t.Errorf("sievePrimes(%d) = %d, want %d", limit, got, want)
		}
	}
}

// Every limit up to 3000 against a third way, so that neither the division nor the sieve is its own judge.
func TestCountsForEveryLimit(t *testing.T) {
	want := uint64(0) // primes from 3 to limit-1
	for limit := uint64(4); limit <= 3000; limit++ {
		if big.NewInt(int64(limit - 1)).ProbablyPrime(0) {
			want++
		}
		if got := countPrimes(limit); got != want {
			t.Fatalf("countPrimes(%d) = %d, want %d", limit, got, want)
		}
		if got := sievePrimes(limit); got != want {
			t.Fatalf("sievePrimes(%d) = %d, want %d", limit, got, want)
		}
	}
}

func FuzzCountAgreesWithSieve(f *testing.F) {
	for _, limit := range []uint32{0, 3, 4, 9, 25, 26, 10_000, 10_201, 10_202} {
		f.Add(limit)
	}
	f.Fuzz(func(t *testing.T, limit uint32) {
		l := uint64(limit % 50_000)
		if a, b := countPrimes(l), sievePrimes(l); a != b {
			t.Errorf("below %d: %d by division, %d by sieve", l, a, b)
		}
	})
}

func TestTrial(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "cpu.prime")
	for _, given := range []map[string]string{
		{}, {"max": "20000"}, {"threads": "2"}, {"max": "4", "threads": "3"},
	} {
		b := trialtest.Run(t, kind, given, 50)
		want := map[string]string{"": "1228", "20000": "2261", "4": "1"}[given["max"]]
		if b.Checks["primes_per_event"] != want {
			t.Errorf("%v: checks %v, want %s primes", given, b.Checks, want)
		}
		rate, time10k := b.Metrics["events_per_second"], b.Metrics["time_10k_events"]
		if r := rate * time10k; r < 9999.99 || r > 10000.01 {
			t.Errorf("%v: %g events/s and %g s for 10,000 events contradict each other", given, rate, time10k)
		}
	}
}

func TestEveryEventIsDoneOnce(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "cpu.prime")
	p, err := kind.Resolve(map[string]string{"max": "100", "threads": "3"})
	if err != nil {
		t.Fatal(err)
	}
	trial, _ := kind.New(p)
	pr := trial.(*prime)
	b, err := trialtest.TryTrial(t, pr, 1000)
	if err != nil {
		t.Fatal(err)
	}
	done := int64(0)
	for _, s := range pr.shares {
		done += s.events
	}
	if done != b.Work {
		t.Errorf("%d events done, want %d (%s)", done, b.Work, b.State["events_by_thread"])
	}
}

// miscounting expects another number of primes than there are, as a processor that computes wrongly would look.
type miscounting struct{ *prime }

func (m *miscounting) Setup(ctx context.Context, b *workload.Bench) error {
	err := m.prime.Setup(ctx, b)
	m.want++
	return err
}

func TestWrongCountIsAnError(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "cpu.prime")
	p, _ := kind.Resolve(nil)
	trial, _ := kind.New(p)
	pr := trial.(*prime)
	_, err := trialtest.TryTrial(t, &miscounting{prime: pr}, 3)
	if err == nil || !strings.Contains(err.Error(), "3 of 3 events of thread 0 were wrong") {
		t.Errorf("a processor that miscounts gave %v", err)
	}
}

func TestMoreThreadsThanProcessorsIsSaid(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "cpu.prime")
	b := trialtest.Run(t, kind, map[string]string{"threads": "512", "max": "10"}, 600)
	if len(b.Warnings) != 1 || b.Warnings[0].Code != "more-threads-than-processors" {
		t.Errorf("warnings %v, want one about 512 threads", b.Warnings)
	}
}

func TestRefusedParameters(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "cpu.prime")
	for _, given := range []map[string]string{{"max": "3"}, {"max": "ten"}, {"threads": "0"}, {"thread": "1"}} {
		if _, err := kind.Resolve(given); err == nil {
			t.Errorf("%v was accepted", given)
		}
	}
}

func BenchmarkEvent10000(b *testing.B) {
	for b.Loop() {
		if countPrimes(10_000) != 1228 {
			b.Fatal("wrong count")
		}
	}
}
