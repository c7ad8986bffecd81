//go:build unix

package web

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/unit"
)

// maxServers bounds the pages of a run, each of which has a server.
const maxServers = 16

// Host serves pages of the controller's nginx to the environments of a run. It is safe for concurrent use.
type Host struct {
	mu      sync.Mutex
	dir     string
	servers map[hosted]*nginx
}

// hosted identifies a page, and where it is served.
type hosted struct {
	at   string // netpeer.Place.Text
	size int64
	seed uint64
}

// NewHost returns one that has started no server.
func NewHost() *Host { return &Host{servers: map[hosted]*nginx{}} }

// Serve starts a server for the page unless there is one. A server that has ended is not replaced, because the
// measurement would not continue with the same server.
func (h *Host) Serve(at netpeer.Place, size int64, seed uint64) (netpeer.Served, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := hosted{at.Text(), size, seed}
	n := h.servers[key]
	if n == nil {
		var err error
		if n, err = h.start(at, key); err != nil {
			return netpeer.Served{}, err
		}
		h.servers[key] = n
	}
	select {
	case <-n.process.Done():
		return netpeer.Served{}, n.failed("measure", errors.New("nginx has ended"))
	default:
	}
	s := netpeer.Served{Port: int(n.addr.Port()), CPU: -1, Name: n.version}
	if t, ok := n.cpu(); ok {
		s.CPU = t
	}
	return s, nil
}

func (h *Host) start(at netpeer.Place, key hosted) (*nginx, error) {
	if key.size < 1 || key.size > maxPage || len(h.servers) >= maxServers {
		return nil, fmt.Errorf("cannot serve another page of %s: there are already %d",
			unit.Plural(key.size, "byte"), len(h.servers))
	}
	ctx := context.Background()
	n, err := findNginx(ctx)
	if err != nil {
		return nil, err
	}
	if h.dir == "" {
		if h.dir, err = os.MkdirTemp("", "tare-web-"); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(h.dir, fmt.Sprint(len(h.servers)))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	n.at, n.connections = at.Address, maxFetch
	if err := n.furnish(&workload.Bench{Dir: dir, Seed: key.seed}, key.size); err != nil {
		return nil, err
	}
	return n, n.startIn(ctx, at.Space)
}

// Close ends the servers and removes their files.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, n := range h.servers {
		n.stop()
		delete(h.servers, key)
	}
	dir := h.dir
	h.dir = ""
	return removeAll(dir)
}

// remote is a page that the controller's machine serves, seen from an environment.
type remote struct {
	conn  *netpeer.Conn
	size  int64
	seed  uint64
	began netpeer.Served
}

// newRemote asks the run's peer for the page.
func newRemote(b *workload.Bench, size int64) (*remote, error) {
	d, err := netpeer.NewDialer(b.Peer.Address, b.Peer.Token, netpeer.Page, 0)
	if err != nil {
		return nil, err
	}
	r := &remote{size: size, seed: b.Seed}
	if r.conn, err = d.Dial(); err != nil {
		return nil, err
	}
	if r.began, err = r.ask(); err != nil {
		return nil, errors.Join(&record.Failure{Kind: "refused", Message: fmt.Sprintf("http.fetch: %v", err)},
			r.conn.Close())
	}
	return r, nil
}

// ask asks for the page's address and the CPU time of its server.
func (r *remote) ask() (netpeer.Served, error) { return r.conn.Page(r.size, r.seed) }
