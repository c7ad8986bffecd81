package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/internal/suggest"
)

// Retention is the rule by which a history keeps runs and packed bundles.
type Retention struct {
	// Age is the time since its recording, by the database's clock, after which a run may go; 0: no run goes.
	Age time.Duration
	// BundleAge is the same for packed bundles, whose figures stay; 0: no bundle goes without its run.
	BundleAge time.Duration
	// Keep is the number of runs of each trend that stay, the newest ones, however old.
	Keep int
	// DryRun has nothing removed.
	DryRun bool
}

// Pruned has the counts of removed runs and bundles, or of those that would be removed.
type Pruned struct {
	Runs    int   `json:"runs"`
	Bundles int   `json:"bundles"` // those of these runs not counted
	Bytes   int64 `json:"bytes"`   // of all these bundles, packed
	// Pinned and Needed are runs that are old enough and stay: pinned ones, and those that a trend needs.
	Pinned int `json:"pinned"`
	Needed int `json:"needed"`
}

// pruneLock keeps two who prune apart.
const pruneLock = schemaLock + 1

// Prune removes old runs, and the packed bundles of runs that stay. It stays within what may be lost: pinned runs and
// the newest ones of each trend are not touched. Those who record meanwhile need not wait.
func (s *Store) Prune(ctx context.Context, r Retention) (Pruned, error) {
	p, err := s.prune(ctx, r)
	if err != nil {
		return p, fmt.Errorf("prune history %s: %w", s.where, plain(err))
	}
	return p, nil
}

func (s *Store) prune(ctx context.Context, r Retention) (p Pruned, err error) {
	if r.Age > 0 {
		old, err := s.ids(ctx, "SELECT run_id FROM tare_runs WHERE pinned = 0 AND "+s.older("recorded"),
			s.before(r.Age))
		if err != nil {
			return p, err
		}
		needed, err := s.needed(ctx, r.Keep)
		if err != nil {
			return p, err
		}
		gone := slices.DeleteFunc(slices.Clone(old), func(id string) bool { return needed[id] })
		p.Needed = len(old) - len(gone)
		err = s.db.QueryRowContext(ctx, s.bind("SELECT COUNT(*) FROM tare_runs WHERE pinned = 1 AND "+
			s.older("recorded")), s.before(r.Age)).Scan(&p.Pinned)
		if err != nil {
			return p, err
		}
		if p.Bytes, err = s.bytes(ctx, gone); err != nil {
			return p, err
		}
		if p.Runs, err = s.drop(ctx, "tare_runs", gone, r); err != nil {
			return p, err
		}
	}
	if r.BundleAge <= 0 || !s.postgres {
		return p, nil
	}
	query := `SELECT b.run_id FROM tare_bundles b JOIN tare_runs r ON r.run_id = b.run_id WHERE pinned = 0 AND ` +
		s.older("recorded")
	ids, err := s.ids(ctx, query, s.before(r.BundleAge))
	if err != nil {
		return p, err
	}
	n, err := s.bytes(ctx, ids)
	if err != nil {
		return p, err
	}
	p.Bytes += n
	p.Bundles, err = s.drop(ctx, "tare_bundles", ids, r)
	return p, err
}

// older is the condition that a time is longer ago than the parameter says, which before makes.
func (s *Store) older(column string) string {
	if s.postgres {
		return column + " < now() - make_interval(secs => ?)"
	}
	return column + " < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', ?)"
}

func (s *Store) before(d time.Duration) any {
	if s.postgres {
		return d.Seconds()
	}
	return fmt.Sprintf("-%.0f seconds", d.Seconds())
}

// ids is the first column of a query.
func (s *Store) ids(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, s.bind(query), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	slices.Sort(out)
	return out, rows.Err()
}

// needed are the newest runs of each trend.
func (s *Store) needed(ctx context.Context, keep int) (map[string]bool, error) {
	ids, err := s.ids(ctx, `SELECT DISTINCT run_id FROM (
		SELECT c.run_id, row_number() OVER (PARTITION BY r.machine, c.target, c.workload, c.metric, c.work, c.baseline
			ORDER BY r.created DESC, r.run_id DESC) AS n
		FROM tare_cells c JOIN tare_runs r ON r.run_id = c.run_id WHERE c.is_primary = 1) k WHERE n <= ?`, keep)
	out := map[string]bool{}
	for _, id := range ids {
		out[id] = true
	}
	return out, err
}

// bytes is the size of the packed bundles of runs.
func (s *Store) bytes(ctx context.Context, ids []string) (total int64, err error) {
	if !s.postgres {
		return 0, nil
	}
	for some := range slices.Chunk(ids, 1000) {
		var n int64
		err := s.db.QueryRowContext(ctx, s.bind("SELECT COALESCE(SUM(size), 0)::bigint FROM tare_bundles WHERE "+
			"run_id IN ("+marks(len(some))+")"), anys(some)...).Scan(&n)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// drop removes rows by their run, some at a time, so that nobody waits long for them. A run that was recorded again or
// pinned meanwhile stays.
func (s *Store) drop(ctx context.Context, table string, ids []string, r Retention) (int, error) {
	if r.DryRun {
		return len(ids), nil
	}
	age := r.Age
	if table != "tare_runs" {
		age = r.BundleAge
	}
	total := 0
	for some := range slices.Chunk(ids, 200) {
		err := s.within(ctx, func(tx *sql.Tx) error {
			if s.postgres {
				if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock_shared($1), pg_advisory_xact_lock($2)",
					schemaLock, pruneLock); err != nil {
					return err
				}
			}
			done, err := tx.ExecContext(ctx, s.bind("DELETE FROM "+table+" WHERE run_id IN (SELECT run_id FROM "+
				"tare_runs WHERE pinned = 0 AND "+s.older("recorded")+" AND run_id IN ("+marks(len(some))+"))"),
				append([]any{s.before(age)}, anys(some)...)...)
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			total += int(n)
			return err
		})
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}

// Pin has runs kept whatever their age, or gives them up again, and returns how many that changed. A run that is not
// recorded is an error, and then nothing is changed.
func (s *Store) Pin(ctx context.Context, ids []string, pinned bool) (int, error) {
	changed := 0
	err := s.within(ctx, func(tx *sql.Tx) error {
		for _, id := range ids {
			var was int
			err := tx.QueryRowContext(ctx, s.bind("SELECT pinned FROM tare_runs WHERE run_id = ?"), id).Scan(&was)
			if err != nil {
				return s.unknown(ctx, id, err)
			}
			if was != yes(pinned) {
				changed++
			}
			if _, err := tx.ExecContext(ctx, s.bind("UPDATE tare_runs SET pinned = ? WHERE run_id = ?"), yes(pinned),
				id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("pin runs in %s: %w", s.where, plain(err))
	}
	return changed, nil
}

// ErrUnknown is returned for a run that is not recorded.
var ErrUnknown = errors.New("it is not recorded")

// unknown makes of "no rows" what was meant. With a file's history, whose only connection is taken, nothing is
// suggested.
func (s *Store) unknown(ctx context.Context, id string, err error) error {
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	hint := ""
	if s.postgres {
		if all, err := s.ids(ctx, "SELECT run_id FROM tare_runs ORDER BY recorded DESC LIMIT 1000"); err == nil {
			hint = suggest.DidYouMean(id, all)
		}
	}
	return fmt.Errorf("run %s: %w%s", strings.TrimSpace(id), ErrUnknown, hint)
}
