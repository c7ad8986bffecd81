package network

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/sys/iperf3"
	"tare/internal/sys/sock"
)

// Bounds of the load of net.loaded. A stream's bytes are asked for in parts, each of which takes this long at least, so
// that the streams end soon after the round trips and the pauses between parts do not count.
const (
	leastPart = 1 << 20
	mostPart  = 1 << 30
	partTime  = 200 * time.Millisecond
	// warming is the time for which the streams run before the first round trip under load: queues fill and windows
	// open.
	warming = 300 * time.Millisecond
	// loadBlock is the number of bytes that a stream reads or writes at a time.
	loadBlock = 128 << 10
)

// loaded is a trial of net.loaded with the run's peer.
type loaded struct {
	underStreams
	streams // its connections are the load
	size    int
	echo    [1]*netpeer.Conn
	stop    atomic.Bool
	moved   atomic.Int64
}

func newLoaded(p workload.Params) (workload.Trial, error) {
	if atServer(p) {
		return newLoadedServer(p)
	}
	p = workload.Params{"direction": p["direction"], "streams": p["streams"], "threads": p["threads"],
		"block": "128KiB", "size": p["size"]}
	s, err := newStreams(p)
	if err != nil {
		return nil, err
	}
	return &loaded{streams: *s.(*streams), size: int(p.Int("size"))}, nil
}

func (t *loaded) Setup(ctx context.Context, b *workload.Bench) error {
	if err := t.connect(ctx, b, t.echo[:], netpeer.Echo, t.size); err != nil {
		return err
	}
	for _, l := range []*lane{&t.quiet, &t.busy} {
		l.message, l.answer = make([]byte, t.size), make([]byte, t.size)
		netpeer.Fill(l.message, b.Seed)
		l.times.Reset() // make its pages resident
	}
	return t.streams.Setup(ctx, b)
}

func (t *loaded) Measure(_ context.Context, b *workload.Bench) error {
	trips := func(l *lane) error { return l.run(t.echo[0], b.Work, time.Now()) }
	return t.both(trips, func() (err error) {
		// The peer's use so far was for the round trips without load.
		if t.peer, err = t.control.Usage(); err == nil {
			t.begin()
		}
		return err
	}, func() error { return each(t.team, t.threads, t.run) }, func() { t.stop.Store(true) }, t.end)
}

// run is one thread until the end of the round trips.
func (t *loaded) run(g int) error {
	part, streams := int64(leastPart), int64(len(t.conns))
	served := (streams - int64(g) + int64(t.threads) - 1) / int64(t.threads)
	for !t.stop.Load() {
		began := time.Now()
		if err := t.move(g, part*streams); err != nil {
			return err
		}
		t.moved.Add(part * served)
		if time.Since(began) < partTime && part < mostPart {
			part *= 2
		}
	}
	return nil
}

func (t *loaded) Report(b *workload.Bench) error {
	now, err := t.control.Usage()
	if err != nil {
		return err
	}
	moved := t.moved.Load()
	t.reportOver(b, perGiB, float64(moved)/(1<<30), t.took, now.CPU-t.peer.CPU, now.CPUs)
	t.underStreams.report(b, moved)
	return nil
}

// underStreams are the round trips of net.loaded.
type underStreams struct {
	quiet, busy lane
	took        time.Duration // that the streams ran
}

