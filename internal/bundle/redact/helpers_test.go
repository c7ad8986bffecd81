package redact

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/bundle"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

func testPlan() *plan.Plan {
	host := env.Spec{Name: "host", Driver: "local"}
	return &plan.Plan{Schema: 1, Baseline: "host", Seed: 7, Mode: plan.Quick, Trial: time.Second, Sessions: 1,
		Looks: []int{10, 30},
		Alpha: 0.05, LookAlpha: 0.03, Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Targets:   []plan.Target{{Name: host.Name, Spec: host, Text: "local"}},
		Workloads: []plan.Workload{{Label: "w", Kind: "cpu.prime", Params: workload.Params{"max": "10"}}}}
}

func testTrial(i int) *record.Trial {
	return &record.Trial{Session: 1, Block: 1, Workload: "w", Target: "host", Work: 100,
		Start:   time.Unix(1e9+int64(i), 0).UTC(),
		AgentNS: int64(i) * 1000, ControllerNS: int64(i)*1000 + 3,
		Figures: record.Figures{Metrics: map[string]float64{"eps": 1.5 * float64(i)},
			Samples: map[string][]float64{"lat": {0.1, 1e-9, float64(i)}}, Checks: map[string]string{"n": "1228"}}}
}

// files returns the content of each file of a bundle.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		out[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// verify returns what Verify found, in one text.
func verify(t *testing.T, dir string) (*bundle.Report, string) {
	t.Helper()
	r, err := bundle.Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintln(&b, p)
	}
	return r, b.String()
}
