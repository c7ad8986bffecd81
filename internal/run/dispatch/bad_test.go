package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// TestStateThatCannotBeWritten holds that nothing is asked for, and no try is spent, while the controller's disk takes
// nothing: run.json has to say first what will be asked for.
func TestStateThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	h := &hosts{dir: dir, rng: rand.New(rand.NewPCG(1, 2)), jobs: map[int]*PartStatus{},
		begun: map[int]int{}}
	blocked := filepath.Join(dir, StateFile+".part") // a folder of that name takes no file
	troubles := 0
	c := Config{Dir: dir, Name: "sim", ID: "f", Plan: "p", Every: time.Microsecond, Engine: h,
		Hosts: []string{"a", "b"}, Prepare: func(string, *State) error { return nil },
		Round: func([]Part) {
			if troubles == 0 {
				_ = os.Mkdir(blocked, 0o755)
			}
		},
		Trouble: func(error) {
			if len(h.begun) > 0 {
				t.Error("asked for, and not written down")
			}
			if troubles++; troubles == mostTries+2 {
				_ = os.Remove(blocked)
			}
		}}
	s, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Parts {
		if p := &s.Parts[i]; p.Phase != Done && p.Tries < mostTries {
			t.Errorf("%+v", p)
		}
	}
	if troubles < mostTries+2 || len(h.doubled) > 0 {
		t.Errorf("%d troubles; doubled %v", troubles, h.doubled)
	}
}

// limitedEngine takes so many parts at a time and no more.
type limitedEngine struct {
	*hosts
	most, refused int
	always        bool
}

func (n *limitedEngine) Start(ctx context.Context, p Part) (string, error) {
	there := 0
	for _, j := range n.jobs {
		if j.Phase == Waiting || j.Phase == Working {
			there++
		}
	}
	if n.always || there >= n.most {
		n.refused++
		return "", fmt.Errorf("%w: sbatch: job queue full", ErrFull)
	}
	return n.hosts.Start(ctx, p)
}

// TestFullQueue holds that parts wait for an engine that takes no more of them, without being tried for that, and that
// one that never takes any is an error.
func TestFullQueue(t *testing.T) {
	dir := t.TempDir()
	e := &limitedEngine{hosts: &hosts{dir: dir, rng: rand.New(rand.NewPCG(1, 2)), jobs: map[int]*PartStatus{},
		begun: map[int]int{}}, most: 7}
	c := Config{Dir: dir, Name: "sim", ID: "f", Plan: "p", Every: time.Microsecond, Engine: e,
		Prepare: func(string, *State) error { return nil }}
	for i := range 100 {
		c.Hosts = append(c.Hosts, fmt.Sprintf("n%d", i))
	}
	s, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for i := range s.Parts {
		switch p := &s.Parts[i]; {
		case p.Phase == Done:
			done++
		case p.Phase != Failed || e.begun[p.Number] != mostTries:
			t.Errorf("%+v was asked for %d times", p, e.begun[p.Number])
		}
	}
	if done < 90 || len(e.doubled) > 0 || e.refused == 0 || e.refused > e.looks {
		t.Errorf("%d are done; doubled %v; refused %d times in %d looks", done, e.doubled, e.refused, e.looks)
	}
	e.always, c.Dir = true, t.TempDir()
	e.jobs = map[int]*PartStatus{}
	if s, err := Run(t.Context(), c); !errors.Is(err, ErrFull) || s.Parts[0].Tries != 0 {
		t.Errorf("an engine that never takes any: %v, %+v", err, s.Parts[0])
	}
}

// TestManyParts has many hosts carry out their parts. The memory that the controller needs for one is bounded:
//
//	TARE_FLEET_HOSTS=10000 go test ./internal/run/dispatch -run ManyParts -v
func TestManyParts(t *testing.T) {
	n := 2000
	if k, err := strconv.Atoi(os.Getenv("TARE_FLEET_HOSTS")); err == nil {
		n = k
	}
	dir := t.TempDir()
	h := &hosts{dir: dir, rng: rand.New(rand.NewPCG(3, 4)), jobs: map[int]*PartStatus{}, begun: map[int]int{}}
	rounds := 0
	c := Config{Dir: dir, Name: "sim", ID: "f", Plan: "p", Every: time.Microsecond, Patience: time.Hour, Engine: h,
		Prepare: func(string, *State) error { return nil },
		Round: func(parts []Part) {
			if rounds++; len(parts) != n {
				t.Errorf("told of %d parts", len(parts))
			}
		}}
	for i := range n {
		c.Hosts = append(c.Hosts, fmt.Sprintf("n%05d", i))
	}
	s, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var live runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&live)
	done := 0
	for i := range s.Parts {
		if s.Parts[i].Phase == Done {
			done++
		}
	}
	if done < n*9/10 || len(h.doubled) > 0 {
		t.Errorf("%d of %d are done; doubled %v", done, n, h.doubled)
	}
	t.Logf("%d parts in %d rounds: %.1f MiB", n, rounds, float64(live.HeapAlloc)/(1<<20))
	if kib := float64(live.HeapAlloc) / 1024 / float64(n); kib > 10 && n >= 2000 {
		t.Errorf("%.1f KiB for each part", kib)
	}
}

