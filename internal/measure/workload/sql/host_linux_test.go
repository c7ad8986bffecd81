package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		there, err := Reached(string(text), near)
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

// A dump may bring accounts, by statements or in the tables of accounts: by a port nobody uses them. While it is loaded
// there is no port.
func TestAccountsOfADump(t *testing.T) {
	each(t, func(t *testing.T, server map[string]string) {
		server["log"], server["from"] = "-", "c1+c2"
		p := resolved(t, replayKind().Params, server)
		s := service(p, content{key: "accounts", fill: func(ctx context.Context, _ *workload.Bench, to *target) error {
			c, err := dial(ctx, to, false)
			if err != nil {
				return err
			}
			texts := []string{"CREATE ROLE guest LOGIN PASSWORD 'secret'", "CREATE ROLE boss SUPERUSER LOGIN"}
			if to.mysql() {
				texts = []string{"CREATE USER guest@'%' IDENTIFIED BY 'secret'", "CREATE USER boss@'127.0.0.1'",
					"CREATE USER tare@'127.0.0.1'", "CREATE USER ''@'%'", "CREATE USER `a``b`@'%'",
					"CREATE DEFINER = guest@'%' VIEW seen AS SELECT 42 AS a",
					"CREATE ROLE readers",
					"GRANT ALL ON *.* TO boss@'127.0.0.1'"}
			}
			port := "SELECT setting FROM pg_settings WHERE name = 'listen_addresses' AND setting <> ''"
			if to.mysql() {
				port = "SELECT @@port FROM DUAL WHERE NOT @@skip_networking"
			}
			if at := word(t, c, port); at != "" {
				t.Errorf("it listens at %s while it is loaded", at)
			}
			return errors.Join(run(c, texts...), c.close())
		}})
		serving := started(t, s)
		var e endpoint
		if err := json.Unmarshal([]byte(serving.Endpoint), &e); err != nil {
			t.Fatal(err)
		}
		to := target{product: dbserver.Product(server["server"])}
		to.Network, to.Address, to.Database = "tcp", fmt.Sprintf("127.0.0.1:%d", e.Port), e.Database
		for login, in := range map[[2]string]bool{{own, e.Key}: true, {"guest", "secret"}: false, {"boss", ""}: false,
			{own, ""}: false, {"anybody", ""}: false, {"a`b", ""}: false, {"root", ""}: false} {
			to.User, to.Password = login[0], login[1]
			c, err := dial(t.Context(), &to, true)
			if (err == nil) != in {
				t.Errorf("%q with the password %q: %v", login[0], login[1], err)
			}
			if err == nil {
				if to.mysql() {
					if got := word(t, c, "SELECT a FROM seen"); got != "42" {
						t.Errorf("a view of an account that is locked has %q", got)
					}
				}
				err = c.close()
			}
			if in && err != nil {
				t.Error(err)
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
		_, err = dbserver.Start(t.Context(), dbserver.Options{Product: product, Dir: t.TempDir(), Open: true,
			Settings: []string{"Skip-grant-tables=1"}})
		if err == nil || !strings.Contains(err.Error(), "open to everybody") {
			t.Errorf("%s without accounts is open: %v", product, err)
		}
	}
	if _, err := Reached("no JSON", near); err == nil {
		t.Error("anything is a server")
	}
}

// near is how a client beside the server finds its ports.
func near(port uint16) (netip.AddrPort, error) {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), nil
}
