package restore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// client speaks PostgreSQL's protocol, version 3, to a server that needs no password: simple queries and COPY
// (PostgreSQL documentation, "Frontend/Backend Protocol"). No library is used because the agent must be small and
// loading a dump needs little.
type client struct {
	r   *bufio.Reader
	w   *bufio.Writer
	buf []byte // of the message at hand
}

// maxMessage bounds a message of the server: a row of the dump, or an error with all its fields.
const maxMessage = 16 << 20

// chunk is the size of one message of a COPY.
const chunk = 64 << 10

// serverError is an error that the server reports.
type serverError struct{ severity, code, message, detail, where string }

func (e *serverError) Error() string {
	s := fmt.Sprintf("%s %s: %s", e.severity, e.code, e.message)
	if e.detail != "" {
		s += " (" + e.detail + ")"
	}
	if e.where != "" {
		s += ", " + e.where
	}
	return s
}

// newClient starts a session on a connection.
func newClient(rw io.ReadWriter, user, database string) (*client, error) {
	c := &client{r: bufio.NewReaderSize(rw, 64<<10), w: bufio.NewWriterSize(rw, chunk+64)}
	body := binary.BigEndian.AppendUint32(nil, 3<<16)
	body = fmt.Appendf(body, "user\x00%s\x00database\x00%s\x00\x00", user, database)
	if err := c.message(0, body); err != nil {
		return nil, err
	}
	if err := c.untilReady(nil); err != nil {
		return nil, err
	}
	return c, nil
}

// message sends one message; the first of all has no type.
func (c *client) message(kind byte, body []byte) error {
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(body)+4))
	h := head[:]
	if kind == 0 {
		h = head[1:]
	}
	_, err := c.w.Write(h)
	if err == nil {
		_, err = c.w.Write(body)
	}
	if err == nil {
		err = c.w.Flush()
	}
	return err
}

// receive reads one message; its body is valid until the next.
func (c *client) receive() (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // the server never sends first
		}
		return 0, nil, fmt.Errorf("read from the server: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(head[1:])) - 4
	if n < 0 || n > maxMessage {
		return 0, nil, fmt.Errorf("read from the server: a message has %d bytes", n)
	}
	if int64(cap(c.buf)) < n {
		// The length is the server's claim: memory is allocated as the bytes arrive.
		c.buf = make([]byte, 0, min(n, 1<<20))
	}
	c.buf = c.buf[:0]
	for int64(len(c.buf)) < n {
		if len(c.buf) == cap(c.buf) {
			c.buf = append(c.buf, 0)[:len(c.buf)]
		}
		k := min(n, int64(cap(c.buf)))
		if _, err := io.ReadFull(c.r, c.buf[len(c.buf):k]); err != nil {
			return 0, nil, fmt.Errorf("read from the server: %w", err)
		}
		c.buf = c.buf[:k]
	}
	return head[0], c.buf, nil
}

// untilReady reads what the server answers until it is ready for the next query, and returns the first error it
// reported. Rows of a COPY go to each.
func (c *client) untilReady(each func([]byte) error) error {
	var first error
	for {
		kind, body, err := c.receive()
		if err != nil {
			return errors.Join(first, err)
		}
		switch kind {
		case 'Z':
			return first
		case 'E':
			if first == nil {
				first = parseError(body)
			}
		case 'R':
			if len(body) < 4 || binary.BigEndian.Uint32(body) != 0 {
				return errors.New("the server asks for a password, although it was started with -A trust")
			}
		case 'd':
			if each != nil && first == nil {
				first = each(body)
			}
		case 'G':
			// An unexpected COPY: the server waits for rows.
			if err := c.message('f', []byte("no rows\x00")); err != nil {
				return errors.Join(first, err)
			}
		}
	}
}

