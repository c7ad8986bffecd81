package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
)

// networkRows compare net.stream with iperf3: the same number of bytes, in blocks of the same size, over this machine's
// loopback. Both rates are those at which the receiver got them.
func networkRows() []row {
	var rows []row
	for _, c := range []struct {
		name, direction string
		streams         int
	}{{"net-up-1", "up", 1}, {"net-up-4", "up", 4}, {"net-down-1", "down", 1}, {"net-down-4", "down", 4}} {
		rows = append(rows, row{
			name: c.name, what: fmt.Sprintf("TCP over the loopback, %d stream(s), %s, blocks of 128 KiB", c.streams,
				c.direction), peer: "iperf3",
			programs: []string{"iperf3"},
			figures:  []figure{{unit: "MiB/s", goal: 1}},
			open: func(ctx context.Context, b *bench) (*contest, error) {
				return openNetwork(ctx, b, c.direction, c.streams)
			},
		})
	}
	return rows
}

func openNetwork(ctx context.Context, b *bench, direction string, streams int) (_ *contest, err error) {
	agents, err := b.agents(ctx)
	if err != nil {
		return nil, err
	}
	end := []func() error{}
	closeAll := func() (err error) {
		for _, f := range end {
			err = errors.Join(err, f())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	peer := deploy.NewPeer(agents)
	end = append(end, peer.Close)
	port, token, err := peer.Start(ctx)
	if err != nil {
		return nil, err
	}
	w, err := b.weigh(ctx, "net.stream", map[string]string{"direction": direction, "streams": strconv.Itoa(streams),
		"block": "128KiB"},
		func(j *wire.Job) { j.Peer = &wire.Peer{Address: fmt.Sprintf("127.0.0.1:%d", port), Token: token} })
	if err != nil {
		return nil, err
	}
	end = append(end, w.close)
	server, at, err := iperfServer(ctx)
	if err != nil {
		return nil, err
	}
	end = append(end, server.Close)
	argv := []string{"iperf3", "-c", "127.0.0.1", "-p", at, "-J", "-l", "128K", "-P", strconv.Itoa(streams), "-n",
		strconv.FormatInt(w.work<<20, 10)}
	if direction == "down" {
		argv = append(argv, "-R")
	}
	return &contest{
		tare: w.metric("throughput"),
		peer: func(ctx context.Context) ([]float64, error) {
			out, err := program(ctx, argv...)
			if err != nil {
				return nil, err
			}
			rate, err := parseIperf3(out, w.work<<20)
			return []float64{rate / (1 << 20)}, err
		},
		notes: []string{w.note("MiB"), "iperf3: `" + strings.Join(argv, " ") + "`"},
		after: w.doubts,
		close: closeAll,
	}, nil
}

// iperfServer starts a server on a free port of the loopback.
func iperfServer(ctx context.Context) (*proc.Stream, string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	server, err := proc.Start(proc.Command(context.WithoutCancel(ctx), "iperf3", "-s", "-B", "127.0.0.1", "-p", port,
		"--forceflush"))
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
