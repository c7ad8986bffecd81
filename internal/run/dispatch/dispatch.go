// Package dispatch has hosts carry out their parts of a fleet's plan, by an engine that their users run already, and
// waits for their results.
//
// It is opinionated about who does the work. The engine runs each part on its host; the controller only submits and
// watches, so that it may be stopped and started at any time. Everything that it must remember is on disk before the
// engine is asked for anything, and what the engine has by itself (its queue, the results) decides: no host is measured
// twice, and none is lost.
package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tare/internal/bundle"
	"tare/internal/sys/filelock"
)

// Schema is the version of run.json.
const Schema = 1

// Names within the fleet's folder. Package collect knows the first two as well.
const (
	StateFile = "run.json"
	WorkDir   = "run" // the plan, the parts' bundles and their output
	lockFile  = ".run.lock"
)

// Phase is how far a part is.
type Phase string

// The phases of a part.
const (
	Absent  Phase = "absent"  // nothing was asked for yet
	Waiting Phase = "waiting" // the engine has it and has not begun
	Stuck   Phase = "stuck"   // it waits for a host that is down
	Working Phase = "working"
	Ended   Phase = "ended"  // without a result: it may be begun again, and goes on where it was
	Done    Phase = "done"   // its packed bundle is there
	Failed  Phase = "failed" // given up; Detail says why
)

// Part is one host's part. It is an entry of run.json.
type Part struct {
	Number int       `json:"number"` // from 1
	Host   string    `json:"host"`
	Spec   string    `json:"spec,omitempty"` // how it is reached, where its name does not say that
	Phase  Phase     `json:"phase"`
	Detail string    `json:"detail,omitempty"` // why, in the engine's words
	Job    string    `json:"job,omitempty"`    // as the engine calls it
	Tries  int       `json:"tries"`            // how often it was asked for
	Since  time.Time `json:"since,omitzero"`   // of Stuck
}

// State is run.json.
type State struct {
	Schema int    `json:"schema"`
	ID     string `json:"id"` // of this fleet: part of the jobs' names
	Engine string `json:"engine"`
	Plan   string `json:"plan"` // plan.Identity
	Parts  []Part `json:"parts"`
}

// PartStatus is the state of a part in its engine.
type PartStatus struct {
	Phase  Phase
	Detail string
	Job    string
	// Final says that an Ended part is not to be begun again: somebody cancelled it.
	Final bool
	// News says that Detail is worth telling, also where the phase stays: the reason for which a Waiting part waits.
	News bool
}

// Engine runs parts on hosts.
type Engine interface {
	// Look says of each part, by its number, how far it is; Absent for one that the engine does not know.
	Look(ctx context.Context, parts []Part) (map[int]PartStatus, error)
	// Start asks for a part and returns the engine's name of it.
	Start(ctx context.Context, p Part) (job string, err error)
	// Drop takes back a part that was asked for.
	Drop(ctx context.Context, p Part) error
}

// Config is one call of Run.
type Config struct {
	Dir    string // the fleet's folder
	Engine Engine
	Name   string // of the engine
	ID     string // for a run that begins now
	Plan   string // plan.Identity
	Hosts  []string
	Specs  []string // how each of Hosts is reached; none where their names say that
	// Prepare puts the files that the parts need into the work folder, before anything is asked for.
	Prepare  func(work string, s *State) error
	AtOnce   int // most parts that are asked for and have not ended; 0 for no bound
	Together int // parts that are asked for at the same time; 0 for one
	// Patience is how long a part may wait for a host that is down.
	Patience time.Duration
	Every    time.Duration   // between two looks
	Tell     func(p Part)    // of each change
	Trouble  func(err error) // the engine did not answer; it is asked again
	// Round, where set, is told of all parts before the first look and after each.
	Round func(parts []Part)
}

// ErrFull is returned by Start where the engine takes no more parts now. That is no try: the part is asked for at a
// later look.
var ErrFull = errors.New("the engine takes no more parts now")

// mostTries bounds how often a part is asked for, the first time included.
const mostTries = 3

// mostSilence is how many looks in a row may fail.
const mostSilence = 10

// ErrOther is returned for a folder with another run in it.
var ErrOther = errors.New("it holds another run")

// Run asks for all parts and returns when each is Done or Failed. A run that was begun goes on. If ctx ends, so does
// the watching, and nothing else: the hosts go on.
func Run(ctx context.Context, c Config) (*State, error) {
	if err := os.MkdirAll(filepath.Join(c.Dir, WorkDir), 0o755); err != nil {
		return nil, fmt.Errorf("run fleet: %w", err)
	}
	lock, err := filelock.Try(filepath.Join(c.Dir, lockFile))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("run fleet in %s: another tare watches it already", c.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("run fleet: %w", err)
	}
	defer lock.Release()
	r := &runner{Config: c}
	if err := r.begin(); err != nil {
		return nil, fmt.Errorf("run fleet in %s: %w", c.Dir, err)
	}
	if err := r.watch(ctx); err != nil {
		return &r.state, fmt.Errorf("run fleet in %s: %w", c.Dir, err)
	}
	return &r.state, nil
}

