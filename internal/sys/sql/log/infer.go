package log

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// The log_line_prefix of a log is searched for among all that its own lines can have been written with. A line is taken
// apart into what only one escape writes (times, ids of sessions, addresses), numbers, and names; the names get their
// meaning by the labels before them (user=), by an @ between two, or by what the log itself says (connection
// authorized: user=... database=...). A prefix is taken if most heads of the sample have it. Two that have equally many, and disagree on
// a user, a database or a session, are an error: never a guess.

// The bounds of the search.
const (
	maxHeads  = 300 // lines of the sample
	maxSeeds  = 12  // lines that are taken apart
	maxTokens = 40  // of a line
	maxLine   = 700 // bytes of a line that are looked at
	maxTried  = 400 // prefixes
)

// head is a line that begins a message: what stands before the severity, and the message.
type head struct {
	line, prefix, message []byte
	severity              severity
	user, database        []byte // that the message names
	tells                 bool   // that it does
	bare                  bool   // a message of no session
}

// tokenKind is what a token of a line can be, by its form.
type tokenKind byte

const (
	isLiteral tokenKind = iota
	isTime
	isNumber
	isWord
	isEscape // of one escape only
)

// token is a part of what stands before a severity.
type token struct {
	kind   tokenKind
	text   []byte
	escape byte   // of isEscape and isTime
	label  string // of the value, such as user for user=
}

// labels are the names that a value is given in a prefix, by the escape that is meant.
var labels = func() map[string]byte {
	m := map[string]byte{}
	for escape, names := range map[byte]string{
		'u': "user usr u username user_name role usename",
		'd': "db database d dbname datname database_name",
		'a': "app application a appname application_name client_app",
		'h': "client host h remote remote_host client_addr ip addr c connection_source remotehost client_ip",
		'p': "pid process proc backend p process_id", 'l': "line l log_line lineno num seq",
		'x': "xid txid trx tx trx_id tid transaction x transaction_id", 'v': "vxid vtid virtual vx v",
		'c': "session sid session_id sess", 'e': "sqlstate state error_code sql_error_code code err e",
		'i': "cmd tag command ps command_tag", 'b': "type backend_type btype", 'Q': "queryid qid query_id q",
		's': "start proc_start_time session_start started",
	} {
		for n := range strings.FieldsSeq(names) {
			m[n] = escape
		}
	}
	return m
}()

// backends are what %b writes that has blanks in it.
var backends = []string{"client backend", "not initialized", "autovacuum worker", "autovacuum launcher",
	"background writer", "background worker", "logical replication launcher", "logical replication worker",
	"logical replication apply worker", "parallel worker", "slotsync worker", "standalone backend", "io worker",
	"checkpointer", "walwriter", "walsender", "walreceiver", "walsummarizer", "archiver", "postmaster", "startup",
	"logger", "dead-end backend"}

// commandTags are what %i writes that has blanks in it, or is no word in capital letters.
var commandTags = []string{"idle in transaction (aborted)", "idle in transaction", "idle", "authentication",
	"SELECT FOR UPDATE", "ALTER TABLE", "ALTER ROLE", "ALTER DATABASE", "CREATE TABLE AS", "CREATE TABLE",
	"CREATE INDEX", "CREATE DATABASE", "CREATE EXTENSION", "CREATE ROLE", "CREATE VIEW", "CREATE FUNCTION",
	"DROP TABLE", "DROP INDEX", "DROP DATABASE", "TRUNCATE TABLE", "DEALLOCATE ALL", "REFRESH MATERIALIZED VIEW",
	"INSERT", "SELECT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "ROLLBACK", "PARSE", "BIND", "SET", "SHOW", "COPY",
	"EXPLAIN", "VACUUM", "ANALYZE", "DO", "PREPARE", "EXECUTE", "DISCARD ALL", "RESET", "FETCH", "CALL", "MERGE"}

// headsOf are the lines of a sample that begin a message.
func headsOf(sample []byte) (heads []head) {
	for line := range bytes.Lines(sample) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || line[0] == '\t' {
			continue
		}
		h := head{line: line[:min(len(line), maxLine)]}
		if h.find() {
			heads = append(heads, h)
		}
		if len(heads) >= maxHeads {
			break
		}
	}
	return heads
}

