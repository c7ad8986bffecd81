package postgres

import (
	"errors"
	"io"
	"sync/atomic"
)

// chunk is how much of a COPY goes into one message, in bytes.
const chunk = 64 << 10

// CopyIn runs a COPY FROM STDIN with rows from next, which returns io.EOF behind the last. What next returns may begin
// and end anywhere in a row, and is taken before next is called again. When next fails, nothing is copied.
func (c *Conn) CopyIn(text []byte, next func() ([]byte, error)) error {
	c.out, c.unit, c.after, c.extended = c.out[:0], nil, 0, false
	at := c.begin('Q')
	c.statement(text)
	c.end(at)
	if err := c.flush(); err != nil {
		return err
	}
	for {
		kind, err := c.head()
		if err == nil && kind == 'D' { // of a statement that is no COPY
			if err = c.skip(); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		body, err := c.most()
		if err != nil {
			return err
		}
		switch kind {
		case 'G':
			return c.copyRows(next)
		case 'E':
			return errors.Join(parseError(body), c.answer(nil))
		case 'Z':
			return errors.Join(c.ready(body), errors.New("the server expects no rows"))
		default:
			if err := c.told(&c.none, kind, body); err != nil {
				return err
			}
		}
	}
}

// copyRows sends the rows, and hears beside it what the server has to say: one whose rows have it say much would wait
// for that to be read.
func (c *Conn) copyRows(next func() ([]byte, error)) error {
	var over atomic.Bool
	heard := make(chan error, 1)
	go func() {
		err := c.answer(nil)
		over.Store(true)
		heard <- err
	}()
	failed, broken := c.sendRows(next, &over)
	end := []byte("c\x00\x00\x00\x04")
	if failed != nil {
		end = []byte("f\x00\x00\x00\x18the rows are not whole\x00\x00")
		end[4] = byte(len(end) - 1)
	}
	if broken == nil && !over.Load() {
		_, broken = c.s.Write(end)
	}
	if broken != nil {
		c.s.Interrupt() // messages that were received already are still heard
	}
	err := <-heard
	if broken != nil {
		broken = c.gone("send to the server", broken)
	}
	// The server has its own view of what went wrong, and often the better one: its disk is full, say.
	return errors.Join(err, failed, broken)
}

// sendRows sends rows in messages of about a chunk until the last, or until the server has said all it has to.
func (c *Conn) sendRows(next func() ([]byte, error), over *atomic.Bool) (failed, broken error) {
	const head = 5
	pending := append(make([]byte, 0, chunk+head), 'd', 0, 0, 0, 0)
	for !over.Load() {
		row, err := next()
		if err != nil && err != io.EOF {
			return err, nil
		}
		pending = append(pending, row...)
		if len(pending) >= chunk || err == io.EOF && len(pending) > head {
			n := len(pending) - 1
			pending[1], pending[2], pending[3], pending[4] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
			if _, err := c.s.Write(pending); err != nil {
				return nil, err
			}
			pending = pending[:head]
		}
		if err == io.EOF {
			return nil, nil
		}
	}
	return nil, nil
}
