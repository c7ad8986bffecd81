package mysql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"tare/internal/sys/sql"
)

// Config describes a connection.
type Config struct {
	Network  string // "tcp" or "unix"
	Address  string // a numeric address with a port, or the path of a socket
	User     string
	Password string
	Database string // "" for none
	// Secure encrypts the stream (see package secure); nil for no encryption. If the server does not support it, Dial
	// fails: user and password are never sent without it.
	Secure func(sql.Stream) (sql.Stream, error)
	// Collation is the number of the connection's collation; 0 means utf8mb4_general_ci.
	Collation byte
	// MultiStatements allows several statements in one query.
	MultiStatements bool
	// Untold needs a thread for each connection; see sql.Dial.
	Untold bool
	// Buffer is memory of sql.BufferSize bytes for this connection until it is closed; nil for its own. With it, many
	// connections one after the other need little memory.
	Buffer []byte

	without uint32 // capabilities that are switched off in tests
}

// Conn is a connection to a server. Only one goroutine may use it at a time.
type Conn struct {
	// Version is the server's version, such as 8.4.6 or 5.5.5-10.11.19-MariaDB.
	Version string
	// ID is the server's number of the connection.
	ID uint32

	s     sql.Stream
	dead  error // why the connection is unusable
	ended atomic.Bool

	in   []byte // in[r:w] is unread
	r, w int
	left int    // unread bytes of the current packet
	more bool   // the payload continues in another packet
	seq  byte   // number of the next packet, of either side
	out  []byte // the command
	big  []byte // a payload that does not fit into the buffer
	four [4]byte

	caps   uint32
	config Config
	plugin string
	nonce  []byte
	status uint16
	values [][]byte
	unseen Result
}

// Capabilities of clients and servers (MySQL Internals, "Capability Flags").
const (
	canLongPassword     = 1 << 0
	canLongFlag         = 1 << 2
	canConnectWithDB    = 1 << 3
	canProtocol41       = 1 << 9
	canSSL              = 1 << 11
	canTransactions     = 1 << 13
	canSecureConnection = 1 << 15
	canMultiStatements  = 1 << 16
	canMultiResults     = 1 << 17
	canPSMultiResults   = 1 << 18
	canPluginAuth       = 1 << 19
	canLenencAuth       = 1 << 21
	canDeprecateEOF     = 1 << 24
)

const (
	wants = canLongPassword | canLongFlag | canProtocol41 | canTransactions | canSecureConnection | canMultiResults |
		canPSMultiResults | canPluginAuth | canLenencAuth | canDeprecateEOF
	needs = canProtocol41 | canSecureConnection
)

// moreResults is the flag of the server's status that announces another result.
const moreResults = 1 << 3

// utf8mb4 is the number of utf8mb4_general_ci, which MySQL and MariaDB have from version 5.5.3 on.
const utf8mb4 = 45

// maxPacket is the largest payload that the client announces, in bytes. The server's own limit is max_allowed_packet.
const maxPacket = 1 << 30

// Commands (MySQL Internals, "Command Phase").
const (
	comQuit            = 0x01
	comInitDB          = 0x02
	comQuery           = 0x03
	comPing            = 0x0e
	comChangeUser      = 0x11
	comStmtPrepare     = 0x16
	comStmtExecute     = 0x17
	comStmtClose       = 0x19
	comStmtReset       = 0x1a
	comResetConnection = 0x1f
)

// Dial connects to a server and logs in; ctx limits the time. If the server refuses, the error wraps an *Error.
func Dial(ctx context.Context, config Config) (*Conn, error) {
	s, err := sql.Dial(ctx, config.Network, config.Address, config.Untold)
	if err != nil {
		return nil, err
	}
	return Open(ctx, s, config)
}

// Open logs in on an open stream; ctx limits the time. If it fails, it closes the stream.
func Open(ctx context.Context, s sql.Stream, config Config) (*Conn, error) {
	c := &Conn{s: s, in: sql.Buffer(config.Buffer), config: config}
	stop := context.AfterFunc(ctx, s.Interrupt)
	err := c.login()
	if !stop() && ctx.Err() != nil {
		err = fmt.Errorf("log in to the server: %w", ctx.Err())
	}
	if err != nil {
		_ = c.s.Close()
		_ = s.Close()
		return nil, err
	}
	return c, nil
}

// greeting is the server's first packet.
type greeting struct {
	version string
	id      uint32
	caps    uint32
	plugin  string
	nonce   []byte
}

// nonceLength is the number of random bytes that the server sends for the proof of the password.
const nonceLength = 20

var errGreeting = errors.New("the first packet is not the one of a MySQL server")

// parseGreeting reads the server's first packet (MySQL Internals, "HandshakeV10").
func parseGreeting(p []byte) (g greeting, err error) {
	if len(p) == 0 || p[0] != 10 {
		return g, errGreeting
	}
	version, p, ok := cut(p[1:])
	const fixed = 4 + 8 + 1 + 2 + 1 + 2 + 2 + 1 + 10
	if !ok || len(p) < fixed {
		return g, errGreeting
	}
	g.version = string(version)
	g.id = binary.LittleEndian.Uint32(p)
	g.nonce = append(g.nonce, p[4:12]...)
	g.caps = uint32(binary.LittleEndian.Uint16(p[13:])) | uint32(binary.LittleEndian.Uint16(p[18:]))<<16
	length := int(p[20])
	p = p[fixed:]
	if g.caps&needs != needs {
		return g, errors.New("the server is older than MySQL 4.1, which is not supported")
	}
	rest := max(13, length-8)
	if len(p) < rest {
		return g, errGreeting
	}
	g.nonce = append(g.nonce, p[:rest]...)[:nonceLength]
	if p = p[rest:]; g.caps&canPluginAuth != 0 {
		plugin, _, _ := cut(p)
		g.plugin = string(plugin)
	}
	return g, nil
}

