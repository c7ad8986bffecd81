// Package crowd merges the trials of several hosts that offered one load together into one trial: one host alone could
// not offer that load.
//
// It is opinionated about sums. Histograms are merged bucket by bucket, so that a percentile is that of all requests
// and no mean of percentiles. A rate is all the work over the whole time, from the first one's beginning to the last
// one's end. Where the hosts did not work at the same time, there is no figure.
package crowd

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/workload/sql"
	"tare/internal/record"
	"tare/internal/sys/histogram"
)

// The bounds of a trial that counts.
const (
	// LeastCovered is the share of the time in which all hosts must have been at work.
	LeastCovered = 0.8
	// mostLate bounds the delay of the last beginning after the first, as a share of the time, and leastLate is the
	// delay that is always allowed.
	mostLate  = 0.05
	leastLate = 5 * time.Millisecond
	// clockOff bounds the error of the rate of a host's clock, as a share, beside the error of the comparison.
	clockOff = 0.02
	// bound is the share of its CPU time from which a host is its own limit.
	bound = 0.95
)

// The kinds of failure of a crowd.
const (
	Apart      = "load-apart"      // the hosts did not work at the same time
	ClockWrong = "load-clock"      // the clock of a host is wrong
	Unequal    = "load-unequal"    // they did not do the same work
	Unmerged   = "load-unmergable" // a host's figures cannot be added up
)

// Part is the share of one host. Where the hosts divided the sessions in some work, Units is all of that, and Merge
// counts Work in the statements or requests of the host's own sessions; else Units is 0, and Work the host's share of
// units.
type Part struct {
	Name  string
	Work  int64
	Units int64
	deploy.Outcome
}

const clientShare = "client_cpu_share"

// span is the time in which a host was at work, by the controller's monotonic clock, and the error of both ends, ns.
type span struct{ begin, end, within int64 }

func (p *Part) span() span {
	// The comparison after the trial is the one next to its end.
	offset, within := deploy.Offset(p.Clocks[len(p.Clocks)/2:])
	end := p.EndedNS + offset
	return span{end - p.Result.ElapsedNS, end, within}
}

// Merge makes one outcome of those of all hosts. server is the outcome of the trial on the server's side, nil where
// there was none. The error, a *record.Failure, says why they do not count; strict is false where the hosts need not
// have worked at the same time, as in a calibration.
func Merge(parts []Part, server *deploy.Outcome, strict bool) (deploy.Outcome, error) {
	o := deploy.Outcome{Load: &record.Load{}}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	lastBegin, firstEnd, within := last, first, int64(0)
	spans := make([]span, len(parts))
	if err := count(parts); err != nil {
		return o, err
	}
	for i := range parts {
		p := &parts[i]
		if len(p.Clocks) == 0 || p.EndedNS <= 0 || p.Result.ElapsedNS <= 0 {
			return o, failed(Unmerged, "%s did not say when it was at work", p.Name)
		}
		s := p.span()
		spans[i] = s
		first, last = min(first, s.begin), max(last, s.end)
		lastBegin, firstEnd, within = max(lastBegin, s.begin), min(firstEnd, s.end), max(within, s.within)
		o.RTTNS, o.RTTSpreadNS = max(o.RTTNS, p.RTTNS), max(o.RTTSpreadNS, p.RTTSpreadNS)
		o.SetupNS = max(o.SetupNS, p.SetupNS)
		if o.Start.IsZero() || p.Start.Before(o.Start) {
			o.Start = p.Start
		}
	}
	all := last - first
	o.Result.ElapsedNS, o.ControllerNS = all, all
	o.Load.LateNS = lastBegin - first
	o.Load.Covered = max(0, float64(firstEnd-lastBegin)/float64(all))
	for i := range parts {
		o.Load.Hosts = append(o.Load.Hosts, host(&parts[i], spans[i], first))
	}
	if strict {
		if err := together(parts, o.Load, spans, all, within); err != nil {
			return o, err
		}
	}
	err := figures(&o, parts, server)
	return o, err
}

