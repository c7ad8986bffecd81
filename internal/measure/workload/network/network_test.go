//go:build unix

package network

import (
	"errors"
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
		{"net.udp", nil, 5000},
		{"net.udp", map[string]string{"direction": "down", "size": "16B"}, 5000},
		{"net.udp", map[string]string{"rate": "5000", "size": "1400B"}, 500},
		{"net.udp", map[string]string{"direction": "down", "rate": "5000"}, 500},
		{"net.loaded", nil, 500},
		{"net.loaded", map[string]string{"direction": "both", "streams": "2", "size": "100B"}, 200},
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
			"net.stream").New(workload.Params{"direction": direction, "streams": "1", "block": "64KiB"})
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

func TestTimedLoopsDoNotAllocate(t *testing.T) {
	p := peertest.Start(t, nil)
	for kind, given := range map[string]workload.Params{
		"net.stream": {"direction": "up", "streams": "1", "block": "128KiB"},
		"net.rr":     {"size": "1B", "connections": "1"},
	} {
		trial, err := kindAt(t, kind, p).New(given)
		if err != nil {
			t.Fatal(err)
		}
		b := &workload.Bench{Work: 10, Seed: 1}
		if err := trial.Setup(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		var failed error
		allocations := func(work int64) float64 {
			b.Work = work
			return testing.AllocsPerRun(1, func() { failed = errors.Join(failed, trial.Measure(t.Context(), b)) })
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
