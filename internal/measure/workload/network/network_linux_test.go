package network

import (
	"context"
	"net/netip"
	"strconv"
	"testing"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/netpeer/peertest"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/sys/iperf3/serve"
)

// The kinds that may work with an iperf3 server do. Package iperf3 tests its client with the real one.
func TestKindsWithAnIperf3Server(t *testing.T) {
	s, err := serve.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	s.CPU = netpeer.CPUTime
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	at := s.Address().String()
	for _, c := range []struct {
		kind  string
		given map[string]string
		work  int64
	}{
		{"net.stream", map[string]string{"server": at}, 64},
		{"net.stream", map[string]string{"server": at, "direction": "both", "streams": "2"}, 65},
		{"net.stream", map[string]string{"server": at, "streams": "2", "threads": "2"}, 65},
		{"net.udp", map[string]string{"server": at, "rate": "20000"}, 1000},
		{"net.udp", map[string]string{"server": at, "direction": "down", "size": "1400B"}, 3000},
		{"net.udp", map[string]string{"server": at, "direction": "both", "streams": "2", "rate": "5000"}, 1000},
		{"net.loaded", map[string]string{"server": at}, 200},
		{"net.loaded", map[string]string{"server": at, "direction": "both", "streams": "2"}, 200},
		{"net.loaded", map[string]string{"server": at, "direction": "both", "streams": "2", "threads": "4"}, 200},
	} {
		kind := trialtest.Named(t, Kinds(), c.kind)
		if kind.NeedsPeer(c.given) {
			t.Errorf("%s %v needs the run's peer", c.kind, c.given)
		}
		b := trialtest.Run(t, kind, c.given, c.work)
		if v, err := strconv.ParseFloat(b.State["server_cpu_share"], 64); err != nil || v <= 0 {
			t.Errorf("%s %v: server_cpu_share is %q", c.kind, c.given, b.State["server_cpu_share"])
		}
		if c.kind == "net.loaded" && b.Metrics["load"] < 1 {
			t.Errorf("%s %v: %v", c.kind, c.given, b.Metrics)
		}
	}
}

// What TCP_INFO tells is in the figures.
func TestFiguresOfTheSender(t *testing.T) {
	p := peertest.Start(t, nil)
	for _, direction := range []string{"up", "down", "both"} {
		b := trialtest.Run(t, kindAt(t, "net.stream", p), map[string]string{"direction": direction}, 64)
		if b.Metrics["tcp_rtt"] <= 0 || b.Metrics["tcp_window"] < 1 || b.State["retransmits"] == "" ||
			b.State["tcp_info"] != "" {
			t.Errorf("%s: %v, %v", direction, b.Metrics, b.State)
		}
	}
}
