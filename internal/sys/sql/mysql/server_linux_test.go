package mysql_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/record"
	"tare/internal/sys/sql/mysql"
)

// The servers of these tests are real: the machine's MariaDB, and the MySQL that scripts/deps.sh mysql downloads. Each
// is started when the first test needs it and stopped after the last test.

// serverName is the name in the servers' certificate.
const serverName = "db.test"

// realServer is a server that runs.
type realServer struct {
	dbserver.Server
	product dbserver.Product
}

var (
	shared  string // folder of the servers and the certificates
	running []realServer
	starts  = map[dbserver.Product]func() (realServer, error){}
)

func TestMain(m *testing.M) {
	var err error
	if shared, err = os.MkdirTemp("", "tare-mysql-"); err == nil {
		err = errors.Join(os.Chmod(shared, 0o755), certificates(shared))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, p := range []dbserver.Product{dbserver.MariaDB, dbserver.MySQL} {
		starts[p] = sync.OnceValues(func() (realServer, error) {
			for try := 0; ; try++ {
				s, err := start(context.Background(), p, filepath.Join(shared, string(p)), freePort())
				if err == nil {
					running = append(running, s)
				}
				// Another may have taken the port before the server did.
				if f, ok := errors.AsType[*record.Failure](err); ok && try < 5 &&
					strings.Contains(f.Evidence, "ddress already in use") {
					continue
				}
				return s, err
			}
		})
	}
	code := m.Run()
	for _, s := range running {
		err = errors.Join(err, s.Stop(context.Background()))
	}
	if err = errors.Join(err, os.RemoveAll(shared)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// start starts a server with the settings for these tests.
func start(ctx context.Context, p dbserver.Product, dir string, port int) (realServer, error) {
	o := dbserver.Options{Product: p, Dir: dir, Port: port, Settings: []string{"innodb_buffer_pool_size=32M",
		"max_allowed_packet=64M", "performance_schema=OFF", "max_connections=200", "local_infile=ON",
		"ssl_cert=" + filepath.Join(shared, "server.pem"), "ssl_key=" + filepath.Join(shared, "server.key"),
		"ssl_ca=" + filepath.Join(shared, "ca.pem")}}
	if p == dbserver.MySQL {
		o.Root = os.Getenv("TARE_MYSQL_ROOT")
		o.Settings = append(o.Settings, "loose_mysql_native_password=ON", "disable_log_bin=1")
	} else {
		o.Settings = append(o.Settings, "plugin_load_add=auth_ed25519")
	}
	s, err := dbserver.Start(ctx, o)
	return realServer{s, p}, err
}

// server returns one of the shared servers. If it is not installed, the test is skipped; with TARE_REQUIRE, as in CI,
// it fails.
func server(t testing.TB, p dbserver.Product) realServer {
	t.Helper()
	s, err := starts[p]()
	if f, ok := errors.AsType[*record.Failure](err); ok {
		t.Log(f.Evidence)
		if f.Kind == "refused" && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// each runs a test with each server.
func each(t *testing.T, test func(*testing.T, realServer)) {
	for _, p := range []dbserver.Product{dbserver.MariaDB, dbserver.MySQL} {
		t.Run(string(p), func(t *testing.T) { test(t, server(t, p)) })
	}
}

// socket returns the configuration for the server's socket and its administrator.
func (s realServer) socket() mysql.Config {
	e := s.Endpoint()
	return mysql.Config{Network: e.Network, Address: e.Address, User: e.User, Password: e.Password,
		Database: e.Database, MultiStatements: true}
}

// tcp returns the configuration for the server's port and another user.
func (s realServer) tcp(user, password string) mysql.Config {
	return mysql.Config{Network: "tcp", Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Endpoint().Port)),
		User: user, Password: password}
}

func dial(t testing.TB, c mysql.Config) *mysql.Conn {
	t.Helper()
	conn, err := mysql.Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Quit() })
	return conn
}

// run runs statements and ignores their results.
func run(t testing.TB, c *mysql.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if err := c.Query([]byte(s), nil); err != nil {
			t.Fatalf("%.200s: %v", s, err)
		}
	}
}

// table returns the rows of a query as text: values are separated by blanks, rows by semicolons.
func table(t testing.TB, c *mysql.Conn, query string) string {
	t.Helper()
	var rows []string
	err := c.Query([]byte(query), &mysql.Result{Row: func(values [][]byte) error {
		var row []string
		for _, v := range values {
			if v == nil {
				v = []byte("NULL")
			}
			row = append(row, string(v))
		}
		rows = append(rows, strings.Join(row, " "))
		return nil
	}})
	if err != nil {
		t.Fatalf("%.200s: %v", query, err)
	}
	return strings.Join(rows, ";")
}

// number returns the server's number of an error, or 0 if it is not an error of the server.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.Error](err); ok {
		return e.Number
	}
	return 0
}

// freePort returns an unused port of 127.0.0.1.
func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// certificates makes an authority, a certificate for the servers that it signs, and another authority.
func certificates(dir string) error {
	make := func(name string, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey,
		error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			BasicConstraintsValid: true}
		if parent == nil {
			c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
			parent, by = c, key
		} else {
			c.DNSNames = []string{serverName}
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
		if err != nil {
			return nil, nil, err
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, nil, err
		}
		if c, err = x509.ParseCertificate(der); err != nil {
			return nil, nil, err
		}
		return c, key, errors.Join(
			os.WriteFile(filepath.Join(dir, name+".pem"),
				pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
			os.WriteFile(filepath.Join(dir, name+".key"),
				pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o644))
	}
	ca, key, err := make("ca", nil, nil)
	if err == nil {
		_, _, err = make("server", ca, key)
	}
	if err == nil {
		_, _, err = make("other", nil, nil)
	}
	return err
}

// newSilent returns the address of a server that accepts connections and sends nothing.
func newSilent(t *testing.T) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), nil
}