// find looks for the severity in a line: a word that stands alone, a colon and two blanks, or less than two, as where a
// page has been copied.
func (h *head) find() bool {
	for _, mark := range []string{":  ", ":"} {
		for at := 0; ; {
			n := bytes.Index(h.line[at:], []byte(mark))
			if n < 0 {
				break
			}
			at += n
			from := at
			for from > 0 && (h.line[from-1] >= 'A' && h.line[from-1] <= 'Z' || h.line[from-1]-'0' <= 9) && at-from < 10 {
				from--
			}
			s := severityNamed(h.line[from:at])
			for s == noSeverity && from < at { // %e and the like may touch it
				from++
				s = severityNamed(h.line[from:at])
			}
			if s != noSeverity && from < at {
				_, length := severityAt(h.line[from:])
				h.prefix, h.message, h.severity = h.line[:from], h.line[from+length:], s
				h.reads()
				return true
			}
			at += len(mark)
		}
	}
	return false
}

// reads looks at what a message says of its session.
func (h *head) reads() {
	m := h.message
	if h.severity != sevLog {
		return
	}
	for _, bare := range []string{"checkpoint ", "database system ", "starting PostgreSQL", "listening on ",
		"automatic ", "autovacuum launcher", "connection received", "received ", "background worker", "restartpoint",
		"redo ", "shutting down", "aborting any", "logical replication launcher", "parameter ", "ending log output",
		"server process", "terminating any", "all server processes"} {
		h.bare = h.bare || bytes.HasPrefix(m, []byte(bare))
	}
	connects := bytes.HasPrefix(m, []byte("connection authorized: "))
	if !connects && !bytes.HasPrefix(m, []byte("disconnection: ")) {
		return
	}
	_, rest, ok := bytes.Cut(m, []byte("user="))
	if !ok {
		return
	}
	var tail []byte
	if h.user, tail, ok = bytes.Cut(rest, []byte(" database=")); !ok {
		h.user = nil
		return
	}
	for _, end := range []string{" application_name=", " host=", " SSL ", " GSS ", " (", " identity="} {
		tail, _, _ = bytes.Cut(tail, []byte(end))
	}
	h.database, h.tells = tail, true
}

// tokens takes what stands before a severity apart. Apart names bytes that separate names in one view, and are parts of
// them in another.
func (h *head) tokens(c *clock, apart string) (all []token) {
	b := h.prefix
	label := ""
	add := func(t token, n int) {
		if t.kind == isLiteral {
			if k := len(all) - 1; k >= 0 && all[k].kind == isLiteral {
				all[k].text = append(all[k].text[:len(all[k].text):len(all[k].text)], b[:n]...)
				b = b[n:]
				return
			}
		} else if k := len(all) - 1; k >= 0 && all[k].kind != isLiteral {
			t.kind = isLiteral // two values that touch cannot be told apart
			all[k].text = append(all[k].text[:len(all[k].text):len(all[k].text)], b[:n]...)
			b = b[n:]
			return
		}
		t.text, t.label = b[:n:n], label
		label = ""
		all = append(all, t)
		b = b[n:]
	}
	for len(b) > 0 && len(all) < maxTokens {
		before := byte(' ')
		if at := len(h.prefix) - len(b); at > 0 {
			before = h.prefix[at-1]
		}
		if n := bytes.IndexByte(b, before); label != "" && (before == '"' || before == '\'') && n > 0 && n < maxField {
			if t, k := special(c, b, before); k == n {
				add(t, k)
			} else if _, k := number(b); k == n {
				add(token{kind: isNumber}, n)
			} else {
				add(token{kind: isWord}, n)
			}
			continue
		}
		if t, n := special(c, b, before); n > 0 {
			add(t, n)
			continue
		}
		if label != "" && isBreak(b[0]) {
			add(token{kind: isWord}, 0) // a value that is empty
			continue
		}
		if _, k := number(b); k > 0 && (k == len(b) || b[k] == '-' || isBreak(b[k])) && before != '@' {
			add(token{kind: isNumber}, k)
			continue
		}
		n := 0
		for n < len(b) && !isBreak(b[n]) && strings.IndexByte(apart, b[n]) < 0 {
			if _, k := c.stamp(b[n:]); k > 0 {
				break
			}
			n++
		}
		if n == 0 || b[0] == '-' {
			add(token{kind: isLiteral}, 1)
			continue
		}
		for n > 1 && (b[n-1] == '-' || b[n-1] == '.') {
			n-- // a name does not end so
		}
		if k, name := labelAt(b, n, before); k > 0 {
			add(token{kind: isLiteral}, k)
			label = name
			if len(b) == 0 || b[0] == ' ' || b[0] == ',' {
				add(token{kind: isWord}, 0)
			}
			continue
		}
		if k := bytes.Index(b[:n], []byte("-00000")); k > 0 {
			add(token{kind: isLiteral}, k+1)
			continue
		}
		add(token{kind: isWord}, n)
	}
	return all
}

