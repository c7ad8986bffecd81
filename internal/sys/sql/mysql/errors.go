package mysql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"tare/internal/sys/sql"
)

// Error is an error that the server reported. The connection is usable, unless the error also wraps sql.ErrGone.
type Error struct {
	Number  uint16 // the server's number of the error, such as 1064
	State   string // SQLSTATE, five characters; "" if the server sent none
	Message string // as the server sent it: it may contain any bytes
}

func (e *Error) Error() string {
	if e.State == "" {
		return fmt.Sprintf("error %d: %s", e.Number, e.Message)
	}
	return fmt.Sprintf("error %d (%s): %s", e.Number, e.State, e.Message)
}

// maxError is the limit for an error packet, in bytes.
const maxError = 64 << 10

// parseError reads an error packet. Before the login there is no SQLSTATE.
func parseError(p []byte) *Error {
	e := &Error{}
	if len(p) < 3 {
		return e
	}
	e.Number = binary.LittleEndian.Uint16(p[1:])
	if p = p[3:]; len(p) >= 6 && p[0] == '#' {
		e.State, p = string(p[1:6]), p[6:]
	}
	e.Message = string(p)
	return e
}

// fail closes the connection and returns the error that all later calls return, too.
func (c *Conn) fail(doing string, err error) error {
	if c.dead == nil {
		if c.ended.Load() {
			err = errors.New("it was interrupted")
		} else if errors.Is(err, io.EOF) {
			err = errors.New("the server closed the connection")
		}
		c.dead = fmt.Errorf("%s: %w: %w", doing, sql.ErrGone, err)
		_ = c.s.Close()
	}
	return c.dead
}

// violation closes the connection because the server violated the protocol.
func (c *Conn) violation(format string, args ...any) error {
	return c.fail("read from the server", fmt.Errorf("protocol violation: "+format, args...))
}
