package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"tare/internal/sys/sql"
)

// Config says how a server is reached and as whom.
type Config struct {
	Network  string // "tcp" or "unix"
	Address  string // address and port in numbers, or the path of a socket
	User     string
	Password string // "" for a server that asks for none
	Database string // "" means the one that is called as the user
	// Secure, where set, makes the connection one by TLS, and verifies the server as far as it was told to. A server
	// without TLS is then an error, never a connection in the clear.
	Secure func(sql.Stream) (sql.Stream, error)
	// ReadOnly has every transaction begin read-only, unless it says otherwise itself. That it may not is for whoever
	// chooses the statements to see to; a session that turns the setting off is ended where the server tells of it
	// (from PostgreSQL 14 on).
	ReadOnly bool
	// Settings are of the session: "application_name".
	Settings map[string]string
	// Untold says that waits need not be told to Go's scheduler; see sql.Dial.
	Untold bool
	// Buffer is memory of sql.BufferSize bytes for this connection until it is closed; nil for its own. With it, many
	// connections one after the other need little memory.
	Buffer []byte
	// Notice, where set, is given each notice, warning and notification of a message.
	Notice func(*Error)
}

// buffer is how much is read at a time at the most, in bytes.
const buffer = sql.BufferSize

// maxKept is how much memory is kept for the commands to come, in bytes.
const maxKept = 1 << 20

// MaxRow bounds a row that a caller is given, in bytes. Rows that are only counted and added up may have any size.
const MaxRow = 64 << 20

// maxSettings bounds what a server may tell of its settings.
const maxSettings = 128

// Conn is a connection to a server. One goroutine uses it at a time; Interrupt and Cancel may be called from others.
type Conn struct {
	config Config
	s      sql.Stream
	dead   error // why it cannot be used any more

	in   []byte
	r, w int    // of in: the bytes received and not taken
	left int    // of the message that has begun, not taken
	big  []byte // a message that is wanted as a whole and longer than in

	out  []byte // the messages of the unit at hand
	unit error  // why that cannot be sent
	// extended says that the unit is one of the extended protocol.
	extended bool
	// after is where in out the first message stands at whose answer the server may come to wait; 0 for none.
	after int

	settings map[string]string
	status   byte // of the transaction: 'I' none, 'T' in one, 'E' in one that failed
	pid, key uint32
	none     Result
}

// Dial connects to a server and introduces itself. ctx bounds both, not the connection.
func Dial(ctx context.Context, config Config) (*Conn, error) {
	c, err := open(ctx, config)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.s.Interrupt)
	err = c.startUp()
	if !stop() && err == nil {
		err = ctx.Err() // it is being interrupted
	}
	if err == nil && config.ReadOnly {
		err = c.readOnly()
	}
	if err != nil {
		_ = c.s.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("connect to PostgreSQL at %s: %w", config.Address, err)
	}
	return c, nil
}

// open makes the connection, by TLS where that is wanted.
func open(ctx context.Context, config Config) (*Conn, error) {
	s, err := sql.Dial(ctx, config.Network, config.Address, config.Untold)
	if err != nil {
		return nil, err
	}
	c := newConn(s, config)
	if config.Secure == nil {
		return c, nil
	}
	stop := context.AfterFunc(ctx, s.Interrupt)
	if err = c.askForTLS(); err == nil {
		c.s, err = config.Secure(s)
	}
	if !stop() && err == nil {
		err = ctx.Err() // it is being interrupted
	}
	if err != nil {
		_ = s.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("begin TLS with PostgreSQL at %s: %w", config.Address, err)
	}
	return c, nil
}

func newConn(s sql.Stream, config Config) *Conn {
	return &Conn{s: s, config: config, in: sql.Buffer(config.Buffer), settings: map[string]string{}}
}

// The numbers that stand where a version does, in messages without a type (protocol, "Message Formats").
const (
	version3      = 3 << 16
	requestCancel = 1234<<16 | 5678
	requestTLS    = 1234<<16 | 5679
)

// askForTLS asks the server to go on by TLS. Not a byte more than its answer is read: what came behind it in the clear
// would be taken for the server's.
func (c *Conn) askForTLS() error {
	var text [8]byte
	binary.BigEndian.PutUint32(text[:], 8)
	binary.BigEndian.PutUint32(text[4:], requestTLS)
	if _, err := c.s.Write(text[:]); err != nil {
		return err
	}
	n, err := c.s.Read(text[:1])
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case n != 1:
		return io.ErrNoProgress
	case text[0] == 'N':
		return errors.New("the server has no TLS")
	case text[0] != 'S':
		return wrong("%q for an answer", text[0])
	}
	return nil
}

