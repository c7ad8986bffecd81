package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/kvm"
)

// errEmulated says of a machine that an emulator runs that its processors do not leave it for KVM.
var errEmulated = errors.New("no exits: the processor is emulated")

// hostExits returns a function that reads the exits of an environment's virtual processors, by kind, where KVM runs
// them; nil for environments that are no machines of KVM's or an emulator's.
func hostExits(opened env.Env) func() (map[string]int64, error) {
	own, ok := opened.(env.HostProcesses)
	if !ok {
		return nil
	}
	facts := opened.Facts()
	switch {
	case facts.Emulated:
		return func() (map[string]int64, error) { return nil, errEmulated }
	case !strings.HasSuffix(facts.Hypervisor, "kvm"):
		return nil
	}
	debug := func() (map[string]int64, error) { return exitsOf(kvm.Debug, own.Processes()) }
	counter, ok := opened.(env.ExitCounter)
	if !ok {
		return debug
	}
	var read func() (map[string]int64, error) // one of the two for all trials
	return func() (map[string]int64, error) {
		if read != nil {
			return read()
		}
		got, err := counter.Exits()
		if err == nil {
			read = counter.Exits
			return got, nil
		}
		got, other := debug()
		if other != nil {
			return nil, fmt.Errorf("%w; %w", err, other)
		}
		read = debug
		return got, nil
	}
}

func exitsOf(debug string, pids []int) (map[string]int64, error) {
	sum := map[string]int64{}
	for _, pid := range pids {
		exits, err := kvm.Exits(debug, pid)
		if err != nil {
			return nil, err
		}
		for name, n := range exits {
			sum[name] += n
		}
	}
	return sum, nil
}

// exitWatch watches the exits of an environment during a trial.
type exitWatch struct {
	read   func() (map[string]int64, error)
	before map[string]int64
	err    error
}

// watchExits begins; the result may be used where nothing is known.
func watchExits(read func() (map[string]int64, error)) (w exitWatch) {
	if w.read = read; read != nil {
		w.before, w.err = read()
	}
	return w
}

// record adds the exits since the beginning, or why they are not known, as a state to a trial that has ended well:
// "exits 1200, io_exits 300, halt_exits 12".
func (w *exitWatch) record(t *record.Trial) {
	if w.read == nil || t.Error != nil {
		return
	}
	var after map[string]int64
	if w.err == nil {
		after, w.err = w.read()
	}
	if t.State == nil {
		t.State = map[string]string{}
	}
	switch {
	case errors.Is(w.err, errEmulated):
		t.State[record.HostExits] = w.err.Error()
	case w.err != nil:
		t.State[record.HostExits] = record.NotMeasured + w.err.Error()
	default:
		t.State[record.HostExits] = exitsText(w.before, after)
	}
}

// exitsText has the exits between two readings, the most first.
func exitsText(before, after map[string]int64) string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(after)), func(name string) bool {
		return after[name] <= before[name] && name != "exits"
	})
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(after[b]-before[b], after[a]-before[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %d", name, max(0, after[name]-before[name]))
	}
	return strings.Join(parts, ", ")
}
