package log

import (
	"bytes"
	"strings"
)

// head is a line that begins a message: the text before the severity, and the message.
type head struct {
	line, prefix, message []byte
	severity              severity
	user, database        []byte // that the message names
	tells                 bool   // that it does
	bare                  bool   // a message of no session
}

// tokenKind is a set of the meanings that a token of a line can have, by its form.
type tokenKind byte

const (
	isLiteral tokenKind = iota
	isTime
	isNumber
	isWord
	isEscape // of one escape only
)

// token is a part of the text before a severity.
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

// backends are the texts of %b that have blanks in them.
var backends = []string{"client backend", "not initialized", "autovacuum worker", "autovacuum launcher",
	"background writer", "background worker", "logical replication launcher", "logical replication worker",
	"logical replication apply worker", "parallel worker", "slotsync worker", "standalone backend", "io worker",
	"checkpointer", "walwriter", "walsender", "walreceiver", "walsummarizer", "archiver", "postmaster", "startup",
	"logger", "dead-end backend"}

// commandTags are the texts of %i that have blanks in them, or are no words in capital letters.
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
			for from > 0 && at-from < 10 &&
				(h.line[from-1] >= 'A' && h.line[from-1] <= 'Z' || h.line[from-1]-'0' <= 9) {
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

// reads reads a message's facts about its session.
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

// tokens splits the text before a severity. Apart names bytes that separate names in one view, and are parts of them in
// another.
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

// labelAt tells whether a word of n bytes is the label of a value, and returns its length with the text between.
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

// special finds the text of one escape, by its form.
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

// address is the length of a text that can be the name or the address of a host.
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
