package schedule

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// fakeFiles makes one file of a workload's parameter "log".
type fakeFiles struct {
	asked int
	err   error
}

func (m *fakeFiles) Of(context.Context, *plan.Workload) (map[string]deploy.File, error) {
	m.asked++
	return map[string]deploy.File{"log": {Digest: [32]byte{1}, Size: 9}}, m.err
}

func (m *fakeFiles) Doubts(*plan.Workload) []record.Warning {
	return []record.Warning{{Code: "replay-left-out"}}
}

// A file goes to each agent once, before the work is calibrated, and every job names it.
func TestFilesAreSentOnce(t *testing.T) {
	w := &peerWorld{world: newWorld(0.001, map[string]float64{"host": 100, "vm": 200, "mount": 300})}
	p := simPlan("host", "vm", "mount")
	p.Targets[2].Against = "vm"
	ran, _, err := simulate(t, t.Context(), w.world, p, func(c *Config) {
		c.Opener, c.Files, c.Peer = w, &fakeFiles{}, &fakePeer{}
		c.Kinds = func(string) (*workload.Kind, bool) { return &netKind, true }
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(w.supplied)
	if want := []string{"host", "mount", "vm"}; !slices.Equal(w.supplied, want) {
		t.Errorf("sent to %q, want %q", w.supplied, want)
	}
	digest := [32]byte{1}
	for _, j := range w.jobs {
		if j.Files["log"] != hex.EncodeToString(digest[:]) {
			t.Fatalf("a job has the files %v", j.Files)
		}
	}
	for _, tr := range ran.trials {
		if doubted := len(tr.Warnings) == 1; doubted != (tr.Target != "mount") {
			t.Errorf("a trial of %s has the warnings %v", tr.Target, tr.Warnings)
		}
	}
	if len(w.jobs) < 4 {
		t.Errorf("%d jobs", len(w.jobs))
	}
}

// A file that cannot be made or sent fails the cells that need it, and says why.
func TestFilesThatAreMissing(t *testing.T) {
	for _, c := range []struct {
		name           string
		making, taking error
	}{
		{"made", errors.New("line 7 is no record"), nil}, {"sent", nil, errors.New("no space left")},
	} {
		w := newWorld(0.001, map[string]float64{"host": 100})
		w.noSupply = c.taking
		m, _, err := simulate(t, t.Context(), w, simPlan("host"), func(cfg *Config) {
			cfg.Files = &fakeFiles{err: c.making}
		})
		if err != nil || len(m.trials) == 0 {
			t.Fatalf("%s: %v, %d trials", c.name, err, len(m.trials))
		}
		want := errors.Join(c.making, c.taking).Error()
		for _, tr := range m.trials {
			if tr.Error == nil || !strings.Contains(tr.Error.Message, want) {
				t.Errorf("%s: got %v, want %q", c.name, tr.Error, want)
			}
		}
	}
}
