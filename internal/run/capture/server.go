package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/sys/sql/log"
)

// Change is a setting that a capture changes.
type Change struct {
	Name string `json:"name"`
	From string `json:"from"` // the value in force before
	To   string `json:"to"`
	// Entry is the value that ALTER SYSTEM had given the setting before; nil for none. PostgreSQL only.
	Entry *string `json:"entry,omitempty"`
}

// Load is the work of a server in a second.
type Load struct {
	Statements float64 // of PostgreSQL, which does not count them, transactions
	Bytes      float64 // that the log would grow by
}

// counts are a server's counters since its start.
type counts struct {
	statements float64
	bytes      float64 // received
	own        float64 // of these, for reading the counters
	each       float64 // bytes of the log for a statement, besides those received
}

// measure finds the load of a server.
func measure(ctx context.Context, s server, p *Plan, d time.Duration) error {
	before, err := s.count(ctx, p)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := wait(ctx, d); err != nil {
		return err
	}
	after, err := s.count(ctx, p)
	took := time.Since(began).Seconds()
	statements := max(0, after.statements-before.statements-1) // the second look is counted as well
	bytes := max(0, after.bytes-before.bytes-after.own) + statements*after.each
	p.Load = Load{statements / took, bytes / took}
	return err
}

// number reads a counter; 0 if it is none.
func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// server is a database product, as a capture uses it.
type server interface {
	// plan fills in the steps of a capture whose file is called name. It changes nothing. Its error says why there can
	// be none.
	plan(ctx context.Context, p *Plan, name string) error
	// count reads the server's counters.
	count(ctx context.Context, p *Plan) (counts, error)
	// set makes the changes and returns when they are in force.
	set(ctx context.Context, p *Plan) error
	// restore takes back the changes that are still in force, and names those that somebody else has changed since.
	restore(ctx context.Context, changes []Change) (others []string, err error)
	// open opens a file of the log, to be read from its beginning.
	open(ctx context.Context, file string) (part, error)
	// current is the path of the file that the server writes now; file is the one that it wrote before.
	current(ctx context.Context, file string) (string, error)
	// far tells whether the server's files are not on this machine, as far as that can be seen.
	far() bool
	// alive asks the server for an answer.
	alive(ctx context.Context) error
	close() error
}

// connect connects to a server. Its own statements are not logged where the user may decide that.
func connect(ctx context.Context, t *Target, getenv func(string) string) (server, error) {
	c, err := dial(ctx, t, getenv)
	if err != nil {
		return nil, err
	}
	if t.Product == dbserver.PostgreSQL {
		return newPostgres(ctx, t, c)
	}
	return newMySQL(ctx, t, c)
}

// part is a file of a log, of which the bytes from a place on are wanted.
type part struct {
	io.ReaderAt
	path string
	from int64
	size func(context.Context) (int64, error)
	info os.FileInfo // nil for a file that the server reads
	io.Closer
}

// is tells whether it is the file that has a path now. In the middle of a rotation no file has it.
func (p *part) is(path string) bool {
	if p.info == nil {
		return path == p.path
	}
	info, err := os.Stat(path)
	return err != nil || os.SameFile(info, p.info)
}

// openFile is openHere, but in tests, which have the server's machine only.
var openFile = openHere

// openHere opens a file of this machine.
func openHere(path string) (p part, err error) {
	f, err := os.Open(path)
	if err != nil {
		return p, err
	}
	info, err := f.Stat()
	if err != nil {
		return p, errors.Join(err, f.Close())
	}
	return part{ReaderAt: f, path: path, info: info, Closer: f, size: func(context.Context) (int64, error) {
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}}, nil
}

// source is a log that grows: its files in the order of their times.
type source []part

// size is how many bytes of it are wanted so far.
func (s source) size(ctx context.Context) (total int64, err error) {
	for _, p := range s {
		n, err := p.size(ctx)
		if err != nil {
			return 0, err
		}
		if n < p.from {
			return 0, fmt.Errorf("%s was cut off while it was read", p.path)
		}
		total += n - p.from
	}
	return total, nil
}

// reader reads the log as it is now.
func (s source) reader(ctx context.Context) (io.Reader, error) {
	var all []io.Reader
	for _, p := range s {
		n, err := p.size(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, io.NewSectionReader(p, p.from, n-p.from))
	}
	return io.MultiReader(all...), nil
}

func (s source) close() {
	for _, p := range s {
		_ = p.Close() // it was only read
	}
}

// quote makes a literal of a text, for both products.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// format is how the log is written.
func (t *Target) format(slow bool) log.Format {
	switch {
	case t.Product == dbserver.PostgreSQL:
		return log.PgCSV
	case slow:
		return log.Slow
	}
	return log.General
}
