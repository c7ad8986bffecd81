package schedule

import (
	"errors"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/record"
)

// fakeMachine is an environment that some hypervisor runs on this machine.
type fakeMachine struct {
	env.Env
	facts record.Facts
}

func (m fakeMachine) Facts() record.Facts { return m.facts }
func (m fakeMachine) Processes() []int    { return []int{1} }

func TestExitsOfATrial(t *testing.T) {
	of := func(before, after map[string]int64, err error) string {
		n := 0
		w := watchExits(func() (map[string]int64, error) {
			if n++; n == 1 {
				return before, nil
			}
			return after, err
		})
		var done record.Trial
		w.record(&done)
		return done.State[record.HostExits]
	}
	before := map[string]int64{"exits": 1000, "io_exits": 10, "halt_exits": 5, "signal_exits": 1}
	after := map[string]int64{"exits": 1500, "io_exits": 310, "halt_exits": 25, "signal_exits": 1}
	if got, want := of(before, after, nil), "exits 500, io_exits 300, halt_exits 20"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := of(before, before, nil), "exits 0"; got != want {
		t.Errorf("of a machine that was still: %q, want %q", got, want)
	}
	if got, want := of(before, nil, errors.New("gone")), "not measured: gone"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	emulated := hostExits(fakeMachine{facts: record.Facts{Hypervisor: "qemu tcg", Emulated: true}})
	var done record.Trial
	w := watchExits(emulated)
	if w.record(&done); done.State[record.HostExits] != "no exits: the processor is emulated" {
		t.Errorf("of an emulated machine: %q", done.State)
	}
	if hostExits(fakeMachine{facts: record.Facts{Hypervisor: "virtualbox"}}) != nil {
		t.Error("another hypervisor's machine is asked of KVM")
	}
	if hostExits(fakeMachine{facts: record.Facts{Hypervisor: "qemu kvm"}}) == nil {
		t.Error("a machine of KVM's is not asked for its exits")
	}
}
