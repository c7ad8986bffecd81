package crowd

import (
	"math"
	"strings"

	"tare/internal/sys/histogram"
)

// sums makes a metric of all hosts.
type sums struct {
	parts  []Part
	all    float64 // from the first one's beginning to the last one's end, ns
	merged map[string]*histogram.Histogram
}

// quantiles are percentiles by the ends of their names; those that end in _us are in microseconds, the others in
// nanoseconds.
var quantiles = map[string]float64{"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999, "p9999_us": 0.9999,
	"max_us": 1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1}

// rates are the metrics that count units for each second.
var rates = map[string]bool{"requests_per_second": true, "statements_per_second": true, "mib_per_second": true,
	"throughput": true, "datagrams_per_second": true, "round_trips_per_second": true, "connections_per_second": true}

// inUnits is a time in ns in the unit that a metric's name says.
func inUnits(name string, ns float64) float64 {
	if strings.HasSuffix(name, "_us") {
		return ns / 1e3
	}
	return ns
}

// metric is that of all hosts together; false where none has it or it cannot be told.
func (s *sums) metric(name string) (float64, bool) {
	for prefix, h := range s.merged {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if q, ok := quantiles[rest]; ok {
				return inUnits(name, float64(max(1, h.Quantile(q)))), true
			}
			if rest == "mean_us" {
				return inUnits(name, h.Mean()), true
			}
		}
	}
	switch {
	case name == "seconds" && s.parts[0].Units > 0:
		return s.all / 1e9 / float64(s.parts[0].Units), true
	case rates[name]:
		return s.rate(name), true
	case strings.HasPrefix(name, "server_cpu_"), strings.HasPrefix(name, "peer_cpu_"):
		return s.far(name)
	}
	return s.mean(name)
}

// rate is the rate of all hosts over the whole time.
func (s *sums) rate(name string) (v float64) {
	for i := range s.parts {
		r := &s.parts[i].Result
		v += r.Metrics[name] * float64(r.ElapsedNS) / s.all
	}
	return v
}

// far is the cost of a unit of work at the other end. Each host has asked for the other end's use in its own time: that
// is the use for all of them, and not for the host alone.
func (s *sums) far(name string) (float64, bool) {
	used, work := math.Inf(-1), 0.0
	for i := range s.parts {
		p := &s.parts[i]
		work += float64(p.Work)
		if v, ok := p.Result.Metrics[name]; ok {
			used = max(used, v*float64(p.Work))
		}
	}
	return used / work, !math.IsInf(used, 0)
}

// mean is that over all units of work.
func (s *sums) mean(name string) (float64, bool) {
	sum, work := 0.0, 0.0
	for i := range s.parts {
		p := &s.parts[i]
		v, ok := p.Result.Metrics[name]
		if !ok {
			return 0, false
		}
		sum += v * float64(p.Work)
		work += float64(p.Work)
	}
	return sum / work, true
}
