package report

import (
	"maps"
	"slices"
	"strings"

	"tare/internal/measure/workload"
	iozone "tare/internal/measure/workload/matrix"
	"tare/internal/unit"
)

// matrixKind is the workload kind that measures one row of iozone's matrix: one file size and one record size.
const matrixKind = "fs.matrix"

// matrixOps are the columns of iozone's matrix, in the order of the kind's operations.
var matrixOps = iozone.AllOps()

// matrix holds the medians of file size x record size x operation x target that share every other parameter.
type matrix struct {
	// the other parameters that tell it from the run's other matrices: "direct=true"; "" for the only one
	variant string
	targets []string // the baseline first
	ops     []int    // indices into matrixOps that have a figure
	sizes   []int64  // file sizes, bytes, ascending
	records []int64  // record sizes, bytes, ascending
	kib     map[matrixPoint]float64
}

type matrixPoint struct {
	target, op   string
	size, record int64
}

// at returns the figure in KiB/s; false where there is none.
func (x *matrix) at(target string, op int, size, record int64) (float64, bool) {
	v, ok := x.kib[matrixPoint{target, matrixOps[op].String(), size, record}]
	return v, ok
}

// params returns the parameters of each workload by label; empty when the model has no plan.
func (m *Model) params() map[string]workload.Params {
	by := map[string]workload.Params{}
	if m.Plan == nil {
		return by
	}
	for i := range m.Plan.Workloads {
		w := &m.Plan.Workloads[i]
		by[w.Label] = w.Params
	}
	return by
}

// sizeOf reads a parameter that is a number of bytes; 0 when it is none.
func sizeOf(params workload.Params, name string) int64 {
	n, err := unit.ParseSize(params[name])
	if err != nil {
		return 0
	}
	return n
}

// matrices collects the cells of matrixKind. A figure of a cell whose verdict is withheld stands, because a matrix is
// not a ranking; one that was not measured is missing.
func (m *Model) matrices() []*matrix {
	params := m.params()
	groups := map[string]*matrix{}
	var order []string
	for i := range m.Cells {
		c := &m.Cells[i]
		p := params[c.Workload]
		size, record := sizeOf(p, "size"), sizeOf(p, "bs")
		scale := bytesIn[strings.TrimSuffix(c.Unit, "/s")] / 1024
		if c.Kind != matrixKind || opIndex(c.Metric) < 0 || size <= 0 || record <= 0 || !(scale > 0) ||
			!strings.HasSuffix(c.Unit, "/s") {
			continue
		}
		key := variantOf(p)
		x := groups[key]
		if x == nil {
			x = &matrix{variant: key, kib: map[matrixPoint]float64{}}
			groups[key] = x
			order = append(order, key)
		}
		x.set(matrixPoint{c.Baseline, c.Metric, size, record}, c.BaselineCenter*scale)
		x.set(matrixPoint{c.Target, c.Metric, size, record}, c.Center*scale)
	}
	var all []*matrix
	for _, key := range order {
		if x := groups[key]; len(x.kib) > 0 {
			x.arrange(m)
			all = append(all, x)
		}
	}
	dropCommon(all)
	return all
}

func (x *matrix) set(at matrixPoint, v float64) {
	if v > 0 {
		x.kib[at] = v
	}
}

// arrange fills in the axes from the points.
func (x *matrix) arrange(m *Model) {
	targets, ops, sizes, records := map[string]bool{}, map[int]bool{}, map[int64]bool{}, map[int64]bool{}
	for p := range x.kib {
		targets[p.target], ops[opIndex(p.op)], sizes[p.size], records[p.record] = true, true, true, true
	}
	x.ops, x.sizes, x.records = slices.Sorted(maps.Keys(ops)), slices.Sorted(maps.Keys(sizes)),
		slices.Sorted(maps.Keys(records))
	for _, baseline := range []bool{true, false} {
		for i := range m.Targets {
			if t := &m.Targets[i]; targets[t.Name] && t.Baseline == baseline {
				x.targets = append(x.targets, t.Name)
			}
		}
	}
}

func opIndex(metric string) int {
	return slices.IndexFunc(matrixOps, func(o iozone.Op) bool { return o.String() == metric })
}

// variantOf writes all parameters but the two axes.
func variantOf(params map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(params)) {
		if k != "size" && k != "bs" && params[k] != "" {
			parts = append(parts, k+"="+params[k])
		}
	}
	return strings.Join(parts, " ")
}

// dropCommon removes from the variants the settings that all have.
func dropCommon(all []*matrix) {
	count := map[string]int{}
	for _, x := range all {
		for _, w := range strings.Fields(x.variant) {
			count[w]++
		}
	}
	for _, x := range all {
		var parts []string
		for _, w := range strings.Fields(x.variant) {
			if count[w] < len(all) {
				parts = append(parts, w)
			}
		}
		x.variant = clean(strings.Join(parts, " "))
	}
}

// sizeText writes a number of bytes as parameters do: 4 KiB.
func sizeText(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return unit.Number(float64(n/u.bytes)) + " " + u.name
		}
	}
	return unit.Format(float64(n), "B")
}