type runner struct {
	Config
	state State
}

// begin reads the state of a run that was begun, or begins one.
func (r *runner) begin() error {
	s, err := ReadState(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		r.state = State{Schema: Schema, ID: r.ID, Engine: r.Name, Plan: r.Plan}
		for i, h := range r.Hosts {
			p := Part{Number: i + 1, Host: h, Phase: Absent}
			if i < len(r.Specs) {
				p.Spec = r.Specs[i]
			}
			r.state.Parts = append(r.state.Parts, p)
		}
		if len(r.state.Parts) == 0 {
			return errors.New("there are no hosts")
		}
		if err := r.Prepare(filepath.Join(r.Dir, WorkDir), &r.state); err != nil {
			return err
		}
		return r.save()
	}
	if err != nil {
		return err
	}
	r.state = *s
	if err := s.Other(&r.Config); err != nil {
		return err
	}
	// Parts that were given up get another chance: somebody has called the command again.
	for i := range r.state.Parts {
		if p := &r.state.Parts[i]; p.Phase == Failed {
			p.Phase, p.Tries, p.Detail, p.Since = Ended, 0, "", time.Time{}
		}
	}
	return nil
}

// Other says why the run in a folder is not the one that is asked for, as ErrOther; nil where it is.
func (s *State) Other(c *Config) error {
	switch {
	case s.Engine != c.Name:
		return fmt.Errorf("%w, on %s; choose another folder", ErrOther, s.Engine)
	case s.Plan != c.Plan:
		return fmt.Errorf("%w, of another plan; choose another folder", ErrOther)
	case len(c.Hosts) > 0 && !slices.Equal(c.Hosts, hostsOf(s)):
		return fmt.Errorf("%w, on other hosts; choose another folder, or leave the hosts out to go on", ErrOther)
	}
	return nil
}

func hostsOf(s *State) (hosts []string) {
	for i := range s.Parts {
		hosts = append(hosts, s.Parts[i].Host)
	}
	return hosts
}

// ReadState reads run.json of a fleet's folder. The error is fs.ErrNotExist where no run was begun.
func ReadState(dir string) (*State, error) {
	src, err := os.ReadFile(filepath.Join(dir, StateFile))
	if err != nil {
		return nil, err
	}
	s, err := ParseState(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, StateFile), err)
	}
	return s, nil
}

// Vacant tells whether a run may begin in a folder: it is not there, it is empty, or all in it is of a run that was
// refused before it began.
func Vacant(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		if e.Name() != WorkDir && e.Name() != lockFile && e.Name() != StateFile+".part" {
			return false
		}
	}
	return true
}

// maxParts bounds a run.
const maxParts = 100_000

// ParseState reads run.json.
func ParseState(src []byte) (*State, error) {
	s := &State{}
	if err := json.Unmarshal(src, s); err != nil {
		return nil, err
	}
	if s.Schema != Schema || len(s.Parts) == 0 || len(s.Parts) > maxParts {
		return nil, fmt.Errorf("schema %d with %d parts is none of this tare's", s.Schema, len(s.Parts))
	}
	for i := range s.Parts {
		if s.Parts[i].Number != i+1 {
			return nil, fmt.Errorf("part %d is in the place of part %d", s.Parts[i].Number, i+1)
		}
	}
	return s, nil
}

func (r *runner) save() error {
	src, err := json.MarshalIndent(&r.state, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(r.Dir, StateFile)
	f, err := os.OpenFile(path+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(src, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".part", path)
	}
	return err
}

// Packed is where a part's packed bundle comes to lie.
func Packed(dir string, p *Part) string {
	return filepath.Join(dir, WorkDir, fmt.Sprintf("part-%d", p.Number)+bundle.Ext)
}

// Folder is where a part's bundle lies while it is written, on engines with a shared file system.
func Folder(dir string, p *Part) string {
	return filepath.Join(dir, WorkDir, fmt.Sprintf("part-%d", p.Number))
}

// watch looks and acts until nothing is left to do.
func (r *runner) watch(ctx context.Context) error {
	silent := 0
	r.round()
	for {
		left, err := r.step(ctx)
		r.round()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			if silent++; silent >= mostSilence {
				return err
			}
			if r.Trouble != nil {
				r.Trouble(err)
			}
		case left == 0:
			return nil
		default:
			silent = 0
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(r.Every):
		}
	}
}

func (r *runner) round() {
	if r.Round != nil {
		r.Round(r.state.Parts)
	}
}

