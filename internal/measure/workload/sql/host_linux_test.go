package sql

import (
	"encoding/json"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload"
)

// TestServerForOtherHosts starts a private server that other hosts are to reach: it lets in who has the password that
// was made for them, and nobody else.
func TestServerForOtherHosts(t *testing.T) {
	each(t, func(t *testing.T, server map[string]string) {
		server["log"], server["from"] = "-", "c1+c2"
		p := resolved(t, replayKind().Params, server)
		member := maps.Clone(p)
		delete(member, workload.FromParam)
		s := service(p, dataOf(p))
		if alone := service(member, dataOf(member)); alone.Key == s.Key {
			t.Error("a server that is open is the same service as one that is not")
		}
		serving := started(t, s)
		var e endpoint
		if err := json.Unmarshal([]byte(serving.Endpoint), &e); err != nil || e.Port == 0 || len(e.Key) < 20 {
			t.Fatalf("%+v, %v", e, err)
		}
		text, err := json.Marshal(endpoint{Network: "tcp", User: own, Password: e.Key, Database: e.Database,
			Port: e.Port, Trials: 7})
		if err != nil {
			t.Fatal(err)
		}
		there, err := Reached(string(text), netip.MustParseAddr("127.0.0.1"))
		if err != nil || there.Trials != 7 {
			t.Fatalf("%+v, %v", there, err)
		}
		to, err := newTarget(member)
		if err == nil {
			err = to.find(&workload.Bench{Service: there})
		}
		if err != nil || to.Network != "tcp" || to.untold || to.PID != 0 {
			t.Fatalf("%+v, %v", to, err)
		}
		c, err := dial(t.Context(), to, true)
		if err != nil {
			t.Fatal(err)
		}
		if n := word(t, c, "SELECT 40 + 2"); n != "42" {
			t.Error(n)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
		for _, login := range [][2]string{{own, ""}, {own, "guessed"}, {"root", ""}, {e.User, ""}, {"", ""}} {
			bad := *to
			bad.User, bad.Password = login[0], login[1]
			c, err := dial(t.Context(), &bad, true)
			if err == nil {
				t.Errorf("%q is let in with the password %q", login[0], login[1])
				_ = c.close()
			}
		}
	})
}

// A data directory has accounts of its own, which a server on it has to ignore.
func TestDataDirectoryIsNotOpened(t *testing.T) {
	for _, product := range products {
		_, err := dbserver.Start(t.Context(), dbserver.Options{Product: product, Dir: t.TempDir(), Copied: true,
			Open: true})
		if err == nil || !strings.Contains(err.Error(), "load a dump") {
			t.Errorf("%s on a copied data directory is open", product)
		}
	}
	if _, err := Reached("no JSON", netip.IPv4Unspecified()); err == nil {
		t.Error("anything is a server")
	}
}
