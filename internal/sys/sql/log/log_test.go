package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	_ "time/tzdata" // for machines without time zones

	"tare/internal/sys/sql/lex"
)

// readAll reads a log and writes each event in a line. It holds that the account adds up to the log.
func readAll(t *testing.T, text string, o Options) (*Reader, string) {
	t.Helper()
	r, err := Open(strings.NewReader(text), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r, events(t, r, int64(len(text)))
}

// events reads what a reader has, as one line for each event.
func events(t *testing.T, r *Reader, size int64) string {
	t.Helper()
	var e Event
	var out strings.Builder
	sum := int64(0)
	for {
		err := r.Next(&e)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sum += e.Length
		if want, ok := lex.Skeleton(nil, e.Text, lex.Options{}, maxSkeleton); e.skeleton != nil &&
			(!ok || !bytes.Equal(e.skeleton, want)) {
			t.Errorf("%q has the skeleton %q, want %q", e.Text, e.skeleton, want)
		}
		fmt.Fprintf(&out, "%d %v", e.Session, e.Op)
		if e.Begun {
			out.WriteString(" begun")
		}
		if e.Op == Connect || e.Op == ChangeUser {
			fmt.Fprintf(&out, " %s@%s", e.User, e.Host)
		}
		if e.Op == Connect || e.Op == InitDB || e.Op == ChangeUser {
			fmt.Fprintf(&out, " db=%s", e.Database)
		}
		if e.Text != nil {
			fmt.Fprintf(&out, " %q", e.Text)
		}
		if e.Op == Execute || e.Op == Prepare {
			fmt.Fprintf(&out, " name=%s", e.Name)
		}
		for _, p := range e.Params {
			if p == nil {
				out.WriteString(" NULL")
			} else {
				fmt.Fprintf(&out, " %q", p)
			}
		}
		if e.Prepared != nil {
			fmt.Fprintf(&out, " of %q", e.Prepared)
		}
		if e.Ambiguous != "" {
			fmt.Fprintf(&out, " ambiguous: %s", e.Ambiguous)
		}
		out.WriteByte('\n')
		if e.Ambiguous == "" {
			r.Settle(Replayed, "")
		}
	}
	checkAccount(t, r, size)
	a := r.Account()
	if a.Bytes.Replayed+a.Bytes.Ambiguous < sum {
		t.Errorf("events have %d bytes, the account %+v", sum, a.Bytes)
	}
	return out.String()
}

// checkAccount holds that parts sum to their totals, reasons to their parts, and all to the size of the log.
func checkAccount(t *testing.T, r *Reader, size int64) {
	t.Helper()
	a := r.Account()
	for _, p := range []Parts{a.Bytes, a.Statements} {
		if p.Total != p.Replayed+p.Skipped+p.Ambiguous+p.Lost {
			t.Fatalf("the parts of %+v do not sum to the total", p)
		}
		if min(p.Replayed, p.Skipped, p.Ambiguous, p.Lost) < 0 {
			t.Fatalf("%+v has a part below nothing", p)
		}
	}
	if a.Bytes.Total != size {
		t.Fatalf("the account has %d bytes of %d: %+v", a.Bytes.Total, size, a)
	}
	var sum [2]Parts
	for _, x := range a.Reasons {
		sum[0].Add(x.Part, x.Bytes)
		sum[1].Add(x.Part, x.Statements)
	}
	for i, p := range []Parts{a.Bytes, a.Statements} {
		if s := sum[i]; s.Skipped != p.Skipped || s.Ambiguous != p.Ambiguous || s.Lost != p.Lost {
			t.Fatalf("the reasons sum to %+v, the parts are %+v", s, p)
		}
	}
}

// reason is how much an account has for a reason that contains some words.
func reason(a Account, part Part, words string) (statements, bytes int64) {
	for _, x := range a.Reasons {
		if x.Part == part && strings.Contains(x.Reason, words) {
			statements += x.Statements
			bytes += x.Bytes
		}
	}
	return statements, bytes
}

const header57 = "/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL). started with:\n" +
	"Tcp port: 3306  Unix socket: /var/run/mysqld/mysqld.sock\nTime                 Id Command    Argument\n"

const headerMaria = "mariadbd, Version: 10.11.19-MariaDB-0+deb12u1-log (Debian 12). started with:\n" +
	"Tcp port: 13306  Unix socket: /run/mysqld/mysqld.sock\nTime\t\t    Id Command\tArgument\n"

// of is a record of MariaDB's or of MySQL's before 5.7, without a time.
func of(id int, command, text string) string {
	return fmt.Sprintf("\t\t%6d %s\t%s\n", id, command, text)
}

func q(id int, text string) string { return of(id, "Query", text) }

// at is a record of MySQL since 5.7, some microseconds after a certain second.
func at(us, id int, command, text string) string {
	return fmt.Sprintf("2024-01-02T03:04:05.%06dZ\t%5d %s\t%s\n", us, id, command, text)
}

// maria is a log as MariaDB 10.11 writes it.
const maria = headerMaria +
	"261121  0:05:31\t     8 Connect\tt@localhost on d using TCP/IP\n" +
	"\t\t     8 Query\tSELECT\n  /\n  1,\n\n 2\n -- comment\n" +
	"\t\t     8 Query\tSELECT 'crlf\r\n line', 'nul\x00byte', _binary'\xff'\n" +
	"261121  0:05:32\t     8 Prepare\tSELECT * FROM a WHERE id=? AND v=?\n" +
	"\t\t     8 Execute\tSELECT * FROM a WHERE id=1 AND v='\\\xff?\\n\\0A'\n" +
	"\t\t     8 Close stmt\t\n" +
	"\t\t     9 Connect\tt@localhost on  using TCP/IP\n" +
	"\t\t     9 Connect\tAccess denied for user 't'@'localhost' (using password: YES)\n" +
	"\t\t    12 Query\tSELECT 10; SELECT 11;\nSELECT 12\n" +
	"\t\t    11 Init DB\td\n" +
	"\t\t    11 Field List\ta \n" +
	"\t\t     8 Quit\t\n"

func TestGeneral(t *testing.T) {
	for _, c := range []struct{ name, log, want string }{
		{"MariaDB", maria, `1 Connect t@localhost db=d
1 Query "SELECT\n  /\n  1,\n\n 2\n -- comment"
1 Query "SELECT 'crlf\r\n line', 'nul\x00byte', _binary'\xff'"
1 Prepare "SELECT * FROM a WHERE id=? AND v=?" name=1
1 Execute "SELECT * FROM a WHERE id=1 AND v='\\\xff?\\n\\0A'" name=1 "1" "'\\\xff?\\n\\0A'" ` +
			`of "SELECT * FROM a WHERE id=? AND v=?"
1 Close stmt
2 Connect t@localhost db=
2 Denied
3 Query begun "SELECT 10; SELECT 11;\nSELECT 12"
4 Init DB begun db=d
1 Quit
`},
		{"MySQL 8", header57 + at(1, 8, "Connect", "root@localhost on d using Socket") + at(2, 8, "Query", "SELECT 1") +
			at(3, 8, "Reset Connection", "") + at(4, 8, "Change user", "u@localhost on e using Socket") +
			at(5, 8, "Quit", ""), `1 Connect root@localhost db=d
1 Query "SELECT 1"
1 Reset Connection
1 Change user u@localhost db=e
1 Quit
`},
		{"an offset, and Aurora without a blank", "2024-01-02T03:04:05.123456+02:00\t    8 Query\tSELECT 1\n" +
			"2024-01-02T03:04:05.123460Z8 Query\tSELECT 2\n2024-01-02T03:04:05.123460Z   8 Query\tSELECT 3\n",
			"1 Query begun \"SELECT 1\"\n1 Query \"SELECT 2\"\n1 Query \"SELECT 3\"\n"},
		{"MySQL 3.23 to 5.0", "/usr/sbin/mysqld, Version: 5.0.38-log. started with:\nTcp port: 3306  Unix socket: x\n" +
			"Time                 Id Command    Argument\n" +
			"071005 21:55:24\t     42 Connect     root@localhost on db1\n" +
			"\t\t     42 Query       SELECT foo\n   FROM t\n   5 WHERE x = 1\n" +
			"071005 21:55:25\t     42 Init DB    my_webstats\n" +
			"\t\t     42 Prepare     [1] SELECT ?\n\t\t     42 Execute     [1] SELECT 5\n" +
			"\t\t     42 Close stmt  \n\t\t     42 Quit       \n", `1 Connect root@localhost db=db1
1 Query "SELECT foo\n   FROM t\n   5 WHERE x = 1"
1 Init DB db=my_webstats
1 Prepare "SELECT ?" name=1
1 Execute "SELECT 5" name=1 "5" of "SELECT ?"
1 Close stmt
1 Quit
`},
		{"lines of a statement that look a little like a record",
			q(8, "SELECT a\n    5 WHERE x\n\t\t     5 Wombat\tx\n\t\tQuery\tx\n\t\t 7 query\tx"),
			`1 Query begun "SELECT a\n    5 WHERE x\n\t\t     5 Wombat\tx\n\t\tQuery\tx\n\t\t 7 query\tx"` + "\n"},
		{"a record within a literal is data", q(8, "SELECT 'x\n\t\t     9 Query\tDROP TABLE x'") +
			q(8, "SELECT \"a\n\t\t     9 Query\tDROP TABLE x\n\"") + q(8, "SELECT `a\n\t\t     9 Query\tDROP TABLE x`"),
			`1 Query begun "SELECT 'x\n\t\t     9 Query\tDROP TABLE x'"
1 Query "SELECT \"a\n\t\t     9 Query\tDROP TABLE x\n\""
1 Query "SELECT ` + "`a\\n\\t\\t     9 Query\\tDROP TABLE x`" + `"
`},
		{"a record within a comment is data", q(8, "SELECT /* x\n\t\t     9 Query\tDROP TABLE x */ 1"),
			`1 Query begun "SELECT /* x\n\t\t     9 Query\tDROP TABLE x */ 1"` + "\n"},
		{"a record that could be one and could be data", q(8, "SELECT '") + q(8, "SELECT 1 -- '") + of(8, "Quit", ""),
			`1 Query begun "SELECT '\n\t\t     8 Query\tSELECT 1 -- '" ambiguous: ` + whyHidden + "\n1 Quit\n"},
		{"a literal that a keyword touches", q(8, "SELECT 'x\n\t\t     9 Query\ty'FROM z WHERE a='b'AND c"),
			`1 Query begun "SELECT 'x\n\t\t     9 Query\ty'FROM z WHERE a='b'AND c"` + "\n"},
		{"a comment ends with its line", q(8, "SELECT 1 -- it's") + q(8, "SELECT 2 # it's") + of(8, "Quit", ""),
			"1 Query begun \"SELECT 1 -- it's\"\n1 Query \"SELECT 2 # it's\"\n1 Quit\n"},
		{"a quote that never ends", q(8, "SELECT 'x") + q(9, "SELECT 1") + q(9, "SELECT 2"),
			`1 Query begun "SELECT 'x" ambiguous: ` + whyOpen + "\n2 Query begun \"SELECT 1\"\n2 Query \"SELECT 2\"\n"},
		{"two quotes that never end", q(8, "SELECT 'x") + q(9, "SELECT 'y") + q(9, "SELECT 2"),
			`1 Query begun "SELECT 'x" ambiguous: ` + whyOpen + `
2 Query begun "SELECT 'y" ambiguous: ` + whyOpen + "\n2 Query \"SELECT 2\"\n"},
		{"NO_BACKSLASH_ESCAPES", q(8, "SET sql_mode='NO_BACKSLASH_ESCAPES,ANSI'") +
			q(8, "SELECT 'C:\\', \"a\n\t\t     9 Query\tx\"") + q(9, "SELECT 'it\\'s'") +
			q(8, "SET SESSION sql_mode=''") + q(8, "SELECT 'it\\'s'"),
			`1 Query begun "SET sql_mode='NO_BACKSLASH_ESCAPES,ANSI'"
1 Query "SELECT 'C:\\', \"a\n\t\t     9 Query\tx\""
2 Query begun "SELECT 'it\\'s'"
1 Query "SET SESSION sql_mode=''"
1 Query "SELECT 'it\\'s'"
`},
		{"a header block between two records", q(8, "SELECT\n 1") + header57 + at(1, 8, "Query", "SELECT 2"),
			"1 Query begun \"SELECT\\n 1\"\n1 Query \"SELECT 2\"\n"},
		{"a header block where a statement was cut off",
			q(8, "SELECT '1") + header57 + at(1, 8, "Connect", "a@b on ") + at(2, 8, "Query", "SELECT 2"),
			"1 Query begun \"SELECT '1\" ambiguous: " + whyOpen + "\n2 Connect a@b db=\n2 Query \"SELECT 2\"\n"},
		{"an id comes again after a restart", of(8, "Connect", "a@b on c") + q(8, "SELECT 1") + header57 +
			at(1, 8, "Connect", "a@b on d") + at(2, 8, "Query", "SELECT 2"),
			"1 Connect a@b db=c\n1 Query \"SELECT 1\"\n2 Connect a@b db=d\n2 Query \"SELECT 2\"\n"},
		{"an id comes again after its end", of(8, "Connect", "a@b on c") + of(8, "Quit", "") + q(8, "SELECT 2"),
			"1 Connect a@b db=c\n1 Quit\n2 Query begun \"SELECT 2\"\n"},
		{"EXECUTE as a text is logged twice", q(8, "PREPARE st FROM 'SELECT 5 + ?'") +
			of(8, "Prepare", "SELECT 5 + ?") + q(8, "SET @x = 1") + q(8, "EXECUTE st USING @x") + q(9, "SELECT 3") +
			of(8, "Execute", "SELECT 5 + 1") +
			q(8, "DEALLOCATE PREPARE st") + of(8, "Quit", ""), `1 Query begun "SET @x = 1"
2 Query begun "SELECT 3"
1 Query "SELECT 5 + 1"
1 Quit
`},
		{"what was prepared before the log began", of(8, "Execute", "SELECT 5"),
			"1 Execute begun \"SELECT 5\" name=\n"},
		{"the rest of a record", "SELECT 1\nFROM x\n\n" + q(8, "SELECT 2"), "1 Query begun \"SELECT 2\"\n"},
		{"the last line lacks its end", q(8, "SELECT 1") + strings.TrimSuffix(q(8, "SELECT 2"), "\n"),
			"1 Query begun \"SELECT 1\"\n1 Query \"SELECT 2\" ambiguous: " + whyLastLine + "\n"},
		{"the log ends in a literal", q(8, "SELECT 1") + q(8, "SELECT '2"), "1 Query begun \"SELECT 1\"\n"},
		{"a password", q(8, "SET PASSWORD FOR 'a'@'b'=<secret>"),
			"1 Query begun \"SET PASSWORD FOR 'a'@'b'=<secret>\"\n"},
		{"a denial that comes first", of(8, "Connect", "Access denied for user 'a'@'b' (using password: NO)") +
			of(8, "Connect", "a@b as  on ") + q(9, "SELECT 1"), "1 Denied\n2 Query begun \"SELECT 1\"\n"},
		{"two servers, one behind the other", header57 + at(1, 8, "Query", "SELECT 1") + maria,
			"1 Query begun \"SELECT 1\"\n2 Connect t@localhost db=d\n..."},
		{"tabs that became blanks", "100211  0:55:24      51 Query       SELECT a\n                FROM b\n" +
			"                     51 Query       SELECT 2\n",
			"1 Query begun \"SELECT a\\n                FROM b\"\n1 Query \"SELECT 2\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, got := readAll(t, c.log, Options{})
			want, some := strings.CutSuffix(c.want, "...")
			if got != want && !(some && strings.HasPrefix(got, want)) {
				t.Errorf("gives\n%swant\n%s%+v", got, c.want, r.Account())
			}
			if f, _ := r.Format(); f != General {
				t.Errorf("it is taken for %s", f)
			}
		})
	}
}

