package history_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/contrib"
	"tare/internal/judge/history"
	"tare/internal/judge/history/pgtest"
	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// fleetStore is a history of a fleet of nine hosts with two runs each.
func fleetStore(t *testing.T) *sql.DB {
	t.Helper()
	t.Setenv("PGPASSWORD", pgtest.Password)
	p := pgtest.Start(t)
	s, err := history.Open(t.Context(), p.Address("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now()
	for k := range 9 {
		name := fmt.Sprintf("n%d", k)
		for run := range 2 {
			r := &verdict.Result{Run: verdict.Run{ID: fmt.Sprintf("%s-%d", name, run), Name: "nodes", Version: "1.0",
				Build: "b", Baseline: "host", Blocks: 10, Seconds: 20, Finished: k != 8}}
			for i, v := range []record.Verdict{record.Different, record.Withheld} {
				r.Cells = append(r.Cells, verdict.Cell{Workload: []string{"cpu.prime", "fs.randread"}[i],
					Kind: "cpu.prime", Metric: "events_per_second", Unit: "ev/s", Primary: true, Target: "box",
					Baseline: "host", Center: 90, BaselineCenter: 100,
					Ratio: record.Ratio{Center: 1.1, Low: 1.05, High: 1.15, Blocks: 10, Verdict: v}})
			}
			e := history.Entry{Result: r, Created: now.Add(time.Duration(run-2) * time.Hour), Bundle: "/b", Trials: 60,
				Host: &record.Facts{OS: "linux", Hostname: name, CPU: "x", Kernel: "6.1"}, Packed: []byte("packed"),
				Fleet: history.Fleet{Plan: "plan-1", Host: name, Machine: "m-" + name, Part: k + 1, Of: 9,
					Facts: map[string]string{"kernel": "6.1", "cpu.microcode": fmt.Sprint(min(k, 1))}}}
			rate, seconds := 100+float64(k)+float64(run), 1/(100+float64(k))
			for _, f := range []history.Figure{
				{Workload: "cpu.prime", Metric: "events_per_second", Unit: "ev/s", Better: "higher", Primary: true,
					Value: rate, Low: 0.9 * rate, High: 1.1 * rate},
				{Workload: "cpu.prime", Metric: "p99_seconds", Unit: "s", Better: "lower", Value: seconds},
				{Workload: "fs.randread", Metric: "iops", Unit: "op/s", Better: "higher", Primary: true,
					Why: "its clock is in doubt"},
			} {
				f.Target, f.Kind, f.Blocks = "host", f.Workload, 10
				e.Fleet.Figures = append(e.Fleet.Figures, f)
			}
			if _, err := s.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p.DB("postgres")
}

// columns are those of a query's result, with the number of its rows.
func columns(ctx context.Context, db *sql.DB, query string) (names []string, n int, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	if names, err = rows.Columns(); err != nil {
		return nil, 0, err
	}
	for rows.Next() {
		n++
	}
	return names, n, rows.Err()
}

// TestViews holds that the views have the columns that docs/store.md promises, and say what they are meant to.
func TestViews(t *testing.T) {
	db := fleetStore(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "store.md"))
	if err != nil {
		t.Fatal(err)
	}
	promised, view := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "### "); ok {
			view = strings.TrimSpace(name)
		}
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(cell, -1) {
				promised[view] = append(promised[view], m[1])
			}
		}
	}
	there := map[string][]string{}
	rows, err := db.QueryContext(t.Context(), `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_name LIKE 'tare\_view\_%' ORDER BY table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var view, column string
		if err := rows.Scan(&view, &column); err != nil {
			t.Fatal(err)
		}
		there[view] = append(there[view], column)
	}
	if len(there) != 7 {
		t.Errorf("%d views", len(there))
	}
	for _, view := range slices.Sorted(maps.Keys(there)) {
		if view == "tare_view_latest" { // it has the columns of the view of runs
			promised[view] = promised["tare_view_runs"]
		}
		if !slices.Equal(there[view], promised[view]) {
			t.Errorf("%s has the columns\n%v, and docs/store.md promises\n%v", view, there[view], promised[view])
		}
	}

	for query, want := range map[string]float64{
		"SELECT COUNT(*) FROM tare_view_runs":                                                           18,
		"SELECT COUNT(*) FROM tare_view_runs WHERE finished":                                            16,
		"SELECT COUNT(*) FROM tare_view_latest":                                                         9,
		"SELECT COUNT(*) FROM tare_view_latest WHERE run_id LIKE '%-1'":                                 9,
		"SELECT COUNT(*) FROM tare_view_ratios":                                                         36,
		"SELECT COUNT(ratio) FROM tare_view_ratios":                                                     18,
		"SELECT COUNT(value) FROM tare_view_figures":                                                    36,
		"SELECT COUNT(*) FROM tare_view_figures WHERE why IS NOT NULL":                                  18,
		"SELECT hosts FROM tare_view_cells WHERE metric = 'events_per_second'":                          9,
		"SELECT median FROM tare_view_cells WHERE metric = 'events_per_second'":                         105,
		"SELECT hosts FROM tare_view_cells WHERE metric = 'iops'":                                       0,
		"SELECT cost FROM tare_view_hosts WHERE metric = 'events_per_second' AND host = 'n0'":           105.0 / 101,
		"SELECT cost FROM tare_view_hosts WHERE metric = 'p99_seconds' AND host = 'n0'":                 104.0 / 100,
		"SELECT COUNT(*) FROM tare_view_hosts WHERE metric = 'iops' AND cost IS NULL":                   9,
		"SELECT hosts_with FROM tare_view_facts WHERE fact = 'cpu.microcode' AND host = 'n0'":           1,
		"SELECT hosts FROM tare_view_facts WHERE fact = 'cpu.microcode' AND host = 'n0'":                9,
		"SELECT bundle_bytes FROM tare_view_runs WHERE run_id = 'n0-1'":                                 6,
		"SELECT EXTRACT(EPOCH FROM now() - MAX(began)) / 3600 FROM tare_view_runs WHERE host LIKE 'n%'": 1,
	} {
		var got float64
		if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil || math.Abs(got-want) > 0.01 {
			t.Errorf("%s: %v, want %v: %v", query, got, want, err)
		}
	}
}

// dashboard is as much of Grafana's dashboard as has queries in it.
type dashboard struct {
	Panels []struct {
		Title   string `json:"title"`
		Type    string `json:"type"`
		Targets []struct {
			RawSQL string `json:"rawSql"`
			Format string `json:"format"`
		} `json:"targets"`
		Options struct {
			SortBy []struct {
				DisplayName string `json:"displayName"`
			} `json:"sortBy"`
		} `json:"options"`
		FieldConfig struct {
			Overrides []struct {
				Matcher struct {
					ID      string `json:"id"`
					Options string `json:"options"`
				} `json:"matcher"`
			} `json:"overrides"`
		} `json:"fieldConfig"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

// TestDashboard runs every query of the Grafana dashboard, its variables filled in as Grafana does it, on the real
// views, and holds that each finds something and has the columns that its panel is set up for.
func TestDashboard(t *testing.T) {
	db := fleetStore(t)
	text, err := contrib.Files.ReadFile("grafana/tare.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	// expand does what Grafana's PostgreSQL data source does with its macros and with variables.
	expand := func(query string) string {
		query = regexp.MustCompile(`\$__timeFilter\((\w+)\)`).ReplaceAllString(query,
			"$1 BETWEEN now() - interval '30 days' AND now()")
		query = regexp.MustCompile(`\$\{(\w+):sqlstring\}|'\$(\w+)'`).ReplaceAllStringFunc(query, func(m string) string {
			name := strings.Trim(strings.TrimSuffix(strings.Trim(m, "'${}"), ":sqlstring"), "'")
			v, ok := values[name]
			if !ok {
				t.Errorf("there is no variable %s before %s", name, query)
			}
			return "'" + strings.ReplaceAll(v, "'", "''") + "'"
		})
		if strings.Contains(query, "$") {
			t.Errorf("not filled in: %s", query)
		}
		return query
	}
	for _, v := range d.Templating.List {
		query, ok := v.Query.(string)
		if v.Type != "query" || !ok {
			continue
		}
		var first, label sql.NullString
		names, n, err := columns(t.Context(), db, expand(query))
		if err != nil || n == 0 {
			t.Errorf("variable %s: %d rows: %v", v.Name, n, err)
			continue
		}
		into := []any{&first, &label}[:len(names)]
		if i := slices.Index(names, "__value"); i == 1 {
			into[0], into[1] = into[1], into[0]
		}
		if err := db.QueryRowContext(t.Context(), expand(query)).Scan(into...); err != nil {
			t.Errorf("variable %s: %v", v.Name, err)
		}
		values[v.Name] = first.String
	}
	if len(values) < 3 || len(d.Panels) < 6 {
		t.Errorf("%d variables and %d panels", len(values), len(d.Panels))
	}
	for _, p := range d.Panels {
		if p.Type == "row" || p.Type == "text" {
			continue
		}
		var all []string
		for _, q := range p.Targets {
			names, n, err := columns(t.Context(), db, expand(q.RawSQL))
			if err != nil || n == 0 {
				t.Errorf("%s: %d rows: %v\n%s", p.Title, n, err, q.RawSQL)
			}
			if q.Format == "time_series" && (len(names) < 2 || names[0] != "time") {
				t.Errorf("%s: a series has the columns %v, and needs time first", p.Title, names)
			}
			all = append(all, names...)
		}
		for _, o := range p.FieldConfig.Overrides {
			if o.Matcher.ID == "byName" && !slices.Contains(all, o.Matcher.Options) {
				t.Errorf("%s sets up %q, and its columns are %v", p.Title, o.Matcher.Options, all)
			}
		}
		for _, o := range p.Options.SortBy {
			if !slices.Contains(all, o.DisplayName) {
				t.Errorf("%s is sorted by %q, and its columns are %v", p.Title, o.DisplayName, all)
			}
		}
	}
}
