package web

import (
	"bytes"
	"errors"
	"fmt"
)

// Bounds of a server's response, so that a hostile server costs neither memory nor time.
const (
	maxHead     = 64 << 10 // of a response, with interim ones before it and trailers after it
	maxLine     = 8 << 10  // a line that came in pieces
	maxLocation = 2 << 10  // of a redirect's target
	maxBody     = 1 << 50
)

// The parts of a response, in the order they come.
type part uint8

const (
	partStatus part = iota
	partHeader
	partLength    // exactly as many bytes as were announced
	partChunkSize // the line before a chunk
	partChunk
	partChunkEnd // the line break after a chunk
	partTrailer
	partToEnd // until the server closes
	partDone
)

// response reads one response after another from the bytes of a connection. Reading allocates nothing, except once for
// lines that come in pieces and for redirects, and for an error, which is the last.
type response struct {
	// The result so far.
	status int
	body   int64 // bytes, decoded
	close  bool  // the server closes the connection after this response
	// sink, where set, is handed the body's bytes, decoded; header the name and value of each header.
	sink   func([]byte)
	header func(name, value []byte)
	// bodiless says that responses have no body whatever they announce: they answer HEAD.
	bodiless bool

	part     part
	left     int64 // of the body or of the chunk
	length   int64 // announced; -1 if it is not
	chunked  bool
	minor    byte // of the protocol's version
	head     int  // bytes of lines so far
	location []byte
	line     []byte // the beginning of a line whose end has not come; made for the first such line
}

func newResponse() response { return response{length: -1} }

// reset makes it ready for the next response.
func (r *response) reset() {
	r.part, r.status, r.body, r.close, r.left, r.length, r.chunked, r.head = partStatus, 0, 0, false, 0, -1, false, 0
	r.line, r.location = r.line[:0], r.location[:0]
}

// untouched tells whether nothing of this response has arrived.
func (r *response) untouched() bool { return r.part == partStatus && r.head == 0 && len(r.line) == 0 }

// feed takes the next bytes and tells whether the response is complete. Bytes after its end are an error, because they
// answer no request.
func (r *response) feed(p []byte) (done bool, err error) {
	for len(p) > 0 {
		switch r.part {
		case partLength, partChunk, partToEnd:
			p = r.take(p)
		case partDone:
			return false, fmt.Errorf("the server sent %d bytes after the end of the response", len(p))
		default:
			var line []byte
			var whole bool
			if line, p, whole, err = r.next(p); err != nil || !whole {
				return false, err
			}
			if err := r.read(line); err != nil {
				return false, err
			}
			r.line = r.line[:0]
		}
	}
	return r.part == partDone, nil
}

// take takes bytes of the body and returns the rest.
func (r *response) take(p []byte) []byte {
	n := int64(len(p))
	if r.part != partToEnd {
		n = min(n, r.left)
		r.left -= n
	}
	r.body += n
	if r.sink != nil {
		r.sink(p[:n])
	}
	if r.left == 0 && r.part == partLength {
		r.part = partDone
	} else if r.left == 0 && r.part == partChunk {
		r.part = partChunkEnd
	}
	return p[n:]
}

// next returns the line that p begins with or continues, without its break, and the rest of p.
func (r *response) next(p []byte) (line, rest []byte, whole bool, err error) {
	i := bytes.IndexByte(p, '\n')
	n := i + 1
	if i < 0 {
		n = len(p)
	}
	// There are as many lines between chunks as chunks, so only each line is bounded.
	if r.part != partChunkSize && r.part != partChunkEnd {
		r.head += n
	}
	if r.head > maxHead {
		return nil, nil, false, fmt.Errorf("the header of a response is larger than %d KiB", maxHead>>10)
	}
	if len(r.line)+n > maxLine && (i < 0 || len(r.line) > 0) {
		return nil, nil, false, fmt.Errorf("a line of a response is longer than %d KiB", maxLine>>10)
	}
	if i < 0 {
		if r.line == nil {
			r.line = make([]byte, 0, maxLine)
		}
		r.line = append(r.line, p...)
		return nil, nil, false, nil
	}
	line = p[:i]
	if len(r.line) > 0 {
		r.line = append(r.line, line...)
		line = r.line
	}
	if k := len(line); k > 0 && line[k-1] == '\r' {
		line = line[:k-1]
	}
	return line, p[n:], true, nil
}

// read parses a line by its place in the response.
func (r *response) read(line []byte) error {
	switch r.part {
	case partStatus:
		return r.readStatus(line)
	case partHeader:
		if len(line) == 0 {
			return r.headEnds()
		}
		return r.readHeader(line)
	case partChunkSize:
		return r.readChunkSize(line)
	case partChunkEnd:
		if len(line) > 0 {
			return errors.New("a chunk is longer than its announced size")
		}
		r.part = partChunkSize
	case partTrailer:
		if len(line) == 0 {
			r.part = partDone
		}
	}
	return nil
}

