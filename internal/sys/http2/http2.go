// Package http2 is what a client of HTTP/2 asks of its library, and what it is told. It is separate from package
// frames, which has the library: that brings net/http and TLS, which a slim agent is too small for.
package http2

// Field is a field of a request's header. Its name is in lower case.
type Field struct{ Name, Value string }

// Request is a request that is ready to be sent any number of times: its header as it is encoded for the first request
// of a connection, for all that follow, and for a server that keeps no table of fields.
type Request struct {
	First, Later, Plain []byte
	Body                []byte
	// Bodiless says that its response has no body whatever it announces: it is HEAD.
	Bodiless bool
}

// Head is what is read of a response's header.
type Head struct {
	Status   int
	Length   int64 // announced; -1 if it is not
	Location string
}

// Memo keeps what headers say, because a server repeats them. Sessions of one goroutine may share one.
type Memo any

// Client is told what comes. Streams are known by places, which the client gives them. An error of one of the methods
// is what Feed returns.
type Client interface {
	// Allows is told how many streams the server allows at a time.
	Allows(streams uint32) error
	// Field is a field of a response's header, if the session has no memo.
	Field(place int, name, value string)
	// Head is the header of a response.
	Head(place int, h *Head) error
	// Data is a part of its body.
	Data(place int, p []byte) error
	// Done is its end. The place is free, and may be asked for again at once.
	Done(place int) error
	// Leaves says that the server takes no more requests on this connection, and finishes those that it has taken.
	Leaves()
	// Unasked is a request that a server which leaves has not taken and that must be sent elsewhere.
	Unasked(place int) error
}

// Session is one connection, without its socket. It is not safe for concurrent use.
type Session interface {
	// Reset begins a new connection.
	Reset()
	// Ask queues a request at a place, which must be free.
	Ask(place int, r *Request)
	// Feed takes the next bytes from the server.
	Feed(p []byte) error
	// Pending is what is to be sent; it is valid until the next call. Sent takes off its beginning.
	Pending() []byte
	Sent(n int)
	// Active is the number of places that are not free; Asked tells whether one is.
	Active() int
	Asked(place int) bool
	// Uploads tells whether the server has not made room yet for the rest of a request's body.
	Uploads(place int) bool
	// Full tells whether the connection has had as many streams as one can have.
	Full() bool
}

// Library makes requests and sessions.
type Library interface {
	Request(method, scheme, authority, path string, header []Field, body []byte) *Request
	// Session makes one with places for streams. Without a memo, nil, each field of each header is told.
	Session(c Client, places int, m Memo) Session
	Memo() Memo
}
