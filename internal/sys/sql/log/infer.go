package log

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// The log_line_prefix of a log is searched for among all that its own lines can have been written with. A line is taken
// apart into texts that only one escape writes (times, ids of sessions, addresses), numbers, and names; the names get
// their meaning by the labels before them (user=), by an @ between two, or by the log's own messages (connection
// authorized: user=... database=...). A prefix is taken if most heads of the sample have it. Two that equally many
// have, and that disagree on a user, a database or a session, are an error: never a guess.

// The bounds of the search.
const (
	maxHeads  = 300 // lines of the sample
	maxSeeds  = 12  // lines that are taken apart
	maxTokens = 40  // of a line
	maxLine   = 700 // bytes of a line that are looked at
	maxTried  = 400 // prefixes
)

// prefixFit is a prefix that some heads of a sample have.
type prefixFit struct {
	*prefix
	heads    int // that have it
	assigned int // users and databases that it tells
	sessions int
	results  []pgResult
}

// pgResult is the result of reading a head with a prefix.
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
	best  []prefixFit
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
		names := func(f prefixFit) bool { return f.assigned > 1 }
		if x.fits(len(x.heads)*99/100) && (!told || slices.ContainsFunc(x.best, names)) {
			break
		}
	}
	return x.choose()
}

// fits tells whether so many heads have a prefix that was found.
func (x *inference) fits(heads int) bool { return len(x.best) > 0 && x.best[0].heads >= heads }

// search takes lines of different forms apart and tries the prefixes that can have written them.
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

// numbers tries the meanings of the numbers without a label: the process comes before the line, and [5-1] ends in the
// one that pgBadger asks for.
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
func (x *inference) fit(text string) (prefixFit, bool) {
	p, err := parsePrefix(text)
	if err != nil {
		return prefixFit{}, false
	}
	f := prefixFit{prefix: p, results: make([]pgResult, len(x.heads))}
	var rec pgRecord
	for i := range x.heads {
		h := &x.heads[i]
		if !x.has(p, h, &rec) {
			continue
		}
		if h.bare && (isNamed(rec.user) || isNamed(rec.db)) {
			return prefixFit{}, false
		}
		if h.tells && (len(rec.user) > 0 && !bytes.Equal(rec.user, h.user) ||
			len(rec.db) > 0 && !bytes.Equal(rec.db, h.database)) {
			return prefixFit{}, false
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

// one tells whether a session has one user and one database, and lines whose numbers go up. A process may have the
// number of an older one: some may have more.
func (x *inference) one(f *prefixFit) bool {
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
func (x *inference) keep(f prefixFit) {
	if len(x.best) > 0 && f.heads < x.best[0].heads {
		return
	}
	if len(x.best) > 0 && f.heads > x.best[0].heads {
		x.best = x.best[:0]
	}
	x.best = append(x.best, f)
}

// choose returns the prefix that tells most of those that most heads have, or an error if another one tells as much,
// and something else.
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
			return nil, fmt.Errorf("the lines fit the log_line_prefix '%s' as well as '%s', and differ in %s: give "+
				"the one that SHOW log_line_prefix tells (--prefix, or prefix=)", best.text, f.text, what)
		}
	}
	return x.optional(best)
}

// optional puts %q before the parts that only sessions have, if the sample has nothing but sessions: other processes of
// the server may come later, and their lines may end there.
func (x *inference) optional(f *prefixFit) (*prefix, error) {
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
			// The text in front of it up to the last blank belongs to it.
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

// better tells which of two prefixes that equally many heads have tells more: users and databases, sessions, then the
// one with fewer parts that are not told apart.
func (f *prefixFit) better(g *prefixFit) bool {
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

// variety is the number of parts of the prefix that have a meaning.
func (f *prefixFit) variety() (n int) {
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

// differs names the fields in which two prefixes differ for the sample, if they do. Of two that tell sessions apart,
// the one with fewer is right: the processes of a server answer more than once.
func (f *prefixFit) differs(g *prefixFit) string {
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
