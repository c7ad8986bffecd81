package agent

import "testing"

// simulate runs a calibration against a machine on which work takes time by a formula.
func simulate(t *testing.T, target, most int64, takes func(step int,
	work int64) int64) (work, took, spent int64, steps int) {
	t.Helper()
	p := &pace{target: target, most: most, work: 1}
	for steps = 1; steps <= maxSteps; steps++ {
		took = takes(steps, p.work)
		spent += took
		did := p.work
		if p.step(took) {
			return p.work, took * p.work / did, spent, steps
		}
		if p.work < 1 || p.work > most {
			t.Fatalf("step %d asks for %d units of at most %d", steps, p.work, most)
		}
	}
	return p.work, took, spent, steps
}

func TestPaceFindsTheWork(t *testing.T) {
	const ms, target = int64(1e6), int64(300e6)
	for name, c := range map[string]struct {
		most           int64
		takes          func(step int, work int64) int64
		low, high      int64 // of the answer
		patience, step int64 // most time, as a multiple of the target; most steps
	}{
		"nanoseconds":      {boundless, func(_ int, w int64) int64 { return 40 + 5*w }, 60e6, 72e6, 3, 12},
		"milliseconds":     {boundless, func(_ int, w int64) int64 { return w * ms }, 300, 360, 3, 5},
		"one unit is much": {boundless, func(_ int, w int64) int64 { return w * 20 * target }, 1, 1, 21, 1},
		"one cold unit": {boundless, func(s int,
			w int64) int64 {
			return w*ms + map[bool]int64{true: target}[s == 1]
		}, 300, 360, 4, 6},
		"quadratic": {boundless, func(_ int, w int64) int64 { return 1000 * w * w }, 540, 800, 7, 8},
		"square root": {boundless, func(_ int, w int64) int64 { return ms * int64(sqrt(float64(w))) }, 90000,
			300000, 7, 12},
		"bounded":      {50, func(_ int, w int64) int64 { return w * ms }, 50, 50, 1, 4},
		"gets faster":  {boundless, func(s int, w int64) int64 { return w * 10 * ms / int64(s) }, 30, 400, 7, 10},
		"costly start": {boundless, func(_ int, w int64) int64 { return 20*ms + 1000*w }, 280000, 330000, 4, 12},
	} {
		work, took, spent, steps := simulate(t, target, c.most, c.takes)
		t.Logf("%s: %d units take %d ms; %d steps and %d ms", name, work, took/ms, steps, spent/ms)
		if work < c.low || work > c.high || spent > c.patience*target || int64(steps) > c.step {
			t.Errorf("%s: %d units (want %d to %d) after %d steps (at most %d) and %d ms (at most %d)",
				name, work, c.low, c.high, steps, c.step, spent/ms, c.patience*target/ms)
		}
	}
}

func sqrt(x float64) float64 {
	r := x
	for range 60 {
		r = (r + x/r) / 2
	}
	return r
}

func TestPaceGivesUpOnTimeThatDoesNotGrow(t *testing.T) {
	if work, _, _, steps := simulate(t, 1e6, boundless, func(int, int64) int64 { return 50 }); work != boundless ||
		steps >= maxSteps {
		t.Errorf("%d units after %d steps", work, steps)
	}
}

func TestCellNamesAreHarmlessAndDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, cell := range []string{"", ".", "..", "a", "A", "a/b", "a_b", "../../etc", "fs.randread bs=4KiB", "ä",
		string(make([]byte, 300))} {
		name := cellName(cell)
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q share %s", cell, other, name)
		}
		seen[name] = cell
		for _, c := range name {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				t.Errorf("%q became %q", cell, name)
			}
		}
		if len(name) > 60 {
			t.Errorf("%q became %d bytes long", cell, len(name))
		}
	}
}
