package verdict

import (
	"strings"
	"testing"

	"tare/internal/plan"
	"tare/internal/record"
)

// TestPageExplainedByItsWay has a round trip of 100 µs that costs twice as much in vm, and a stream of 625 MiB/s that
// costs four times as much: 64 KiB take as long as the round trip, and 64 bytes no time.
func TestPageExplainedByItsWay(t *testing.T) {
	trip, stream := on("net.rr", "connections=1"), on("net.stream", "direction=down", "streams=1")
	way := "a round trip (" + trip.Label + ") and the page's bytes at the rate of " + stream.Label + " cost"
	figures := func(workload, _ string) float64 {
		return map[string]float64{trip.Label: 10_000, stream.Label: 625}[workload] + 1
	}
	for _, test := range []struct {
		size string
		cost float64
		says string
	}{
		{"64KiB", 3, way + " 3.0"},
		{"64B", 2.05, way + " 2.0"},
		{"64B", 3, ""},
		{"64KiB", 4.05, stream.Label + " costs 4.0"},
		{"64KiB", 6, ""},
	} {
		page := on("http.fetch", "size="+test.size)
		s := two(trip, stream, page).figures(figures)
		s = s.costs(map[string]float64{trip.Label + " vm": 2, stream.Label + " vm": 4, page.Label + " vm": test.cost})
		f := finding(s.evaluate(), "network-explains-web")
		switch {
		case f == nil && test.says == "":
		case f == nil || test.says == "":
			t.Errorf("a page of %s that costs %v: %+v", test.size, test.cost, f)
		case !strings.Contains(f.Text, test.says):
			t.Errorf("a page of %s that costs %v: %s", test.size, test.cost, f.Text)
		}
	}
}

// TestPageOfASiteExplainedByItsWay is TestPageExplainedByItsWay for the page of an environment's own site, loaded from
// another place, whose size the trials tell: 64 KiB. On its way it is 200 µs, which cost three times as much in vm. How
// long it takes altogether decides what that makes of it: a page that takes 20 ms because it is computed has another
// reason, even if it costs as much as the network.
func TestPageOfASiteExplainedByItsWay(t *testing.T) {
	trip := on("net.rr", "connections=1", "from=host")
	stream := on("net.stream", "direction=down", "streams=1", "from=host")
	page := on("http.load", "url=stack-varnish:@front", "from=host")
	for _, test := range []struct {
		micros, cost float64
		says         string
	}{
		{200, 3, stream.Label + " cost 3.0"},
		{200, 6, ""},
		{400, 2, "50 % of its time in host, would make it cost 2.0"},
		{400, 3, ""},
		{20_000, 3, ""}, // as the way
		{20_000, 2, ""}, // as a round trip alone
		{20_000, 4, ""}, // as a stream alone
	} {
		figures := func(workload, metric string) float64 {
			switch {
			case workload == trip.Label:
				return 10_000
			case workload == stream.Label:
				return 625
			case metric == "mib_per_second":
				return 125
			}
			return 2000
		}
		took := func(t *record.Trial) { t.Metrics["p50_us"] = test.micros }
		s := two(trip, stream, page).figures(figures).trials(took)
		s = s.costs(map[string]float64{trip.Label + " vm": 2, stream.Label + " vm": 4, page.Label + " vm": test.cost})
		f := finding(s.evaluate(), "network-explains-web")
		if (f != nil) != (test.says != "") || f != nil && !strings.Contains(f.Text, test.says) {
			t.Errorf("a page of %v µs that costs %v: %+v", test.micros, test.cost, f)
		}
	}
}