// step is one look and what follows from it. It returns how many parts are left.
func (r *runner) step(ctx context.Context) (left int, err error) {
	var open []Part
	for i := range r.state.Parts {
		p := &r.state.Parts[i]
		if p.Phase == Done || p.Phase == Failed {
			continue
		}
		if r.packed(p) {
			// A controller was killed after it had fetched the result.
			if e, ok := r.Engine.(interface{ Tidy(context.Context, Part) }); ok && p.Job != "" {
				e.Tidy(ctx, *p)
			}
			r.set(p, PartStatus{Phase: Done, Job: p.Job})
			continue
		}
		open = append(open, *p)
	}
	if len(open) == 0 {
		return 0, r.save()
	}
	seen, err := r.Engine.Look(ctx, open)
	if err != nil {
		return len(open), err
	}
	var begin []*Part
	busy := 0
	for _, o := range open {
		if s := seen[o.Number]; s.Phase == Waiting || s.Phase == Working {
			busy++
		}
	}
	for _, o := range open {
		p := &r.state.Parts[o.Number-1]
		ask, err := r.follow(ctx, p, seen[o.Number])
		if err != nil {
			return len(open), errors.Join(err, r.save())
		}
		// A part that waits its turn has not been tried.
		if ask && (r.AtOnce == 0 || busy < r.AtOnce) {
			p.Tries++
			busy++
			begin = append(begin, p)
		}
		if p.Phase != Done && p.Phase != Failed {
			left++
		}
	}
	// Written before anything is asked for: after a crash in between, the engine's own list decides.
	if err := r.save(); err != nil || len(begin) == 0 {
		for _, p := range begin {
			p.Tries-- // nothing was asked for
		}
		return left, err
	}
	err = r.ask(ctx, begin)
	return left, errors.Join(err, r.save())
}

// packed tells whether a part's result is there.
func (r *runner) packed(p *Part) bool {
	_, err := os.Stat(Packed(r.Dir, p))
	return err == nil
}

// follow does what follows from how far a part is, and tells whether it is to be asked for.
func (r *runner) follow(ctx context.Context, p *Part, s PartStatus) (ask bool, err error) {
	switch s.Phase {
	case "", Absent:
		if p.Tries < mostTries {
			return true, nil
		}
		s = PartStatus{Phase: Failed, Detail: cmp.Or(p.Detail, "it was started, but it is not there any more")}
	case Ended:
		// It may have ended since the last look for its result.
		if r.packed(p) {
			s = PartStatus{Phase: Done, Job: s.Job}
			break
		}
		// Before the first try of this call, a part that ended is one that an earlier call gave up.
		if p.Tries == 0 || !s.Final && p.Tries < mostTries {
			return true, nil
		}
		s.Phase = Failed
	case Stuck:
		if now := time.Now(); p.Phase != Stuck || p.Since.After(now) { // this machine's clock may have been set back
			p.Since = now
		}
		if time.Since(p.Since) > r.Patience {
			if err := r.Engine.Drop(ctx, *p); err != nil {
				return false, err
			}
			s.Phase, s.Detail = Failed, s.Detail+"; given up after "+r.Patience.String()
		}
	}
	r.set(p, s)
	return false, nil
}

// ask asks the engine for parts, several at a time. What goes wrong with one keeps no other from being asked for, but
// where the engine is full, the others wait as well; that is the error, unless some of the fleet's are there that will
// end.
func (r *runner) ask(ctx context.Context, parts []*Part) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var full error
	next, told := 0, time.Now()
	for range min(max(r.Together, 1), len(parts)) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(parts) {
				p := parts[next]
				next++
				if full != nil || ctx.Err() != nil {
					p.Tries--
					continue
				}
				asked := *p
				mu.Unlock()
				job, err := r.Engine.Start(ctx, asked)
				mu.Lock()
				if r.asked(ctx, p, job, err); errors.Is(err, ErrFull) {
					full = err
				}
				if time.Since(told) > time.Second { // asking for thousands takes a while
					r.round()
					told = time.Now()
				}
			}
		})
	}
	wg.Wait()
	if full != nil && !slices.ContainsFunc(r.state.Parts, func(p Part) bool {
		return p.Phase == Waiting || p.Phase == Working
	}) {
		return full
	}
	return nil
}

// asked does what follows from the engine's answer.
func (r *runner) asked(ctx context.Context, p *Part, job string, err error) {
	switch {
	case err == nil:
		r.set(p, PartStatus{Phase: Waiting, Job: job})
	case ctx.Err() != nil || errors.Is(err, ErrFull):
		p.Tries--
	case p.Tries >= mostTries || errors.Is(err, ErrNoProgram):
		r.set(p, PartStatus{Phase: Failed, Detail: err.Error()})
	default:
		r.set(p, PartStatus{Phase: Ended, Detail: err.Error()})
	}
}

// set writes down how far a part is, and tells of a change.
func (r *runner) set(p *Part, s PartStatus) {
	changed := p.Phase != s.Phase || s.Job != "" && p.Job != s.Job || s.News && p.Detail != s.Detail
	p.Phase, p.Detail = s.Phase, s.Detail
	if s.Job != "" {
		p.Job = s.Job
	}
	if s.Phase != Stuck {
		p.Since = time.Time{}
	}
	if changed && r.Tell != nil {
		r.Tell(*p)
	}
}