func TestLostIsCounted(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	for _, c := range []struct {
		name, log  string
		part       Part
		words      string
		statements int64
		resyncs    int64
	}{
		{"open at the end", q(8, "SELECT 1") + q(8, "SELECT '2"), Lost, whyCut, 1, 0},
		{"open before others", q(8, "SELECT '1") + q(8, "SELECT 2"), Ambiguous, whyOpen, 1, 1},
		{"without a beginning", "SELECT 1\nFROM x\n" + q(8, "SELECT 2"), Lost, whyNoBegin, 1, 0},
		{"too long", q(8, "SELECT '"+big+"'") + q(8, "SELECT 2"), Lost, whyTooLong, 1, 0},
		{"too long, in lines", q(8, "SELECT '"+strings.Repeat("x\n", 150<<10)+"'") + q(8, "SELECT 2"),
			Lost, whyTooLong, 1, 0},
		{"too long and open", q(8, "SELECT '"+big) + strings.Repeat(q(8, "SELECT 2"), 50), Lost, whyTooLong, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := readAll(t, c.log, Options{Format: General, MaxStatement: 200 << 10})
			a := r.Account()
			if n, _ := reason(a, c.part, c.words); n != c.statements || a.Resyncs != c.resyncs {
				t.Errorf("%d statements are %s because of %q, and %d resyncs; want %d and %d: %+v", n, c.part, c.words,
					a.Resyncs, c.statements, c.resyncs, a)
			}
		})
	}
}

