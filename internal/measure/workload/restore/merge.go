package restore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds one line of a dump, in bytes.
const maxLine = 1 << 20

// lines reads lines without allocating: each is valid until the next is read.
type lines struct {
	r    *bufio.Reader
	what string // name of the stream, for messages
	n    int64
}

func newLines(what string) *lines {
	return &lines{r: bufio.NewReaderSize(nil, maxLine), what: what}
}

func (l *lines) reset(r io.Reader) {
	l.r.Reset(r)
	l.n = 0
}

// next returns the next line with its line break; io.EOF at the end.
func (l *lines) next() ([]byte, error) {
	p, err := l.r.ReadSlice('\n')
	l.n++
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, l.wrong("it is longer than %d bytes", maxLine)
	case errors.Is(err, io.EOF) && len(p) > 0:
		return nil, l.wrong("the stream ends within the line")
	}
	return nil, err
}

func (l *lines) wrong(format string, args ...any) error {
	return fmt.Errorf("merge: line %d of the %s: %s", l.n, l.what, fmt.Sprintf(format, args...))
}

// copyTable returns the table that a line begins to fill: "COPY posts (id, ...) FROM stdin;".
func copyTable(line []byte) (string, bool) {
	rest, ok := bytes.CutPrefix(line, []byte("COPY "))
	if !ok || !bytes.HasSuffix(bytes.TrimRight(rest, "\r\n"), []byte(" FROM stdin;")) {
		return "", false
	}
	name, _, ok := bytes.Cut(rest, []byte(" "))
	return string(name), ok && len(name) > 0
}

var endOfCopy = []byte("\\.\n")

// section is a stream inside the rows of a table, or between tables.
type section struct {
	*lines
	table string
	row   []byte // the next row; nil at the end of the rows
	key   int64
}

// advance reads the next row. Keys must ascend, or rows cannot be merged.
func (s *section) advance() error {
	last, first := s.key, s.row == nil
	line, err := s.next()
	if err == io.EOF {
		return s.wrong("the rows of %s have no end mark", s.table)
	}
	if err != nil {
		return err
	}
	if bytes.Equal(line, endOfCopy) {
		s.row = nil
		return nil
	}
	key, ok := rowKey(line)
	if !ok {
		return s.wrong("a row of %s does not begin with a key", s.table)
	}
	if !first && key <= last {
		return s.wrong("key %d of %s follows key %d: the stream is not in order", key, s.table, last)
	}
	s.row, s.key = line, key
	return nil
}

// rowKey reads the number before the first tabulator.
func rowKey(line []byte) (int64, bool) {
	var n int64
	for i, c := range line {
		if c == '\t' || c == '\n' {
			return n, i > 0
		}
		if c < '0' || c > '9' || n > (1<<63-10)/10 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return 0, false
}

// open goes on to the next section of a delta; the table is empty when there is none. Between sections a delta may have
// empty lines and comments.
func (s *section) open() error {
	s.table, s.row = "", nil
	for {
		line, err := s.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if name, ok := copyTable(line); ok {
			s.table = name
			return s.advance()
		}
		if text := strings.TrimSpace(string(line)); text != "" && !strings.HasPrefix(text, "--") {
			return s.wrong("a delta must contain only rows, not %.60q", text)
		}
	}
}

// merge writes the full dump with the rows of two deltas in it: in order of the keys, and where a key is in more than
// one stream the row of the later stream.
func merge(w io.Writer, dump *lines, deltas ...*lines) error {
	later := make([]*section, len(deltas))
	for i, d := range deltas {
		later[i] = &section{lines: d}
		if err := later[i].open(); err != nil {
			return err
		}
	}
	for {
		line, err := dump.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
		if name, ok := copyTable(line); ok {
			if err := mergeTable(w, &section{lines: dump, table: name}, later); err != nil {
				return err
			}
		}
	}
	for _, d := range later {
		if d.table != "" {
			return d.wrong("table %s is not in the dump, or in another order", d.table)
		}
	}
	return nil
}

// mergeTable merges the rows of the table that the dump has just come to.
func mergeTable(w io.Writer, dump *section, later []*section) error {
	if err := dump.advance(); err != nil {
		return err
	}
	streams := []*section{dump}
	for _, d := range later {
		if d.table == dump.table {
			streams = append(streams, d)
		}
	}
	for {
		var least *section
		for _, s := range streams {
			if s.row != nil && (least == nil || s.key <= least.key) {
				least = s // the last of equal keys
			}
		}
		if least == nil {
			break
		}
		key := least.key
		if _, err := w.Write(least.row); err != nil {
			return err
		}
		for _, s := range streams {
			if s.row != nil && s.key == key {
				if err := s.advance(); err != nil {
					return err
				}
			}
		}
	}
	if _, err := w.Write(endOfCopy); err != nil {
		return err
	}
	for _, d := range streams[1:] {
		if err := d.open(); err != nil {
			return err
		}
	}
	return nil
}