// both makes the round trips twice: with nothing else on the network, and while the streams run.
func (u *underStreams) both(trips func(*lane) error, begin, load func() error, stop, end func()) error {
	if err := trips(&u.quiet); err != nil {
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	loading := make(chan error, 1)
	began := time.Now()
	go func() {
		loading <- load()
		close(loading)
	}()
	var ended error
	select {
	case ended = <-loading: // before it was told to: it failed
	case <-time.After(warming):
	}
	var err error
	if ended == nil {
		err = trips(&u.busy)
		stop()
		ended = <-loading
	}
	u.took = time.Since(began)
	end()
	if ended != nil {
		return fmt.Errorf("the streams: %w", ended)
	}
	return err
}

// report reports the latencies, and the load of so many bytes.
func (u *underStreams) report(b *workload.Bench, moved int64) {
	for _, q := range []int{50, 90, 99} {
		at := "p" + strconv.Itoa(q)
		idle, busy := u.quiet.times.Quantile(float64(q)/100), u.busy.times.Quantile(float64(q)/100)
		b.Report("idle_"+at, float64(idle))
		b.Report("latency_"+at, float64(busy))
		if idle > 0 {
			b.Report("over_idle_"+at, float64(busy)/float64(idle))
		}
	}
	b.Report("latency_max", float64(u.busy.times.Max()))
	b.Report("load", float64(moved)/(1<<20)/max(u.took.Seconds(), 1e-9))
}

// loadedServer is a trial of net.loaded whose streams go to an iperf3 server. That answers no messages, and a
// connection to its own port would disturb its test, so a round trip is a handshake with another port.
type loadedServer struct {
	foreign
	underStreams
	probe sock.Address
	port  string // of probe
}

func newLoadedServer(p workload.Params) (workload.Trial, error) {
	if err := oneEnd(p); err != nil {
		return nil, err
	}
	if p["size"] != "1B" {
		return nil, errors.New("size: with server a round trip is a TCP handshake, which has no message: leave size " +
			"out, or measure with the run's peer")
	}
	server := iperf3.Address(p["server"])
	at, err := sock.ParseAddress(server)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(server, ":"+p["probe"]) {
		return nil, errors.New("probe: that is the iperf3 server's own port, and a connection to it disturbs the " +
			"test: name another port of that machine")
	}
	t := &loadedServer{probe: at.WithPort(uint16(p.Int("probe"))), port: p["probe"]}
	t.test = iperf3.Test{Server: p["server"], Up: p["direction"] != "down", Down: p["direction"] != "up",
		Streams: int(p.Int("streams")), Threads: int(p.Int("threads")), Block: loadBlock, Endless: true}
	return t, nil
}

func (t *loadedServer) Setup(ctx context.Context, b *workload.Bench) error {
	t.quiet.times.Reset() // make its pages resident
	t.busy.times.Reset()
	if err := t.handshake(); err != nil { // before the server waits for a test
		return err
	}
	return t.foreign.Setup(ctx, b)
}

func (t *loadedServer) Measure(_ context.Context, b *workload.Bench) error {
	return t.both(func(l *lane) error {
		last := time.Now()
		for range b.Work {
			if err := t.handshake(); err != nil {
				return err
			}
			now := time.Now()
			l.times.Record(int64(now.Sub(last)))
			last = now
		}
		return nil
	}, func() error { t.begin(); return nil }, func() error {
		return t.server.Explain(each(t.team, t.server.Threads(), t.server.Move))
	}, t.server.Stop, t.end)
}

// handshake makes a connection, or has one refused, which is a round trip as well.
func (t *loadedServer) handshake() error {
	fd, err := t.probe.TCP()
	if err != nil {
		return err
	}
	err = sock.Connect(fd, &t.probe, probeTime)
	sock.Reset(fd) // no port stays in TIME_WAIT
	sock.Close(fd)
	if err == nil || sock.Refused(err) && runtime.GOOS != "windows" { // which then tries again for a second
		return nil
	}
	return fmt.Errorf("connect to port %s of the iperf3 server's machine: %w: set probe= to a port that accepts "+
		"connections or (except on Windows) refuses them", t.port, err)
}

// probeTime bounds a handshake.
const probeTime = 10 * time.Second

func (t *loadedServer) Report(b *workload.Bench) error {
	moved := int64(0)
	for i := range t.server.Lanes {
		moved += t.server.Lanes[i].Amount
	}
	o, err := t.server.Finish(max(t.client, 0))
	if err != nil {
		return err
	}
	t.reportOver(b, perGiB, float64(moved)/(1<<30), t.took, o.ServerCPU, 1)
	t.underStreams.report(b, moved)
	return nil
}
