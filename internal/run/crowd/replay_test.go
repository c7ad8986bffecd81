package crowd

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"tare/internal/record"
	"tare/internal/sys/histogram"
	"tare/internal/sys/setdiff"
)

// hostCounts is what a host counted of one fingerprint.
type hostCounts struct {
	count, errors, rows int64
	sum                 uint64
	h                   histogram.Histogram
}

// replays are hosts that divided the statements of a log, and what one host would have counted of all of them.
func replays(g *rand.Rand, hosts int) (parts []Part, whole [3]hostCounts, all histogram.Histogram,
	sketch *setdiff.Sketch) {
	sketch = &setdiff.Sketch{}
	n := hosts * (50 + g.IntN(300))
	each := make([][3]hostCounts, hosts)
	latencies, sketches := make([]histogram.Histogram, hosts), make([]setdiff.Sketch, hosts)
	for number := range n {
		i, k := number%hosts, g.IntN(3)
		ns := int64(math.Exp(g.NormFloat64() + 10 + float64(i)))
		e := setdiff.Element{Number: uint64(number), Kind: uint32(k), Rows: uint32(g.IntN(9)), Sum: g.Uint64()}
		for _, t := range []*hostCounts{&each[i][k], &whole[k]} {
			t.count++
			t.errors += int64(number % 7 / 6)
			t.rows += int64(e.Rows)
			t.sum += e.Sum
			t.h.Record(ns)
		}
		latencies[i].Record(ns)
		all.Record(ns)
		sketches[i].Add(e)
		sketch.Add(e)
	}
	for i := range hosts {
		p := part("c"+strings.Repeat("x", i), 0, 10*sec, 11*sec)
		p.Units = 4
		r := &p.Result
		r.Metrics = map[string]float64{"latency_p99": 1, "latency_mean": latencies[i].Mean(), "seconds": 0.25,
			"statements_per_second": float64(latencies[i].Count())}
		r.Histograms = map[string][]byte{"latency_": latencies[i].Append(nil)}
		r.State = map[string]string{"statements": fmt.Sprint(latencies[i].Count()), "statements_of_all": fmt.Sprint(n),
			"lanes": "2", "Com_select": fmt.Sprint(100 + i), "errors": "none", "sum": fmt.Sprintf("%016x", g.Uint64()),
			clientShare: "0.2"}
		var errs int64
		for k := range each[i] {
			t := &each[i][k]
			group := record.Group{ID: fmt.Sprint("F", k), Count: t.count, Errors: t.errors, Rows: t.rows, P99: 5,
				Seconds: t.h.Mean() * float64(t.count) / 1e9}
			if k < 2 && t.count > 0 {
				group.Check = fmt.Sprintf("%d rows of %d statements, sum %016x", t.rows, t.count, t.sum)
			}
			if r.Groups = append(r.Groups, group); t.count > 0 {
				r.Histograms[record.GroupHistogram+group.ID] = t.h.Append(nil)
			}
			errs += t.errors
		}
		if errs > 0 {
			r.State["errors"] = fmt.Sprintf("1146: %d", errs)
		}
		r.Sketch = sketches[i].Bytes()
		parts = append(parts, p)
	}
	return parts, whole, all, sketch
}

// TestReplaysAddUp holds that hosts which divided a log have together what one host would have: figures, percentiles
// and evidence of each fingerprint, and the sketch of what came back.
func TestReplaysAddUp(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 17))
	for range 30 {
		parts, whole, all, sketch := replays(g, 1+g.IntN(5))
		o, err := Merge(parts, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		f := &o.Result.Figures
		errs := int64(0)
		for k := range whole {
			w, got := &whole[k], f.Groups[k]
			errs += w.errors
			want := record.Group{ID: fmt.Sprint("F", k), Count: w.count, Errors: w.errors, Rows: w.rows,
				P50: float64(w.h.Quantile(0.5)) / 1e9, P99: float64(w.h.Quantile(0.99)) / 1e9, Seconds: got.Seconds}
			if k < 2 {
				want.Check = fmt.Sprintf("%d rows of %d statements, sum %016x", w.rows, w.count, w.sum)
			}
			if got != want || math.Abs(got.Seconds/(w.h.Mean()*float64(w.count)/1e9)-1) > 1e-9 {
				t.Fatalf("fingerprint %d:\n%+v, want\n%+v", k, got, want)
			}
		}
		if !reflect.DeepEqual(f.Sketch, sketch.Bytes()) {
			t.Fatal("the sketch is not that of all")
		}
		n := float64(all.Count())
		if f.State["statements"] != fmt.Sprint(all.Count()) || f.Metrics["statements_per_second"] != n ||
			math.Abs(f.Metrics["latency_mean"]/all.Mean()-1) > 1e-9 || f.Metrics["seconds"] != 0.25 ||
			f.Metrics["latency_p99"] != float64(all.Quantile(0.99)) {
			t.Fatalf("%v %v of %v statements", f.Metrics, f.State, n)
		}
		sum := uint64(0)
		for i := range parts {
			x, _ := strconv.ParseUint(parts[i].Result.State["sum"], 16, 64)
			sum += x
		}
		want := map[string]string{"statements": fmt.Sprint(all.Count()), "lanes": fmt.Sprint(2 * len(parts)),
			"Com_select": f.State["Com_select"], "errors": fmt.Sprintf("1146: %d", errs), clientShare: "0.200",
			"sum": fmt.Sprintf("%016x", sum)}
		if !reflect.DeepEqual(f.State, want) {
			t.Fatalf("the state is %v, want %v", f.State, want)
		}
		if len(o.Load.Histograms) != 1 || o.Load.Hosts[0].Work <= 0 {
			t.Fatalf("%d histograms are kept, %+v", len(o.Load.Histograms), o.Load.Hosts)
		}
	}
}

