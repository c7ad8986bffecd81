package lex

import "strconv"

// Class is the effect of a statement, from the harmless to the harmful.
type Class uint8

// The classes. A text of several statements has the last of theirs in this order.
const (
	Session     Class = iota // sets what only the session sees: USE, SET, PREPARE; also a text without a statement
	Transaction              // BEGIN, COMMIT, SAVEPOINT and the like
	Read
	SideEffect // reads, and does something besides: locks, sleeps, writes a file of the server, calls a procedure
	Unknown    // a statement that is not known, or whose text is not whole
	Admin      // the server, its accounts, other sessions
	DDL
	Write
)

// String is the word that reports use for a class.
func (c Class) String() string {
	return [...]string{"session", "transaction", "read", "side effect", "unknown", "administration", "definition",
		"write"}[c]
}

// ReadOnly tells whether a statement of the class changes nothing but the session's own state.
func (c Class) ReadOnly() bool { return c <= Read }

// Reasons that callers ask for by name.
const (
	LocksRows = "locks the rows it reads"
	NoOrder   = "LIMIT without ORDER BY"
	Executes  = "carries out what was prepared by name"
	MayWrite  = "sets whether the session may write"
)

// Verdict has the properties of a statement that its text alone tells. A function of the user's own may write; only a
// transaction or an account that can only read keeps it from doing so.
type Verdict struct {
	Class    Class
	Reason   string // why it is not Read, Session or Transaction
	Volatile string // why two servers with the same data may answer differently; NoOrder is the weakest
	// Params is the highest number of a parameter in it ($1), or how many there are (?).
	Params int
	// Encoding says that it sets the encoding in which PostgreSQL's client sends what follows.
	Encoding bool
	// Routine says that MySQL or MariaDB has written the statement into its log for a routine of its own that carried
	// it out, with the values of its variables.
	Routine bool
}

// Classify returns the verdict on a text. It may be several statements.
func Classify(text []byte, o Options) Verdict {
	c := classifier{Lexer: Tokens(text, o)}
	for c.more = true; c.more; {
		c.statement()
	}
	if c.Cut() {
		c.is(Unknown, "a literal or comment does not end")
	}
	return c.verdict
}

type classifier struct {
	Lexer
	verdict Verdict
	more    bool // the text may go on after a semicolon
	prev    Token
	depth   int
	ordered uint64 // by depth: ORDER BY came since the last SELECT
	changes bool   // EXPLAIN of what changes rows
}

// is makes the verdict worse, never better.
func (c *classifier) is(class Class, reason string) {
	if class > c.verdict.Class {
		c.verdict.Class, c.verdict.Reason = class, reason
	}
}

func (c *classifier) volatile(reason string) {
	if c.verdict.Volatile == "" || c.verdict.Volatile == NoOrder {
		c.verdict.Volatile = reason
	}
}

// next returns the next token of the statement that is no comment.
func (c *classifier) next() (Token, bool) {
	t, ok := c.Skip()
	if !ok {
		c.more = false
		return t, false
	}
	return t, !c.isOp(t, ';')
}

// peek looks at the token after the last one.
func (c *classifier) peek() Token {
	l := c.Lexer
	t, _ := l.Skip()
	return t
}

func (c *classifier) isOp(t Token, op byte) bool { return t.Kind == Op && c.text[t.Start] == op }

// lowered is a token's text in lower case.
func (c *classifier) lowered(t Token, buf *[maxWord]byte) []byte {
	return lower(buf[:0], c.text[t.Start:t.End])
}

// word tells whether a token is one of the keywords.
func (c *classifier) word(t Token, words ...string) bool {
	if t.Kind != Word {
		return false
	}
	var buf [maxWord]byte
	w := c.lowered(t, &buf)
	for _, s := range words {
		if string(w) == s {
			return true
		}
	}
	return false
}

// statement goes to the end of a statement.
func (c *classifier) statement() {
	c.prev, c.depth, c.ordered, c.changes = Token{}, 0, 0, false
	t, ok := c.next()
	for ok && c.isOp(t, '(') {
		c.prev = t
		c.depth++
		t, ok = c.next()
	}
	if !ok {
		return
	}
	if t.Kind != Word {
		c.is(Unknown, "begins with no keyword")
	} else {
		c.verb(t)
	}
	c.rest()
}

