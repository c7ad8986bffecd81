package history

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrPassword is returned for an address with a password in it where others can read it.
var ErrPassword = errors.New("a password does not belong on a command line")

// IsServer tells whether a store's address is that of a server and not a file.
func IsServer(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// secrets are the parameters of a URL that nobody else should read.
var secrets = []string{"password", "sslpassword"}

// CheckPublic refuses an address with a password: on a command line everybody on the machine can read it.
func CheckPublic(address string) error {
	if !IsServer(address) {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		// The parser's error quotes the address, password and all.
		return errors.New("the address of the store is not a URL")
	}
	_, has := u.User.Password()
	for _, name := range secrets {
		has = has || u.Query().Has(name)
	}
	if has {
		return fmt.Errorf("%w: every user of this machine can read it there; put it into PGPASSWORD or ~/.pgpass, "+
			"or the whole URL into TARE_STORE", ErrPassword)
	}
	return nil
}

// public is the address without a password.
func public(address string) string {
	if !IsServer(address) {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "(no URL)"
	}
	q := u.Query()
	for _, name := range secrets {
		q.Del(name)
	}
	u.RawQuery = q.Encode()
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

// connecting bounds how long one server may take to answer, where the user does not say.
const connecting = 15 * time.Second

// server returns the configuration of a connection: by the URL, by PostgreSQL's own variables, and by the files that
// psql reads.
//
// psql goes on without TLS if the server has none and nothing is said about it, so that whoever sits in between can
// have everything in the clear. Here nothing said means TLS, except to this machine.
func server(address string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, badURL(err)
	}
	// Not by url.Parse, which knows no list of hosts.
	_, text, _ := strings.Cut(address, "?")
	q, err := url.ParseQuery(text)
	if err != nil {
		return nil, errors.New("the parameters of the address are not those of a URL")
	}
	if !q.Has("sslmode") && !q.Has("ssl") && os.Getenv("PGSSLMODE") == "" {
		c.Fallbacks = slices.DeleteFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool {
			return f.TLSConfig == nil && !local(f.Host)
		})
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connecting
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "tare"
	}
	if !q.Has("default_query_exec_mode") {
		// Each statement is sent once: preparing it would be a round trip more.
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return c, nil
}

// badURL is the error of a wrong URL, which it does not quote: that may have a password.
func badURL(err error) error {
	if p, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		inner := p.Unwrap()
		if _, quotes := errors.AsType[*url.Error](err); inner != nil && !quotes {
			return fmt.Errorf("the address is not a valid PostgreSQL URL: %w", inner)
		}
	}
	return errors.New("the address is not a valid PostgreSQL URL")
}

// local tells whether a host is this machine: a socket's folder or a loopback address.
func local(host string) bool {
	if filepath.IsAbs(host) || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
