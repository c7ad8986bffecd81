package verdict

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/measure/workload/stack"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// The states in which a load test says how busy its two ends were: the share, 0 to 1, of the CPU time that each could
// have used during the timed section.
const (
	clientShare = "client_cpu_share"
	serverShare = "server_cpu_share"
)

// bound is the share of its CPUs from which one end of a load test is its limit.
const bound = 0.95

// withholdClient withholds the verdict on a load test whose client had no CPU to spare, or was behind a log's schedule
// by itself: the figure is the client's. Work on the network has no such client: it is one end of what is weighed, and
// that its CPU is the limit is what the network costs there.
func withholdClient(c *cellBuilder) {
	if c.Family == workload.FamilyNetwork {
		return
	}
	for _, side := range []struct {
		target string
		of     *series
	}{{c.Target, c.candidate}, {c.Baseline, c.baseline}} {
		share, hosts := medianState(side.of, clientShare), loadHosts(side.of)
		busy := share >= bound
		if !busy && !slices.ContainsFunc(hosts, loadHost.limit) ||
			hasCode(trialWarnings(side.target, side.of), "client-bound") { // then withholdWarnings does it
			continue
		}
		who, remedy := "the load generator",
			"give the client more CPUs or threads, or the server less work per request"
		if len(hosts) > 0 {
			who = fmt.Sprintf("of the %d hosts that offered the load, %s", len(hosts), boundOf(hosts))
			remedy = "give it a smaller share of the load (from=), or offer the load from more hosts"
		}
		did := "was busy, or behind the log's schedule by itself, in most of the trials"
		if busy {
			did = fmt.Sprintf("used %.0f %% of its CPU time in the trials", 100*share)
		}
		beside := ""
		if server := medianState(side.of, serverShare); !math.IsNaN(server) {
			beside = fmt.Sprintf(", the server %.0f %% of its own", 100*server)
		}
		c.withhold("client-bound", fmt.Sprintf("%s %s of %s%s: the figure is the limit of the load generator and not "+
			"of the server", who, did, side.target, beside), remedy)
	}
}

// medianState is the median of a numeric state over a series; NaN when no trial has it.
func medianState(s *series, key string) float64 {
	var x []float64
	for _, k := range s.keys {
		if v, err := strconv.ParseFloat(s.used[k].State[key], 64); err == nil {
			x = append(x, v)
		}
	}
	return medianOf(x)
}

// loadHost is one of the hosts that offered the load of a series of trials.
type loadHost struct {
	name  string
	share float64 // median of the share of its CPU time that it used; NaN if it is not known
	bound int     // trials in which it was its own limit
	of    int     // trials in all
}

// limit tells whether it was its own limit.
func (h loadHost) limit() bool { return h.share >= bound || 2*h.bound > h.of }

// loadHosts are those of a series, in the order of the plan; none where each target did its work alone.
func loadHosts(s *series) (hosts []loadHost) {
	shares, bounds := map[string][]float64{}, map[string]int{}
	for _, k := range s.keys {
		l := s.used[k].Load
		if l == nil {
			continue
		}
		for _, h := range l.Hosts {
			if _, ok := shares[h.Name]; !ok {
				hosts = append(hosts, loadHost{name: h.Name})
				shares[h.Name] = nil
			}
			if h.CPUShare >= 0 {
				shares[h.Name] = append(shares[h.Name], h.CPUShare)
			}
			if h.Bound {
				bounds[h.Name]++
			}
		}
	}
	for i := range hosts {
		hosts[i].share, hosts[i].bound = medianOf(shares[hosts[i].name]), bounds[hosts[i].name]
		hosts[i].of = len(s.keys)
	}
	return hosts
}

// boundOf names the hosts that were their own limit, or the busiest one if that differed from trial to trial.
func boundOf(hosts []loadHost) string {
	var names []string
	for _, h := range hosts {
		if h.limit() {
			names = append(names, h.name)
		}
	}
	if len(names) == 0 {
		names = []string{busiestOf(hosts).name}
	}
	return strings.Join(names, " and ")
}

// busiestOf is the host that used most of its CPU time.
func busiestOf(hosts []loadHost) (most loadHost) {
	most = hosts[0]
	for _, h := range hosts[1:] {
		if h.share > most.share || math.IsNaN(most.share) {
			most = h
		}
	}
	return most
}

