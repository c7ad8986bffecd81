package benchfmt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"tare/internal/unit"
)

// parseJMH reads the file of JMH's -rf json. A case is a benchmark with its mode and its parameters; its further
// figures are those of profilers, such as gc.alloc.rate.norm.
func parseJMH(out []byte) (*Suite, error) {
	var doc []struct {
		Benchmark string                `json:"benchmark"`
		Mode      string                `json:"mode"`
		Params    jmhParams             `json:"params"`
		Primary   *jmhMetric            `json:"primaryMetric"`
		Secondary map[string]*jmhMetric `json:"secondaryMetrics"`
	}
	if err := JSON(out, &doc); err != nil {
		return nil, fmt.Errorf("%w; run JMH with -rf json, and print its file", err)
	}
	b := newBuilder()
	for i := range doc {
		d := &doc[i]
		name := strings.TrimSpace(d.Benchmark + " " + d.Mode)
		sorted := slices.Clone(d.Params)
		slices.SortFunc(sorted, func(x, y [2]string) int { return strings.Compare(x[0], y[0]) })
		for _, p := range sorted {
			name += " " + p[0] + "=" + p[1]
		}
		if d.Primary == nil {
			b.leave(name, "", "it has no primaryMetric")
			continue
		}
		what := "time"
		if strings.HasPrefix(d.Primary.Unit, "ops/") {
			what = "throughput"
		}
		err := b.add(name, what, d.Primary.Score.v, d.Primary.Unit)
		for _, k := range slices.Sorted(maps.Keys(d.Secondary)) {
			if m := d.Secondary[k]; err == nil && m != nil {
				err = m.profiled(b, name, strings.TrimPrefix(k, "·")) // profilers mark their figures
			}
		}
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	return b.done()
}

type jmhMetric struct {
	Score jsonNumber `json:"score"`
	Unit  string     `json:"scoreUnit"`
}

// jmhParams are the parameters of a result, in the order of the file.
type jmhParams [][2]string

// UnmarshalJSON takes an object of texts.
func (p *jmhParams) UnmarshalJSON(src []byte) error {
	*p = nil
	if bytes.Equal(src, []byte("null")) {
		return nil
	}
	texts := []string{}
	for d := json.NewDecoder(bytes.NewReader(src)); ; {
		t, err := d.Token()
		switch t := t.(type) {
		case string:
			texts = append(texts, t)
		case json.Delim:
			if t == '{' && d.InputOffset() == 1 || t == '}' && !d.More() {
				continue
			}
			return errors.New("params: expected an object of texts")
		case nil:
			if err == io.EOF {
				for i := 0; i+1 < len(texts); i += 2 {
					*p = append(*p, [2]string{texts[i], texts[i+1]})
				}
				return nil
			}
			return errors.Join(err, errors.New("params: expected an object of texts"))
		default:
			return fmt.Errorf("params: expected an object of texts, found %v", t)
		}
	}
}

// profiled adds a further figure. Who works faster allocates more in a second: such a rate has no direction.
func (m *jmhMetric) profiled(b *builder, name, figure string) error {
	if f := normal(m.Score.v, m.Unit); strings.HasPrefix(figure, "gc.") && f.Better == unit.Higher {
		b.leave(name, figure, "it is neither better when higher nor when lower")
		return nil
	}
	return b.add(name, figure, m.Score.v, m.Unit)
}

// parsePytest reads the file of pytest-benchmark's --benchmark-json. The figure that decides is the median of the
// rounds, which one slow round does not move.
func parsePytest(out []byte) (*Suite, error) {
	var doc struct {
		Benchmarks []struct {
			Name     string `json:"name"`
			FullName string `json:"fullname"`
			Stats    *struct {
				Median jsonNumber `json:"median"`
				Mean   jsonNumber `json:"mean"`
				Min    jsonNumber `json:"min"`
			} `json:"stats"`
		} `json:"benchmarks"`
	}
	if err := JSON(out, &doc); err != nil {
		return nil, fmt.Errorf("%w; run pytest with --benchmark-json=FILE, and print the file", err)
	}
	b := newBuilder()
	for i := range doc.Benchmarks {
		d := &doc.Benchmarks[i]
		name := d.FullName
		if name == "" {
			name = d.Name
		}
		if d.Stats == nil {
			b.leave(name, "", "it has no stats")
			continue
		}
		for _, f := range []struct {
			name string
			v    jsonNumber
		}{{"time", d.Stats.Median}, {"mean", d.Stats.Mean}, {"least", d.Stats.Min}} {
			if err := b.add(name, f.name, f.v.v, "s"); err != nil {
				return nil, fmt.Errorf("benchmark %d: %w", i+1, err)
			}
		}
	}
	return b.done()
}

// googleRow is a row of Google Benchmark's JSON: a repetition, or an aggregate of them.
type googleRow struct {
	Name      string      `json:"name"`
	RunName   string      `json:"run_name"`
	RunType   string      `json:"run_type"`
	Aggregate string      `json:"aggregate_name"`
	Of        string      `json:"aggregate_unit"`
	Real      *jsonNumber `json:"real_time"`
	CPU       *jsonNumber `json:"cpu_time"`
	Unit      string      `json:"time_unit"`
	Bytes     *jsonNumber `json:"bytes_per_second"`
	Items     *jsonNumber `json:"items_per_second"`
	Failed    bool        `json:"error_occurred"`
	Message   string      `json:"error_message"`
	Skipped   bool        `json:"skipped"`
}

// parseGoogle reads --benchmark_format=json. Of a case that was repeated, the repetitions count; where only aggregates
// were printed, their median.
func parseGoogle(out []byte) (*Suite, error) {
	var doc struct {
		Rows []json.RawMessage `json:"benchmarks"`
	}
	if err := JSON(out, &doc); err != nil {
		return nil, fmt.Errorf("%w; run the benchmark with --benchmark_format=json", err)
	}
	rows := make([]googleRow, 0, len(doc.Rows))
	repeated := map[string]bool{} // those with rows of repetitions
	for i, raw := range doc.Rows {
		var r googleRow
		// One by one, so that the error names the row: a counter of the user's may have the name of one of the fields.
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("benchmark %d: %w", i+1, err)
		}
		if r.RunName == "" {
			r.RunName = r.Name
		}
		if r.RunType != "aggregate" {
			repeated[r.RunName] = true
		}
		rows = append(rows, r)
	}
	b := newBuilder()
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Failed, r.Skipped:
			b.leave(r.RunName, "", strings.TrimSpace("it did not run to its end: "+cutName(r.Message)))
			continue
		case r.RunType == "aggregate" && (repeated[r.RunName] || r.Aggregate != "median" || r.Of == "percentage"):
			continue
		}
		if err := r.add(b); err != nil {
			return nil, fmt.Errorf("benchmark %d: %w", i+1, err)
		}
	}
	s, err := b.done()
	if err != nil && len(rows) > 0 && len(repeated) == 0 {
		err = fmt.Errorf("%w; of repeated benchmarks the median is used, or the repetitions themselves", err)
	}
	return s, err
}

func (r *googleRow) add(b *builder) error {
	u := r.Unit
	if u == "" {
		u = "ns"
	}
	for _, f := range []struct {
		name, unit string
		v          *jsonNumber
	}{{"time", u, r.Real}, {"cpu", u, r.CPU}, {"throughput", "B/s", r.Bytes}, {"items", "items/s", r.Items}} {
		if f.v == nil {
			continue
		}
		if err := b.add(r.RunName, f.name, f.v.v, f.unit); err != nil {
			return err
		}
	}
	return nil
}
