package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tare/internal/sys/proc"
)

// webPage is the page that both sides fetch, in bytes.
const webPage = 16 << 10

// webRows compare http.get with wrk: one thread each, on one nginx, which serves one page to both.
func webRows() []row {
	var all []row
	for _, connections := range []int{2, 32} {
		all = append(all, row{
			name: fmt.Sprintf("web-%d", connections),
			what: fmt.Sprintf("a page of 16 KiB from nginx over loopback, 1 thread, %d connections: requests, and "+
				"what one costs the client", connections), peer: "wrk",
			programs: []string{"wrk", "nginx"},
			// The rate is the pair's, client and server, and where the server has no time left it says how the server
			// fares with this client; what the client itself costs is its own.
			figures: []figure{{name: "rate", unit: "req/s", goal: 0.98, agrees: true, why: whyWrk},
				{name: "processor time of the client", unit: "us", goal: 1, atMost: true}},
			open: openWeb(connections),
		})
	}
	return all
}

func openWeb(connections int) func(context.Context, *bench) (*contest, error) {
	return func(ctx context.Context, b *bench) (*contest, error) {
		return openLoad(ctx, b, load{kind: "http.get", connections: connections})
	}
}

// site is an nginx of the bench's own: one process, with the settings that http.get gives one.
type site struct {
	page        int  // bytes of the page
	connections int  // at most
	sealed      bool // speaks TLS 1.3
	url         string
	authority   string // file of the certificate; "" without TLS
	server      *proc.Stream
}

// start starts it.
func (s *site) start(ctx context.Context, b *bench) error {
	dir, err := os.MkdirTemp(b.dir, "web-")
	if err != nil {
		return err
	}
	page := make([]byte, s.page)
	rng := rand.NewChaCha8([32]byte{byte(b.seed)})
	if _, err := rng.Read(page); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "page.bin"), page, 0o644); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	l.Close()
	scheme, listen := "http", fmt.Sprintf("listen %s backlog=4096;", addr)
	if s.sealed {
		key := filepath.Join(dir, "key.pem")
		scheme, s.authority = "https", filepath.Join(dir, "cert.pem")
		if err := certify(s.authority, key); err != nil {
			return err
		}
		listen = fmt.Sprintf("listen %s ssl; ssl_protocols TLSv1.3; ssl_certificate %q; ssl_certificate_key %q;", addr,
			s.authority, key)
	}
	s.url = scheme + "://" + addr + "/page.bin"
	config := fmt.Sprintf(`daemon off; master_process off; pid "%[1]s/pid"; error_log stderr warn;
events { worker_connections %[3]d; }
http {
	access_log off; sendfile on; tcp_nopush on; keepalive_timeout 1h; keepalive_requests 1000000000;
	client_body_temp_path "%[1]s/temp";
	server { %[2]s root "%[1]s"; }
}
`, dir, listen, max(1024, s.connections*9/8))
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o644); err != nil {
		return err
	}
	nginx, err := proc.LookPath("nginx")
	if err != nil {
		return err
	}
	s.server, err = proc.Start(proc.Command(context.WithoutCancel(ctx), withFiles(s.connections, nginx, "-p", dir+"/",
		"-c", filepath.Join(dir, "nginx.conf"))...))
	if err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("wait for nginx: %w; it said: %s", err, s.server.Diagnose()),
				s.server.Close())
		}
	}
}

// rest waits until the server has closed the connections of the last client.
func (s *site) rest(ctx context.Context) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.server.Pid()))
		if err != nil || len(open) < 64 {
			return err
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("the server still has %d files open", len(open)))
		}
	}
}

// certify writes a certificate for 127.0.0.1 that is its own authority, and its key.
func certify(certificate, key string) error {
	k, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tare bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(crand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// withFiles is the argv of a command that may have a file open for each of so many connections. Only its limit is
// raised, not the bench's.
func withFiles(connections int, argv ...string) []string {
	if connections < 900 {
		return argv
	}
	raise := fmt.Sprintf(`ulimit -n %d && exec "$@"`, files(connections))
	return append([]string{"sh", "-c", raise, "sh"}, argv...)
}

// files is how many files a program with so many connections may have open.
func files(connections int) int { return connections + 256 }

var (
	wrkRate   = regexp.MustCompile(`(?m)^Requests/sec:\s+([0-9]+\.?[0-9]*)\s*$`)
	wrkDone   = regexp.MustCompile(`(?m)^\s*([0-9]+) requests in `)
	wrkErrors = regexp.MustCompile(`(?m)^\s*(Socket errors|Non-2xx or 3xx responses):.*$`)
)

// parseWrk reads the requests per second and their number from wrk's report, in which there must be no errors.
func parseWrk(out string) (rate, requests float64, err error) {
	if e := wrkErrors.FindString(out); e != "" {
		return 0, 0, fmt.Errorf("read wrk's report: %s", strings.TrimSpace(e))
	}
	for _, f := range []struct {
		what string
		form *regexp.Regexp
		to   *float64
	}{{"requests per second", wrkRate, &rate}, {"requests", wrkDone, &requests}} {
		m := f.form.FindStringSubmatch(out)
		if m == nil {
			return 0, 0, fmt.Errorf("read wrk's report: it tells of no %s: %.200q", f.what, out)
		}
		*f.to, err = strconv.ParseFloat(m[1], 64)
		if err == nil && *f.to <= 0 {
			err = fmt.Errorf("%v %s", *f.to, f.what)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read wrk's report: %w", err)
		}
	}
	return rate, requests, nil
}
