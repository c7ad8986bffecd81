package lex

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

var (
	my     = Options{}
	pg     = Options{Dialect: PostgreSQL}
	ansi   = Options{AnsiQuotes: true}
	noBack = Options{NoBackslashEscapes: true}
)

// tokens writes the tokens of a text, one after the other, with a letter for the kind.
func tokens(text string, o Options) string {
	l := Tokens([]byte(text), o)
	var out []string
	for {
		t, ok := l.Next()
		if !ok {
			break
		}
		out = append(out, string(" wnsdpvcmo"[t.Kind])+":"+text[t.Start:t.End])
	}
	if l.Open() {
		out = append(out, "open")
	}
	return strings.Join(out, " ")
}

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		o          Options
		text, want string
	}{
		{my, `SELECT 'it''s', "a\"b"`, `w:SELECT s:'it''s' o:, s:"a\"b"`},
		{my, `'a\'b' 'c\\' x`, `s:'a\'b' s:'c\\' w:x`},
		{noBack, `'C:\' , 'x'`, `s:'C:\' o:, s:'x'`},
		{ansi, `"a\" 'b\'c'`, `n:"a\" s:'b\'c'`},
		{my, "`a``b`.`c'd`", "n:`a``b` o:. n:`c'd`"},
		{my, "1-- 2\n+3", "d:1 c:-- 2\n o:+ d:3"},
		{my, "5--3", "d:5 o:- o:- d:3"},
		{my, "5---- 3", "d:5 o:- o:- c:-- 3 open"},
		{pg, "5--3\n4", "d:5 c:--3\n d:4"},
		{my, "a # b 'c\nd", "w:a c:# b 'c\n w:d"},
		{pg, "a # b", "w:a o:# w:b"},
		{my, "/* a /* b */ c", "c:/* a /* b */ w:c"},
		{pg, "/* a /* b */ c */ d", "c:/* a /* b */ c */ w:d"},
		{pg, "/*/* */ */*/ 1", "c:/*/* */ */ o:* o:/ d:1"},
		{my, "/*!40101 SET a='*/' */ b", "m:/*!40101 w:SET w:a o:= s:'*/' m:*/ w:b"},
		{my, "/*M!100100 x*/", "m:/*M!100100 w:x m:*/"},
		{my, "/*! a", "m:/*! w:a open"},
		{my, "/*+ MAX_EXECUTION_TIME(5) */ 1", "c:/*+ MAX_EXECUTION_TIME(5) */ d:1"},
		{my, "/**/1/*/*/2", "c:/**/ d:1 c:/*/*/ d:2"},
		{my, "0x1F x'1F' 0b01 b'1' N'x' _utf8'y'", "d:0x1F s:x'1F' d:0b01 s:b'1' s:N'x' s:_utf8'y'"},
		{my, "1e5 1.5e-3 .5 5. t.5 1a 12_3 0xZ", "d:1e5 d:1.5e-3 d:.5 d:5. w:t o:. d:5 w:1a w:12_3 w:0xZ"},
		{my, "@a @@b.c @'d e' @`f`", "v:@a v:@@b.c v:@'d e' v:@`f`"},
		{my, "? a", "p:? w:a"},
		{pg, "a ? $1 $2", "w:a o:? p:$1 p:$2"},
		{pg, `E'a\'b' 'c\' e'\\' U&'\0041' U&"x"`, `s:E'a\'b' s:'c\' s:e'\\' s:U&'\0041' n:U&"x"`},
		{pg, `tale'\' x`, `w:tale s:'\' w:x`},
		{pg, "$$a'b$$ $t$ $$ $u$ $t$ c", "s:$$a'b$$ s:$t$ $$ $u$ $t$ w:c"},
		{pg, "a$b$c $1$2 x$$y", "w:a$b$c p:$1$2 w:x$$y"},
		{pg, "$a$ b $a", "s:$a$ b $a open"},
		{pg, "a::int[1]", "w:a o:: o:: w:int o:[ d:1 o:]"},
		{my, "a\x00'b\x00c'\xff\xfe", "w:a s:'b\x00c' w:\xff\xfe"},
		{my, "'ab", "s:'ab open"},
		{my, `'ab\`, `s:'ab\ open`},
		{my, "'ab''", "s:'ab'' open"},
		{my, "-- x", "c:-- x open"},
		{my, "", ""},
	} {
		if got := tokens(c.text, c.o); got != c.want {
			t.Errorf("%v %q\n gives %q\n want  %q", c.o, c.text, got, c.want)
		}
	}
}

