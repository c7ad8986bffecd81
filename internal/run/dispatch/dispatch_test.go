package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// hosts are simulated ones, with the queue that an engine would have. It lives on while controllers come and go.
type hosts struct {
	dir     string
	rng     *rand.Rand
	jobs    map[int]*PartStatus
	begun   map[int]int // how often a part was asked for
	doubled []int       // parts asked for while they were there
	silent  bool        // the engine does not answer now and then
	looks   int
}

func (h *hosts) Look(_ context.Context, parts []Part) (map[int]PartStatus, error) {
	h.looks++
	if h.silent && h.rng.IntN(5) == 0 {
		return nil, errors.New("the queue does not answer")
	}
	out := map[int]PartStatus{}
	for _, p := range parts {
		j := h.jobs[p.Number]
		if j == nil {
			continue
		}
		switch roll := h.rng.IntN(10); {
		case j.Phase == Waiting && roll < 5:
			j.Phase = Working
		case j.Phase == Working && roll < 1:
			j.Phase, j.Detail = Ended, "the host rebooted"
		case j.Phase == Working && roll < 6:
			if err := os.WriteFile(Packed(h.dir, &p), nil, 0o644); err != nil {
				return nil, err
			}
			j.Phase = Ended
		}
		out[p.Number] = *j
	}
	return out, nil
}

func (h *hosts) Start(_ context.Context, p Part) (string, error) {
	if h.silent && h.rng.IntN(50) == 0 {
		return "", errors.New("the queue takes nothing now")
	}
	if j := h.jobs[p.Number]; j != nil && j.Phase != Ended {
		h.doubled = append(h.doubled, p.Number)
	}
	if _, err := os.Stat(Packed(h.dir, &p)); err == nil {
		h.doubled = append(h.doubled, p.Number)
	}
	h.begun[p.Number]++
	job := fmt.Sprint(p.Number, "-", h.begun[p.Number])
	h.jobs[p.Number] = &PartStatus{Phase: Waiting, Job: job}
	return job, nil
}

func (h *hosts) Drop(_ context.Context, p Part) error {
	h.jobs[p.Number] = &PartStatus{Phase: Ended, Detail: "cancelled", Final: true}
	return nil
}

// TestControllerComesAndGoes has a thousand hosts carry out their parts while the controller is stopped again and
// again, at any moment. None is measured twice and none is lost.
func TestControllerComesAndGoes(t *testing.T) {
	dir := t.TempDir()
	const n = 1000
	c := Config{Dir: dir, Name: "sim", ID: "f", Plan: "p", Every: time.Microsecond, Patience: time.Hour,
		Prepare: func(string, *State) error { return nil }}
	for i := range n {
		c.Hosts = append(c.Hosts, fmt.Sprintf("n%04d", i))
	}
	h := &hosts{dir: dir, rng: rand.New(rand.NewPCG(1, 2)), jobs: map[int]*PartStatus{}, begun: map[int]int{},
		silent: true}
	c.Engine = h
	var s *State
	for calls := 1; ; calls++ {
		ctx, cancel := context.WithCancel(t.Context())
		changes := 0
		c.Tell = func(Part) {
			if changes++; changes > 400 && calls < 20 {
				cancel()
			}
		}
		var err error
		s, err = Run(ctx, c)
		stopped := ctx.Err() != nil
		cancel()
		if err == nil {
			break
		}
		if !stopped || calls > 50 {
			t.Fatalf("call %d: %v", calls, err)
		}
		c.Hosts = nil // a run that goes on knows them
	}
	done := 0
	for i := range s.Parts {
		switch p := &s.Parts[i]; p.Phase {
		case Done:
			done++
		case Failed:
			if p.Tries < mostTries || p.Detail == "" {
				t.Errorf("%s was given up after %d tries: %s", p.Host, p.Tries, p.Detail)
			}
		default:
			t.Errorf("%s is %s", p.Host, p.Phase)
		}
	}
	if len(h.doubled) > 0 {
		t.Errorf("asked for while they were there: %v", h.doubled)
	}
	if done < n*9/10 {
		t.Errorf("%d of %d parts are done", done, n)
	}
	// Called again, it gives those another chance that failed, and asks for nothing else.
	before := map[int]int{}
	for i := range s.Parts {
		if s.Parts[i].Phase == Done {
			before[i+1] = h.begun[i+1]
		}
	}
	c.Tell, h.silent = nil, false
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for part, n := range before {
		if h.begun[part] != n {
			t.Errorf("part %d is done and was asked for again", part)
		}
	}
}

func TestStuckIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	h := &hosts{dir: dir, rng: rand.New(rand.NewPCG(1, 2)), begun: map[int]int{},
		jobs: map[int]*PartStatus{1: {Phase: Stuck, Detail: "node down", Job: "1"}}}
	s, err := Run(t.Context(), Config{Dir: dir, Name: "sim", ID: "f", Plan: "p", Every: time.Microsecond, Engine: h,
		Patience: time.Millisecond, Hosts: []string{"n1"}, Prepare: func(string, *State) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Parts[0]; p.Phase != Failed || !strings.Contains(p.Detail, "node down; given up") {
		t.Errorf("%+v", p)
	}
}

// TestEachHostIsLookedAt holds that with many hosts at work a bounded number is looked at, and each in its turn.
func TestEachHostIsLookedAt(t *testing.T) {
	s := &SSH{}
	var parts []Part
	for i := range 1000 {
		parts = append(parts, Part{Number: i + 1, Phase: Working, Tries: 1, Job: "x"})
	}
	if n := len(s.due(parts)); n != 1000 {
		t.Errorf("a controller that begins looks at %d of 1000", n)
	}
	seen := map[int]int{}
	for range 5 {
		s.last = time.Now().Add(-20 * time.Second)
		due := s.due(parts)
		if len(due) < 190 || len(due) > 230 {
			t.Errorf("after 20 s it looks at %d", len(due))
		}
		for n := range due {
			seen[n]++
		}
	}
	if len(seen) < 950 {
		t.Errorf("in 100 s it has looked at %d of 1000", len(seen))
	}
	parts[500].Phase = Ended
	s.last = time.Now()
	if due := s.due(parts); !due[501] || len(due) > atATime+1 {
		t.Errorf("one that has ended is looked at: %v; %d are", due[501], len(due))
	}
}

func TestOtherRunIsRefused(t *testing.T) {
	dir := t.TempDir()
	h := &hosts{dir: dir, rng: rand.New(rand.NewPCG(1, 2)), begun: map[int]int{}, jobs: map[int]*PartStatus{}}
	c := Config{Dir: dir, Name: "sim", ID: "f", Plan: "p", Every: time.Microsecond, Engine: h, Hosts: []string{"n1"},
		Prepare: func(string, *State) error { return nil }}
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*Config){func(c *Config) { c.Plan = "q" }, func(c *Config) { c.Name = "other" },
		func(c *Config) { c.Hosts = []string{"n1", "n2"} }} {
		d := c
		change(&d)
		if _, err := Run(t.Context(), d); !errors.Is(err, ErrOther) {
			t.Errorf("%+v: %v, want ErrOther", d, err)
		}
	}
	c.Dir, c.Hosts = t.TempDir(), nil
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no hosts") {
		t.Errorf("without hosts: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, StateFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Dir = dir
	if _, err := Run(t.Context(), c); err == nil {
		t.Error("a damaged state passes")
	}
}

func TestParseQueue(t *testing.T) {
	got := parseQueue([]byte("12|tare-ab-1|RUNNING|None\n"+
		"13|tare-ab-2|PENDING|Nodes required for job are DOWN, DRAINED or reserved\n"+
		"9|tare-ab-1|CANCELLED|None\n14|tare-abc-3|RUNNING|None\nnoise\n15|tare-ab-x|RUNNING|None\n"+
		"16|tare-ab-4|TIMEOUT|TimeLimit\n17|tare-ab-5|PENDING|BeginTime\n18|tare-ab-6|CANCELLED|None\n"), "tare-ab-")
	want := map[int]PartStatus{
		1: {Phase: Working, Job: "12"},
		2: {Phase: Stuck, Job: "13", Detail: "Nodes required for job are DOWN, DRAINED or reserved"},
		4: {Phase: Ended, Job: "16", Detail: "TIMEOUT: out of time"},
		5: {Phase: Waiting, Job: "17", Detail: "BeginTime"},
		6: {Phase: Ended, Job: "18", Detail: "its job was cancelled", Final: true},
	}
	if len(got) != len(want) {
		t.Errorf("%d jobs: %v", len(got), got)
	}
	for n, w := range want {
		j := got[n]
		if s := j.seen("out of time"); !reflect.DeepEqual(s, w) {
			t.Errorf("part %d: %+v, want %+v", n, s, w)
		}
	}
}

func FuzzParseQueue(f *testing.F) {
	f.Add([]byte("12|tare-ab-1|RUNNING|None\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for n, j := range parseQueue(out, "tare-ab-") {
			if s := j.seen(""); n < 1 || s.Phase == "" {
				t.Errorf("part %d: %+v", n, s)
			}
		}
	})
}

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"schema":1,"id":"f","engine":"slurm","plan":"p","parts":[{"number":1,"host":"n1","phase":"done"}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := ParseState(src)
		if err == nil && (len(s.Parts) == 0 || s.Parts[0].Number != 1) {
			t.Errorf("%q gives %+v", src, s)
		}
	})
}
