package capture

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/sysinfo"
	"tare/internal/unit"
)

// Options are the settings of a capture.
type Options struct {
	Target
	Slow   bool                // MySQL: the slow log with all statements, instead of the general log
	For    time.Duration       // of the capture
	Limit  int64               // of the server's log, in bytes
	Share  float64             // of the sessions, in (0, 1]
	Out    string              // path of the new file, compressed if it ends in .gz; "" if Run is not called
	Force  bool                // replace Out if it exists
	Look   time.Duration       // how long the load is measured before
	Getenv func(string) string `json:"-"`
	// Began, if set, is called when the log is on.
	Began func() `json:"-"`
}

// Plan describes a capture before it is made.
type Plan struct {
	Version string
	Slow    bool
	File    string // of the log, on the server's machine
	// Along says that the server keeps the log already: nothing is changed, and its part from now on is copied.
	Along   bool
	Changes []Change
	Files   []string // that the server makes for this
	Load    Load
	Room    int64 // on the server's disk, in bytes; -1 if it cannot be seen from here
	Notes   []string
}

// Poll is the time between two looks at the size of the log: the limit is passed by as much as the server writes in
// that time.
const Poll = 200 * time.Millisecond

// settle is the time that a server is given to write the rest of its log.
const settle = 200 * time.Millisecond

// reserve is the space that must stay free on a disk, in bytes.
const reserve = 256 << 20

// Capture is one that was prepared.
type Capture struct {
	Plan   Plan
	o      Options
	name   string
	server server
}

