package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// certified writes a certificate for a name that is its own authority, and its key.
func certified(t *testing.T, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	if ip := net.ParseIP(name); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// sealedNginx starts an nginx that speaks TLS and returns its address.
func sealedNginx(t *testing.T, cert, key string) string {
	t.Helper()
	return nginxWith(t, "ssl", fmt.Sprintf("ssl_certificate %s; ssl_certificate_key %s; ssl_protocols TLSv1.2 TLSv1.3;",
		cert, key))
}

// nginxWith starts an nginx that listens in some way, with more directives for its server. It has
// pages of 40,000 and of 70,000 bytes.
func nginxWith(t *testing.T, listens, more string) (addr string) {
	t.Helper()
	n, err := findNginx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n.home, n.root, n.connections = filepath.Join(dir, "home"), dir, 1000
	if err := os.MkdirAll(filepath.Join(n.home, "temp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"page.bin": strings.Repeat("page ", 8000),
		"other.bin": strings.Repeat("x", 70000)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	n.addr = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	config := regexp.MustCompile("listen ([^;]*);").ReplaceAllString(n.configuration(), "listen $1 "+listens+"; "+more)
	path := filepath.Join(n.home, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	begin(t, n.addr.String(), n.program, "-p", n.home+"/", "-c", path)
	return n.addr.String()
}

// begin starts a server and waits until it listens.
func begin(t *testing.T, addr string, argv ...string) {
	t.Helper()
	s, err := proc.Start(proc.Command(t.Context(), argv...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for range 3000 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not listen: %s", argv[0], s.Diagnose())
}

// TestSealed: load over TLS 1.3 on a real server whose certificate is verified.
func TestSealed(t *testing.T) {
	needNginx(t)
	cert, key := certified(t, "127.0.0.1")
	at := sealedNginx(t, cert, key)
	url := "https://" + at + "/page.bin"
	for _, given := range []map[string]string{nil, {"connections": "32", "threads": "2"}, {"keepalive": "no"},
		{"rate": "500", "arrivals": "poisson"}, {"verify": "hash", "match": "page page"},
		{"method": "HEAD"}, {"keepalive": "no", "rate": "300"}} {
		b, err := loaded(t, with(given, "url", url, "ca", cert), 300)
		if err != nil {
			t.Errorf("%v: %v", given, err)
			continue
		}
		if !strings.HasPrefix(b.State["tls"], "TLS 1.3 TLS_") || given == nil &&
			!strings.HasPrefix(b.Checks["page"], "40000 bytes ") {
			t.Errorf("%v: state %v, checks %v", given, b.State, b.Checks)
		}
	}
	other, _ := certified(t, "127.0.0.1")
	elsewhere, elsewhereKey := certified(t, "shop.example")
	shop := sealedNginx(t, elsewhere, elsewhereKey)
	header := filepath.Join(t.TempDir(), "header")
	if err := os.WriteFile(header, []byte("Host: shop.example"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, ca, header, want string
	}{
		{url, "", "", "unknown authority"},
		{url, other, "", "TLS with"},
		{"https://" + shop + "/page.bin", elsewhere, "", "certificate"},
		{"https://" + shop + "/page.bin", elsewhere, "file:" + header, ""},
		{url, "/nowhere/at/all", "", "read the authority's certificate"},
		{url, key, "", "contains no certificate"},
	} {
		_, err := loaded(t, map[string]string{"url": c.url, "ca": c.ca, "header": c.header}, 20)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with ca=%s: %v, want %q", c.url, c.ca, err, c.want)
		}
	}
}

// TestNoTLS: what is no TLS, or ends in the handshake, is an error within the timeout.
func TestNoTLS(t *testing.T) {
	for name, do := range map[string]func(c net.Conn){
		"HTTP":    func(c net.Conn) { io.WriteString(c, good) },
		"silence": func(c net.Conn) { io.Copy(io.Discard, c) },
		"end":     func(c net.Conn) { c.Close() },
		"garbage": func(c net.Conn) { io.WriteString(c, "\x16\x03\x03\xff\xff"+strings.Repeat("\x00", 70000)) },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					c.Read(make([]byte, 100))
					do(c)
				}()
			}
		}()
		_, err = loaded(t, map[string]string{"url": "https://" + l.Addr().String() + "/", "timeout": "1s"}, 10)
		if err == nil || !strings.Contains(err.Error(), "TLS with 127.0.0.1") {
			t.Errorf("%s: %v", name, err)
		}
		l.Close()
	}
}
