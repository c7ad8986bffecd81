package log

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"tare/internal/sys/sql/lex"
)

func TestFormats(t *testing.T) {
	const stamp = "2020-03-11 20:40:43.250 UTC"
	csv := func(severity, message, detail string) string {
		double := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		return stamp + `,"u","d",1486,"127.0.0.1:52306",6009c305.5ce,32878,"SELECT",` +
			"2021-01-21 19:08:05 UTC,14/10903,77," + severity + ",00000," + double(message) + "," +
			double(detail) + `,,,,,,,,"app"` + "\n"
	}
	for _, c := range []struct {
		name   string
		log    string
		format Format
		wrap   string
		o      Options
		want   string
	}{
		{"slow log of MySQL 5.7", header57 + `# Time: 2016-07-20T18:13:25.698433Z
# User@Host: root[root] @ localhost [127.0.0.1]  Id:     3
# Query_time: 0.003464  Lock_time: 0.000324 Rows_sent: 1000  Rows_examined: 2000
SET timestamp=1469038405;
SELECT '
# Time: 2016-07-20T18:13:25.698433Z
';
# User@Host: root[root] @ localhost [127.0.0.1]  Id:     3
# Query_time: 0.003464  Lock_time: 0.000324 Rows_sent: 1000  Rows_examined: 2000
use d;
SET timestamp=1469038405;
use e;
# User@Host: root[root] @ localhost [127.0.0.1]  Id:     3
# Query_time: 0.000004  Lock_time: 0.000324 Rows_sent: 0  Rows_examined: 0
# administrator command: Ping;
# User@Host: root[root] @ localhost [127.0.0.1]  Id:     3
# Query_time: 0.000004  Lock_time: 0.000324 Rows_sent: 0  Rows_examined: 0
# administrator command: Quit;
`, Slow, "", Options{}, `1 Query begun "SELECT '\n# Time: 2016-07-20T18:13:25.698433Z\n'"
1 Query "use e"
1 Quit
`},
		{"slow log of MySQL 8.4", `# Time: 2026-11-23T08:09:52.698433Z
# User@Host: root[root] @ localhost []  Id:     3
# Query_time: 0.000004  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
use d;
SET timestamp=1795421392;
# administrator command: Quit;
# Time: 2026-11-23T08:09:53.698433Z
# User@Host: root[root] @ localhost []  Id:     4
# Query_time: 0.000004  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
SET timestamp=1795421393;
SELECT 1;
`, Slow, "", Options{}, "1 Quit begun\n2 Query begun \"SELECT 1\"\n"},
		{"slow log of MariaDB with a plan", `# Time: 261121  0:05:31
# User@Host: t[t] @ localhost [127.0.0.1]
# Thread_id: 8  Schema: d  QC_hit: No
# Query_time: 0.000043  Lock_time: 0.000000  Rows_sent: 2  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 11
#
# explain: id	select_type	table
# explain: 1	SIMPLE	a
#
SET timestamp=1795219531;
SELECT 1;
`, Slow, "", Options{}, "1 Query begun \"SELECT 1\"\n"},
		{"stderr", stamp + " [5] LOG:  starting PostgreSQL\n" +
			stamp + " [5] u@d LOG:  connection authorized: user=u database=d application_name=x\n" +
			stamp + " [5] u@d LOG:  statement: SELECT 'a\n\t" + stamp +
			" [6] u@d LOG:  statement: DROP TABLE x'\n\t\n" +
			stamp + " [5] u@d LOG:  duration: 0.2 ms  parse <unnamed>: SELECT $1\n" +
			stamp + " [5] u@d LOG:  duration: 0.2 ms  bind <unnamed>: SELECT $1\n" +
			stamp + " [5] u@d DETAIL:  parameters: $1 = 'it''s', $2 = NULL, $3 = ''\n" +
			stamp + " [5] u@d LOG:  execute <unnamed>: SELECT $1\n" +
			stamp + " [5] u@d DETAIL:  parameters: $1 = 'it''s', $2 = NULL, $3 = ''\n" +
			stamp + " [5] u@d LOG:  duration: 0.2 ms\n" +
			stamp + " [5] u@d LOG:  execute S_1/C_2: SELECT $1\n" +
			stamp + " [5] u@d DETAIL:  Parameters: $1 = '1\n\t2'\n" +
			stamp + " [5] u@d LOG:  execute fetch from S_1/C_2: SELECT $1\n" +
			stamp + " [5] u@d ERROR:  relation \"x\" does not exist\n" + stamp + " [5] u@d STATEMENT:  SELECT x\n" +
			stamp + " [5] u@d LOG:  statement: EXECUTE a(1)\n" +
			stamp + " [5] u@d DETAIL:  prepare: PREPARE a AS SELECT $1\n" +
			stamp + " [5] u@d LOG:  disconnection: session time: 0:00:00.007 user=u database=d host=[local]\n" +
			stamp + " [5] u@d LOG:  statement: SELECT\nFROM x\n", PgStderr, "", Options{},
			`1 Connect u@ db=d
1 Query "SELECT 'a\n2020-03-11 20:40:43.250 UTC [6] u@d LOG:  statement: DROP TABLE x'\n"
1 Execute "SELECT $1" name= "it's" NULL ""
1 Execute "SELECT $1" name=S_1 "1\n2"
1 Query "EXECUTE a(1)" of "PREPARE a AS SELECT $1"
1 Quit
2 Query begun "SELECT\nFROM x" ambiguous: ` + whyUnplaced + "\n"},
		{"stderr with a prefix of one's own", "a b|" + stamp + "|5| LOG:  statement: SELECT 1\n" +
			"a|" + stamp + "|6| LOG:  statement: SELECT 2\n", PgStderr, "", Options{Prefix: "%a|%m|%p| "},
			"1 Query begun \"SELECT 1\"\n2 Query begun \"SELECT 2\"\n"},
		{"csvlog", csv("LOG", "statement: SELECT \"a\"\n,'b'", "") + csv("ERROR", "no\n", "") +
			csv("LOG", "execute x: SELECT $1", "parameters: $1 = '\"'") +
			csv("LOG", "statement: SELECT '\n"+stamp+",\"u\",\"d\",1486,x'", ""), PgCSV, "", Options{},
			`1 Query begun "SELECT \"a\"\n,'b'"
1 Execute "SELECT $1" name=x "\""
1 Query "SELECT '\n2020-03-11 20:40:43.250 UTC,\"u\",\"d\",1486,x'"
`},
		{"jsonlog", `{"timestamp":"2023-01-01 10:00:00.123 UTC","user":"u","dbname":"d","pid":5,` +
			`"session_id":"63b1.5","txid":0,"error_severity":"LOG",` +
			`"message":"duration: 1.5 ms  statement: SELECT \"\u00e9\ud83d\ude00\"\n2"}` + "\n" +
			`{"timestamp":"2023-01-01 10:00:00.123 UTC","pid":5,"error_severity":"LOG","message":"starting"}` + "\n" +
			`{"timestamp":"2023-01-01 10:00:00.123 UTC","pid":5,"session_id":"63b1.5","error_severity":"LOG",` +
			`"message":"execute <unnamed>: SELECT $1","detail":"Parameters: $1 = '2'"}` + "\n", PgJSON, "", Options{},
			"1 Query begun \"SELECT \\\"é😀\\\"\\n2\"\n1 Execute \"SELECT $1\" name= \"2\"\n"},
		{"CloudNativePG", `{"level":"info","logger":"postgres","msg":"record",` +
			`"record":{"log_time":"2023-01-01 10:00:00.123 UTC","user_name":"u","database_name":"d",` +
			`"process_id":"5","session_id":"63b1.5","error_severity":"LOG",` +
			`"message":"statement: SELECT 1"}}` + "\n", PgJSON, "", Options{}, "1 Query begun \"SELECT 1\"\n"},
		{"syslog", "Feb 11 13:15:39 h systemd[1]: Started.\n" +
			"Feb 11 13:15:39 h postgres[10]: [7-1] db=d,user=u LOG:  statement: SELECT 1,\n" +
			"Feb 11 13:15:39 h postgres[11]: [3-1] db=d,user=u LOG:  execute x: SELECT $1\n" +
			"Feb 11 13:15:39 h postgres[10]: [7-2] #011#0112,\n" +
			"Feb 11 13:15:39 h postgres[11]: [3-2] db=d,user=u DETAIL:  parameters: $1 = 'a'\n" +
			"Feb 11 13:15:39 h postgres[10]: [7-3]  '#011223'\n" +
			"Feb 11 13:15:40 h postgres[12]: [3-2] #011never began\n" +
			"Feb 11 13:15:40 h postgres[10]: [8-1] db=d,user=u LOG:  disconnection: session time: 0:00:00.007\n",
			PgSyslog, "", Options{}, `1 Query begun "SELECT 1,\n\t2, '#011223'"
2 Execute begun "SELECT $1" name=x "a"
1 Quit
`},
		{"Cloud SQL", `{"timestamp":"2020-05-02T13:00:20.382318Z",` +
			`"textPayload":"[5]: [1-1] db=d,user=u LOG:  statement: SELECT 1"}` + "\n" +
			`{"textPayload":"\tFROM x","timestamp":"2020-05-02T13:00:20.382318Z"}` + "\n" +
			`{"protoPayload":{},"timestamp":"2020-05-02T13:00:20.382318Z"}` + "\n" +
			`{"textPayload":"[5]: [2-1] db=d,user=u LOG:  statement: SELECT\n2","timestamp":"x"}` + "\n",
			PgStderr, "json", Options{}, "1 Query begun \"SELECT 1\\nFROM x\"\n1 Query \"SELECT\\n2\"\n"},
		{"CloudWatch, an array in an object", `{"nextForwardToken":"f/1","events":[
  {"timestamp":1600000000000,"message":"2020-05-27T05:03:27.500301Z\t   11 Query\tSELECT 1\nFROM x","ingestionTime":1},
  {"timestamp":1600000000001,"message":"2020-05-27T05:03:27.500302Z\t   11 Query\tSELECT '\\'","ingestionTime":1},
  {"timestamp":1600000000001,"message":"2020-05-27T05:03:27.500302Z\t   11 Quit\t","ingestionTime":1}],"x":[{}]}
`, General, "json", Options{}, `1 Query begun "SELECT 1\nFROM x"
1 Query "SELECT '\\'" ambiguous: ` + whyOpen + "\n1 Quit\n"},
		{"a container's engine", `{"log":"2020-03-11 20:40:43 UTC [5] LOG:  statement: SEL","stream":"stderr"}
{"log":"ECT 1\n","stream":"stderr","time":"2020-03-11T20:40:43.1Z"}
`, PgStderr, "json", Options{}, "1 Query begun \"SELECT 1\"\n"},
		{"Percona's audit log", `{"audit_record":{"name":"Connect","timestamp":"2014-08-27T10:19:24 UTC",` +
			`"connection_id":"10","status":0,"user":"u","host":"localhost","db":"d"}}` + "\n" +
			`{"audit_record":{"name":"Query","record":"2","timestamp":"2014-08-27T10:19:24 UTC","connection_id":"10",` +
			`"status":0,"sqltext":"select \"1\"","user":"u[u] @ localhost []","host":"localhost","db":""}}` + "\n" +
			`{"audit_record":{"name":"Quit","timestamp":"2014-08-27T10:19:24 UTC","connection_id":"10"}}` + "\n",
			Audit, "", Options{}, "1 Connect u@localhost db=d\n1 Query \"select \\\"1\\\"\"\n1 Quit\n"},
		{"MySQL Enterprise's audit log", `[
{ "timestamp": "2019-10-03 13:50:01", "id": 0, "class": "connection", "event": "connect", "connection_id": 12,
  "account": { "user": "root", "host": "localhost" },
  "connection_data": { "connection_type": "ssl", "status": 0, "db": "d" } },
{ "timestamp": "2019-10-03 13:50:02", "id": 0, "class": "general", "event": "status", "connection_id": 12,
  "account": { "user": "root", "host": "localhost" },
  "general_data": { "command": "Query", "sql_command": "select", "query": "SELECT '}'", "status": 0 },
  "query_statistics": { "query_time": 0.116, "bytes_sent": 5, "rows_sent": 1, "rows_examined": 1 } },
{ "timestamp": "2019-10-03 13:50:03", "id": 1, "class": "connection", "event": "disconnect", "connection_id": 12 } ]
`, Audit, "", Options{}, "1 Connect root@localhost db=d\n1 Query \"SELECT '}'\"\n1 Quit\n"},
		{"MariaDB's audit log", "20170817 16:04:32,h,root,localhost,29,0,CONNECT,company,,0\n" +
			"20170817 16:04:33,h,root,localhost,29,913,READ,company,employees,\n" +
			"20170817 16:04:33,h,root,localhost,29,913,QUERY,company,'SELECT \\'a\\',\\n \\\\ FROM x',0\n" +
			"20170817 16:04:33,h,root,localhost,30,0,FAILED_CONNECT,,,1045\n" +
			"20170817 16:04:34,h,root,localhost,29,0,DISCONNECT,company,,0\n", AuditCSV, "", Options{},
			"1 Connect root@localhost db=company\n1 Query \"SELECT 'a',\\n \\\\ FROM x\"\n2 Denied\n1 Quit\n"},
		{"a file of statements", "SELECT 1;\n-- it's\nSELECT ';'\n;\n" +
			"DELIMITER //\nCREATE PROCEDURE p() BEGIN SELECT 1; END//\nDELIMITER ;\n" +
			"CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN SET a = 1; END; SELECT 3",
			Plain, "", Options{}, `1 Query begun "SELECT 1"
1 Query "SELECT ';'"
1 Query "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN SET a = 1; END"
1 Query "SELECT 3"
`},
		{"a dump of PostgreSQL's", "SET a = 1;\n\\connect x\n" +
			"COPY t (a) FROM stdin;\n1\t;'\n\\.\nSELECT $$;$$;\n", Plain, "", Options{Dialect: lex.PostgreSQL},
			`1 Query begun "SET a = 1"
1 Query "COPY t (a) FROM stdin"
1 Query "SELECT $$;$$"
`},
		{"a statement in each line", "SELECT 1\nSELECT ';'\n\nUSE x\n", PlainLines, "", Options{Format: PlainLines},
			"1 Query begun \"SELECT 1\"\n1 Query \"SELECT ';'\"\n1 Query \"USE x\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, got := readAll(t, c.log, c.o)
			if got != c.want {
				t.Errorf("gives\n%swant\n%s%+v", got, c.want, r.Account())
			}
			if f, w := r.Format(); f != c.format || w != c.wrap {
				t.Errorf("it is taken for %s in %q, want %s in %q", f, w, c.format, c.wrap)
			}
		})
	}
}

