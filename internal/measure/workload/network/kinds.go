// Package network measures the network between an environment and the machine that tare runs on: throughput, round
// trips, connections, and the CPU time of each end.
//
// It is opinionated. The other end is tare's own process on the controller's machine (package netpeer), so that the
// same code answers in every comparison and its CPU time is known, too. The timed loops are system calls on threads of
// their own, one for each connection or one for several streams, without Go's poller. A transfer ends when its receiver
// has every byte, not when the sender has passed the last one to its kernel.
package network

import (
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Bounds of the parameters.
const (
	maxStreams     = 64
	maxConnections = 256
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{stream(), roundTrip(), connect(), udp(), underLoad()}
}

// needs are those of all kinds here. Network traffic is mostly CPU work.
func needs() workload.Needs { return workload.Needs{Peer: true, CPUBound: true, OS: netpeer.OS()} }

// threadsParam is the parameter for the number of threads that serve the streams.
func threadsParam() workload.Param {
	return workload.Param{Name: "threads", Type: workload.Int, Default: "1", Min: 1, Max: 2 * maxStreams,
		Doc: "threads at each end for all streams of both directions, at most one for each; 1: as " +
			"iperf3 before 3.16; as many as streams: as since then"}
}

// serverParam is the way to another end than the run's peer.
func serverParam() workload.Param {
	return workload.Param{Name: "server", Type: workload.Text, Doc: "an iperf3 server in the place of " +
		"the run's peer: its numeric address as the environment sees it, with a port unless it is 5201"}
}

// toParam is the way to another end in another environment.
func toParam() workload.Param {
	return workload.Param{Name: workload.ToParam, Type: workload.Text, Doc: "the environment of the " +
		"run in which the other end is, instead of this machine"}
}

func atServer(p workload.Params) bool { return p["server"] != "" }

// elsewhere tells whether the target has nothing to do with the run's peer: there is another server, or the load comes
// from others, whose other end is then the target's own peer.
func elsewhere(p workload.Params) bool { return atServer(p) || p[workload.FromParam] != "" }

// cost has the names and the unit of the figures of both ends' CPU time.
type cost struct {
	metric string  // end of the figures' names: "ms_per_gib"
	unit   string  // "ms"
	scale  float64 // of the unit in a second
	each   float64 // how many of it make a unit of work
}

var (
	perGiB        = cost{"ms_per_gib", "ms", 1e3, 1.0 / 1024}
	perRoundTrip  = cost{"us_per_round_trip", "us", 1e6, 1}
	perDatagram   = cost{"us_per_datagram", "us", 1e6, 1}
	perConnection = cost{"us_per_connection", "us", 1e6, 1}
)

// metrics are the figures of both ends.
func (c cost) metrics() []unit.Metric {
	return []unit.Metric{
		{Name: "client_cpu_" + c.metric, Unit: c.unit, Better: unit.Lower,
			Doc: "CPU time of the client"},
		{Name: "peer_cpu_" + c.metric, Unit: c.unit, Better: unit.Lower,
			Doc: "CPU time of the other end"},
		{Name: "host_cpu_" + c.metric, Unit: c.unit, Better: unit.Lower,
			Doc: "CPU time of the environment's own processes on the controller's machine, if " +
				"known"},
	}
}

// host is the last of these figures.
func (c cost) host(used time.Duration, work int64) (metric string, v float64) {
	return "host_cpu_" + c.metric, used.Seconds() * c.scale / (float64(work) * c.each)
}

func stream() workload.Kind {
	return workload.Kind{
		Name: "net.stream", Family: workload.FamilyNetwork, WorkUnit: "MiB", MaxWork: 1 << 30, // the peer's limit
		Is: workload.Traits{Link: workload.StreamRate},
		Doc: "Sends bytes over TCP and stops the clock when the receiver has all of them. " +
			"The bytes of both directions, and of streams with a thread each, are divided " +
			"equally; streams that share a thread take what they can. With server the other end is stock " +
			"iperf3 -s, and the clock also spans the start of its test.",
		Params: []workload.Param{
			{Name: "direction", Type: workload.Choice, Default: "up", Choices: []string{"up", "down", "both"},
				Doc: "up: the environment sends; down: it receives; both: it does both at once"},
			{Name: "streams", Type: workload.Int, Default: "1", Min: 1, Max: maxStreams,
				Doc: "connections at the same time, in each direction"},
			threadsParam(),
			{Name: "block", Type: workload.Size, Default: "128KiB", Min: 1, Max: netpeer.MaxBlock,
				Doc: "bytes per read or write"},
			serverParam(), toParam(), workload.FromParams(),
		},
		Metrics: append([]unit.Metric{
			{Name: "throughput", Unit: "MiB/s", Better: unit.Higher, Timed: true, Primary: true,
				Doc: "bytes received per second over all streams"},
			{Name: "tcp_rtt", Unit: "ns", Better: unit.Lower,
				Doc: "the senders' round trip as their kernels smooth it (TCP_INFO), at the end; only " +
					"on Linux"},
			{Name: "tcp_window", Unit: "segments", Better: unit.Higher,
				Doc: "the senders' congestion window (TCP_INFO), at the end; only on Linux"},
		}, perGiB.metrics()...),
		Needs: needs(), HostCPU: perGiB.host, Peerless: elsewhere,
		Lasts: workload.NothingLasts,
		New:   newStreams,
	}
}

func udp() workload.Kind {
	metrics := func(paced, ordered bool) []unit.Metric {
		m := []unit.Metric{
			{Name: "datagrams_per_second", Unit: "datagrams/s", Better: unit.Higher, Timed: true, Primary: true,
				Doc: "datagrams received per second; only without a rate"},
			{Name: "jitter", Unit: "ns", Better: unit.Lower, Timed: true, Primary: paced,
				Doc: "mean change of the time on the way from one datagram to the next, smoothed as " +
					"in RFC 3550; of several streams the mean"},
			{Name: "arrived", Unit: "%", Better: unit.Higher, Doc: "share of the datagrams that " +
				"arrived"},
			{Name: "in_order", Unit: "%", Better: unit.Higher, Sparse: true,
				Doc: "share of those that came before every later one, which an iperf3 server does " +
					"not tell of what it receives"},
		}
		if !ordered {
			m = m[:3]
		}
		if paced {
			m = m[1:]
		}
		return append(m, perDatagram.metrics()...)
	}
	return workload.Kind{
		Name: "net.udp", Family: workload.FamilyNetwork, WorkUnit: "datagram", MaxWork: 1 << 40,
		Is: workload.Traits{Datagrams: true},
		Doc: "Sends numbered datagrams over UDP, each with one system call, and counts at the receiver " +
			"which arrive (as iperf3 -u does). Without a rate the sender sends as fast as it can, and what " +
			"arrives per second decides; with a rate, jitter does. Each stream has a thread at each end and " +
			"its own numbers, and all have equal shares of the datagrams.",
		Params: []workload.Param{
			{Name: "direction", Type: workload.Choice, Default: "up", Choices: []string{"up", "down", "both"},
				Doc: "up: the environment sends; down: it receives; both: it does both at once"},
			{Name: "streams", Type: workload.Int, Default: "1", Min: 1, Max: maxStreams,
				Doc: "streams at the same time, in each direction"},
			{Name: "size", Type: workload.Size, Default: "64B", Min: netpeer.MinDatagram, Max: netpeer.MaxDatagram,
				Doc: "bytes of a datagram without headers"},
			{Name: "rate", Type: workload.Int, Default: "0", Min: 0, Max: 10e6,
				Doc: "datagrams per second of each stream; 0: as many as the sender can"},
			serverParam(), toParam(), workload.FromParams(),
		},
		Metrics: metrics(false, true),
		Dynamic: func(p workload.Params) []unit.Metric {
			return metrics(gap(p) > 0, !atServer(p) || p["direction"] == "down")
		},
		Needs: needs(), HostCPU: perDatagram.host, Peerless: elsewhere,
		Lasts: workload.NothingLasts,
		New:   newDatagrams,
	}
}

func underLoad() workload.Kind {
	latency := func(name, doc string, primary, tail bool) unit.Metric {
		return unit.Metric{Name: name, Unit: "ns", Better: unit.Lower, Timed: true, Primary: primary, Tail: tail,
			Doc: doc}
	}
	return workload.Kind{
		Name: "net.loaded", Family: workload.FamilyNetwork, WorkUnit: "round trip",
		Doc: "Makes round trips over TCP as net.rr does on one connection, first with nothing else " +
			"to do, then as many while streams run beside it as in net.stream: what a queue in between costs " +
			"everybody else. The streams begin 0.3 s before the first round trip under load, and the CPU time is " +
			"that of the time under load. With server the streams go to stock iperf3 -s, and a round trip is a " +
			"TCP handshake with another port of that machine.",
		Params: []workload.Param{
			{Name: "direction", Type: workload.Choice, Default: "up", Choices: []string{"up", "down", "both"},
				Doc: "up: the environment sends; down: it receives; both: it does both at once"},
			{Name: "streams", Type: workload.Int, Default: "1", Min: 1, Max: maxStreams,
				Doc: "streams at the same time, in each direction"},
			threadsParam(),
			{Name: "size", Type: workload.Size, Default: "1B", Min: 1, Max: netpeer.MaxMessage,
				Doc: "bytes of a message, in each direction; not with server"},
			serverParam(), toParam(),
			{Name: "probe", Type: workload.Int, Default: "9", Min: 1, Max: 65535,
				Doc: "with server: the port for handshakes, which may be closed if that machine " +
					"refuses; Windows needs an open one"},
		},
		Metrics: append([]unit.Metric{
			latency("latency_p50", "that percentile of the round trips under load", true, false),
			latency("latency_p90", "that percentile of the round trips under load", false, false),
			latency("latency_p99", "that percentile of the round trips under load", false, true),
			latency("latency_max", "longest round trip under load", false, true),
			latency("idle_p50", "that percentile of the round trips without load", false, false),
			latency("idle_p90", "that percentile of the round trips without load", false, false),
			latency("idle_p99", "that percentile of the round trips without load", false, true),
			{Name: "over_idle_p50", Unit: "x", Better: unit.Lower, Doc: "that percentile under load " +
				"over the one without"},
			{Name: "over_idle_p90", Unit: "x", Better: unit.Lower, Sparse: true,
				Doc: "that percentile under load over the one without"},
			{Name: "over_idle_p99", Unit: "x", Better: unit.Lower, Tail: true, Doc: "that percentile " +
				"under load over the one without"},
			{Name: "load", Unit: "MiB/s", Better: unit.Higher, Timed: true, Doc: "throughput of the " +
				"streams"},
		}, perGiB.metrics()[:2]...),
		// How much the streams move is not known to the controller: it tells what was used and makes no figure of it.
		Needs: needs(), HostCPU: func(time.Duration, int64) (string, float64) { return "", 0 }, Peerless: atServer,
		Lasts: workload.NothingLasts,
		New:   newLoaded,
	}
}

func roundTrip() workload.Kind {
	latency := func(name, doc string, tail bool) unit.Metric {
		return unit.Metric{Name: name, Unit: "ns", Better: unit.Lower, Timed: true, Tail: tail, Doc: doc}
	}
	return workload.Kind{
		Name: "net.rr", Family: workload.FamilyNetwork, WorkUnit: "round trip",
		Is: workload.Traits{Link: workload.RoundTrips},
		Doc: "Sends a message over TCP, waits until the peer has sent it back, and sends the next " +
			"(as netperf's TCP_RR does, with one message in flight on each connection). TCP_NODELAY is set on " +
			"both ends, and a count in each message must be returned. The clock is read once per round trip.",
		Params: []workload.Param{
			{Name: "size", Type: workload.Size, Default: "1B", Min: 1, Max: netpeer.MaxMessage,
				Doc: "bytes of a message, in each direction"},
			{Name: "connections", Type: workload.Int, Default: "1", Min: 1, Max: maxConnections,
				Doc: "connections, each with a thread at each end"},
			toParam(), workload.FromParams(),
		},
		Metrics: append([]unit.Metric{
			{Name: "round_trips_per_second", Unit: "round trips/s", Better: unit.Higher, Timed: true, Primary: true,
				Doc: "round trips per second over all connections"},
			latency("latency_p50", "that percentile of the round trips", false),
			latency("latency_p90", "that percentile of the round trips", false),
			latency("latency_p99", "that percentile of the round trips", true),
			latency("latency_max", "longest round trip", true),
		}, perRoundTrip.metrics()...),
		Needs: needs(), HostCPU: perRoundTrip.host, Peerless: elsewhere,
		Lasts: workload.NothingLasts,
		New: func(p workload.Params) (workload.Trial, error) {
			return &roundTrips{conns: make([]*netpeer.Conn, p.Int("connections")), size: int(p.Int("size"))}, nil
		},
	}
}

func connect() workload.Kind {
	return workload.Kind{
		Name: "net.connect", Family: workload.FamilyNetwork, WorkUnit: "connection",
		Doc: "Makes a TCP connection, sends a greeting of 40 bytes, receives one byte, closes it, " +
			"and makes the next (as netperf's TCP_CRR does). The other end resets the connection after the " +
			"client has closed it, so that no port stays in TIME_WAIT.",
		Params: []workload.Param{toParam(), workload.FromParams()},
		Metrics: append([]unit.Metric{
			{Name: "connections_per_second", Unit: "connections/s", Better: unit.Higher, Timed: true, Primary: true,
				Doc: "connections made, used and closed per second"},
		}, perConnection.metrics()...),
		Needs: needs(), HostCPU: perConnection.host, Peerless: elsewhere,
		Lasts: workload.NothingLasts,
		New:   func(workload.Params) (workload.Trial, error) { return &connections{}, nil },
	}
}
