package history

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"tare/internal/record"
	"tare/internal/suggest"
)

// Run is one recorded run.
type Run struct {
	ID       string    `json:"run_id"`
	Created  time.Time `json:"created"`
	Name     string    `json:"name,omitempty"`
	Bundle   string    `json:"bundle"`
	Baseline string    `json:"baseline"`
	Machine  string    `json:"machine"` // a digest of the host's facts; "unknown" without them
	Host     string    `json:"host"`
	Kernel   string    `json:"kernel"`
	Version  string    `json:"version"`
	Build    string    `json:"build"`
	Scope    string    `json:"scope"`
	Blocks   int       `json:"blocks"`
	Seconds  float64   `json:"seconds"`
	Finished bool      `json:"finished"`
	Cells    int       `json:"cells"`
}

// Runs lists the runs, the newest last, at most limit of them; 0 means all.
func (s *Store) Runs(ctx context.Context, limit int) ([]Run, error) {
	query := `SELECT run_id, created, name, bundle, baseline, machine, host, kernel, version, build, scope, blocks, seconds, finished,
		(SELECT COUNT(*) FROM tare_cells c WHERE c.run_id = r.run_id) FROM tare_runs r ORDER BY created DESC, run_id DESC`
	if limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", limit)
	}
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("list runs of %s: %w", s.where, plain(err))
	}
	defer rows.Close()
	out := []Run{}
	for rows.Next() {
		var r Run
		var created string
		var finished int
		if err := rows.Scan(&r.ID, &created, &r.Name, &r.Bundle, &r.Baseline, &r.Machine, &r.Host, &r.Kernel,
			&r.Version, &r.Build, &r.Scope,
			&r.Blocks, &r.Seconds, &finished, &r.Cells); err != nil {
			return nil, fmt.Errorf("list runs of %s: %w", s.where, plain(err))
		}
		r.Finished = finished != 0
		if r.Created, err = time.Parse(time.RFC3339, created); err != nil {
			return nil, fmt.Errorf("list runs of %s: run %s: %w", s.where, r.ID, err)
		}
		out = append([]Run{r}, out...)
	}
	return out, rows.Err()
}

// CellName names what a trend is of: TARGET/WORKLOAD, or TARGET/WORKLOAD/METRIC for a metric that is not the primary
// one.
type CellName struct {
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Metric   string `json:"metric"`
	Primary  bool   `json:"primary"`
	Runs     int    `json:"runs"`
}

func (c CellName) String() string {
	if c.Primary {
		return c.Target + "/" + c.Workload
	}
	return c.Target + "/" + c.Workload + "/" + c.Metric
}

