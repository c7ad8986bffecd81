package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tare/internal/sys/histogram"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/trace"
)

// made makes a trace in memory: a session for each list of times, with a statement at each of them. Times are in ms.
func made(t *testing.T, shard int64, sessions ...[]int64) *trace.Trace {
	t.Helper()
	var file bytes.Buffer
	w := trace.NewWriter(&file, trace.Meta{Start: 1, Shard: shard})
	number := uint64(0)
	for i, times := range sessions {
		for k, at := range times {
			e := trace.Event{Op: trace.Query, At: at * 1000, Number: number, Rows: -1, Text: []byte("SELECT 1")}
			if k == 0 {
				e.Op = trace.Connect
			} else {
				e.Fingerprint = w.Fingerprint(e.Text, lex.Verdict{Class: lex.Read})
				number++
			}
			if at >= 0 {
				w.Meta.Span = max(w.Meta.Span, e.At)
			} else {
				e.At = -1
			}
			if err := w.Add(uint64(i), &e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := trace.Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestParsePace(t *testing.T) {
	for text, want := range map[string]float64{"flat": 0, "original": 1, "2.0": 2, "0.5": 0.5, "1e3": 1000} {
		if got, err := ParsePace("pace", text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "fast", "0", "-1", "NaN", "Inf", "1e9", "2x"} {
		if got, err := ParsePace("pace", text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// The shards of a few units of work are spread over the log, and all of them are taken before one is taken again.
func TestWorkSpreads(t *testing.T) {
	var sessions [][]int64
	for i := range int64(13) {
		sessions = append(sessions, []int64{i, i, i})
	}
	tr := made(t, 2, sessions...) // a shard for each session
	if n := len(tr.Shards()); n != 13 {
		t.Fatalf("%d shards", n)
	}
	order := func(units int64, o *Options) (all []int) {
		w, err := newWork(tr, units, o)
		if err != nil {
			t.Fatal(err)
		}
		var place int64
		for _, j := range w.jobs {
			if j.place != place {
				t.Fatalf("the statements of job %+v begin at %d", j, place)
			}
			place += 2
			all = append(all, j.session)
		}
		if w.statements != place {
			t.Errorf("%d statements, want %d", w.statements, place)
		}
		return all
	}
	if got := fmt.Sprint(order(5, &Options{})); got != "[0 8 4 12 2]" {
		t.Error(got)
	}
	twice := order(26, &Options{})
	first := slices.Sorted(slices.Values(twice[:13]))
	if !slices.Equal(twice[:13], twice[13:]) || !slices.Equal(first, order(13, &Options{Think: 1})) {
		t.Error(twice)
	}
	if got := order(2, &Options{Whole: true}); len(got) != 26 || got[1] != 1 {
		t.Error(got)
	}
	if w, err := newWork(made(t, 0, []int64{5}), 1, &Options{}); err == nil {
		t.Errorf("a log without statements is work: %+v", w)
	}
}

func TestSchedule(t *testing.T) {
	tr := made(t, 1, []int64{1000, 1000, 1100}, []int64{1500, 1600, -1}, []int64{91500, 91600})
	due := func(o *Options, units int64) string {
		w, err := newWork(tr, units, o)
		if err != nil {
			t.Fatal(err)
		}
		p := newPacing(w, o)
		text := ""
		for i := range w.jobs {
			j := &w.jobs[i]
			at, ok := p.session(j)
			text += fmt.Sprintf("%d", at/1e6)
			if !ok {
				text += "?"
			}
			var c trace.Cursor
			var e trace.Event
			for c.Reset(tr, j.session); c.Next(&e) == nil; {
				if at, ok := p.statement(j, at, e.At); e.Op == trace.Query && ok {
					text += fmt.Sprintf(" +%d", at/1e6)
				} else if e.Op == trace.Query {
					text += " ?"
				}
			}
			text += "; "
		}
		return text
	}
	for _, c := range []struct {
		o     Options
		units int64
		want  string
	}{
		{Options{Think: 1, Connect: 1}, 3, "0 +0 +100; 500 +600 ?; 90500 +90600; "},
		{Options{Think: 1, Connect: 1, Idle: 10 * time.Second}, 3, "0 +0 +100; 500 +600 ?; 10600 +10700; "},
		{Options{Think: 1, Connect: 1, Idle: 200 * time.Millisecond}, 3, "0 +0 +100; 300 +400 ?; 600 +700; "},
		{Options{Think: 2, Connect: 1}, 3, "0 +0 +50; 500 +550 ?; 90500 +90550; "},
		{Options{Think: 0.5, Connect: 10}, 3, "0 +0 +200; 50 +250 ?; 9050 +9250; "},
		{Options{Connect: 1}, 2, "0 ? ?; 500 ? ?; "},
		{Options{Think: 1}, 2, "0? +0 +100; 0? +100 ?; "},
		{Options{Think: 1, Connect: 1, Idle: time.Second}, 4,
			"0 +0 +100; 500 +600 ?; 1600 +1700; 1700 +1700 +1800; "},
	} {
		if got := due(&c.o, c.units); got != c.want {
			t.Errorf("%+v:\n %s\n want\n %s", c.o, got, c.want)
		}
	}
}

// TestGaps compares with all events sorted.
func TestGaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var times []int64
		at := int64(0)
		for range rng.IntN(50) + 1 {
			at += rng.Int64N(1 << rng.IntN(20))
			times = append(times, at)
		}
		longest := rng.Int64N(5000) + 1
		g := newGaps(at, longest)
		var want []gap
		cut := int64(0)
		for i, at := range times {
			if i > 0 && at-times[i-1] > longest {
				cut += at - times[i-1] - longest
				want = append(want, gap{at, cut})
			}
		}
		rng.Shuffle(len(times), func(i, k int) { times[i], times[k] = times[k], times[i] })
		for _, at := range append(times, -1) {
			g.see(at)
		}
		if got := g.found(); !slices.Equal(got, want) {
			t.Fatalf("longest %d: %v, want %v", longest, got, want)
		}
	}
	if g := newGaps(1<<60, 1); len(g.first) > maxParts+1 {
		t.Errorf("%d parts", len(g.first))
	}
}

// TestBlame follows the clock of a lane by hand.
func TestBlame(t *testing.T) {
	for name, c := range map[string]struct {
		now, late, due int64
		want           blame
	}{
		"the server was slow":                 {now: 50, due: 10, want: ofServer},
		"the session began late":              {now: 50, late: 45, due: 10, want: ofLanes},
		"the session began late and was slow": {now: 50, late: 5, due: 10, want: ofServer},
	} {
		k := timekeeper{base: time.Now().Add(-time.Hour), now: c.now, late: c.late, lags: &histogram.Shared{},
			quit: func() bool { return false }}
		if !k.event(c.due) || k.sums[c.want] == 0 || k.sums[ofLanes] != c.late {
			t.Errorf("%s: %v", name, k.sums)
		}
	}
	// A server that takes a moment to connect is not to blame for the hour that the session waited for a lane. What a
	// session has caught up is not counted again.
	k := timekeeper{base: time.Now().Add(-time.Hour - time.Second), lags: &histogram.Shared{},
		quit: func() bool { return false }, late: int64(time.Hour)}
	if k.clock(); !k.event(0) || k.sums[ofLanes] != int64(time.Hour) || k.sums[ofServer] < int64(time.Second) ||
		k.sums[ofServer] > int64(time.Hour) {
		t.Errorf("%v", k.sums)
	}
	if k.clock(); !k.event(k.now-2) || k.late < 2 || k.late > int64(time.Hour)/2 ||
		k.sums[ofLanes] != int64(time.Hour)+k.late {
		t.Errorf("%v, %d", k.sums, k.late)
	}
	k = timekeeper{base: time.Now(), lags: &histogram.Shared{}, quit: func() bool { return false }}
	if !k.session(int64(time.Millisecond), true) || k.sums[ofServer]+k.sums[ofLanes] != 0 || k.now < k.begun ||
		k.sums[ofClient] != k.late {
		t.Errorf("%+v", k.sums)
	}
	k.quit = func() bool { return true }
	if k.event(int64(time.Hour)) {
		t.Error("a trial that is to stop waits for an hour")
	}
}
