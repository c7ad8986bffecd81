// Package plan turns a plan file or a command line into a Plan: which environments, which workloads, how sure.
//
// It is pure: it reads bytes and tables, opens nothing and starts nothing. A resolved Plan holds everything that
// decides the course of a run, seed and frozen work included, so that writing it down is enough to repeat the run.
package plan

import (
	"cmp"
	"maps"
	"time"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/measure/workload"
)

// Schema is the version of the plan file.
const Schema = 1

// ScreenBlocks is how many blocks of a workload all candidates get in a plan that screens them.
const ScreenBlocks = 5

// Mode is a named set of defaults for the length of a run.
type Mode string

// The modes of method.md.
const (
	Quick Mode = "quick" // trials of 0.3 s, looks up to 30 blocks
	Full  Mode = "full"  // trials of 1 s, looks up to 60 blocks
)

// What becomes of environments and mounts that cannot be had here.
const (
	Fail = ""     // they are opened, and fail
	Skip = "skip" // they are left out, and the user is told
)

// Plan is a resolved plan.
type Plan struct {
	Schema int    `yaml:"schema" json:"schema"`
	Name   string `yaml:"name,omitempty" json:"name,omitempty"`
	// the headline question: one family of cells
	Question string        `yaml:"question,omitempty" json:"question,omitempty"`
	Baseline string        `yaml:"baseline" json:"baseline"` // name of the baseline target
	Seed     uint64        `yaml:"seed" json:"seed"`
	Mode     Mode          `yaml:"mode" json:"mode"`
	Trial    time.Duration `yaml:"trial" json:"trial"`       // shortest length of a trial
	Budget   time.Duration `yaml:"budget" json:"budget"`     // wall time for the whole run; 0 means none
	Sessions int           `yaml:"sessions" json:"sessions"` // how often the environments are opened
	// MostSessions is how often they are opened instead where the run, with Sessions 1, finds that affordable before
	// its first look: then it sets Sessions to this. Below 2 they are opened once.
	MostSessions int `yaml:"most_sessions,omitempty" json:"most_sessions,omitempty"`
	// Looks are the block counts at which the run decides, ascending. The last is the most blocks a cell gets.
	Looks []int `yaml:"looks" json:"looks"`
	// Alpha is the simultaneous error level over all looks; LookAlpha is the level of each look that keeps it.
	Alpha      float64 `yaml:"alpha" json:"alpha"`
	LookAlpha  float64 `yaml:"look_alpha" json:"look_alpha"`
	Margin     float64 `yaml:"margin" json:"margin"`           // least cost that matters: 0.02 is 2 %
	TailMargin float64 `yaml:"tail_margin" json:"tail_margin"` // the same for tail latencies
	Precision  float64 `yaml:"precision" json:"precision"`     // half-width of the interval that counts as MEASURED

	// Missing says what becomes of environments and mounts that this machine cannot open: Fail or Skip.
	Missing string `yaml:"missing,omitempty" json:"missing,omitempty"`

	// Cards says whether files are tried out in every mount before the first trial, for its semantics card.
	Cards bool `yaml:"cards,omitempty" json:"cards,omitempty"`

	// Energy says from where the energy of each trial is read; nil: it is not.
	Energy *Energy `yaml:"energy,omitempty" json:"energy,omitempty"`

	// Screen is how many candidates of a workload go on after its first ScreenBlocks blocks: those that differ most
	// from all others. 0 means that all do.
	Screen int `yaml:"screen,omitempty" json:"screen,omitempty"`

	Slurm *Slurm `yaml:"slurm,omitempty" json:"slurm,omitempty"` // nil: nothing is said

	Targets   []Target    `yaml:"environments" json:"environments"`
	Beside    []Neighbour `yaml:"beside,omitempty" json:"beside,omitempty"`
	Copies    *Copies     `yaml:"copies,omitempty" json:"copies,omitempty"` // nil: each environment is there once
	Workloads []Workload  `yaml:"workloads" json:"workloads"`
}

// Target is an environment of the plan or a mount in one, fully resolved: a derived environment carries its parent's
// settings. A mount is named ENVIRONMENT:MOUNT; its Spec's Driver is the kind of mount.
type Target struct {
	Name string   `yaml:"name" json:"name"`
	Of   string   `yaml:"-" json:"of,omitempty"` // the environment that a mount is in; empty for an environment
	Spec env.Spec `yaml:"-" json:"-"`
	Text string   `yaml:"spec" json:"spec"` // Spec.String()
	From string   `yaml:"from,omitempty" json:"from,omitempty"`
	// Against names the target that this one is compared with in the place of the baseline: a mount with the
	// environment it is in, so that the ratio is the mount's and not the environment's.
	Against string `yaml:"against,omitempty" json:"against,omitempty"`
	// Like names the target that this one is, with the neighbour Beside at work or in so many Copies at once; empty for
	// all others. Such targets follow from Plan.Beside and Plan.Copies and do not stand in the plan file.
	Like   string `yaml:"-" json:"like,omitempty"`
	Beside string `yaml:"-" json:"beside,omitempty"`
	Copies int    `yaml:"-" json:"copies,omitempty"` // 2 at least; 0 for all others
}

// Opens tells whether the target is an environment that is opened: no mount, and no target like another one.
func (t *Target) Opens() bool { return t.Of == "" && t.Like == "" }

// IsMount tells whether the target is a mount in an environment, and no environment.
func (t *Target) IsMount() bool { return t.Of != "" }

// IsHost tells whether the target is the controller's machine itself, and no mount in it.
func (t *Target) IsHost() bool { return !t.IsMount() && drivers.Known().Nature(t.Spec.Driver).Host }

