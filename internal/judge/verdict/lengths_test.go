package verdict

import (
	"testing"
	"time"

	"tare/internal/record"
)

// A stall in the middle of calibration leaves one target with trials a tenth as long as planned, which then slip
// between the time slices of a busy host. Seen on a real machine: a box that costs the same "cost" 2.2 times as much.
func TestTrialsLeftTooShortHaveNoVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		work   int64
		length float64 // of the host's trials, share of 0.3 s
		plan   time.Duration
		want   bool
	}{
		"host calibrated in a stall": {work: 100, length: 0.1, plan: 300 * time.Millisecond, want: true},
		"the same work":              {work: 1000, length: 0.1, plan: 300 * time.Millisecond},
		"long enough":                {work: 600, length: 0.6, plan: 300 * time.Millisecond},
		"longer than it has to be":   {work: 100, length: 0.1, plan: 10 * time.Millisecond},
	} {
		p := testPlan("cpu.prime")
		p.Trial = tc.plan
		r := world{plan: p, blocks: 10, noise: 0.003, cost: map[string]float64{"box": 2.2},
			change: func(t *record.Trial) {
				if t.Target == "host" {
					t.Work = tc.work
					t.AgentNS = int64(float64(t.AgentNS) * tc.length)
					t.ControllerNS = int64(float64(t.ControllerNS) * tc.length)
				}
			}}.evaluate()
		c := cell(t, r, "cpu.prime", "", "box")
		if got := warning(c, "short-trials") != nil; got != tc.want || (c.Verdict == record.Withheld) != tc.want {
			t.Errorf("%s: %s, %v", name, c.Verdict, c.Warnings)
		}
		if f := finding(r, "short-trials"); (f != nil) != tc.want {
			t.Errorf("%s: findings %+v", name, r.Findings)
		}
	}
}
