package crowd

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/histogram"
)

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// part is a host that began and ended at some time by the controller's clock. Its own clock is an hour off, and differs
// from host to host.
func part(name string, work int64, begin, end int64) Part {
	offset := -int64(len(name)) * 1_000_003 * ms
	p := Part{Name: name, Work: work}
	p.Result = wire.Result{ElapsedNS: end - begin, Figures: record.Figures{
		Metrics: map[string]float64{"requests_per_second": float64(work) / (float64(end-begin) / 1e9),
			"client_cpu_us": 10, "server_cpu_us": 40},
		Checks: map[string]string{"page": "same"}, State: map[string]string{clientShare: "0.5", "lull": "no"}}}
	p.ControllerNS, p.EndedNS = end-begin, end-offset
	for _, at := range []int64{begin - ms, begin - ms, end + ms, end + ms} {
		p.Clocks = append(p.Clocks, deploy.ClockPair{ControllerNS: at, AgentNS: at - offset, RTTNS: 100_000})
	}
	return p
}

// TestPercentilesAreThoseOfAllRequests gives hosts very different latencies. A mean of their percentiles would be far
// off; the merged ones are those of all requests together.
func TestPercentilesAreThoseOfAllRequests(t *testing.T) {
	g := rand.New(rand.NewPCG(7, 8))
	for round := range 40 {
		var pooled, late histogram.Histogram
		var parts []Part
		for i := range 1 + g.IntN(6) {
			n := 10 + g.IntN(4000)
			p := part(fmt.Sprint("c", strings.Repeat("x", i)), int64(n), 10*sec, 11*sec)
			var own, ownLate histogram.Histogram
			for range n {
				v := int64(math.Exp(g.NormFloat64() + 10 + 2*float64(i)))
				own.Record(v)
				pooled.Record(v)
				ownLate.Record(v / 7)
				late.Record(v / 7)
			}
			for name := range quantiles {
				p.Result.Metrics["latency_"+name] = 1
				p.Result.Metrics[name] = float64(own.Quantile(quantiles[name])) / 1e3
				p.Result.Metrics["schedule_"+name] = 1
			}
			p.Result.Metrics["schedule_mean_us"], p.Result.Metrics["late_p99_us"] = 1, 1
			p.Result.Histograms = map[string][]byte{"": own.Append(nil), "schedule_": own.Append(nil),
				"latency_": own.Append(nil), "late_": ownLate.Append(nil)}
			parts = append(parts, p)
		}
		o, err := Merge(parts, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		for name, q := range quantiles {
			want := float64(pooled.Quantile(q))
			if strings.HasSuffix(name, "_us") {
				want /= 1e3
			}
			if got := o.Result.Metrics[name]; got != want || o.Result.Metrics["schedule_"+name] != want ||
				o.Result.Metrics["latency_"+name] != want {
				t.Fatalf("round %d: %s is %v, of all requests together it is %v", round, name, got, want)
			}
		}
		if got, want := o.Result.Metrics["late_p99_us"], float64(late.Quantile(0.99))/1e3; got != want {
			t.Errorf("late_p99_us is %v, want %v", got, want)
		}
		if got, want := o.Result.Metrics["schedule_mean_us"], pooled.Mean()/1e3; math.Abs(got/want-1) > 1e-9 {
			t.Errorf("schedule_mean_us is %v, want %v", got, want)
		}
		kept, err := histogram.Parse(o.Load.Histograms[""])
		if err != nil || kept.Count() != pooled.Count() || kept.Quantile(0.999) != pooled.Quantile(0.999) {
			t.Errorf("the record keeps another histogram: %v", err)
		}
		if len(o.Result.Histograms) > 0 {
			t.Error("the figures still have the histograms")
		}
	}
}

// TestSums holds how rates, costs and clocks of several hosts are added up.
func TestSums(t *testing.T) {
	a, b := part("a", 1000, 10*sec, 12*sec), part("bb", 3000, 10*sec+20*ms, 12*sec+100*ms)
	b.Result.Metrics["client_cpu_us"], b.Result.Metrics["server_cpu_us"] = 20, 13.5
	b.Result.State[clientShare], b.Result.State["lull"] = "0.97", "yes"
	b.Result.Warnings = []record.Warning{{Code: "x", Text: "careful"}}
	o, err := Merge([]Part{a, b}, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	m := o.Result.Metrics
	if got, want := m["requests_per_second"], 4000/2.1; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v requests per second, want %v: all of them over the whole time", got, want)
	}
	if got := m["client_cpu_us"]; math.Abs(got-17.5) > 1e-9 {
		t.Errorf("a request costs the clients %v", got)
	}
	// Both saw the server use about 40 ms: for the requests of both.
	if got := m["server_cpu_us"]; math.Abs(got-13.5*3000/4000) > 1e-9 {
		t.Errorf("a request costs the server %v", got)
	}
	l := o.Load
	if l.LateNS != 20*ms || math.Abs(l.Covered-1.98/2.1) > 1e-9 || l.Hosts[1].BeganNS != 20*ms ||
		l.Hosts[1].ClockNS != 50_000 || l.Hosts[0].Bound || !l.Hosts[1].Bound || l.Hosts[1].CPUShare != 0.97 ||
		l.Hosts[0].Work != 1000 || l.Hosts[0].OffsetNS == l.Hosts[1].OffsetNS {
		t.Errorf("%+v", l)
	}
	r := &o.Result
	if o.ControllerNS != 2100*ms || r.ElapsedNS != 2100*ms || r.Checks["page"] != "same" ||
		r.State[clientShare] != "0.970" || r.State["lull"] != "" || len(r.Warnings) != 1 ||
		r.Warnings[0].Text != "bb: careful" {
		t.Errorf("%+v %+v", o, r)
	}
	server := deploy.Outcome{Result: wire.Result{Figures: record.Figures{
		Metrics: map[string]float64{"server_cpu_us": 5},
		State:   map[string]string{"server_cpu_share": "0.3", "overhead_ns": "7"}}}}
	o, err = Merge([]Part{a, b}, &server, true)
	if r := &o.Result; err != nil || r.Metrics["server_cpu_us"] != 5 || r.State["server_cpu_share"] != "0.3" ||
		r.State["overhead_ns"] != "" {
		t.Errorf("with the server's own: %+v, %v", r, err)
	}
}

// TestWhatDoesNotCount holds that hosts which did not work at the same time, by right clocks, give no figure.
func TestWhatDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(parts []Part)
		kind, says string
	}{
		"began late": {func(p []Part) { p[1] = part("bb", 100, 10*sec+60*ms, 11*sec) }, Apart,
			"bb, one of the 3 hosts"},
		"ended early": {func(p []Part) { p[1] = part("bb", 100, 10*sec, 10*sec+500*ms) }, Apart,
			"from=a+bb*2+ccc"},
		"ended early, by a little": {func(p []Part) { p[1] = part("bb", 100, 10*sec, 10*sec+790*ms) }, Apart,
			"use longer trials"},
		"a clock that runs fast": {func(p []Part) {
			p[1].EndedNS += 50 * ms
			for i := range p[1].Clocks[2:] {
				p[1].Clocks[2+i].AgentNS += 50 * ms
			}
		}, ClockWrong, "the clock of bb, one of the 3 hosts that offered the load, is wrong: it gained 50ms"},
		"another page": {func(p []Part) { p[1].Result.Checks = map[string]string{"page": "other"} }, Unequal,
			"page is same for a and other for bb"},
		"no word of its end": {func(p []Part) { p[1].EndedNS = 0 }, Unmerged, "bb"},
		"garbage": {func(p []Part) {
			for i := range p {
				p[i].Result.Histograms = map[string][]byte{"": {1}}
			}
		}, Unmerged, "the latencies of a"},
		"a histogram less": {func(p []Part) {
			p[0].Result.Histograms = map[string][]byte{"": new(histogram.Histogram).Append(nil)}
		}, Unmerged, "bb has sent 0"},
	} {
		parts := []Part{part("a", 100, 10*sec, 11*sec), part("bb", 100, 10*sec, 11*sec),
			part("ccc", 100, 10*sec, 11*sec)}
		if _, err := Merge(parts, nil, true); err != nil {
			t.Fatal(err)
		}
		c.change(parts)
		_, err := Merge(parts, nil, true)
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != c.kind || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Merge(parts, nil, false); c.kind == Apart && err != nil {
			t.Errorf("%s: a calibration fails: %v", name, err)
		}
	}
	// What the clocks cannot tell is no reason.
	late := []Part{part("a", 100, 10*sec, 11*sec), part("bb", 100, 10*sec+60*ms, 11*sec)}
	for i := range late[1].Clocks {
		late[1].Clocks[i].RTTNS = 20 * ms
	}
	if _, err := Merge(late, nil, true); err != nil {
		t.Errorf("60 ms late by clocks that are 10 ms uncertain: %v", err)
	}
}
