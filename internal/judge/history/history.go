// Package history keeps the history of results: one row for each run, one for each of its cells, in SQLite for one
// person or in PostgreSQL for a team and for the hosts of a fleet.
//
// It is opinionated in what it keeps: what a report says, so that a trend can be drawn, and never the trials, which
// stay in their bundles; a server keeps the bundles too, packed. A run is known by its id: recording it again changes
// nothing, or replaces it when the run went on or was evaluated otherwise meanwhile, and never takes a step back. So a
// write may be repeated as often as anybody likes, and hundreds of processes may write at the same time.
package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Store is an open history. It is safe for concurrent use.
type Store struct {
	db       *sql.DB
	postgres bool
	where    string
	options  Options
	waiting  sync.Once
}

// Options are the settings with which a store is opened.
type Options struct {
	// Patience is the time for which a server is tried again that cannot be reached, has no connection left, or went
	// away in the middle; 0: not at all. A file is never tried again.
	Patience time.Duration
	// Waiting, where set, is told once why a server is tried again.
	Waiting func(reason string)
	// Upgrade has tables of an older version upgraded on a server. Those in a file always are.
	Upgrade bool
}

// Open opens the history at a path (SQLite; the file is made when it is not there, its folder is not) or a postgres://
// URL. PostgreSQL's own variables and files (PGPASSWORD, ~/.pgpass, PGSERVICE, PGSSLMODE, ...) count as for psql.
func Open(ctx context.Context, address string) (*Store, error) {
	return OpenWith(ctx, address, Options{})
}

// OpenWith is Open with options.
func OpenWith(ctx context.Context, address string, o Options) (*Store, error) {
	s := &Store{postgres: IsServer(address), where: public(address), options: o}
	err := s.connect(address)
	if err == nil {
		err = s.again(ctx, s.prepare)
	}
	if err != nil {
		if s.db != nil {
			s.db.Close()
		}
		return nil, fmt.Errorf("open history %s: %w", s.where, plain(err))
	}
	return s, nil
}

// connect fills in the database, which is not asked for anything yet.
func (s *Store) connect(address string) (err error) {
	if s.postgres {
		c, err := server(address)
		if err != nil {
			return err
		}
		s.db = stdlib.OpenDB(*c)
		// A command of a few statements: a team's server has better uses for connections.
		s.db.SetMaxOpenConns(2)
		return nil
	}
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
	return nil
}

// Close gives the connections back.
func (s *Store) Close() error { return s.db.Close() }

// Server tells whether the history is on a server.
func (s *Store) Server() bool { return s.postgres }

// within runs do in a transaction.
func (s *Store) within(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // what fails here has ended the transaction, too
		return err
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

// now is the time by the database's clock: those of hosts may be years off.
func (s *Store) now() string {
	if s.postgres {
		return "now()"
	}
	return "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"
}

// ErrNoServer is returned for what only a history on a server has.
var ErrNoServer = errors.New("a history in a file keeps no bundles: they are where they were measured")
