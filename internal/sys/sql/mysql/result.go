package mysql

import (
	"encoding/binary"

	"tare/internal/sys/sql"
)

// maxColumns is the limit for the number of columns of a result.
const maxColumns = 1<<16 - 1

// maxRow is the limit for a row that is passed to Result.Row, in bytes. Other rows have no limit.
const maxRow = 64 << 20

// Result counts the results of statements. Each query adds to the counters.
type Result struct {
	Results  int    // number of results, with rows or without
	Columns  int    // of the last result with rows
	Rows     uint64 // of all results
	Bytes    uint64 // size of these rows in the protocol
	Affected uint64
	InsertID uint64 // the last one
	Warnings uint64
	Sum      sql.Sum // of the rows, if Checksum is set

	// Checksum switches Sum on. In the text protocol it is the sum of the values. In the protocol of prepared
	// statements each row counts as one value with the row's encoding, which depends on the types of the columns.
	Checksum bool
	// Names, if set, is called for each result with rows, and Row for each row. The slices are valid until they return;
	// nil is NULL. A row of a prepared statement is one value, as above. After an error they are not called any more;
	// the query reads the remaining rows and returns that error.
	Names func(names [][]byte) error
	Row   func(values [][]byte) error
}

// Reset sets the counters and the sum to zero and keeps the rest.
func (r *Result) Reset() {
	*r = Result{Checksum: r.Checksum, Names: r.Names, Row: r.Row}
}

// Query runs a statement, or several if Config allows this, and reads all results. An error of the server is an *Error
// and ends the query. r may be nil.
func (c *Conn) Query(text []byte, r *Result) error {
	if err := c.command(comQuery, text); err != nil {
		return err
	}
	if r == nil {
		c.unseen = Result{}
		r = &c.unseen
	}
	return c.results(r, false)
}

// results reads all results of a query.
func (c *Conn) results(r *Result, prepared bool) error {
	names, row := r.Names, r.Row
	var first error
	for {
		err := c.result(r, prepared)
		if e, ok := err.(*receiver); ok {
			err, first = nil, e.error
		}
		if err != nil || c.status&moreResults == 0 {
			r.Names, r.Row = names, row
			if err == nil {
				err = first
			}
			return err
		}
	}
}

// receiver is an error of Result.Names or Result.Row.
type receiver struct{ error }

// result reads one result.
func (c *Conn) result(r *Result, prepared bool) error {
	if err := c.begin(); err != nil {
		return err
	}
	kind, err := c.first()
	if err != nil {
		return err
	}
	switch kind {
	case 0x00:
		p, err := c.whole(maxError)
		if err != nil {
			return err
		}
		ok, err := c.parseOK(p)
		if err != nil {
			return err
		}
		r.Results++
		r.Affected += ok.affected
		r.Warnings += uint64(ok.warnings)
		if ok.id != 0 {
			r.InsertID = ok.id
		}
		return nil
	case 0xff:
		return c.serverError()
	case 0xfb:
		return c.violation("the server asks for a local file, which the client did not offer")
	}
	p, err := c.whole(9)
	if err != nil {
		return err
	}
	columns, n := lenenc(p)
	if n != len(p) || columns == 0 || columns > maxColumns {
		return c.violation("a result of %d columns", columns)
	}
	r.Results++
	r.Columns = int(columns)
	refused := c.definitions(int(columns), r.Names)
	if refused != nil && !r.refused(refused) {
		return refused
	}
	if err := c.rows(r, prepared); err != nil {
		return err
	}
	return refused
}

// refused reports whether an error came from Names or Row, and then switches both off.
func (r *Result) refused(err error) bool {
	_, ok := err.(*receiver)
	if ok {
		r.Names, r.Row = nil, nil
	}
	return ok
}

// serverError reads an error packet.
func (c *Conn) serverError() error {
	p, err := c.whole(maxError)
	if err != nil {
		return err
	}
	c.status = 0
	return parseError(p)
}

// definitions reads the definitions of columns or parameters and calls names, if it is not nil, with the names.
func (c *Conn) definitions(n int, names func([][]byte) error) error {
	var list [][]byte
	for range n {
		if err := c.begin(); err != nil {
			return err
		}
		if names == nil {
			if err := c.skip(); err != nil {
				return err
			}
			continue
		}
		p, err := c.whole(maxDefinition)
		if err != nil {
			return err
		}
		const before = 4 // fields before the name: catalogue, schema, table, original table
		for i := range before + 1 {
			length, k := lenenc(p)
			if k == 0 || length > uint64(len(p)-k) {
				return c.violation("a truncated definition of a column")
			}
			if i == before {
				list = append(list, append([]byte(nil), p[k:k+int(length)]...))
			}
			p = p[k+int(length):]
		}
	}
	if c.caps&canDeprecateEOF == 0 {
		if err := c.begin(); err != nil {
			return err
		}
		if p, err := c.whole(maxEOF); err != nil {
			return err
		} else if len(p) == 0 || p[0] != 0xfe {
			return c.violation("no end of the definitions of columns")
		}
	}
	if names != nil {
		if err := names(list); err != nil {
			return &receiver{err}
		}
	}
	return nil
}

// maxDefinition is the limit for the definition of a column, in bytes.
const maxDefinition = 64 << 10

// maxEOF is the limit for an EOF packet, in bytes. Longer packets with the same first byte are rows.
const maxEOF = 8

