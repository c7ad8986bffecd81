// Package report shows what a comparison found. It decides nothing: every figure, verdict and finding comes from
// package compare, and a Model only arranges them into the rows and columns that all forms of report share.
//
// It is opinionated about doubt: what cannot be told, was withheld or failed has its own sign in every form, and no
// ratio stands without its interval unless the page is too narrow for it.
package report

import (
	"io"
	"slices"
	"strings"

	"tare/internal/judge/costper"
	"tare/internal/judge/failif"
	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// Model is a comparison arranged for showing.
type Model struct {
	*verdict.Result
	Columns  []Column
	Rows     []Row
	Families []FamilyRow
	Null     Null
	// Trials are the raw trials in the order they ran. The caller sets them; renderers that show none do without.
	Trials []record.Trial
	// Plan is the resolved plan. The caller sets it; nil where there is none.
	Plan *plan.Plan
	// FailIf are the conditions that the caller was asked to fail on. The caller sets them.
	FailIf []failif.Outcome
	// Normal and Worth are the costs restated and the value of a saving, for the forms whose Format says that they show
	// them. The caller sets them; nil where nobody asked.
	Normal *costper.Table
	Worth  *costper.Answers
	// Flames are the flame graphs that the bundle has. The caller sets them.
	Flames []record.Flame
	// Bundle is the path of the bundle as the reader would type it; "" when there is none. The caller sets it.
	Bundle string
	// Command is the command line that repeats the run without its bundle; "" when there is none. The caller sets it.
	Command string
	// Redacted says that names were replaced by pseudonyms. The caller sets it.
	Redacted bool
	// Text are the settings of the terminal report. The caller sets them.
	Text TextOptions
}

// TextOptions are the settings of the terminal report.
type TextOptions struct {
	Width   int  // columns; 0 means 80
	ASCII   bool // no character beyond ASCII except in names that the user gave
	Color   bool // ANSI colours
	Details bool // secondary metrics, warnings, and facts of the targets
	Why     bool // where the time of each ratio goes
}

// Column is one candidate.
type Column struct {
	Target *verdict.Target
	Title  string // how it is headed, where that is not its Name
}

// Name is the column's heading: the candidate, and after a stroke the target that it is compared with where that is not
// the run's baseline.
func (c *Column) Name() string {
	if c.Title != "" {
		return c.Title
	}
	if c.Target.Against != "" {
		return c.Target.Name + "/" + c.Target.Against
	}
	return c.Target.Name
}

// Row is one metric of one workload.
type Row struct {
	Workload string
	Kind     string
	Family   string
	Metric   string
	Unit     string
	Primary  bool
	// Baseline is the centre of the figure that the cells are compared with, in Unit; 0 when there is none. Base is the
	// name of its target if that is another one than the run's baseline.
	Baseline float64
	Base     string
	// Cells has an entry for each column; nil where the workload does not run there.
	Cells []*verdict.Cell
}

// FamilyRow is the geometric mean over the primary metrics of a family.
type FamilyRow struct {
	Family  string
	Columns []*verdict.Summary // an entry for each column; nil where there is none
}

// Null sums up the null control over the primary cells.
type Null struct {
	Cells  int     // cells with a null control
	Spread float64 // median of its spread: 0.003 is 0.3 %
	Worst  float64 // the largest
	// Tells is the smallest cost that half of the cells could have called DIFFERENT: the margin and the half-width of
	// the interval together. 0 when no cell has an interval.
	Tells float64
}

// Renderer writes a model in one form. Its output depends on the model alone: the same model gives the same bytes.
type Renderer func(w io.Writer, m *Model) error

// Format is a row of the table of renderers.
type Format struct {
	Name   string // as in --format
	Doc    string // one sentence
	Render Renderer
	// Suffix is the end of a file's name that means this form, with the dot; "" for none.
	Suffix string
	// Binary forms are not written to a terminal.
	Binary bool
	// ShowsCosts says that the form shows Model.Normal and Model.Worth.
	ShowsCosts bool
	// Redacted says that the form is for people elsewhere: it is made of a redacted copy of the bundle unless the user
	// asks for names.
	Redacted bool
}

// Renderers lists the forms of report in the order they are listed to the user.
func Renderers() []Format {
	return []Format{
		{Name: "text", Doc: "a table for the terminal", Render: Terminal, Suffix: ".txt"},
		{Name: "html", Doc: "a web page in one file, with charts and raw trials", Render: HTML, Suffix: ".html",
			ShowsCosts: true},
		{Name: "json", Doc: "everything, for scripts; docs/report.schema.json describes it", Render: JSON,
			Suffix: ".json", ShowsCosts: true},
		{Name: "markdown", Doc: "tables for a pull request or a forum", Render: Markdown, Suffix: ".md",
			ShowsCosts: true},
		{Name: "xlsx", Doc: "a workbook with charts, matrices, facts and raw trials", Render: XLSX, Suffix: ".xlsx",
			Binary: true, ShowsCosts: true},
		{Name: "svg", Doc: "the main chart: every ratio with its interval", Render: SVG, Suffix: ".svg"},
		{Name: "png", Doc: "the same chart as a picture", Render: PNG, Suffix: ".png", Binary: true},
		{Name: "csv", Doc: "the raw trials: one row for each metric of each trial", Render: CSV, Suffix: ".csv"},
		{Name: "groups-csv", Doc: "the parts of the work, such as statements with one fingerprint, with their " +
			"verdicts: one row for each in each target", Render: GroupsCSV},
		{Name: "parquet", Doc: "the raw trials, with the columns of csv and their types", Render: Parquet,
			Suffix: ".parquet", Binary: true},
		{Name: "benchstat", Doc: "the raw trials in Go's benchmark format, for benchstat -col target",
			Render: Benchstat, Suffix: ".bench"},
		{Name: "iozone", Doc: "the tables of fs.matrix as iozone -R prints them", Render: Iozone},
		{Name: "junit", Doc: "cells and conditions as test cases, for a CI system", Render: JUnit, Suffix: ".xml"},
		{Name: "github", Doc: "a step summary for GitHub Actions", Render: GitHub, ShowsCosts: true},
		{Name: "issue", Doc: "evidence for a maintainer: about ten lines of Markdown, redacted", Render: Issue,
			Redacted: true},
	}
}

// NewModel arranges a result, which it does not change. Rows come in the order of the result's cells.
func NewModel(r *verdict.Result) *Model {
	m := &Model{Result: r}
	column := map[string]int{}
	itself := slices.ContainsFunc(r.Cells, func(c verdict.Cell) bool { return c.Target == r.Run.Baseline })
	for i := range r.Targets {
		// A baseline alone stands against itself.
		if t := &r.Targets[i]; !t.OnlyNeighbour && (!t.Baseline || len(r.Targets) == 1 || itself) {
			column[t.Name] = len(m.Columns)
			m.Columns = append(m.Columns, Column{Target: t})
		}
	}
	type rowKey struct{ workload, metric string }
	rows := map[rowKey]int{}
	for i := range r.Cells {
		c := &r.Cells[i]
		col, ok := column[c.Target]
		if !ok {
			continue
		}
		k := rowKey{c.Workload, c.Metric}
		at, ok := rows[k]
		if !ok {
			at = len(m.Rows)
			rows[k] = at
			m.Rows = append(m.Rows, Row{Workload: c.Workload, Kind: c.Kind, Family: c.Family, Metric: c.Metric,
				Unit:    c.Unit,
				Primary: c.Primary, Cells: make([]*verdict.Cell, len(m.Columns))})
		}
		m.Rows[at].Cells[col] = c
		m.Rows[at].compared(c, r.Run.Baseline)
	}
	families := map[string]int{}
	for i := range r.Families {
		s := &r.Families[i]
		col, ok := column[s.Target]
		if !ok {
			continue
		}
		at, ok := families[s.Family]
		if !ok {
			at = len(m.Families)
			families[s.Family] = at
			m.Families = append(m.Families, FamilyRow{Family: s.Family,
				Columns: make([]*verdict.Summary, len(m.Columns))})
		}
		m.Families[at].Columns[col] = s
	}
	m.Null = nullOf(r)
	return m
}

// compared notes the figure of the target that a cell is compared with: of the run's baseline, or of another target if
// no cell of the row is compared with that.
func (r *Row) compared(c *verdict.Cell, baseline string) {
	if other := c.Baseline != baseline; c.BaselineCenter != 0 && (r.Baseline == 0 || r.Base != "" && !other) {
		r.Baseline, r.Base = c.BaselineCenter, ""
		if other {
			r.Base = c.Baseline
		}
	}
}

// BaselineText is the figure of the target that the row's cells are compared with, with its name where that is not the
// baseline.
func (r *Row) BaselineText() string {
	if r.Baseline <= 0 {
		return ""
	}
	return strings.TrimLeft(clean(r.Base)+" ", " ") + unit.Format(r.Baseline, clean(r.Unit))
}

// ran tells whether the cell was measured at all, or tried.
func ran(c *verdict.Cell) bool {
	return c != nil && (c.Blocks > 0 || c.Verdict == record.Failed || c.Verdict == record.Withheld)
}
