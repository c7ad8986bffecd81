package lex

import (
	"bytes"
	"testing"
)

func TestSkeleton(t *testing.T) {
	for _, c := range []struct {
		o          Options
		text, want string
	}{
		{my, "SELECT c FROM t WHERE id=17 AND n = 'it''s'", "SELECT c FROM t WHERE id=\x01 AND n = ''"},
		{my, "select  'a'\"b\" , -1.5e3,0x1F", "select  ''\"\" , -\x01,\x01"},
		{my, "select a1, `b 2`, @c3, 4d /* 5 'six */ -- 7", "select a1, `b 2`, @c3, 4d /* 5 'six */ -- 7"},
		{my, "select a = .5, 5., _utf8'x', N'y'", "select a = .5, 5., _utf8'x', N'y'"},
		{my, "select 'a\\'b' # 'c\n, 1", "select '' # 'c\n, \x01"},
		{pg, `select "A 1", $1, 'a\', 2`, `select "A 1", $1, '', ` + "\x01"},
		{pg, "select $$1$$, E'\\'', 3", "select $$1$$, E'\\'', \x01"},
		{my, "select 'never ends", ""},
		{my, "select 1 /*!40000 + 2", ""},
		{my, "select \x01, 1", ""},
		{my, "select aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ""},
	} {
		got, ok := Skeleton([]byte("x"), []byte(c.text), c.o, 64)
		if ok != (c.want != "") || ok && string(got) != "x"+c.want {
			t.Errorf("%q gives %q %v, want %q", c.text, got, ok, c.want)
		}
	}
}

// bySteps is Skeleton by the lexer alone.
func bySteps(stmt []byte, o Options, limit int) ([]byte, bool) {
	l := Tokens(stmt, o)
	return l.slowSkeleton(nil, limit)
}

// What is found of a skeleton, with a number where it has one, is what is found of the statement.
func FuzzSkeleton(f *testing.F) {
	for _, text := range []string{"SELECT a, 'b' FROM c WHERE d IN (1, -2, 'x') ORDER BY 5 LIMIT 10",
		"INSERT INTO t VALUES (1, 'a'), (2, NOW()) ON DUPLICATE KEY UPDATE a = a+1", "select '1'\"2\" 3 /*!40000 + 4*/",
		"/* Page 12 */ UPDATE a1 SET b = .5 WHERE c = 5. AND d=1e5 FOR UPDATE", "select 1/**/a, 'x'/*y*/b, 5.a, 1.-2",
		"SET @@global.a = 1, b = 'x'; CALL p(1); use x", "SELECT $1, $a$ 1 $a$, E'\\'' || 'a', 5::int, array[1, 2]"} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, mysql bool) {
		o := my
		if !mysql {
			o = pg
		}
		skeleton, ok := Skeleton(nil, text, o, 1<<10)
		if want, whole := bySteps(text, o, 1<<10); ok != whole || ok && !bytes.Equal(skeleton, want) {
			t.Errorf("%q has the skeleton %q %v, by the lexer %q %v", text, skeleton, ok, want, whole)
		}
		if !ok {
			return
		}
		if inside(string(text)+"\n", o, len(text)+1) {
			t.Errorf("%q has a skeleton, and goes on in the next line", text)
		}
		same := bytes.ReplaceAll(skeleton, []byte{1}, []byte{'0'})
		if bytes.IndexByte(text, 1) >= 0 {
			return // within a comment or a name
		}
		if got, want := Classify(same, o), Classify(text, o); got != want {
			t.Errorf("%q is %+v, and %q is %+v", same, got, text, want)
		}
		if got, want := Fingerprint(nil, same, o), Fingerprint(nil, text, o); !bytes.Equal(got, want) {
			t.Errorf("%q becomes %q, and %q becomes %q", same, got, text, want)
		}
		if got, want := LeadingComment(same, o), LeadingComment(text, o); !bytes.Equal(got, want) {
			t.Errorf("%q begins with %q, and %q with %q", same, got, text, want)
		}
	})
}