func host(p *Part, s span, first int64) record.LoadHost {
	h := record.LoadHost{Name: p.Name, Work: p.Work, BeganNS: s.begin - first, ClockNS: s.within,
		NS: p.Result.ElapsedNS, CPUShare: -1, Metrics: p.Result.Metrics}
	h.OffsetNS, _ = deploy.Offset(p.Clocks)
	if v, err := strconv.ParseFloat(p.Result.State[clientShare], 64); err == nil {
		h.CPUShare, h.Bound = v, v >= bound
	}
	h.Bound = h.Bound || late(p)
	return h
}

func failed(kind, format string, args ...any) *record.Failure {
	return &record.Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// together holds that the hosts worked at the same time, by clocks that are right.
func together(parts []Part, l *record.Load, spans []span, all, within int64) error {
	for i := range parts {
		p := &parts[i]
		// By the comparisons before and after: when a mark arrived says less on a busy machine.
		half, n := len(p.Clocks)/2, len(p.Clocks)
		before, within := deploy.Offset(p.Clocks[:half])
		after, also := deploy.Offset(p.Clocks[half:])
		gained, took := before-after, p.Clocks[n-1].ControllerNS-p.Clocks[0].ControllerNS
		if half > 0 && math.Abs(float64(gained))-float64(within+also) > clockOff*float64(took) {
			return failed(ClockWrong, "the clock of %s, one of the %d hosts that offered the load, is wrong: it "+
				"gained "+
				"%v in %v by the controller's; measure without it", p.Name, len(parts), short(gained), short(took))
		}
	}
	if late := max(int64(leastLate), int64(mostLate*float64(all))); l.LateNS-2*within > late {
		i := 0
		for k := range spans {
			if spans[k].begin > spans[i].begin {
				i = k
			}
		}
		return failed(Apart, "%s, one of the %d hosts that offered the load, began %v after the first, and %v are "+
			"allowed (5 %% of the trial): the machine it runs on was busy, or is slow; use longer trials",
			parts[i].Name, len(parts), short(l.LateNS), short(late))
	}
	// At the log's pace, a host whose sessions are over has done all that was due.
	if l.Covered < LeastCovered && !paced(parts) {
		return failed(Apart, "the %d hosts that offered the load were at work together for %.0f %% of the time, and "+
			"%.0f %% are needed: %s; %s", len(parts), 100*l.Covered, 100*LeastCovered, paces(parts), remedy(parts))
	}
	return nil
}

func short(ns int64) time.Duration {
	d := time.Duration(ns)
	if d < 10*time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// paces lists the time of each host.
func paces(parts []Part) string {
	var words []string
	for i := range parts {
		words = append(words, fmt.Sprintf("%s took %v", parts[i].Name, short(parts[i].Result.ElapsedNS)))
	}
	return strings.Join(words, ", ")
}

// remedy names shares with which the hosts would have ended together.
func remedy(parts []Part) string {
	slowest := math.Inf(1)
	pace := make([]float64, len(parts))
	for i := range parts {
		pace[i] = float64(parts[i].Work) / float64(parts[i].Result.ElapsedNS)
		slowest = min(slowest, pace[i])
	}
	same, words := true, []string{}
	for i := range parts {
		share := max(1, math.Round(pace[i]/slowest))
		same = same && share == 1
		word := parts[i].Name
		if share > 1 {
			word += "*" + strconv.FormatFloat(min(share, 1000), 'f', 0, 64)
		}
		words = append(words, word)
	}
	if same && parts[0].Units > 0 {
		return "use longer trials, of which a session is a smaller part"
	}
	if same {
		return "use longer trials, or a rate, which says when each ends"
	}
	return "give the faster ones more of the work: from=" + strings.Join(words, "+")
}

// figures merges the figures of the hosts.
func figures(o *deploy.Outcome, parts []Part, server *deploy.Outcome) error {
	f := &o.Result.Figures
	f.Metrics, f.State = map[string]float64{}, map[string]string{}
	merged, err := histograms(parts)
	if err != nil {
		return err
	}
	groups := map[string]*histogram.Histogram{}
	for name, h := range merged {
		if id, ok := strings.CutPrefix(name, record.GroupHistogram); ok {
			groups[id] = h
			delete(merged, name)
		}
	}
	if len(merged) > 0 {
		o.Load.Histograms = map[string][]byte{}
		for name, h := range merged {
			o.Load.Histograms[name] = h.Append(nil)
		}
	}
	s := sums{parts: parts, all: float64(o.Result.ElapsedNS), merged: merged}
	for name := range parts[0].Result.Metrics {
		if v, ok := s.metric(name); ok {
			f.Metrics[name] = v
		}
	}
	f.Checks = parts[0].Result.Checks
	busiest := -1.0
	for i := range parts {
		p := &parts[i]
		for name, want := range f.Checks {
			if got := p.Result.Checks[name]; got != want {
				return failed(Unequal, "the hosts that offered the load did not do the same work: %s is %s for %s and "+
					"%s for %s; let all of them reach the same server", name, want, parts[0].Name, got, p.Name)
			}
		}
		for _, w := range p.Result.Warnings {
			w.Text = p.Name + ": " + w.Text
			f.Warnings = append(f.Warnings, w)
		}
		for name, v := range p.Result.State {
			// States that all hosts share are told once.
			if i == 0 {
				f.State[name] = v
			} else if f.State[name] != v {
				delete(f.State, name)
			}
		}
		busiest = max(busiest, o.Load.Hosts[i].CPUShare)
	}
	delete(f.State, clientShare)
	if busiest >= 0 {
		f.State[clientShare] = strconv.FormatFloat(busiest, 'f', 3, 64)
	}
	if parts[0].Units > 0 {
		if err := replayed(f, parts, groups); err != nil {
			return err
		}
	}
	if server != nil {
		for name, v := range server.Result.Metrics {
			f.Metrics[name] = v
		}
		for name, v := range server.Result.State {
			if strings.HasPrefix(name, "server") || strings.HasPrefix(name, "stack_") || sql.Counts(name) {
				f.State[name] = v
			}
		}
		f.Warnings = append(f.Warnings, server.Result.Warnings...)
	}
	return nil
}

// mostHistograms bounds the histograms of a host that are of no group. Each takes 57 KiB once it is unpacked.
const mostHistograms = 64

// histograms merges those of all hosts. Not every host has each group. One of a group that the first host does not tell
// apart is left out: then addGroups refuses them.
func histograms(parts []Part) (map[string]*histogram.Histogram, error) {
	merged, want := map[string]*histogram.Histogram{}, ungrouped(&parts[0])
	groups := map[string]bool{}
	for _, g := range parts[0].Result.Groups[:min(len(parts[0].Result.Groups), record.MaxGroups+1)] {
		groups[g.ID] = true
	}
	for i := range parts {
		p := &parts[i]
		if n := ungrouped(p); n != want || n > mostHistograms {
			return nil, failed(Unmerged, "%s has sent %d histograms, and %s %d; at most %d are possible", p.Name, n,
				parts[0].Name, want, mostHistograms)
		}
		for name, packed := range p.Result.Histograms {
			switch id, grouped := strings.CutPrefix(name, record.GroupHistogram); {
			case grouped && !groups[id]:
				continue
			case !grouped && i > 0 && merged[name] == nil:
				return nil, failed(Unmerged, "%s has sent a histogram %.40q, and %s has not", p.Name, name,
					parts[0].Name)
			}
			h, err := histogram.Parse(packed)
			if err != nil {
				return nil, failed(Unmerged, "the latencies of %s: %v", p.Name, err)
			}
			if merged[name] == nil {
				merged[name] = h
			} else {
				merged[name].Merge(h)
			}
		}
		p.Result.Histograms = nil
	}
	return merged, nil
}

// ungrouped counts the histograms of a host that are of no group.
func ungrouped(p *Part) (n int) {
	for name := range p.Result.Histograms {
		if !strings.HasPrefix(name, record.GroupHistogram) {
			n++
		}
	}
	return n
}
