package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/sys/sql"
	"tare/internal/sys/sql/mysql"
	"tare/internal/sys/sql/secure"
)

// login logs in and checks the user.
func login(t *testing.T, c mysql.Config) error {
	conn, err := mysql.Dial(t.Context(), c)
	if err != nil {
		return err
	}
	defer conn.Quit()
	if got := table(t, conn, "SELECT SUBSTRING_INDEX(USER(), '@', 1)"); got != c.User {
		t.Errorf("logged in as %s, want %s", got, c.User)
	}
	return nil
}

// TestPlugins logs in with all supported plugins of the server, over all kinds of connections.
func TestPlugins(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		root := dial(t, s.socket())
		has := table(t, root, "SELECT plugin_name FROM information_schema.plugins "+
			"WHERE plugin_type = 'AUTHENTICATION' AND plugin_status = 'ACTIVE'")
		t.Logf("%s has %s", s.Version(), has)
		made := 0
		for plugin, form := range map[string]string{
			"caching_sha2_password": "IDENTIFIED WITH caching_sha2_password BY '%s'",
			"sha256_password":       "IDENTIFIED WITH sha256_password BY '%s'",
			"mysql_native_password": "IDENTIFIED WITH mysql_native_password BY '%s'",
			"ed25519":               "IDENTIFIED VIA ed25519 USING PASSWORD('%s')",
		} {
			if !strings.Contains(has, plugin) {
				continue
			}
			if strings.Contains(s.Version(), "MariaDB") {
				form = strings.ReplaceAll(form, "WITH mysql_native_password BY '%s'",
					"VIA mysql_native_password USING PASSWORD('%s')")
			}
			for i, password := range []string{"", "secret", "with blanks, umlauts äöü", strings.Repeat("long ", 15)} {
				if plugin == "ed25519" && password == "" {
					continue // MariaDB refuses it, also from its own client
				}
				made++
				user := fmt.Sprintf("u%d", made)
				run(t, root, "DROP USER IF EXISTS "+user, fmt.Sprintf("CREATE USER %s "+form, user, password))
				socket := s.socket()
				socket.User, socket.Password, socket.Database = user, password, ""
				encrypted := s.tcp(user, password)
				encrypted.Secure = tlsTo(t, secure.Options{Unverified: true})
				for _, way := range []struct {
					name   string
					config mysql.Config
				}{
					// The first login after FLUSH PRIVILEGES is a full one, the second one uses the server's cache.
					{"tcp", s.tcp(user, password)}, {"tcp again", s.tcp(user, password)}, {"flush", mysql.Config{}},
					{"tls", encrypted}, {"tls again", encrypted}, {"flush", mysql.Config{}},
					{"socket", socket}, {"socket again", socket},
				} {
					if way.name == "flush" {
						run(t, root, "FLUSH PRIVILEGES")
						continue
					}
					if err := login(t, way.config); err != nil {
						t.Errorf("%s with password %d by %s: %v", plugin, i, way.name, err)
					}
					way.config.Password += "x"
					if err := login(t, way.config); number(err) != 1045 {
						t.Errorf("%s with a wrong password by %s: %v", plugin, way.name, err)
					}
				}
				c := dial(t, s.socket())
				if err := c.ChangeUser(user, password, ""); err != nil {
					t.Errorf("%s with password %d by ChangeUser: %v", plugin, i, err)
				} else if got := table(t, c, "SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"); got != user {
					t.Errorf("changed to %s, want %s", got, user)
				}
				if err := c.ChangeUser("root", "", "mysql"); err != nil {
					t.Errorf("%s with password %d, ChangeUser back: %v", plugin, i, err)
				} else if got := table(t, c, "SELECT DATABASE()"); got != "mysql" {
					t.Errorf("the database is %s", got)
				}
				run(t, root, "DROP USER "+user)
			}
		}
		if made < 4 {
			t.Errorf("%d users: %s has no supported plugin", made, s.Version())
		}
	})
}

