package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
)

// whyIperf3 is why the rates of tare and iperf3 are apart over virtual cards, and whySender where both have the same
// server.
const (
	whyIperf3 = "a sender has to wake a receiver that sleeps, and the receivers differ in how often they do; see " +
		"Reading it"
	whySender = "iperf3's client does more for a datagram; see Reading it"
)

// networkRows compare net.stream and net.udp with iperf3: the same number of bytes or datagrams of the same size, over
// this machine's loopback or a pair of virtual cards between two networks. All rates are those at which the receiver
// got them. tare's other end is the run's peer, as it is in a run, and in rows of their own the same server of iperf3
// that the client of iperf3 has.
func networkRows() []row {
	var rows []row
	add := func(name, what string, g network, unit string) {
		g.udp = unit != "MiB/s"
		why := ""
		if g.same {
			name, what = "iperf-"+name, what+"; both clients at the same server, iperf3 -s"
		}
		switch { // the others are not explained
		case g.same && g.udp:
			why = whySender
		case g.veth && !g.same:
			why = whyIperf3
		}
		rows = append(rows, row{name: name, what: what, peer: "iperf3", programs: []string{"iperf3"},
			figures: []figure{{unit: unit, goal: 1, agrees: true, why: why}},
			open:    func(ctx context.Context, b *bench) (*contest, error) { return openNetwork(ctx, b, g) }})
	}
	for n := range 4 {
		veth, same := n%2 == 1, n/2 == 1
		prefix, over := "net-", "the loopback"
		if veth {
			prefix, over = "veth-", "a pair of virtual cards"
		}
		for _, direction := range []string{"up", "down"} {
			for _, streams := range []int{1, 4} {
				add(fmt.Sprintf("%s%s-%d", prefix, direction, streams), fmt.Sprintf("TCP over %s, %d stream(s), %s, "+
					"blocks of 128 KiB", over, streams, direction),
					network{veth: veth, same: same, direction: direction, streams: streams}, "MiB/s")
			}
		}
		add(prefix+"udp", "UDP over "+over+", datagrams of 64 bytes, as fast as the sender can: those that arrive",
			network{veth: veth, same: same, direction: "up", streams: 1}, "datagrams/s")
	}
	return rows
}

// network is a row's part of the network.
type network struct {
	veth, udp bool
	same      bool // tare's client is at the server of iperf3, too
	direction string
	streams   int
}

// params are the workload's, and how many units of it iperf3 is to do.
func (g *network) params() (kind string, params map[string]string, metric string) {
	if g.udp {
		return "net.udp", map[string]string{"direction": g.direction, "size": "64B"}, "datagrams_per_second"
	}
	return "net.stream", map[string]string{"direction": g.direction, "streams": strconv.Itoa(g.streams),
		"block": "128KiB"}, "throughput"
}

// client is iperf3's command line for the same work.
func (g *network) client(address, port string, work int64) []string {
	argv := []string{"iperf3", "-c", address, "-p", port, "-J"}
	if g.udp {
		argv = append(argv, "-u", "-b", "0", "-l", "64", "-k", strconv.FormatInt(work, 10))
	} else {
		argv = append(argv, "-l", "128K", "-P", strconv.Itoa(g.streams), "-n", strconv.FormatInt(work<<20, 10))
	}
	if g.direction == "down" {
		argv = append(argv, "-R")
	}
	return argv
}

