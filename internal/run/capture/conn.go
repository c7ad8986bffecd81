package capture

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/sys/sql/mysql"
	"tare/internal/sys/sql/postgres"
	"tare/internal/sys/sql/secure"
)

// Target says how to reach a server.
type Target struct {
	Product   dbserver.Product `json:"product"`
	Address   string           `json:"address"` // the path of a socket, or a numeric address with a port
	User      string           `json:"user"`
	Secret    Secret           `json:"secret"`
	TLS       string           `json:"tls"`              // sql.TLSOff, TLSRequire or TLSVerify
	Authority string           `json:"tls_ca,omitempty"` // absolute path
}

func (t *Target) String() string { return fmt.Sprintf("%s at %s", t.Product, t.Address) }

// database is PostgreSQL's for administration.
const database = "postgres"

func (t *Target) socket() bool { return strings.HasPrefix(t.Address, "/") }

// near tells whether the server seems to be on this machine. A tunnel looks like it, too.
func (t *Target) near() bool {
	a, err := netip.ParseAddrPort(t.Address)
	return t.socket() || err == nil && a.Addr().IsLoopback()
}

// serverTimeout bounds the time of a server's answer, or of a change that it makes by itself.
const serverTimeout = 30 * time.Second

// conn is a connection to a server of either protocol.
type conn struct {
	ask       func(text string, row func([][]byte) error) error
	interrupt func()
	close     func() error
}

// dial connects to a server.
func dial(ctx context.Context, t *Target, getenv func(string) string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	password, err := t.password(getenv)
	if err != nil {
		return nil, err
	}
	encrypt, err := secure.For(t.Address, t.Authority, t.TLS)
	if err != nil {
		return nil, err
	}
	network := "tcp"
	if t.socket() {
		network = "unix"
	}
	if t.Product == dbserver.PostgreSQL {
		c, err := postgres.Dial(ctx, postgres.Config{Network: network, Address: t.Address, User: t.User,
			Password: password, Database: database, Secure: encrypt,
			Settings: map[string]string{"application_name": "tare"}})
		if err != nil {
			return nil, t.refused(err)
		}
		return &conn{func(text string, row func([][]byte) error) error {
			return c.Query([]byte(text), &postgres.Result{Row: row})
		}, c.Interrupt, c.Close}, nil
	}
	c, err := mysql.Dial(ctx, mysql.Config{Network: network, Address: t.Address, User: t.User, Password: password,
		Secure: encrypt})
	if err != nil {
		return nil, t.refused(err)
	}
	return &conn{func(text string, row func([][]byte) error) error {
		return c.Query([]byte(text), &mysql.Result{Row: row})
	}, c.Interrupt, c.Quit}, nil
}

// refused says who was not let in.
func (t *Target) refused(err error) error {
	return fmt.Errorf("connect to %s as user %q (%s): %w", t, t.User, t.Secret, err)
}

// rows runs a statement and returns its rows; NULL is "". After ctx has ended the connection is of no use.
func (c *conn) rows(ctx context.Context, format string, args ...any) (rows [][]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, c.interrupt)
	defer stop()
	err = c.ask(fmt.Sprintf(format, args...), func(values [][]byte) error {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = string(v)
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// value runs a statement and returns the first value of its only row.
func (c *conn) value(ctx context.Context, format string, args ...any) (string, error) {
	rows, err := c.rows(ctx, format, args...)
	if err == nil && (len(rows) != 1 || len(rows[0]) == 0) {
		err = fmt.Errorf("the server answers with %d rows where one is expected", len(rows))
	}
	if err != nil {
		return "", err
	}
	return rows[0][0], nil
}

// table runs a statement and returns its first column with its second one.
func (c *conn) table(ctx context.Context, format string, args ...any) (map[string]string, error) {
	rows, err := c.rows(ctx, format, args...)
	all := map[string]string{}
	for _, row := range rows {
		if len(row) > 1 {
			all[row[0]] = row[1]
		}
	}
	return all, err
}

// wait sleeps, and returns early if ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// until waits for something that the server does by itself, at most d.
func until(ctx context.Context, d time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
