package sql

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"tare/internal/sys/sql/lex"
)

// read returns the statements of a dump, each COPY with its rows, or the error behind them.
func read(d *dump) (all []string) {
	for {
		text, err := d.next()
		if err != nil {
			if err != io.EOF {
				all = append(all, err.Error())
			}
			return all
		}
		all = append(all, string(text))
		if !d.isCopy(text) {
			continue
		}
		if err := d.rows(); err != nil {
			return append(all, err.Error())
		}
		for {
			row, err := d.row()
			if err != nil {
				if err != io.EOF {
					return append(all, err.Error())
				}
				break
			}
			all = append(all, "row "+string(row))
		}
	}
}

// Servers that speak another language tell of users in it.
func TestLacksRole(t *testing.T) {
	r := &refusal{"42704", "Rolle »nobody« existiert nicht"}
	for text, want := range map[string]bool{
		"grant all\non a to nobody": true, "REVOKE ALL ON a FROM nobody": true,
		"ALTER TABLE ONLY a\n  OWNER TO nobody": true, "ALTER DEFAULT PRIVILEGES FOR ROLE a GRANT b": true,
		"ALTER TABLE owner ADD c nothing": false, "CREATE TABLE grants (a nothing)": false,
	} {
		if r.lacksRole([]byte(text)) != want {
			t.Errorf("%s: %t", text, !want)
		}
	}
}

func TestDump(t *testing.T) {
	for _, c := range []struct {
		dialect lex.Dialect
		text    string
		want    []string
	}{
		{lex.MySQL, "/*M!999999\\- enable the sandbox mode */ \n-- a dump; really\n\nSET a=1;;\n" +
			"INSERT INTO a VALUES ('x;\n-- y'),(2);\nDELIMITER ;;\nCREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW\n" +
			"BEGIN\n  SET @a=';;x'; SET @b=1;\nEND ;;\nDELIMITER ;\nSELECT 1",
			[]string{"/*M!999999\\- enable the sandbox mode */ \n-- a dump; really\n\nSET a=1",
				"INSERT INTO a VALUES ('x;\n-- y'),(2)",
				"CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW\nBEGIN\n  SET @a=';;x'; SET @b=1;\nEND", "SELECT 1"}},
		{lex.PostgreSQL, "\\restrict x\nCREATE TABLE a (t text);\nCOPY a (t) FROM stdin;\n1;\n\n'x\n\\.\n\n" +
			"SELECT ';';\nCOPY b FROM stdin;\r\n\\.\r\n\\unrestrict x\n",
			[]string{"CREATE TABLE a (t text)", "COPY a (t) FROM stdin",
				"row 1;\n", "row \n", "row 'x\n", "SELECT ';'", "COPY b FROM stdin"}},
		{lex.PostgreSQL, "COPY b FROM stdin;\n1\n", []string{"COPY b FROM stdin", "row 1\n",
			"the dump ends amid the rows of a COPY"}},
		{lex.PostgreSQL, "\\connect other\n", []string{
			`"\\connect other" is a command of psql: use a dump of one database, made without --create`}},
		{lex.MySQL, "\n-- nothing\n", nil},
		{lex.MySQL, "", nil},
	} {
		for i, src := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
			got := read(&dump{src: src, options: lex.Options{Dialect: c.dialect}})
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
				t.Errorf("reader %d:\n %q\n want\n %q", i, got, c.want)
			}
		}
	}
}

// A statement that is longer than what is read at a time comes as a whole.
func TestDumpOfLongStatements(t *testing.T) {
	long := "INSERT INTO a VALUES ('" + strings.Repeat("long; ", 1<<20) + "')"
	got := read(&dump{src: strings.NewReader("SELECT 1;\n" + long + ";\nSELECT 2;\n")})
	if len(got) != 3 || got[1] != long || got[2] != "SELECT 2" {
		t.Errorf("%d statements", len(got))
	}
}

func FuzzDump(f *testing.F) {
	f.Add("DELIMITER ;;\nSELECT 1 ;;\nDELIMITER ;\nSELECT 2;", false)
	f.Add("COPY a FROM stdin;\n1\n\\.\n", true)
	f.Fuzz(func(t *testing.T, text string, postgres bool) {
		var o lex.Options
		if postgres {
			o.Dialect = lex.PostgreSQL
		}
		n := 0
		for _, s := range read(&dump{src: strings.NewReader(text), options: o}) {
			n += len(s)
		}
		if n > 10*len(text)+200 {
			t.Errorf("%d bytes of %d", n, len(text))
		}
	})
}
