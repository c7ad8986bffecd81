package postgres_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/sql/log"
	"tare/internal/sys/sql/postgres"
)

// A real server logs sessions with each of several prefixes and zones: what is read back are its users, databases,
// sessions and times, without being told the prefix.
func TestPrefixesOfARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	s := serve(t, false, "logging_collector=on", "log_directory=log", "log_filename=all.log", "log_statement=all",
		"log_connections=on", "log_disconnections=on")
	c := s.dial(t, func(*postgres.Config) {})
	ask := func(text string) {
		t.Helper()
		if err := c.Query([]byte(text), nil); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	ask("CREATE DATABASE shop")
	ask("CREATE DATABASE \"stock-2\"")
	ask("SET log_statement = none")
	ended := 0 // sessions
	await(t, "the log", func() bool {
		all, err := os.ReadFile(s.file("data/log/all.log"))
		ended = bytes.Count(all, []byte("disconnection: "))
		return err == nil && bytes.Contains(all, []byte("SET log_statement")) &&
			bytes.Count(all, []byte("connection authorized: ")) == ended+1
	})
	who := [][2]string{{"trust", "shop"}, {"tare", "shop"}, {"trust", "stock-2"}}
	for i, prefix := range []string{"%m [%p] ", "%m [%p] %q%u@%d ", "%m [%p] %q[user=%u,db=%d,app=%a] ",
		"%t:%r:%u@%d:[%p]:", "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ", "%h %m [%p] %q%u@%d ",
		"%t [%p-%l] %q%u@%d [%a] ", "%m [%p] %q%u@%d/%a ", "%m %r %u %a [%c] [%p] ", "%p-%s-%c-%l-%h-%u-%d-%m ",
		"%t [%p]: [%l-1] user=%u,db=%d - PG-%e ", "user=%u,db=%d,time=%t,pid=%p "} {
		for k, zone := range []string{"UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe",
			"Europe/Berlin"} {
			if (i+k)%2 == 1 {
				continue // each prefix with some zones, each zone with some prefixes
			}
			verbosity := []string{"default", "verbose"}[i%2]
			ask("ALTER SYSTEM SET log_line_prefix = '" + prefix + "'")
			ask("ALTER SYSTEM SET log_timezone = '" + zone + "'")
			ask("ALTER SYSTEM SET log_error_verbosity = " + verbosity)
			ask("SELECT pg_reload_conf()")
			in := fmt.Sprintf("%q in %s", prefix, zone)
			await(t, in, func() bool {
				sees := s.dial(t, func(*postgres.Config) {})
				defer sees.Close()
				ended++
				return sees.Query([]byte("SELECT 1/(current_setting('log_line_prefix') = '"+prefix+
					"' AND current_setting('log_timezone') = '"+zone+"')::int"), nil) == nil
			})
			from := quiet(t, s, ended)
			ended += len(who)
			begun := time.Now()
			for _, x := range who {
				one := s.dial(t, func(c *postgres.Config) {
					c.Database = x[1]
					if s.overTCP(c, x[0]); x[0] == "tare" {
						*c = s.config()
						c.Database = x[1]
					}
				})
				for _, text := range []string{"SELECT 1", "SELECT\n'LOG:  x'"} {
					if err := one.Query([]byte(text), nil); err != nil {
						t.Fatal(err)
					}
				}
				one.Close()
			}
			var text []byte
			await(t, in, func() bool {
				all, err := os.ReadFile(s.file("data/log/all.log"))
				text = all[from:]
				return err == nil && bytes.Count(text, []byte("disconnection: ")) == len(who)
			})
			readsBack(t, in, text, zone, who, begun, prefix)
		}
	}
}

// quiet waits until the log has the ends of so many sessions, and returns its size.
func quiet(t *testing.T, s *realServer, ended int) (size int) {
	t.Helper()
	await(t, "the log", func() bool {
		all, err := os.ReadFile(s.file("data/log/all.log"))
		size = len(all)
		return err == nil && bytes.Count(all, []byte("disconnection: ")) == ended
	})
	return size
}

// await waits for something.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

func readsBack(t *testing.T, in string, text []byte, zone string, who [][2]string, begun time.Time, prefix string) {
	t.Helper()
	o := log.Options{}
	if zone == "Asia/Kolkata" { // IST is Israel's, too
		o.Zone, _ = time.LoadLocation(zone)
	}
	r, err := log.Open(bytes.NewReader(text), o)
	if err != nil {
		t.Errorf("%s: %v\n%s", in, err, text)
		return
	}
	var e log.Event
	var got, want []string
	for r.Next(&e) == nil {
		user, database := string(e.User), string(e.Database)
		got = append(got, fmt.Sprintf("%d %v %s %s", e.Session, e.Op, user, database))
		if at := time.UnixMicro(e.Time); at.Before(begun.Add(-2*time.Second)) || at.After(time.Now()) {
			t.Errorf("%s: %v, and it began at %v", in, at.UTC(), begun.UTC())
		}
	}
	// A session may end after the next one has begun.
	slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	for i, x := range who {
		for _, op := range []log.Op{log.Connect, log.Query, log.Query, log.Quit} {
			user, database := x[0], x[1]
			if op != log.Connect && !strings.Contains(prefix, "%u") {
				user = ""
			}
			if op != log.Connect && !strings.Contains(prefix, "%d") {
				database = ""
			}
			want = append(want, fmt.Sprintf("%d %v %s %s", i+1, op, user, database))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s is read as %q:\n%q, want\n%q\n%s", in, r.Prefix(), got, want, text)
	}
}