// Cells lists what there are trends of, in the order of their names.
func (s *Store) Cells(ctx context.Context) ([]CellName, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT target, workload, metric, MAX(is_primary), COUNT(*) FROM tare_cells
		GROUP BY target, workload, metric ORDER BY target, workload, metric`)
	if err != nil {
		return nil, fmt.Errorf("list cells of %s: %w", s.where, plain(err))
	}
	defer rows.Close()
	out := []CellName{}
	for rows.Next() {
		var c CellName
		var primary int
		if err := rows.Scan(&c.Target, &c.Workload, &c.Metric, &primary, &c.Runs); err != nil {
			return nil, fmt.Errorf("list cells of %s: %w", s.where, plain(err))
		}
		c.Primary = primary != 0
		out = append(out, c)
	}
	return out, rows.Err()
}

// Find returns the cell of that name. The error tells the nearest one.
func (s *Store) Find(ctx context.Context, name string) (CellName, error) {
	all, err := s.Cells(ctx)
	if err != nil {
		return CellName{}, err
	}
	var names, more []string
	var begun []CellName
	for _, c := range all {
		// With the metric a primary cell is meant all the same.
		if c.String() == name || c.Target+"/"+c.Workload+"/"+c.Metric == name {
			return c, nil
		}
		switch {
		case !c.Primary:
			more = append(more, c.String())
			continue
		case strings.HasPrefix(c.String(), name+" "):
			begun = append(begun, c)
		}
		names = append(names, c.String())
	}
	if len(begun) == 1 { // the kind alone, as in a condition of --fail-if
		return begun[0], nil
	}
	names = append(names, more...) // those that decide come first where there are too many to tell
	hint := suggest.DidYouMean(name, names)
	if hint == "" && len(names) > 0 {
		hint = "; there are: " + strings.Join(names[:min(len(names), 8)], ", ")
	}
	return CellName{}, fmt.Errorf("there is no cell %q in %s%s", name, s.where, hint)
}

// Point is one run's cell in a trend.
type Point struct {
	RunID   string    `json:"run_id"`
	Created time.Time `json:"created"`
	Kernel  string    `json:"kernel"`
	Build   string    `json:"build"`
	Verdict string    `json:"verdict"`
	Ratio   float64   `json:"ratio"` // 0 when the run has none for the cell
	Low     float64   `json:"low"`
	High    float64   `json:"high"`
	Center  float64   `json:"center"`
	Bundle  string    `json:"bundle"`
	Changed bool      `json:"changed"` // a change begins here
	// Ignored says that the ratio counts for no change: the verdict was withheld, or the cell failed.
	Ignored bool `json:"ignored"`
}

// Trend is a cell's course on one machine, doing one kind of work, against one baseline.
type Trend struct {
	Cell    CellName `json:"cell"`
	Machine string   `json:"machine"`
	Host    string   `json:"host"`
	Work    string   `json:"work"` // digest of the workload's kind and parameters
	// Baseline is the target that the cell is compared with; empty for a mount of a run that an older tare recorded.
	Baseline string  `json:"baseline"`
	Unit     string  `json:"unit"`
	Points   []Point `json:"points"`
	Shifts   []Shift `json:"shifts"`
	// Visible is about the least change in the middle of the course that would have been found, as a share: 0.1 is 10
	// %. It is 0 where none could be.
	Visible float64 `json:"visible"`
}

// Trends returns the cell's course, one for each machine, each work that went by the label and each baseline: what
// another machine shows, or a comparison with something else, is no change of this one. Points are in the order of
// time.
func (s *Store) Trends(ctx context.Context, c CellName) ([]Trend, error) {
	rows, err := s.db.QueryContext(ctx,
		s.bind(`SELECT r.machine, r.host, c.work, c.baseline, c.unit, r.run_id, r.created, r.kernel, r.build, r.bundle, c.verdict, c.ratio,
		c.low, c.high, c.center FROM tare_cells c JOIN tare_runs r ON r.run_id = c.run_id
		WHERE c.target = ? AND c.workload = ? AND c.metric = ? ORDER BY r.created, r.run_id`), c.Target, c.Workload, c.Metric)
	if err != nil {
		return nil, fmt.Errorf("read trend of %s: %w", c, plain(err))
	}
	defer rows.Close()
	out := []Trend{}
	at := map[[3]string]int{}
	for rows.Next() {
		t := Trend{Cell: c}
		var p Point
		var created string
		if err := rows.Scan(&t.Machine, &t.Host, &t.Work, &t.Baseline, &t.Unit, &p.RunID, &created, &p.Kernel, &p.Build,
			&p.Bundle, &p.Verdict, &p.Ratio, &p.Low, &p.High, &p.Center); err != nil {
			return nil, fmt.Errorf("read trend of %s: %w", c, plain(err))
		}
		if p.Created, err = time.Parse(time.RFC3339, created); err != nil {
			return nil, fmt.Errorf("read trend of %s: run %s: %w", c, p.RunID, err)
		}
		key := [3]string{t.Machine, t.Work, t.Baseline}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, t)
		}
		out[i].Points = append(out[i].Points, p)
	}
	for i := range out {
		out[i].Mark()
	}
	return out, rows.Err()
}

// Mark finds the changes among the points that have a ratio, which are in the order of time. It fills in Shifts and
// Visible, and Changed and Ignored of the points.
func (t *Trend) Mark() {
	var spans []Span
	var where []int
	for i := range t.Points {
		p := &t.Points[i]
		if v := record.Verdict(p.Verdict); v == record.Withheld || v == record.Failed {
			p.Ignored = true
			continue
		}
		if !(p.Ratio > 0) || math.IsInf(p.Ratio, 0) {
			continue
		}
		s := Span{Low: math.NaN(), At: math.Log(p.Ratio), High: math.NaN()}
		if p.Low > 0 && p.High >= p.Low && !math.IsInf(p.High, 0) {
			s.Low, s.High = math.Log(p.Low), math.Log(p.High)
		}
		spans = append(spans, s)
		where = append(where, i)
	}
	t.Shifts = Shifts(spans, DefaultAlpha, DefaultLeast)
	for i := range t.Shifts {
		t.Shifts[i].At = where[t.Shifts[i].At]
		t.Points[t.Shifts[i].At].Changed = true
	}
	if t.Visible = Visible(spans[max(0, len(spans)-maxPoints):], DefaultAlpha); math.IsInf(t.Visible, 0) {
		t.Visible = 0
	} else {
		t.Visible = max(t.Visible, DefaultLeast)
	}
}
