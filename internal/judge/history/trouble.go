package history

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// longestAttempt bounds one try of a write: a server that has vanished without a word would be waited for a quarter of
// an hour.
const longestAttempt = 5 * time.Minute

// again does what may be done twice, until it succeeds, fails for good, or the patience has ended. A thousand hosts
// that have finished together are more than a server has connections for, and take turns.
func (s *Store) again(ctx context.Context, do func(context.Context) error) error {
	began := time.Now()
	for n := 0; ; n++ {
		attempt, cancel := context.WithTimeout(ctx, longestAttempt)
		err := do(attempt)
		cancel()
		if err == nil || ctx.Err() != nil || !s.postgres || !passing(err) {
			return err
		}
		wait := pause(n)
		if time.Since(began)+wait > s.options.Patience {
			if n > 0 {
				err = fmt.Errorf("%w; given up after %d tries in %s", err, n+1, time.Since(began).Round(time.Second))
			}
			return err
		}
		s.waiting.Do(func() {
			if s.options.Waiting != nil {
				s.options.Waiting(plain(err).Error())
			}
		})
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// pause returns the wait before try n+1: longer each time, and drawn, so that those who were refused together do not
// come back together.
func pause(n int) time.Duration {
	most := min(100*time.Millisecond<<min(n, 10), 4*time.Second)
	return 10*time.Millisecond + rand.N(most)
}

// The codes of a server's errors that mean another try may succeed: PostgreSQL's manual, appendix A.
var passingCodes = []string{
	"40001", "40P01", // the transaction lost against another one
	"53300",                            // too many connections
	"55P03",                            // a lock was not to be had
	"57P01", "57P02", "57P03", "57P05", // it goes down, has crashed, or starts
}

// Passing tells whether an error may pass by itself: the network, a server that restarts, one that has no connection
// left. Recording is tried again then; see Options.Patience.
func Passing(err error) bool { return passing(err) }

// passing tells whether an error may pass by itself: the network, a server that restarts, one that has no connection
// left.
func passing(err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(said.Code, "08") || slices.Contains(passingCodes, said.Code)
	}
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		return !d.IsNotFound
	}
	for _, e := range []error{driver.ErrBadConn, pgconn.ErrConnClosed, io.EOF, io.ErrUnexpectedEOF,
		context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	if o, ok := errors.AsType[*net.OpError](err); ok {
		return slices.Contains([]string{"dial", "read", "write"}, o.Op)
	}
	return false
}

// plainError is an error in one line, with what to do about it.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// plain says an error in one line, with what to do about it.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if c, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		text = strings.Replace(text, c.Error(), "connect:\n"+c.Unwrap().Error(), 1)
	}
	var lines []string
	for line := range strings.Lines(text) { // a server is tried with and without TLS, and at each of its addresses
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	text = strings.ReplaceAll(strings.Join(lines, "; "), "connect:; ", "connect: ")
	return &plainError{text: text + remedy(err, text), err: err}
}

// remedy is the advice on an error of a PostgreSQL server, "" where the error has it. The codes are those of its
// manual, appendix A.
func remedy(err error, text string) string {
	said, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		switch {
		case strings.Contains(text, "server refused TLS"):
			return "; turn TLS on there, or say sslmode=disable in the URL if everybody on the way may read and " +
				"change what is sent"
		case strings.Contains(text, "failed to verify certificate"):
			return "; name the file of the authority that signed it: sslrootcert=FILE in the URL"
		case passing(err):
			return "; does the server run, and does it listen there?"
		}
		return ""
	}
	switch said.Code {
	case "28P01":
		return "; the password is taken from PGPASSWORD, from ~/.pgpass or from the URL in TARE_STORE"
	case "28000":
		return "; the role and its line in the server's pg_hba.conf decide who is let in"
	case "3D000":
		return "; create it: createdb NAME"
	case "42501", "3F000":
		if strings.Contains(said.Message, "permission denied for table") ||
			strings.Contains(said.Message, "permission denied for view") {
			return "; this role may not do that: GRANT SELECT is for reading, INSERT, UPDATE and DELETE are for " +
				"recording"
		}
		return "; tare creates tables named tare_* in the first schema: GRANT CREATE ON SCHEMA public TO the user, " +
			"or have its owner run \"tare history migrate\" once"
	case "25006":
		return "; it may be a standby, or the role is set to read only: name the server that takes writes"
	case "53100":
		return "; nothing was recorded, and the bundle is where it was: free space there (\"tare history prune\") " +
			"and record it again"
	case "53300":
		return "; try again later, with --patience, or raise max_connections there"
	}
	return ""
}
