package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"

	"tare/internal/plan"
)

// matrix writes one matrix as iozone's workbook has it: below each other a label, a row of record sizes, and a row for
// each file size. The targets stand side by side, each in a band of its own. A second sheet has the curves.
func (b *workbook) matrix(x *matrix) {
	name := strings.TrimSpace(matrixKind + " " + x.variant)
	s := b.sheet(name)
	b.put(s, 1, 1, "kB/s, where 1 kB is 1024 bytes: the median over the blocks. The top row is record sizes in kB, "+
		"the left column is file sizes in kB.", 0)
	band := len(x.records) + 2
	at := map[matrixPoint]int{} // the row of an operation and a size; the same in every band
	for i, target := range x.targets {
		col := 1 + i*band
		b.put(s, col, 3, target, b.title)
		row := 5
		for _, op := range x.ops {
			b.put(s, col, row, matrixOps[op].Title(), b.label)
			for j, r := range x.records {
				b.put(s, col+1+j, row+1, r>>10, b.head)
			}
			row += 2
			for _, size := range x.sizes {
				b.put(s, col, row, size>>10, b.head)
				for j, r := range x.records {
					if v, ok := x.at(target, op, size, r); ok {
						b.put(s, col+1+j, row, v, b.figure)
					}
				}
				at[matrixPoint{op: matrixOps[op].String(), size: size}] = row
				row++
			}
			row++
		}
	}
	// Wide enough for kB/s of memory: a figure that does not fit is shown as a row of #.
	if last, err := excelize.ColumnNumberToName(len(x.targets) * band); err != nil {
		b.fail(err)
	} else {
		b.fail(b.file.SetColWidth(s, "A", last, 14))
	}
	b.matrixCurves(x, s, name, band, at)
}

// curveOps are the operations of the published study that this matrix comes from: sequential and random, both ways.
var curveOps = []string{"read", "randread", "write", "randwrite"}

// matrixCurves draws, for the smallest and the largest file, throughput over record sizes with a line for each target.
func (b *workbook) matrixCurves(x *matrix, s, name string, band int, at map[matrixPoint]int) {
	if len(x.records) < 2 || b.err != nil {
		return
	}
	page := b.sheet(name + " curves")
	sizes := []int64{x.sizes[0]}
	if last := x.sizes[len(x.sizes)-1]; last != sizes[0] {
		sizes = append(sizes, last)
	}
	n := 0
	for _, size := range sizes {
		for _, op := range curveOps {
			row, ok := at[matrixPoint{op: op, size: size}]
			if !ok || b.err != nil {
				continue
			}
			// The row of record sizes stands above the first file size of the operation.
			head := at[matrixPoint{op: op, size: x.sizes[0]}] - 1
			records := len(x.records)
			for records > 1 && x.records[records-1] > size {
				records--
			}
			var series []excelize.ChartSeries
			for i := range x.targets {
				col := 1 + i*band
				series = append(series, lineSeries(i, b.span(s, col, 3, col, 3),
					b.span(s, col+1, head, col+records, head), b.span(s, col+1, row, col+records, row)))
			}
			title := fmt.Sprintf("%s of a %s file", strings.TrimSuffix(matrixOps[opIndex(op)].Title(), " report"),
				sizeText(size))
			b.curve(page, b.address(1+11*(n%2), 1+27*(n/2)), title, "record size, kB", "kB/s", series)
			n++
		}
	}
}

func lineSeries(i int, name, categories, values string) excelize.ChartSeries {
	c := seriesColour(i)
	fill := excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{c}}
	return excelize.ChartSeries{Name: name, Categories: categories, Values: values,
		Line:   excelize.LineOptions{Width: 2, Fill: fill},
		Marker: excelize.ChartMarker{Symbol: "circle", Size: 6, Fill: fill}}
}

// axisFont is dark enough to be read: left to itself, excelize writes axes in the grey of their grid.
var axisFont = excelize.Font{Color: "404040", Size: 9}

func (b *workbook) curve(sheet, at, title, x, y string, series []excelize.ChartSeries) {
	b.fail(b.file.AddChart(sheet, at, &excelize.Chart{
		Type: excelize.Line, Series: series, Title: plainTitle(title),
		Dimension: excelize.ChartDimension{Width: 680, Height: 420},
		Legend:    excelize.ChartLegend{Position: "bottom"}, ShowBlanksAs: "gap",
		XAxis: excelize.ChartAxis{Title: plainTitle(x), Font: axisFont},
		YAxis: excelize.ChartAxis{Title: plainTitle(y), Font: axisFont, MajorGridLines: true, LogBase: 10},
	}))
}

// kinds writes a sheet for each kind of workload but the matrix: for each metric a table of workloads by targets.
func (b *workbook) kinds() {
	var order []string
	rows := map[string][]*Row{}
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Kind == matrixKind && b.Plan != nil {
			continue
		}
		if rows[r.Kind] == nil {
			order = append(order, r.Kind)
		}
		rows[r.Kind] = append(rows[r.Kind], r)
	}
	for _, kind := range order {
		b.kind(kind, rows[kind])
	}
}

func (b *workbook) kind(kind string, rows []*Row) {
	s := b.sheet(kind)
	b.widths(s, 40, 16)
	type key struct{ metric, unit string }
	var metrics []key
	by := map[key][]*Row{}
	for _, r := range rows {
		k := key{r.Metric, r.Unit}
		if by[k] == nil {
			metrics = append(metrics, k)
		}
		by[k] = append(by[k], r)
	}
	row := 1
	for _, k := range metrics {
		b.put(s, 1, row, fmt.Sprintf("%s, %s", clean(k.metric), clean(k.unit)), b.label)
		row = b.figures(s, row+1, "workload", by[k], func(r *Row) any { return r.Workload }) + 1
	}
	for _, k := range metrics {
		row = b.recordCurves(s, row, k.metric, k.unit, by[k])
	}
}

// figures writes a head and a line of medians for each row, the baseline first, and returns the next row.
func (b *workbook) figures(s string, row int, head string, rows []*Row, label func(*Row) any) int {
	b.put(s, 1, row, head, b.head)
	b.put(s, 2, row, clean(b.Run.Baseline), b.head)
	for i, c := range b.Columns {
		b.put(s, 3+i, row, c.Name(), b.head)
	}
	row++
	for _, r := range rows {
		b.put(s, 1, row, label(r), 0)
		if r.Base == "" {
			b.put(s, 2, row, positive(r.Baseline), b.figure)
		}
		for i, c := range r.Cells {
			switch {
			case c == nil && b.Columns[i].Target.Name == r.Base:
				b.put(s, 3+i, row, positive(r.Baseline), b.figure)
			case c != nil:
				b.put(s, 3+i, row, positive(c.Center), b.figure)
			}
		}
		row++
	}
	return row
}

// recordCurves adds a table and a chart for each set of workloads that differ in the record size alone.
func (b *workbook) recordCurves(s string, row int, metric, unitName string, rows []*Row) int {
	params := b.params()
	groups := map[string][]*Row{}
	var order []string
	for _, r := range rows {
		p := params[r.Workload]
		if !r.Primary || sizeOf(p, "bs") <= 0 {
			continue
		}
		key := variantOf(p) + " size=" + p["size"]
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], r)
	}
	for _, key := range order {
		group := groups[key]
		slices.SortStableFunc(group, func(x, y *Row) int {
			return cmp.Compare(sizeOf(params[x.Workload], "bs"), sizeOf(params[y.Workload], "bs"))
		})
		if len(group) < 2 || b.err != nil {
			continue
		}
		title := fmt.Sprintf("%s by record size, %s", clean(metric), clean(key))
		b.put(s, 1, row, title, b.label)
		head := row + 1
		next := b.figures(s, head, "record size", group,
			func(r *Row) any { return sizeText(sizeOf(params[r.Workload], "bs")) })
		series := []excelize.ChartSeries{lineSeries(0, b.span(s, 2, head, 2, head), b.span(s, 1, head+1, 1, next-1),
			b.span(s, 2, head+1, 2, next-1))}
		for i := range b.Columns {
			if !b.Columns[i].Target.Baseline {
				series = append(series, lineSeries(i+1, b.span(s, 3+i, head, 3+i, head),
					b.span(s, 1, head+1, 1, next-1), b.span(s, 3+i, head+1, 3+i, next-1)))
			}
		}
		b.curve(s, b.address(5+len(b.Columns), row), title, "record size", clean(unitName), series)
		row = max(next, row+23)
	}
	return row
}

