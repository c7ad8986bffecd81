package postgres_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tare/internal/sys/sql"
	"tare/internal/sys/sql/postgres"
	"tare/internal/sys/sql/secure"
)

func TestEveryWayIn(t *testing.T) {
	s := serve(t, false)
	for _, tcp := range []bool{false, true} {
		for _, role := range []string{"trust", "password", "md5", "scram"} {
			for _, given := range []string{password, "wrong", ""} {
				what := fmt.Sprintf("%s, tcp %t, password %q", role, tcp, given)
				config := s.config()
				config.User, config.Password = role, given
				if tcp {
					s.overTCP(&config, role)
				}
				c, err := postgres.Dial(within(t), config)
				if err == nil {
					if got := one(t, c, "SELECT current_user"); got != role {
						t.Errorf("%s: we are %s", what, got)
					}
					if err := c.Close(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				switch {
				case role == "trust" || given == password && (role != "password" || !tcp):
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				case given == "":
					says(t, what, err, "none was given")
				case role == "password" && tcp:
					says(t, what, err, "in clear text")
				default:
					code(t, what, err, "28P01")
				}
			}
		}
	}
	config := s.config()
	config.User = "scram"
	for given, hint := range map[string]bool{"wrong": false, "ﬁ": true} { // SASLprep makes two letters of the one
		config.Password = given
		if _, err := postgres.Dial(within(t), config); err == nil || strings.Contains(err.Error(), "SASLprep") != hint {
			t.Errorf("%s: %v", given, err)
		}
	}
	config = s.config()
	config.User = "nobody"
	_, err := postgres.Dial(within(t), config)
	code(t, "a role without a way in", err, "28000")
	config = s.config()
	config.Database = "nowhere"
	_, err = postgres.Dial(within(t), config)
	code(t, "an unknown database", err, "3D000")
	config = s.config()
	config.Settings = map[string]string{"no_such_setting": "1"}
	_, err = postgres.Dial(within(t), config)
	code(t, "an unknown setting", err, "42704")
	config.Settings = map[string]string{"application_name": "it's me", "work_mem": "123kB"}
	c, err := postgres.Dial(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if name, mem := c.Setting("application_name"), one(t, c, "SHOW work_mem"); name != "it's me" || mem != "123kB" {
		t.Errorf("the settings are %q and %q", name, mem)
	}
	if _, err := postgres.Dial(within(t), postgres.Config{Network: "unix", Address: "/nowhere"}); err == nil {
		t.Error("there is a server at /nowhere")
	}
}

func TestTLS(t *testing.T) {
	s := serve(t, true)
	with := func(role string, o secure.Options, own bool) (*postgres.Conn, error) {
		config := s.config()
		s.overTCP(&config, role)
		config.Password = password
		c, err := o.Config()
		if err == nil && own {
			var pair tls.Certificate
			pair, err = tls.LoadX509KeyPair(s.file("certified.crt"), s.file("certified.key"))
			c.Certificates = []tls.Certificate{pair}
		}
		if err != nil {
			t.Fatal(err)
		}
		config.Secure = secure.Client(c)
		return postgres.Dial(within(t), config)
	}
	verified := secure.Options{Name: "db.example", Authority: s.file("ca.crt")}
	for role, o := range map[string]secure.Options{
		"trust": verified, "password": verified, "md5": verified, "scram": verified, "tlsonly": verified,
		"certified": verified, // by a certificate of its own
	} {
		c, err := with(role, o, role == "certified")
		if err != nil {
			t.Errorf("%s: %v", role, err)
			continue
		}
		if got := one(t, c, "SELECT current_user || ' ' || ssl FROM pg_stat_ssl WHERE pid=pg_backend_pid()"); got !=
			role+" true" {
			t.Errorf("%s: %s", role, got)
		}
		if role == "scram" {
			heavy(t, c)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for what, o := range map[string]secure.Options{
		"any name": {Authority: s.file("ca.crt")}, "anybody": {Unverified: true},
	} {
		c, err := with("tlsonly", o, false)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		c.Close()
	}
	_, err := with("trust", secure.Options{Name: "another.example", Authority: s.file("ca.crt")}, false)
	says(t, "another's name", err, "db.example")
	_, err = with("trust", secure.Options{Name: "db.example", Authority: s.file("stranger.crt")}, false)
	says(t, "another's authority", err, "unknown authority")
	_, err = with("certified", verified, false)
	code(t, "no certificate of the client's", err, "28000")
	config := s.config()
	s.overTCP(&config, "tlsonly")
	_, err = postgres.Dial(within(t), config)
	code(t, "in the clear", err, "28000")
}

func TestNoTLS(t *testing.T) {
	s := serve(t, false)
	config := s.config()
	s.overTCP(&config, "trust")
	config.Secure = func(plain sql.Stream) (sql.Stream, error) { return nil, errors.New("not reached") }
	_, err := postgres.Dial(within(t), config)
	says(t, "a server without TLS", err, "the server has no TLS")
}