// inside tells what State says of a text that it is fed in pieces of n bytes.
func inside(text string, o Options, n int) bool {
	var s State
	s.Reset(o)
	for b := range slices.Chunk([]byte(text), n) {
		s.Advance(b)
	}
	return s.Inside()
}

// samples have what is hard to take apart.
var samples = []string{
	"", "SELECT 1", `'it''s' "x\"y" 'a\'`, "`a``b", "a -- b\nc", "a --b\nc'", "5--'3", "--", "---", "-- ", "#'\n'",
	"/* ' */", "/* /* */ ' */", "/*!50000 'a' */", "/*!50000 /* x */ 'a", "/*M!1 a*/ b", "/*/", "/*!*/", "/*M*/",
	"E'a\\'b", "tale'a\\'b", "1e'a\\'", "$1e'a\\'", "$$ ' $$", "$t$ ' $$ $t$", "a$$ ' $$", "$1$$'", "$x'a", "$$$$",
	"$t$ $$t$ '", "$é$ ' $é$", "U&'a\\'", `U&"a`, "'a'e'\\''", "`", "@'a\\'", "a\x00'b\x00", "\xff'\xfe",
	"/*!1 2*/*3 */'", "/*!1 **/'", "_utf8'a\\'", "1.e'5\\'", "0x'", "*/", "/*! a */ */ '", "-- a\r'b",
	"$" + strings.Repeat("t", maxTag) + "$'", "$" + strings.Repeat("t", maxTag+1) + "$'", "1e-'", "1--1'", "a--\x01'",
}

var allOptions = []Options{my, pg, ansi, noBack, {AnsiQuotes: true, NoBackslashEscapes: true}}

// checkState holds that a text gives the same in one piece and in any, and the same as the lexer.
func checkState(t *testing.T, text string) {
	t.Helper()
	for _, o := range allOptions {
		l := Tokens([]byte(text), o)
		end := 0
		for {
			tok, ok := l.Next()
			if !ok {
				break
			}
			if tok.Start < end || tok.End <= tok.Start || tok.End > len(text) {
				t.Fatalf("%+v %q: token %+v after %d", o, text, tok, end)
			}
			end = tok.End
		}
		for _, n := range []int{len(text) + 1, 1, 2, 3, 7} {
			if got := inside(text, o, n); got != l.Open() {
				t.Fatalf("%+v %q in pieces of %d: inside %v, the lexer says %v", o, text, n, got, l.Open())
			}
		}
	}
}

func TestStateAgreesWithTheLexer(t *testing.T) {
	for _, a := range samples {
		for _, b := range samples {
			checkState(t, a+b)
			checkState(t, a+" "+b)
		}
	}
}

func FuzzLex(f *testing.F) {
	for _, s := range samples {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		checkState(t, text)
		for _, o := range allOptions {
			b := []byte(text)
			print := Fingerprint(nil, b, o)
			if len(print) > 4*len(b)+16 {
				t.Errorf("a fingerprint of %d bytes for a text of %d", len(print), len(b))
			}
			Classify(b, o)
			LeadingComment(b, o)
			FoldNumbers(nil, b, 100)
			end := 0
			for _, s := range Split(nil, b, o) {
				if s.Start < end || s.End <= s.Start || s.End > len(b) {
					t.Fatalf("%q: span %+v after %d", text, s, end)
				}
				end = s.End
			}
			Bind(nil, b, b, o)
			if string(b) != text {
				t.Fatal("the text was written to")
			}
		}
	})
}

