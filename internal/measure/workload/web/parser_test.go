package web

import (
	"bytes"
	"strings"
	"testing"
)

// whole reads a response in pieces of n bytes, and then the end of the connection if it is not complete.
func whole(text string, n int) (r response, body string, err error) {
	r = newResponse()
	var got bytes.Buffer
	r.sink = func(p []byte) { got.Write(p) }
	done := false
	for p := []byte(text); len(p) > 0; {
		k := min(n, len(p))
		if done, err = r.feed(p[:k]); err != nil {
			return r, got.String(), err
		}
		p = p[k:]
	}
	if !done {
		err = r.ends()
	}
	return r, got.String(), err
}

func TestResponses(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, text, body string
		status           int
		close            bool
		err              string
	}{
		{name: "length", text: ok + "Server: x\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello"},
		{name: "no reason, bare line feeds, other case", text: "HTTP/1.1 404\ncONTENT-lENGTH:\t 2 \n\nno", status: 404,
			body: "no"},
		{name: "empty", text: ok + "Content-Length: 0\r\n\r\n", status: 200},
		{name: "the same length twice", text: ok + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", status: 200,
			body: "x"},
		{name: "no content", text: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "not modified tells a length and has no body",
			text: "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", status: 304},
		{name: "interim responses",
			text: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok +
				"Content-Length: 1\r\n\r\nx", status: 200, body: "x"},
		{name: "chunked", text: ok +
			"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;name=value\r\n world\r\n0\r\nTrailer: x\r\n\r\n",
			status: 200, body: "hello world"},
		{name: "until the end", text: ok + "\r\nhello", status: 200, close: true, body: "hello"},
		{name: "close", text: ok + "Connection: Keep-Alive, Close\r\nContent-Length: 1\r\n\r\nx", status: 200,
			close: true, body: "x"},
		{name: "old protocol", text: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", status: 200, close: true,
			body: "x"},
		{name: "old protocol kept", text: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
			status: 200, body: "x"},

		{name: "nothing", text: "", err: "before the response's header was complete"},
		{name: "half a head", text: ok + "Content-Le", err: "before the response's header was complete"},
		{name: "short", text: ok + "Content-Length: 5\r\n\r\nhel", err: "after 3 of 5 bytes"},
		{name: "long", text: ok + "Content-Length: 5\r\n\r\nhello, world", err: "bytes after the end of the response"},
		{name: "chunks cut", text: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
			err: "in the middle of a chunked body, after 5 bytes"},
		{name: "chunk longer than it says", text: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
			err: "longer than its announced size"},
		{name: "chunk without a size", text: ok + "Transfer-Encoding: chunked\r\n\r\n\r\n", err: "no size"},
		{name: "chunk of a negative size", text: ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
			err: "invalid size of a chunk"},
		{name: "chunk that overflows", text: ok + "Transfer-Encoding: chunked\r\n\r\n8000000000000000\r\n",
			err: "invalid size of a chunk"},
		{name: "two ways to read it", text: ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
			err: "which is ambiguous"},
		{name: "two lengths", text: ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", err: "two lengths"},
		{name: "a length that overflows", text: ok + "Content-Length: 99999999999999999999\r\n\r\n",
			err: "has the invalid length"},
		{name: "a negative length", text: ok + "Content-Length: -1\r\n\r\n", err: "has the invalid length"},
		{name: "compressed transfer", text: ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", err: "transfer encoding"},
		{name: "another protocol", text: "HTTP/1.1 101 Switching Protocols\r\n\r\n", err: "another protocol"},
		{name: "HTTP/2", text: "HTTP/2.0 200 OK\r\n\r\n", err: "not an HTTP/1 response"},
		{name: "SSH", text: "SSH-2.0-OpenSSH_9.2p1\r\n", err: "not an HTTP/1 response"},
		{name: "status of letters", text: "HTTP/1.1 abc OK\r\n\r\n", err: "not an HTTP/1 response"},
	} {
		for _, n := range []int{1, 3, 1 << 20} {
			r, body, err := whole(c.text, n)
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s in pieces of %d: %v, want %q", c.name, n, err, c.err)
				}
			case err != nil || r.status != c.status || body != c.body || r.body != int64(len(body)) ||
				r.close != c.close:
				t.Errorf("%s in pieces of %d: status %d, body %q, close %t, %v", c.name, n, r.status, body, r.close,
					err)
			}
		}
	}
}

// TestEndlessResponses: what has no end is given up, whichever part it is that has none.
func TestEndlessResponses(t *testing.T) {
	for name, c := range map[string]struct{ begin, more string }{
		"headers":   {"HTTP/1.1 200 OK\r\n", "X: y\r\n"},
		"a header":  {"HTTP/1.1 200 OK\r\nX: ", "y"},
		"interim":   {"", "HTTP/1.1 100 Continue\r\n\r\n"},
		"trailers":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n"},
		"extension": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "x"},
	} {
		r := newResponse()
		_, err := r.feed([]byte(c.begin))
		for range 2 * maxHead {
			if err != nil {
				break
			}
			_, err = r.feed([]byte(c.more))
		}
		if err == nil || !strings.Contains(err.Error(), "KiB") {
			t.Errorf("endless %s: %v", name, err)
		}
	}
}

// FuzzResponse: bytes of any kind are read within their bounds, and alike in whatever pieces they come.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 200 OK\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5;x\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(7))
	}
	f.Fuzz(func(t *testing.T, p []byte, n uint8) {
		one, oneBody, oneErr := whole(string(p), len(p)+1)
		many, manyBody, manyErr := whole(string(p), int(n)+1)
		if cap(many.line) > maxLine || cap(many.location) > maxLocation || int64(len(manyBody)) != many.body ||
			len(manyBody) > len(p) {
			t.Fatalf("%d bytes: a line of %d, a location of %d, a body of %d said to be %d", len(p), cap(many.line),
				cap(many.location), len(manyBody), many.body)
		}
		if oneErr == nil && manyErr == nil && (one.status != many.status || oneBody != manyBody ||
			one.close != many.close) {
			t.Fatalf("in one piece %d %q, in many %d %q", one.status, oneBody, many.status, manyBody)
		}
		// A line that comes in pieces is bounded where one in a buffer is not; else both are errors or neither.
		if (oneErr == nil) != (manyErr == nil) && len(p) < maxLine {
			t.Fatalf("in one piece %v, in many %v", oneErr, manyErr)
		}
	})
}