func openNetwork(ctx context.Context, b *bench, g network) (_ *contest, err error) {
	agents, err := b.agents(ctx)
	if err != nil {
		return nil, err
	}
	end := []func() error{}
	closeAll := func() (err error) {
		for _, f := range slices.Backward(end) {
			err = errors.Join(err, f())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	where := env.Spec{Name: "host", Driver: "local"}
	place := netpeer.Place{Address: netip.MustParseAddr("127.0.0.1")}
	var here, there []string
	if g.veth {
		pair, err := newPair(ctx)
		if err != nil {
			return nil, err
		}
		end = append(end, pair.close)
		here, there = pair.enter(0), pair.enter(1)
		where = env.Spec{Name: "client", Driver: "command", Settings: map[string]string{
			"argv": strings.Join(here, " ")}}
		place = pair.place(1)
	}
	server, at, err := iperfServer(ctx, place.Address.String(), there...)
	if err != nil {
		return nil, err
	}
	end = append(end, server.Close)
	kind, params, metric := g.params()
	with := func(*wire.Job) {}
	if g.same {
		params["server"] = net.JoinHostPort(place.Address.String(), at)
	} else {
		peer := deploy.NewPeer(agents)
		end = append(end, peer.Close)
		port, token, err := peer.At(ctx, place)
		if err != nil {
			return nil, err
		}
		with = func(j *wire.Job) {
			j.Peer = &wire.Peer{Address: netip.AddrPortFrom(place.Address, uint16(port)).String(), Token: token}
		}
	}
	w, err := b.weighIn(ctx, where, kind, params, with)
	if err != nil {
		return nil, err
	}
	end = append(end, w.close)
	argv := g.client(place.Address.String(), at, w.work)
	unit := "MiB"
	if g.udp {
		unit = "datagrams"
	}
	return &contest{
		tare: w.metric(metric),
		peer: func(ctx context.Context) ([]float64, error) {
			out, err := program(ctx, append(slices.Clone(here), argv...)...)
			if err != nil {
				return nil, err
			}
			if g.udp {
				rate, err := parseIperf3Datagrams(out, w.work)
				return []float64{rate}, err
			}
			rate, err := parseIperf3(out, w.work<<20)
			return []float64{rate / (1 << 20)}, err
		},
		notes: []string{w.note(unit), "iperf3: `" + strings.Join(argv, " ") + "`"},
		after: w.doubts,
		close: closeAll,
	}, nil
}

// pair are two networks that only a pair of virtual cards joins. Both end with the processes that hold them.
type pair [2]*proc.Stream

func newPair(ctx context.Context) (p *pair, err error) {
	if os.Geteuid() != 0 {
		return nil, missing{"two networks need root"}
	}
	p = &pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for i := range p {
		// It ends with its input.
		if p[i], err = proc.Start(proc.Command(context.WithoutCancel(ctx), "unshare", "--net", "sh", "-c",
			"ip link set lo up && echo ready && read end")); err != nil {
			return nil, err
		}
		if _, err := p[i].Read(make([]byte, 16)); err != nil {
			return nil, fmt.Errorf("make a network: %w: %s", err, p[i].Diagnose())
		}
	}
	steps := [][]string{append(p.enter(0), "ip", "link", "add", "tare0", "type", "veth", "peer", "name", "tare1",
		"netns", strconv.Itoa(p[1].Pid()))}
	for i := range p {
		card := fmt.Sprintf("tare%d", i)
		steps = append(steps, append(p.enter(i), "ip", "address", "add", p.place(i).Address.String()+"/24",
			"dev", card),
			append(p.enter(i), "ip", "link", "set", card, "up"))
	}
	for _, argv := range steps {
		if _, err := program(ctx, argv...); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// enter is the argv prefix of a command in one of the networks.
func (p *pair) enter(i int) []string {
	return []string{"nsenter", "--target", strconv.Itoa(p[i].Pid()), "--net", "--"}
}

func (p *pair) place(i int) netpeer.Place {
	return netpeer.Place{Address: netip.AddrFrom4([4]byte{198, 18, 0, byte(i + 1)}), // for benchmarks, by RFC 2544
		Space: fmt.Sprintf("/proc/%d/ns/net", p[i].Pid())}
}

func (p *pair) close() (err error) {
	for _, holder := range p {
		if holder != nil {
			err = errors.Join(err, holder.Close())
		}
	}
	return err
}

// iperfServer starts a server at an address, on a port that is free on the loopback. prefix enters its network.
func iperfServer(ctx context.Context, address string, prefix ...string) (*proc.Stream, string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	server, err := proc.Start(proc.Command(context.WithoutCancel(ctx), append(slices.Clone(prefix), "iperf3", "-s",
		"-B", address, "-p", port, "--forceflush")...))
	if err != nil {
		return nil, "", err
	}
	said := bufio.NewReader(server)
	for {
		line, err := said.ReadString('\n')
		if err != nil {
			return nil, "", errors.Join(fmt.Errorf("start iperf3 -s: %w; it said: %s", err, server.Diagnose()),
				server.Close())
		}
		if strings.Contains(line, "listening") {
			break
		}
	}
	go said.WriteTo(discard{}) // what it says of each test would fill the pipe
	return server, port, nil
}

// discard takes everything.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// inFlight is how many bytes iperf3 may leave in the sockets of a few streams when it ends: it counts what was sent,
// and its rate is of what had arrived by then.
const inFlight = 48 << 20

// parseIperf3 reads the bytes per second that the receiver got, from the report of iperf3 3.x, and holds that the bytes
// were those asked for: with several streams, and from the other side, it moves some blocks more.
func parseIperf3(out []byte, asked int64) (float64, error) {
	var doc struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Bytes, Seconds float64
				Rate           float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return 0, fmt.Errorf("read iperf3's report: %w: %.200q", err, out)
	}
	got := doc.End.Received
	slack := max(0.1*float64(asked), inFlight)
	switch {
	case doc.Error != "":
		return 0, fmt.Errorf("iperf3: %s", doc.Error)
	case got.Bytes < float64(asked)-slack || got.Bytes > float64(asked)+slack || got.Seconds <= 0 || got.Rate <= 0:
		return 0, fmt.Errorf("iperf3 moved %.0f bytes in %v s where %d were asked for: the work is not the same",
			got.Bytes, got.Seconds, asked)
	}
	return got.Rate / 8, nil
}

// parseIperf3Datagrams reads the datagrams per second that the receiver got.
func parseIperf3Datagrams(out []byte, asked int64) (float64, error) {
	var doc struct {
		Error string `json:"error"`
		End   struct {
			Sum struct {
				Packets float64 `json:"packets"`
				Lost    float64 `json:"lost_packets"`
				Seconds float64 `json:"seconds"`
			} `json:"sum"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return 0, fmt.Errorf("read iperf3's report: %w: %.200q", err, out)
	}
	got := doc.End.Sum
	switch {
	case doc.Error != "":
		return 0, fmt.Errorf("iperf3: %s", doc.Error)
	case got.Packets < 0.9*float64(asked) || got.Packets > 1.1*float64(asked) || got.Seconds <= 0 ||
		got.Lost < 0 || got.Lost >= got.Packets:
		return 0, fmt.Errorf("iperf3 sent %.0f datagrams in %v s, of which %.0f were lost, where %d were asked for: "+
			"the work is not the same", got.Packets, got.Seconds, got.Lost, asked)
	}
	return (got.Packets - got.Lost) / got.Seconds, nil
}
