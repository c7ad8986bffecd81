package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

func testPlan() *plan.Plan {
	return &plan.Plan{Schema: 1, Baseline: "host", Seed: 7, Mode: plan.Quick, Trial: time.Second, Sessions: 1,
		Looks: []int{10, 30},
		Alpha: 0.05, LookAlpha: 0.03, Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Targets:   []plan.Target{{Name: "host", Spec: env.Spec{Name: "host", Driver: "local"}, Text: "local"}},
		Workloads: []plan.Workload{{Label: "w", Kind: "cpu.prime", Params: workload.Params{"max": "10"}}}}
}

func testTrial(i int) *record.Trial {
	return &record.Trial{Session: 1, Block: 1 + i%30, Workload: "w", Target: "host", Work: 100,
		Start:   time.Unix(1e9+int64(i), 0).UTC(),
		AgentNS: int64(i) * 1000, ControllerNS: int64(i)*1000 + 3,
		Figures: record.Figures{Metrics: map[string]float64{"eps": 1.5 * float64(i)},
			Samples: map[string][]float64{"lat": {0.1, 1e-9, float64(i)}}, Checks: map[string]string{"n": "1228"}}}
}

func newBundle(t *testing.T, trials int) (string, *Writer) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "b")
	w, err := Create(dir, "run-1", testPlan())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	for i := range trials {
		if err := w.Append(testTrial(i)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, w
}

// verify returns what Verify found, in one text.
func verify(t *testing.T, dir string) (*Report, string) {
	t.Helper()
	r, err := Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintln(&b, p)
	}
	return r, b.String()
}

func TestWriteAndRead(t *testing.T) {
	dir, w := newBundle(t, 5)
	envs := []record.Environment{{Session: 1, Target: record.Target{Name: "host", Spec: "local",
		Inside: record.Facts{OS: "linux", Threads: 2}}}}
	if err := w.Environments(envs); err != nil {
		t.Fatal(err)
	}
	p := testPlan()
	p.Workloads[0].Work = map[string]int64{"host": 42}
	if err := w.Plan(p); err != nil {
		t.Fatal(err)
	}
	first, err1 := w.Evidence("vm-console.log", []byte("Kernel panic\x1b[31m"))
	second, err2 := w.Evidence("vm-console.log", []byte("again"))
	if err1 != nil || err2 != nil || first != "console/vm-console.log" || second != "console/vm-console-2.log" {
		t.Errorf("%q %v %q %v", first, err1, second, err2)
	}
	if r, found := verify(t, dir); !r.OK() || r.Trials != 5 || r.State != Running {
		t.Errorf("while running: %+v %s", r, found)
	}
	if err := w.Finish(Finished, 12.5); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(b.Plan, p) || !reflect.DeepEqual(b.Environments, envs) || b.Manifest.Seconds != 12.5 ||
		b.Manifest.State != Finished {
		t.Errorf("%+v", b)
	}
	trials, err := b.Load()
	if err != nil || len(trials) != 5 {
		t.Fatalf("%d trials, %v", len(trials), err)
	}
	for i := range trials {
		want := testTrial(i)
		want.Seq = i + 1
		if !reflect.DeepEqual(&trials[i], want) {
			t.Errorf("trial %d:\n got %+v\nwant %+v", i, trials[i], want)
		}
	}
	if r, found := verify(t, dir); !r.OK() || r.Trials != 5 {
		t.Errorf("after the end: %+v %s", r, found)
	}
	if err := w.Append(testTrial(9)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("append after the end: %v", err)
	}
	if _, _, err := Resume(dir); !errors.Is(err, ErrFinished) {
		t.Errorf("resume after the end: %v", err)
	}
	if _, err := Create(dir, "run-2", testPlan()); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("create over it: %v", err)
	}
	// One that got more time goes on where it ended.
	w, b, err = Extend(dir)
	if err != nil || b.Manifest.State != Running || len(b.Manifest.Files) != 0 {
		t.Fatalf("extend: %+v, %v", b, err)
	}
	if err := w.Append(testTrial(5)); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(Finished, 1); err != nil {
		t.Fatal(err)
	}
	if r, found := verify(t, dir); !r.OK() || r.Trials != 6 {
		t.Errorf("after the second end: %+v %s", r, found)
	}
}

