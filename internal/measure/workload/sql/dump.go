package sql

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"tare/internal/sys/sql/lex"
)

// maxDumped bounds a statement of a dump, in bytes.
const maxDumped = 256 << 20

// dump reads the statements of a dump: of mysqldump, mariadb-dump or pg_dump, or any others with semicolons between
// them.
type dump struct {
	src     io.Reader
	options lex.Options
	buf     []byte // what was read and not used
	ended   bool   // the source has
	until   []byte // what ends a statement instead of a semicolon; nil for none
}

// more reads more, at least as much as there is.
func (d *dump) more() error {
	if len(d.buf) > maxDumped {
		return fmt.Errorf("a statement has more than %d MiB", maxDumped>>20)
	}
	n := len(d.buf)
	d.buf = append(d.buf, make([]byte, max(n, 1<<20))...)
	k, err := io.ReadFull(d.src, d.buf[n:])
	d.buf = d.buf[:n+k]
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		d.ended, err = true, nil
	}
	return err
}

// line returns the line at the beginning with its end, without taking it.
func (d *dump) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(d.buf, '\n'); i >= 0 {
			return d.buf[:i+1], nil
		}
		if d.ended {
			return d.buf, nil
		}
		if err := d.more(); err != nil {
			return nil, err
		}
	}
}

// next returns the next statement, or io.EOF. It is valid until the next call of any method.
func (d *dump) next() ([]byte, error) {
	for {
		if found, err := d.between(); err != nil {
			return nil, err
		} else if found {
			continue
		}
		if len(d.buf) == 0 {
			return nil, io.EOF
		}
		text, used, whole := d.statement()
		switch {
		case !whole && !d.ended:
			if err := d.more(); err != nil {
				return nil, err
			}
			continue
		case !whole:
			text, used = bytes.TrimSpace(d.buf), len(d.buf)
		}
		d.buf = d.buf[used:]
		if len(text) > 0 {
			return text, nil
		}
	}
}

// statement looks for the end of the statement at the beginning.
func (d *dump) statement() (text []byte, used int, whole bool) {
	if d.until == nil {
		s, end, whole := lex.Next(d.buf, d.options)
		return d.buf[s.Start:s.End], end, whole
	}
	for at := 0; ; {
		i := bytes.Index(d.buf[at:], d.until)
		if i < 0 {
			return nil, 0, false
		}
		end := at + i
		at = end + len(d.until)
		if at < len(d.buf) && d.buf[at] != '\n' && d.buf[at] != '\r' {
			continue // it is a part of the statement
		}
		return bytes.TrimSpace(d.buf[:end]), at, true
	}
}

// between takes a line that is empty, a comment, or a command of the client program. It returns false for any other.
func (d *dump) between() (bool, error) {
	line, err := d.line()
	if err != nil || len(line) == 0 {
		return false, err
	}
	text := bytes.TrimSpace(line)
	word, rest, _ := bytes.Cut(text, []byte(" "))
	switch {
	case len(text) == 0, bytes.HasPrefix(text, []byte("--")):
	case d.options.Dialect == lex.MySQL && bytes.EqualFold(word, []byte("delimiter")):
		if d.until = bytes.Clone(bytes.TrimSpace(rest)); string(d.until) == ";" {
			d.until = nil
		}
	case d.options.Dialect == lex.PostgreSQL && text[0] == '\\':
		if string(word) != `\restrict` && string(word) != `\unrestrict` {
			return false, fmt.Errorf("%.60q is a command of psql: use a dump of one database, made without --create",
				text)
		}
	default:
		return false, nil
	}
	d.buf = d.buf[len(line):]
	return true, nil
}

// isCopy tells whether rows follow a statement.
func (d *dump) isCopy(text []byte) bool {
	return d.options.Dialect == lex.PostgreSQL && len(text) > 5 && bytes.EqualFold(text[:5], []byte("copy ")) &&
		bytes.HasSuffix(bytes.ToLower(text[max(0, len(text)-20):]), []byte(" from stdin"))
}

// rows goes to the first row behind a COPY.
func (d *dump) rows() error {
	line, err := d.line()
	if len(bytes.TrimSpace(line)) == 0 {
		d.buf = d.buf[len(line):]
	}
	return err
}

// row returns the next row of a COPY, or io.EOF behind the last one.
func (d *dump) row() ([]byte, error) {
	line, err := d.line()
	if err != nil {
		return nil, err
	}
	if len(line) == 0 {
		return nil, errors.New("the dump ends amid the rows of a COPY")
	}
	d.buf = d.buf[len(line):]
	if string(bytes.TrimRight(line, "\r\n")) == `\.` {
		return nil, io.EOF
	}
	return line, nil
}
