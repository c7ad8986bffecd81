//go:build unix

package network

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/netpeer/peertest"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
)

func kindAt(t testing.TB, name string, p workload.Peer) *workload.Kind {
	return peertest.At(trialtest.Named(t, Kinds(), name), p, nil)
}

func TestKindsOnTheLoopback(t *testing.T) {
	p := peertest.Start(t, nil)
	for _, c := range []struct {
		kind  string
		given map[string]string
		work  int64
	}{
		{"net.stream", nil, 64},
		{"net.stream", map[string]string{"direction": "down"}, 64},
		{"net.stream", map[string]string{"streams": "5", "block": "1000B"}, 3},
		{"net.stream", map[string]string{"streams": "64", "direction": "down", "block": "4MiB"}, 65},
		{"net.stream", map[string]string{"direction": "both", "streams": "3"}, 64},
		{"net.stream", map[string]string{"direction": "both", "streams": "3", "threads": "4"}, 64},
		{"net.stream", map[string]string{"streams": "4", "threads": "4"}, 64},
		{"net.stream", map[string]string{"streams": "4", "threads": "3", "direction": "down"}, 64},
		{"net.udp", nil, 5000},
		{"net.udp", map[string]string{"direction": "down", "size": "16B"}, 5000},
		{"net.udp", map[string]string{"rate": "5000", "size": "1400B"}, 500},
		{"net.udp", map[string]string{"direction": "down", "rate": "5000"}, 500},
		{"net.udp", map[string]string{"direction": "both", "rate": "5000"}, 500},
		{"net.udp", map[string]string{"direction": "both", "streams": "3", "size": "1400B", "rate": "1000"}, 300},
		{"net.udp", map[string]string{"streams": "4"}, 4001},
		{"net.loaded", nil, 500},
		{"net.loaded", map[string]string{"direction": "both", "streams": "2", "size": "100B"}, 200},
		{"net.loaded", map[string]string{"direction": "both", "streams": "2", "threads": "3"}, 200},
		{"net.rr", nil, 2000},
		{"net.rr", map[string]string{"size": "1MiB"}, 20},
		{"net.rr", map[string]string{"connections": "7", "size": "1400B"}, 700},
		{"net.rr", map[string]string{"connections": "256"}, 100}, // fewer than there are connections
		{"net.connect", nil, 500},
	} {
		b := trialtest.Run(t, kindAt(t, c.kind, p), c.given, c.work)
		for _, share := range []string{"client_cpu_share", "server_cpu_share"} {
			if v, err := strconv.ParseFloat(b.State[share], 64); err != nil || v < 0 || v > 1.5 {
				t.Errorf("%s %v: %s is %q", c.kind, c.given, share, b.State[share])
			}
		}
	}
}

// The bytes that a stream counts are those of which the receiver told, before the time is taken.
func TestTimeEndsWithTheReceiver(t *testing.T) {
	p := peertest.Start(t, nil)
	for _, direction := range []string{"up", "down"} {
		trial, err := trialtest.Named(t, Kinds(),
			"net.stream").New(workload.Params{"direction": direction, "streams": "1", "threads": "1", "block": "64KiB"})
		if err != nil {
			t.Fatal(err)
		}
		b := &workload.Bench{Work: 4, Seed: 1, Peer: p}
		if err := trial.Setup(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		s := trial.(*streams)
		if err := trial.Measure(t.Context(), b); err != nil || s.receipts[0].Bytes != 4<<20 {
			t.Errorf("%s: the receipt is of %d bytes, %v", direction, s.receipts[0].Bytes, err)
		}
		if err := trial.Cleanup(b); err != nil {
			t.Error(err)
		}
	}
}

// Each stream of datagrams is counted by its own receiver, and has its share of them.
func TestStreamsOfDatagrams(t *testing.T) {
	p := peertest.Start(t, nil)
	trial, err := newDatagrams(workload.Params{"direction": "both", "streams": "3", "size": "100B", "rate": "2000"})
	if err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Work: 601, Seed: 1, Peer: p}
	if err := errors.Join(trial.Setup(t.Context(), b), trial.Measure(t.Context(), b)); err != nil {
		t.Fatal(err)
	}
	d := trial.(*datagrams)
	ups := 0
	for i, a := range d.got {
		if !d.receives(i) {
			ups++
		}
		if n := share(b.Work, i, 6); a.Received < 1 || a.Received > n || a.Next > n {
			t.Errorf("stream %d: %+v of %d datagrams", i, a, n)
		}
	}
	if len(d.got) != 6 || ups != 3 {
		t.Errorf("%d streams, %d of them upwards", len(d.got), ups)
	}
	if err := trial.Cleanup(b); err != nil {
		t.Error(err)
	}
}

// What did not come, and what came late, are figures that can be compared: shares, because a 0 is no figure.
func TestSharesOfDatagrams(t *testing.T) {
	for _, c := range []struct {
		received, sent, late int64
		arrived, ordered     float64
	}{
		{100, 100, 0, 100, 100}, {90, 100, 0, 90, 100}, {80, 100, 20, 80, 75}, {110, 100, 11, 100, 90},
		{0, 100, 0, 0, 0}, {50, 100, -1, 50, -1},
	} {
		b := &workload.Bench{Work: c.sent, Elapsed: time.Second}
		reportDatagrams(b, c.received, c.sent, c.late, 1, true)
		ordered, told := b.Metrics["in_order"]
		if b.Metrics["arrived"] != c.arrived || told != (c.late >= 0) || told && ordered != c.ordered {
			t.Errorf("%d of %d received, %d late: %v", c.received, c.sent, c.late, b.Metrics)
		}
	}
}

