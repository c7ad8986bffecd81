package dbserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/record"
	"tare/internal/sys/sql/postgres"
)

// TestPostgres: a real PostgreSQL keeps its data from one start to the next, and its socket only while it runs.
func TestPostgres(t *testing.T) {
	o := dbserver.Options{Product: dbserver.PostgreSQL, Dir: filepath.Join(t.TempDir(), "server")}
	for _, text := range []string{"CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)"} {
		s, err := dbserver.Start(t.Context(), o)
		if f, ok := errors.AsType[*record.Failure](err); ok && f.Kind == "refused" && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		e := s.Endpoint()
		c, err := postgres.Dial(t.Context(), postgres.Config{Network: e.Network, Address: e.Address, User: e.User,
			Database: e.Database})
		if err == nil {
			err = errors.Join(c.Query([]byte(text), nil), c.Close())
		}
		if err = errors.Join(err, s.Stop(t.Context())); err != nil || s.Version() == "" {
			t.Errorf("%s: version %q, %v", text, s.Version(), err)
		}
		if _, err := os.Stat(e.Address); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	}
	o.Programs = t.TempDir()
	_, err := dbserver.Start(t.Context(), o)
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" {
		t.Errorf("a directory without programs gives %v", err)
	}
}