// labelAt tells whether a word of n bytes is the label of a value, and how long it is with what stands between.
func labelAt(b []byte, n int, before byte) (length int, name string) {
	i := n
	for i < len(b) && b[i] == ' ' {
		i++
	}
	if i >= len(b) || b[i] != '=' && (b[i] != ':' || i > n) {
		return 0, ""
	}
	name = strings.ToLower(string(b[:n]))
	if b[i] == ':' && (labels[name] == 0 || n < 2 || before == '@' || before == ':' || i+1 == len(b) ||
		isBreak(b[i+1])) {
		return 0, ""
	}
	for i++; i < len(b) && (b[i] == ' ' || b[i] == '"' || b[i] == '\''); i++ {
		if b[i] != ' ' {
			i++
			break
		}
	}
	return i, name
}

// isBreak tells whether a byte cannot be a part of a name, as far as a search goes.
func isBreak(c byte) bool {
	return c <= ' ' || c < 0x80 && strings.IndexByte("@/,:;|=[](){}<>\"'`#!&*?\\^~", c) >= 0
}

// special finds what one escape writes, by its form.
func special(c *clock, b []byte, before byte) (t token, n int) {
	if at, n := c.stamp(b); n > 0 {
		escape := byte('t')
		if at.precision < second {
			escape = 'm'
		}
		return token{kind: isTime, escape: escape}, n
	}
	end := 0
	for end < len(b) && (b[end] == '.' || isHexDigit(b[end])) && end < 40 {
		end++
	}
	if begun, pid, ok := bytes.Cut(b[:end], []byte(".")); ok && len(begun) >= 4 && len(begun) <= 8 && len(pid) > 0 &&
		bytes.IndexByte(pid, '.') < 0 {
		return token{kind: isEscape, escape: 'c'}, end
	}
	if whole, k := number(b); k == 10 && whole > 1e9 && len(b) > k+3 && b[k] == '.' {
		_, _, f := fraction(b[k:])
		return token{kind: isTime, escape: 'n'}, k + f
	}
	if _, k := number(b); k > 0 && len(b) > k && b[k] == '/' {
		if _, m := number(b[k+1:]); m > 0 {
			return token{kind: isEscape, escape: 'v'}, k + 1 + m
		}
	}
	if bytes.HasPrefix(b, []byte("00000")) && (len(b) == 5 || isBreak(b[5]) || b[5] == '-') {
		return token{kind: isEscape, escape: 'e'}, 5
	}
	if bytes.HasPrefix(b, []byte("[local]")) {
		return token{kind: isEscape, escape: 'h'}, 7
	}
	if bytes.HasPrefix(b, []byte("[unknown]")) {
		return token{kind: isWord}, 9
	}
	if n := address(b); n > 0 {
		if n < len(b) && b[n] == '(' {
			if _, k := number(b[n+1:]); k > 0 && n+1+k < len(b) && b[n+1+k] == ')' {
				return token{kind: isEscape, escape: 'r'}, n + k + 2
			}
		}
		if onlyAddress(b[:n]) {
			return token{kind: isEscape, escape: 'h'}, n
		}
	}
	if before == '@' {
		return t, 0 // the name of a database
	}
	for _, x := range []struct {
		texts  []string
		escape byte
	}{{backends, 'b'}, {commandTags, 'i'}} {
		for _, text := range x.texts {
			if bytes.HasPrefix(b, []byte(text)) && (len(b) == len(text) || isBreak(b[len(text)])) &&
				(len(b) == len(text) || b[len(text)] != '=' && b[len(text)] != '@') {
				return token{kind: isEscape, escape: x.escape}, len(text)
			}
		}
	}
	return t, 0
}

