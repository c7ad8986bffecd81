package live

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/run/schedule"
	"tare/internal/show/report"
)

// DefaultAddr lets the system choose a port on loopback.
const DefaultAddr = "127.0.0.1:0"

const (
	pollEvery      = 2 * time.Second
	maxConnections = 32
	maxHeader      = 16 << 10
	headerTimeout  = 5 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = time.Minute
	// farewell bounds the wait at the end of a run for the last poll of a page that watches.
	farewell = 2*pollEvery + time.Second
)

// ErrAddress says that an address is none, or could be reached from other machines.
var ErrAddress = errors.New("the live page is served to this machine only, on 127.0.0.1:PORT, [::1]:PORT or " +
	"localhost:PORT; port 0 picks a free port; to watch from another machine, use ssh -L")

// Server serves one run's page. The zero value is not useful; Listen makes one.
type Server struct {
	listener net.Listener
	http     *http.Server
	hosts    []string // values of Host that mean this server
	page     []byte
	policy   string
	cookie   string // its name
	watch    atomic.Pointer[Watch]
	served   chan struct{} // closed when the server has ended

	mu      sync.Mutex
	token   string // of the link; "" once it was used
	session string // value of the cookie; "" before
}

// Listen begins to serve on a loopback address: "127.0.0.1:0", "[::1]:8080", "localhost:8080", ":8080" or "8080".
// The error is ErrAddress for any other, and report.ErrNoPage in a build without the page.
func Listen(addr string) (*Server, error) {
	bind, err := loopback(addr)
	if err != nil {
		return nil, err
	}
	page, policy, err := report.LivePage()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, fmt.Errorf("serve live page: %w", err)
	}
	s := &Server{page: page, policy: policy, token: secret(), served: make(chan struct{})}
	s.listener = &limitedListener{Listener: l}
	port := l.Addr().(*net.TCPAddr).Port
	s.hosts = []string{l.Addr().String(), "localhost:" + strconv.Itoa(port)}
	// Cookies know hosts but no ports: two runs must not take each other's.
	s.cookie = "tare-" + strconv.Itoa(port)
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		s.http.Serve(s.listener)
		close(s.served)
	}()
	return s, nil
}

// loopback completes an address and refuses one that other machines can reach. No name but localhost is looked up.
func loopback(addr string) (string, error) {
	if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", addr, ErrAddress)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("address %q: %w", addr, ErrAddress)
	}
	if host == "" || strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return "", fmt.Errorf("address %q: %w", addr, ErrAddress)
	}
	return net.JoinHostPort(ip.String(), port), nil
}

func secret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// URL is the link to open. It works once, in one browser. The token is behind the #, so that it is in no request line,
// no Referer and no proxy's log, and a program that only previews links does not use it up.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "http://" + s.hosts[0] + "/#" + s.token
}

// Attach makes the page follow the run that c describes: it puts itself before c.Sink and c.Events. bundle is the
// result's folder as the user would type it.
func (s *Server) Attach(c *schedule.Config, bundle string) {
	w := newWatch(c, bundle)
	// A page that was opened before the run began is a watcher from the start.
	if s.opened() {
		w.seen = w.now()
	}
	next := c.Events
	c.Sink = w
	c.Events = func(e schedule.Event) {
		if next != nil {
			next(e)
		}
		w.event(e)
	}
	s.watch.Store(w)
}

// Attached tells whether the page has a run to show.
func (s *Server) Attached() bool { return s.watch.Load() != nil }

// Finish shows the result of a run that is over. r is nil when it has none; why is nil when it came to its end.
func (s *Server) Finish(r *verdict.Result, why error) {
	if w := s.watch.Load(); w != nil {
		w.finish(r, why)
	}
}

