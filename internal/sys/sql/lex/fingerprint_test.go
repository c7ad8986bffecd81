package lex

import "testing"

func TestFingerprint(t *testing.T) {
	for _, c := range []struct {
		o          Options
		text, want string
	}{
		{my, "SELECT c FROM t WHERE id=1", "select c from t where id=?"},
		{my, " select  *\n from\tfoo where a = 5 ;\n", "select * from foo where a = ?"},
		{my, "select null, 5.001, 5001. from foo", "select ?, ?, ? from foo"},
		{my, "select 0e0, +6e-30, -6.00 from foo where a = 5.5 or c=.5", "select ?, ?, ? from foo where a = ? or c=?"},
		{my, "select 0x0, x'123', 0b1010, b'10101'", "select ?, ?, ?, ?"},
		{my, `select 'a\'b', "c""d", '\\'`, "select ?, ?, ?"},
		{my, "select -1, a-1, a - 1, (a)-1, f(-1)", "select ?, a-?, a - ?, (a)-?, f(?)"},
		{my, "a in (5) and b IN  ( 5, 8,9 ,'x')", "a in(?+) and b in(?+)"},
		{my, "a in (-1, NULL, _utf8'x', (1, 2))", "a in(?+)"},
		{my, "a in (select 1)", "a in (select ?)"},
		{my, "a in (b, 1)", "a in (b, ?)"},
		{my, "a in ()", "a in()"},
		{my, "select foo_1 from foo_2_3, 123foo", "select foo_1 from foo_2_3, 123foo"},
		{my, "insert into t(a, b) VALUES (1,2) , (3, NOW())", "insert into t(a, b) values(?+)"},
		{my, "insert into t values (1, '(2)', 'a ). b')", "insert into t values(?+)"},
		{my, "INSERT INTO t () VALUES ()", "insert into t () values()"},
		{my, "insert into t value(2) on duplicate key update a=a + VALUES(a)",
			"insert into t value(?+) on duplicate key update a=a + values(a)"},
		{my, "insert into t values (1), x", "insert into t values(?+), x"},
		{my, "insert into t values (1", "insert into t values (?"},
		{my, "insert into t select a from b where c in (1,2)", "insert into t select a from b where c in(?+)"},
		{my, "replace into t values (1)", "replace into t values(?+)"},
		{my, "select replace(a, 'x', 'y') from t", "select replace(a, ?, ?) from t"},
		{my, "CALL foo(1, 2, 3)", "call foo"},
		{my, "call `a`.`b` (1)", "call `a`.`b`"},
		{my, "use `foo`", "use ?"},
		{my, "SELECT `Col` FROM `table-1`", "select `col` from `table-1`"},
		{my, "select * from foo limit 5, 10", "select * from foo limit ?, ?"},
		{my, "select c order by a, b          ASC, d DESC, e asc", "select c order by a, b, d desc, e"},
		{my, "select asc_ from asc1", "select asc_ from asc1"},
		{my, "/* x 1 */ select foo -- bar\n", "select foo"},
		{my, "select foo-- bar\n,foo", "select foo,foo"},
		{my, "select a/**/b, c,/**/d", "select a b, c,d"},
		{my, "### x ###\n\tSELECT a\n UNION  ALL\n # y\n select b", "select a union all select b"},
		{my, "SELECT /*!40001 SQL_NO_CACHE */ * FROM `f`", "select /*!40001 sql_no_cache */ * from `f`"},
		{my, "select @@version, @A, ?", "select @@version, @a, ?"},
		{my, "SELECT true, FALSE, truest", "select ?, ?, truest"},
		{my, "select 'never ends", "select ?"},
		{my, "", ""},
		{my, "-- nothing", ""},
		{pg, `SELECT "Col", E'a\'b', $1, $$x$$, 'a\' FROM t`, `select "Col", ?, ?, ?, ? from t`},
		{pg, "select a::int from t where b = 'x'::text", "select a::int from t where b = ?::text"},
		{pg, "a IN ('x'::text, 'y'::text)", "a in(?+)"},
		{pg, "a = ANY(ARRAY[1, 2, 3])", "a = any(array[?+])"},
		{pg, "select a[1], array[b]", "select a[?], array[b]"},
		{pg, "select * from (values (1,'a'),(2,'b')) v", "select * from (values(?+)) v"},
		{pg, "values (1, a)", "values (?, a)"},
	} {
		if got := string(Fingerprint(nil, []byte(c.text), c.o)); got != c.want {
			t.Errorf("%q\n gives %q\n want  %q", c.text, got, c.want)
		}
	}
	if got := string(Fingerprint([]byte("kept "), []byte("use x"), my)); got != "kept use ?" {
		t.Errorf("appended: %q", got)
	}
}

// The digits are those that pt-query-digest shows for this statement.
func TestID(t *testing.T) {
	if got := ID([]byte("hello world")); got != 0x93CB22BB8F5ACDC3 {
		t.Errorf("got %X", got)
	}
}