// address is the length of what can be the name or the address of a host.
func address(b []byte) (n int) {
	if b[0] == ':' && !bytes.HasPrefix(b, []byte("::")) {
		return 0
	}
	dots := 0
	for n < len(b) && n < 16 && (b[n]-'0' <= 9 || b[n] == '.') {
		if b[n] == '.' {
			dots++
		}
		n++
	}
	if dots == 3 && (n == len(b) || isBreak(b[n]) || b[n] == '-') {
		return n
	}
	for n < len(b) && n < 80 && (isHexDigit(b[n]) || b[n] >= 'a' && b[n] <= 'z' || b[n] >= 'A' && b[n] <= 'Z' ||
		b[n] == '.' || b[n] == ':' || b[n] == '-' || b[n] == '_') {
		n++
	}
	for n > 0 && (b[n-1] == ':' || b[n-1] == '-' || b[n-1] == '.') && (n < 2 || b[n-2] != ':') {
		n--
	}
	return n
}

// onlyAddress tells whether a text is an address of IP, and no name.
func onlyAddress(b []byte) bool {
	dots, colons := 0, 0
	for _, c := range b {
		switch {
		case c == '.':
			dots++
		case c == ':':
			colons++
		case !isHexDigit(c) || colons == 0 && c > '9':
			return false
		}
	}
	return dots == 3 && colons == 0 || colons == 7 || colons >= 2 && bytes.Contains(b, []byte("::"))
}

// fit is a prefix that some heads of a sample have.
type fit struct {
	*prefix
	heads    int // that have it
	assigned int // users and databases that it tells
	sessions int
	results  []pgResult
}

// pgResult is what a prefix makes of a head.
type pgResult struct {
	ok         bool
	user, db   string
	session    uint64
	line       uint64 // %l, 0 for none
	hasSession bool
}

// inference is the search.
type inference struct {
	r     *Reader
	heads []head
	tried map[string]bool // whether most heads have it
	best  []fit
}

// inferPrefix finds the log_line_prefix of a sample. It returns nil where no line has one.
func inferPrefix(r *Reader, sample []byte) (*prefix, error) {
	x := inference{r: r, heads: headsOf(sample), tried: map[string]bool{}}
	if len(x.heads) == 0 {
		return nil, nil
	}
	told := slices.ContainsFunc(x.heads, func(h head) bool { return h.tells })
	for _, apart := range []string{"", "-", "-."} {
		x.search(apart)
		// Where the log says who its users are, a view in which they can be seen may be another one.
		names := func(f fit) bool { return f.assigned > 1 }
		if x.fits(len(x.heads)*99/100) && (!told || slices.ContainsFunc(x.best, names)) {
			break
		}
	}
	return x.choose()
}

// fits tells whether so many heads have a prefix that was found.
func (x *inference) fits(heads int) bool { return len(x.best) > 0 && x.best[0].heads >= heads }

// search takes lines of different forms apart and tries what they can have been written with.
func (x *inference) search(apart string) {
	seen := map[string]bool{}
	c := x.r.clock
	for i := range x.heads {
		if len(seen) >= maxSeeds {
			return
		}
		tokens := x.heads[i].tokens(&c, apart)
		form := formOf(tokens)
		if seen[form] || len(tokens) >= maxTokens {
			continue
		}
		seen[form] = true
		x.assign(tokens)
	}
}

// formOf is the same for lines that are taken apart in the same way.
func formOf(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t.kind == isLiteral {
			b.Write(t.text)
		} else {
			b.WriteByte('0' + byte(t.kind))
			b.WriteByte(t.escape)
			b.WriteString(t.label)
		}
		b.WriteByte(0)
	}
	return b.String()
}

