package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"tare/internal/lab/deploy"
	"tare/internal/sys/proc"
)

// side does one run and returns its figures, one for each of the row's.
type side func(ctx context.Context) ([]float64, error)

// contest is a row made ready: two sides that do the same work, or tare alone when peer is nil.
type contest struct {
	tare, peer side
	notes      []string        // what the reader must know: the command lines, the amount of work
	after      func() []string // notes on what was seen in the runs; may be nil
	close      func() error
}

// figure is one figure of a row.
type figure struct {
	name string // "" when the row has only one
	unit string // as package unit reads it
	// goal is the ratio tare/peer to reach or, without a peer, the figure itself; 0 for none.
	goal   float64
	atMost bool // the goal is an upper bound
	agrees bool // the medians of both sides are to agree
	alone  bool // of tare's side only, in a row that has a peer
	// why is what is known to keep them apart, told where they do not agree; "" for nothing.
	why string
}

// row is one line of the table.
type row struct {
	name     string // "fio-buffered"
	what     string // what is measured, a sentence
	peer     string // "fio psync"; "" when tare is measured alone
	programs []string
	figures  []figure
	open     func(ctx context.Context, b *bench) (*contest, error)
}

// agrees tells whether the row has a figure that is to agree with the peer's.
func (r *row) agrees() bool {
	for _, f := range r.figures {
		if f.agrees {
			return true
		}
	}
	return false
}

// outcome is what a row gave.
type outcome struct {
	row        *row
	skipped    string // why it was not run
	err        error
	tare, peer [][]float64 // by figure, then by pair
	notes      []string
}

// missing is a reason of the machine's, not a failure: something that is needed is not here.
type missing struct{ what string }

func (m missing) Error() string { return m.what }

// bench is one run of the program.
type bench struct {
	settings
	dir   string // private directory
	runID string
	store *deploy.Store
	built bool
	rng   *rand.Rand
	log   io.Writer
	live  bool // log is a terminal
}

func newBench(s settings, log io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp(s.dir, "tare-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory to work in: %w", err)
	}
	f, isFile := log.(*os.File)
	return &bench{
		settings: s, dir: dir, runID: filepath.Base(dir), log: log, live: isFile && term.IsTerminal(int(f.Fd())),
		store: deploy.NewStore(filepath.Join(dir, "agents")),
		rng:   rand.New(rand.NewPCG(s.seed, 0x62656e6368)),
	}, nil
}

func (b *bench) close() error {
	return errors.Join(b.store.Close(), os.RemoveAll(b.dir))
}

// row measures one row. It does not fail: what went wrong is in the outcome.
func (b *bench) row(ctx context.Context, r *row) (o outcome) {
	o = outcome{row: r, tare: make([][]float64, len(r.figures)), peer: make([][]float64, len(r.figures))}
	for _, p := range r.programs {
		if _, err := proc.LookPath(p); err != nil {
			o.skipped = p + " is not installed"
			return o
		}
	}
	fmt.Fprintf(b.log, "%s: preparing\n", r.name)
	began := time.Now()
	c, err := r.open(ctx, b)
	if m, ok := errors.AsType[missing](err); ok {
		o.skipped = m.what
		return o
	}
	if err != nil {
		o.err = err
		return o
	}
	defer func() {
		if c.close != nil {
			o.err = errors.Join(o.err, c.close())
		}
	}()
	defer func() {
		o.notes = c.notes
		if c.after != nil {
			o.notes = append(o.notes, c.after()...)
		}
	}()
	// The first run of each side meets cold caches; it is not used.
	for i := range b.pairs + 1 {
		if o.err = b.pair(ctx, c, &o, i == 0); o.err != nil {
			return o
		}
		if i > 0 && b.live {
			fmt.Fprintf(b.log, "\r%s: %d of %d", r.name, i, b.pairs)
		}
	}
	fmt.Fprintf(b.log, "%s%s: %d of %d in %v\n", map[bool]string{true: "\r"}[b.live], r.name, b.pairs, b.pairs,
		time.Since(began).Round(time.Second))
	return o
}

// pair runs both sides once, in random order, and keeps their figures unless it is the warm-up.
func (b *bench) pair(ctx context.Context, c *contest, o *outcome, warmup bool) error {
	type turn struct {
		who  string
		side side
		to   [][]float64
	}
	turns := []turn{{"tare", c.tare, o.tare}}
	if c.peer != nil {
		turns = append(turns, turn{o.row.peer, c.peer, o.peer})
	}
	b.rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	for _, t := range turns {
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := t.side(ctx)
		if err != nil {
			return fmt.Errorf("run %s: %w", t.who, err)
		}
		if len(got) != len(o.row.figures) {
			return fmt.Errorf("run %s: it gave %d figures where %d are due", t.who, len(got), len(o.row.figures))
		}
		for i, v := range got {
			if !(v >= 0) {
				return fmt.Errorf("run %s: it gave the figure %v", t.who, v)
			}
			if !warmup {
				t.to[i] = append(t.to[i], v)
			}
		}
	}
	return nil
}
