package sql

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/sql/datadir"
)

// archive returns the file of a data directory with a table, as the controller sends it.
func archive(t *testing.T, server map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "original")
	s, err := dbserver.Start(t.Context(), dbserver.Options{Product: dbserver.Product(server["server"]), Dir: dir,
		Root: server["root"]})
	if f, ok := errors.AsType[*record.Failure](err); ok && f.Kind == "refused" && os.Getenv("TARE_REQUIRE") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := s.Endpoint()
	c, err := dial(t.Context(), &target{product: dbserver.Product(server["server"]), endpoint: endpoint{
		Network: e.Network, Address: e.Address, User: e.User, Database: e.Database}}, false)
	if err == nil {
		statement(t, c, "CREATE TABLE kept AS SELECT 42 AS a")
		err = c.close()
	}
	if err = errors.Join(err, s.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err == nil {
		err = errors.Join(datadir.Pack(f, filepath.Join(dir, "data")), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestDataDirectory starts the service on a copied data directory, which is unpacked only once.
func TestDataDirectory(t *testing.T) {
	each(t, func(t *testing.T, server map[string]string) {
		file := archive(t, server)
		p := resolved(t, serverParams(), server)
		p["data"] = "original"
		b := &workload.Bench{Dir: t.TempDir(), Files: map[string]string{"data": file}}
		for _, text := range []string{"UPDATE kept SET a = a + 1", "SELECT 1"} {
			s := service(p, dataOf(p))
			r, err := s.Start(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			to, err := newTarget(p)
			if err == nil {
				err = to.find(&workload.Bench{Service: workload.Serving{Endpoint: r.Endpoint()}})
			}
			if err != nil {
				t.Fatal(err)
			}
			to.untold = false
			c, err := dial(t.Context(), to, false)
			if err != nil {
				t.Fatal(err)
			}
			statement(t, c, text)
			if got := word(t, c, "SELECT a FROM kept"); got != "43" {
				t.Errorf("after %s the table contains %s", text, got)
			}
			if err := errors.Join(c.close(), r.Stop(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	})
}