func TestNothingIsAllocated(t *testing.T) {
	text := []byte("/* C::m */ SELECT a, 'x', NOW() FROM `t` WHERE id IN (1, 2, 3) AND b = -1 ORDER BY a ASC LIMIT 5")
	for _, o := range allOptions {
		dst, spans, s := make([]byte, 0, 1024), make([]Span, 0, 16), new(State)
		for name, f := range map[string]func(){
			"State":          func() { s.Reset(o); s.Advance(text) },
			"Fingerprint":    func() { ID(Fingerprint(dst, text, o)) },
			"Classify":       func() { Classify(text, o) },
			"Split":          func() { Split(spans, text, o) },
			"LeadingComment": func() { FoldNumbers(dst, LeadingComment(text, o), 100) },
			"Bind":           func() { Bind(spans, text, text, o) },
		} {
			if n := testing.AllocsPerRun(10, f); n != 0 {
				t.Errorf("%s allocates %g times", name, n)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		o    Options
		text string
		want []string
	}{
		{my, "SELECT 10; SELECT 11;\nSELECT 12", []string{"SELECT 10", "SELECT 11", "SELECT 12"}},
		{my, ";; ;", nil},
		{my, "-- a;\n/* b; */", nil},
		{my, "a ';' ; b `;` # ;\n; c", []string{"a ';'", "b `;`", "c"}},
		{my, "/* x */ a /* y */; b", []string{"a", "b"}},
		{my, "CREATE DEFINER=`a`@`b` PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
			[]string{"CREATE DEFINER=`a`@`b` PROCEDURE p() BEGIN SELECT 1; SELECT 2; END"}},
		{my, "CREATE PROCEDURE p() BEGIN IF 1 THEN a; END IF; CASE 1 WHEN 2 THEN b; END CASE; END; c", []string{
			"CREATE PROCEDURE p() BEGIN IF 1 THEN a; END IF; CASE 1 WHEN 2 THEN b; END CASE; END", "c"}},
		{my, "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET NEW.a = 1; c", []string{
			"CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET NEW.a = 1", "c"}},
		{my, "BEGIN NOT ATOMIC a; b; END; c", []string{"BEGIN NOT ATOMIC a; b; END", "c"}},
		{my, "CREATE TABLE t (a INT); SELECT 1", []string{"CREATE TABLE t (a INT)", "SELECT 1"}},
		{my, "BEGIN; SELECT 1", []string{"BEGIN", "SELECT 1"}},
		{my, "/*!40101 SET a=1 */; b", []string{"/*!40101 SET a=1 */", "b"}},
		{pg, "SELECT $$;$$; b", []string{"SELECT $$;$$", "b"}},
		{pg, "CREATE FUNCTION f() RETURNS int AS $x$ a; b $x$; c", []string{
			"CREATE FUNCTION f() RETURNS int AS $x$ a; b $x$", "c"}},
		{pg, "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE 1 WHEN 2 THEN 3 END; END; c", []string{
			"CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE 1 WHEN 2 THEN 3 END; END", "c"}},
	} {
		var got []string
		for _, s := range Split(nil, []byte(c.text), c.o) {
			got = append(got, c.text[s.Start:s.End])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q\n gives %q\n want  %q", c.text, got, c.want)
		}
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		text  string
		span  Span
		end   int
		whole bool
	}{
		{"a ; b", Span{0, 1}, 3, true},
		{" a /* x */; b", Span{1, 2}, 11, true},
		{"a", Span{0, 1}, 1, false},
		{"a 'x;", Span{0, 5}, 5, false},
		{"-- x", Span{}, 4, false},
		{";; a;", Span{3, 4}, 5, true},
		{"a -- ;", Span{0, 1}, 6, false},
	} {
		span, end, whole := Next([]byte(c.text), my)
		if span != c.span || end != c.end || whole != c.whole {
			t.Errorf("%q gives %v %d %v, want %v %d %v", c.text, span, end, whole, c.span, c.end, c.whole)
		}
	}
}

func TestBind(t *testing.T) {
	for _, c := range []struct {
		template, text string
		want           []string
		ok             bool
	}{
		{"SELECT * FROM a WHERE id=? AND v=?", `SELECT * FROM a WHERE id=1 AND v='\xff?'`,
			[]string{"1", `'\xff?'`}, true},
		{"SELECT ?", "SELECT -5.5", []string{"-5.5"}, true},
		{"SELECT ?, ?", "SELECT NULL, _binary'x'", []string{"NULL", "_binary'x'"}, true},
		{"SELECT ?", "SELECT DATE'2020-01-01'", []string{"DATE'2020-01-01'"}, true},
		{"SELECT ?", "SELECT a", nil, false},
		{"SELECT '?'", "SELECT '?'", nil, true},
		{"SELECT ?", "SELECT 1 + 1", []string{"1"}, false},
		{"SELECT ? + 1", "SELECT 1", []string{"1"}, false},
		{"SELECT 1", "SELECT 2", nil, false},
		{"SELECT ?", "SELECT 'a", nil, false},
	} {
		spans, ok := Bind(nil, []byte(c.template), []byte(c.text), my)
		var got []string
		for _, s := range spans {
			got = append(got, c.text[s.Start:s.End])
		}
		if ok != c.ok || ok && !slices.Equal(got, c.want) {
			t.Errorf("%q %q\n gives %q %v\n want  %q %v", c.template, c.text, got, ok, c.want, c.ok)
		}
	}
}

func TestLeadingComment(t *testing.T) {
	for text, want := range map[string]string{
		"/* Class::method */ SELECT 1":             "Class::method",
		"SELECT /* Wikimedia\\Rdbms::x 12 */ a":    "Wikimedia\\Rdbms::x 12",
		"SELECT a /* late */":                      "",
		"-- from: job\nSELECT 1":                   "from: job",
		"# job\nSELECT 1":                          "job",
		"/* never ends":                            "never ends",
		"SELECT 1":                                 "",
		"/*":                                       "",
		"/*!40000 SELECT */ 1":                     "",
		"/*+ BKA(t) */ SELECT /* the second */ 1 ": "the second",
	} {
		if got := string(LeadingComment([]byte(text), my)); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"request 4711 of 12":                   "request ? of ?",
		"550e8400-e29b-41d4-a716-446655440000": "?-?-?-?-?",
		"Class2::face feed":                    "Class?::face feed",
		"":                                     "",
	} {
		if got := string(FoldNumbers(nil, []byte(text), 100)); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
	if got := FoldNumbers([]byte("x"), []byte("abcdef"), 3); string(got) != "xabc" {
		t.Errorf("the limit of 3 gives %q", got)
	}
}

func BenchmarkLex(b *testing.B) {
	var all strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&all, "SELECT /* Class::method */ page_id, page_title, 'some text %d that''s quoted'\n"+
			"FROM `page` JOIN revision ON (rev_page = page_id) -- a comment\nWHERE page_namespace = %d AND "+
			"page_title IN ('Main_Page', 'Sandbox\\'s', 'X') ORDER BY page_id LIMIT 10;\n", i, i)
	}
	text := []byte(all.String())
	for _, o := range []Options{my, pg} {
		dst := make([]byte, 0, 2*len(text))
		var s State
		for _, c := range []struct {
			name string
			f    func()
		}{
			{"State", func() { s.Reset(o); s.Advance(text) }},
			{"Tokens", func() {
				for l := Tokens(text, o); ; {
					if _, ok := l.Next(); !ok {
						break
					}
				}
			}},
			{"Fingerprint", func() { Fingerprint(dst, text, o) }},
			{"Classify", func() { Classify(text, o) }},
		} {
			b.Run(c.name+"/"+o.Dialect.String(), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					c.f()
				}
			})
		}
	}
}
