package history

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
)

// Schema is the version of the tables. In 1 cells had no baseline of their own; up to 2 a run had no plan, no facts and
// no figures.
const Schema = 3

// Errors about the tables that callers tell apart with errors.Is.
var (
	ErrNewer = errors.New("made by a newer tare")
	// ErrOlder is returned for tables on a server that an older tare made: Options.Upgrade upgrades them.
	ErrOlder = errors.New("made by an older tare")
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// steps bring tables from one version to a later one, in this order. A file stands for both databases unless postgres
// has one of its own.
var steps = []struct {
	from, to       int
	file, postgres string
}{
	{0, 2, "0-2.sql", ""},
	{1, 2, "1-2.sql", ""},
	{2, 3, "2-3.sqlite.sql", "2-3.postgres.sql"},
}

// schemaLock is PostgreSQL's advisory lock for the tables: held alone while they are made or upgraded, and together by
// those who write. CREATE TABLE IF NOT EXISTS alone fails when two do it at once, and an upgrade beside writers could
// lock itself out. The number is "tare" in ASCII.
const schemaLock = 0x74617265

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// version is that of the tables, 0 where there are none.
func (s *Store) version(ctx context.Context, q querier) (int, error) {
	there := "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'tare_schema'"
	if s.postgres {
		// to_regclass would answer from a cache that does not see what others made while this one waited for the lock.
		there = "SELECT COUNT(*) FROM pg_catalog.pg_class WHERE relname = 'tare_schema' AND pg_table_is_visible(oid)"
	}
	var n, version int
	if err := q.QueryRowContext(ctx, there).Scan(&n); err != nil || n == 0 {
		return 0, err
	}
	err := q.QueryRowContext(ctx, "SELECT version FROM tare_schema").Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errors.New("its table tare_schema is empty: it is no history, or somebody has emptied it")
	}
	return version, err
}

// prepare looks whether the tables are those of this tare, and makes or upgrades them where that is in order. Where
// they are, nothing is written: a role that may only read opens a history as well.
func (s *Store) prepare(ctx context.Context) error {
	version, err := s.version(ctx, s.db)
	switch {
	case err != nil:
		return err
	case version > 0 && version < Schema && s.postgres && !s.options.Upgrade:
		return fmt.Errorf("%w: its tables have version %d, this tare needs %d; upgrade them once with \"tare history "+
			"migrate\", after which older ones cannot use them", ErrOlder, version, Schema)
	case version < Schema:
		return s.migrate(ctx)
	}
	return check(version)
}

// check refuses tables of another version.
func check(version int) error {
	if version == Schema {
		return nil
	}
	if version > Schema {
		return fmt.Errorf("%w: its tables have version %d, this tare knows %d; install a newer tare here", ErrNewer,
			version, Schema)
	}
	return fmt.Errorf("%w: its tables have version %d, this tare needs %d", ErrOlder, version, Schema)
}

// migrate makes the tables or upgrades them, in one transaction.
func (s *Store) migrate(ctx context.Context) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if s.postgres {
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
				return err
			}
		}
		had, err := s.version(ctx, tx) // another one may have been faster
		if err != nil {
			return err
		}
		version := had
		for _, step := range steps {
			if step.from != version {
				continue
			}
			file := step.file
			if s.postgres && step.postgres != "" {
				file = step.postgres
			}
			text, err := schemaFiles.ReadFile("schema/" + file)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(text)); err != nil {
				if had == 0 {
					return fmt.Errorf("make its tables: %w", err)
				}
				return fmt.Errorf("upgrade its tables from version %d to %d: %w", step.from, step.to, err)
			}
			version = step.to
		}
		if err := check(version); err != nil || version == had {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM tare_schema"); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.bind("INSERT INTO tare_schema (version) VALUES (?)"), version)
		return err
	})
}