// TestPagesThatCrossTheNetwork holds that the network explains a page only if the page came over the network that was
// measured. All of these cost what the network does.
func TestPagesThatCrossTheNetwork(t *testing.T) {
	const here, there = "server=192.0.2.1", "url=http://192.0.2.1/index.html"
	iperf := on("command", "command=iperf3 -c 192.0.2.1 -J")
	for _, c := range []struct {
		name          string
		network, page plan.Workload
		explained     bool
	}{
		{"the controller's page and the peer", on("net.stream"), on("http.fetch"), true},
		{"a page of the environment's own nginx", on("net.stream"), on("http.get"), false},
		{"a page of the environment's own site", on("net.stream"), on("http.get", "url=stack-varnish:@front"), false},
		{"a page on the loopback", on("net.stream"), on("http.get", "url=http://127.0.0.1:8080/"), false},
		{"a page on the loopback of IPv6", on("net.stream"), on("http.get", "url=http://[::1]:8080/"), false},
		{"a page on localhost", on("command", "command=iperf3 -c localhost"),
			on("command", "command=wrk -c 2 http://localhost/"), false},
		{"another machine's page and the peer", on("net.stream"), on("http.get", there), false},
		{"another machine's page and its iperf3", on("net.stream", here+":5201"), on("http.get", there), true},
		{"the same without a port", on("net.stream", here), on("http.get", there), true},
		{"the iperf3 of a third machine", on("net.stream", "server=192.0.2.9"), on("http.get", there), false},
		{"the controller's page and another machine's iperf3", on("net.stream", here), on("http.fetch"), false},
		{"a page of the site, loaded from another place", on("net.rr", "from=host"),
			on("http.load", "url=stack-varnish:@front", "from=host"), true},
		{"a page of its own nginx, loaded from another place", on("net.stream", "from=host"),
			on("http.load", "from=host"), true},
		{"the same from two places", on("net.stream", "from=host"), on("http.load", "from=box"), false},
		{"a page loaded from another place, and the run's peer", on("net.stream"), on("http.load", "from=host"), false},
		{"the controller's page, and a peer in the target", on("net.stream", "from=host"), on("http.fetch"), false},
		{"the controller's page, and a peer elsewhere", on("net.stream", "to=box"), on("http.fetch"), false},
		{"another machine's page loaded from another place", on("net.stream", "from=host"),
			on("http.load", there, "from=host"), false},
		{"several pages of another machine", on("net.stream", here),
			on("http.get", "urls=3 http://192.0.2.1:8080/a 1 /b"), true},
		{"commands that name one machine", iperf, on("command", "command=wrk -c 2 http://192.0.2.1/"), true},
		{"commands that name two", iperf, on("command", "command=wrk -c 2 http://192.0.2.11/"), false},
		{"a command on the loopback", iperf, on("command", "command=ab -n 500 http://127.0.0.1/"), false},
	} {
		s := two(c.network, c.page)
		s = s.costs(map[string]float64{c.network.Label + " vm": 1.40, c.page.Label + " vm": 1.43})
		if f := finding(s.evaluate(), "network-explains-web"); (f != nil) != c.explained {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

// TestTheNetworkModeExplainsWorkOnTheNetwork has a machine on a bridge and one on a user-mode network, with one card.
func TestTheNetworkModeExplainsWorkOnTheNetwork(t *testing.T) {
	modes := func(re *record.Environment) {
		vm := re.Name == "vm"
		re.Outside.Settings["nic"] = "virtio"
		re.Outside.Settings["net"] = map[bool]string{true: "bridge", false: "user"}[vm]
		re.Outside.Settings["vhost"] = map[bool]string{true: "on", false: "off"}[vm]
	}
	for workload, explained := range map[string]bool{"net.rr": true, "net.stream": true, "cpu.prime": false} {
		w := on(workload)
		r := two(w).envs(modes).costs(map[string]float64{w.Label + " vm": 3}).evaluate()
		f := finding(r, "settings-differ")
		if !explained {
			if f != nil && strings.Contains(f.Text, "network mode") {
				t.Errorf("%s: %s", workload, f.Text)
			}
			continue
		}
		if f == nil || !strings.Contains(f.Text, "network mode bridge instead of user") ||
			!strings.Contains(f.Text, "vhost on instead of off") || strings.Contains(f.Text, "network card") {
			t.Errorf("%s: %+v", workload, f)
		}
	}
}

func nics(re *record.Environment) {
	re.Outside.Settings["nic"] = map[bool]string{true: "e1000", false: "virtio"}[re.Name == "vm"]
}

// TestNetworkClientIsWeighed holds that the client of work on the network may be the limit, which the client of a
// server under load may not.
func TestNetworkClientIsWeighed(t *testing.T) {
	busy := vmTrials(func(t *record.Trial) { t.State[clientShare] = "0.99" })
	for workload, withheld := range map[string]bool{"net.stream": false, "http.get": true} {
		r := two(on(workload)).trials(busy).evaluate()
		if got := finding(r, "client-bound") != nil; got != withheld {
			t.Errorf("%s: client-bound is %v", workload, got)
		}
	}
}

// TestBoundHostIsNamed holds that where several hosts offer a load, the one that was the limit is named.
func TestBoundHostIsNamed(t *testing.T) {
	r := two(on("http.get")).trials(vmTrials(func(t *record.Trial) {
		t.Load, t.State[clientShare] = offered(0.41, 0.97), "0.97"
	})).evaluate()
	f := finding(r, "client-bound")
	if f == nil || !strings.Contains(f.Text, "of the 2 hosts that offered the load, c2 used 97 %") ||
		!strings.Contains(f.Remedy, "from=") {
		t.Errorf("%+v", f)
	}
	// One that was behind a log's schedule by itself has CPU time left.
	r = two(on("http.get")).trials(vmTrials(func(t *record.Trial) {
		t.Load, t.State[clientShare] = offered(0.41, 0.2), "0.41"
		t.Load.Hosts[1].Bound = true
	})).evaluate()
	f = finding(r, "client-bound")
	if f == nil || !strings.Contains(f.Text, "of the 2 hosts that offered the load, c2 was busy, or behind") ||
		r.Cells[0].Verdict != record.Withheld && r.Cells[len(r.Cells)-1].Verdict != record.Withheld {
		t.Errorf("%+v %+v", f, r.Cells)
	}
}

// TestPeerThatDied holds that one trial suffices to withhold an open verdict where the other end is gone.
func TestPeerThatDied(t *testing.T) {
	for kind, withheld := range map[string]bool{"peer-died": true, "load-host-died": true, "measure": false} {
		r := two(on("cpu.prime")).trials(func(tr *record.Trial) {
			unsteady(tr)
			died(kind, 12)(tr)
		}).costs(map[string]float64{"cpu.prime vm": 1.03}).evaluate()
		f := finding(r, "given-up")
		if (f != nil) != withheld || withheld && !strings.Contains(f.Text, "could not continue after 11 blocks: gone") {
			t.Errorf("%s: %+v", kind, f)
		}
	}
}
