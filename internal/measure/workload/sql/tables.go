package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"

	"tare/internal/measure/workload"
)

// tables are those of sysbench 1.0's OLTP mixes: sbtest1, sbtest2 and so on, each with an index k_1, k_2 and so on.
type tables struct {
	count int
	rows  int64 // of each
	draw  draw  // of the values of k
}

// The lengths of the texts in a row. sysbench's are a character shorter than their columns, which PostgreSQL pads and
// MySQL does not; these fill them, so that every server sends the same.
const (
	textLength = 120
	padLength  = 60
)

// batch is about how much of a table is sent at a time, in bytes.
const batch = 1 << 20

// rowSpace is about how much of a server's disk a row takes, with its place in the index, in bytes.
const rowSpace = 320

// fill creates all tables, several at the same time.
func (d tables) fill(ctx context.Context, b *workload.Bench, t *target) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tables := make(chan int, d.count)
	for i := range d.count {
		tables <- i + 1
	}
	close(tables)
	var all sync.WaitGroup
	for range min(d.count, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := range tables {
				if err := d.fillOne(ctx, t, i, b.Seed); err != nil {
					cancel(fmt.Errorf("table sbtest%d: %w", i, err))
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// fillOne creates a table.
func (d tables) fillOne(ctx context.Context, t *target, table int, seed uint64) (err error) {
	c, err := dial(ctx, t, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	defer context.AfterFunc(ctx, c.interrupt)()
	name := fmt.Sprintf("sbtest%d", table)
	id, before, after := "SERIAL", "", "VACUUM ANALYZE "+name
	if t.mysql() {
		id, after = "INTEGER NOT NULL AUTO_INCREMENT", "ANALYZE TABLE "+name
		if t.private {
			before = "SET sql_log_bin = 0"
		}
	}
	create := fmt.Sprintf("CREATE TABLE %s (id %s, k INTEGER DEFAULT '0' NOT NULL, c CHAR(%d) DEFAULT '' NOT NULL, "+
		"pad CHAR(%d) DEFAULT '' NOT NULL, PRIMARY KEY (id))", name, id, textLength, padLength)
	if err := run(c, before, create); err != nil {
		return err
	}
	if err := newRows(d, table, seed).send(c); err != nil {
		return err
	}
	return run(c, fmt.Sprintf("CREATE INDEX k_%d ON %s (k)", table, name), after)
}

// run runs statements. An empty one is none.
func run(c client, texts ...string) error {
	for _, text := range texts {
		if text == "" {
			continue
		}
		if err := c.query([]byte(text), &answer{}); err != nil {
			return err
		}
	}
	return nil
}

// rows generates the rows of a table. They depend on the seed and on the number of the table.
type rows struct {
	tables
	rng  *rand.Rand
	name string
	id   int64 // of the last row
	buf  []byte
}

func newRows(d tables, table int, seed uint64) *rows {
	return &rows{tables: d, rng: rand.New(rand.NewPCG(seed, uint64(table))), name: "sbtest" + strconv.Itoa(table)}
}

// send sends all rows, in the way that the server loads fastest.
func (r *rows) send(c client) error {
	if p, ok := c.(*postgresClient); ok {
		err := p.conn.CopyIn([]byte("COPY "+r.name+" FROM STDIN"), func() ([]byte, error) {
			if r.id == r.rows {
				return nil, io.EOF
			}
			r.buf = r.buf[:0]
			r.add(forCopy)
			return r.buf, nil
		})
		return p.refused(err)
	}
	for r.id < r.rows {
		r.buf = append(r.buf[:0], "INSERT INTO "+r.name+" VALUES "...)
		r.add(forInsert)
		if err := c.query(r.buf[:len(r.buf)-len(",")], &answer{}); err != nil {
			return err
		}
	}
	return nil
}

// layout has the texts before, between and after the columns of a row.
type layout struct{ id, k, text, pad, end string }

var (
	forCopy   = layout{"", "\t", "\t", "\t", "\n"}
	forInsert = layout{"(", ",", ",'", "','", "'),"}
)

// add adds a batch of rows to the buffer.
func (r *rows) add(l layout) {
	for r.id < r.rows && len(r.buf) < batch {
		r.id++
		r.buf = strconv.AppendInt(append(r.buf, l.id...), r.id, 10)
		r.buf = strconv.AppendInt(append(r.buf, l.k...), r.draw(r.rng, r.rows), 10)
		r.buf = appendDigits(append(r.buf, l.text...), r.rng, textLength)
		r.buf = appendDigits(append(r.buf, l.pad...), r.rng, padLength)
		r.buf = append(r.buf, l.end...)
	}
}

// appendDigits appends n random digits, n a multiple of 12, with a dash at each twelfth place but the last.
func appendDigits(dst []byte, rng *rand.Rand, n int) []byte {
	const group = "............"
	for ; n > 0; n -= len(group) {
		digits := rng.Uint64N(1e12)
		dst = append(dst, group...)
		for i := range len(group) {
			dst[len(dst)-1-i] = byte('0' + digits%10)
			digits /= 10
		}
		if n > len(group) {
			dst[len(dst)-1] = '-'
		}
	}
	return dst
}

// draw chooses one of the rows 1 to n.
type draw func(rng *rand.Rand, n int64) int64

// The ways to choose a row.
const (
	randUniform = "uniform"
	randSpecial = "special"
)

func drawOf(name string) draw {
	if name == randSpecial {
		return special
	}
	return uniform
}

func uniform(rng *rand.Rand, n int64) int64 { return 1 + rng.Int64N(n) }

// special chooses three rows of four from the hundredth in the middle, which it favours equally, and the others from
// all rows, most often from near the middle: their distribution is that of the mean of twelve uniform ones. (sysbench
// 1.0, --rand-type=special with its defaults: --rand-spec-res=75, --rand-spec-pct=1, --rand-spec-iter=12.)
func special(rng *rand.Rand, n int64) int64 {
	const favoured, part, terms = 0.75, 100, 12
	if rng.Float64() < favoured {
		middle := max(1, n/part)
		return 1 + (n-middle)/2 + rng.Int64N(middle)
	}
	sum := 0.0
	for range terms {
		sum += rng.Float64()
	}
	return 1 + min(n-1, int64(sum/terms*float64(n)))
}
