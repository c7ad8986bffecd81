package verdict

import (
	"strings"

	"tare/internal/plan"
)

// Flushes tells whether a plan has work that waits for its writes to reach the disk: then what a flush does in each
// target is part of the answer, and worth a second or two of trying.
func Flushes(p *plan.Plan) bool {
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if strings.HasPrefix(w.Kind, "durability.") || w.Kind == "fs.matrix" && w.Params["preset"] == "direct4k" {
			return true
		}
		if _, ok := writesByKind[w.Kind]; !ok {
			continue
		}
		switch w.Params["fsync"] {
		case "", "false", "none":
		default:
			return true
		}
	}
	return false
}
