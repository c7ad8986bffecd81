// Package shop generates the database of a synthetic shop, and the sessions of the programs that show its pages. It is
// the load for users without a log.
//
// It is opinionated. The data and the sessions are deterministic, so that work can be compared. The results do not
// depend on the server, its version or its collation: rows have a total order, texts are ASCII with binary collation,
// numbers are integers. As in a real shop, few items are popular, texts are long, and most pages need several small
// statements and a large one.
package shop

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"tare/internal/sys/sql/lex"
)

// Shop is a shop of a given size.
type Shop struct {
	Dialect lex.Dialect
	Items   int // number of items, which all tables grow with; 0 means 2000
	Views   int // number of page views, which are sessions; 0 means 1000
}

const (
	defaultItems = 2000
	defaultViews = 1000
	days         = 1000 // of orders

	dataSeed, viewSeed = 1, 2
)

func (s Shop) items() int {
	if s.Items > 0 {
		return s.Items
	}
	return defaultItems
}

func (s Shop) views() int {
	if s.Views > 0 {
		return s.Views
	}
	return defaultViews
}

func (s Shop) categories() int { return s.items()/50 + 1 }
func (s Shop) customers() int  { return s.items()/2 + 1 }
func (s Shop) orders() int     { return 2 * s.items() }

// chance is a source of random values.
type chance struct {
	*rand.Rand
	items *rand.Zipf
	most  int // number of items
}

func (s Shop) chance(seed uint64) *chance {
	r := rand.New(rand.NewPCG(seed, uint64(s.items())))
	return &chance{r, rand.NewZipf(r, 1.2, 10, uint64(s.items()-1)), s.items()}
}

// item returns the ID of an item by Zipf's law. The factor, a prime number, spreads popular items over the table.
func (c *chance) item() int { return int(c.items.Uint64()*7919%uint64(c.most)) + 1 }

// upTo returns a number from 1 to n.
func (c *chance) upTo(n int) int { return 1 + c.IntN(n) }

var (
	heads = strings.Fields("ba be bo da de do fa fi ga go ha he ka ke ki la le lo ma me mo na ne no pa po ra re ro sa")
	tails = strings.Fields("bel dan der fen gan ket lar len lin mar men nor per ras ret rin sal ten tor van")
)

// word returns a word; words at the start of the list are more frequent.
func (c *chance) word() string {
	n := c.IntN(c.upTo(len(heads) * len(tails)))
	return heads[n%len(heads)] + tails[n/len(heads)]
}

func (c *chance) words(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = c.word()
	}
	return strings.Join(all, " ")
}

// Dump writes the statements that create the tables in an empty database. Each ends with a semicolon and a line feed.
func (s Shop) Dump(dst io.Writer) error {
	w := bufio.NewWriterSize(dst, 64<<10)
	text, table := " COLLATE \"C\"", ""
	if s.Dialect == lex.MySQL {
		text, table = "", " CHARACTER SET ascii COLLATE ascii_bin"
	}
	for _, t := range tables {
		fmt.Fprintf(w, "CREATE TABLE %s (%s)%s;\n", t.name, strings.ReplaceAll(t.columns, "TEXT", "TEXT"+text), table)
	}
	c := s.chance(dataSeed)
	for _, t := range tables {
		s.fill(w, t.name, t.rows(s, c))
	}
	for _, index := range indexes {
		fmt.Fprintf(w, "CREATE INDEX %s;\n", index)
	}
	for _, t := range tables {
		if s.Dialect == lex.MySQL {
			fmt.Fprintf(w, "ANALYZE TABLE %s;\n", t.name)
		} else {
			fmt.Fprintf(w, "ANALYZE %s;\n", t.name)
		}
	}
	return w.Flush()
}
