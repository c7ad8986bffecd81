package log

import (
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"tare/internal/sys/sql/lex"
)

// What would be replayed wrongly is skipped, or ambiguous, for a reason, and the account adds up.
func TestNotReplayedWrongly(t *testing.T) {
	pg := func(message string) string { return "2026-09-27 06:57:00.400 UTC [7] anna@shop " + message + "\n" }
	slow := func(fact, text string) string {
		return "# Time: 2026-01-15T10:23:46.123456Z\n# User@Host: app[app] @ web-1 [192.0.2.21]  Id:    17\n" +
			"# Query_time: 0.142311  Lock_time: 0.000044  Rows_sent: 1\n" + fact +
			"SET timestamp=1768472626;\n" + text + ";\n"
	}
	general := func(text string) string { return "2026-08-15T14:03:50.259438Z\t    9 Query\t" + text + "\n" }
	zeros := strings.Repeat("\x00", 4096)
	for _, c := range []struct {
		name, log string
		o         Options
		total     int64
		part      Part
		reason    string
		n         int64
	}{
		{"no values", pg("LOG:  execute s1: SELECT c FROM t WHERE id=$1"), Options{}, 1, Skipped, whyNoValues, 1},
		{"not all values", pg("LOG:  execute s1: SELECT $1, $2") + pg("DETAIL:  parameters: $1 = '1'"),
			Options{}, 1, Skipped,
			whyNoValues, 1},
		{"all values", pg("LOG:  execute s1: SELECT $2, $1") + pg("DETAIL:  parameters: $1 = '1', $2 = NULL"),
			Options{}, 1,
			Skipped, whyNoValues, 0},
		{"no parameters", pg("LOG:  execute s1: SELECT '$1', $x$ $1 $x$"), Options{}, 1, Skipped, whyNoValues, 0},
		{"a value that was cut", pg("LOG:  execute s1: SELECT $1") + pg("DETAIL:  parameters: $1 = 'abc...'"),
			Options{}, 1,
			Skipped, whyCutValue, 1},
		{"MySQL's, without its values", "# Time: 2026-01-15T10:23:46.123456Z\n# User@Host: a[a] @ b []  Id:    17\n" +
			"# Query_time: 0.1  Lock_time: 0.0\nSET timestamp=1768472626;\nSELECT ?;\n",
			Options{}, 1, Skipped, whyNoValues, 1},
		{"client_encoding", pg("LOG:  statement: SET client_encoding TO 'LATIN9'"),
			Options{}, 1, Skipped, whyEncoding, 1},
		{"SET NAMES", pg("LOG:  statement: /* x */ set session names 'LATIN9'"), Options{}, 1, Skipped, whyEncoding, 1},
		{"within others", pg("LOG:  statement: SELECT 1; SET LOCAL \"client_encoding\" = 'LATIN9'"),
			Options{}, 1, Skipped,
			whyEncoding, 1},
		{"another setting", pg("LOG:  statement: SET search_path = names, client_encoding"), Options{}, 1, Skipped,
			whyEncoding, 0},
		{"a file is in the client's", "SET client_encoding = 'LATIN1';\n", Options{Dialect: lex.PostgreSQL}, 1, Skipped,
			whyEncoding, 0},
		{"a routine's", slow("# Stored_routine: shop.count\n", "SELECT 1"), Options{}, 1, Skipped, whyStored, 1},
		{"a client's", slow("", "SELECT 1"), Options{}, 1, Skipped, whyStored, 0},
		{"zeros between lines", general("SELECT 1") + zeros + general("SELECT 2"),
			Options{}, 2, Ambiguous, whyZeros, 1},
		{"zeros in a line", strings.TrimSuffix(general("SELECT 1 FR"), "\n") + zeros + general("SELECT 2"),
			Options{}, 2,
			Ambiguous, whyZeros, 1},
		{"zeros in front", zeros + general("SELECT 1") + general("SELECT 2"), Options{}, 2, Lost, whyZeros, 0},
		{"zeros in a slow log", slow("", "SELECT 1") + zeros + slow("", "SELECT 2"),
			Options{}, 2, Ambiguous, whyZeros, 1},
		{"zeros in PostgreSQL's", pg("LOG:  statement: SELECT 1") + zeros + pg("LOG:  statement: SELECT 2"),
			Options{}, 2,
			Ambiguous, whyUnplaced, 1},
		{"zeros that are data", general("SELECT '\x00\x00\x00\x00\x00'"), Options{}, 1, Ambiguous, whyZeros, 0},
	} {
		r, err := Open(strings.NewReader(c.log), c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		s, err := Summarize(r, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		checkAccount(t, r, int64(len(c.log)))
		n, _ := reason(s.Account, c.part, c.reason)
		if n != c.n || s.Account.Statements.Total != c.total || s.Account.Statements.Replayed != c.total-c.n {
			t.Errorf("%s: %d are %s because %q, want %d: %+v", c.name, n, c.part, c.reason, c.n, s.Account)
		}
	}
}

// A mark of UTF-8 in front of a part is left out and counted; what is no log is named.
func TestBeginningsOfFiles(t *testing.T) {
	line := "2026-09-27 06:57:00.400 UTC [7] anna@shop LOG:  statement: SELECT 1\n"
	part := func(s string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
	}
	marked := "\ufeff" + line
	for name, src := range map[string]io.Reader{
		"parts": Join(part(marked), part(marked)), "a reader": strings.NewReader(marked + line),
	} {
		r, err := Open(src, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Summarize(r, Policy{})
		if err != nil || s.Account.Statements.Replayed != 2 || s.Account.Bytes.Lost > 0 ||
			s.Account.Bytes.Total < int64(len(marked)+len(line)) {
			t.Errorf("%s: %+v, %v", name, s.Account, err)
		}
	}
	wide := make([]byte, 0, 2*len(line))
	for _, c := range utf16.Encode([]rune(line)) {
		wide = binary.LittleEndian.AppendUint16(wide, c)
	}
	for _, c := range []struct{ head, want string }{
		{string(wide), "UTF-16"}, {"\xff\xfe" + string(wide), "UTF-16"}, {"PK\x03\x04xxxx", "zip"},
		{"what is this\n", `it begins with "what is this`}, {"СООБЩЕНИЕ:  оператор: SELECT 1\n", "lc_messages"},
	} {
		for _, src := range []io.Reader{strings.NewReader(c.head), Join(part(c.head))} {
			if _, err := Open(src, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.20q: %v, want %q", c.head, err, c.want)
			}
		}
	}
	// A second part that is none.
	o := Options{Sample: 10, Format: PgStderr, Prefix: "%m [%p] %q%u@%d "}
	r, err := Open(Join(part(line), part("PK\x03\x04xxxx")), o)
	if err == nil {
		_, err = Summarize(r, Policy{})
	}
	if err == nil || !strings.Contains(err.Error(), "zip") {
		t.Errorf("a zip as the second part: %v", err)
	}
}

// Messages in another language are no statements, and the summary says where to look.
func TestSilentLogs(t *testing.T) {
	for log, silent := range map[string]bool{
		"2026-04-19 12:45:01.389 UTC [44] anna@shop LOG:  Anweisung: SELECT 6\n": true,
		"2026-04-19 12:45:01.389 UTC [44] anna@shop LOG:  statement: SELECT 6\n": false,
	} {
		r, err := Open(strings.NewReader(log), Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Summarize(r, Policy{})
		if notes := strings.Join(s.Notes, "|"); err != nil || s.Silent() != silent ||
			strings.Contains(notes, "lc_messages") != silent {
			t.Errorf("%q: %v, %q", log, s.Silent(), notes)
		}
	}
}
