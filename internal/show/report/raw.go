package report

import (
	"maps"
	"math"
	"slices"
	"time"

	"tare/internal/record"
)

// rawRow is one metric of one trial: a row of the tidy tables. The tags are the Parquet columns; CSV and XLSX have the
// same ones in the same order. A pointer is nil where nothing is known.
type rawRow struct {
	Run          string    `parquet:"run,dict,zstd"`
	Seq          int64     `parquet:"seq,zstd"`
	Session      int64     `parquet:"session,zstd"`
	Block        int64     `parquet:"block,zstd"`
	Warmup       bool      `parquet:"warmup"`
	Discarded    *string   `parquet:"discarded,optional,dict,zstd"`
	Workload     string    `parquet:"workload,dict,zstd"`
	Kind         string    `parquet:"kind,dict,zstd"`
	Family       string    `parquet:"family,dict,zstd"`
	Target       string    `parquet:"target,dict,zstd"`
	Slot         *string   `parquet:"slot,optional,dict,zstd"`
	Position     int64     `parquet:"position,zstd"`
	Metric       *string   `parquet:"metric,optional,dict,zstd"`
	Unit         *string   `parquet:"unit,optional,dict,zstd"`
	Better       *string   `parquet:"better,optional,dict,zstd"`
	Primary      *bool     `parquet:"primary,optional"`
	Value        *float64  `parquet:"value,optional,zstd"`
	Work         int64     `parquet:"work,zstd"`
	Start        time.Time `parquet:"start,optional,timestamp(nanosecond),zstd"`
	AgentNS      int64     `parquet:"agent_ns,zstd"`
	ControllerNS int64     `parquet:"controller_ns,zstd"`
	RTTNS        int64     `parquet:"rtt_ns,zstd"`
	RTTSpreadNS  int64     `parquet:"rtt_spread_ns,zstd"`
	SetupNS      int64     `parquet:"setup_ns,zstd"`
	HostWaitedNS *int64    `parquet:"gate_waited_ns,optional,zstd"`
	HostQuiet    *bool     `parquet:"gate_quiet,optional"`
	Load1        *float64  `parquet:"load1,optional,zstd"`
	Steal        *float64  `parquet:"steal,optional,zstd"`
	ErrorKind    *string   `parquet:"error_kind,optional,dict,zstd"`
	Error        *string   `parquet:"error,optional,dict,zstd"`
	// Flush is the durability class of the target, on figures that depend on the effect of a flush there.
	Flush *string `parquet:"flush,optional,dict,zstd"`
}

// rawHeader names the columns of raw in order.
var rawHeader = []string{
	"run", "seq", "session", "block", "warmup", "discarded", "workload", "kind", "family", "target", "slot", "position",
	"metric", "unit", "better", "primary", "value", "work", "start", "agent_ns", "controller_ns", "rtt_ns",
	"rtt_spread_ns",
	"setup_ns", "gate_waited_ns", "gate_quiet", "load1", "steal", "error_kind", "error", "flush",
}

// values are the fields of a row in the order of rawHeader: string, int64, float64, bool, time.Time, or nil.
func (r *rawRow) values() []any {
	return []any{
		r.Run, r.Seq, r.Session, r.Block, r.Warmup, known(r.Discarded), r.Workload, r.Kind, r.Family, r.Target,
		known(r.Slot), r.Position,
		known(r.Metric), known(r.Unit), known(r.Better), known(r.Primary), known(r.Value), r.Work, r.Start, r.AgentNS,
		r.ControllerNS, r.RTTNS, r.RTTSpreadNS,
		r.SetupNS, known(r.HostWaitedNS), known(r.HostQuiet), known(r.Load1), known(r.Steal), known(r.ErrorKind),
		known(r.Error), known(r.Flush),
	}
}

func known[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// eachRaw calls yield for each metric of each trial, in the order the trials ran and by metric name within one. A trial
// without figures gives one row without a metric. Trials of discarded blocks carry the rule; the line that marks such a
// block in the bundle is no trial and gives no row. All text is cleaned.
func (m *Model) eachRaw(yield func(*rawRow) error) error {
	type metricKey struct{ workload, metric string }
	type metric struct {
		unit, better string
		primary      bool
	}
	type work struct{ kind, family string }
	type block struct {
		workload       string
		session, block int
	}
	metrics, workloads, rules := map[metricKey]metric{}, map[string]work{}, map[block]string{}
	for i := range m.Cells {
		c := &m.Cells[i]
		metrics[metricKey{c.Workload, c.Metric}] = metric{clean(c.Unit), c.Better, c.Primary}
		workloads[c.Workload] = work{clean(c.Kind), clean(c.Family)}
	}
	for i := range m.Trials {
		if t := &m.Trials[i]; t.Discarded != "" {
			rules[block{t.Workload, t.Session, t.Block}] = clean(t.Discarded)
		}
	}
	writes, classes := writesOf(m.Cells), map[string]string{}
	for i := range m.Targets {
		if t := &m.Targets[i]; t.Durability != nil {
			classes[t.Name] = flushClass(t.Durability)
		}
	}
	run := clean(m.Run.ID)
	for i := range m.Trials {
		t := &m.Trials[i]
		if t.Target == "" {
			continue
		}
		w := workloads[t.Workload]
		base := rawRow{
			Run: run, Seq: int64(t.Seq), Session: int64(t.Session), Block: int64(t.Block), Warmup: t.Warmup(),
			Workload: clean(t.Workload), Kind: w.kind, Family: w.family, Target: clean(t.Target), Slot: orNil(t.Slot),
			Position: int64(t.Position),
			Work:     t.Work, Start: t.Start.UTC(), AgentNS: t.AgentNS, ControllerNS: t.ControllerNS, RTTNS: t.RTTNS,
			RTTSpreadNS: t.RTTSpreadNS, SetupNS: t.SetupNS,
		}
		if !t.Warmup() {
			base.Discarded = orNil(rules[block{t.Workload, t.Session, t.Block}])
		}
		base.hostState(t.Host)
		if t.Error != nil {
			base.ErrorKind, base.Error = orNil(t.Error.Kind), orNil(t.Error.Message)
		}
		if len(t.Metrics) == 0 {
			if err := yield(&base); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(t.Metrics)) {
			r := base
			r.Metric = orNil(name)
			if writes[[2]string{t.Workload, name}] {
				r.Flush = orNil(classes[t.Target])
			}
			if d, ok := metrics[metricKey{t.Workload, name}]; ok {
				r.Unit, r.Better, r.Primary = orNil(d.unit), orNil(d.better), &d.primary
			}
			if v := t.Metrics[name]; !math.IsNaN(v) && !math.IsInf(v, 0) {
				r.Value = &v
			}
			if err := yield(&r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rawRow) hostState(g *record.HostState) {
	if g == nil {
		return
	}
	r.HostWaitedNS, r.HostQuiet = &g.WaitedNS, &g.Quiet
	// -1 is how the record says that the platform does not tell.
	if g.Load1 >= 0 {
		r.Load1 = &g.Load1
	}
	if g.Steal >= 0 {
		r.Steal = &g.Steal
	}
}

// orNil is nil for no text.
func orNil(s string) *string {
	if s = clean(s); s == "" {
		return nil
	}
	return &s
}