// rest looks at the words after the verb. A part that is not carried out is looked at all the same: it costs nothing to
// be careful.
func (c *classifier) rest() {
	for {
		t, ok := c.next()
		if !ok {
			return
		}
		c.look(t)
		c.prev = t
	}
}

// look looks at one token amid a statement.
func (c *classifier) look(t Token) {
	switch t.Kind {
	case Op:
		switch c.text[t.Start] {
		case '(':
			c.depth++
			c.setOrdered(false)
		case ')':
			c.depth = max(0, c.depth-1)
		}
	case Variable:
		if c.text[t.Start] == '@' && at(c.text, t.Start+1) == '@' {
			c.volatile("a variable of the server")
			var buf [maxWord]byte
			c.setting(c.lowered(t, &buf))
		} else {
			c.volatile("a variable of the user's")
		}
	case Name, Word:
		c.name(t)
	case Param:
		c.verdict.Params++
		if c.o.Dialect == PostgreSQL {
			n, _ := strconv.ParseUint(string(c.text[t.Start+1:min(t.End, t.Start+7)]), 10, 16)
			c.verdict.Params = max(c.verdict.Params-1, int(n))
		}
	}
}

func (c *classifier) setOrdered(is bool) {
	bit := uint64(1) << (c.depth & 63)
	if c.ordered &^= bit; is {
		c.ordered |= bit
	}
}

// name looks at a word or a quoted name.
func (c *classifier) name(t Token) {
	var buf [maxWord]byte
	word := c.lowered(t, &buf)
	if t.Kind == Name {
		if word[0]|0x20 == 'u' && c.isOp(c.peek(), '(') {
			c.is(SideEffect, "calls a function by a name with escapes")
		}
		word = word[1:]
		if n := len(word); n > 0 && t.End-t.Start <= maxWord {
			word = word[:n-1]
		}
	}
	if f, known := lookup(word, c.o.Dialect); known && (!f.call || c.isOp(c.peek(), '(')) {
		switch f.effect {
		case "":
		case effectAdmin:
			c.is(Admin, f.effect)
		case effectRoutine:
			c.verdict.Routine = true
		default:
			c.is(SideEffect, f.effect)
		}
		if f.volatile != "" {
			c.volatile(f.volatile)
		}
	}
	c.setting(word)
	if t.Kind == Word {
		c.keyword(t, word)
	}
}

// setting looks at the name in a SET. A session that must not write is told so by a setting, which no log may lift.
func (c *classifier) setting(name []byte) {
	if c.verdict.Class == Session && (hasSuffix(name, "tx_read_only") || hasSuffix(name, "transaction_read_only")) {
		c.is(SideEffect, MayWrite)
	}
}

// keyword looks at the words that change the class of a query.
func (c *classifier) keyword(t Token, word []byte) {
	switch string(word) {
	case "insert", "update", "delete", "merge", "replace", "truncate":
		// In the place of a verb, as in WITH x AS (DELETE ...), and no function of that name.
		if (c.isOp(c.prev, '(') || c.isOp(c.prev, ')')) && !c.isOp(c.peek(), '(') {
			c.is(Write, "changes rows in a part of it")
		}
	case "select":
		c.setOrdered(false)
	case "order":
		if c.word(c.peek(), "by") {
			c.setOrdered(true)
		}
	case "limit":
		c.limited()
	case "fetch":
		if c.word(c.peek(), "first", "next") {
			c.limited()
		}
	case "tablesample":
		c.volatile("TABLESAMPLE")
	case "for":
		switch next := c.peek(); {
		case c.word(next, "update", "share"):
			c.is(SideEffect, LocksRows)
		case c.word(next, "no", "key") && c.o.Dialect == PostgreSQL:
			c.is(SideEffect, LocksRows)
		}
	case "read":
		if c.verdict.Class <= Transaction && c.word(c.peek(), "write") {
			c.is(SideEffect, MayWrite)
		}
	case "lock":
		if c.word(c.peek(), "in") {
			c.is(SideEffect, LocksRows)
		}
	case "into":
		c.into()
	}
}

func (c *classifier) limited() {
	if c.ordered&(1<<(c.depth&63)) == 0 && c.verdict.Volatile == "" {
		c.verdict.Volatile = NoOrder
	}
}

