package deploy_test

import (
	"math"
	"testing"

	"tare/internal/measure/wire"
	"tare/internal/record"
)

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
