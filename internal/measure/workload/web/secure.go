package web

import "io"

// Seal does the handshake of TLS on a connection and returns what is sent and received through it. Reading the
// connection may return a temporary error if nothing has come; the sealed one then returns it, and can be read again.
type Seal = func(io.ReadWriter) (io.ReadWriter, error)

// protocol is implemented by sealed connections.
type protocol interface {
	// Protocol is the version and the cipher.
	Protocol() string
}
