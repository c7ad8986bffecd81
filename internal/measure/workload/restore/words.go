package restore

import (
	"math/rand/v2"
	"strconv"
)

// vocabulary is the number of different words in the forum's texts.
const vocabulary = 4096

// words are generated: they compress like a language.
type words [vocabulary]string

func newWords(seed uint64) *words {
	g := rand.New(rand.NewPCG(seed, 0x776f_7264)) // "word"
	onset := [...]string{"b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "sh",
		""}
	nucleus := [...]string{"a", "e", "i", "o", "u", "ea", "ou", "ai"}
	coda := [...]string{"", "", "n", "r", "s", "t", "l", "nd", "ck", "ng"}
	var w words
	for i := range w {
		for range 1 + g.IntN(3) {
			w[i] += onset[g.IntN(len(onset))] + nucleus[g.IntN(len(nucleus))] + coda[g.IntN(len(coda))]
		}
	}
	return &w
}

// text appends n words as sentences. Few words are common and most are rare, as in a language.
func (w *words) text(p []byte, g *rand.Rand, n int) []byte {
	left := 0
	for i := range n {
		if i > 0 {
			p = append(p, ' ')
		}
		u := g.Float64()
		word := w[int(u*u*u*vocabulary)]
		if left == 0 {
			left = 4 + g.IntN(14)
			p = append(p, word[0]&^0x20)
			word = word[1:]
		}
		p = append(p, word...)
		if left--; left == 0 {
			p = append(p, '.')
		}
	}
	return p
}

// The tables of the forum, in the order of the dump.
const (
	users = iota
	topics
	posts
	tableCount
)

var tables = [tableCount]struct{ name, columns, definition string }{
	users: {"users", "id, name, email, joined",
		"id bigint NOT NULL, name text NOT NULL, email text NOT NULL, joined bigint NOT NULL"},
	topics: {"topics", "id, author, title, created",
		"id bigint NOT NULL, author bigint NOT NULL, title text NOT NULL, created bigint NOT NULL"},
	posts: {"posts", "id, topic, author, posted, body",
		"id bigint NOT NULL, topic bigint NOT NULL, author bigint NOT NULL, posted bigint NOT NULL, " +
			"body text NOT NULL"},
}

// The versions of a row: of the full dump and of the two deltas.
const (
	full = iota
	delta1
	delta2
	versions
)

// forum generates the rows of a database of a chosen size. The same seed and size give the same rows everywhere.
type forum struct {
	seed  uint64
	words *words
	count [tableCount]int64 // rows in the full dump; deltas add more
}

// rowBytes is the approximate length of a row of posts.
const rowBytes = 590

func newForum(seed uint64, bytes int64) *forum {
	n := max(40, bytes/(rowBytes+rowBytes/8))
	return &forum{seed: seed, words: newWords(seed), count: [tableCount]int64{users: n / 20, topics: n / 8, posts: n}}
}

// keys is the number of keys once both deltas are merged: each adds a fiftieth.
func (f *forum) keys(table int) int64 { return f.first(table, versions) - 1 }

// first is the first key that a version adds.
func (f *forum) first(table, version int) int64 {
	n := f.count[table]
	return 1 + n*int64(min(version, 1)) + n/50*int64(max(version-1, 0))
}

// has tells whether a version has a row with this key: the full dump has its own, a delta has those that it adds and
// one in 25 of the others. Some keys are in both deltas.
func (f *forum) has(table, version int, key int64) bool {
	switch {
	case key >= f.first(table, version+1):
		return false
	case key >= f.first(table, version) || version == full:
		return true
	}
	return uint64(key)*0x9e3779b97f4a7c15>>40%25 == uint64(version) || uint64(key)*0xbf58476d1ce4e5b9>>40%100 == 0
}

// latest is the last version that has a row with this key.
func (f *forum) latest(table int, key int64) int {
	for v := delta2; v > full; v-- {
		if f.has(table, v, key) {
			return v
		}
	}
	return full
}

// row appends a row as COPY writes it, with its line break.
func (f *forum) row(p []byte, table, version int, key int64) []byte {
	g := rand.New(rand.NewPCG(f.seed^uint64(table)<<56^uint64(version)<<48, uint64(key)))
	number := func(n int64) { p = strconv.AppendInt(append(p, '\t'), n, 10) }
	p = strconv.AppendInt(p, key, 10)
	switch table {
	case users:
		p = append(p, '\t')
		from := len(p)
		p = f.words.text(p, g, 2)
		name := string(p[from:])
		p = append(append(append(p, '\t'), f.words[len(name)*97%vocabulary]...), '@')
		p = append(append(p, f.words[g.IntN(50)]...), ".example"...)
		number(1_000_000_000 + key*977)
	case topics:
		number(1 + g.Int64N(f.count[users]))
		p = f.words.text(append(p, '\t'), g, 3+g.IntN(6))
		number(1_100_000_000 + key*613)
	case posts:
		number(1 + key*f.count[topics]/(2*f.count[posts]) + g.Int64N(max(1, f.count[topics]/2)))
		number(1 + g.Int64N(f.count[users]))
		number(1_200_000_000 + key*61)
		p = append(p, '\t')
		for i := range 1 + g.IntN(3) {
			if i > 0 {
				p = append(p, `\n\n`...) // as COPY writes line breaks
			}
			p = f.words.text(p, g, 8+g.IntN(60))
		}
	}
	return append(p, '\n')
}