// What else a record tells.
func TestFacts(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      Event
	}{
		{"MySQL's slow log", "# Time: 2016-07-20T18:13:25.500000Z\n" +
			"# User@Host: root[x] @ localhost [127.0.0.1]  Id:     3\n" +
			"# Query_time: 0.250000  Lock_time: 0.000324 Rows_sent: 1000  Rows_examined: 2000\n" +
			"use d;\nSET timestamp=1469038405;\nx;\n",
			Event{Time: 1469038405250000, Precision: 1, Duration: 250000, Rows: 1000, User: []byte("root"),
				Host: []byte("localhost"), Database: []byte("d")}},
		{"Percona's", "# Time: 131128  1:05:31\n# User@Host: u[u] @  [127.0.0.1]  Id: 69194\n" +
			"# Schema: m  Last_errno: 0\n# Query_time: 1.000000  Lock_time: 0.000114  Rows_sent: 1\n" +
			"# InnoDB_trx_id: 1A88583F\nSET timestamp=1385600731;\nx;\n",
			Event{Time: 1385600730000000, Precision: second, Duration: 1000000, Rows: 1, TxID: 0x1A88583F,
				User: []byte("u"), Host: []byte("127.0.0.1"), Database: []byte("m")}},
		{"PostgreSQL's csvlog", `2020-03-11 20:40:43.250 UTC,"u","d",1486,"127.0.0.1:52306",6009c305.5ce,3,"SELECT",` +
			`2021-01-21 19:08:05 UTC,14/1,77,LOG,00000,"duration: 250.5 ms  statement: x",,,,,,,,,"app"` + "\n",
			Event{Time: 1583959242999500, Precision: 1000, Duration: 250500, Rows: -1, TxID: 77, LocalTx: 1,
				User: []byte("u"), Host: []byte("127.0.0.1"), Database: []byte("d")}},
		{"PostgreSQL's jsonlog", `{"timestamp":"2020-03-11 20:40:43.250 UTC","user":"u","dbname":"d","pid":5,` +
			`"session_id":"63b1.5","vxid":"3/12","txid":7,"error_severity":"LOG","message":"statement: x"}` + "\n",
			Event{Time: 1583959243250000, Precision: 1000, Duration: -1, Rows: -1, TxID: 7, LocalTx: 12,
				User: []byte("u"), Database: []byte("d")}},
		{"PostgreSQL's stderr", "2020-03-11 20:40:43.250 UTC:127.0.0.1(9):u@d:[5]:1:00000:" +
			"2020-03-11 20:40:43 UTC:3/12:7:63b1.5:app:LOG:  statement: x\n",
			Event{Time: 1583959243250000, Precision: 1000, Duration: -1, Rows: -1, TxID: 7, LocalTx: 12,
				User: []byte("u"), Host: []byte("127.0.0.1"), Database: []byte("d")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Open(strings.NewReader(c.log), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var e Event
			if err := r.Next(&e); err != nil {
				t.Fatal(err)
			}
			e.Session, e.Op, e.Begun, e.Offset, e.Length, e.logged = 0, 0, false, 0, 0, false
			if string(e.Text) != "x" {
				t.Errorf("the text is %q", e.Text)
			}
			e.Text = nil
			if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", c.want); got != want {
				t.Errorf("got\n%s, want\n%s", got, want)
			}
		})
	}
}

