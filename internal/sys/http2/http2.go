// Package http2 speaks HTTP/2 (RFC 9113) as a client. A session has no socket and no goroutine: it is fed with what has
// come and says what is to be sent, so that a loop over many connections can drive it.
//
// Frames are read and written here, because a load must not allocate for each of them, and because the package of
// golang.org/x/net that does it brings net/http, half a megabyte of an agent. Bodies are passed on without a copy. The
// compression of headers is that of golang.org/x/net.
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
