package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tare/internal/plan"
	"tare/internal/record"
)

// hostWatch watches what an environment's processes on this machine use during a trial.
type hostWatch struct {
	read   func() (map[string]time.Duration, error)
	before map[string]time.Duration
}

// watchHost begins; the result may be used where nothing is known.
func watchHost(read func() (map[string]time.Duration, error)) (h hostWatch) {
	if read != nil {
		if before, err := read(); err == nil {
			h = hostWatch{read, before}
		}
	}
	return h
}

// hostFigures adds the kind's figure of it to those of a trial that has ended well, and as a state the share of each
// name of a thread.
func (x *trialRunner) hostFigures(h hostWatch, w *plan.Workload, t *record.Trial) {
	k, ok := x.peer.kinds(w.Kind)
	if !ok || k.HostCPU == nil || h.read == nil || t.Error != nil || t.Work < 1 {
		return
	}
	after, err := h.read()
	if err != nil {
		return
	}
	var sum time.Duration
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if d := after[name] - h.before[name]; d > 0 {
			sum += d
			parts = append(parts, fmt.Sprintf("%s %.3f s", name, d.Seconds()))
		}
	}
	if sum == 0 {
		return
	}
	if metric, v := k.HostCPU(sum, t.Work); metric != "" {
		if t.Metrics == nil {
			t.Metrics = map[string]float64{}
		}
		t.Metrics[metric] = v
	}
	if t.State == nil {
		t.State = map[string]string{}
	}
	t.State["host_cpu"] = strings.Join(parts, ", ")
}