// A log in parts is the log, wherever it was cut.
func TestFiles(t *testing.T) {
	read := func(parts ...string) (*Reader, string) {
		var open []func() (io.ReadCloser, error)
		size := 0
		for _, p := range parts {
			size += len(p)
			open = append(open, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(p)), nil })
		}
		r, err := Open(Join(open...), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r, events(t, r, int64(size))
	}
	_, whole := read(maria)
	head := len(headerMaria)
	for _, at := range []int{0, 1, head, head + 20, 400, 401, 402, 403, len(maria) - 1, len(maria)} {
		if _, got := read(maria[:at], "", maria[at:]); got != whole {
			t.Errorf("cut at %d it gives\n%swant\n%s", at, got, whole)
		}
	}
	// One that ends in the middle of a line, and another that does not go on with it.
	_, got := read(q(8, "SELECT 1")+"\t\t     8 Query\tSELECT", q(8, "SELECT 2"))
	want := "1 Query begun \"SELECT 1\"\n1 Query \"SELECT\" ambiguous: " + whyLastLine + "\n1 Query \"SELECT 2\"\n"
	if got != want {
		t.Errorf("gives\n%swant\n%s", got, want)
	}
}

func TestDecompress(t *testing.T) {
	pack := map[Compression]func(io.Writer) io.WriteCloser{
		"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
	}
	for name, writer := range pack {
		var b bytes.Buffer
		for _, part := range []string{maria[:200], maria[200:]} { // two streams, one behind the other
			w := writer(&b)
			io.WriteString(w, part)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		src, got, err := Decompress(&b, nil)
		if err != nil || got != name {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
		if text, err := io.ReadAll(src); err != nil || string(text) != maria {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	for _, text := range []string{"", "x", maria} {
		src, got, err := Decompress(strings.NewReader(text), nil)
		if b, _ := io.ReadAll(src); err != nil || got != "" || string(b) != text {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
