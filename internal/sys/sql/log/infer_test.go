package log

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// prefixesOfOthers are those that servers, providers and programs which read logs set or recommend.
var prefixesOfOthers = []string{
	"%m [%p] ", "%m [%p] %q%u@%d ", "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ", "%t:%r:%u@%d:[%p]:",
	"%m [%p] %q[user=%u,db=%d,app=%a] ", "%h %m [%p] %q%u@%d ", "%t [%p-%l] %q%u@%d ", "%t [%p] %q%u@%d %h ",
	"%m [%p][%v] : [%l-1] %q[app=%a] ", "%t [%p]: [%l-1] user=%u,db=%d - PG-%e ",
	"%t [%p]: [%l-1] [trx_id=%x] user=%u,db=%d ", "[%p]: [%l-1] db=%d,user=%u ", "%m %r %u %a [%c] [%p] ",
	"pid=%p,user=%u,db=%d,app=%a,client=%h ", "user=%u,db=%d,app=%a,client=%h ", "%p-%s-%c-%l-%h-%u-%d-%m ",
	"%m [%p][%b][%v][%x] %q[user=%u,db=%d,app=%a] ", " sql_error_code = %e ", "%t-%c-",
	"%m [%p]: [%l-1] db=%d,user=%u ",
	` sql_error_code = %e time_ms = "%m" pid="%p" proc_start_time="%s" session_id="%c" vtid="%v" tid="%x" ` +
		`log_line="%l" %qdatabase="%d" connection_source="%r" user="%u" application_name="%a" `,
	"%m [%p] %q%u@%d/%a ", "%t [%p-%l] %q%u@%d [%a] ", "user=%u,db=%d,time=%t ", "%m|%u|%d|%c|", "%n [%p] %q%u@%d ",
	"%m [%p:%l] %q%d %u %h ", "<%m> [%p] %q{%d} {%u} ", "%m %c %i %u@%d ", "%e:%m:%p:%u:%d:", "%q%u@%d %m [%p] ",
	"%m [%p] app=%a user=%u database=%d host=%h xid=%x vxid=%v line=%l ",
}

// sampleLine is a line as PostgreSQL writes it.
type sampleLine struct {
	pid, line  int
	user, db   string // empty for a process that is no session's
	app        string
	text       string
	at         time.Time
	zone       string
	background string // %b
}

// with writes the line with a prefix.
func (w *sampleLine) with(prefix string) string {
	var b strings.Builder
	session := w.user != ""
	of := func(s string) string {
		if session {
			return s
		}
		return ""
	}
	for i := 0; i < len(prefix); i++ {
		if prefix[i] != '%' {
			b.WriteByte(prefix[i])
			continue
		}
		i++
		switch prefix[i] {
		case 'm':
			b.WriteString(w.at.Format("2006-01-02 15:04:05.000 ") + w.zone)
		case 't':
			b.WriteString(w.at.Format("2006-01-02 15:04:05 ") + w.zone)
		case 's':
			b.WriteString(w.at.Add(-time.Hour).Format("2006-01-02 15:04:05 ") + w.zone)
		case 'n':
			fmt.Fprintf(&b, "%d.%03d", w.at.Unix(), w.at.UnixMilli()%1000)
		case 'p':
			fmt.Fprint(&b, w.pid)
		case 'l':
			fmt.Fprint(&b, w.line)
		case 'c':
			fmt.Fprintf(&b, "69c7a1f0.%x", w.pid)
		case 'u':
			b.WriteString(w.user)
		case 'd':
			b.WriteString(w.db)
		case 'a':
			b.WriteString(w.app)
		case 'h':
			b.WriteString(of("192.0.2.7"))
		case 'r':
			b.WriteString(of("192.0.2.7(50432)"))
		case 'e':
			b.WriteString("00000")
		case 'v':
			b.WriteString(of(fmt.Sprintf("3/%d", w.line)))
		case 'x':
			b.WriteString("0")
		case 'i':
			b.WriteString(of("SELECT"))
		case 'b':
			b.WriteString(w.background)
		case 'q':
			if !session {
				return b.String() + "LOG:  " + w.text + "\n"
			}
		}
	}
	return b.String() + "LOG:  " + w.text + "\n"
}

// sessionsOf is a log of three sessions, two users and two databases, and of the server itself.
func sessionsOf(prefix string, connects bool) string {
	var b strings.Builder
	at := time.Date(2026, 9, 27, 6, 57, 0, 400e6, time.UTC)
	server := sampleLine{pid: 1998, zone: "UTC", text: "database system is ready to accept connections",
		background: "postmaster"}
	server.at, server.line = at, 1
	b.WriteString(server.with(prefix))
	for i, who := range [][2]string{{"anna", "shop"}, {"ben", "shop"}, {"anna", "stock-2"}} {
		w := sampleLine{pid: 2001 + i*7, user: who[0], db: who[1], app: "[unknown]", zone: "UTC", at: at,
			background: "client backend"}
		say := func(text string) {
			w.line++
			w.at = w.at.Add(250 * time.Millisecond)
			w.text = text
			b.WriteString(w.with(prefix))
		}
		if connects {
			say("connection authorized: user=" + w.user + " database=" + w.db)
		}
		w.app = []string{"web", "PostgreSQL JDBC Driver", "psql"}[i]
		say("statement: SELECT 1")
		say("duration: 0.250 ms  statement: SELECT\n\t2")
		server.at = w.at
		server.line++
		server.text = "checkpoint starting: time"
		b.WriteString(server.with(prefix))
		if connects {
			say("disconnection: session time: 0:00:01.000 user=" + w.user + " database=" + w.db + " host=192.0.2.7")
		}
	}
	return b.String()
}

