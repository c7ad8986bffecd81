//go:build unix

package web

// slots is the number of requests that so many connections have at a time; sockets the number of those that may be
// open.
func (l *load) slots(connections int) int {
	if !l.two {
		return connections
	}
	return connections * l.streams
}

func (l *load) sockets(connections int) int {
	if !l.two {
		return connections
	}
	return 2 * connections
}

// fetch is a request outside the timed section, over the load's version of HTTP.
func (l *load) fetch(at *hop, buf []byte, r *response, sink func([]byte)) (x exchange, err error) {
	if l.two {
		return fetchMuxed(l, at, buf, r, sink)
	}
	return fetchOver(l.seal, l.addr, at.bytes, l.timeout, buf, r, sink)
}
