// Package sql contains the common parts of the clients for database servers: sockets, passwords in files, the interface
// to encrypted connections, and checksums of results.
//
// It is opinionated about speed: a client needs as few system calls as possible, stores no row unless the caller wants
// it, and does not allocate memory for a query.
package sql

import (
	"errors"
	"io"
)

// ErrGone is wrapped by every error after which a connection is unusable: the server closed it or crashed, the network
// failed, or the server violated the protocol.
var ErrGone = errors.New("the connection to the server is lost")

// Stream is a connection to a server. Only one goroutine may read or write at a time.
type Stream interface {
	io.ReadWriteCloser
	// Interrupt makes all reads and writes fail, including one that waits. Any goroutine may call it at any time.
	Interrupt()
	// Private reports whether nobody can listen on the connection: it is a Unix socket, or it is encrypted.
	Private() bool
}

// BufferSize is the size of a client's buffer for what a server sends, in bytes.
const BufferSize = 64 << 10

// Buffer returns a client's buffer: b if it is large enough, else a new one.
func Buffer(b []byte) []byte {
	if cap(b) < BufferSize {
		b = make([]byte, BufferSize)
	}
	return b[:BufferSize]
}