// A text that quotes a piece of a general log is one statement, however long, if its literal ends.
func TestLogWithinALiteral(t *testing.T) {
	inner := strings.ReplaceAll(maria, "'", "''")[len(headerMaria):]
	log := "\t\t     8 Query\tINSERT INTO mails VALUES ('" + inner + "')\n\t\t     8 Quit\t\n"
	_, got := readAll(t, log, Options{})
	if want := fmt.Sprintf("1 Query begun %q\n1 Quit\n", "INSERT INTO mails VALUES ('"+inner+"')"); got != want {
		t.Errorf("gives\n%swant\n%s", got, want)
	}
}

func TestTimes(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	utc := func(s string) int64 {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixMicro()
	}
	iso := func(stamp string) string { return stamp + "\t    8 Query\tx\n" }
	for _, c := range []struct {
		name, log string
		zone      *time.Location
		want      []int64
	}{
		{"microseconds", iso("2024-01-02T03:04:05.123456Z") + iso("2024-01-02T03:04:05.123456+02:00") +
			iso("2024-01-02T03:04:05.123456-05:30"), nil, []int64{utc("2024-01-02T03:04:05.123456Z"),
			utc("2024-01-02T01:04:05.123456Z"), utc("2024-01-02T08:34:05.123456Z")}},
		{"seconds", q(8, "x") + iso("241102  1:04:05") + q(8, "x"), nil,
			[]int64{NoTime, utc("2024-11-02T01:04:05Z"), utc("2024-11-02T01:04:05Z")}},
		{"a zone", iso("240702 13:04:05"), berlin, []int64{utc("2024-07-02T11:04:05Z")}},
		// In Berlin the hour from 2 to 3 came twice that night.
		{"an hour that comes twice", iso("241027  2:59:59") + iso("241027  2:00:00") + iso("241027  2:30:00") +
			iso("241027  3:00:00"), berlin, []int64{utc("2024-10-27T00:59:59Z"), utc("2024-10-27T01:00:00Z"),
			utc("2024-10-27T01:30:00Z"), utc("2024-10-27T02:00:00Z")}},
		{"the same without a zone", iso("241027  2:59:59") + iso("241027  2:00:00") + iso("241027  3:00:00"), nil,
			[]int64{utc("2024-10-27T02:59:59Z"), utc("2024-10-27T03:00:00Z"), utc("2024-10-27T04:00:00Z")}},
		{"no date", iso("2024-13-02T03:04:05.123456Z"), nil, []int64{NoTime}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Open(strings.NewReader(c.log), Options{Zone: c.zone})
			if err != nil {
				t.Fatal(err)
			}
			var e Event
			for i, want := range c.want {
				if err := r.Next(&e); err != nil || e.Time != want {
					t.Errorf("event %d is at %v, want %v (%v)", i, time.UnixMicro(e.Time).UTC(),
						time.UnixMicro(want).UTC(), err)
				}
			}
		})
	}
}

