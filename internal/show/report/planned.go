package report

import (
	"github.com/goccy/go-yaml"

	"tare/internal/plan"
	"tare/internal/unit"
)

// planned is what a report takes from the plan in the bundle: the parameters behind each label. The full parser is not
// used, because it refuses a plan whose drivers or workloads this build does not know, and a report must not.
type planned struct {
	Workloads []plannedWorkload `yaml:"workloads"`
}

type plannedWorkload struct {
	Label  string            `yaml:"label"`
	Kind   string            `yaml:"kind"`
	Params map[string]string `yaml:"params"`
}

// params returns the parameters of each workload by label; empty when the model has no plan or one that cannot be read.
func (m *Model) params() map[string]map[string]string {
	by := map[string]map[string]string{}
	if len(m.Plan) == 0 || len(m.Plan) > plan.MaxFile {
		return by
	}
	var p planned
	if yaml.Unmarshal(m.Plan, &p) != nil {
		return by
	}
	for _, w := range p.Workloads {
		by[w.Label] = w.Params
	}
	return by
}

// sizeOf reads a parameter that is a number of bytes; 0 when it is none.
func sizeOf(params map[string]string, name string) int64 {
	text, ok := params[name]
	if !ok {
		return 0
	}
	n, err := unit.ParseSize(text)
	if err != nil {
		return 0
	}
	return n
}
