// Package history keeps the history of results: one row for each run, one for each of its cells, in SQLite for one
// person or in PostgreSQL for a team.
//
// It is opinionated in what it keeps: what a report says, so that a trend can be drawn, and never the trials, which
// stay in their bundles. A run is known by its id: recording it again changes nothing, or replaces it when the run went
// on or was evaluated otherwise meanwhile. Two processes may write at the same time.
package history

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// Schema is the version of the tables. In 1 cells had no baseline of their own.
const Schema = 2

// Errors that callers tell apart with errors.Is.
var (
	ErrNewer = errors.New("made by a newer tare")
	// ErrPassword is returned for an address with a password in it where others can read it.
	ErrPassword = errors.New("a password does not belong there")
)

// Store is an open history. It is safe for concurrent use.
type Store struct {
	db       *sql.DB
	postgres bool
	where    string
}

// IsServer tells whether a store's address is that of a server and not a file.
func IsServer(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// CheckPublic refuses an address with a password: on a command line everybody on the machine can read it.
func CheckPublic(address string) error {
	if !IsServer(address) {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		// The parser's error quotes the address, password and all.
		return errors.New("the address of the store is not a URL")
	}
	if _, ok := u.User.Password(); ok || u.Query().Has("password") {
		return fmt.Errorf("%w: every user of this machine sees a command line; put it into PGPASSWORD or ~/.pgpass, "+
			"or the whole URL into TARE_STORE", ErrPassword)
	}
	return nil
}

// Open opens the history at a path (SQLite; the file is made when it is not there, its folder is not) or a postgres://
// URL. PostgreSQL's own variables and files (PGPASSWORD, ~/.pgpass, PGSSLMODE, ...) count as for psql.
func Open(ctx context.Context, address string) (*Store, error) {
	s := &Store{postgres: IsServer(address), where: public(address)}
	if err := s.open(ctx, address); err != nil {
		if s.db != nil {
			s.db.Close()
		}
		return nil, fmt.Errorf("open history %s: %w%s", s.where, err, remedy(err))
	}
	return s, nil
}

// remedy is what to do about an error of a PostgreSQL server, "" where the error says it. The codes are those of its
// manual, appendix A.
func remedy(err error) string {
	said, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	switch said.Code {
	case "28P01":
		return "; the password is taken from PGPASSWORD, from ~/.pgpass or from the URL in TARE_STORE"
	case "3D000":
		return "; create it: createdb NAME"
	case "42501":
		return "; tare creates tables named tare_* in the first schema: GRANT CREATE ON SCHEMA public TO the user"
	}
	return ""
}

// public is the address without a password.
func public(address string) string {
	if !IsServer(address) {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "(no URL)"
	}
	q := u.Query()
	q.Del("password")
	u.RawQuery = q.Encode()
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

func (s *Store) open(ctx context.Context, address string) (err error) {
	if s.postgres {
		if s.db, err = sql.Open("pgx", address); err != nil {
			return errors.New("the address is not a valid PostgreSQL URL")
		}
		// A command of a few statements: a team's server has better uses for connections.
		s.db.SetMaxOpenConns(2)
	} else {
		if scheme, _, ok := strings.Cut(address, "://"); ok {
			return fmt.Errorf("a history is a file or a postgres:// URL, not %s://", scheme)
		}
		// SQLite would only say that it cannot open the file.
		if _, err := os.Stat(filepath.Dir(address)); err != nil {
			return fmt.Errorf("its folder: %w", err)
		}
		// A file name may hold what a URI would take for its own.
		name := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: address}).EscapedPath(),
			RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&" +
				"_pragma=foreign_keys(on)&_txlock=immediate"}).String()
		if s.db, err = sql.Open("sqlite", name); err != nil {
			return err
		}
		s.db.SetMaxOpenConns(1)
	}
	return s.migrate(ctx)
}

// Close gives the connections back.
func (s *Store) Close() error { return s.db.Close() }

// schemaLock is PostgreSQL's advisory lock under which the tables are made: CREATE TABLE IF NOT EXISTS alone fails when
// two do it at once. The number is "tare" in ASCII.
const schemaLock = 0x74617265

var tables = []string{
	`CREATE TABLE IF NOT EXISTS tare_schema (version INTEGER NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS tare_runs (
		run_id TEXT PRIMARY KEY, digest TEXT NOT NULL, created TEXT NOT NULL, name TEXT NOT NULL, bundle TEXT NOT NULL,
		baseline TEXT NOT NULL, machine TEXT NOT NULL, host TEXT NOT NULL, kernel TEXT NOT NULL, version TEXT NOT NULL,
		build TEXT NOT NULL, scope TEXT NOT NULL, blocks INTEGER NOT NULL, seconds DOUBLE PRECISION NOT NULL, finished INTEGER NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS tare_cells (
		run_id TEXT NOT NULL REFERENCES tare_runs (run_id) ON DELETE CASCADE,
		target TEXT NOT NULL, workload TEXT NOT NULL, metric TEXT NOT NULL, work TEXT NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL,
		is_primary INTEGER NOT NULL, verdict TEXT NOT NULL, ratio DOUBLE PRECISION NOT NULL, low DOUBLE PRECISION NOT NULL,
		high DOUBLE PRECISION NOT NULL, center DOUBLE PRECISION NOT NULL, baseline_center DOUBLE PRECISION NOT NULL, blocks INTEGER NOT NULL,
		baseline TEXT NOT NULL DEFAULT '', PRIMARY KEY (run_id, target, workload, metric))`,
	`CREATE INDEX IF NOT EXISTS tare_cells_by_name ON tare_cells (target, workload, metric)`,
}

