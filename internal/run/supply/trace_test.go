package supply

import (
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/log"
	"tare/internal/sys/sql/trace"
)

// converted returns the trace of a log, its account, and the trace's file.
func converted(t *testing.T, src io.Reader, p log.Policy) (*trace.Trace, log.Account, []byte) {
	t.Helper()
	r, err := log.Open(src, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := convert(t.Context(), r, p, trace.NewWriter(&file, trace.Meta{Dialect: r.Dialect()}), false); err != nil {
		t.Fatal(err)
	}
	tr, err := trace.Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return tr, r.Account(), file.Bytes()
}

// lines returns the events of a trace as text, one per line, by session.
func lines(t *testing.T, tr *trace.Trace) string {
	t.Helper()
	names := [...]string{trace.Connect: "connect", trace.Quit: "quit", trace.InitDB: "use", trace.Query: "query",
		trace.Prepare: "prepare", trace.Execute: "execute", trace.CloseStmt: "close", trace.ResetStmt: "reset",
		trace.ChangeUser: "user", trace.ResetConnection: "anew"}
	var out strings.Builder
	var e trace.Event
	for i := range tr.Sessions() {
		c := tr.Session(i)
		err := c.Next(&e)
		for ; err == nil; err = c.Next(&e) {
			fmt.Fprintf(&out, "%d %s", i, names[e.Op])
			if e.At >= 0 {
				fmt.Fprintf(&out, " at=%d", e.At)
			}
			if e.Statement > 0 {
				fmt.Fprintf(&out, " #%d", e.Statement)
			}
			if len(e.User)+len(e.Database) > 0 {
				fmt.Fprintf(&out, " %s/%s", e.User, e.Database)
			}
			if len(e.Text) > 0 {
				fmt.Fprintf(&out, " %s", e.Text)
			}
			for k, p := range e.Params {
				switch {
				case p == nil:
					out.WriteString(" NULL")
				case len(e.Types) > 0:
					fmt.Fprintf(&out, " %q:%d", p, e.Types[k])
				default:
					fmt.Fprintf(&out, " %q", p)
				}
			}
			out.WriteByte('\n')
		}
		if err != io.EOF {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestConvert(t *testing.T) {
	for _, c := range []struct{ name, log, want string }{
		{"sessions are told apart", "" +
			"2026-11-21T00:05:31.000000Z\t    8 Connect\tshop@localhost on shop using Socket\n" +
			"2026-11-21T00:05:31.000100Z\t    8 Query\tSELECT 1\n" +
			"2026-11-21T00:05:31.000200Z\t    9 Query\tUPDATE a SET b = 1\n" +
			"2026-11-21T00:05:31.000300Z\t    9 Query\tSELECT 2\n" +
			"2026-11-21T00:05:31.000400Z\t    9 Init DB\tother\n" +
			"2026-11-21T00:05:31.000500Z\t    8 Quit\t\n", `
0 connect at=0 shop/shop
0 query at=100 SELECT 1
0 quit at=500
1 connect at=300
1 query at=300 SELECT 2
1 use at=400 /other
`},
		{"prepared statements of MySQL", "" +
			"261121  0:05:31\t    8 Prepare\tSELECT ? FROM a WHERE b = ?\n" +
			"\t\t    8 Execute\tSELECT 'it''s\\n' FROM a WHERE b = -5\n" +
			"\t\t    8 Execute\tSELECT NULL FROM a WHERE b = 1.5e3\n" +
			"\t\t    8 Close stmt\t\n" +
			"\t\t    8 Prepare\tDELETE FROM a WHERE b = ?\n" +
			"\t\t    8 Execute\tDELETE FROM a WHERE b = 1\n" +
			"\t\t    8 Close stmt\t\n" +
			"\t\t    8 Execute\tSELECT 7\n", `
0 connect at=0
0 prepare at=0 #1 SELECT ? FROM a WHERE b = ?
0 execute at=0 #1 SELECT 'it''s\n' FROM a WHERE b = -5 "it's\n":0 "-5":1
0 execute at=0 #1 SELECT NULL FROM a WHERE b = 1.5e3 NULL "1.5e3":2
0 close at=0 #1
0 query at=0 SELECT 7
`},
		{"a backslash that is one", "" +
			"261121  0:05:31\t    8 Query\tSET sql_mode = 'NO_BACKSLASH_ESCAPES'\n" +
			"\t\t    8 Prepare\tSELECT ?\n" +
			"\t\t    8 Execute\tSELECT '\\n'\n", `
0 connect at=0
0 query at=0 SET sql_mode = 'NO_BACKSLASH_ESCAPES'
0 prepare at=0 #1 SELECT ?
0 execute at=0 #1 SELECT '\n' "\\n":0
`},
		{"databases of a slow log", "" +
			"# Time: 071015 21:43:52\n# User@Host: u[u] @ localhost []  Id: 5\n# Query_time: 2  Rows_sent: 1\n" +
			"use one;\nSELECT 1;\n" +
			"# User@Host: u[u] @ localhost []  Id: 5\n# Query_time: 2  Rows_sent: 1\nSELECT 2;\n" +
			"# User@Host: u[u] @ localhost []  Id: 5\n# Query_time: 2  Rows_sent: 1\nuse two;\nSELECT 3;\n", `
0 connect at=0 u/one
0 query at=0 SELECT 1
0 query at=0 SELECT 2
0 use at=0 /two
0 query at=0 SELECT 3
`},
		{"prepared statements of PostgreSQL", "" +
			"2020-03-11 20:40:43.250 UTC [1] u@d LOG:  execute x: SELECT $1\n" +
			"2020-03-11 20:40:43.250 UTC [1] u@d DETAIL:  parameters: $1 = 'it''s'\n" +
			"2020-03-11 20:40:43.251 UTC [1] u@d LOG:  execute x: SELECT $1\n" +
			"2020-03-11 20:40:43.251 UTC [1] u@d DETAIL:  parameters: $1 = NULL\n" +
			"2020-03-11 20:40:43.252 UTC [1] u@d LOG:  execute <unnamed>: SELECT $1\n" +
			"2020-03-11 20:40:43.252 UTC [1] u@d DETAIL:  parameters: $1 = '2'\n" +
			"2020-03-11 20:40:43.253 UTC [1] u@d LOG:  statement: DEALLOCATE ALL\n" +
			"2020-03-11 20:40:43.254 UTC [1] u@d LOG:  execute x: SELECT $1\n" +
			"2020-03-11 20:40:43.254 UTC [1] u@d DETAIL:  parameters: $1 = '3'\n", `
0 connect at=0 u/d
0 prepare at=0 #1 SELECT $1
0 execute at=0 #1 SELECT $1 "it's"
0 execute at=1000 #1 SELECT $1 NULL
0 execute at=2000 SELECT $1 "2"
0 query at=3000 DEALLOCATE ALL
0 prepare at=4000 #2 SELECT $1
0 execute at=4000 #2 SELECT $1 "3"
`},
		{"PREPARE and EXECUTE as texts", "" +
			"2020-03-11 20:40:43.250 UTC [1] u@d LOG:  statement: EXECUTE y(1)\n" +
			"2020-03-11 20:40:43.250 UTC [1] u@d DETAIL:  prepare: PREPARE y AS SELECT $1\n" +
			"2020-03-11 20:40:43.251 UTC [1] u@d LOG:  statement: PREPARE x AS SELECT $1\n" +
			"2020-03-11 20:40:43.252 UTC [1] u@d LOG:  statement: EXECUTE x(1)\n" +
			"2020-03-11 20:40:43.252 UTC [1] u@d DETAIL:  prepare: PREPARE x AS SELECT $1\n", `
0 connect at=0 u/d
0 query at=0 PREPARE x AS SELECT $1
0 query at=1000 EXECUTE x(1)
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, _, _ := converted(t, strings.NewReader(c.log), log.Policy{})
			if got := lines(t, tr); got != strings.TrimPrefix(c.want, "\n") {
				t.Errorf("got\n%s\nwant%s", got, c.want)
			}
		})
	}
}

// A literal has the value that the client sent.
func TestLiteral(t *testing.T) {
	for _, c := range []struct {
		literal, want string
		is            trace.Type
	}{
		{"'a'", "a", trace.Text}, {"''", "", trace.Text}, {`'a''b\'c\"'`, `a'b'c"`, trace.Text},
		{`'\0\b\n\r\t\Z\\\%\_\x'`, "\x00\b\n\r\t\x1a\\\\%\\_x", trace.Text}, {`"a""b"`, `a"b`, trace.Text},
		{"_utf8mb4'a'", "a", trace.Text}, {"_binary'a'", "a", trace.Blob}, {"TIMESTAMP'2020-01-01 00:00:00'",
			"2020-01-01 00:00:00", trace.Text}, {"x'0aFF'", "\x0a\xff", trace.Blob}, {"N'a'", "a", trace.Text},
		{"5", "5", trace.Int}, {"-5", "-5", trace.Int}, {"18446744073709551615", "18446744073709551615", trace.Int},
		{"18446744073709551616", "18446744073709551616", trace.Text}, {"-1.50", "-1.50", trace.Text},
		{"1e-5", "1e-5", trace.Double}, {"TRUE", "1", trace.Int}, {"false", "0", trace.Int},
	} {
		got, is, ok := literal(nil, []byte(c.literal), lex.Options{})
		if string(got) != c.want || is != c.is || !ok || got == nil {
			t.Errorf("%s means %q of type %d (%v), want %q of type %d", c.literal, got, is, ok, c.want, c.is)
		}
	}
	for _, l := range []string{"", "'", "x'0'", "0x0F", "DEFAULT", "-", "b'01'", "a 5", "*5"} {
		if got, _, ok := literal(nil, []byte(l), lex.Options{}); ok {
			t.Errorf("%s is taken for %q", l, got)
		}
	}
	if got, _, ok := literal(nil, []byte("null"), lex.Options{}); got != nil || !ok {
		t.Errorf("NULL means %q (%v)", got, ok)
	}
}

// A value is never longer than its literal; converter.values relies on that.
func FuzzLiteral(f *testing.F) {
	for _, s := range []string{"'a'", `'\%'`, "x'00'", "-5", "_binary'a'", "true", "1e5"} {
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, noBackslash bool) {
		got, _, _ := literal(nil, text, lex.Options{NoBackslashEscapes: noBackslash})
		if len(got) > len(text) {
			t.Errorf("%q means %q", text, got)
		}
	})
}

// wantedEvent is an event that must be in the trace.
type wantedEvent struct {
	op   log.Op
	text string
	at   int64
}

// byHand returns the events by session that must be in the trace, and the account of a log.
func byHand(t *testing.T, src io.Reader) (sessions [][]wantedEvent, a log.Account) {
	t.Helper()
	r, err := log.Open(src, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan := log.Planner{Dialect: r.Dialect()}
	index := map[uint64]int{}
	var e log.Event
	for err = r.Next(&e); err == nil; err = r.Next(&e) {
		d := plan.Decide(&e)
		r.Settle(d.Part, d.Reason)
		if d.Part != log.Replayed || !e.Op.Statement() && e.Op != log.Quit && e.Op != log.Connect {
			continue
		}
		i, ok := index[e.Session]
		if !ok {
			i = len(sessions)
			index[e.Session], sessions = i, append(sessions, nil)
		}
		sessions[i] = append(sessions[i], wantedEvent{e.Op, string(e.Text), e.Time})
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return sessions, r.Account()
}

// checkEqual checks that a trace contains the events of a log in the order of each session.
func checkEqual(t *testing.T, name string, tr *trace.Trace, sessions [][]wantedEvent) {
	t.Helper()
	var e trace.Event
	number := map[uint64]bool{}
	for i, want := range sessions {
		if len(want) > 0 && want[0].op != log.Connect { // the trace has one all the same
			want = slices.Insert(want, 0, wantedEvent{op: log.Connect, at: want[0].at})
		}
		c := tr.Session(i)
		for k := 0; ; k++ {
			err := c.Next(&e)
			for err == nil && !e.Op.Statement() && e.Op != trace.Quit && e.Op != trace.Connect {
				err = c.Next(&e)
			}
			if err == io.EOF && k == len(want) {
				break
			}
			if err != nil || k == len(want) {
				t.Fatalf("%s: session %d: %v at event %d of %d", name, i, err, k, len(want))
			}
			w := want[k]
			if string(e.Text) != w.text || e.Op.Statement() != w.op.Statement() ||
				(w.at == log.NoTime) != (e.At < 0) || w.at != log.NoTime && e.At != max(0, w.at-tr.Meta().Start) {
				t.Fatalf("%s: session %d has %+v, want %+v", name, i, e, w)
			}
			if e.Op.Statement() && number[e.Number] {
				t.Fatalf("%s: two statements have number %d", name, e.Number)
			}
			number[e.Number] = number[e.Number] || e.Op.Statement()
		}
	}
	if tr.Sessions() != len(sessions) {
		t.Errorf("%s: %d sessions, want %d", name, tr.Sessions(), len(sessions))
	}
}

// TestTraceHasWhatTheLogHas uses the logs from the tests of other programs, and a generated one.
func TestTraceHasWhatTheLogHas(t *testing.T) {
	check := func(name string, open func() io.Reader) {
		sessions, want := byHand(t, open())
		tr, got, file := converted(t, open(), log.Policy{})
		checkEqual(t, name, tr, sessions)
		if got.Statements != want.Statements || got.Bytes != want.Bytes ||
			tr.Meta().Statements != trace.Parts(got.Statements) || tr.Meta().Bytes != trace.Parts(got.Bytes) {
			t.Errorf("%s: the account is %+v, want %+v", name, got, want)
		}
		n := int64(0)
		for _, k := range tr.Fingerprints() {
			n += k.Statements
		}
		if n != got.Statements.Replayed {
			t.Errorf("%s: fingerprints have %d statements of %d", name, n, got.Statements.Replayed)
		}
		if _, _, again := converted(t, open(), log.Policy{}); !bytes.Equal(file, again) {
			t.Errorf("%s: the same log makes another file", name)
		}
	}
	check("made", func() io.Reader { return &generatedLog{left: 200 << 10} })
	dir := os.Getenv("TARE_SQL_LOGS") // scripts/deps.sh sql-logs prints it
	if dir == "" {
		const say = "TARE_SQL_LOGS names no folder of logs"
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(say)
		}
		t.Skip(say)
	}
	for _, pattern := range []string{"pgbadger/rds.log.bz2", "pgbadger/light.*", "pgbadger/cloudsql.*",
		"pgbadger/begin_end.log", "pgbadger/anonymize.log", "percona/genlogs/genlog0*", "percona/slowlogs/slow0*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("no %s in %s: %v", pattern, dir, err)
		}
		for _, name := range names {
			if strings.Contains(name, "slow006-session") || testing.Short() && strings.Contains(name, "rds") {
				continue // it is no log; it is long
			}
			packed, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			check(filepath.Base(name), func() io.Reader {
				src, _, err := log.Decompress(bytes.NewReader(packed), bzip2.NewReader)
				if err != nil {
					t.Fatal(err)
				}
				return src
			})
		}
	}
}

// generatedLog is a generated general log. Several sessions are open at the same time.
type generatedLog struct {
	left int64
	i    int
	rest string
	kept bool // sessions never end
}

func (l *generatedLog) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && l.left > 0 {
		if l.rest == "" {
			l.rest = l.record()
			l.i++
		}
		k := copy(p[n:], l.rest)
		l.rest = l.rest[k:]
		n += k
		l.left -= int64(k)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (l *generatedLog) record() string {
	id := 1 + l.i%100 + l.i/600*100
	of := func(command, text string) string { return fmt.Sprintf("\t\t%6d %s\t%s\n", id, command, text) }
	switch l.i / 100 % 6 {
	case 0:
		return of("Connect", "a@b on c")
	case 1:
		return of("Prepare", "SELECT a FROM b WHERE c = ?")
	case 2:
		return of("Execute", fmt.Sprintf("SELECT a FROM b WHERE c = %d", l.i))
	case 3:
		return of("Query", fmt.Sprintf("SELECT a%d FROM b%d", l.i, l.i))
	case 4:
		return of("Query", "DELETE FROM a")
	}
	if l.kept {
		return of("Query", "SELECT 1")
	}
	return of("Quit", "")
}

// Memory does not grow with the log, except for the index and for open sessions.
func TestMemoryOfConvert(t *testing.T) {
	size := int64(24 << 20)
	if testing.Short() {
		size = 5 << 20
	}
	for name, c := range map[string]struct {
		kept  bool
		limit uint64 // bytes of memory for a session
	}{"ended": {false, 64}, "open": {true, 2048}} {
		t.Run(name, func(t *testing.T) {
			r, err := log.Open(&generatedLog{left: size, kept: c.kept}, log.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p := &memoryPeak{}
			w := trace.NewWriter(p, trace.Meta{})
			if err := convert(t.Context(), r, log.Policy{}, w, false); err != nil {
				t.Fatal(err)
			}
			sessions := uint64(size) / 220
			if limit := 96<<20 + sessions*c.limit; p.bytes > limit || p.n == 0 {
				t.Errorf("%d MiB of memory for %d sessions in %d MiB, want %d", p.bytes>>20, sessions, size>>20,
					limit>>20)
			}
		})
	}
}

// memoryPeak records the peak of memory usage while it is written to.
type memoryPeak struct {
	bytes uint64
	n     int
}

func (p *memoryPeak) Write(b []byte) (int, error) {
	if p.n++; p.n%20 == 1 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.bytes = max(p.bytes, m.HeapInuse)
	}
	return len(b), nil
}

// The conversion can be stopped.
func TestConvertIsStopped(t *testing.T) {
	r, err := log.Open(&generatedLog{left: 1 << 40}, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = convert(ctx, r, log.Policy{}, trace.NewWriter(io.Discard, trace.Meta{}), false)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// BenchmarkConvert converts a general log with short records.
func BenchmarkConvert(b *testing.B) {
	text, err := io.ReadAll(&generatedLog{left: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := log.Open(bytes.NewReader(text), log.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := convert(b.Context(), r, log.Policy{}, trace.NewWriter(io.Discard, trace.Meta{}), false); err != nil {
			b.Fatal(err)
		}
	}
}

// The trace has the database that the log names, if it is one.
func TestDatabaseOfALog(t *testing.T) {
	general := func(rest ...string) string {
		return "261121  0:05:31\t    8 Connect\tu@localhost on " + strings.Join(rest, "\n\t\t    ") + "\n"
	}
	pg := func(database string) string {
		return "2020-03-11 20:40:43.250 UTC [1] u@" + database + " LOG:  statement: SELECT 1\n"
	}
	audit := "20170817 16:04:33,h,root,localhost,29,913,QUERY,company,'SELECT 1',0\n"
	for text, want := range map[string]string{
		general("shop", "8 Query\tSELECT 1"):                                                            "shop",
		general("", "8 Query\tSELECT 1"):                                                                "",
		general("", "8 Init DB\tshop", "8 Query\tSELECT 1"):                                             "shop",
		general("", "8 Query\tuse `a``b`", "8 Query\tSELECT 1"):                                         "a`b",
		general("mysql", "8 Query\tSELECT 1", "8 Change user\tu@localhost on x"):                        "x",
		general("shop", "8 Query\tUSE other", "9 Query\tSELECT 1"):                                      "",
		general("shop", "9 Connect\tu@localhost on SYS", "9 Query\tSELECT 1"):                           "shop",
		general("shop", "9 Connect\tAccess denied for user 'u'@'h'", "8 Query\tSELECT 1"):               "shop",
		"# User@Host: u[u] @ localhost []  Id: 5\n# Query_time: 2  Rows_sent: 1\nuse one;\nSELECT 1;\n": "one",
		pg("d"): "d", pg("d") + pg("e"): "", pg("postgres"): "postgres", pg("postgres") + pg("e"): "e",
		pg("template1"): "", audit: "company",
	} {
		tr, _, _ := converted(t, strings.NewReader(text), log.Policy{})
		if got := tr.Meta().Database; got != want {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
}

// ordered returns the first statements of a log's transactions in the order of their ids.
func ordered(t *testing.T, text string, o log.Options) (all []string, err error) {
	t.Helper()
	r, err := log.Open(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	err = convert(t.Context(), r, log.Policy{Writes: true}, trace.NewWriter(&file, trace.Meta{Dialect: r.Dialect()}),
		true)
	if err != nil {
		return nil, err
	}
	tr, err := trace.Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tr.Transactions() {
		c := tr.Session(x.Session)
		var e trace.Event
		for err = c.Next(&e); err == nil; err = c.Next(&e) {
			if e.Number == x.First && e.Op.Statement() {
				all = append(all, string(e.Text))
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all, nil
}

// Transactions have the order of their ids, and begin with the statement that began them, which had none yet.
func TestOrderOfTransactions(t *testing.T) {
	line := func(session int, local, id uint32, text string) string {
		return fmt.Sprintf("2020-03-11 20:40:43.250 UTC,\"u\",\"d\",%d,\"127.0.0.1:5\",6009c305.%x,3,\"SELECT\","+
			"2021-01-21 19:08:05 UTC,%d/%d,%d,LOG,00000,\"statement: %s\",,,,,,,,,\"app\"\n", session, session, session,
			local, id, text)
	}
	csv := line(1, 7, 0, "BEGIN -- a") + line(2, 7, 0, "BEGIN -- b") + line(2, 7, 0, "UPDATE b") +
		line(1, 7, 0, "UPDATE a") + line(2, 7, 4294967295, "COMMIT") + line(1, 7, 2, "COMMIT") +
		line(1, 8, 0, "UPDATE alone") + line(3, 1, 0, "BEGIN -- only reads") + line(3, 1, 0, "COMMIT") +
		line(2, 8, 0, "BEGIN -- c") + line(2, 8, 1, "UPDATE c") + line(2, 8, 1, "COMMIT")
	slow := func(session int, id, text string) string {
		return fmt.Sprintf("# User@Host: u[u] @ localhost []  Id: %d\n# Query_time: 0.1  Rows_sent: 0\n"+
			"# InnoDB_trx_id: %s\nSET timestamp=1385600731;\n%s;\n", session, id, text)
	}
	percona := slow(1, "0", "BEGIN -- a") + slow(2, "B0", "UPDATE b") + slow(1, "A0", "UPDATE a") +
		slow(1, "A0", "ROLLBACK TO SAVEPOINT x") + slow(1, "A0", "COMMIT") + slow(2, "7F0000000000A", "SELECT 1") +
		slow(1, "C1", "UPDATE d") + slow(2, "C0", "UPDATE c")
	stderr := ""
	for _, l := range []string{"1 0 BEGIN -- a", "2 9 UPDATE b", "1 8 UPDATE a", "1 8 END"} {
		stderr += "2020-03-11 20:40:43.250 UTC [" + l[:1] + "] " + l[2:3] + " LOG:  statement: " + l[4:] + "\n"
	}
	for _, c := range []struct {
		text string
		o    log.Options
		want string
	}{
		{csv, log.Options{}, "BEGIN -- b, BEGIN -- c, BEGIN -- a"},
		{percona, log.Options{}, "BEGIN -- a, UPDATE b, UPDATE c, UPDATE d"},
		{stderr, log.Options{Prefix: "%m [%p] %x "}, "BEGIN -- a, UPDATE b"},
	} {
		got, err := ordered(t, c.text, c.o)
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%q, want %s: %v", got, c.want, err)
		}
	}
	if _, err := ordered(t, line(1, 7, 0, "UPDATE a"), log.Options{}); !errors.Is(err, errNoTransactions) {
		t.Errorf("without ids: %v", err)
	}
}
