package history

import (
	"net/url"
	"strings"
	"testing"
)

// TestTLS holds when a server may be talked to without TLS: where the user says so, and on this machine.
func TestTLS(t *testing.T) {
	for _, c := range []struct {
		address, variable string
		clear             bool
	}{
		{"postgres://db.example/tare", "", false},
		{"postgres://db.example,other.example:5433/tare", "", false},
		{"postgres://db.example/tare?sslmode=prefer", "", true},
		{"postgres://db.example/tare", "prefer", true},
		{"postgres://db.example/tare?sslmode=verify-full", "disable", false},
		{"postgres://db.example/tare?sslmode=disable", "", true},
		{"postgres://127.0.0.1/tare", "", true},
		{"postgres://[::1]/tare", "", true},
		{"postgres://localhost/tare", "", true},
		{"postgres:///tare?host=%2Frun%2Fpostgresql", "", true},
	} {
		t.Setenv("PGSSLMODE", c.variable)
		got, err := server(c.address)
		if err != nil {
			t.Fatalf("%s: %v", c.address, err)
		}
		clear := got.TLSConfig == nil
		for _, f := range got.Fallbacks {
			clear = clear || f.TLSConfig == nil
		}
		if clear != c.clear {
			t.Errorf("%s with PGSSLMODE %q: in the clear is %v, want %v", c.address, c.variable, clear, c.clear)
		}
	}
	t.Setenv("PGSSLMODE", "")
	for _, bad := range []string{"postgres://me:sec%ret@host/", "postgres://me:secret@host:port/db",
		"postgres://host/db?sslmode=secrett&password=se%cret", "postgres://me:secret@ho st/db"} {
		if _, err := server(bad); err == nil || strings.Contains(err.Error(), "sec%ret") ||
			strings.Contains(err.Error(), ":secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// FuzzAddress holds that what is shown of an address has no password, and that one which may be public has none.
func FuzzAddress(f *testing.F) {
	f.Add("me@host/db?sslmode=disable")
	f.Add("me:secret@host:5432,other/db?password=x")
	f.Add("%zz")
	f.Fuzz(func(t *testing.T, rest string) {
		address := "postgres://" + rest
		shown := public(address)
		if err := CheckPublic(address); err == nil && CheckPublic(shown) != nil {
			t.Errorf("%s may be public, and %s may not", address, shown)
		}
		if u, err := url.Parse(shown); err == nil && shown != "(no URL)" {
			if _, has := u.User.Password(); has || u.Query().Has("password") || u.Query().Has("sslpassword") {
				t.Errorf("of %s %s is shown", address, shown)
			}
		}
	})
}