// readStatus reads "HTTP/1.1 200 OK".
func (r *response) readStatus(line []byte) error {
	const form = "HTTP/1.x nnn"
	if len(line) < len(form) || string(line[:7]) != "HTTP/1." || line[7] < '0' || line[7] > '9' || line[8] != ' ' ||
		len(line) > len(form) && line[len(form)] != ' ' {
		return fmt.Errorf("this is not an HTTP/1 response: it begins with %q", line[:min(len(line), 40)])
	}
	r.status = 0
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return fmt.Errorf("this is not an HTTP/1 response: its status is %q", line[9:12])
		}
		r.status = 10*r.status + int(c-'0')
	}
	if r.status < 100 {
		return fmt.Errorf("the response has the invalid status %q", line[9:12])
	}
	r.minor = line[7] - '0'
	r.close = r.minor == 0
	r.part = partHeader
	return nil
}

// readHeader parses the headers that determine the end of the response.
func (r *response) readHeader(line []byte) error {
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		return nil // also the continuation of another header's line; the relevant headers must not be continued
	}
	name, value := line[:i], line[i+1:]
	if r.header != nil {
		r.header(name, trim(value))
	}
	switch {
	case is(name, "content-length"):
		return r.readLength(trim(value))
	case is(name, "transfer-encoding"):
		if !is(trim(value), "chunked") {
			return fmt.Errorf("the response has the transfer encoding %q; only chunked is supported",
				trim(value)[:min(len(trim(value)), 40)])
		}
		r.chunked = true
	case is(name, "connection"):
		for len(value) > 0 {
			var token []byte
			if i := bytes.IndexByte(value, ','); i >= 0 {
				token, value = trim(value[:i]), value[i+1:]
			} else {
				token, value = trim(value), nil
			}
			switch {
			case is(token, "close"):
				r.close = true
			case is(token, "keep-alive") && r.minor == 0:
				r.close = false
			}
		}
	case is(name, "location"):
		v := trim(value)
		if len(v) > maxLocation {
			return fmt.Errorf("the target of a redirect is longer than %d KiB", maxLocation>>10)
		}
		r.location = append(r.location[:0], v...)
	}
	return nil
}

func (r *response) readLength(v []byte) error {
	n := int64(0)
	for _, c := range v {
		if c < '0' || c > '9' || n > maxBody/10 {
			return fmt.Errorf("the response has the invalid length %q", v[:min(len(v), 40)])
		}
		n = 10*n + int64(c-'0')
	}
	if len(v) == 0 || r.length >= 0 && r.length != n {
		return errors.New("the response has two lengths, or an empty length")
	}
	r.length = n
	return nil
}

// headEnds decides how the body is delimited (RFC 9112, section 6.3).
func (r *response) headEnds() error {
	switch {
	case r.status == 101:
		return errors.New("the server switches to another protocol, which was not requested")
	case r.status < 200: // an interim response; the bound on heads holds for all of them
		r.part, r.length, r.chunked = partStatus, -1, false
	case r.status == 204 || r.status == 304 || r.bodiless:
		r.part = partDone
	case r.chunked && r.length >= 0:
		return errors.New("the response has both a length and chunks, which is ambiguous")
	case r.chunked:
		r.part = partChunkSize
	case r.length == 0:
		r.part = partDone
	case r.length > 0:
		r.part, r.left = partLength, r.length
	default:
		r.part, r.close = partToEnd, true
	}
	return nil
}

// readChunkSize reads a chunk's size, in hexadecimal, and ignores everything after a semicolon.
func (r *response) readChunkSize(line []byte) error {
	n, digits := int64(0), 0
	for _, c := range line {
		var d byte
		switch {
		case c >= '0' && c <= '9':
			d = c - '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			d = c | 0x20 - 'a' + 10
		case (c == ';' || c == ' ' || c == '\t') && digits > 0:
			d = 16
		default:
			return fmt.Errorf("the invalid size of a chunk is %q", line[:min(len(line), 40)])
		}
		if d == 16 {
			break
		}
		if n = n<<4 | int64(d); n > maxBody {
			return fmt.Errorf("the invalid size of a chunk is %q", line[:min(len(line), 40)])
		}
		digits++
	}
	switch {
	case digits == 0:
		return errors.New("a chunk has no size")
	case n == 0:
		r.part = partTrailer
	default:
		r.part, r.left = partChunk, n
	}
	return nil
}

// ends handles the end of the connection and tells whether the response is complete.
func (r *response) ends() error {
	switch r.part {
	case partToEnd:
		r.part = partDone
		return nil
	case partLength:
		return fmt.Errorf("the server closed the connection after %d of %d bytes of the body", r.body, r.length)
	case partStatus, partHeader:
		return errors.New("the server closed the connection before the response's header was complete")
	}
	return fmt.Errorf("the server closed the connection in the middle of a chunked body, after %d bytes", r.body)
}

// is compares a name with one in lower case.
func is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// trim takes off the blanks around a value.
func trim(v []byte) []byte {
	for len(v) > 0 && (v[0] == ' ' || v[0] == '\t') {
		v = v[1:]
	}
	for len(v) > 0 && (v[len(v)-1] == ' ' || v[len(v)-1] == '\t') {
		v = v[:len(v)-1]
	}
	return v
}
