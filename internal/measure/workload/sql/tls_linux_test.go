package sql_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload/sql"
)

// certified makes an authority, a certificate of it for 127.0.0.1 with a key, and another authority.
func certified(t *testing.T, dir string) {
	t.Helper()
	var authority *x509.Certificate
	var signs *ecdsa.PrivateKey
	for i, name := range []string{"stranger", "ca", "server"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		x := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
			BasicConstraintsValid: true}
		if name == "server" {
			x.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		} else {
			x.IsCA, x.KeyUsage = true, x509.KeyUsageCertSign
			authority, signs = x, key
		}
		der, err := x509.CreateCertificate(rand.Reader, x, authority, &key.PublicKey, signs)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for ending, b := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der},
			".key": {Type: "PRIVATE KEY", Bytes: secret}} {
			if err := os.WriteFile(filepath.Join(dir, name+ending), pem.EncodeToMemory(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestTLS replays by TLS, on servers whose certificate an authority has signed, and is not known, or not by that one.
func TestTLS(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		certificates := t.TempDir()
		certified(t, certificates)
		r := &recorded{params: maps.Clone(server)}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		o := dbserver.Options{Product: dbserver.Product(server["server"]), Dir: filepath.Join(t.TempDir(), "server"),
			Root: server["root"], Port: port}
		if !r.postgres() {
			for setting, name := range map[string]string{"ssl_ca": "ca.crt", "ssl_cert": "server.crt",
				"ssl_key": "server.key"} {
				o.Settings = append(o.Settings, setting+"="+filepath.Join(certificates, name))
			}
			for _, name := range []string{"ca.crt", "server.crt", "server.key"} { // the server is another user
				if err := os.Chmod(filepath.Join(certificates, name), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.serve(t, o)
		c := r.connect(t, "shop")
		text := "SHOW SESSION STATUS LIKE 'Ssl_version'"
		if r.postgres() {
			data := filepath.Join(o.Dir, "data")
			st := owned(t, data)
			for _, name := range []string{"server.crt", "server.key"} {
				b, err := os.ReadFile(filepath.Join(certificates, name))
				if err == nil {
					err = os.WriteFile(filepath.Join(data, name), b, 0o600)
				}
				if err == nil {
					err = os.Chown(filepath.Join(data, name), int(st.Uid), int(st.Gid))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			c.Word(t, "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()", "CREATE ROLE tls LOGIN")
			for c.Word(t, "SHOW ssl") != "on" {
				time.Sleep(time.Millisecond)
			}
			text = "SELECT 1 / ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()" // an error without
		} else {
			c.Word(t, "CREATE USER tls IDENTIFIED BY 'secret' REQUIRE SSL", "GRANT SELECT ON shop.* TO tls")
		}
		c.Quit(t)
		log := written(t, server, "shop", text, []int64{0, 0})
		more := map[string]string{"address": fmt.Sprintf("127.0.0.1:%d", port), "user": "tls", "settings": "",
			"root": "", "lanes": "1", "warm": "no", "database": "shop"}
		for _, x := range []struct{ tls, authority, says string }{
			{"require", "", ""}, {"verify", "ca", ""}, {"verify", "stranger", "certificate"},
			{"verify", "", "certificate"},
			{"off", "", map[bool]string{true: "statements failed", false: "rejects the user"}[r.postgres()]},
		} {
			files := maps.Clone(log)
			files["password-file"] = password(t, "secret")
			if more["tls"] = x.tls; x.authority != "" {
				files["tls-ca"] = filepath.Join(certificates, x.authority+".crt")
			}
			b, err := r.drive(t, 1, more, files)
			if x.says == "" && (err != nil || b.State["errors"] != "none") ||
				x.says != "" && (err == nil || !strings.Contains(err.Error(), x.says) || len(b.Metrics) > 0) {
				t.Errorf("tls=%s with authority %q: %v, errors %s", x.tls, x.authority, err, b.State["errors"])
			}
		}
	})
}

// owned tells who owns a file.
func owned(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t)
}
