// Package lex takes SQL apart, as MySQL, MariaDB and PostgreSQL do: where literals, quoted names and comments end, the
// class of a statement, and which statements are the same but for their literals.
//
// It is a lexer and no parser. It knows no grammar and no schema and never fails: a statement that it does not know has
// the class Unknown, with the reason. Nothing allocates for each token. Sources: "Lexical Structure" of the MySQL 8.4
// and MariaDB 11 manuals, sql_lex.cc of both, PostgreSQL 17's scan.l.
package lex

// Dialect is whose SQL it is.
type Dialect uint8

// The dialects. MariaDB's is MySQL's here.
const (
	MySQL Dialect = iota
	PostgreSQL
)

func (d Dialect) String() string {
	if d == PostgreSQL {
		return "postgresql"
	}
	return "mysql"
}

// Options are the settings of a session that change where the tokens of its SQL end.
type Options struct {
	Dialect            Dialect
	NoBackslashEscapes bool // MySQL: sql_mode has NO_BACKSLASH_ESCAPES
	AnsiQuotes         bool // MySQL: sql_mode has ANSI_QUOTES, so that "x" is a name
}

// backslash tells whether a backslash escapes within a literal that has no prefix.
func (o Options) backslash() bool { return o.Dialect == MySQL && !o.NoBackslashEscapes }

// doubleIsName tells whether "x" is a name.
func (o Options) doubleIsName() bool { return o.Dialect == PostgreSQL || o.AnsiQuotes }

// table is a set of bytes.
type table [256]bool

func tableOf(s string) *table {
	t := new(table)
	for i := range len(s) {
		t[s[i]] = true
	}
	return t
}

// wordBytes can stand in a name or keyword. A dollar sign can in both dialects.
var wordBytes = func() *table {
	t := tableOf("_$")
	for c := range 256 {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80 {
			t[c] = true
		}
	}
	return t
}()

func isDigit(c byte) bool { return c-'0' <= 9 }

func isHex(c byte) bool { return isDigit(c) || (c|0x20) >= 'a' && (c|0x20) <= 'f' }

// isSpace tells whether a byte separates tokens: white space, and in MySQL's lexer the other control characters do no
// harm.
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// isBlank tells whether a byte can follow the -- of a comment in MySQL: white space or a control character.
func isBlank(c byte) bool { return c <= ' ' || c == 0x7f }

// tagStart tells whether the tag of a dollar quote can begin with c.
func tagStart(c byte) bool { return wordBytes[c] && !isDigit(c) && c != '$' }

// maxTag is the longest tag of a dollar quote that is known as one, in bytes. PostgreSQL has no limit of its own.
const maxTag = 64