// upgrades bring tables of version 1 to version 2. An environment was compared with its run's baseline. A mount may
// have been compared with its environment: its baseline stays unknown. Recording a run again tells it, which it does
// where the digest differs.
var upgrades = []string{
	`ALTER TABLE tare_cells ADD COLUMN baseline TEXT NOT NULL DEFAULT ''`,
	`UPDATE tare_cells SET baseline = (SELECT r.baseline FROM tare_runs r WHERE r.run_id = tare_cells.run_id) WHERE target NOT LIKE '%:%'`,
	`UPDATE tare_runs SET digest = ''`,
	`UPDATE tare_schema SET version = 2`,
}

func (s *Store) migrate(ctx context.Context) error {
	return s.within(ctx, func(tx *sql.Tx) error {
		if s.postgres {
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
				return err
			}
		}
		for _, t := range tables {
			if _, err := tx.ExecContext(ctx, t); err != nil {
				return err
			}
		}
		var version int
		err := tx.QueryRowContext(ctx, "SELECT version FROM tare_schema").Scan(&version)
		if errors.Is(err, sql.ErrNoRows) {
			_, err = tx.ExecContext(ctx, "INSERT INTO tare_schema (version) VALUES ("+strconv.Itoa(Schema)+")")
			return err
		}
		if err == nil && version > Schema {
			return fmt.Errorf("%w: its tables have version %d, this tare knows %d", ErrNewer, version, Schema)
		}
		if err != nil || version == Schema {
			return err
		}
		for _, u := range upgrades {
			if _, err := tx.ExecContext(ctx, u); err != nil {
				return fmt.Errorf("upgrade its tables from version %d to %d: %w", version, Schema, err)
			}
		}
		return nil
	})
}

// within runs do in a transaction.
func (s *Store) within(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// bind writes the placeholders of a query as the database wants them.
func (s *Store) bind(query string) string {
	if !s.postgres {
		return query
	}
	var b strings.Builder
	n := 0
	for _, r := range query {
		if r == '?' {
			n++
			b.WriteString("$" + strconv.Itoa(n))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Entry is what is recorded of one run.
type Entry struct {
	Result  *verdict.Result
	Created time.Time
	Bundle  string // where it lies
	// Host is what is known of the controller's machine; nil when nothing is.
	Host *record.Facts
	// Work tells apart, for each workload's label, other work under the same name: its kind and parameters as text.
	Work map[string]string
}

// Change is what Add did.
type Change string

// What Add does.
const (
	Added     Change = "added"
	Unchanged Change = "unchanged"
	Replaced  Change = "replaced"
)

// Add records a run, by its id.
func (s *Store) Add(ctx context.Context, e Entry) (Change, error) {
	var c Change
	err := s.within(ctx, func(tx *sql.Tx) (err error) {
		c, err = s.add(ctx, tx, &e)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("record run %s in %s: %w", e.Result.Run.ID, s.where, err)
	}
	return c, nil
}

func (s *Store) add(ctx context.Context, tx *sql.Tx, e *Entry) (Change, error) {
	r := &e.Result.Run
	digest, err := digestOf(e)
	if err != nil {
		return "", err
	}
	if s.postgres {
		// Two who record one run take turns.
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", "tare run "+r.ID); err != nil {
			return "", err
		}
	}
	change := Added
	var had string
	err = tx.QueryRowContext(ctx, s.bind("SELECT digest FROM tare_runs WHERE run_id = ?"), r.ID).Scan(&had)
	switch {
	case err == nil && had == digest:
		return Unchanged, nil
	case err == nil:
		change = Replaced
		for _, table := range []string{"tare_cells", "tare_runs"} {
			if _, err := tx.ExecContext(ctx, s.bind("DELETE FROM "+table+" WHERE run_id = ?"), r.ID); err != nil {
				return "", err
			}
		}
	case !errors.Is(err, sql.ErrNoRows):
		return "", err
	}
	machine, host, kernel := machineOf(e.Host)
	_, err = tx.ExecContext(ctx,
		s.bind(`INSERT INTO tare_runs (run_id, digest, created, name, bundle, baseline, machine, host, kernel, version, build, scope,
		blocks, seconds, finished) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		r.ID, digest, e.Created.UTC().Format(time.RFC3339), text(r.Name), text(e.Bundle), text(r.Baseline), machine,
		text(host), text(kernel),
		text(r.Version), text(r.Build), r.Scope, r.Blocks, r.Seconds, yes(r.Finished))
	if err != nil {
		return "", err
	}
	insert, err := tx.PrepareContext(ctx,
		s.bind(`INSERT INTO tare_cells (run_id, target, workload, metric, work, kind, unit, is_primary, verdict, ratio,
		low, high, center, baseline_center, blocks, baseline) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`))
	if err != nil {
		return "", err
	}
	defer insert.Close()
	for i := range e.Result.Cells {
		c := &e.Result.Cells[i]
		if _, err := insert.ExecContext(ctx, r.ID, text(c.Target), text(c.Workload), text(c.Metric),
			hash(e.Work[c.Workload]), c.Kind, text(c.Unit),
			yes(c.Primary), string(c.Verdict), c.Ratio.Center, c.Low, c.High, c.Center, c.BaselineCenter, c.Blocks,
			text(c.Baseline)); err != nil {
			return "", err
		}
	}
	return change, nil
}

// text takes out what PostgreSQL cannot keep in a text: zero bytes and what is not UTF-8.
func text(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "") }

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
	b, err := json.Marshal(struct {
		Run   verdict.Run
		Cells []verdict.Cell
		Work  map[string]string
	}{e.Result.Run, e.Result.Cells, e.Work})
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
