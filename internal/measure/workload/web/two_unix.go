//go:build unix

package web

import (
	"errors"

	"tare/internal/sys/http2"
)

// language is a version of HTTP beside 1.1.
type language interface {
	lane(l *lane, connections int) multiplexer
	request(scheme string, text []byte) (*http2.Request, error)
	fetch(l *load, at *hop, buf []byte, r *response, sink func([]byte)) (exchange, error)
}

// multiplexer is the connections of a lane that have several requests at a time.
type multiplexer interface {
	ask(i int) error   // sends the request of a place
	serve(i int) error // continues with a connection that is ready
	send() error       // sends what has been queued
	shut(i int)        // has the next request of a place use another connection
	end()              // closes all
	holds(i int) bool  // tells whether a request waits for the server to make room for it
}

// two is HTTP/2. It is nil in slim agents, which have none.
var two language

// slots is how many requests so many connections have at a time; sockets how many of those may be open.
func (l *load) slots(connections int) int {
	if l.two == nil {
		return connections
	}
	return connections * l.streams
}

func (l *load) sockets(connections int) int {
	if l.two == nil {
		return connections
	}
	return 2 * connections
}

// languageOf is a version of HTTP; nil for 1.1.
func languageOf(version string) (language, error) {
	if version == version2 && two == nil {
		return nil, errors.New("http=2: this agent has no HTTP/2, as slim agents have none; use a tare without " +
			"bundled agents (go build ./cmd/tare) in the environment, or http=1.1")
	}
	if version != version2 {
		return nil, nil
	}
	return two, nil
}

// fetch is a request outside the timed section, over the load's version of HTTP.
func (l *load) fetch(at *hop, buf []byte, r *response, sink func([]byte)) (x exchange, err error) {
	if l.two != nil {
		return l.two.fetch(l, at, buf, r, sink)
	}
	return fetchOver(l.seal, l.addr, at.bytes, l.timeout, buf, r, sink)
}