// into looks at where a query's result goes, if it is a query: INSERT INTO is a write already.
func (c *classifier) into() {
	switch next := c.peek(); {
	case c.word(next, "outfile", "dumpfile"):
		c.is(SideEffect, "writes a file of the server")
	case next.Kind == Variable:
		c.volatile("a variable of the user's")
	case c.o.Dialect == PostgreSQL && !c.changes:
		c.is(Write, "makes a table")
	}
}

// verb finds the class of a statement by its first word, and goes on to another verb where one follows.
func (c *classifier) verb(t Token) {
	var buf [maxWord]byte
	word := c.lowered(t, &buf)
	c.prev = t
	next := c.peek()
	pg := c.o.Dialect == PostgreSQL
	switch string(word) {
	case "select", "table", "values", "help", "checksum", "handler":
		c.is(Read, "")
	case "with":
		c.is(Read, "") // look finds what changes rows
	case "show":
		c.is(Read, "")
		c.volatile("the state of the server")
	case "explain", "describe", "desc":
		c.explain()
	case "do":
		if pg {
			c.is(SideEffect, "runs a block of code")
		} else {
			c.is(Read, "")
		}
	case "insert", "update", "delete", "replace", "load", "import", "merge":
		c.is(Write, "changes rows")
	case "copy":
		c.copy()
	case "truncate":
		c.is(DDL, "removes all rows of a table")
	case "create", "alter", "drop", "rename":
		switch {
		case c.word(next, "system", "instance"):
			c.is(Admin, effectAdmin)
		case c.word(next, "user", "role", "group"):
			c.is(Admin, "changes users")
		case string(word) == "create" && c.word(next, "temporary", "temp"):
			c.is(DDL, "makes a temporary table")
		default:
			c.is(DDL, "changes the schema")
		}
	case "comment", "reindex", "refresh", "cluster":
		c.is(DDL, "changes the schema")
	case "use":
		c.is(Session, "")
	case "set":
		c.set()
	case "reset":
		if !pg {
			c.is(Admin, "administers the server")
		}
	case "discard":
		c.is(Session, "")
	case "begin", "commit", "rollback", "savepoint", "release", "end", "abort":
		if c.word(next, "prepared") {
			c.is(Write, "ends a prepared transaction")
		} else if c.word(next, "not") {
			c.is(Unknown, "a compound statement")
		} else {
			c.is(Transaction, "")
		}
	case "start":
		if c.word(next, "transaction") {
			c.is(Transaction, "")
		} else {
			c.is(Admin, "administers the server")
		}
	case "xa":
		c.is(SideEffect, "a distributed transaction")
	case "prepare":
		c.prepare()
	case "deallocate":
		c.is(Session, "")
	case "execute":
		c.is(Unknown, Executes)
	case "declare":
		c.is(Read, "")
	case "fetch", "move", "close":
		if pg {
			c.is(Read, "")
		} else {
			c.is(Unknown, "not known")
		}
	case "call":
		c.is(SideEffect, "calls a procedure")
	case "lock", "unlock":
		c.is(SideEffect, "locks tables")
	case "listen", "unlisten", "notify":
		c.is(SideEffect, "a message to other sessions")
	case "signal", "resignal":
		c.is(SideEffect, "raises an error")
	case "get":
		c.is(Session, "")
		c.volatile("the state of the session")
	case "analyze":
		c.analyze()
	case "grant", "revoke", "reassign":
		c.is(Admin, "changes rights")
	case "flush", "kill", "shutdown", "purge", "change", "stop", "install", "uninstall", "optimize", "repair", "check",
		"cache", "backup", "restart", "clone", "vacuum", "checkpoint", "security", "binlog":
		c.is(Admin, "administers the server")
	default:
		c.is(Unknown, "not known")
	}
}

// explain looks at the explained statement: with ANALYZE it is carried out.
func (c *classifier) explain() {
	c.is(Read, "")
	c.volatile("a plan")
	runs := false
	for {
		l := c.Lexer
		t, ok := l.Skip()
		if !ok {
			return
		}
		switch {
		case c.word(t, "analyze", "analyse"):
			runs = true
		case c.word(t, "insert", "update", "delete", "replace", "merge"):
			c.changes = true
			if runs {
				c.is(Write, "carries out what it explains")
			}
			c.next()
			c.prev = t
			return
		case c.word(t, "execute", "call", "create", "refresh"):
			if runs {
				c.is(Unknown, "carries out what it explains")
			}
			return
		case c.word(t, "select", "with", "table", "values", "declare"), c.isOp(t, ';'):
			return
		}
		c.next()
		c.prev = t
	}
}

