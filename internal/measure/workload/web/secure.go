package web

import (
	"context"
	"io"
	"net/netip"
)

// Seal does the handshake of TLS on a connection and returns what is sent and received through it. Reading the
// connection may return a temporary error if nothing has come; the sealed one then returns it, and can be read again.
type Seal = func(io.ReadWriter) (io.ReadWriter, error)

// Secure makes a Seal for servers whose certificate has a name, and is signed by an authority in a PEM file, or "" for
// those of the system, and which agree to a protocol by its name in ALPN. It is nil in slim agents, which have no TLS.
var Secure func(name, authority, protocol string) (Seal, error)

// Resolve looks up the addresses of a host by DNS. It is nil in slim agents, which have no resolver.
var Resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)

// protocol is implemented by sealed connections.
type protocol interface {
	// Protocol is the version and the cipher.
	Protocol() string
}