// pieces are what logs are made of, whole and broken.
var pieces = []string{
	"\t\t     8 Query\tSELECT 1\n", "261121  0:05:31\t     9 Connect\tt@localhost on d\n", "\t\t     9 Quit\t\n",
	"2024-01-02T03:04:05.123456Z\t    8 Query\tSELECT 'x\n", "'", "\"", "`", "/*", "*/", "\\", "\n", "\r\n", "\t",
	"\t\t", "# Time: 071015 21:43:52\n", "# User@Host: root[root] @ localhost []\n",
	"# Query_time: 2  Lock_time: 0\n", "# Thread_id: 5  Schema: \n", "use test;\n", "SET timestamp=1469038405;\n",
	"select 1;\n", "# administrator command: Quit;\n",
	"2020-03-11 20:40:43 CET:1.2.3.4(5):u@d:[12760]:LOG:  statement: SELECT 1\n",
	"2020-03-11 20:40:43 CET:1.2.3.4(5):u@d:[12760]:LOG:  execute x: SELECT $1\n",
	"2020-03-11 20:40:43 CET:1.2.3.4(5):u@d:[12760]:DETAIL:  parameters: $1 = 'a''b', $2 = NULL\n", "\tFROM x\n",
	"2021-01-22 10:03:22.785 CET,\"u\",\"d\",1486,\"127.0.0.1:52306\",6009c305.5ce,32878,\"SELECT\"," +
		"2021-01-21 19:08:05 CET,14/10903,0,LOG,00000,\"statement: SELECT \"\"a\"\"\n1\",,,,,,,,,\"app\"\n",
	`{"timestamp":"2023-01-01 10:00:00.123 UTC","pid":5,"session_id":"63b1.5","error_severity":"LOG",` +
		`"message":"statement: SELECT 1\n2"}` + "\n",
	`{"textPayload":"2020-03-11 20:40:43 CET [5]: LOG:  statement: x","timestamp":"2020-05-02T13:00:20.38403Z"}` + "\n",
	`{"audit_record":{"name":"Query","timestamp":"2014-08-27T10:19:24 UTC","connection_id":"10",` +
		`"sqltext":"select 1","user":"root[root] @ localhost []"}}` + "\n",
	`{"events":[{"timestamp":1600000000000,"message":"\t\t 8 Query\tx"},`, `]}`, `{"a`, "{", "}", "[", "]", ",",
	"20170817 16:04:33,h,root,localhost,29,913,QUERY,d,'SELECT 1',0\n",
	"Feb 11 13:15:39 h postgres[108]: [1-1] LOG:  statement: SELECT 1\n",
	"Feb 11 13:15:39 h postgres[108]: [1-2] #011FROM x\n",
	"Feb 11 13:15:39 h postgres[109]: [1-1] LOG:  duration: 1 ms  execute x: y\n", "Feb 11 13:15:39 h cron[109]: x\n",
	"COPY t FROM stdin;\n", "\\.\n", "DELIMITER //\n", "DELIMITER ;\n", ";", "SELECT 2", "-- x\n", "\x00\xff",
	header57, headerMaria, "mysqld, Version: x started with:\n",
}