// startUp introduces the client and waits until the server takes commands.
func (c *Conn) startUp() error {
	c.out = append(c.out[:0], 0, 0, 0, 0)
	c.out = binary.BigEndian.AppendUint32(c.out, version3)
	fields := []string{"user", c.config.User, "client_encoding", "UTF8"}
	if c.config.Database != "" {
		fields = append(fields, "database", c.config.Database)
	}
	if c.config.ReadOnly {
		fields = append(fields, readOnlySetting, "on")
	}
	for name, value := range c.config.Settings {
		fields = append(fields, name, value)
	}
	for _, f := range fields {
		c.out = c.text(c.out, f)
	}
	c.out = append(c.out, 0)
	binary.BigEndian.PutUint32(c.out, uint32(len(c.out)))
	if err := c.flush(); err != nil {
		return err
	}
	login := login{c: c}
	for {
		kind, body, err := c.message(buffer)
		if err != nil {
			return err
		}
		switch kind {
		case 'R':
			if err := login.step(body); err != nil {
				return err
			}
		case 'K':
			if len(body) < 8 {
				return wrong("a key of %d bytes", len(body))
			}
			c.pid, c.key = binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
		case 'E':
			return login.explain(parseError(body))
		case 'Z':
			if !login.done {
				return wrong("it is ready before it let the client in")
			}
			return c.ready(body)
		case 'v':
			return errors.New("the server does not know a setting that was asked for")
		default:
			if err := c.aside(kind, body); err != nil {
				return err
			}
		}
	}
}

// text appends a string with the zero byte that ends it. One with such a byte in it cannot be sent.
func (c *Conn) text(to []byte, s string) []byte {
	for i := range len(s) {
		if s[i] == 0 {
			c.refuse(errZero)
		}
	}
	return append(append(to, s...), 0)
}

var errZero = errors.New("text with a zero byte in it cannot be sent to PostgreSQL")

// refuse keeps the first reason why the unit at hand cannot be sent.
func (c *Conn) refuse(err error) {
	if c.unit == nil {
		c.unit = err
	}
}

const readOnlySetting = "default_transaction_read_only"

// readOnly makes sure that the setting is in force: something between here and the server may have dropped it.
func (c *Conn) readOnly() error {
	var is string
	r := Result{Row: func(columns [][]byte) error {
		is = string(columns[0])
		return nil
	}}
	if err := c.Query([]byte("SHOW "+readOnlySetting), &r); err != nil {
		return err
	}
	if is != "on" {
		return fmt.Errorf("the session is not read-only: %s is %q", readOnlySetting, is)
	}
	return nil
}

// Setting is the value of a setting that the server tells of unasked, such as "server_version"; "" when it did not.
func (c *Conn) Setting(name string) string { return c.settings[name] }

// Status is the state of the transaction: 'I' when there is none, 'T' in one, 'E' in one that failed.
func (c *Conn) Status() byte { return c.status }

// PID is the number of the server's process that serves this connection, by the server's word.
func (c *Conn) PID() uint32 { return c.pid }

// Broken is why the connection is of no use any more; nil while it is.
func (c *Conn) Broken() error { return c.dead }

// Interrupt gives the connection up: whoever waits for an answer gets an error. Any goroutine may call it.
func (c *Conn) Interrupt() { c.s.Interrupt() }

// Cancel asks the server, on a connection of its own, to cancel the command at hand. Whether it does shows in that
// command's answer. Any goroutine may call it.
func (c *Conn) Cancel(ctx context.Context) error {
	x, err := open(ctx, c.config)
	if err != nil {
		return err
	}
	defer x.s.Close()
	defer context.AfterFunc(ctx, x.s.Interrupt)()
	var text [16]byte
	for i, n := range []uint32{16, requestCancel, c.pid, c.key} {
		binary.BigEndian.PutUint32(text[4*i:], n)
	}
	if _, err := x.s.Write(text[:]); err != nil {
		return fmt.Errorf("cancel a command: %w", err)
	}
	// The server closes the connection when it has passed the request on.
	if _, err := x.s.Read(text[:1]); err != io.EOF && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// Close takes leave and closes the connection. It must be called, also when the connection is broken.
func (c *Conn) Close() error {
	if c.dead != nil {
		_ = c.s.Close() // which cannot take leave any more
		return nil
	}
	_, err := c.s.Write([]byte{'X', 0, 0, 0, 4})
	c.dead = fmt.Errorf("%w: it was closed", sql.ErrGone)
	return errors.Join(err, c.s.Close())
}