// rows reads the rows of a result.
func (c *Conn) rows(r *Result, prepared bool) error {
	longest := maxEOF // length of a packet that can end the rows
	if c.caps&canDeprecateEOF != 0 {
		longest = maxChunk - 1
	}
	var refused error
	for {
		if err := c.begin(); err != nil {
			return err
		}
		kind, err := c.first()
		if err != nil {
			return err
		}
		switch {
		case kind == 0xfe && c.left <= longest:
			if err := c.end(r); err != nil {
				return err
			}
			return refused
		case kind == 0xff:
			return c.serverError()
		}
		r.Rows++
		if c.fits() {
			var p []byte
			if p, err = c.here(); err != nil {
				return err
			}
			r.Bytes += uint64(len(p))
			if r.Checksum || r.Row != nil {
				err = c.row(r, p, prepared)
			}
		} else {
			err = c.longRow(r, prepared)
		}
		if err != nil {
			if !r.refused(err) {
				return err
			}
			refused = err
		}
	}
}

// end reads the packet that ends the rows.
func (c *Conn) end(r *Result) error {
	p, err := c.whole(maxError)
	if err != nil {
		return err
	}
	if c.caps&canDeprecateEOF == 0 {
		if len(p) < 5 {
			return c.violation("an EOF packet of %d bytes", len(p))
		}
		r.Warnings += uint64(binary.LittleEndian.Uint16(p[1:]))
		c.status = binary.LittleEndian.Uint16(p[3:])
		return nil
	}
	ok, err := c.parseOK(p)
	r.Warnings += uint64(ok.warnings)
	return err
}

// row handles a row that is in memory.
func (c *Conn) row(r *Result, p []byte, prepared bool) error {
	if prepared {
		if r.Checksum {
			r.Sum.Value(p)
			r.Sum.EndRow()
		}
		c.values = append(c.values[:0], p)
		return c.deliver(r)
	}
	c.values = c.values[:0]
	for range r.Columns {
		if len(p) == 0 {
			return c.violation("a truncated row")
		}
		if p[0] == null {
			if r.Checksum {
				r.Sum.Null()
			}
			if r.Row != nil {
				c.values = append(c.values, nil)
			}
			p = p[1:]
			continue
		}
		length, n := uint64(p[0]), 1
		if p[0] > null {
			length, n = lenenc(p)
		}
		if n == 0 || length > uint64(len(p)-n) {
			return c.violation("a truncated row")
		}
		end := n + int(length)
		if r.Checksum {
			r.Sum.Value(p[n:end])
		}
		if r.Row != nil {
			c.values = append(c.values, p[n:end:end])
		}
		p = p[end:]
	}
	if len(p) > 0 {
		return c.violation("a row with more than %d values", r.Columns)
	}
	if r.Checksum {
		r.Sum.EndRow()
	}
	return c.deliver(r)
}

// null is NULL in a row of the text protocol.
const null = 0xfb

// deliver calls Result.Row.
func (c *Conn) deliver(r *Result) error {
	if r.Row == nil {
		return nil
	}
	if err := r.Row(c.values); err != nil {
		return &receiver{err}
	}
	return nil
}

// longRow handles a row that is larger than the buffer. It is kept in memory only for Result.Row.
func (c *Conn) longRow(r *Result, prepared bool) error {
	if r.Row != nil {
		p, err := c.whole(maxRow)
		if err != nil {
			return err
		}
		r.Bytes += uint64(len(p))
		err = c.row(r, p, prepared)
		if cap(c.big) > maxOut {
			c.big = nil
		}
		return err
	}
	if prepared || !r.Checksum {
		for {
			p, err := c.next()
			if err != nil {
				return err
			}
			if len(p) == 0 {
				break
			}
			r.Bytes += uint64(len(p))
			if r.Checksum {
				r.Sum.Part(p)
			}
		}
		if r.Checksum {
			r.Sum.End()
			r.Sum.EndRow()
		}
		return nil
	}
	return c.longText(r)
}

// longText computes the checksum of a row of the text protocol that is larger than the buffer.
func (c *Conn) longText(r *Result) error {
	var p []byte // unread bytes of the row that are in the buffer
	more := func() (err error) {
		if len(p) == 0 {
			if p, err = c.next(); err == nil && len(p) == 0 {
				err = c.violation("a truncated row")
			}
			r.Bytes += uint64(len(p))
		}
		return err
	}
	for range r.Columns {
		if err := more(); err != nil {
			return err
		}
		if p[0] == null {
			p = p[1:]
			r.Sum.Null()
			continue
		}
		var head [9]byte
		length, n := uint64(0), 0
		for k := 0; n == 0; { // the length may be split, too
			if err := more(); err != nil {
				return err
			}
			head[k] = p[0]
			p = p[1:]
			k++
			if length, n = lenenc(head[:k]); n == 0 && k == len(head) {
				return c.violation("an invalid length of a value, %#x", head[0])
			}
		}
		for length > 0 {
			if err := more(); err != nil {
				return err
			}
			k := min(length, uint64(len(p)))
			r.Sum.Part(p[:k])
			p = p[k:]
			length -= k
		}
		r.Sum.End()
	}
	if len(p) > 0 || c.left > 0 {
		return c.violation("a row with more than %d values", r.Columns)
	}
	r.Sum.EndRow()
	return c.skip() // a row whose length is a multiple of maxChunk ends with an empty packet
}

// okPacket is the answer to a statement without rows.
type okPacket struct {
	affected, id uint64
	warnings     uint16
}

// parseOK reads an OK packet (MySQL Internals, "OK_Packet") and stores the server's status.
func (c *Conn) parseOK(p []byte) (ok okPacket, err error) {
	var n, m int
	ok.affected, n = lenenc(p[1:])
	if n > 0 {
		ok.id, m = lenenc(p[1+n:])
	}
	if m == 0 || len(p) < 1+n+m+4 {
		return okPacket{}, c.violation("a truncated OK packet")
	}
	p = p[1+n+m:]
	c.status, ok.warnings = binary.LittleEndian.Uint16(p), binary.LittleEndian.Uint16(p[2:])
	return ok, nil
}
