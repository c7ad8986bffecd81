package durability

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/measure/workload/durability"
	"tare/internal/record"
)

// written writes a real round into a directory and returns what was acknowledged.
func written(t *testing.T) (dir string, acknowledged []durability.Record) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "round")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var mu sync.Mutex
	counts, full := map[durability.Class]int{}, 0
	err := durability.Write(ctx, dir, durability.Plan{Classes: durability.Classes(), Seed: 5, Round: 7},
		func(r durability.Record) error {
			mu.Lock()
			defer mu.Unlock()
			acknowledged = append(acknowledged, r)
			// Some of every class, however long the disk takes for them.
			if counts[r.Class]++; counts[r.Class] == 10 {
				full++
			}
			if full == len(durability.Classes()) {
				cancel()
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return dir, acknowledged
}

func found(t *testing.T, dir string) []durability.Record { return foundOf(t, dir, 7) }

func foundOf(t *testing.T, dir string, round uint32) (rs []durability.Record) {
	t.Helper()
	err := durability.Find(dir, durability.Classes(), round, func(r durability.Record) error {
		rs = append(rs, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func TestJudge(t *testing.T) {
	dir, acknowledged := written(t)
	for _, c := range durability.Classes() {
		if n := len(slices.DeleteFunc(slices.Clone(acknowledged),
			func(r durability.Record) bool { return r.Class != c })); n < 2 {
			t.Fatalf("%s: %d records were acknowledged", c, n)
		}
	}
	if losses := Judge(acknowledged, found(t, dir)); len(losses) != 0 {
		t.Fatalf("losses without a cut: %v", losses)
	}
	// What another round left in the same places, newer or not, is no excuse.
	lost := map[string]bool{}
	for _, l := range Judge(acknowledged, foundOf(t, dir, 8)) {
		lost[l.Class] = true
	}
	if len(lost) != len(durability.Classes()) {
		t.Errorf("records of another round pass for those of this one: only of %v are some missed", lost)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	patch := func(name string, off int64, p []byte) {
		f, err := os.OpenFile(path(name), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(p, off); err != nil {
			t.Fatal(err)
		}
	}
	patch("overwrite-0", 0, make([]byte, 4096))  // lost, and later ones are there
	patch("dsync-0", 512, make([]byte, 512))     // torn in a sector
	patch("mmap-0", 0, []byte("no header here")) // torn in its header
	if err := os.Truncate(path("append-0"), 1600+100); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path("create-0")); err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(path("create-dir-0"))
	if err == nil {
		err = os.WriteFile(path("create-dir-1"), old, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Loss{}
	for _, l := range Judge(acknowledged, found(t, dir)) {
		if _, twice := got[l.Class]; !twice {
			got[l.Class] = l
		}
	}
	for class, want := range map[string]string{"overwrite": Lost, "dsync": Torn, "mmap": Torn, "append": Torn,
		"create": Lost, "create-dir": Torn} {
		if got[class].How != want {
			t.Errorf("%s: %+v, want it to be %s", class, got[class], want)
		}
	}
	if l := got["overwrite"]; !l.Reordered || !l.Promised || l.Seq != 1 {
		t.Errorf("overwrite: %+v", l)
	}
	if got["create"].Promised || got["append"].Reordered {
		t.Errorf("create %+v, append %+v", got["create"], got["append"])
	}
	if _, ok := got["rename"]; ok {
		t.Errorf("rename: %+v", got["rename"])
	}
}

func TestJudgeReplacement(t *testing.T) {
	at := func(seq uint64) durability.Record {
		return durability.Record{Class: durability.Rename, Whole: true, Seq: seq, File: 1, Hash: seq}
	}
	for _, c := range []struct {
		acknowledged, found []durability.Record
		how                 string
	}{
		{[]durability.Record{at(1), at(9)}, []durability.Record{at(9)}, ""},
		{[]durability.Record{at(1), at(9)}, []durability.Record{at(17)}, ""},
		{[]durability.Record{at(1), at(9)}, []durability.Record{at(1)}, RolledBack},
		{[]durability.Record{at(1), at(9)}, nil, Lost},
	} {
		losses := Judge(c.acknowledged, c.found)
		if c.how == "" && len(losses) != 0 || c.how != "" && (len(losses) != 1 || losses[0].How != c.how) {
			t.Errorf("acknowledged %v, found %v: %v, want %q", c.acknowledged, c.found, losses, c.how)
		}
	}
}

func pulled(target string, losses ...Loss) CutResult {
	return CutResult{Target: target, ByClass: map[string]int{"append": 5}, Losses: losses}
}

func TestVerdicts(t *testing.T) {
	loss := Loss{Class: "append", Seq: 3, How: Lost, Promised: true}
	unpromised := Loss{Class: "append", Seq: 3, How: Lost}
	for name, c := range map[string]struct {
		pulls []CutResult
		want  string
		text  string
	}{
		"none lost": {[]CutResult{pulled(PositiveControl, loss), pulled(Test), pulled(Test), pulled(NegativeControl)},
			record.NotDisproved, "2 cuts"},
		"lost": {[]CutResult{pulled(PositiveControl, loss), pulled(Test), pulled(Test, loss),
			pulled(NegativeControl)}, record.Disproved, "gone"},
		"no power": {[]CutResult{pulled(PositiveControl), pulled(Test), pulled(NegativeControl)}, record.Untested,
			"no power here"},
		"half the power": {[]CutResult{pulled(PositiveControl, loss), pulled(PositiveControl), pulled(Test)},
			record.Untested, "no power here"},
		"not sound": {[]CutResult{pulled(PositiveControl, loss), pulled(Test, loss), pulled(NegativeControl, loss)},
			record.Untested, "not sound"},
		"none promised": {[]CutResult{pulled(PositiveControl, unpromised), pulled(Test), pulled(NegativeControl)},
			record.NotDisproved, "1 cuts"},
		"another's loss": {[]CutResult{pulled(PositiveControl, Loss{Class: "create", Promised: true}), pulled(Test),
			pulled(NegativeControl)}, record.Untested, "lost none of these records"},
		"not promised": {[]CutResult{pulled(PositiveControl, loss), pulled(NegativeControl, unpromised), pulled(Test)},
			record.NotDisproved, "1 cuts"},
	} {
		r := Result{Classes: []string{"append"}, Pulls: c.pulls}
		r.judge()
		if r.Verdict.Verdict != c.want || !strings.Contains(r.Verdict.Text, c.text) {
			t.Errorf("%s: %+v", name, r.Verdict)
		}
		if (r.Verdict.Verdict == record.Disproved) != (len(r.Verdict.Evidence) > 0) {
			t.Errorf("%s: evidence %v", name, r.Verdict.Evidence)
		}
	}
	created := Loss{Class: "create", Seq: 1, How: Lost}
	one := func(target string, losses ...Loss) CutResult {
		return CutResult{Target: target, ByClass: map[string]int{"create": 34}, Losses: losses}
	}
	for want, test := range map[string]CutResult{record.NotDisproved: one(Test), record.Untested: one(Test, created)} {
		r := Result{Classes: []string{"create"},
			Pulls: []CutResult{one(PositiveControl, created), test, one(NegativeControl)}}
		if r.judge(); !r.Power || r.Verdict.Verdict != want {
			t.Errorf("create alone: power %v, %+v, want %s", r.Power, r.Verdict, want)
		}
	}
	r := Result{Classes: []string{"append"}, Pulls: []CutResult{pulled(PositiveControl, loss), pulled(Test),
		pulled(Test, loss)}, Stopped: true}
	if r.judge(); r.Verdict.Verdict != record.Untested || r.Rows[0].Verdict != record.Untested ||
		!strings.Contains(r.Verdict.Text, "stopped before the end: the environment had 2 cuts") {
		t.Errorf("stopped: %+v, %+v", r.Verdict, r.Rows)
	}
	if got := bound(30); got != 0.1 {
		t.Errorf("bound of 30 cuts is %v", got)
	}
}
