// Package secure encrypts a client's connection to a server with TLS.
package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"tare/internal/sys/sql"
)

// Options say how the server's certificate is verified.
type Options struct {
	// Name is the host name in the server's certificate. If it is "" and Authority is set, every certificate that the
	// authority signed is valid.
	Name string
	// Authority is the path of a PEM file with the certificates of the authorities; "" means those of the system.
	Authority string
	// Unverified accepts every certificate. The connection is encrypted, but the server may be anybody.
	Unverified bool
}

// Config reads the files and returns the configuration for package tls.
func (o Options) Config() (*tls.Config, error) {
	c := &tls.Config{ServerName: o.Name, MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Unverified}
	if o.Authority != "" {
		text, err := os.ReadFile(o.Authority)
		if err != nil {
			return nil, fmt.Errorf("read the authority's certificate: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the authority's certificate: %s contains no certificate", o.Authority)
		}
	}
	if !o.Unverified && o.Name == "" {
		if o.Authority == "" {
			return nil, errors.New("verify the server's certificate: give the host name in the certificate, or the " +
				"file of an authority")
		}
		c.InsecureSkipVerify = true // chain verifies all but the name
		c.VerifyConnection = func(s tls.ConnectionState) error { return chain(s, c.RootCAs) }
	}
	return c, nil
}

// chain verifies that an authority signed the certificate. It does not look at the name.
func chain(s tls.ConnectionState, roots *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}

// For returns a function that encrypts connections to an address, nil for sql.TLSOff. Without the file of an authority,
// the server's certificate must name the address.
func For(address, authority, tls string) (func(sql.Stream) (sql.Stream, error), error) {
	if tls == sql.TLSOff {
		return nil, nil
	}
	o := Options{Authority: authority, Unverified: tls == sql.TLSRequire}
	if a, err := netip.ParseAddrPort(address); err == nil && authority == "" {
		o.Name = a.Addr().String()
	}
	c, err := o.Config()
	if err != nil {
		return nil, err
	}
	return Client(c), nil
}

// Client returns a function that does the handshake on a stream and returns the encrypted stream.
func Client(c *tls.Config) func(sql.Stream) (sql.Stream, error) {
	return func(s sql.Stream) (sql.Stream, error) {
		t := tls.Client(netConn{s}, c)
		if err := t.Handshake(); err != nil {
			return nil, err
		}
		return &Stream{Conn: t, below: s}, nil
	}
}

// HTTP returns a function that does the handshake for a version of HTTP, by its name in ALPN, on a connection and
// returns the encrypted one. The server's certificate must have the name, and be signed by an authority in the file, or
// "" by one of the system's. The server must agree to any protocol but HTTP/1.1.
func HTTP(name, authority, protocol string) (func(io.ReadWriter) (io.ReadWriter, error), error) {
	c, err := Options{Name: name, Authority: authority}.Config()
	if err != nil {
		return nil, err
	}
	c.NextProtos = []string{protocol}
	return func(over io.ReadWriter) (io.ReadWriter, error) {
		t := tls.Client(netConn{unclosed{over}}, c)
		err := t.Handshake()
		agreed := t.ConnectionState().NegotiatedProtocol
		switch {
		case err != nil && strings.HasSuffix(err.Error(), noProtocol),
			err == nil && protocol != "http/1.1" && agreed != protocol:
			return nil, fmt.Errorf("the server does not agree to %s (ALPN)", protocol)
		case err != nil:
			return nil, err
		}
		return tlsStream{t}, nil
	}, nil
}

// noProtocol is the text of package tls for the alert no_application_protocol (RFC 7301), which has no type there.
const noProtocol = "no application protocol"

// unclosed is a connection that somebody else closes.
type unclosed struct{ io.ReadWriter }

func (unclosed) Close() error { return nil }

// tlsStream has the protocol that its handshake agreed on.
type tlsStream struct{ *tls.Conn }

func (s tlsStream) Protocol() string {
	state := s.ConnectionState()
	return tls.VersionName(state.Version) + " " + tls.CipherSuiteName(state.CipherSuite)
}

// Stream is an encrypted stream.
type Stream struct {
	*tls.Conn
	below sql.Stream
}

// Interrupt makes all reads and writes fail.
func (s *Stream) Interrupt() { s.below.Interrupt() }

// Private returns true: the stream is encrypted.
func (s *Stream) Private() bool { return true }

// netConn makes a net.Conn of a stream. It has no deadlines: Interrupt ends a read or write that waits.
type netConn struct{ io.ReadWriteCloser }

func (netConn) LocalAddr() net.Addr              { return nil }
func (netConn) RemoteAddr() net.Addr             { return nil }
func (netConn) SetDeadline(time.Time) error      { return nil }
func (netConn) SetReadDeadline(time.Time) error  { return nil }
func (netConn) SetWriteDeadline(time.Time) error { return nil }
