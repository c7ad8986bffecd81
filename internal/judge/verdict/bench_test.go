package verdict

import (
	"fmt"
	"testing"

	"tare/internal/plan"
)

// BenchmarkEvaluate is one look at 60 cells of 60 blocks.
func BenchmarkEvaluate(b *testing.B) {
	p := testPlan()
	for i := range 30 {
		p.Workloads = append(p.Workloads, plan.Workload{Label: fmt.Sprint("w", i), Kind: "cpu.prime"})
	}
	in := world{plan: p, blocks: 60, noise: 0.01}.input()
	for b.Loop() {
		Evaluate(in)
	}
}