// Close ends the server. A page that watches gets a few seconds to fetch the last state, unless ctx is done.
func (s *Server) Close(ctx context.Context) error {
	if w := s.watch.Load(); w != nil {
		for deadline := time.Now().Add(farewell); w.waiting() && time.Now().Before(deadline) && ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	// Answers under way are finished, idle connections closed.
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(end)
	if err != nil {
		err = s.http.Close()
	}
	<-s.served
	if err != nil {
		return fmt.Errorf("end live page: %w", err)
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	switch {
	case !s.named(r.Host):
		// A foreign name that was made to point here (DNS rebinding) would be a foreign site with this server's
		// answers.
		refuse(w, http.StatusMisdirectedRequest, "this server has another host name")
	case r.Method != http.MethodGet:
		h.Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "this page is read-only")
	case r.URL.Path == "/":
		s.root(w, r)
	case !sameOrigin(r):
		refuse(w, http.StatusForbidden, "the request comes from another site")
	case r.URL.Path == "/session":
		s.exchange(w, r)
	case r.URL.Path == "/state":
		s.state(w, r)
	default:
		refuse(w, http.StatusNotFound, "there is nothing at this address")
	}
}

func refuse(w http.ResponseWriter, code int, why string) {
	http.Error(w, why, code)
}

func (s *Server) named(host string) bool {
	for _, h := range s.hosts {
		if strings.EqualFold(host, h) {
			return true
		}
	}
	return false
}

// sameOrigin tells whether the page itself asks. Browsers say so (Fetch Metadata); other programs do not, and have no
// cookie to be misused.
func sameOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin"
}

func (s *Server) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session != ""
}

// admitted tells whether the request has the session's cookie.
func (s *Server) admitted(r *http.Request) bool {
	c, err := r.Cookie(s.cookie)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return equal(c.Value, s.session)
}

// equal compares secrets in constant time. An empty one equals nothing.
func equal(got, want string) bool {
	g, w := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(g[:], w[:]) == 1 && want != ""
}

// root answers with the page, or, to a browser that has no session yet, with one that exchanges the link's token.
func (s *Server) root(w http.ResponseWriter, r *http.Request) {
	page, policy := doorPage, doorPolicy
	if s.admitted(r) {
		page, policy = s.page, s.policy
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(page)
}

// exchange gives the cookie to the first who has the link's token.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) {
	if s.admitted(r) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !s.spend(token) {
		refuse(w, http.StatusForbidden, "this link is not valid or was used before")
		return
	}
	s.mu.Lock()
	value := s.session
	s.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: value, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	w.WriteHeader(http.StatusNoContent)
}

// spend uses the token up.
func (s *Server) spend(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !equal(token, s.token) {
		return false
	}
	s.token, s.session = "", secret()
	return true
}

func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	if !s.admitted(r) {
		refuse(w, http.StatusUnauthorized, "open the link that tare run printed")
		return
	}
	has, err := strconv.Atoi(r.URL.Query().Get("after"))
	if err != nil || has < 0 {
		refuse(w, http.StatusBadRequest, "after must be the version of the report that the page has, or 0 for none")
		return
	}
	answer := state{Format: report.PageFormat, Progress: progress{Phase: starting,
		Poll: int(pollEvery / time.Millisecond), Workloads: []workloadProgress{}, Log: []logEntry{}}}
	if watch := s.watch.Load(); watch != nil {
		answer = watch.state(has)
	}
	w.Header().Set("Content-Type", "application/json")
	// An error here is a browser that went away.
	json.NewEncoder(w).Encode(answer)
}

// door exchanges the token for the cookie, by a request that only this page can make, and then shows the run.
const door = `
const say = t => { document.getElementById("say").textContent = t; };
const token = location.hash.slice(1);
fetch("/session", { cache: "no-store", headers: token ? { Authorization: "Bearer " + token } : {} }).then(
  r => r.ok ? location.replace("/") : say(token ? "This link is not valid or was used before: it works once, in one browser." : "Open the whole link that tare run printed, including the part after the #."),
  () => say("The run does not answer; it may have ended."));
`

var doorPage = []byte(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>tare</title></head><body><p id="say" role="status">Opening the run…</p><noscript><p>This page needs JavaScript.</p></noscript><script>` + door + `</script></body></html>`)

var doorPolicy = func() string {
	sum := sha256.Sum256([]byte(door))
	return "default-src 'none'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
}()

// limitedListener closes connections beyond a number that no page needs.
type limitedListener struct {
	net.Listener
	open atomic.Int32
}

// Accept implements net.Listener.
func (b *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= maxConnections {
			return &countedConn{Conn: c, open: &b.open}, nil
		}
		b.open.Add(-1)
		c.Close()
	}
}

type countedConn struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