// TestReplaysThatDoNotAddUp has hosts whose parts are not those of one work.
func TestReplaysThatDoNotAddUp(t *testing.T) {
	g := rand.New(rand.NewPCG(2, 17))
	for name, c := range map[string]struct {
		change     func(p *Part)
		kind, says string
	}{
		"a statement twice": {func(p *Part) { p.Result.State["statements_of_all"] = "7" }, Unequal,
			"and by cx there are 7"},
		"no number": {func(p *Part) { delete(p.Result.State, "statements") }, Unmerged, "cx did not say how many"},
		"a fingerprint less": {func(p *Part) { p.Result.Groups = p.Result.Groups[1:] }, Unequal,
			"c and cx have different fingerprints"},
		"no evidence": {func(p *Part) { p.Result.Groups[0].Check = "12 rows" }, Unmerged, "for fingerprint F0"},
		"other evidence": {func(p *Part) { p.Result.Groups[0].Check = "1 bytes of 1 requests, sum 0f" }, Unmerged,
			"do not count the same thing"},
		"no sketch":   {func(p *Part) { p.Result.Sketch = []byte{1} }, Unmerged, "its size is wrong"},
		"another log": {func(p *Part) { p.Result.Checks = map[string]string{"page": "other"} }, Unequal, "page is"},
	} {
		parts, _, _, _ := replays(g, 3)
		c.change(&parts[1])
		_, err := Merge(parts, nil, true)
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != c.kind || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Histograms of nothing are not even looked at, and too many are refused.
	parts, _, _, _ := replays(g, 2)
	for i := range 100_000 {
		parts[1].Result.Histograms[fmt.Sprint(record.GroupHistogram, "X", i)] = []byte{1}
	}
	if _, err := Merge(parts, nil, true); err != nil {
		t.Errorf("with histograms of groups that are not there: %v", err)
	}
	for _, other := range []bool{false, true} {
		parts, _, _, _ = replays(g, 2)
		for i := range parts {
			for k := range mostHistograms {
				if !other || k == i {
					parts[i].Result.Histograms[fmt.Sprint(k)] = new(histogram.Histogram).Append(nil)
				}
			}
		}
		if _, err := Merge(parts, nil, true); err == nil || !strings.Contains(err.Error(), "has sent") {
			t.Errorf("too many or other histograms: %v", err)
		}
	}
	// Percentiles of a part are none.
	parts, _, _, _ = replays(g, 3)
	delete(parts[1].Result.Histograms, record.GroupHistogram+"F1")
	o, err := Merge(parts, nil, true)
	if err != nil || o.Result.Groups[1].P99 != 0 || o.Result.Groups[0].P99 == 0 {
		t.Errorf("without a histogram: %+v, %v", o.Result.Groups, err)
	}
}

// TestPacedReplaysMayEndEarly holds that at the pace of a log a host is not apart whose sessions are over, and that who
// was behind is named.
func TestPacedReplaysMayEndEarly(t *testing.T) {
	parts, _, _, _ := replays(rand.New(rand.NewPCG(3, 17)), 2)
	p := &parts[1]
	p.Result.ElapsedNS -= sec / 2
	p.EndedNS -= sec / 2
	if _, err := Merge(parts, nil, true); err == nil || !strings.Contains(err.Error(), "from=c+cx*") {
		t.Errorf("as fast as it can, a host that ends early: %v", err)
	}
	var h histogram.Histogram
	h.Record(3 * ms)
	for i := range parts {
		r := &parts[i].Result
		r.Histograms["behind_"] = h.Append(nil)
		r.Metrics[behind] = float64(ms * int64(i+1))
		r.State["behind_because"] = []string{"server (90 %)", "client (80 %)"}[i]
		r.Warnings = []record.Warning{{Code: "replay-behind", Text: "late"}}
	}
	o, err := Merge(parts, nil, true)
	if err != nil || o.Result.State["behind_because"] != "client (80 %) in cx" || o.Load.Covered > 0.6 ||
		o.Load.Hosts[0].Bound || !o.Load.Hosts[1].Bound ||
		o.Result.Metrics[behind] != float64(3*ms) || o.Load.Hosts[1].Metrics[behind] != float64(2*ms) {
		t.Errorf("%v: %+v %+v", err, o.Result.State, o.Load)
	}
}

func FuzzAddChecks(f *testing.F) {
	f.Add("12 rows of 3 statements, sum 00000000000000ff", "1 rows of 1 statements, sum ffffffffffffffff")
	f.Add("", "1 rows")
	f.Fuzz(func(t *testing.T, a, b string) {
		sum, err := addChecks(a, b)
		back, again := addChecks(b, a)
		if (err == nil) != (again == nil) || err == nil && a != "" && b != "" && sum != back {
			t.Errorf("%q and %q give %q, %v and %q, %v", a, b, sum, err, back, again)
		}
	})
}