// TestReceivedWholeOrNotAtAll holds that a result which was cut short or changed on the way is not taken for one, and
// leaves nothing here: the host has it still.
func TestReceivedWholeOrNotAtAll(t *testing.T) {
	whole, err := os.ReadFile("../../../testdata/bundles/mounts.tare")
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, WorkDir), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &Part{Number: 1, Host: "n1"}
	for name, test := range map[string]struct {
		came []byte
		size int
	}{
		"nothing":                      {nil, len(whole)},
		"a half":                       {whole[:len(whole)/2], len(whole)},
		"a half that claims to be all": {whole[:len(whole)/2], len(whole) / 2},
		"changed":                      {flipped, len(flipped)},
		"another file":                 {bytes.Repeat([]byte("x"), 100), 100},
		"more than there was":          {append(whole[:len(whole):len(whole)], 'x'), len(whole)},
	} {
		err := receive(dir, p, func(f *os.File) error {
			if _, err := f.Write(test.came); err != nil {
				return err
			}
			return holds(f, int64(test.size))
		})
		if err == nil || !strings.Contains(err.Error(), "fetch the result") {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, WorkDir)); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v %v", name, left, err)
		}
	}
	if err := receive(dir, p, func(f *os.File) error {
		if _, err := f.Write(whole); err != nil {
			return err
		}
		return holds(f, int64(len(whole)))
	}); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(Packed(dir, p)); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("%d bytes came, %v", len(got), err)
	}
}

// TestBehindAnother holds that a part which waits for its machine is told as such, with what it waits for.
func TestBehindAnother(t *testing.T) {
	working := PartStatus{Phase: Working, Job: "j"}
	for said, want := range map[string]PartStatus{
		"": working, "result     part\n": working,
		"waiting    another part works: part 3\nbegins     part 1\n": working,
		"tare: no id\nwaiting    another part works: part 3\n": {Phase: Waiting, Job: "j", News: true,
			Detail: "another part works: part 3"},
	} {
		if got := working.behind([]byte(said)); got != want {
			t.Errorf("%q: %+v, want %+v", said, got, want)
		}
	}
	told := 0
	r := &runner{Config: Config{Tell: func(Part) { told++ }}}
	p := &Part{Phase: Waiting}
	for _, s := range []PartStatus{{Phase: Waiting, Detail: "Priority"}, {Phase: Waiting, Detail: "part 3", News: true},
		{Phase: Waiting, Detail: "part 3", News: true}, {Phase: Waiting, Detail: "part 4", News: true}} {
		r.set(p, s)
	}
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
}

func TestQueueIsFull(t *testing.T) {
	for said, want := range map[string]bool{
		"sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n":                         true,
		"sbatch: error: Slurm job queue full, sleeping and retrying\n":                                           true,
		"sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates\n": true,
		"sbatch: error: Batch job submission failed: Invalid partition name specified\n":                         false,
	} {
		err := fmt.Errorf("ask: %w", &proc.ExitError{Argv: []string{"sbatch"}, Code: 1, Stderr: said})
		if got := isFull(err); got != want {
			t.Errorf("%q: %v", said, got)
		}
	}
	if isFull(errors.New("job queue full")) {
		t.Error("an error of no program's is one of sbatch's")
	}
}

// TestNodeOfAnotherProcessor holds that a node takes the program for its processor, and says what to do where there is
// none.
func TestNodeOfAnotherProcessor(t *testing.T) {
	bin := t.TempDir()
	run := func(p Programs, machine string) (string, error) {
		text := "#!/bin/sh\necho " + machine + "\n"
		if err := os.WriteFile(filepath.Join(bin, "uname"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", p.choice()+"\necho $tare")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	both := Programs{"amd64": "/a b/tare", "arm64": "./tare-arm64"}
	for machine, want := range map[string]string{"x86_64": "/a b/tare", "aarch64": "./tare-arm64"} {
		if got, err := run(both, machine); err != nil || got != want {
			t.Errorf("%s takes %q, %v", machine, got, err)
		}
	}
	got, err := run(both, "s390x")
	if err == nil || !strings.Contains(got, "this node is s390x") || !strings.Contains(got, "--tare linux/ARCH=FILE") {
		t.Errorf("a node for which there is none: %q, %v", got, err)
	}
	if got, err := run(Programs{"": "/opt/tare"}, "s390x"); err != nil || got != "/opt/tare" {
		t.Errorf("a program that is there already: %q, %v", got, err)
	}
}
