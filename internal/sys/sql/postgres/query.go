package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Query runs one or more statements as one simple query and takes in their results; r may be nil. The first error of
// the server's is returned, as an *Error; what stands behind the statement that had it was not run.
func (c *Conn) Query(text []byte, r *Result) error {
	c.out, c.unit, c.after, c.extended = c.out[:0], nil, 0, false
	at := c.begin('Q')
	c.statement(text)
	c.end(at)
	if err := c.flush(); err != nil {
		return err
	}
	return c.answer(r)
}

// statement appends the text of a statement.
func (c *Conn) statement(text []byte) {
	if bytes.IndexByte(text, 0) >= 0 {
		c.refuse(errZero)
	}
	c.out = append(append(c.out, text...), 0)
}

// What follows builds a unit of the extended protocol: messages that Sync sends together. A unit that cannot be sent is
// refused there, and nothing of it is sent.

// Parse prepares a statement; "" names the one that the next Parse replaces.
func (c *Conn) Parse(name string, text []byte) {
	at := c.begin('P')
	c.out = c.text(c.out, name)
	c.statement(text)
	c.out = append(c.out, 0, 0) // the server finds the types out
	c.end(at)
}

// maxParams is how many parameters a statement may have: their number is one of 16 bits.
const maxParams = 1<<16 - 1

// Bind gives a prepared statement its parameters, as text, nil for NULL, and makes a portal of it.
func (c *Conn) Bind(portal, name string, params [][]byte) {
	if len(params) > maxParams {
		c.refuse(fmt.Errorf("%d parameters are more than the %d that PostgreSQL takes", len(params), maxParams))
		return
	}
	at := c.begin('B')
	c.out = c.text(c.out, portal)
	c.out = c.text(c.out, name)
	c.out = append(c.out, 0, 0) // all parameters are text
	c.out = binary.BigEndian.AppendUint16(c.out, uint16(len(params)))
	for _, p := range params {
		if p == nil {
			c.out = append(c.out, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(p)))
		c.out = append(c.out, p...)
	}
	c.out = append(c.out, 0, 0) // so are all columns
	c.end(at)
}

// DescribePortal asks what columns a portal gives. Without it Result.Columns stays 0.
func (c *Conn) DescribePortal(portal string) { c.about('D', 'P', portal) }

// DescribeStatement asks what parameters and columns a prepared statement has.
func (c *Conn) DescribeStatement(name string) { c.about('D', 'S', name) }

// ClosePortal forgets a portal, which the end of the transaction does, too.
func (c *Conn) ClosePortal(portal string) { c.about('C', 'P', portal) }

// CloseStatement forgets a prepared statement.
func (c *Conn) CloseStatement(name string) { c.about('C', 'S', name) }

func (c *Conn) about(kind, of byte, name string) {
	at := c.begin(kind)
	c.out = append(c.out, of)
	c.out = c.text(c.out, name)
	c.end(at)
}

// Execute runs a portal until it has no more rows or, with most above 0, until so many were sent.
func (c *Conn) Execute(portal string, most int32) {
	at := c.begin('E')
	c.out = c.text(c.out, portal)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(max(most, 0)))
	c.end(at)
	if c.after == 0 {
		c.after = len(c.out)
	}
}

// Sync sends the unit and takes in its results; r may be nil. The first error of the server's is returned, as an
// *Error; what stands behind it in the unit was not run.
func (c *Conn) Sync(r *Result) error {
	c.extended = true
	c.end(c.begin('S'))
	// What a server has answered before it has read all could fill what lies between the two, both ways.
	if c.after > 0 && len(c.out)-c.after > apart {
		return c.beside(r)
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.answer(r)
}

// apart is how much more of a unit may follow on its first Execute before it is sent beside the reading, in bytes. Any
// system takes so much for a server that does not read.
const apart = 16 << 10

// beside sends the unit beside the reading.
func (c *Conn) beside(r *Result) error {
	out, err := c.out, c.unit
	c.out, c.unit, c.after = nil, nil, 0
	if c.dead != nil {
		return c.dead
	}
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.s.Write(out)
		if err != nil {
			c.s.Interrupt() // bytes that were received already can still be read
		}
		sent <- err
	}()
	err = c.answer(r)
	if e := <-sent; e != nil {
		return errors.Join(err, c.gone("send to the server", e))
	}
	return err
}

// answer takes in what the server says until it is ready for the next unit.
func (c *Conn) answer(r *Result) error {
	if r == nil {
		r = &c.none
	}
	r.begin()
	var first error
	for {
		kind, err := c.head()
		if err == nil {
			switch kind {
			case 'D':
				err = c.row(r)
			case 'd':
				err = c.data(r)
			default:
				var body []byte
				if body, err = c.most(); err != nil {
					break
				}
				switch kind {
				case 'Z':
					if err = c.ready(body); err == nil {
						if first == nil {
							return r.failed
						}
						return first
					}
				case 'E':
					if first == nil {
						first = parseError(body)
					}
				default:
					err = c.told(r, kind, body)
				}
			}
		}
		if err != nil {
			return errors.Join(first, err)
		}
	}
}

