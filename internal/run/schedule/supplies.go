package schedule

import (
	"context"
	"encoding/hex"
	"slices"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
)

// Files makes the files for trials from those that a workload's parameters name on the controller's machine.
type Files interface {
	// Of returns a workload's files by the parameter that each is made of. It makes them when it is first asked. Where
	// parameters vary, the workload is as a target does it.
	Of(ctx context.Context, w *plan.Workload) (map[string]deploy.File, error)
	// Doubts returns warnings about a workload's files. They are the same for all targets.
	Doubts(w *plan.Workload) []record.Warning
}

// supplies brings a workload's files to the agents that work on it.
type supplies struct {
	files Files // nil: no workload has any
	table *table
	sent  map[sentFile]bool
}

type sentFile struct {
	agent  Agent // a new one for each opening
	digest [32]byte
}

// bring sends a target the workload's files that it lacks, but for those of some parameters, and returns their digests
// by parameter.
func (s *supplies) bring(ctx context.Context, w *plan.Workload, target string, but ...string) (map[string]string,
	error) {
	if s.files == nil {
		return nil, nil
	}
	files, err := s.files.Of(ctx, w.For(target))
	if err != nil || len(files) == 0 {
		return nil, err
	}
	agent := s.table.targets[target].Agent
	names := make(map[string]string, len(files))
	for param, f := range files {
		if slices.Contains(but, param) {
			continue
		}
		names[param] = hex.EncodeToString(f.Digest[:])
		if s.sent[sentFile{agent, f.Digest}] {
			continue
		}
		if err := agent.Supply(ctx, f); err != nil {
			return nil, err
		}
		s.sent[sentFile{agent, f.Digest}] = true
	}
	return names, nil
}

// doubts adds the warnings to the trials of the targets that others are compared with.
func (s *supplies) doubts(w *plan.Workload, target string) []record.Warning {
	if s.files == nil || !slices.Contains(s.table.plan.Bases(w), target) {
		return nil
	}
	return s.files.Doubts(w)
}

// job returns the wire.Job of a workload on a target.
func (x *trialRunner) job(ctx context.Context, w *plan.Workload, target string) (wire.Job, error) {
	files, err := x.supplies.bring(ctx, w, target)
	j := wire.Job{Kind: w.Kind, Params: w.ParamsOn(target), Cell: x.cellName(w), Seed: x.plan.Seed, Files: files,
		Root: x.table.targets[target].Root, Peer: x.peer.of(ctx, w, target)}
	if k, ok := x.kinds(w.Kind); ok {
		j.Service = k.ServiceKey(w.Params)
	}
	return j, err
}