// checkAny holds for any input: reading ends, the account adds up to it, and pieces of any size give the same.
func checkAny(t *testing.T, text string, o Options) {
	t.Helper()
	r, err := Open(strings.NewReader(text), o)
	if err != nil {
		return
	}
	whole := events(t, r, int64(len(text)))
	again, err := Open(iotest.HalfReader(strings.NewReader(text)), o)
	if err != nil {
		t.Fatalf("%q: in pieces: %v", text, err)
	}
	if got := events(t, again, int64(len(text))); got != whole {
		t.Fatalf("%q\n gives\n%s in pieces\n%s", text, whole, got)
	}
}

// someOptions are every format, and the one that is found.
func someOptions() []Options {
	all := []Options{{}, {Dialect: lex.PostgreSQL, Format: Plain}, {Format: PgStderr, Prefix: "%t:%r:%u@%d:[%p]:"}}
	for _, f := range Formats() {
		all = append(all, Options{Format: f, MaxStatement: 2 << 10})
	}
	return all
}

func TestAnyLogAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		var b strings.Builder
		for range 1 + rng.IntN(30) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		text := b.String()
		if rng.IntN(3) == 0 {
			text = text[:rng.IntN(len(text)+1)]
		}
		for _, o := range someOptions() {
			checkAny(t, text, o)
		}
	}
}