// told takes in a message that is neither a row nor an end.
func (c *Conn) told(r *Result, kind byte, body []byte) error {
	switch kind {
	case 'C':
		r.complete(body)
	case 'I':
		r.Commands++
	case 'T':
		if len(body) < 2 {
			return c.wrong("a description of %d bytes", len(body))
		}
		r.Columns = uint64(binary.BigEndian.Uint16(body))
	case 's':
		r.Suspended = true
	case '1', '2', '3', 'n', 't', 'H', 'c':
		// Parsed, bound, closed, no rows, parameters, begin and end of a COPY.
	case 'G':
		return c.noCopy()
	case 'N':
		r.Notices++
		return c.aside(kind, body)
	default:
		return c.aside(kind, body)
	}
	return nil
}

// noCopy refuses a COPY FROM STDIN where no rows are to be had.
func (c *Conn) noCopy() error {
	text := []byte("f\x00\x00\x00\x0cno rows\x00")
	if c.extended {
		// The server has taken the Sync that was sent for a part of the COPY, and waits for another.
		text = append(text, 'S', 0, 0, 0, 4)
	}
	if _, err := c.s.Write(text); err != nil {
		return c.gone("send to the server", err)
	}
	return nil
}

// aside takes in what a server may say at any time.
func (c *Conn) aside(kind byte, body []byte) error {
	switch kind {
	case 'N':
		if c.config.Notice != nil {
			c.config.Notice(parseError(body))
		}
	case 'A':
	case 'S':
		name, rest, _ := bytes.Cut(body, []byte{0})
		value, _, _ := bytes.Cut(rest, []byte{0})
		if have, ok := c.settings[string(name)]; ok && have == string(value) {
			return nil
		} else if !ok && len(c.settings) == maxSettings || len(body) > maxSetting {
			return c.wrong("more settings than any server tells of")
		}
		c.settings[string(name)] = string(value)
		if c.config.ReadOnly && string(name) == readOnlySetting && string(value) != "on" {
			return c.gone("keep the session read-only", errors.New("a statement has set "+readOnlySetting+" to "+
				string(value)))
		}
	default:
		return c.wrong("a message %q, which has no place there", kind)
	}
	return nil
}

// maxSetting bounds a setting's name and value, in bytes.
const maxSetting = 4 << 10

func (c *Conn) ready(body []byte) error {
	if len(body) != 1 {
		return c.wrong("a state of %d bytes", len(body))
	}
	c.status = body[0]
	return nil
}

// row takes in a row.
func (c *Conn) row(r *Result) error {
	if c.left > len(c.in) && r.Row == nil {
		return c.longRow(r)
	}
	body, err := c.whole(MaxRow)
	if err != nil {
		return err
	}
	if err := r.row(body); err != nil {
		return c.gone("read from the server", err)
	}
	return nil
}

// longRow takes in a row as it comes.
func (c *Conn) longRow(r *Result) error {
	r.Rows++
	r.Bytes += uint64(c.left)
	if !r.Digest {
		return c.skip()
	}
	head, err := c.take(2)
	if err != nil {
		return err
	}
	for range binary.BigEndian.Uint16(head) {
		head, err := c.take(4)
		if err != nil {
			return err
		}
		size := int32(binary.BigEndian.Uint32(head))
		if size == -1 {
			r.Sum.Null()
			continue
		}
		if size < 0 || int(size) > c.left {
			return c.wrong("a column of %d bytes where %d are left", size, c.left)
		}
		rest := c.left - int(size)
		for c.left > rest {
			p, err := c.upTo(c.left - rest)
			if err != nil {
				return err
			}
			r.Sum.Part(p)
		}
		r.Sum.End()
	}
	r.Sum.EndRow()
	if c.left > 0 {
		return c.wrong("%d bytes behind a row", c.left)
	}
	return nil
}

// take returns exactly n bytes, few, of the message that has begun.
func (c *Conn) take(n int) ([]byte, error) {
	if c.left < n {
		return nil, c.wrong("a row that ends in a column")
	}
	if err := c.fill(n); err != nil {
		return nil, err
	}
	p := c.in[c.r : c.r+n]
	c.r += n
	c.left -= n
	return p, nil
}

// data takes in a message of a COPY.
func (c *Conn) data(r *Result) error {
	if c.left <= len(c.in) || r.Copy != nil {
		body, err := c.whole(MaxRow)
		if err == nil {
			r.data(body)
		}
		return err
	}
	r.Rows++
	r.Bytes += uint64(c.left)
	for {
		p, err := c.part()
		if err != nil {
			return err
		}
		if len(p) == 0 {
			break
		}
		if r.Digest {
			r.Sum.Part(p)
		}
	}
	if r.Digest {
		r.Sum.End()
		r.Sum.EndRow()
	}
	return nil
}