// assign gives tokens their escapes: the times, the numbers, and the names in each way that is open.
func (x *inference) assign(tokens []token) {
	escapes := make([]byte, len(tokens))
	var times, numbers, words []int
	user, database := false, false
	for i, t := range tokens {
		byLabel := labels[t.label]
		switch {
		case t.kind == isTime:
			escapes[i] = t.escape
			times = append(times, i)
		case t.kind == isEscape:
			if escapes[i] = t.escape; byLabel != 0 && strings.IndexByte("ibh", t.escape) >= 0 {
				escapes[i] = byLabel // an application may have the name of a command
			}
		case t.kind == isNumber && byLabel != 0:
			escapes[i] = byLabel
		case t.kind == isNumber && t.label == "":
			numbers = append(numbers, i)
		case t.kind == isWord && byLabel != 0 && strings.IndexByte("udahi", byLabel) >= 0:
			escapes[i] = byLabel
		case t.kind == isWord && byLabel != 0 && len(t.text) == 0:
			escapes[i] = byLabel
		case t.kind == isWord && t.label == "":
			words = append(words, i)
		case t.kind != isLiteral:
			escapes[i] = 'a' // a label that says nothing
		}
		user, database = user || escapes[i] == 'u', database || escapes[i] == 'd'
	}
	// Of several times the last one is that of the line; a session begins before.
	late := x.latest(tokens, times)
	for _, i := range times {
		if i != late && escapes[i] != 'n' {
			escapes[i] = 's'
		}
	}
	// user@database.
	all, plain := slices.Clone(words), slices.Clone(escapes)
	for k := 0; k+1 < len(words) && !user && !database; k++ {
		if i := words[k]; words[k+1] == i+2 && string(tokens[i+1].text) == "@" {
			escapes[i], escapes[i+2] = 'u', 'd'
			words = slices.Delete(words, k, k+2)
			user, database = true, true
		}
	}
	if !x.names(tokens, escapes, numbers, words, user, database) && len(words) < len(all) {
		x.names(tokens, plain, numbers, all, false, false)
	}
}

// latest is the one of several times in a line that is the line's: the one with a fraction, or the last.
func (x *inference) latest(tokens []token, times []int) int {
	latest := -1
	c := x.r.clock
	for _, i := range times {
		if tokens[i].escape != 't' {
			return i
		}
		if latest < 0 {
			latest = i
			continue
		}
		a, _ := c.stamp(tokens[latest].text)
		if b, _ := c.stamp(tokens[i].text); b.us > a.us {
			latest = i
		}
	}
	return latest
}

// names tries each way in which words can be the user and the database, and numbers the process and the line. It tells
// whether one of them fits.
func (x *inference) names(tokens []token, escapes []byte, numbers, words []int, user, database bool) (fits bool) {
	type pair struct{ user, database int }
	ways := []pair{{-1, -1}}
	for _, i := range words {
		if !user {
			ways = append(ways, pair{i, -1})
		}
		if !database {
			ways = append(ways, pair{-1, i})
		}
		for _, j := range words {
			if i != j && !user && !database {
				ways = append(ways, pair{i, j})
			}
		}
	}
	if len(ways) > maxTried/4 {
		ways = ways[:maxTried/4]
	}
	for _, way := range ways {
		e := slices.Clone(escapes)
		for _, i := range words {
			switch i {
			case way.user:
				e[i] = 'u'
			case way.database:
				e[i] = 'd'
			default:
				e[i] = 'a'
			}
		}
		fits = x.numbers(tokens, e, numbers) || fits
		// A word that all lines have is a part of the prefix.
		if way.user < 0 && way.database < 0 && len(words) > 0 {
			for _, i := range words {
				e[i] = 0
			}
			fits = x.numbers(tokens, e, numbers) || fits
		}
	}
	return fits
}

// numbers tries what the numbers without a label can be: the process comes before the line, and [5-1] ends in what
// pgBadger asks for.
func (x *inference) numbers(tokens []token, escapes []byte, numbers []int) bool {
	process := slices.Contains(escapes, 'p')
	plain := func(order []int) bool {
		e := slices.Clone(escapes)
		p, l := process, slices.Contains(e, 'l')
		for k, i := range order {
			inBrackets := i >= 2 && string(tokens[i-1].text) == "-" && k > 0
			switch {
			case !p:
				e[i], p = 'p', true
			case !l && i+2 < len(tokens) && string(tokens[i+1].text) == "-" && tokens[i+2].kind == isNumber,
				!l && (inBrackets || string(tokens[i].text) != "0"):
				e[i], l = 'l', true
			case inBrackets && string(tokens[i].text) == "1":
				e[i] = 0
			case (string(tokens[i].text) == "0" || i >= 2 && e[i-2] == 'v') && !slices.Contains(e, 'x'):
				e[i] = 'x'
			default:
				e[i] = 'P'
			}
		}
		return x.try(tokens, e)
	}
	fits := plain(numbers)
	if len(numbers) > 1 {
		swapped := slices.Clone(numbers)
		slices.Reverse(swapped)
		fits = plain(swapped) || fits
	}
	for _, other := range "lP" {
		if e := slices.Clone(escapes); !fits && len(numbers) == 1 {
			e[numbers[0]] = byte(other)
			fits = x.try(tokens, e)
		}
	}
	return fits
}