// Place is the name of the environment that the target is or is in.
func (t *Target) Place() string { return cmp.Or(t.Of, t.Like, t.Name) }

// Workload is one workload of the plan with resolved parameters.
type Workload struct {
	Label  string          `yaml:"label" json:"label"` // unique in the plan; what reports show: "fs.randread bs=4KiB"
	Kind   string          `yaml:"kind" json:"kind"`
	Params workload.Params `yaml:"params" json:"params"`
	// Targets limits the workload to these targets (its baseline is always among them); empty means all.
	Targets []string `yaml:"targets,omitempty" json:"targets,omitempty"`
	// Baseline names the target that takes the place of the plan's baseline in this workload, where that cannot do it.
	Baseline string        `yaml:"baseline,omitempty" json:"baseline,omitempty"`
	Trial    time.Duration `yaml:"trial,omitempty" json:"trial,omitempty"` // overrides Plan.Trial
	// Vary are the parameters in which the work of some targets differs from Params: variants of a command, each of
	// which is a target.
	Vary map[string]workload.Params `yaml:"vary,omitempty" json:"vary,omitempty"`
	// Work is the frozen number of units per trial by target, filled in by calibration.
	Work map[string]int64 `yaml:"work,omitempty" json:"work,omitempty"`
}

// On tells whether the workload runs in the target.
func (w *Workload) On(target string) bool {
	if len(w.Targets) == 0 {
		return true
	}
	for _, t := range w.Targets {
		if t == target {
			return true
		}
	}
	return false
}

// ParamsOn returns the parameters of the workload in a target. They are not to be changed.
func (w *Workload) ParamsOn(target string) workload.Params {
	vary := w.Vary[target]
	if len(vary) == 0 {
		return w.Params
	}
	all := maps.Clone(w.Params)
	maps.Copy(all, vary)
	return all
}

// For returns the workload as one target does it: with its parameters there, which do not vary any more.
func (w *Workload) For(target string) *Workload {
	if len(w.Vary[target]) == 0 {
		return w
	}
	own := *w
	own.Params, own.Vary = w.ParamsOn(target), nil
	return &own
}

// Once tells whether work of the plan lies in private directories of the run that it was made for, such as the
// worktrees of tare ab --git. They are removed with that run, so it can be neither repeated nor resumed.
func (p *Plan) Once() bool {
	for i := range p.Workloads {
		for j := range p.Targets {
			on := p.Workloads[i].ParamsOn(p.Targets[j].Name)
			if leftover.Private(on["dir"]) || leftover.Private(on["tree"]) {
				return true
			}
		}
	}
	return false
}

// SameWork tells whether two workloads are the same kind of work with the same parameters, in every target.
func SameWork(a, b *Workload) bool {
	return a.Kind == b.Kind && maps.Equal(a.Params, b.Params) &&
		maps.EqualFunc(a.Vary, b.Vary, func(x, y workload.Params) bool { return maps.Equal(x, y) })
}

// Target returns the target of that name.
func (p *Plan) Target(name string) (*Target, bool) {
	for i := range p.Targets {
		if p.Targets[i].Name == name {
			return &p.Targets[i], true
		}
	}
	return nil, false
}

// Against returns the target that a target is compared with.
func (p *Plan) Against(target string) string {
	if e, ok := p.Target(target); ok && e.Against != "" {
		return e.Against
	}
	return p.Baseline
}

// Base returns the baseline of a workload: its own, or the plan's.
func (p *Plan) Base(w *Workload) string {
	if w.Baseline != "" {
		return w.Baseline
	}
	return p.Baseline
}

// AgainstIn returns the target that a target is compared with in a workload.
func (p *Plan) AgainstIn(w *Workload, target string) string {
	if a := p.Against(target); w.Baseline == "" || a != p.Baseline && w.On(a) && target != w.Baseline {
		return a
	}
	return w.Baseline
}

// Bases returns the targets that others are compared with in a workload, its baseline first. Each takes a second,
// hidden slot in the workload's blocks.
func (p *Plan) Bases(w *Workload) []string {
	bases := []string{p.Base(w)}
	for i := range p.Targets {
		e := &p.Targets[i]
		if e.Against != "" && e.Name != w.Baseline && w.On(e.Name) && w.On(e.Against) && !contains(bases, e.Against) {
			bases = append(bases, e.Against)
		}
	}
	return bases
}

// Mounts returns the mounts in an environment, in the plan's order.
func (p *Plan) Mounts(environment string) []*Target {
	var out []*Target
	for i := range p.Targets {
		if p.Targets[i].Of == environment && environment != "" && p.Targets[i].Like == "" {
			out = append(out, &p.Targets[i])
		}
	}
	return out
}

// Workload returns the workload with that label.
func (p *Plan) Workload(label string) (*Workload, bool) {
	for i := range p.Workloads {
		if p.Workloads[i].Label == label {
			return &p.Workloads[i], true
		}
	}
	return nil, false
}

// MaxBlocks is the most blocks a cell gets in one session. With several sessions the session is the unit of the
// verdict, and looks inside one decide nothing: every session gets the blocks of the first look, or its part of the
// blocks of the last look where it was left to the run how often the environments are opened.
func (p *Plan) MaxBlocks() int { return p.BlocksIn(p.Sessions) }

// BlocksIn is MaxBlocks for another number of sessions.
func (p *Plan) BlocksIn(sessions int) int {
	last := p.Looks[len(p.Looks)-1]
	switch {
	case sessions < 2:
		return last
	case p.MostSessions > 1:
		return max(1, last/sessions)
	}
	return p.Looks[0]
}

// LeftOpen tells whether the run is still to find out how often it opens the environments.
func (p *Plan) LeftOpen() bool { return p.Sessions < 2 && p.MostSessions > 1 && p.Screen == 0 }
