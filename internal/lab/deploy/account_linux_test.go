package deploy_test

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

func init() { systemKinds = append(systemKinds, kind("t.naps", behaviour{measure: naps})) }

// nap is how long a unit of naps computes, and then sleeps.
const nap = 10 * time.Millisecond

// naps computes and sleeps in turn, and notes what it had of both by clocks of its own: the CPU clock of its thread,
// and the wall around each sleep.
func naps(_ context.Context, b *workload.Bench) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
			panic(err)
		}
		return time.Duration(t.Nano())
	}
	began, slept := cpu(), time.Duration(0)
	var sum uint64
	for range b.Work {
		for until := cpu() + nap; cpu() < until; {
			for i := range uint64(1000) {
				sum = sum*6364136223846793005 + i
			}
		}
		t := unix.NsecToTimespec(int64(nap))
		lay := time.Now()
		for unix.Nanosleep(&t, &t) == unix.EINTR {
		}
		slept += time.Since(lay)
	}
	sink.Store(sum)
	b.Note("cpu_ns", strconv.FormatInt(int64(cpu()-began), 10))
	b.Note("slept_ns", strconv.FormatInt(int64(slept), 10))
	return nil
}

// TestTheAccountAgainstOtherClocks holds the time on a processor and the remainder each against clocks that the account
// does not use. That all parts together are the trial's time says nothing of either: the remainder is made so.
func TestTheAccountAgainstOtherClocks(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	const work = 30
	o := run(t, s, wire.Run{Job: job("t.naps"), Work: work})
	noted := func(name string) float64 {
		v, err := strconv.ParseFloat(o.Result.State[name], 64)
		if err != nil || v < work*float64(nap) {
			t.Fatalf("%s is %q: %v", name, o.Result.State[name], err)
		}
		return v
	}
	a, elapsed := o.Account, float64(o.Result.ElapsedNS)
	computed, slept := noted("cpu_ns"), noted("slept_ns")
	t.Logf("%.0f ns: computed for %.0f, asleep for %.0f; %v", elapsed, computed, slept, a.Counts)
	// Threads of the Go runtime beside the one that works are in the account, and not in the clocks.
	off := 20e6 + 0.05*elapsed
	if cpu := float64(a.Counts[record.UserNS] + a.Counts[record.KernelNS]); math.Abs(cpu-computed) > off {
		t.Errorf("user and kernel are %.0f ns, by the thread's clock %.0f", cpu, computed)
	}
	other := float64(a.Counts[record.OtherNS])
	// Where all threads together waited longer for a processor than this one can have, those of the runtime did too.
	asked, ready := work*float64(nap), float64(a.Counts[record.ReadyNS])
	if other < asked-off && ready <= elapsed-computed-asked+off {
		t.Errorf("the remainder is %.0f ns, and %.0f were slept at the least", other, asked)
	}
	// Waking up may take long on a busy machine: that is a wait for a processor, where the kernel tells it.
	if most := slept + float64(a.Counts[record.StolenNS]) + off; a.Unmeasured[record.ReadyNS] == "" && other > most {
		t.Errorf("the remainder is %.0f ns, and at most %.0f can be", other, most)
	}
}

// TestTheAccountAddsUp holds that the parts of a trial's time are its length, and that they are the right ones, for
// work that computes, that sleeps, and that waits for a disk. However busy the machine is, a thread that wants to run
// runs, or waits for a processor, or its hypervisor has taken that.
func TestTheAccountAddsUp(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	for name, work := range map[string]int64{"t.spin": 300_000, "t.sleep": 300, "t.synced": 300} {
		o := run(t, s, wire.Run{Job: job(name), Work: work})
		a, elapsed := o.Account, float64(o.Result.ElapsedNS)
		if a == nil {
			t.Fatalf("%s has no account", name)
		}
		t.Logf("%s: %.0f ns, %.3f lanes, %v, not measured: %v", name, elapsed, a.Lanes, a.Counts, a.Unmeasured)
		var sum float64
		for _, part := range record.AccountParts() {
			sum += float64(a.Counts[part])
			if _, known := a.Counts[part]; known == (a.Unmeasured[part] != "") {
				t.Errorf("%s: %s is %d and not measured because %q", name, part, a.Counts[part], a.Unmeasured[part])
			}
		}
		if whole := a.Lanes * elapsed; math.Abs(sum-whole) > 0.02*whole {
			t.Errorf("%s: the parts are %.0f ns, and %.2f lanes of the trial %.0f ns", name, sum, a.Lanes, whole)
		}
		bare := run(t, s, wire.Run{Job: job(name), Work: 1, Bare: true})
		if _, read := bare.Account.Counts[record.AccountNS]; read {
			t.Errorf("%s: a trial that was to do without has the counters of the account: %v", name,
				bare.Account.Counts)
		}
		if a.Counts[record.AccountNS] <= 0 {
			t.Errorf("%s: the account says that it took %d ns", name, a.Counts[record.AccountNS])
		}
		const lag = 20e6 // as in package timeaccount
		cpu := float64(a.Counts[record.UserNS] + a.Counts[record.KernelNS])
		waited := float64(a.Counts[record.ReadyNS] + a.Counts[record.StolenNS])
		switch name {
		case "t.spin":
			if cpu+waited < 0.9*elapsed-lag {
				t.Errorf("a thread that computes ran for %.0f ns and waited for a processor for %.0f of %.0f", cpu,
					waited, elapsed)
			}
			if cpu < float64(a.Counts[record.KernelNS])*2 {
				t.Errorf("it computed in the kernel: %v", a.Counts)
			}
		case "t.sleep":
			if other := float64(a.Counts[record.OtherNS]); other < 0.5*a.Lanes*elapsed {
				t.Errorf("a thread that sleeps did something else for all but %.0f of %.0f ns", other, elapsed)
			}
			if a.Counts[record.SwitchesVoluntary] < 1 {
				t.Error("it slept without leaving the processor")
			}
		case "t.synced":
			if got := a.Counts[record.WrittenBytes]; got < work*4096 || got > work*4096+64<<10 {
				t.Errorf("it wrote %d bytes, and the account says %d", work*4096, got)
			}
			// User code and kernel are told apart at ticks, of which there are few here.
			if cpu <= 0 || a.Counts[record.SwitchesVoluntary] < 1 {
				t.Errorf("it wrote and waited without a processor: %v", a.Counts)
			}
		}
	}
}