// offeredFindings tells of loads that several hosts offered together, and that none of them was the limit.
func offeredFindings(e *finder, _ *Result) []Finding {
	var out []Finding
	at := map[string]int{}
	for _, c := range e.cells {
		if !c.Primary || c.decision == nil {
			continue
		}
		hosts := loadHosts(c.candidate)
		if len(hosts) == 0 || slices.ContainsFunc(hosts, loadHost.limit) {
			continue
		}
		if n, ok := at[c.Workload]; ok {
			if !slices.Contains(out[n].Targets, c.Target) {
				out[n].Targets = append(out[n].Targets, c.Target)
			}
			continue
		}
		var names []string
		for _, h := range hosts {
			names = append(names, h.name)
		}
		text := fmt.Sprintf("the load of %s was offered by %s (%s)", c.Workload,
			unit.Plural(int64(len(hosts)), "host"), strings.Join(names, ", "))
		if b := busiestOf(hosts); !math.IsNaN(b.share) && len(hosts) == 1 {
			text += fmt.Sprintf(", which was not the limit: it used %.0f %% of its CPU time", 100*b.share)
		} else if !math.IsNaN(b.share) {
			text += fmt.Sprintf(", none of them bound: the busiest, %s, used %.0f %% of its CPU time",
				b.name, 100*b.share)
		}
		at[c.Workload] = len(out)
		out = append(out, Finding{Targets: []string{c.Target}, Workloads: []string{c.Workload}, Text: text,
			Remedy: "nothing to fix: percentiles are those of all requests together, and rates are over the time " +
				"from the first host's beginning to the last one's end"})
	}
	return out
}

// serverFindings finds the workloads in which the server's CPU was the limit, as a comparison of environments wants it.
func serverFindings(e *finder, _ *Result) []Finding {
	var out []Finding
	at := map[string]int{}
	for _, c := range e.cells {
		if !c.Primary || c.decision == nil {
			continue
		}
		client, server := medianState(c.candidate, clientShare), medianState(c.candidate, serverShare)
		if !(server >= bound) || !(client < bound) {
			continue
		}
		if n, ok := at[c.Target]; ok {
			addWorkload(&out[n], c.Workload)
			continue
		}
		at[c.Target] = len(out)
		out = append(out, Finding{
			Targets: []string{c.Target}, Workloads: []string{c.Workload},
			Text: fmt.Sprintf("%s %s is bound by the server's CPU (%.0f %% busy, the client %.0f %%): the ratio is "+
				"the cost of serving there, not of the network",
				c.Target, c.Workload, 100*server, 100*client),
			Remedy: "nothing to fix; to know the cost of the network alone, add a network workload",
		})
	}
	return out
}

// loadCommands tell by its command line what a workload of kind command loads.
var (
	networkCommand = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[\s;&|/])(iperf3?|netperf|qperf|sockperf)\s`)
	})
	webCommand = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[\s;&|/])(wrk2?|ab|h2load|hey|k6|vegeta|oha|bombardier|curl)\s`)
	})
	buildCommand = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[\s;&|/])(make|ninja|go build|cargo build|mvn|gradle|bazel build|npm run build|meson compile|cmake --build)(\s|$)`)
	})
	buildLabel = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\b(build|compile|make)\b`) })
)

func isNetwork(w *plan.Workload) bool {
	return all.Named(w.Kind).Family == workload.FamilyNetwork || w.Params["preset"] == "iperf3" ||
		networkCommand().MatchString(w.Params["command"]+" ")
}

func isWeb(w *plan.Workload) bool {
	return all.Named(w.Kind).Family == workload.FamilyWeb || w.Params["preset"] == "wrk" ||
		webCommand().MatchString(w.Params["command"]+" ")
}

// explained is the largest ratio of the costs of network and page at which the one explains the other.
const explained = 1.1

// thePeer is the far end of work that has its other end in the run's peer, on the controller's machine.
const thePeer = "the run's peer"

// webHost finds the host that a web client asks, in the text that names its pages.
var webHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)https?://(?:[^/\s@]*@)?(\[[0-9a-f:.]+\]|[^/\s:'"]+)`)
})

// farEnd says across which network a web client fetches its pages, by where these come from; "" where it crosses none,
// because the server is in the environment itself and is asked over its loopback, and where that is not known.
func farEnd(w *plan.Workload) string {
	if from := offeredFrom(w); from != "" {
		return from
	}
	kind, text := all.Named(w.Kind), w.Params["url"]+" "+w.Params["urls"]
	switch {
	case kind.NeedsPeer(w.Params):
		return thePeer
	case kind.Is.Command:
		text = w.Params["command"]
	}
	found := webHost().FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	host := strings.ToLower(strings.Trim(found[1], "[]"))
	if at, err := netip.ParseAddr(host); host == "localhost" || err == nil && (at.IsLoopback() || at.IsUnspecified()) {
		return ""
	}
	return host
}