// The CPU time of net.loaded is that of the time under load, for each GiB that was moved in it.
func TestCPUTimeUnderLoad(t *testing.T) {
	p := peertest.Start(t, nil)
	b := trialtest.Run(t, kindAt(t, "net.loaded", p), nil, 300)
	checkLoadedCPU(t, b, netpeer.CPUs(), netpeer.CPUs())
}

func checkLoadedCPU(t *testing.T, b *workload.Bench, clients, servers int) {
	t.Helper()
	for _, c := range []struct {
		metric, share string
		cpus          int
	}{
		{"client_cpu_ms_per_gib", "client_cpu_share", clients}, {"peer_cpu_ms_per_gib", "server_cpu_share", servers},
	} {
		share, err := strconv.ParseFloat(b.State[c.share], 64)
		// Processors kept busy, by the figure for each GiB and by the share of those that there are.
		busy := b.Metrics[c.metric] / 1e3 * b.Metrics["load"] / 1024
		if want := share * float64(c.cpus); err != nil || busy < want-0.01*float64(c.cpus) ||
			busy > want+0.01*float64(c.cpus) {
			t.Errorf("%s of %v and a load of %v MiB/s are %.4f processors, and %s is %s of %d", c.metric,
				b.Metrics[c.metric], b.Metrics["load"], busy, c.share, b.State[c.share], c.cpus)
		}
	}
}

// What net.loaded with an iperf3 server cannot do is refused with its reason.
func TestLoadedServerRefuses(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "net.loaded")
	for want, given := range map[string]map[string]string{
		"a TCP handshake, which has no message":    {"server": "127.0.0.1", "size": "100B"},
		"the iperf3 server's own port":             {"server": "127.0.0.1", "probe": "5201"},
		"the iperf3 server's own port, and":        {"server": "127.0.0.1:700", "probe": "700"},
		"\"router.example:5201\" is not a numeric": {"server": "router.example"},
		"no iperf3 server listens there":           {"server": "127.0.0.1:1"},
		"between 1 and 65535":                      {"server": "127.0.0.1:1", "probe": "0"},
		"\"::1\" is not a numeric address":         {"server": "::1"},
	} {
		if _, err := trialtest.Try(t, k, given, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", given, err, want)
		}
	}
}

func TestTimedLoopsDoNotAllocate(t *testing.T) {
	p := peertest.Start(t, nil)
	for _, c := range []struct {
		kind  string
		given workload.Params
	}{
		{"net.stream", workload.Params{"direction": "up", "streams": "1", "threads": "1", "block": "128KiB"}},
		{"net.stream", workload.Params{"direction": "both", "streams": "2", "threads": "1", "block": "128KiB"}},
		{"net.rr", workload.Params{"size": "1B", "connections": "1"}},
	} {
		kind := c.kind
		trial, err := kindAt(t, kind, p).New(c.given)
		if err != nil {
			t.Fatal(err)
		}
		b := &workload.Bench{Work: 10, Seed: 1}
		if err := trial.Setup(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		var failed error
		allocations := func(work int64) float64 {
			// testing.AllocsPerRun leaves one processor to both ends, which wait without the scheduler's knowledge.
			var before, after runtime.MemStats
			b.Work = work
			runtime.ReadMemStats(&before)
			failed = errors.Join(failed, trial.Measure(t.Context(), b))
			runtime.ReadMemStats(&after)
			return float64(after.Mallocs - before.Mallocs)
		}
		// What is for each Measure does not grow with its work; the peer in this process has nothing to allocate
		// either. The runtime's own are counted as well: the fewest of some tries are the loop's.
		small, large := allocations(10), allocations(100)
		for try := 0; try < 20 && large > small+5; try++ {
			small, large = min(small, allocations(10)), min(large, allocations(100))
		}
		if failed != nil || large > small+5 {
			t.Errorf("%s: %v allocations for 10 units, %v for 100, %v", kind, small, large, failed)
		}
		if err := trial.Cleanup(b); err != nil {
			t.Error(err)
		}
	}
}

func TestWithoutAPeer(t *testing.T) {
	for _, k := range Kinds() {
		for name, p := range map[string]workload.Peer{
			"nobody listens": {Address: "127.0.0.1:1", Token: netpeer.NewToken().Text()},
			"no address":     {},
			"no token":       {Address: "127.0.0.1:1", Token: "abc"},
		} {
			began := time.Now()
			if _, err := trialtest.Try(t, kindAt(t, k.Name, p), nil, 1); err == nil {
				t.Errorf("%s, %s: it worked", k.Name, name)
			} else if p.Token != "" && strings.Contains(err.Error(), p.Token) {
				t.Errorf("%s, %s: the token is shown: %v", k.Name, name, err)
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("%s, %s: it took %v", k.Name, name, d)
			}
		}
		if !k.Needs.Peer || k.Family != "network" {
			t.Errorf("%s: needs %+v, family %s", k.Name, k.Needs, k.Family)
		}
	}
}

func TestShares(t *testing.T) {
	for _, all := range []int64{1, 7, 64, 1000} {
		for _, n := range []int{1, 3, 64} {
			sum := int64(0)
			for i := range n {
				sum += share(all, i, n)
			}
			if sum != all {
				t.Errorf("%d among %d: %d are done", all, n, sum)
			}
		}
	}
}
