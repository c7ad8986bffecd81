package history

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Kept is a packed bundle that a server keeps.
type Kept struct {
	RunID    string
	Host     string // as the fleet calls it, or by its facts; "unknown" without them
	Plan     string // plan.Identity; "" where it is not known
	Recorded time.Time
	Finished bool
	Size     int64  // bytes
	SHA256   string // of the packed bundle
}

// Bundles lists the packed bundles of some runs, or of all runs of a plan, the one that was recorded first before the
// others. Without either it lists all.
func (s *Store) Bundles(ctx context.Context, runs []string, plan string) ([]Kept, error) {
	if !s.postgres {
		return nil, fmt.Errorf("fetch bundles of %s: %w", s.where, ErrNoServer)
	}
	list, err := s.bundles(ctx, runs, plan)
	if err != nil {
		return nil, fmt.Errorf("fetch bundles of %s: %w", s.where, plain(err))
	}
	return list, nil
}

func (s *Store) bundles(ctx context.Context, runs []string, plan string) ([]Kept, error) {
	query := `SELECT v.run_id, v.host, v.plan, v.recorded, v.finished, b.size, b.sha256
		FROM tare_view_runs v JOIN tare_bundles b ON b.run_id = v.run_id`
	var args []any
	switch {
	case len(runs) > 0:
		query += " WHERE v.run_id IN (" + marks(len(runs)) + ")"
		args = anys(runs)
	case plan != "":
		query += " WHERE v.plan = ?"
		args = []any{plan}
	}
	rows, err := s.db.QueryContext(ctx, s.bind(query+" ORDER BY v.recorded, v.run_id"), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []Kept{}
	for rows.Next() {
		var k Kept
		if err := rows.Scan(&k.RunID, &k.Host, &k.Plan, &k.Recorded, &k.Finished, &k.Size, &k.SHA256); err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, rows.Err()
}

// Packed returns a packed bundle, which has been checked against its digest.
func (s *Store) Packed(ctx context.Context, k *Kept) ([]byte, error) {
	var packed []byte
	err := s.again(ctx, func(ctx context.Context) error {
		query := s.bind("SELECT packed FROM tare_bundles WHERE run_id = ? AND length(packed) <= ?")
		return s.db.QueryRowContext(ctx, query, k.RunID, MaxPacked).Scan(&packed)
	})
	if err != nil {
		return nil, fmt.Errorf("fetch the bundle of run %s from %s: %w", k.RunID, s.where, plain(err))
	}
	if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != k.SHA256 {
		return nil, fmt.Errorf("fetch the bundle of run %s from %s: it was changed in the history: its digest is not "+
			"the one recorded", k.RunID, s.where)
	}
	return packed, nil
}
