package live

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/plan"
)

// BenchmarkPage tells what the page costs the run: a report between two blocks, and an answer while a trial may run. 60
// workloads in two targets after 10 blocks are what a study has.
func BenchmarkPage(b *testing.B) {
	c := newCourse(&testing.T{})
	for i := range 58 {
		c.config.Plan.Workloads = append(c.config.Plan.Workloads,
			plan.Workload{Label: fmt.Sprint("w", i), Kind: "cpu.prime", Params: workload.Params{}})
	}
	for n := 1; n <= 10; n++ {
		for i := range c.config.Plan.Workloads {
			c.block(c.config.Plan.Workloads[i].Label, n)
		}
	}
	b.Run("report", func(b *testing.B) {
		for b.Loop() {
			c.changed["a"] = true
			c.publish(nil)
		}
	})
	for name, has := range map[string]int{"unchanged": c.report.version, "one workload": c.report.version - 1,
		"all": 0} {
		b.Run("answer "+name, func(b *testing.B) {
			for b.Loop() {
				if err := json.NewEncoder(io.Discard).Encode(c.state(has)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