func TestNotFinite(t *testing.T) {
	dir, w := newBundle(t, 0)
	tr := testTrial(0)
	tr.Metrics["bad"], tr.Samples["worse"] = math.NaN(), []float64{1, math.Inf(1)}
	if err := w.Append(tr); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Load()
	if err != nil || len(got) != 1 || len(got[0].Warnings) != 1 || got[0].Warnings[0].Code != "not-finite" ||
		got[0].Metrics["eps"] != tr.Metrics["eps"] {
		t.Errorf("%+v %v", got, err)
	}
	if _, still := tr.Metrics["bad"]; !still || tr.Warnings != nil {
		t.Error("the caller's trial was changed")
	}
}

func TestLongTrial(t *testing.T) {
	dir, w := newBundle(t, 0)
	tr := testTrial(0)
	tr.Samples["lat"] = make([]float64, MaxLine/4)
	for i := range tr.Samples["lat"] {
		tr.Samples["lat"][i] = 1.0 / float64(i+3)
	}
	if err := w.Append(tr); err != nil {
		t.Fatal(err)
	}
	tr.Samples, tr.State = nil, map[string]string{"x": strings.Repeat("y", MaxLine)}
	if err := w.Append(tr); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("a line of 8 MiB: %v", err)
	}
	if err := w.Append(testTrial(2)); err != nil {
		t.Errorf("the next trial: %v", err)
	}
	b, _ := Open(dir)
	got, err := b.Load()
	if err != nil || len(got) != 2 || got[0].Warnings[0].Code != "samples-dropped" || got[1].Seq != 2 {
		t.Errorf("%d trials, %v", len(got), err)
	}
}

// TestTornTail cuts the file of an unfinished run at every byte of its last lines, as a crash may.
func TestTornTail(t *testing.T) {
	dir, w := newBundle(t, 3)
	w.Close()
	file := filepath.Join(dir, TrialsFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{0}
	for i, c := range whole {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for cut := ends[1]; cut < len(whole); cut += step {
		for _, fill := range []int{0, 100} { // some file systems extend the file first: zeros follow
			data := append(bytes.Clone(whole[:cut]), make([]byte, fill)...)
			if err := os.WriteFile(file, data, 0o644); err != nil {
				t.Fatal(err)
			}
			want := 0
			for want+1 < len(ends) && ends[want+1] <= cut {
				want++
			}
			b, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.Load()
			if err != nil || len(got) != want {
				t.Fatalf("cut at %d+%d: %d trials, want %d, %v", cut, fill, len(got), want, err)
			}
			r, found := verify(t, dir)
			if !r.OK() || r.Torn != int64(len(data)-ends[want]) {
				t.Fatalf("cut at %d+%d: torn %d, want %d: %s", cut, fill, r.Torn, len(data)-ends[want], found)
			}
		}
	}
	// Resume repairs it, keeps the bytes and goes on.
	tail := whole[ends[2] : ends[3]-20]
	if err := os.WriteFile(file, whole[:ends[3]-20], 0o644); err != nil {
		t.Fatal(err)
	}
	w, b, err := Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Load(); err != nil || len(got) != 2 {
		t.Errorf("%d trials after resume, %v", len(got), err)
	}
	if err := w.Append(testTrial(2)); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(Interrupted, 1); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, EvidenceDir, "torn-line")); err != nil || !bytes.Equal(kept, tail) {
		t.Errorf("the torn bytes: %q, %v", kept, err)
	}
	if r, found := verify(t, dir); !r.OK() || r.Trials != 3 {
		t.Errorf("%+v %s", r, found)
	}
	w, _, err = Resume(dir)
	if err != nil {
		t.Fatalf("resume an interrupted run: %v", err)
	}
	if err := w.Finish(Finished, 2); err != nil {
		t.Fatal(err)
	}
	if b, _ := Open(dir); b.Manifest.Seconds != 3 || b.Manifest.Trials != 3 {
		t.Errorf("%+v", b.Manifest)
	}
}

// TestEveryEditIsSeen changes one byte at a time in every file of a bundle.
func TestEveryEditIsSeen(t *testing.T) {
	step := 3
	if testing.Short() {
		step = 23
	}
	for _, state := range []State{Running, Finished} {
		dir, w := newBundle(t, 3)
		if _, err := w.Evidence("log", []byte("all well")); err != nil {
			t.Fatal(err)
		}
		if state == Finished {
			if err := w.Finish(state, 1); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		names := []string{TrialsFile}
		if state == Finished {
			names = append(names, PlanFile, EnvironmentsFile, EvidenceDir+"/log")
		}
		for _, name := range names {
			file := filepath.Join(dir, name)
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// An unfinished run's last line may be cut by a crash anywhere; what is before it may not.
			end := len(whole)
			if state == Running {
				end = bytes.LastIndexByte(whole[:len(whole)-1], '\n')
			}
			for i := 0; i < end; i += step {
				edited := bytes.Clone(whole)
				edited[i] ^= 1
				if err := os.WriteFile(file, edited, 0o644); err != nil {
					t.Fatal(err)
				}
				if r, _ := verify(t, dir); r.OK() {
					t.Fatalf("%s, %s: byte %d changed from %q to %q and nothing was found", state, name, i, whole[i],
						edited[i])
				}
			}
			if err := os.WriteFile(file, whole, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if r, found := verify(t, dir); !r.OK() {
			t.Errorf("%s: put back as it was: %s", state, found)
		}
	}
}

// TestLineRemoved holds that a line in the middle cannot be taken out or swapped, also of a run that goes on.
func TestWhatIsMissingIsSaidOnce(t *testing.T) {
	for _, name := range []string{PlanFile, EnvironmentsFile, TrialsFile} {
		dir, w := newBundle(t, 4)
		if err := w.Finish(Finished, 1); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		r, err := Verify(dir)
		if err != nil || len(r.Problems) != 1 || r.Problems[0].String() != name+" is missing" {
			t.Errorf("without %s: %v, %v", name, r.Problems, err)
		}
	}
}

func TestLineRemoved(t *testing.T) {
	dir, w := newBundle(t, 4)
	w.Close()
	file := filepath.Join(dir, TrialsFile)
	whole, _ := os.ReadFile(file)
	l := bytes.SplitAfter(whole, []byte("\n"))
	for name, data := range map[string][][]byte{"removed": {l[0], l[2], l[3]}, "swapped": {l[0], l[2], l[1], l[3]},
		"first removed": {l[1], l[2], l[3]}, "twice": {l[0], l[1], l[1]}} {
		if err := os.WriteFile(file, bytes.Join(data, nil), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, _ := verify(t, dir); r.OK() {
			t.Errorf("%s: nothing was found", name)
		}
		b, _ := Open(dir)
		if _, err := b.Load(); err == nil || !strings.Contains(err.Error(), "tare verify") {
			t.Errorf("%s: Load says %v", name, err)
		}
		if _, _, err := Resume(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: Resume says %v", name, err)
		}
	}
}

// TestAnEndedRunKnowsItsEnd holds that a run which has ended is not read as a shorter one, nor with another plan or
// other facts, and that an interrupted one does not go on from there.
func TestAnEndedRunKnowsItsEnd(t *testing.T) {
	for _, state := range []State{Finished, Interrupted} {
		for name, change := range map[string]struct {
			file string
			edit func([]byte) []byte
			left int // trials that are read all the same
		}{
			"last line": {TrialsFile, func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] },
				3},
			"part of it":   {TrialsFile, func(b []byte) []byte { return b[:len(b)-30] }, 3},
			"everything":   {TrialsFile, func([]byte) []byte { return nil }, 0},
			"plan":         {PlanFile, func(b []byte) []byte { return append(b, "# a word\n"...) }, 4},
			"environments": {EnvironmentsFile, func(b []byte) []byte { return append(b, '\n') }, 4},
		} {
			dir, w := newBundle(t, 4)
			if err := w.Finish(state, 1); err != nil {
				t.Fatal(err)
			}
			b, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := b.Load(); err != nil || len(n) != 4 {
				t.Fatalf("%s: as it was written: %d trials, %v", state, len(n), err)
			}
			file := filepath.Join(dir, change.file)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, change.edit(data), 0o644); err != nil {
				t.Fatal(err)
			}
			n, err := b.Load()
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), change.file) || len(n) != change.left {
				t.Errorf("%s, %s: %d trials, %v", state, name, len(n), err)
			}
			if _, _, err := Resume(dir); err == nil && change.left < 4 {
				t.Errorf("%s, %s: it goes on", state, name)
			}
		}
	}
}

// TestMoreTrialsThanFit holds that a report of a bundle larger than memory is made of its beginning, and said to be.
func TestMoreTrialsThanFit(t *testing.T) {
	b, err := Open(finished(t, 50))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(b.Dir, TrialsFile))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.load(info.Size()); err != nil || len(n) != 50 {
		t.Errorf("what just fits: %d trials, %v", len(n), err)
	}
	n, err := b.load(info.Size() / 2)
	if err == nil || len(n) < 20 || len(n) > 30 ||
		!strings.Contains(err.Error(), fmt.Sprintf("the first %d are used", len(n))) {
		t.Errorf("half of it: %d trials, %v", len(n), err)
	}
}

func TestUnknownNames(t *testing.T) {
	dir, w := newBundle(t, 1)
	for _, tr := range []*record.Trial{{Workload: "w", Target: "nowhere", Block: 1},
		{Workload: "none", Target: "host", Block: 1}, {Workload: "w", Target: "host", Block: 99}} {
		if err := w.Append(tr); err != nil {
			t.Fatal(err)
		}
	}
	if r, found := verify(t, dir); len(r.Problems) != 3 || r.Trials != 4 {
		t.Errorf("%s", found)
	}
}

// A block that is discarded, or cut short by a crash, is made up for by another one with the next number.
func TestBlocksMadeUpFor(t *testing.T) {
	dir, w := newBundle(t, 30)
	for _, tr := range []*record.Trial{{Workload: "w", Block: 30, Discarded: "steal"},
		{Workload: "w", Target: "host", Block: 31}} {
		if err := w.Append(tr); err != nil {
			t.Fatal(err)
		}
	}
	if r, found := verify(t, dir); !r.OK() {
		t.Errorf("%s", found)
	}
	if err := w.Append(&record.Trial{Workload: "w", Target: "host", Block: 33}); err != nil {
		t.Fatal(err)
	}
	if r, found := verify(t, dir); len(r.Problems) != 1 || !strings.Contains(found,
		"block 33 of workload \"w\" comes after block 31") {
		t.Errorf("%s", found)
	}
}

func FuzzTrials(f *testing.F) {
	line, chain, err := encode(testTrial(1), genesis("r"))
	if err != nil {
		f.Fatal(err)
	}
	second, _, err := encode(testTrial(2), chain)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, second...))
	f.Add(append(line, second[:40]...))
	f.Add([]byte("\x00\x00\n{}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s := newScanner(bytes.NewReader(src), "r")
		for {
			tr, err := s.next()
			if err != nil {
				break
			}
			if tr == nil {
				t.Fatal("no trial and no error")
			}
		}
		if s.good > int64(len(src)) || s.good > 0 && src[s.good-1] != '\n' {
			t.Fatalf("%d of %d bytes are trusted", s.good, len(src))
		}
		// What is trusted must read the same again, to its end.
		again := newScanner(bytes.NewReader(src[:s.good]), "r")
		for {
			if _, err := again.next(); err != nil {
				break
			}
		}
		if again.good != s.good || again.lines != s.lines || again.chain != s.chain {
			t.Fatalf("%d lines of %d bytes, then %d of %d", s.lines, s.good, again.lines, again.good)
		}
	})
}

func FuzzManifest(f *testing.F) {
	good, err := json.Marshal(Manifest{Schema: 1, RunID: "r", State: Finished, Files: []File{{Path: PlanFile}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"schema":2}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, src []byte) {
		if err := os.WriteFile(filepath.Join(dir, ManifestFile), src, 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := Verify(dir); err == nil && r.OK() {
			t.Fatalf("a folder with nothing but a manifest is in order:\n%s", src)
		}
	})
}

// Runs that begin in the same second take names of their own, and each bundle is whole.
func TestRunsOfOneSecondTakeTheNextName(t *testing.T) {
	const runs = 12
	name := filepath.Join(t.TempDir(), "tare-20260102-030405")
	type made struct {
		dir string
		err error
	}
	got := make(chan made, runs)
	for i := range runs {
		go func() {
			w, dir, err := CreateNew(name, fmt.Sprintf("run-%d", i), testPlan())
			if err == nil {
				err = errors.Join(w.Append(testTrial(i)), w.Finish(Finished, 1), w.Close())
			}
			got <- made{dir, err}
		}()
	}
	seen := map[string]bool{}
	for range runs {
		m := <-got
		if m.err != nil {
			t.Fatal(m.err)
		}
		if seen[m.dir] {
			t.Errorf("two runs are in %s", m.dir)
		}
		seen[m.dir] = true
		if r, err := Verify(m.dir); err != nil || r.Trials != 1 {
			t.Errorf("%s: %v", m.dir, err)
		}
	}
	if !seen[name] || !seen[name+"-2"] || !seen[fmt.Sprintf("%s-%d", name, runs)] {
		t.Errorf("the names are %v, want %s, %s-2 and so on", seen, name, name)
	}
}
