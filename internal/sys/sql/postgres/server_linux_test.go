package postgres_test

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
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
	"tare/internal/sys/sql/postgres"
)

// patience bounds what must come at some time, however busy the machine is.
const patience = 3 * time.Minute

// password is that of all roles that have one.
const password = "pass word, with ' and ü"

// realServer is a real PostgreSQL for a test.
type realServer struct {
	port    int
	dir     string // with its data, its socket and the certificates
	version string
	uid     int // of the user that it runs as
	gid     int
	bin     string
}

// command prepares one of PostgreSQL's programs, which do not run as root.
func (s *realServer) command(name string, args ...string) *proc.Cmd {
	cmd := proc.Command(context.Background(), append([]string{filepath.Join(s.bin, name)}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/"}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.gid)}
		// The folders of tests are closed to others.
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_DAC_READ_SEARCH}
	}
	return cmd
}

// give makes the server's user the owner of files.
func (s *realServer) give(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Chown(s.file(name), s.uid, s.gid); err != nil {
			t.Fatal(err)
		}
	}
}

// missing fails a test in CI and skips it elsewhere.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(what + ", and TARE_REQUIRE is set")
	}
	t.Skip(what)
}

// newServer finds the newest PostgreSQL and makes the folders of a server.
func newServer(t testing.TB) *realServer {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		missing(t, "PostgreSQL is not installed")
	}
	dir, err := os.MkdirTemp("", "pg") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &realServer{port: freePort(t), dir: dir, uid: os.Geteuid(), gid: os.Getegid(),
		bin: filepath.Dir(found[len(found)-1])}
	if len(s.socket()) > 100 {
		missing(t, "the path of temporary files is too long for a socket")
	}
	if s.uid == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			missing(t, err.Error())
		}
		s.uid, _ = strconv.Atoi(u.Uid)
		s.gid, _ = strconv.Atoi(u.Gid)
	}
	for _, name := range []string{"data", "socket"} {
		if err := os.Mkdir(s.file(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.give(t, "data", "socket")
	return s
}

func (s *realServer) socket() string {
	return filepath.Join(s.dir, "socket", ".s.PGSQL."+strconv.Itoa(s.port))
}

// start starts the server and waits until it answers.
func (s *realServer) start(t testing.TB, settings []string) {
	t.Helper()
	for range 5 { // another may take a port before the server does
		said := s.run(t, settings)
		if said == "" {
			return
		}
		t.Logf("no server at port %d: %s", s.port, said)
		s.port = freePort(t)
	}
	t.Fatal("the server does not start")
}

// run starts the server at its port. It returns what the server said if that ended, and "" when it answers.
func (s *realServer) run(t testing.TB, settings []string) (said string) {
	t.Helper()
	args := []string{"-D", s.file("data")}
	for _, set := range append([]string{"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port),
		"unix_socket_directories=" + s.file("socket"), "max_connections=20", "shared_buffers=64MB", "autovacuum=off",
		"fsync=off"}, settings...) {
		args = append(args, "-c", set)
	}
	server, err := proc.Start(s.command("postgres", args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Signal(syscall.SIGQUIT) // at once, but unlike one that is killed it removes its shared memory
		select {
		case <-server.Done():
		case <-time.After(patience):
			server.Kill()
			<-server.Done()
		}
		server.Close()
	})
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c, err := postgres.Dial(within(t), s.config())
		if err == nil {
			s.version = c.Setting("server_version")
			c.Close()
			return ""
		}
		select {
		case <-server.Done():
			return string(server.Diagnose())
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("the server does not answer: %v; it says:\n%s", err, server.Diagnose())
		}
	}
}

// access says who is let in how: roles are called as the way by which they are let in.
const access = `local all tare trust
local all trust trust
local all password password
local all md5 md5
local all scram scram-sha-256
hostssl all certified 127.0.0.1/32 cert
host all trust 127.0.0.1/32 trust
host all password 127.0.0.1/32 password
host all md5 127.0.0.1/32 md5
host all scram 127.0.0.1/32 scram-sha-256
hostssl all tlsonly 127.0.0.1/32 trust
hostnossl all tlsonly 127.0.0.1/32 reject
`

// serve starts a server with all ways of access, and with TLS if that is wanted.
func serve(t testing.TB, tls bool, settings ...string) *realServer {
	t.Helper()
	s := newServer(t)
	if tls {
		settings = append(settings, "ssl=on", "ssl_cert_file="+s.file("server.crt"),
			"ssl_key_file="+s.file("server.key"), "ssl_ca_file="+s.file("ca.crt"))
		s.certify(t)
	}
	_, err := proc.RunCmd(s.command("initdb", "--pgdata="+s.file("data"), "--username=tare", "--auth=trust",
		"--encoding=UTF8", "--no-locale", "--no-sync"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file("data/pg_hba.conf"), []byte(access), 0o644); err != nil {
		t.Fatal(err)
	}
	s.start(t, settings)
	c := s.dial(t, func(*postgres.Config) {})
	defer c.Close()
	for _, role := range []string{"trust", "password", "md5", "scram", "certified", "tlsonly"} {
		text := "CREATE ROLE " + role + " LOGIN"
		if role == "password" || role == "md5" || role == "scram" {
			method := map[bool]string{true: "md5", false: "scram-sha-256"}[role == "md5"]
			text = fmt.Sprintf("SET password_encryption='%s'; %s PASSWORD 'pass word, with '' and ü'", method, text)
		}
		if err := c.Query([]byte(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *realServer) file(name string) string { return filepath.Join(s.dir, name) }

// config is that of the superuser by the socket.
func (s *realServer) config() postgres.Config {
	return postgres.Config{Network: "unix", Address: s.socket(), User: "tare", Database: "postgres"}
}

// overTCP makes a configuration one by TCP, for a role.
func (s *realServer) overTCP(c *postgres.Config, role string) {
	c.Network, c.Address, c.User = "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), role
}

// dial connects as the superuser, or as change says.
func (s *realServer) dial(t testing.TB, change func(*postgres.Config)) *postgres.Conn {
	t.Helper()
	config := s.config()
	change(&config)
	c, err := postgres.Dial(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// certify makes an authority, and certificates for the server and for a role, and gives the server's key to its user.
func (s *realServer) certify(t testing.TB) {
	t.Helper()
	authority := newCertificate(t, s.file("ca"), &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "tare's test"}}, nil)
	newCertificate(t, s.file("server"), &x509.Certificate{DNSNames: []string{"db.example"},
		Subject: pkix.Name{CommonName: "db.example"}}, authority)
	newCertificate(t, s.file("certified"), &x509.Certificate{Subject: pkix.Name{CommonName: "certified"}}, authority)
	newCertificate(t, s.file("stranger"), &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "somebody else"}}, nil)
	s.give(t, "server.key", "server.crt", "ca.crt")
}

type certificate struct {
	x   *x509.Certificate
	key *ecdsa.PrivateKey
}

func newCertificate(t testing.TB, path string, x *x509.Certificate, by *certificate) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x.SerialNumber = big.NewInt(time.Now().UnixNano())
	x.NotBefore, x.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	made := &certificate{x, key}
	if by == nil {
		by = made
	}
	text, err := x509.CreateCertificate(rand.Reader, x, by.x, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.WriteFile(path+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: text}), 0o644),
		os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return made
}
