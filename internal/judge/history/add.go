package history

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// MaxPacked is the longest packed bundle that a server keeps, bytes. Of a longer one only the figures are recorded.
const MaxPacked = 128 << 20

// Entry is the record of one run in a history.
type Entry struct {
	Result  *verdict.Result
	Created time.Time
	Bundle  string // where it lies
	// Host has the facts of the controller's machine; nil when none are known.
	Host *record.Facts
	// Work tells apart, for each workload's label, other work under the same name: its kind and parameters as text.
	Work map[string]string
	// Trials and Head are the number of trials and the chain digest of the last one, as the bundle's manifest has them.
	// Head is "" where the run goes on, or the bundle was redacted.
	Trials int
	Head   string
	// Fleet has the data of the run for a fleet; the zero value where they are not known.
	Fleet Fleet
	// Packed is the packed bundle, which a server keeps; nil: none.
	Packed []byte
}

// Fleet has the plan of a run and the host that carried it out, with its facts and figures.
type Fleet struct {
	Plan    string // plan.Identity
	Host    string // as the fleet calls it
	Machine string // tells machines apart, whatever they are called
	Part    int    // from 1; 0 for a run of its own
	Of      int
	Facts   map[string]string
	Figures []Figure
}

// Figure is the figure of a workload in one target. Value, Low and High are in Unit; 0 where there is none, which Why
// explains.
type Figure struct {
	Target, Workload, Metric, Kind, Unit, Better string
	Primary                                      bool
	Value, Low, High                             float64
	Blocks                                       int
	Why                                          string
}

// Change is the effect of Add on the history.
type Change string

// The effects of Add.
const (
	Added     Change = "added"
	Unchanged Change = "unchanged"
	Replaced  Change = "replaced"
	// Outdated means that the history has more of the run than the entry, and stays as it is.
	Outdated Change = "outdated"
)

// ErrOther is returned for a run whose id is recorded with other trials: one of the two bundles was changed after it
// was written, and made to fit.
var ErrOther = errors.New("another bundle of this run is recorded, with other trials: one of them was changed after " +
	"tare wrote it")

// Add records a run, by its id. It may be called again after an error, or for a run that is recorded: each is there
// once.
func (s *Store) Add(ctx context.Context, e Entry) (Change, error) {
	var c Change
	err := s.again(ctx, func(ctx context.Context) error {
		return s.within(ctx, func(tx *sql.Tx) (err error) {
			c, err = s.add(ctx, tx, &e)
			return err
		})
	})
	if err != nil {
		return "", fmt.Errorf("record run %s in %s: %w", e.Result.Run.ID, s.where, plain(err))
	}
	return c, nil
}

// Writable tells whether runs can be recorded, as far as that shows before it is done.
func (s *Store) Writable(ctx context.Context) error {
	if !s.postgres {
		return nil
	}
	var may, standby bool
	const query = "SELECT has_table_privilege('tare_runs', 'INSERT'), pg_is_in_recovery()"
	err := s.db.QueryRowContext(ctx, query).Scan(&may, &standby)
	switch {
	case err != nil:
		return fmt.Errorf("open history %s: %w", s.where, plain(err))
	case standby:
		return fmt.Errorf("open history %s: it is a standby and takes no writes; name the server that does", s.where)
	case !may:
		return fmt.Errorf("open history %s: this role may not record: GRANT INSERT, UPDATE, DELETE on its tables to it",
			s.where)
	}
	return nil
}

func (s *Store) add(ctx context.Context, tx *sql.Tx, e *Entry) (Change, error) {
	r := &e.Result.Run
	digest, err := digestOf(e)
	if err != nil {
		return "", err
	}
	if s.postgres {
		// Those who upgrade the tables wait for those who write. Two who record one run take turns.
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock_shared($1), pg_advisory_xact_lock(hashtext($2))",
			schemaLock, "tare run "+text(r.ID)); err != nil {
			return "", err
		}
	}
	version, err := s.version(ctx, tx)
	if err == nil {
		err = check(version)
	}
	if err != nil {
		return "", err
	}
	change, err := s.changeOf(ctx, tx, e, digest)
	if err != nil || change == Unchanged || change == Outdated {
		return change, err
	}
	if err := s.addRun(ctx, tx, e, digest); err != nil {
		return "", err
	}
	if change == Replaced {
		for _, table := range []string{"tare_cells", "tare_figures", "tare_facts"} {
			if _, err := tx.ExecContext(ctx, s.bind("DELETE FROM "+table+" WHERE run_id = ?"), text(r.ID)); err != nil {
				return "", err
			}
		}
	}
	return change, s.addRows(ctx, tx, e)
}

// changeOf returns the effect that recording an entry has on the run that is there, if any. The error is ErrOther if
// that is another run.
func (s *Store) changeOf(ctx context.Context, tx *sql.Tx, e *Entry, digest string) (Change, error) {
	var was, head string
	var finished, trials int
	err := tx.QueryRowContext(ctx, s.bind("SELECT digest, head, finished, trials FROM tare_runs WHERE run_id = ?"),
		text(e.Result.Run.ID)).Scan(&was, &head, &finished, &trials)
	now := yes(e.Result.Run.Finished)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Added, nil
	case err != nil:
		return "", err
	case was == digest:
		return Unchanged, nil
	case finished == 1 && now == 1 && trials == e.Trials && head != "" && e.Head != "" && head != e.Head:
		return "", ErrOther
	case finished > now, finished == now && trials > e.Trials:
		return Outdated, nil // an older state of the run, come late
	}
	return Replaced, nil
}

var runColumns = strings.Fields(`run_id digest created name bundle baseline machine host kernel version build scope
	blocks seconds finished plan fleet_host fleet_machine part parts trials head`)

