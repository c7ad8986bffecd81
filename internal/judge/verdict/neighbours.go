package verdict

import (
	"tare/internal/record"
)

// Neighbour is a cell of the matrix of victims and neighbours: what a neighbour at work costs a workload in a target,
// and what becomes of the neighbour.
type Neighbour struct {
	Victim    string `json:"victim"`    // the target as it is alone
	Workload  string `json:"workload"`  // label
	Neighbour string `json:"neighbour"` // its name
	In        string `json:"in"`        // where it ran
	Load      string `json:"load"`      // what it did
	Target    string `json:"target"`    // the victim beside the neighbour, as in the cells
	Metric    string `json:"metric"`
	// The ratio is that of the cell: the cost beside the neighbour to the cost alone.
	Ratio   float64        `json:"ratio"`
	Low     float64        `json:"low"`
	High    float64        `json:"high"`
	Level   float64        `json:"level"`
	Blocks  int            `json:"blocks"`
	Verdict record.Verdict `json:"verdict"`
	// Alone and Beside are medians of what the neighbour itself did in a second: just before the trials, alone, and
	// during them; 0 where there is no trial. Unit is that of its work.
	Alone  float64 `json:"neighbour_alone"`
	Beside float64 `json:"neighbour_beside"`
	Unit   string  `json:"neighbour_unit"`
	// Covered is the least share of a trial in which the neighbour was at work.
	Covered float64 `json:"covered"`
}

// neighbours are the primary cells of targets with a neighbour, compared with the same target alone.
func (cm *cellMaker) neighbours() []Neighbour {
	var out []Neighbour
	for _, c := range cm.cells {
		e, ok := cm.plan.Target(c.Target)
		if !ok || !c.Primary || e.Beside == "" || c.Baseline != e.Like {
			continue
		}
		n, ok := cm.plan.Neighbour(e.Beside)
		if !ok {
			continue
		}
		x := Neighbour{Victim: e.Like, Workload: c.Workload, Neighbour: n.Name, In: n.In[e.Like], Load: n.Label,
			Target: c.Target, Metric: c.Metric, Ratio: c.Ratio.Center, Low: c.Low, High: c.High, Level: c.Level,
			Blocks: c.Ratio.Blocks, Verdict: c.Verdict, Unit: "unit"}
		if k, ok := cm.kinds(n.Kind); ok && k.WorkUnit != "" {
			x.Unit = k.WorkUnit
		}
		var alone, beside []float64
		for _, k := range c.keys {
			b := c.candidate.used[k].Beside
			if b == nil {
				continue
			}
			alone, beside = append(alone, b.First.PerSecond()), append(beside, b.During.PerSecond())
			if len(alone) == 1 || b.Covered < x.Covered {
				x.Covered = b.Covered
			}
		}
		x.Alone, x.Beside = finite(medianOf(alone)), finite(medianOf(beside))
		out = append(out, x)
	}
	return out
}