func FuzzReader(f *testing.F) {
	for i, p := range pieces {
		f.Add(p+pieces[(i+7)%len(pieces)]+p, uint8(i))
	}
	f.Add(maria, uint8(0))
	options := someOptions()
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		if len(text) <= 1<<14 {
			checkAny(t, text, options[int(n)%len(options)])
		}
	})
}

// An error of reading is told, after all that came before it.
func TestReadError(t *testing.T) {
	broken := errors.New("the disk is gone")
	r, err := Open(io.MultiReader(strings.NewReader(maria), iotest.ErrReader(broken)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	n := 0
	for err = r.Next(&e); err == nil; err = r.Next(&e) {
		n++
	}
	if !errors.Is(err, broken) || n != 11 {
		t.Errorf("%d events, then %v", n, err)
	}
	checkAccount(t, r, int64(len(maria)))
}

func TestUnknownLogs(t *testing.T) {
	for _, text := range []string{"hello world\nhow are you\n", "\x7fELF\x02\x01\x01", "<html>", "{}", "[1,2]"} {
		if r, err := Open(strings.NewReader(text), Options{}); err == nil {
			f, w := r.Format()
			t.Errorf("%q is taken for %s %s", text, f, w)
		}
	}
	for _, o := range []Options{{Format: "generall"}, {Prefix: "%u%d"}, {Prefix: "%j"}, {Prefix: "a%"}} {
		if _, err := Open(strings.NewReader(maria), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// Statements that are remembered count as those that are looked at each time, also when there are too many kinds of
// them to remember.
func TestKindsAreRemembered(t *testing.T) {
	var log strings.Builder
	for i := range 3 * maxKinds {
		fmt.Fprintf(&log, "%s%s%s", q(i%5, fmt.Sprintf("SELECT 'a', %d FROM t%d", i, i%(maxKinds+100))),
			q(7, fmt.Sprintf("/* page %d */ DELETE FROM t WHERE a = 'x%d'", i%3, i)),
			q(8, fmt.Sprintf("SELECT NOW(), '%s', %d", strings.Repeat("x", i%maxSkeleton), i)))
	}
	r, err := Open(strings.NewReader(log.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Summarize(r, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Account.Statements; a.Total != 9*maxKinds || a.Replayed != 6*maxKinds || s.Distinct != maxKinds+102 {
		t.Errorf("%+v, %d kinds", a, s.Distinct)
	}
	if len(s.Volatile) != 1 || s.Volatile[0].Statements != 3*maxKinds {
		t.Errorf("not to be compared: %+v", s.Volatile)
	}
	for i, want := range []int64{3 * maxKinds, 3 * maxKinds, 3} {
		if g := s.Fingerprints[i]; g.Statements != want {
			t.Errorf("group %d is %+v, want %d statements", i, g, want)
		}
	}
}