// textOf writes a prefix.
func textOf(tokens []token, escapes []byte) string {
	var b strings.Builder
	for i, t := range tokens {
		if escapes[i] != 0 {
			b.WriteByte('%')
			b.WriteByte(escapes[i])
		} else {
			b.WriteString(strings.ReplaceAll(string(t.text), "%", "%%"))
		}
	}
	text := b.String()
	for strings.Contains(text, "%a %a") { // the name of an application may have blanks
		text = strings.Replace(text, "%a %a", "%a", 1)
	}
	return text
}

// try holds a prefix against all heads, and finds where %q stands in it. It tells whether most heads have it.
func (x *inference) try(tokens []token, escapes []byte) bool {
	text := textOf(tokens, escapes)
	if fits, ok := x.tried[text]; ok || len(x.tried) >= maxTried || len(text) > 0 && !strings.Contains(text, "%") {
		return fits
	}
	x.tried[text] = false
	f, ok := x.fit(text)
	if !ok {
		return false
	}
	if other := slices.IndexFunc(f.results, func(r pgResult) bool { return !r.ok }); other >= 0 {
		for _, at := range stops(text) {
			q := text[:at] + "%q" + text[at:]
			if p, err := parsePrefix(q); err != nil || !x.has(p, &x.heads[other], new(pgRecord)) {
				continue
			}
			if g, ok := x.fit(q); ok && g.heads > f.heads {
				f = g
			}
		}
	}
	x.keep(f)
	x.tried[text] = f.heads*2 > len(x.heads)
	return x.tried[text]
}

// stops are the places of a prefix at which %q can stand: the latest first, since names look better behind a blank.
func stops(text string) (all []int) {
	for i := len(text) - 1; i > 0; i-- {
		if text[i-1] != '%' && (i < 2 || text[i-2] != '%' || text[i-1] == '%') || i >= 2 && text[i-2] == '%' {
			all = append(all, i)
		}
	}
	return all
}

// fit counts the heads that have a prefix. It returns false where the log says otherwise.
func (x *inference) fit(text string) (fit, bool) {
	p, err := parsePrefix(text)
	if err != nil {
		return fit{}, false
	}
	f := fit{prefix: p, results: make([]pgResult, len(x.heads))}
	var rec pgRecord
	for i := range x.heads {
		h := &x.heads[i]
		if !x.has(p, h, &rec) {
			continue
		}
		if h.bare && (isNamed(rec.user) || isNamed(rec.db)) {
			return fit{}, false
		}
		if h.tells && (len(rec.user) > 0 && !bytes.Equal(rec.user, h.user) ||
			len(rec.db) > 0 && !bytes.Equal(rec.db, h.database)) {
			return fit{}, false
		}
		f.heads++
		f.results[i] = pgResult{true, string(rec.user), string(rec.db), rec.session, rec.line, rec.hasSession}
	}
	for _, part := range p.parts {
		if part.escape == 'u' || part.escape == 'd' {
			f.assigned++
		}
	}
	return f, f.heads > 0 && x.one(&f)
}

// has tells whether a head has a prefix.
func (x *inference) has(p *prefix, h *head, rec *pgRecord) bool {
	n, s := p.match(x.r, h.line, rec)
	if p.stopped && (h.tells || h.severity == sevLog && asked(h.message)) {
		return false // only sessions say so
	}
	return s != noSeverity && n == len(h.line)-len(h.message) && plainName(rec.user, h.user) &&
		plainName(rec.db, h.database)
}

// isNamed tells whether a name is one.
func isNamed(name []byte) bool { return len(name) > 0 && string(name) != "[unknown]" }

// plainName tells whether a name looks like one, or is the one that the log says.
func plainName(name, said []byte) bool {
	if len(name) == 0 || bytes.Equal(name, said) || string(name) == "[unknown]" {
		return true
	}
	return bytes.IndexFunc(name, func(c rune) bool { return c < 0x80 && isBreak(byte(c)) && c != '@' }) < 0
}

// one tells whether a session has one user and one database, and lines whose numbers go up. A process may have the number
// of an older one: some may have more.
func (x *inference) one(f *fit) bool {
	type last struct {
		user, db string
		line     uint64
	}
	of := map[uint64]last{}
	changed, same := 0, 0
	for i := range f.results {
		r := &f.results[i]
		if !r.ok || !r.hasSession {
			continue
		}
		before, ok := of[r.session]
		now := last{r.user, r.db, r.line}
		if !isNamed([]byte(r.user)) && !isNamed([]byte(r.db)) {
			now.user, now.db = before.user, before.db
		}
		switch named := before.user != "" || before.db != ""; {
		case !ok:
		case named && (before.user != now.user || before.db != now.db), r.line < before.line:
			changed++
		default:
			same++
		}
		of[r.session] = now
	}
	f.sessions = len(of)
	return changed <= same/10
}

