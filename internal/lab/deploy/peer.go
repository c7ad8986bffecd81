package deploy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/netpeer"
	"tare/internal/sys/proc"
)

// Peer is the run's process at the other end of network workloads; see package netpeer. It is started once, when it is
// first needed. A peer that died is not restarted, because results with another peer would not be comparable. It is
// safe for concurrent use.
type Peer struct {
	agents env.Agents

	once   sync.Once
	err    error
	token  string
	port   int
	said   *bufio.Reader // what it says
	mu     sync.Mutex
	stream *proc.Stream // nil if it was not started or is closed

	asking sync.Mutex // one question at a time
	ports  map[netpeer.Place]int
}

// NewPeer returns a peer that is not started yet. It will run this machine's agent executable.
func NewPeer(agents env.Agents) *Peer { return &Peer{agents: agents} }

// peerTime is how long a peer may take until it listens.
const peerTime = 30 * time.Second

// Start starts the peer if that was not done before. It returns the peer's port on the loopback and the token that
// gives access to it.
func (p *Peer) Start(ctx context.Context) (port int, token string, err error) {
	p.once.Do(func() {
		if p.err = p.start(ctx); p.err != nil {
			p.err = fmt.Errorf("start the peer on this machine: %w", p.err)
		}
	})
	return p.port, p.token, p.err
}

func (p *Peer) start(ctx context.Context) error {
	agent, err := p.agents.Path(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return err
	}
	stream, err := proc.Start(proc.Command(context.WithoutCancel(ctx), agent, netpeer.Role))
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.stream = stream
	p.mu.Unlock()
	p.token = netpeer.NewToken().Text()
	type answer struct {
		port int
		err  error
	}
	told := make(chan answer, 1)
	go func() {
		p.said = bufio.NewReaderSize(stream, 4096)
		port, err := netpeer.Ask(stream, p.said, p.token)
		told <- answer{port, err}
	}()
	ctx, cancel := proc.WithTimeout(ctx, peerTime)
	defer cancel()
	select {
	case a := <-told:
		p.port, err = a.port, a.err
	case <-ctx.Done():
		err = fmt.Errorf("it did not report its port: %w", ctx.Err())
	}
	if err != nil {
		said := lastLine(stream.Diagnose())
		p.Close()
		return fmt.Errorf("%w; its last output: %s", err, said)
	}
	return nil
}

// At has the peer listen at a place as well, unless it does, and returns its port there. It starts the peer if that was
// not done before.
func (p *Peer) At(ctx context.Context, at netpeer.Place) (port int, token string, err error) {
	if _, _, err := p.Start(ctx); err != nil {
		return 0, "", err
	}
	p.asking.Lock()
	defer p.asking.Unlock()
	if port, ok := p.ports[at]; ok {
		return port, p.token, nil
	}
	p.mu.Lock()
	stream := p.stream
	p.mu.Unlock()
	if stream == nil {
		return 0, "", errors.New("the peer has ended")
	}
	if port, err = netpeer.Ask(stream, p.said, at.Text()); err != nil {
		return 0, "", fmt.Errorf("have the peer on this machine listen at %s: %w", at.Address, err)
	}
	if p.ports == nil {
		p.ports = map[netpeer.Place]int{}
	}
	p.ports[at] = port
	return port, p.token, nil
}

// Pid is the peer's process id; 0 if it does not run.
func (p *Peer) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stream == nil {
		return 0
	}
	return p.stream.Pid()
}

// Ended says how the peer ended, if it has ended or ends within the given time; nil if it runs or was never started.
func (p *Peer) Ended(within time.Duration) error {
	p.mu.Lock()
	s := p.stream
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	select {
	case <-s.Done():
		return s.How()
	case <-time.After(within):
		return nil
	}
}

// Close ends the peer. It is idempotent.
func (p *Peer) Close() error {
	p.mu.Lock()
	s := p.stream
	p.stream = nil
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Close()
}
