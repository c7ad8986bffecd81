package envtest

import (
	"fmt"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
)

// trial is a network workload, a figure that it must have, and how much of it is done.
type trial struct {
	kind, metric string
	work         int64
	given        map[string]string
}

// Network checks that each kind of network workload in an environment reaches the run's peer at the address that the
// environment returns, and that the peer rejects connections without the run's token. agents has the peer's executable.
func Network(t *testing.T, e env.Env, s *deploy.Conn, agents env.Agents) {
	t.Helper()
	network(t, e, s, agents, []trial{
		{"net.stream", "throughput", 2, nil},
		{"net.stream", "throughput", 3, map[string]string{"direction": "down", "streams": "2"}},
		{"net.rr", "round_trips_per_second", 50, map[string]string{"connections": "3", "size": "100B"}},
		{"net.connect", "connections_per_second", 20, nil},
		{"net.udp", "datagrams_per_second", 50, nil},
		{"net.udp", "datagrams_per_second", 60, map[string]string{"direction": "both", "streams": "2"}},
		{"net.loaded", "latency_p50", 50, nil},
		{"http.fetch", "requests_per_second", 30, nil},
	})
}

// BriefNetwork is Network for an environment that is slow: two kinds, and little work.
func BriefNetwork(t *testing.T, e env.Env, s *deploy.Conn, agents env.Agents) {
	t.Helper()
	network(t, e, s, agents, []trial{
		{"net.rr", "round_trips_per_second", 5, nil},
		{"net.connect", "connections_per_second", 2, nil},
	})
}

func network(t *testing.T, e env.Env, s *deploy.Conn, agents env.Agents, trials []trial) {
	t.Helper()
	p := deploy.NewPeer(agents)
	defer p.Close()
	var port int
	var token, host string
	var err error
	placer, placed := e.(env.PeerPlacer)
	if placed = placed && placer.PeerPlace().Address.IsValid(); placed {
		host = placer.PeerPlace().Address.String()
		port, token, err = p.At(t.Context(), placer.PeerPlace())
	} else if host, err = env.Loopback("it", e); err == nil {
		port, token, err = p.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	at := &wire.Peer{Address: fmt.Sprintf("%s:%d", host, port), Token: token}
	run := func(kind string, at *wire.Peer, work int64, given map[string]string) (wire.Result, error) {
		return Work(t, s, wire.Job{Kind: kind, Params: given, Cell: "net", Seed: 1, Peer: at}, work)
	}
	for _, c := range trials {
		r, err := run(c.kind, at, c.work, c.given)
		if c.kind == "http.fetch" && placed && placer.PeerPlace().Space == "" {
			if err == nil || !strings.Contains(err.Error(), "only reached by way of the controller's loopback") {
				t.Errorf("%s by another way than the loopback: %v", c.kind, err)
			}
			continue
		}
		if err != nil || !(r.Metrics[c.metric] > 0) {
			t.Errorf("%s %v: %v, %+v", c.kind, c.given, err, r)
			continue
		}
		t.Logf("%s %v: %.6v %s, state %v", c.kind, c.given, r.Metrics[c.metric], c.metric, r.State)
	}
	stranger := &wire.Peer{Address: at.Address, Token: netpeer.NewToken().Text()}
	if r, err := run("net.stream", stranger, 1, nil); err == nil || !strings.Contains(err.Error(),
		"does not know this run's token") {
		t.Errorf("without the run's token: %v, %+v", err, r)
	}
}