// keep remembers the prefixes that most heads have.
func (x *inference) keep(f fit) {
	if len(x.best) > 0 && f.heads < x.best[0].heads {
		return
	}
	if len(x.best) > 0 && f.heads > x.best[0].heads {
		x.best = x.best[:0]
	}
	x.best = append(x.best, f)
}

// choose returns the prefix that tells most of those that most heads have, or an error if another one tells as much, and
// something else.
func (x *inference) choose() (*prefix, error) {
	if len(x.best) == 0 || x.best[0].heads*2 < len(x.heads) {
		return nil, nil
	}
	best := &x.best[0]
	for i := range x.best {
		if f := &x.best[i]; f.better(best) {
			best = f
		}
	}
	if best.text == "" && !slices.ContainsFunc(x.heads, func(h head) bool { return asked(h.message) }) {
		return nil, nil
	}
	for i := range x.best {
		f := &x.best[i]
		if what := f.differs(best); what != "" && f.assigned == best.assigned {
			return nil, fmt.Errorf("the lines fit the log_line_prefix '%s' as well as '%s', and differ in %s: give the "+
				"one that SHOW log_line_prefix tells (--prefix, or prefix=)", best.text, f.text, what)
		}
	}
	return x.optional(best)
}

// optional puts %q before what only sessions have, if the sample has nothing but sessions: other processes of the server
// may come later, and their lines may end there.
func (x *inference) optional(f *fit) (*prefix, error) {
	for i := range f.results {
		if r := &f.results[i]; r.ok && r.user == "" && r.db == "" {
			return f.prefix, nil
		}
	}
	text := f.text
	for i := 1; i < len(text); i++ {
		if text[i-1] != '%' {
			continue
		}
		switch text[i] {
		case 'q':
			return f.prefix, nil
		case 'u', 'd', 'a', 'h', 'r', 'i':
			// What is in front of it up to the last blank belongs to it.
			if at := strings.LastIndexByte(text[:i], ' ') + 1; at > 0 {
				return parsePrefix(text[:at] + "%q" + text[at:])
			}
			return f.prefix, nil
		}
	}
	return f.prefix, nil
}

// asked tells whether a message is that of a statement.
func asked(message []byte) bool {
	for _, begin := range []string{"statement: ", "execute ", "duration: "} {
		if bytes.HasPrefix(message, []byte(begin)) {
			return true
		}
	}
	return false
}

// better tells which of two prefixes that equally many heads have tells more: users and databases, sessions, then what
// has fewer parts that are not told apart.
func (f *fit) better(g *fit) bool {
	if f.assigned != g.assigned {
		return f.assigned > g.assigned
	}
	if a, b := f.variety(), g.variety(); a != b {
		return a > b
	}
	if f.sessions == 0 || g.sessions == 0 {
		return f.sessions > g.sessions
	}
	return f.sessions < g.sessions
}

// variety is how many parts of the prefix have a meaning.
func (f *fit) variety() (n int) {
	var seen [256]bool
	for _, p := range f.parts {
		switch {
		case p.escape == 0, p.escape == 'a', p.escape == 'P':
		case seen[p.escape]:
			n--
		case p.escape == 'r':
			n++ // tells more than %h, which fits, too
			fallthrough
		default:
			seen[p.escape] = true
			n++
		}
	}
	return n
}

// differs says in what two prefixes differ for the sample, if they do. Of two that tell sessions apart, the one with
// fewer is right: the processes of a server answer more than once.
func (f *fit) differs(g *fit) string {
	sessions := map[uint64]uint64{}
	for i := range f.results {
		a, b := &f.results[i], &g.results[i]
		switch {
		case !a.ok || !b.ok:
		case a.user != b.user:
			return "the user"
		case a.db != b.db:
			return "the database"
		case a.hasSession && b.hasSession && f.sessions == g.sessions && f.variety() == g.variety():
			if before, ok := sessions[a.session]; ok && before != b.session {
				return "the session"
			}
			sessions[a.session] = b.session
		}
	}
	return ""
}