// facts lays the facts of the targets side by side; rows in which they differ are coloured and marked.
func (b *workbook) facts() {
	s := b.sheet("Facts")
	b.put(s, 1, 1, "fact", b.head)
	b.put(s, 2, 1, "differs", b.head)
	b.widths(s, 34, 9)
	for i := range b.Targets {
		b.put(s, 3+i, 1, b.Targets[i].Name, b.head)
		name, err := excelize.ColumnNumberToName(3 + i)
		b.fail(err)
		b.fail(b.file.SetColWidth(s, name, name, 36))
	}
	for i, r := range b.factRows() {
		style, mark := b.wrap, any(nil)
		if r.differs() {
			style, mark = b.differs, "yes"
		}
		b.put(s, 1, i+2, r.name, style)
		b.put(s, 2, i+2, mark, style)
		for j, v := range r.values {
			b.put(s, 3+j, i+2, v, style)
		}
	}
	b.freeze(s, 1, 1)
}

// maxPlanLines bounds the plan's sheet.
const maxPlanLines = 20000

// plan writes the plan's text line by line, as it can be run again.
func (b *workbook) plan() {
	if b.Plan == nil {
		return
	}
	s := b.sheet("Plan")
	b.widths(s, 100)
	row := 1
	for line := range bytes.Lines(plan.Marshal(b.Plan)) {
		if row > maxPlanLines {
			b.put(s, 1, row, "The rest is left out here; the bundle has all of it.", b.label)
			return
		}
		// Blanks at the beginning mean something in YAML, and cleaning would take them.
		text := string(bytes.TrimRight(line, "\r\n"))
		indent := len(text) - len(strings.TrimLeft(text, " "))
		if b.err == nil {
			b.fail(b.file.SetCellStr(s, b.address(1, row), strings.Repeat(" ", min(indent, 100))+cellText(text)))
		}
		row++
	}
}

// trials writes the raw rows as a stream: a run may have hundreds of thousands.
func (b *workbook) trials() {
	s := b.sheet("Trials")
	if b.err != nil {
		return
	}
	out, err := b.file.NewStreamWriter(s)
	if err != nil {
		b.fail(err)
		return
	}
	b.fail(out.SetPanes(&excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}))
	head := make([]any, len(rawHeader))
	for i, h := range rawHeader {
		head[i] = excelize.Cell{StyleID: b.head, Value: h}
	}
	b.fail(out.SetRow("A1", head))
	row := 2
	b.fail(b.eachRaw(func(r *rawRow) error {
		if row >= excelize.TotalRows {
			if row == excelize.TotalRows {
				row++
				return out.SetRow(fmt.Sprintf("A%d", excelize.TotalRows),
					[]any{"The rest does not fit on a sheet: use --format csv or parquet."})
			}
			return nil
		}
		values := r.values()
		for i, v := range values {
			switch v := v.(type) {
			case string:
				values[i] = cellText(v)
			case time.Time:
				values[i] = csvText(v)
			}
		}
		row++
		return out.SetRow(fmt.Sprintf("A%d", row-1), values)
	}))
	if b.err == nil {
		b.fail(out.Flush())
	}
}