func tlsTo(t testing.TB, o secure.Options) func(sql.Stream) (sql.Stream, error) {
	c, err := o.Config()
	if err != nil {
		t.Fatal(err)
	}
	return secure.Client(c)
}

func TestTLS(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		ca, other := filepath.Join(shared, "ca.pem"), filepath.Join(shared, "other.pem")
		root := dial(t, s.socket())
		run(t, root, "DROP USER IF EXISTS tls", "CREATE USER tls IDENTIFIED BY 'secret' REQUIRE SSL")
		for name, c := range map[string]struct {
			o    secure.Options
			want string // "" for a connection
		}{
			"verified":             {secure.Options{Authority: ca, Name: serverName}, ""},
			"authority alone":      {secure.Options{Authority: ca}, ""},
			"unverified":           {secure.Options{Unverified: true}, ""},
			"another name":         {secure.Options{Authority: ca, Name: "elsewhere.test"}, "not elsewhere.test"},
			"another authority":    {secure.Options{Authority: other, Name: serverName}, "unknown authority"},
			"other, any name":      {secure.Options{Authority: other}, "unknown authority"},
			"system's authorities": {secure.Options{Name: serverName}, "unknown authority"},
		} {
			config := s.tcp("tls", "secret")
			config.Secure = tlsTo(t, c.o)
			conn, err := mysql.Dial(t.Context(), config)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			if err != nil {
				continue
			}
			if got := table(t, conn, "SHOW STATUS LIKE 'Ssl_version'"); !strings.HasPrefix(got, "Ssl_version TLSv1.") {
				t.Errorf("%s: %s", name, got)
			}
			r := &mysql.Result{Checksum: true}
			v := bytes.Repeat([]byte("0123456789"), 2<<20)
			err = conn.Query(fmt.Appendf(nil, "SELECT '%s'", v), r)
			if want := sumOf(v); err != nil || r.Sum.Ordered() != want.Ordered() {
				t.Errorf("%s: 20 MiB in both directions: %v", name, err)
			}
			conn.Quit()
		}
		if err := login(t, s.tcp("tls", "secret")); number(err) != 1045 {
			t.Errorf("a user who must use TLS, without TLS: %v", err)
		}
	})
}

func TestTooManyConnections(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		root := dial(t, s.socket())
		run(t, root, "DROP USER IF EXISTS many", "CREATE USER many", "SET GLOBAL max_connections = 10")
		defer run(t, root, "SET GLOBAL max_connections = 200", "DROP USER many")
		var err error
		for range 12 {
			var c *mysql.Conn
			if c, err = mysql.Dial(t.Context(), s.tcp("many", "")); err != nil {
				break
			}
			defer c.Quit()
		}
		if number(err) != 1040 {
			t.Errorf("with 12 connections of 10: %v", err)
		}
	})
}

func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		c := s.tcp("nobody at all", "x")
		if _, err := mysql.Dial(t.Context(), c); number(err) != 1045 {
			t.Errorf("an unknown user: %v", err)
		}
		c = s.socket()
		c.Database = "no such database"
		if _, err := mysql.Dial(t.Context(), c); number(err) != 1049 {
			t.Errorf("an unknown database: %v", err)
		}
		c.User = "with\x00zero"
		if _, err := mysql.Dial(t.Context(), c); err == nil {
			t.Error("a zero byte in a name is no error")
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := mysql.Dial(over, s.socket()); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled context: %v", err)
		}
		// The server gets no file of the client, and the connection stays usable.
		conn := dial(t, s.socket())
		run(t, conn, "CREATE DATABASE IF NOT EXISTS f", "CREATE TABLE IF NOT EXISTS f.t (a INT)")
		err := conn.Query([]byte("LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE f.t"), nil)
		if number(err) == 0 || conn.Ping() != nil {
			t.Errorf("LOCAL INFILE: %v", err)
		}
	})
}