// offeredFrom says from where a workload's server in the target is loaded; "" where the target does the work itself, or
// where the server is another one, which is there already.
func offeredFrom(w *plan.Workload) string {
	from, url := w.Params[workload.FromParam], w.Params["url"]
	if from == "" || w.Params["urls"] != "" || url != "" && !stack.Names(url) {
		return ""
	}
	return "clients in " + from
}

// reaches tells whether a workload on the network crosses the one to that far end.
func reaches(w *plan.Workload, far string) bool {
	switch server := w.Params["server"]; {
	case offeredFrom(w) != "":
		return far == offeredFrom(w)
	case w.Params[workload.ToParam] != "":
		return false
	case is(w).Command:
		return slices.Contains(strings.Fields(strings.ToLower(w.Params["command"])), far)
	case server == "":
		return far == thePeer
	default:
		if at, err := netip.ParseAddrPort(server); err == nil {
			return at.Addr().String() == far
		}
		return strings.Trim(server, "[]") == far
	}
}

// networkFindings compares what a page costs with what the network costs, where the page comes over the network that
// was measured: a client beside its server, on one loopback, learns nothing of the environment's card. Where both
// ratios differ from 1 in the same direction and agree within their intervals, the network is explanation enough.
func networkFindings(e *finder, _ *Result) []Finding {
	var networks, pages []*cellBuilder
	for _, c := range e.cells {
		w, ok := e.Plan.Workload(c.Workload)
		if !ok || !c.Primary || c.decision == nil || !c.decision.HasInterval() {
			continue
		}
		switch {
		case isNetwork(w):
			networks = append(networks, c)
		case isWeb(w) && c.Verdict == record.Different:
			pages = append(pages, c)
		}
	}
	var out []Finding
	for _, p := range pages {
		for _, n := range e.explanations(p, networks) {
			rest, half, ok := agree(p, n)
			if !ok {
				continue
			}
			out = append(out, Finding{
				Targets: []string{p.Target}, Workloads: append([]string{p.Workload}, n.workloads...),
				Text: fmt.Sprintf("in %s the network explains the cost of %s: %s %s against %s and %s %s; the rest "+
					"is %s",
					p.Target, p.Workload, n.text, times(n.center, n.low, n.high), n.baseline, p.Workload,
					times(p.Ratio.Center, p.Low, p.High),
					times(math.Exp(rest), math.Exp(rest-half), math.Exp(rest+half))),
				Remedy: "look at the network (card model, bridge or NAT, offloads) before the web server; a page " +
					"served without a network shows the rest",
			})
			break
		}
	}
	return out
}

// explanation is the cost of a page by the network alone, as a ratio with its interval.
type explanation struct {
	workloads         []string
	baseline          string
	text              string // what costs that, with its verb
	center, low, high float64
}

// explanations lists what may explain a page's cost, the one that knows most first: its way, then each network cell by
// itself.
func (e *finder) explanations(page *cellBuilder, networks []*cellBuilder) []explanation {
	var all []explanation
	var trip, stream *cellBuilder
	asked, _ := e.Plan.Workload(page.Workload)
	far, size, took := farEnd(asked), pageSize(asked, page), pageTime(page)
	for _, n := range networks {
		w, _ := e.Plan.Workload(n.Workload)
		if far == "" || n.Target != page.Target || n.Baseline != page.Baseline || !reaches(w, far) {
			continue
		}
		if n.Verdict == record.Different {
			part := 0.0
			switch is(w).Link {
			case workload.RoundTrips:
				part = roundTrip(n, w)
			case workload.StreamRate:
				part = moving(n, size)
			}
			x := explanation{[]string{n.Workload}, n.Baseline, n.Workload + " costs", n.Ratio.Center, n.Low, n.High}
			all = append(all, x.within(n.Workload, part, took))
		}
		switch link := is(w).Link; {
		case link == workload.RoundTrips && w.Params["connections"] == "1" && trip == nil:
			trip = n
		case link == workload.StreamRate && w.Params["direction"] == "down" && w.Params["streams"] == "1" &&
			stream == nil:
			stream = n
		}
	}
	if size > 0 && trip != nil && stream != nil {
		if x, ok := way(trip, stream, size, took); ok {
			all = slices.Insert(all, 0, x)
		}
	}
	return all
}

