package durability

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/durability"
	"tare/internal/record"
)

// Worker does trials in a target; *deploy.Conn implements it.
type Worker interface {
	Run(ctx context.Context, run wire.Run) (deploy.Outcome, error)
}

// Subject is a target whose flushes end in a file, or in files below a directory, of this machine.
type Subject struct {
	Worker Worker
	Root   string // below which the target's agent works; empty: its own choice
	// Image is the file that holds the target's disk, Folder the directory that is shared with it: one of both.
	Image, Folder string
	Seed          uint64
	// Hidden says why a watcher would not see the target's flushes although there are some; empty when it would.
	Hidden string
}

// The sizes of the tests. Both have to end within seconds in an emulated machine that starts a worker in a quarter of
// one.
const (
	watchedFew  = 8
	watchedMany = 40
	costFlushes = 8
	// maxFiles bounds how many files of a shared folder are looked at.
	maxFiles = 20000
)

// Examine tries out what a flush does in a target: by watching this machine's kernel, and by cost. It takes a second or
// two, and is no part of any trial. A test that cannot be done says so. An error means that the context ended.
func Examine(ctx context.Context, s Subject) ([]record.FlushTest, error) {
	watched, err := s.watch(ctx)
	if err != nil {
		return nil, err
	}
	cost, err := s.cost(ctx)
	if err != nil {
		return nil, err
	}
	return []record.FlushTest{watched, cost}, nil
}

// dir is the directory on this machine in which the target's data ends.
func (s *Subject) dir() string {
	if s.Folder != "" {
		return s.Folder
	}
	return filepath.Dir(s.Image)
}

func (s *Subject) run(ctx context.Context, flushes int64) (deploy.Outcome, error) {
	return s.Worker.Run(ctx, wire.Run{Work: flushes, Job: wire.Job{
		Kind: "durability.fsync", Params: map[string]string{"size": "1MiB"}, Cell: Cell, Seed: s.Seed, Root: s.Root,
	}})
}

// Cell is the name of the directory that is worked in.
const Cell = "durability"

// watch has the target flush a few times and then many times, and counts what this machine's kernel is asked for. The
// difference is that of the flushes alone: what a worker does before and after them is in both counts.
func (s *Subject) watch(ctx context.Context) (t record.FlushTest, err error) {
	t = record.FlushTest{Name: record.FlushWatch, Verdict: record.Untested, Class: ClassUnknown}
	began := time.Now()
	defer func() { t.Seconds = time.Since(began).Seconds() }()
	w, err := NewWatcher("")
	if err != nil {
		t.Text = "not watched: " + err.Error()
		return t, nil
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	seen := map[int64]int{}
	for _, n := range []int64{watchedFew, watchedMany} {
		before, err := s.flushed(w)
		if err != nil {
			t.Text = "not watched: " + err.Error()
			return t, nil
		}
		if _, err := s.run(ctx, n); ctx.Err() != nil {
			return t, ctx.Err()
		} else if err != nil {
			t.Text = "not watched: " + err.Error()
			return t, nil
		}
		after, err := s.flushed(w)
		if err != nil {
			t.Text = "not watched: " + err.Error()
			return t, nil
		}
		seen[n] = after - before
	}
	t.Asked, t.Seen = watchedMany-watchedFew, max(seen[watchedMany]-seen[watchedFew], 0)
	s.judgeWatch(&t, w.Caller(s.Image))
	return t, nil
}

// judgeWatch says what the counts mean. Where one in eight or fewer arrived these are others' flushes, such as a
// journal's.
func (s *Subject) judgeWatch(t *record.FlushTest, caller string) {
	what, by := "the image", caller
	if s.Folder != "" {
		what, by = "the shared folder", "its server"
	}
	if by == "" {
		by = "the hypervisor"
	}
	switch {
	case t.Seen >= t.Asked:
		t.Verdict, t.Class = record.Propagated, ClassFlushes
		t.Text = fmt.Sprintf("%d flushes inside caused %d of %s, requested from the host's kernel by %s", t.Asked,
			t.Seen, what, by)
	case s.Hidden != "":
		t.Text = fmt.Sprintf("%d of %d flushes were seen, and %s", t.Seen, t.Asked, s.Hidden)
	case t.Seen <= t.Asked/8:
		t.Class = ClassIgnores
		t.Text = fmt.Sprintf("%d flushes inside caused %d of %s: no flush was requested from the host's kernel",
			t.Asked, t.Seen, what)
	default:
		t.Text = fmt.Sprintf("%d flushes inside caused only %d of %s", t.Asked, t.Seen, what)
	}
}

// flushed is how many flushes the watcher has seen of what the target's data ends in.
func (s *Subject) flushed(w *Watcher) (n int, err error) {
	if s.Folder == "" {
		return w.File(s.Image)
	}
	files := 0
	err = filepath.WalkDir(s.Folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			// What went away meanwhile, or is not ours to read, is not what the target flushes.
			return nil //nolint:nilerr // as said above
		}
		if files++; files > maxFiles {
			return fmt.Errorf("%s has more than %d files to look at", s.Folder, maxFiles)
		}
		m, err := w.File(path)
		if err == nil {
			n += m
		}
		return nil
	})
	return n, err
}

// cost weighs flushes inside and on the host, in pairs of random order. The first round in which one is not cheaper
// inside ends it: then the rest cannot say anything more.
func (s *Subject) cost(ctx context.Context) (t record.FlushTest, err error) {
	t = record.FlushTest{Name: record.FlushCost, Verdict: record.Untested, Class: ClassUnknown}
	began := time.Now()
	defer func() { t.Seconds = time.Since(began).Seconds() }()
	rng := rand.New(rand.NewPCG(s.Seed, 0x666c757368))
	var rounds []Round
	for range RelativeRounds {
		var r Round
		sides := []func() error{
			func() error {
				o, err := s.run(ctx, costFlushes)
				r.Inside = o.Result.Metrics["flush_p1"]
				return err
			},
			func() (err error) {
				r.Host, err = durability.Cost(ctx, s.dir(), costFlushes)
				return err
			},
		}
		rng.Shuffle(len(sides), func(i, j int) { sides[i], sides[j] = sides[j], sides[i] })
		for _, side := range sides {
			if err := side(); ctx.Err() != nil {
				return t, ctx.Err()
			} else if err != nil {
				t.Text = "not measured: " + err.Error()
				return t, nil
			}
		}
		if rounds = append(rounds, r); r.Inside >= r.Host {
			break
		}
	}
	d := Relative(rounds)
	t.Class, t.Text = d.Class, d.Text
	t.Inside = middle(rounds, func(r Round) float64 { return r.Inside })
	t.Host = middle(rounds, func(r Round) float64 { return r.Host })
	return t, nil
}

// middle is the median over the rounds, the upper one of two.
func middle(rounds []Round, of func(Round) float64) float64 {
	var all []float64
	for _, r := range rounds {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