// login does the connection phase of the protocol.
func (c *Conn) login() error {
	if err := c.begin(); err != nil {
		return err
	}
	p, err := c.whole(maxError)
	if err != nil {
		return err
	}
	if len(p) > 0 && p[0] == 0xff {
		return fmt.Errorf("log in to the server: %w", parseError(p))
	}
	g, err := parseGreeting(p)
	if err != nil {
		return c.violation("%w", err)
	}
	c.Version, c.ID, c.plugin, c.nonce = g.version, g.id, g.plugin, g.nonce
	c.caps = wants &^ c.config.without
	if c.config.Database != "" {
		c.caps |= canConnectWithDB
	}
	if c.config.MultiStatements {
		c.caps |= canMultiStatements
	}
	c.caps &= g.caps
	if c.config.Secure != nil {
		if err := c.secure(g.caps); err != nil {
			return err
		}
	}
	answer, err := c.answer()
	if err != nil {
		return err
	}
	c.prelude()
	c.out = append(append(c.out, c.config.User...), 0)
	if c.out, err = c.appendAnswer(c.out, answer, c.caps&canLenencAuth != 0); err != nil {
		return err
	}
	if c.caps&canConnectWithDB != 0 {
		c.out = append(append(c.out, c.config.Database...), 0)
	}
	if c.caps&canPluginAuth != 0 {
		c.out = append(append(c.out, c.plugin...), 0)
	}
	if err := c.send(nil); err != nil {
		return err
	}
	return c.authenticate()
}

// appendAnswer appends the proof of the password; long selects the form without a limit of 255 bytes.
func (c *Conn) appendAnswer(dst, answer []byte, long bool) ([]byte, error) {
	for _, text := range []string{c.config.User, c.config.Database} {
		if strings.ContainsRune(text, 0) {
			return nil, fmt.Errorf("log in to the server: %q contains a zero byte", text)
		}
	}
	if long {
		dst = appendLenenc(dst, uint64(len(answer)))
	} else {
		dst = append(dst, byte(len(answer)))
	}
	return append(dst, answer...), nil
}

func (c *Conn) collation() byte {
	if c.config.Collation == 0 {
		return utf8mb4
	}
	return c.config.Collation
}

// prelude writes the first part of the login, which is also the request for TLS, into c.out.
func (c *Conn) prelude() {
	c.out = append(c.out[:0], 0, 0, 0, 0)
	c.out = binary.LittleEndian.AppendUint32(c.out, c.caps)
	c.out = binary.LittleEndian.AppendUint32(c.out, maxPacket)
	c.out = append(append(c.out, c.collation()), make([]byte, 23)...)
}

// secure asks for TLS and encrypts the stream.
func (c *Conn) secure(server uint32) error {
	if server&canSSL == 0 {
		return errors.New("log in to the server: it does not support TLS, which the configuration requires")
	}
	c.caps |= canSSL
	c.prelude()
	if err := c.send(nil); err != nil {
		return err
	}
	if c.r != c.w {
		return c.violation("unencrypted data after the beginning of TLS")
	}
	s, err := c.config.Secure(c.s)
	if err != nil {
		return c.fail("begin TLS", err)
	}
	c.s = s
	return nil
}

// done reads the answer to a command that returns no rows.
func (c *Conn) done() error {
	c.unseen = Result{}
	return c.results(&c.unseen, false)
}

// Ping checks that the server answers.
func (c *Conn) Ping() error { return c.simple(comPing, nil) }

// InitDB changes the default database, as USE does.
func (c *Conn) InitDB(database string) error { return c.simple(comInitDB, []byte(database)) }

// ResetConnection resets the session: the transaction, variables, temporary tables and prepared statements.
func (c *Conn) ResetConnection() error { return c.simple(comResetConnection, nil) }

func (c *Conn) simple(kind byte, body []byte) error {
	if err := c.command(kind, body); err != nil {
		return err
	}
	return c.done()
}

// ChangeUser logs in again, as another user or the same, and resets the session. After an error of the server the
// connection may be closed.
func (c *Conn) ChangeUser(user, password, database string) error {
	c.config.User, c.config.Password, c.config.Database = user, password, database
	answer, err := c.answer()
	if err != nil {
		return err
	}
	if c.dead != nil {
		return c.dead
	}
	body := append([]byte(user), 0)
	if body, err = c.appendAnswer(body, answer, false); err != nil {
		return err
	}
	body = append(append(body, database...), 0)
	body = append(body, c.collation(), 0)
	body = append(append(body, c.plugin...), 0)
	if err := c.command(comChangeUser, body); err != nil {
		return err
	}
	return c.authenticate()
}

// Interrupt ends the connection, and a call that waits for the server. Any goroutine may call it.
func (c *Conn) Interrupt() {
	c.ended.Store(true)
	c.s.Interrupt()
}

// Dead returns the reason why the connection is unusable, or nil if it is usable.
func (c *Conn) Dead() error { return c.dead }

// InTransaction reports whether the session was in a transaction at the last answer of the server.
func (c *Conn) InTransaction() bool { return c.status&1 != 0 }

// Quit ends the session and closes the connection. It may be called more than once.
func (c *Conn) Quit() error {
	if c.dead == nil {
		_ = c.command(comQuit, nil) // the server may have closed the connection already
		c.dead = sql.ErrGone
	}
	return c.s.Close()
}
