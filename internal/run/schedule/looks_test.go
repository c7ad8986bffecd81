package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tare/internal/record"
)

// TestRunsKeepTheirLevel carries out many runs in which nothing differs: each decides at the blocks that its plan names
// and nowhere else, follows the order that its recorded seed gives, and the rate at which an interval excludes "no
// cost" at any look is the one that the levels of the looks were made for.
func TestRunsKeepTheirLevel(t *testing.T) {
	const runs, most = 300, 24 // 5 % are 15; 24 are exceeded once in a hundred
	alarms := 0
	for i := range runs {
		p := onePlan("host", "box")
		p.Seed = uint64(1000 + i)
		w := newWorld(0.30, map[string]float64{"host": 1, "box": 1})
		w.rng = rand.New(rand.NewPCG(uint64(i), 3))
		var looks []int
		alarm := false
		blocks := 0
		m, _, err := simulate(t, t.Context(), w, p, func(c *Config) {
			c.Events = func(e Event) {
				switch e.Kind {
				case BlockDone:
					blocks++
				case Looked:
					looks = append(looks, blocks)
					r := cellOf(e.Result, "one", "box").Ratio
					alarm = alarm || r.Low > 1 || r.High < 1
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(looks, p.Looks[:len(looks)]) || blocks != looks[len(looks)-1] {
			t.Fatalf("run %d looked at the blocks %v of %d, the plan says %v", i, looks, blocks, p.Looks)
		}
		if alarm {
			alarms++
		}
		slots := []record.Trial{{Target: "host"}, {Target: "host", Slot: record.NullSlot}, {Target: "box"}}
		orders := Orders(p.Seed, "one/1", len(slots))
		for _, tr := range m.trials {
			if tr.Warmup() {
				continue
			}
			if want := slots[orders(tr.Block)[tr.Position]]; tr.Target != want.Target || tr.Slot != want.Slot {
				t.Fatalf("run %d, block %d: %s%s has place %d, where seed %d has %s%s", i, tr.Block, tr.Target, tr.Slot,
					tr.Position, p.Seed, want.Target, want.Slot)
			}
		}
	}
	t.Logf("%d of %d runs excluded 1 at some look", alarms, runs)
	if alarms > most || alarms == 0 {
		t.Errorf("%d of %d runs excluded 1 at some look, and 5 %% may", alarms, runs)
	}
}
