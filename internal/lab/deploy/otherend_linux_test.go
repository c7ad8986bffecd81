package deploy_test

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/sys/netns"
	"tare/internal/sys/proc"
)

// twoAgents are agents in two network namespaces that a pair of cards joins.
func twoAgents(t *testing.T) (near, far *deploy.Conn) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	space := func() *netns.Space {
		s, err := netns.New(0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	a, b := space(), space()
	for _, step := range []struct {
		in *netns.Space
		do func() error
	}{
		{a, func() error { return netns.Veth("eth0", "eth0", b) }},
		{a, func() error { return netns.Up("lo", "") }},
		{b, func() error { return netns.Up("lo", "") }},
		{a, func() error { return netns.Up("eth0", "192.0.2.1") }},
		{b, func() error { return netns.Up("eth0", "192.0.2.2") }},
	} {
		if err := step.in.Do(step.do); err != nil {
			t.Fatal(err)
		}
	}
	program := agenttest.Build(t, runtime.GOOS, runtime.GOARCH)
	agentIn := func(s *netns.Space) (c *deploy.Conn) {
		var stream *proc.Stream
		if err := s.Do(func() (err error) {
			stream, err = proc.Start(proc.Command(t.Context(), program, "agent", "--dir", t.TempDir()))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stream.Close() })
		c, err := deploy.Connect(within(t, patience), stream, "test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	return agentIn(a), agentIn(b)
}

// TestOtherEndInAnotherEnvironment works from one network to another, and within the one that the peer is in.
func TestOtherEndInAnotherEnvironment(t *testing.T) {
	near, far := twoAgents(t)
	token := netpeer.NewToken().Text()
	addresses, err := far.HostPeer(within(t, patience), token)
	if err != nil || len(addresses) != 2 || !strings.HasPrefix(addresses[0], "127.0.0.1:") ||
		!strings.HasPrefix(addresses[1], "192.0.2.2:") {
		t.Fatalf("the peer listens at %q, %v", addresses, err)
	}
	if again, err := far.HostPeer(within(t, patience), token); err != nil || !slices.Equal(again, addresses) {
		t.Errorf("asked again, it listens at %q, %v", again, err)
	}
	for _, from := range []struct {
		agent *deploy.Conn
		by    string
	}{{near, addresses[1]}, {far, addresses[0]}} {
		address, err := from.agent.FindPeer(within(t, patience), addresses, token)
		if err != nil || address != from.by {
			t.Fatalf("found at %q, want %q, %v", address, from.by, err)
		}
		for kind, params := range map[string]map[string]string{
			"net.stream": {"direction": "both", "streams": "2"}, "net.rr": {}, "net.connect": {}, "net.udp": {},
			"net.loaded": {},
		} {
			params["to"] = "far"
			o, err := from.agent.Run(within(t, patience), wire.Run{Job: wire.Job{Kind: kind, Params: params, Cell: "c",
				Seed: 1, Peer: &wire.Peer{Address: address, Token: token}}, Work: 20})
			if err != nil || len(o.Result.Metrics) == 0 {
				t.Errorf("%s by way of %s: %v, %+v", kind, address, err, o.Result)
			}
		}
	}
	stranger := netpeer.NewToken().Text()
	if at, err := near.FindPeer(within(t, patience), addresses, stranger); err == nil ||
		!strings.Contains(err.Error(), "does not know this run's token") {
		t.Errorf("without the token it is found at %q, %v", at, err)
	}
	if at, err := near.FindPeer(within(t, patience), []string{"192.0.2.9:1"}, token); err == nil {
		t.Errorf("where nobody is it is found at %q", at)
	}
}