func parseError(body []byte) error {
	e := &serverError{}
	for len(body) > 1 && body[0] != 0 {
		value, rest, _ := strings.Cut(string(body[1:]), "\x00")
		switch body[0] {
		case 'S':
			e.severity = value
		case 'C':
			e.code = value
		case 'M':
			e.message = value
		case 'D':
			e.detail = value
		case 'W':
			e.where = value
		}
		body = []byte(rest)
	}
	return e
}

// exec runs statements and discards their results.
func (c *client) exec(sql string) error {
	if err := c.message('Q', append([]byte(sql), 0)); err != nil {
		return err
	}
	return c.untilReady(nil)
}

// copyOut runs a COPY TO STDOUT and calls each for every row.
func (c *client) copyOut(sql string, each func(row []byte) error) error {
	if err := c.message('Q', append([]byte(sql), 0)); err != nil {
		return err
	}
	return c.untilReady(each)
}

// copyIn runs a COPY FROM STDIN with rows from next, which returns io.EOF behind the last.
func (c *client) copyIn(sql string, next func() ([]byte, error)) error {
	if err := c.message('Q', append([]byte(sql), 0)); err != nil {
		return err
	}
	for {
		kind, body, err := c.receive()
		if err != nil {
			return err
		}
		if kind == 'G' {
			break
		}
		if kind == 'E' {
			return errors.Join(parseError(body), c.untilReady(nil))
		}
		if kind == 'Z' {
			return errors.New("the server expects no rows")
		}
	}
	sent := c.rows(next)
	if sent != nil {
		if err := c.message('f', []byte("the dump cannot be read\x00")); err != nil {
			return errors.Join(sent, err)
		}
	} else if sent = c.message('c', nil); sent == nil {
		return c.untilReady(nil)
	}
	// The server's own error is often better, such as a full disk.
	return errors.Join(c.untilReady(nil), sent)
}

// rows sends rows in messages of about a chunk.
func (c *client) rows(next func() ([]byte, error)) error {
	pending := make([]byte, 0, chunk+maxLine)
	for {
		row, err := next()
		if err != nil && err != io.EOF {
			return err
		}
		pending = append(pending, row...)
		if len(pending) >= chunk || err == io.EOF && len(pending) > 0 {
			if err := c.message('d', pending); err != nil {
				return err
			}
			pending = pending[:0]
		}
		if err == io.EOF {
			return nil
		}
	}
}

// maxStatement bounds a statement that is not a COPY, in bytes.
const maxStatement = 1 << 20

// script runs a dump in one transaction. Statements end with a semicolon at the end of a line, as pg_dump writes them;
// text that contains such a line is not supported.
func (c *client) script(dump *lines) error {
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	var statement []byte
	for {
		line, err := dump.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if len(statement)+len(line) > maxStatement {
			return dump.wrong("the statement at this line is longer than %d bytes", maxStatement)
		}
		text := strings.TrimSpace(string(line))
		if len(statement) == 0 && (text == "" || strings.HasPrefix(text, "--")) {
			continue
		}
		if _, ok := copyTable(line); ok && len(statement) == 0 {
			at := dump.n
			if err := c.copyIn(text, dump.copyRow); err != nil {
				return fmt.Errorf("COPY at line %d: %w", at, err)
			}
			continue
		}
		statement = append(statement, line...)
		if strings.HasSuffix(text, ";") {
			if err := c.exec(string(statement)); err != nil {
				return fmt.Errorf("statement that ends at line %d: %w", dump.n, err)
			}
			statement = statement[:0]
		}
	}
	if len(statement) > 0 {
		return errors.New("the dump ends in the middle of a statement")
	}
	return c.exec("COMMIT")
}

// copyRow returns the next row of a COPY, io.EOF behind the last.
func (l *lines) copyRow() ([]byte, error) {
	line, err := l.next()
	if err == io.EOF {
		return nil, l.wrong("the rows of a COPY have no end mark")
	}
	if err == nil && string(line) == string(endOfCopy) {
		return nil, io.EOF
	}
	return line, err
}