// Prepare looks at the server and plans a capture. It changes nothing. The error says why there can be none. Close must
// be called.
func Prepare(ctx context.Context, o Options) (_ *Capture, err error) {
	c := &Capture{o: o, name: "tare-" + strings.ToLower(rand.Text()[:12]), Plan: Plan{Slow: o.Slow, Room: -1}}
	if o.Slow && o.Share < 1 && o.Product == dbserver.MySQL {
		return nil, errors.New("MySQL's slow log names the database only where it changes from one statement to the " +
			"next, whatever the session: take a sample of the general log")
	}
	if o.Product != dbserver.PostgreSQL && !o.near() {
		return nil, fmt.Errorf("the log of %s can be read on the server's machine only: run tare there, with the path "+
			"of the server's socket or a loopback address", &o.Target)
	}
	if err := c.checkOut(); err != nil {
		return nil, err
	}
	if c.server, err = connect(ctx, &o.Target, o.Getenv); err != nil {
		return nil, err
	}
	err = c.server.plan(ctx, &c.Plan, c.name)
	if err == nil {
		err = c.checkRoom()
	}
	if err == nil {
		err = measure(ctx, c.server, &c.Plan, o.Look)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close closes the connection.
func (c *Capture) Close() error { return c.server.close() }

// checkOut checks that the output can be made.
func (c *Capture) checkOut() error {
	info, err := os.Lstat(c.o.Out)
	switch {
	case c.o.Out == "": // for a look at the plan
		return nil
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", c.o.Out)
	case !c.o.Force:
		return fmt.Errorf("%s exists; choose another name, or use --force to replace it", c.o.Out)
	}
	if c.o.Out, err = filepath.Abs(c.o.Out); err != nil {
		return err
	}
	dir := filepath.Dir(c.o.Out)
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	return enough(dir, c.o.Limit)
}

// checkRoom checks that the server's disk has room for the log.
func (c *Capture) checkRoom() error {
	if c.server.far() {
		return nil
	}
	dir := filepath.Dir(c.Plan.File)
	c.Plan.Room = sysinfo.Free(dir)
	return enough(dir, c.o.Limit)
}

// enough checks that a disk has room for some bytes.
func enough(dir string, bytes int64) error {
	if free := sysinfo.Free(dir); free >= 0 && free-reserve < bytes {
		return fmt.Errorf("the disk of %s has %s left, too little for a log of %s and a reserve of %s; give a lower "+
			"--limit", dir, unit.Format(float64(free), "B"), unit.Format(float64(bytes), "B"),
			unit.Format(reserve, "B"))
	}
	return nil
}

// Result is the result of a capture.
type Result struct {
	Why      string // it ended
	Took     time.Duration
	Bytes    int64 // of the server's log
	Sessions int64 // of the log, if a sample of them was taken
	Kept     int64 // of these
	// Left lists the settings and files that are not as before, and why.
	Left    []string
	Written bool // the output, which may be so in spite of an error
	// Abandoned is why the log ends before its time; nil if it does not. Statements that were logged before are in the
	// output.
	Abandoned error
}

// Run captures. The end of ctx ends the wait early, as the end of the time does, and nothing else. The error says why
// there is no output, or what could not be restored; then Clean can do that later.
func (c *Capture) Run(ctx context.Context) (*Result, error) {
	n := &note{Target: c.o.Target, Changes: c.Plan.Changes, Files: c.Plan.Files,
		Part: c.o.Out + "." + c.name + ".part"}
	if err := n.write(c.name); err != nil {
		return nil, err
	}
	all := context.WithoutCancel(ctx)
	r := &Result{}
	out, err := os.OpenFile(n.Part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = c.server.set(all, &c.Plan)
	}
	far := c.server.far()
	var log source
	if err == nil {
		if log, err = c.open(all); err == nil {
			c.watch(ctx, &log, r)
		}
		far = far || errors.Is(err, fs.ErrNotExist) // but the server writes it
	}
	restored := c.restore(all, r)
	if err == nil {
		err = c.write(all, log, out, r)
	}
	log.close()
	_ = out.Close() // it has been closed, if all went well
	if restored != nil {
		return r, errors.Join(err, fmt.Errorf("restore the settings of %s: %w; \"tare clean\" does it when the server "+
			"answers", &c.o.Target, restored))
	}
	files, removed := n.remove(far)
	r.Left = append(r.Left, remain(files)...)
	return r, errors.Join(err, removed)
}

// open opens the log that the server writes now.
func (c *Capture) open(ctx context.Context) (source, error) {
	p, err := c.server.open(ctx, c.Plan.File)
	if err != nil {
		return nil, err
	}
	if c.Plan.Along {
		p.from, err = p.size(ctx)
	}
	return source{p}, err
}

// watch waits until the capture has to end.
func (c *Capture) watch(ctx context.Context, log *source, r *Result) {
	if c.o.Began != nil {
		c.o.Began()
	}
	began := time.Now()
	defer func() { r.Took = time.Since(began) }()
	for r.Why == "" {
		stopped := wait(ctx, min(Poll, c.o.For-time.Since(began))) != nil
		// The last look is needed, too: the log may have been rotated since the one before. It is not interrupted,
		// because the connection has to restore the settings.
		size, err := c.look(context.WithoutCancel(ctx), log)
		switch {
		case err != nil:
			r.Why, r.Abandoned = "it could not go on", err
		case stopped:
			r.Why = "it was stopped"
		case size >= c.o.Limit:
			r.Why = "the limit of its size was met"
		case time.Since(began) >= c.o.For:
			r.Why = "its time was over"
		case !c.server.far() && enough(filepath.Dir(c.Plan.File), 0) != nil:
			r.Why = "the server's disk is nearly full"
		}
	}
}

// look returns the size of the log, and checks that the server is alive.
func (c *Capture) look(ctx context.Context, log *source) (int64, error) {
	if err := c.server.alive(ctx); err != nil {
		return 0, err
	}
	if c.Plan.Along { // its owner may rotate it
		file, err := c.server.current(ctx, c.Plan.File)
		if err != nil {
			return 0, err
		}
		if last := (*log)[len(*log)-1]; !last.is(file) {
			p, err := c.server.open(ctx, file)
			if err != nil {
				return 0, err
			}
			*log = append(*log, p)
		}
	}
	return log.size(ctx)
}

// comeback is how long a server that was restarted is waited for.
var comeback = 15 * time.Second

// reconnect connects to a server that was restarted, or returns the error of the last try.
func (c *Capture) reconnect(ctx context.Context) (s server, err error) {
	_ = c.server.close() // the connection is broken
	late := until(ctx, comeback, func() (bool, error) {
		s, err = connect(ctx, &c.o.Target, c.o.Getenv)
		return err == nil, nil
	})
	if late != nil {
		return c.server, err
	}
	return s, nil
}

// restore takes back the changes. A server that was restarted is waited for.
func (c *Capture) restore(ctx context.Context, r *Result) error {
	if len(c.Plan.Changes) == 0 {
		return wait(ctx, settle)
	}
	if err := c.server.alive(ctx); err != nil {
		if c.server, err = c.reconnect(ctx); err != nil {
			return err
		}
	}
	others, err := c.server.restore(ctx, c.Plan.Changes)
	r.Left = append(r.Left, leaves(others)...)
	return err
}

// write writes the output.
func (c *Capture) write(ctx context.Context, log source, out *os.File, r *Result) (err error) {
	for i := range log {
		if log[i].info == nil { // the server reads it, by a connection that may have been lost
			from := log[i].from
			if log[i], err = c.server.open(ctx, log[i].path); err != nil {
				return fmt.Errorf("read the log: %w", err)
			}
			log[i].from = from
		}
	}
	if r.Bytes, err = log.size(ctx); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	w := bufio.NewWriterSize(out, 1<<18)
	var z io.WriteCloser = plain{w}
	if strings.HasSuffix(c.o.Out, ".gz") {
		z = gzip.NewWriter(w)
	}
	if c.o.Share < 1 {
		err = sample(ctx, z, log, c.o.format(c.o.Slow), c.o.Share, r)
	} else {
		var from io.Reader
		if from, err = log.reader(ctx); err == nil {
			_, err = io.Copy(z, from)
		}
	}
	if err = cmp.Or(err, z.Close(), w.Flush(), out.Sync(), out.Close()); err == nil {
		err = os.Rename(out.Name(), c.o.Out)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", c.o.Out, err)
	}
	r.Written = true
	return nil
}

// plain is a writer that need not be closed.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }
