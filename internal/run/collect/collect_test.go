package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	kinds "tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
)

func kindOf(name string) (*workload.Kind, bool) {
	all := kinds.Kinds()
	i := slices.IndexFunc(all, func(k workload.Kind) bool { return k.Name == name })
	if i < 0 {
		return nil, false
	}
	return &all[i], true
}

func testPlan() *plan.Plan {
	looks := []int{10}
	return &plan.Plan{Schema: 1, Name: "nodes", Baseline: "host", Seed: 7, Mode: plan.Quick,
		Trial: 20 * time.Millisecond, Sessions: 1, Looks: looks, Alpha: 0.05,
		LookAlpha: stats.LookAlpha(looks, 0.05), Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Targets: []plan.Target{
			{Name: "host", Text: "local", Spec: env.Spec{Name: "host", Driver: "local"}},
			{Name: "box", Text: "namespace", Spec: env.Spec{Name: "box", Driver: "namespace"}}},
		Workloads: []plan.Workload{{Label: "null", Kind: "null", Params: workload.Params{"spin": "1000"},
			Work: map[string]int64{"host": 100, "box": 100}}}}
}

// hostBundle writes the bundle of host k of n into dir/NAME: a real one, of made-up trials. cost is of a unit of work.
func hostBundle(t *testing.T, dir string, k, n int, cost float64, change func(*plan.Plan, *bundle.Shard)) string {
	t.Helper()
	p := testPlan()
	name := fmt.Sprintf("n%02d", k)
	s := &bundle.Shard{Number: k, Of: n, Host: name, Machine: fmt.Sprintf("%032x", k),
		Facts: map[string]string{"cpu.microcode": "0x1"}}
	if change != nil {
		change(p, s)
	}
	if s.Plan == "" {
		s.Plan = plan.Identity(p)
	}
	path := filepath.Join(dir, name)
	w, err := bundle.Create(path, fmt.Sprintf("run-%d", k), p)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.Mark(s))
	facts := record.Facts{OS: "linux", Arch: "amd64", Hostname: name, CPU: "Ideal CPU", Kernel: "6.1",
		Extra: map[string]string{"cpu.measured_mhz": fmt.Sprint(2900 + k)}}
	must(w.Environments([]record.Environment{{Session: 1, Target: record.Target{Name: "host", Spec: "local",
		Inside: facts}},
		{Session: 1, Target: record.Target{Name: "box", Spec: "namespace", Inside: facts}}}))
	rng := rand.New(rand.NewPCG(uint64(k), 3))
	blocks := 11
	if k == 10 { // of two bundles of one machine, the one with more counts
		blocks = 10
	}
	for block := range blocks {
		for at, slot := range []struct{ target, slot string }{{"host", ""}, {"box", ""}, {"host", record.NullSlot}} {
			ns := 1e5 * cost * math.Exp(0.005*rng.NormFloat64())
			if slot.target == "box" {
				ns *= 1.1
			}
			must(w.Append(&record.Trial{Session: 1, Block: block, Workload: "null", Target: slot.target,
				Slot: slot.slot, Position: at, Work: 100, Start: time.Date(2026, 11, 25, 12, 0, block, 0, time.UTC),
				AgentNS: int64(100 * ns), ControllerNS: int64(100 * ns), RTTNS: 1000, RTTSpreadNS: 100,
				Figures: record.Figures{Metrics: map[string]float64{"ns_per_op": ns}}}))
		}
	}
	must(w.Finish(bundle.Finished, 1))
	return path
}

func options(t *testing.T) Options {
	return Options{Kinds: kindOf, Scratch: t.TempDir(), Rules: fleet.Rules{Now: time.Now()}}
}

func collected(t *testing.T, a *fleet.Admitted, hosts int, refusals ...string) {
	t.Helper()
	if len(a.Hosts) != hosts {
		t.Errorf("%d hosts count, want %d", len(a.Hosts), hosts)
	}
	var got []string
	for _, r := range a.Refused {
		got = append(got, filepath.Base(r.Bundle)+" "+r.Code)
		if r.Text == "" || strings.Contains(r.Text, "unpacked-") {
			t.Errorf("%s is refused because of %q", r.Bundle, r.Text)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, refusals) {
		t.Errorf("refused are %q, want %q", got, refusals)
	}
}

// TestCollect collects good bundles beside every sort of bad one, in two goes, and reads the fleet.
func TestCollect(t *testing.T) {
	in, dir := t.TempDir(), filepath.Join(t.TempDir(), "fleet")
	const n = 12
	paths := []string{}
	for k := 1; k <= 6; k++ {
		paths = append(paths, hostBundle(t, in, k, n, 1, nil))
	}
	packed := filepath.Join(in, "p.tare")
	if err := bundle.Pack(paths[5], packed); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	paths[5] = packed
	bad := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bad, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("truncated.tare", whole[:len(whole)*2/3])
	write("text.tare", []byte("no bundle"))
	edited := hostBundle(t, bad, 7, n, 1, nil)
	trials, err := os.ReadFile(filepath.Join(edited, bundle.TrialsFile))
	if err != nil {
		t.Fatal(err)
	}
	write("n07/"+bundle.TrialsFile, bytes.Replace(trials, []byte(`"work":100`), []byte(`"work":101`), 1))
	hostBundle(t, bad, 8, n, 1, func(p *plan.Plan, _ *bundle.Shard) { p.Seed = 8 })
	hostBundle(t, bad, 9, n, 1, func(_ *plan.Plan, s *bundle.Shard) { s.Plan = strings.Repeat("0", 64) })
	hostBundle(t, bad, 10, n, 1, func(_ *plan.Plan, s *bundle.Shard) { s.Machine = fmt.Sprintf("%032x", 1) })
	hostBundle(t, bad, 11, n, 1, func(_ *plan.Plan, s *bundle.Shard) { s.Number = 99 })

	o := options(t)
	told := 0
	o.Read = func(*fleet.Candidate) { told++ }
	a, err := Add(t.Context(), dir, append(slices.Clone(paths), bad, filepath.Join(in, "nothing")), o)
	if err != nil {
		t.Fatal(err)
	}
	refusals := []string{"n07 damaged", "n08 other-plan", "n09 damaged", "n10 same-host", "n11 damaged",
		"nothing not-there", "text.tare unreadable", "truncated.tare damaged"}
	collected(t, a, 6, refusals...)
	if told != 14 {
		t.Errorf("told of %d bundles, want 14", told)
	}
	if len(a.Missing) != 6 || a.Expected != 12 {
		t.Errorf("%v of %d are missing", a.Missing, a.Expected)
	}

	// Again, and one more: nothing counts twice.
	again := append(slices.Clone(paths), hostBundle(t, in, 12, n, 1.3, nil))
	if a, err = Add(t.Context(), dir, again, options(t)); err != nil {
		t.Fatal(err)
	}
	refusals = slices.Delete(refusals, 5, 6) // a name that was mistyped is forgotten
	collected(t, a, 7, refusals...)
	read, err := Load(t.Context(), dir, options(t))
	if err != nil {
		t.Fatal(err)
	}
	collected(t, read, 7, refusals...)
	r := fleet.Judge(read)
	if c := &r.Cells[0]; c.Verdict != record.Different || c.Hosts != 7 || math.Abs(c.Center-1.1) > 0.01 {
		t.Errorf("%+v", c)
	}
	if len(r.Apart) != 2 || r.Apart[0].Host != "n12" || math.Abs(r.Apart[0].Against-1.3) > 0.02 {
		t.Errorf("apart: %+v", r.Apart)
	}
	files, err := os.ReadDir(filepath.Join(dir, hostsDir))
	if err != nil || len(files) != 14 {
		t.Errorf("%d files of 7 hosts: %v %v", len(files), files, err)
	}

	// What a summary says follows from the bundle; a bundle that is changed does not count.
	s, err := readState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, hostsDir, noteOf(s.Hosts[0].File))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, hostsDir, noteOf(s.Hosts[1].File)), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, hostsDir, s.Hosts[2].File), whole[:100], 0o644); err != nil {
		t.Fatal(err)
	}
	if read, err = Load(t.Context(), dir, options(t)); err != nil {
		t.Fatal(err)
	}
	if len(read.Hosts) != 6 || !slices.ContainsFunc(read.Refused, func(r fleet.Refusal) bool {
		return strings.Contains(r.Text, "was changed after it was collected")
	}) {
		t.Errorf("%d hosts count; refused: %+v", len(read.Hosts), read.Refused)
	}
}

func readState(dir string) (*state, error) {
	f, err := read(dir)
	if err != nil {
		return nil, err
	}
	return &f.state, nil
}

// TestCollectGrown holds that a bundle which was collected before its run had ended gives way to what it became.
func TestCollectGrown(t *testing.T) {
	in, dir := t.TempDir(), filepath.Join(t.TempDir(), "fleet")
	p := testPlan()
	path := filepath.Join(in, "n01")
	w, err := bundle.Create(path, "run-1", p)
	if err != nil {
		t.Fatal(err)
	}
	mark := &bundle.Shard{Plan: plan.Identity(p), Number: 1, Of: 1, Host: "n01", Machine: "m"}
	if err := w.Mark(mark); err != nil {
		t.Fatal(err)
	}
	a, err := Add(t.Context(), dir, []string{path}, options(t))
	if err != nil {
		t.Fatal(err)
	}
	collected(t, a, 0, "n01 still-runs")
	w.Close() // as a kill leaves it
	if a, err = Add(t.Context(), dir, []string{path}, options(t)); err != nil {
		t.Fatal(err)
	}
	collected(t, a, 1)
	if a.Hosts[0].Host.Finished {
		t.Error("a killed run passes for a finished one")
	}
	if w, _, err = bundle.Resume(path); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(bundle.Finished, 1); err != nil {
		t.Fatal(err)
	}
	if a, err = Add(t.Context(), dir, []string{path}, options(t)); err != nil {
		t.Fatal(err)
	}
	collected(t, a, 1)
	if !a.Hosts[0].Host.Finished {
		t.Error("the run has finished, and the fleet has what it was before")
	}
	if files, err := os.ReadDir(filepath.Join(dir, hostsDir)); err != nil || len(files) != 2 {
		t.Errorf("files of one host: %v %v", files, err)
	}
}

// TestCollectKeepsWhatItCannotRead: a bundle of the folder that cannot be read for a moment is not lost by a collection
// of others.
func TestCollectKeepsWhatItCannotRead(t *testing.T) {
	in, dir := t.TempDir(), filepath.Join(t.TempDir(), "fleet")
	first := hostBundle(t, in, 1, 3, 1, nil)
	a, err := Add(t.Context(), dir, []string{first}, options(t))
	if err != nil {
		t.Fatal(err)
	}
	collected(t, a, 1)
	if a, err = Load(t.Context(), dir, options(t)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, a.Hosts[0].File)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, next := range []int{2, 3} {
		if err := os.WriteFile(file, good[1:], 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err = Add(t.Context(), dir, []string{hostBundle(t, in, next, 3, 1, nil)}, options(t)); err != nil {
			t.Fatal(err)
		}
		collected(t, a, next-1, "n01 damaged")
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err = Load(t.Context(), dir, options(t)); err != nil {
			t.Fatal(err)
		}
		collected(t, a, next)
	}
	// Given again, by whatever name, it takes the place of what cannot be read.
	moved := filepath.Join(t.TempDir(), "n01")
	if err := errors.Join(os.Rename(first, moved), os.WriteFile(file, good[1:], 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{moved, moved} {
		if a, err = Add(t.Context(), dir, []string{path}, options(t)); err != nil {
			t.Fatal(err)
		}
	}
	collected(t, a, 3)
	if files, err := os.ReadDir(filepath.Join(dir, hostsDir)); err != nil || len(files) != 6 {
		t.Errorf("files of 3 hosts: %v %v", files, err)
	}
}

// TestCollectOfTheSameNameLosesNothing: what cannot be read now is given up for a bundle of its name only if that
// counts.
func TestCollectOfTheSameNameLosesNothing(t *testing.T) {
	in, dir := t.TempDir(), filepath.Join(t.TempDir(), "fleet")
	path := hostBundle(t, in, 1, 3, 1, nil)
	if _, err := Add(t.Context(), dir, []string{path}, options(t)); err != nil {
		t.Fatal(err)
	}
	a, err := Load(t.Context(), dir, options(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, a.Hosts[0].File)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(file, append(good, 'x'), 0o600)); err != nil {
		t.Fatal(err)
	}
	add := func(want int, refusals ...string) {
		t.Helper()
		if a, err = Add(t.Context(), dir, []string{path}, options(t)); err != nil {
			t.Fatal(err)
		}
		collected(t, a, want, refusals...)
	}
	add(0, "n01 damaged", "n01 not-there")
	if err := os.WriteFile(path, good[:len(good)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	add(0, "n01 damaged", "n01 damaged")
	other := hostBundle(t, t.TempDir(), 1, 3, 1, func(p *plan.Plan, _ *bundle.Shard) { p.Seed++ })
	if err := errors.Join(os.Remove(path), os.Rename(other, path)); err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Rules.Plan = plan.Identity(testPlan())
	if a, err = Add(t.Context(), dir, []string{path}, o); err != nil {
		t.Fatal(err)
	}
	collected(t, a, 0, "n01 damaged", "n01 other-plan")
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal("the folder has lost its bundle:", err)
	}
	if a, err = Load(t.Context(), dir, options(t)); err != nil {
		t.Fatal(err)
	}
	collected(t, a, 1)
	// One that counts takes its place.
	if err := os.WriteFile(file, append(good, 'x'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	hostBundle(t, in, 1, 3, 1.5, nil)
	add(1)
	if files, err := os.ReadDir(filepath.Join(dir, hostsDir)); err != nil || len(files) != 2 {
		t.Errorf("files of one host: %v %v", files, err)
	}
}

func TestCollectRefusesFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letters.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	b := hostBundle(t, t.TempDir(), 1, 1, 1, nil)
	for _, path := range []string{dir, b} {
		if _, err := Add(t.Context(), path, []string{b}, options(t)); !errors.Is(err, ErrNotFleet) {
			t.Errorf("collected in %s: %v", path, err)
		}
		if _, err := Load(t.Context(), path, options(t)); !errors.Is(err, ErrNotFleet) {
			t.Errorf("read %s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	empty := t.TempDir()
	if _, err := Add(ctx, empty, []string{b}, options(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("a collection that is stopped: %v", err)
	}
	if _, err := os.Stat(filepath.Join(empty, stateFile)); err == nil {
		t.Error("a collection that was stopped has written the fleet")
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"schema":1,"hosts":[{"file":"n1-0123456789ab.tare","size":1,"sha256":"00"}],"refused":[]}`))
	f.Add([]byte(`{"schema":2}`))
	f.Add([]byte(`{"schema":1,"hosts":[{"file":"../../etc/passwd"}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := parse(src)
		if err != nil {
			return
		}
		for _, e := range s.Hosts {
			if filepath.Base(e.File) != e.File || strings.ContainsAny(e.File, "/\\") {
				t.Errorf("%q is a path", e.File)
			}
		}
	})
}

func FuzzSummary(f *testing.F) {
	f.Add([]byte(`{"schema":1,"build":"b","sha256":"0","host":{"name":"n","measures":[{"workload":"w","center":1}]}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := parseSummary(src)
		if err != nil {
			return
		}
		// Whatever it says, judging it ends.
		r := fleet.Judge(&fleet.Admitted{Hosts: []fleet.Candidate{{Host: s.Host}}})
		if err := fleet.Text(&bytes.Buffer{}, r, fleet.Options{}); err != nil {
			t.Error(err)
		}
		var kind []fleet.Candidate
		for range 6 {
			kind = append(kind, fleet.Candidate{Host: s.Host})
		}
		q := fleet.Qualify(&fleet.Admitted{By: fleet.ByName, Hosts: kind}, fleet.Candidate{Host: &fleet.Host{
			Measures: s.Host.Measures, Facts: s.Host.Facts}}, fleet.Demand{Margin: -1, Tolerance: 0.1})
		if err := fleet.JSON(io.Discard, q, fleet.Options{}); err != nil {
			t.Error(err)
		}
	})
}