// addRun writes the row of the run. What is pinned stays so.
func (s *Store) addRun(ctx context.Context, tx *sql.Tx, e *Entry, digest string) error {
	r, f := &e.Result.Run, &e.Fleet
	machine, host, kernel := machineOf(e.Host)
	var set []string
	for _, c := range append(slices.Clone(runColumns[1:]), "recorded") {
		set = append(set, c+" = excluded."+c)
	}
	_, err := tx.ExecContext(ctx, s.bind("INSERT INTO tare_runs ("+strings.Join(runColumns, ", ")+", recorded) VALUES "+
		"("+marks(len(runColumns))+", "+s.now()+") ON CONFLICT (run_id) DO UPDATE SET "+strings.Join(set, ", ")),
		text(r.ID), digest, e.Created.UTC().Format(time.RFC3339), text(r.Name), text(e.Bundle), text(r.Baseline),
		machine, text(host), text(kernel), text(r.Version), text(r.Build), text(r.Scope), r.Blocks, r.Seconds,
		yes(r.Finished), text(f.Plan), text(f.Host), text(f.Machine), f.Part, f.Of, e.Trials, text(e.Head))
	return err
}

// addRows writes what hangs on the row of the run.
func (s *Store) addRows(ctx context.Context, tx *sql.Tx, e *Entry) error {
	id := text(e.Result.Run.ID)
	var cells, figures, facts [][]any
	for i := range e.Result.Cells {
		c := &e.Result.Cells[i]
		cells = append(cells, []any{id, text(c.Target), text(c.Workload), text(c.Metric), hash(e.Work[c.Workload]),
			text(c.Kind), text(c.Unit), yes(c.Primary), string(c.Verdict), c.Ratio.Center, c.Low, c.High, c.Center,
			c.BaselineCenter, c.Blocks, text(c.Baseline)})
	}
	for i := range e.Fleet.Figures {
		f := &e.Fleet.Figures[i]
		figures = append(figures, []any{id, text(f.Target), text(f.Workload), text(f.Metric), text(f.Kind),
			text(f.Unit), f.Better, yes(f.Primary), finite(f.Value), finite(f.Low), finite(f.High), f.Blocks,
			text(f.Why)})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fleet.Facts)) {
		facts = append(facts, []any{id, text(name), text(e.Fleet.Facts[name])})
	}
	for _, t := range []struct {
		name, columns string
		rows          [][]any
	}{
		{"tare_cells", "run_id, target, workload, metric, work, kind, unit, is_primary, verdict, ratio, low, high, " +
			"center, baseline_center, blocks, baseline", cells},
		{"tare_figures", "run_id, target, workload, metric, kind, unit, better, is_primary, value, low, high, " +
			"blocks, why", figures},
		{"tare_facts", "run_id, name, value", facts},
	} {
		if err := s.insert(ctx, tx, t.name, t.columns, t.rows); err != nil {
			return err
		}
	}
	if !s.postgres || e.Packed == nil {
		return nil
	}
	sum := sha256.Sum256(e.Packed)
	_, err := tx.ExecContext(ctx, `INSERT INTO tare_bundles (run_id, sha256, size, packed) VALUES ($1, $2, $3, $4)
		ON CONFLICT (run_id) DO UPDATE SET sha256 = excluded.sha256, size = excluded.size, packed = excluded.packed`,
		id, hex.EncodeToString(sum[:]), len(e.Packed), e.Packed)
	return err
}

// insert writes rows, some hundreds with one statement: each is a round trip to a server.
func (s *Store) insert(ctx context.Context, tx *sql.Tx, table, columns string, rows [][]any) error {
	for some := range slices.Chunk(rows, 200) {
		var args []any
		var places []string
		for _, row := range some {
			places = append(places, "("+marks(len(row))+")")
			args = append(args, row...)
		}
		if _, err := tx.ExecContext(ctx, s.bind("INSERT INTO "+table+" ("+columns+") VALUES "+
			strings.Join(places, ", ")), args...); err != nil {
			return err
		}
	}
	return nil
}

// marks are n placeholders.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// text takes out what PostgreSQL cannot keep in a text: zero bytes and what is not UTF-8.
func text(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "") }

// finite is a figure, or 0 for "none".
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func yes(b bool) int {
	if b {
		return 1
	}
	return 0
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// digestOf tells whether a run that is recorded already says something else now. Where the bundle lies does not count.
func digestOf(e *Entry) (string, error) {
	f := e.Fleet
	f.Figures = slices.Clone(f.Figures)
	for i := range f.Figures {
		v := &f.Figures[i]
		v.Value, v.Low, v.High = finite(v.Value), finite(v.Low), finite(v.High)
	}
	b, err := json.Marshal(struct {
		Run    verdict.Run
		Cells  []verdict.Cell
		Work   map[string]string
		Trials int
		Head   string
		Fleet  Fleet
	}{e.Result.Run, e.Result.Cells, e.Work, e.Trials, e.Head, f})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Machine names the machine that facts are of, by a digest of what does not change while it stays the same. It is
// "unknown" without facts.
func Machine(f *record.Facts) string {
	machine, _, _ := machineOf(f)
	return machine
}

// machineOf names the machine by what does not change while it stays the same.
func machineOf(f *record.Facts) (machine, host, kernel string) {
	if f == nil {
		return "unknown", "", ""
	}
	// Memory in GiB: a kernel update moves the last bytes.
	return hash(fmt.Sprintln(f.OS, f.Arch, f.Hostname, f.CPU, f.Cores, (f.MemoryBytes+1<<29)>>30,
		f.Extra["machine.product"])), f.Hostname, f.Kernel
}