// analyze tells MariaDB's ANALYZE SELECT from ANALYZE TABLE.
func (c *classifier) analyze() {
	for c.o.Dialect == MySQL {
		l := c.Lexer
		t, ok := l.Skip()
		switch {
		case !ok || c.word(t, "table", "no_write_to_binlog", "local") || c.isOp(t, ';'):
			c.is(Admin, "administers the server")
			return
		case c.word(t, "select", "with", "values"):
			c.is(Read, "")
			c.volatile("a plan")
			return
		case c.word(t, "insert", "update", "delete", "replace"):
			c.is(Write, "carries out what it explains")
			return
		}
		c.next()
		c.prev = t
	}
	c.is(Admin, "administers the server")
}

// copy looks at the direction of PostgreSQL's COPY. What stands in parentheses is a statement of its own.
func (c *classifier) copy() {
	l := c.Lexer
	for depth := 0; ; {
		t, ok := l.Skip()
		switch {
		case !ok || c.isOp(t, ';'):
			c.is(Unknown, "not known")
			return
		case c.isOp(t, '('):
			depth++
		case c.isOp(t, ')'):
			depth--
		case depth == 0 && c.word(t, "from"):
			c.is(Write, "changes rows")
			return
		case depth == 0 && c.word(t, "to"):
			if t, _ = l.Skip(); c.word(t, "stdout") {
				c.is(Read, "")
				c.volatile("rows in no order")
			} else {
				c.is(SideEffect, "writes a file of the server")
			}
			return
		}
	}
}

// set looks at the scope of a SET: the session alone, or more.
func (c *classifier) set() {
	c.is(Session, "")
	l := c.Lexer
	first := true
	for item := true; ; {
		t, ok := l.Skip()
		if c.o.Dialect == PostgreSQL && first && c.word(t, "session", "local") {
			continue
		}
		switch {
		case !ok || c.isOp(t, ';'):
			return
		case first && c.o.Dialect == PostgreSQL && (c.word(t, "client_encoding", "names") || t.Kind == Name &&
			string(c.text[t.Start:t.End]) == `"client_encoding"`):
			c.verdict.Encoding = true
			return
		case c.isOp(t, ','):
			item = true
			continue
		case item && c.word(t, "global", "persist", "persist_only", "password", "default", "resource"):
			c.is(Admin, "administers the server")
		case first && c.word(t, "statement") && c.o.Dialect == MySQL:
			c.setStatement()
			return
		case item && t.Kind == Variable:
			var buf [maxWord]byte
			switch w := c.lowered(t, &buf); {
			case hasPrefix(w, "@@global."), hasPrefix(w, "@@persist"):
				c.is(Admin, "administers the server")
			}
		}
		item, first = false, false
	}
}

// setStatement goes to the statement of MariaDB's SET STATEMENT ... FOR.
func (c *classifier) setStatement() {
	if !c.behind("for") {
		c.is(Unknown, "not known")
	}
}

// behind goes to the statement behind a word. It tells whether the word stands before the end of this statement.
func (c *classifier) behind(word string) bool {
	for {
		l := c.Lexer
		t, ok := l.Skip()
		if !ok || c.isOp(t, ';') {
			return false
		}
		c.next()
		c.prev = t
		if c.word(t, word) {
			if t, ok = c.next(); ok && t.Kind == Word {
				c.verb(t)
			}
			return true
		}
	}
}

// prepare looks at what PostgreSQL prepares. What MySQL does stands in a literal or a variable, and runs later.
func (c *classifier) prepare() {
	if c.word(c.peek(), "transaction") {
		c.is(SideEffect, "a distributed transaction")
		return
	}
	c.is(Session, "")
	if c.o.Dialect == PostgreSQL {
		c.behind("as")
	}
}

func hasPrefix(word []byte, prefix string) bool {
	return len(word) >= len(prefix) && string(word[:len(prefix)]) == prefix
}

func hasSuffix(word []byte, suffix string) bool {
	return len(word) >= len(suffix) && string(word[len(word)-len(suffix):]) == suffix
}