func TestPrefixIsInferred(t *testing.T) {
	for _, prefix := range prefixesOfOthers {
		t.Run(prefix, func(t *testing.T) {
			r, err := Open(strings.NewReader(sessionsOf(prefix, true)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var e Event
			var got []string
			sessions := map[uint64]bool{}
			for err = r.Next(&e); err == nil; err = r.Next(&e) {
				sessions[e.Session] = true
				got = append(got, fmt.Sprintf("%v %s %s", e.Op, e.User, e.Database))
			}
			if err != io.EOF {
				t.Fatal(err)
			}
			has := func(s string) bool { return strings.Contains(prefix, s) }
			known := has("%p") || has("%c") || has("%u") && has("%d")
			if known && (len(sessions) != 3 || len(got) != 12) {
				t.Errorf("%d sessions, %d events with %q: %q", len(sessions), len(got), r.Prefix(), got)
			}
			for i, g := range got {
				who := [][2]string{{"anna", "shop"}, {"ben", "shop"}, {"anna", "stock-2"}}[i/4]
				want := [2]string{}
				if has("%u") || i%4 == 0 {
					want[0] = who[0]
				}
				if has("%d") || i%4 == 0 {
					want[1] = who[1]
				}
				if !strings.HasSuffix(g, " "+want[0]+" "+want[1]) {
					t.Errorf("event %d is %q with %q, want %q", i, g, r.Prefix(), want)
				}
			}
		})
	}
}

// Without a word of the log about its users, names that nothing labels are no guess.
func TestPrefixIsNoGuess(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"%m [%p] %q%u %d ", "the user"}, {"%m %u %a [%p] ", "differ in"}, {"%m|%u|%d|%c|", "differ in"},
	} {
		_, err := Open(strings.NewReader(sessionsOf(c.prefix, false)), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--prefix") {
			t.Errorf("%q: %v, want %q", c.prefix, err, c.want)
		}
		if err != nil && strings.Count(err.Error(), "%m") < 2 {
			t.Errorf("%q: the error does not name two: %v", c.prefix, err)
		}
		if _, err := Open(strings.NewReader(sessionsOf(c.prefix, false)), Options{Prefix: c.prefix}); err != nil {
			t.Errorf("%q given: %v", c.prefix, err)
		}
	}
}

// What a server writes between the severity and the message is no part of the message.
func TestAdditions(t *testing.T) {
	for _, c := range []struct{ name, between string }{
		{"nothing", ""}, {"verbose", "00000: "}, {"AlloyDB", "[postgres.c:1062]  "}, {"a path", "[tcop/postgres.c:9] "},
	} {
		log := "2026-07-23 12:06:33.732 UTC [44] LOG:  " + c.between + "statement: SELECT 1\n" +
			"2026-07-23 12:06:33.732 UTC [44] LOCATION:  exec_simple_query, postgres.c:975\n" +
			"2026-07-23 12:06:35.024 UTC [44] LOG:  " + c.between + "execute a: SELECT $1\n" +
			"2026-07-23 12:06:35.024 UTC [44] DETAIL:  parameters: $1 = '5'\n"
		want := "1 Query begun \"SELECT 1\"\n1 Execute \"SELECT $1\" name=a \"5\"\n"
		if _, got := readAll(t, log, Options{}); got != want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// Other lines of the server come after the sample.
func TestPrefixOfTheServerComesLater(t *testing.T) {
	session := "2026-09-27 06:57:00.400 UTC [7] anna@shop LOG:  statement: SELECT 1\n"
	log := strings.Repeat(session, 2000) + "2026-09-27 06:57:00.400 UTC [3] LOG:  checkpoint starting: time\n" + session
	r, _ := readAll(t, log, Options{})
	if a := r.Account(); a.Statements.Replayed != 2001 || a.Bytes.Lost > 0 {
		t.Errorf("%+v", a)
	}
}

func FuzzPrefix(f *testing.F) {
	for _, p := range prefixesOfOthers {
		f.Add(sessionsOf(p, true))
	}
	f.Add("%a %a LOG:  x\na b c d e f g h i j k l m n o LOG:  y\n")
	f.Fuzz(func(t *testing.T, sample string) {
		if len(sample) > 1<<14 {
			return
		}
		r, err := Open(strings.NewReader(""), Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := inferPrefix(r, []byte(sample))
		if p == nil || err != nil {
			return
		}
		if _, err := parsePrefix(p.text); err != nil {
			t.Fatalf("%q: %v", p.text, err)
		}
	})
}
