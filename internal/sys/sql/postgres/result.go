package postgres

import (
	"encoding/binary"

	"tare/internal/sys/sql"
)

// Result is the result of a command. The caller keeps one for many commands; each begins it anew.
type Result struct {
	// Digest has the rows added up in Sum.
	Digest bool
	// Row, where set, is given each row. The columns are text, nil for NULL, and valid until it returns. Its first
	// error is the command's, when the server has said all.
	Row func(columns [][]byte) error
	// Copy, where set, is given what COPY TO STDOUT sends, as it comes.
	Copy func(data []byte) error

	Sum      sql.Sum // of the rows; of a COPY TO STDOUT, of its messages, which are lines
	Rows     uint64  // sent by the server
	Columns  uint64  // of the last result that has columns
	Bytes    uint64  // of rows as they travel, without their message headers
	Affected uint64  // rows that INSERT, UPDATE, DELETE, COPY and the like tell of
	Commands uint64  // completed; more than one for a text of several statements
	Notices  uint64  // notices and warnings
	// Suspended says that a portal has more rows than Execute asked for.
	Suspended bool

	columns [][]byte
	failed  error // of Row or Copy
}

// begin forgets the command before.
func (r *Result) begin() {
	r.Sum.Reset()
	r.Rows, r.Columns, r.Bytes, r.Affected, r.Commands, r.Notices = 0, 0, 0, 0, 0, 0
	r.Suspended, r.failed = false, nil
}

// row takes in a row that is there as a whole.
func (r *Result) row(body []byte) error {
	r.Rows++
	r.Bytes += uint64(len(body))
	if r.Digest {
		if err := r.digest(body); err != nil {
			return err
		}
	}
	if r.Row == nil || r.failed != nil {
		return nil
	}
	columns, err := split(r.columns[:0], body)
	if r.columns = columns; err != nil {
		return err
	}
	r.failed = r.Row(columns)
	return nil
}

// data takes in a message of a COPY.
func (r *Result) data(body []byte) {
	r.Rows++
	r.Bytes += uint64(len(body))
	if r.Digest {
		r.Sum.Value(body)
		r.Sum.EndRow()
	}
	if r.Copy != nil && r.failed == nil {
		r.failed = r.Copy(body)
	}
}

// digest adds a row up.
func (r *Result) digest(body []byte) error {
	if len(body) < 2 {
		return wrong("a row of %d bytes", len(body))
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	for range n {
		if len(body) < 4 {
			return wrong("a row that ends in a column")
		}
		size := int32(binary.BigEndian.Uint32(body))
		body = body[4:]
		if size == -1 {
			r.Sum.Null()
			continue
		}
		if size < 0 || int(size) > len(body) {
			return wrong("a column of %d bytes where %d are left", size, len(body))
		}
		r.Sum.Value(body[:size])
		body = body[size:]
	}
	r.Sum.EndRow()
	if len(body) > 0 {
		return wrong("%d bytes behind a row", len(body))
	}
	return nil
}

// split takes a row apart.
func split(to [][]byte, body []byte) ([][]byte, error) {
	if len(body) < 2 {
		return to, wrong("a row of %d bytes", len(body))
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	for range n {
		if len(body) < 4 {
			return to, wrong("a row that ends in a column")
		}
		size := int32(binary.BigEndian.Uint32(body))
		body = body[4:]
		switch {
		case size == -1:
			to = append(to, nil)
			continue
		case size < 0 || int(size) > len(body):
			return to, wrong("a column of %d bytes where %d are left", size, len(body))
		}
		to = append(to, body[:size:size])
		body = body[size:]
	}
	if len(body) > 0 {
		return to, wrong("%d bytes behind a row", len(body))
	}
	return to, nil
}

// complete takes in the tag of a command: "SELECT 5", "INSERT 0 5", "CREATE TABLE".
func (r *Result) complete(tag []byte) {
	r.Commands++
	if len(tag) > 0 && tag[len(tag)-1] == 0 {
		tag = tag[:len(tag)-1]
	}
	if len(tag) > 6 && string(tag[:6]) == "SELECT" || len(tag) > 4 && string(tag[:4]) == "SHOW" ||
		len(tag) > 5 && string(tag[:5]) == "FETCH" {
		return
	}
	n, digit := uint64(0), uint64(1)
	for i := len(tag) - 1; i >= 0 && tag[i] >= '0' && tag[i] <= '9'; i-- {
		n += uint64(tag[i]-'0') * digit
		digit *= 10
	}
	r.Affected += n
}