// within returns the cost of a page that takes page seconds in the baseline, part of them in the network, if the rest
// of it costs as much as there. Where one of the times is not known, or the page took hardly longer, the network is all
// of it. what names the network's part.
func (x explanation) within(what string, part, page float64) explanation {
	if !(part > 0) || !(part < 0.95*page) {
		return x
	}
	mixed := func(ratio float64) float64 { return 1 + part/page*(ratio-1) }
	x.center, x.low, x.high = mixed(x.center), mixed(x.low), mixed(x.high)
	x.text = fmt.Sprintf("%s, %.2g %% of its time in %s, would make it cost", what, 100*part/page, x.baseline)
	return x
}

// pageTime returns a client's wait for a page in the baseline, in seconds; NaN where that is not known.
func pageTime(page *cellBuilder) float64 {
	var times []float64
	for _, k := range page.baseline.keys {
		if p50, ok := page.baseline.used[k].Metrics["p50_us"]; ok {
			times = append(times, p50/1e6)
		}
	}
	return medianOf(times)
}

// roundTrip returns the time of a round trip in the baseline, in seconds: each connection makes one at a time.
func roundTrip(c *cellBuilder, w *plan.Workload) float64 {
	connections, _ := strconv.ParseFloat(w.Params["connections"], 64) // a plan that was resolved has a right one
	return max(connections, 1) / c.BaselineCenter
}

// moving returns the time, in seconds, of size bytes in the baseline at a stream's rate, which is in MiB/s.
func moving(c *cellBuilder, size float64) float64 { return size / (1 << 20) / c.BaselineCenter }

// pageSize returns the size of a page, in bytes: as its workload asks for it, or as it came in the baseline; 0 where no
// one fetched it by a kind that says so.
func pageSize(w *plan.Workload, page *cellBuilder) float64 {
	if param := is(w).PageSize; param != "" {
		size, _ := unit.ParseSize(w.Params[param]) // a plan that was resolved has a right one
		return float64(size)
	}
	var sizes []float64
	for _, k := range page.baseline.keys {
		m := page.baseline.used[k].Metrics
		if pages := m["requests_per_second"]; pages > 0 {
			sizes = append(sizes, m["mib_per_second"]*(1<<20)/pages)
		}
	}
	if len(sizes) == 0 {
		return 0
	}
	return medianOf(sizes)
}

// way returns the cost of a page of size bytes by the network: one round trip, whose figure is a rate per second, and
// the bytes at the rate of a stream, MiB/s. Each weighs in the ratio as it does in the baseline's time. took is the
// time of the page there, in seconds.
func way(trip, stream *cellBuilder, size, took float64) (x explanation, ok bool) {
	wait, move := 1/trip.BaselineCenter, moving(stream, size)
	a := wait / (wait + move) * trip.Ratio.Center
	b := move / (wait + move) * stream.Ratio.Center
	center := a + b
	half := math.Hypot(a/center*math.Log(trip.High/trip.Low)/2, b/center*math.Log(stream.High/stream.Low)/2)
	what := fmt.Sprintf("a round trip (%s) and the page's bytes at the rate of %s", trip.Workload, stream.Workload)
	x = explanation{[]string{trip.Workload, stream.Workload}, trip.Baseline, what + " cost", center,
		center * math.Exp(-half), center * math.Exp(half)}
	return x.within(what, wait+move, took), center > 0 && !math.IsInf(center, 0) && !math.IsNaN(half)
}

// agree compares the ratio of a page with that of the network: what is left of the first when the second is taken off,
// ln, and the half-width of its interval, where the two are taken as independent.
func agree(page *cellBuilder, network explanation) (rest, half float64, ok bool) {
	p, n := math.Log(page.Ratio.Center), math.Log(network.center)
	hp, hn := math.Log(page.High/page.Low)/2, math.Log(network.high/network.low)/2
	rest, half = p-n, math.Hypot(hp, hn)
	// An interval as wide as the cost itself would agree with anything.
	ok = p*n > 0 && math.Abs(rest) <= math.Log(explained) && math.Abs(rest) <= half+math.Log1p(page.Margin) &&
		half < math.Abs(n)/2
	return rest, half, ok
}

// times writes a ratio with its interval, two decimals where they tell something.
func times(center, low, high float64) string {
	format := "%.2f [%.2f, %.2f]"
	if low >= 100 {
		format = "%.0f [%.0f, %.0f]"
	}
	return fmt.Sprintf(format, center, low, high)
}
