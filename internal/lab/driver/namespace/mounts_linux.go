package namespace

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/measure/agent/nsinit"
	"tare/internal/record"
	"tare/internal/unit"
)

// makeMounts prepares the folders of the container. If one fails, the others still work.
func (e *environment) makeMounts(specs []env.Spec) {
	for _, s := range specs {
		m := env.Mounted{Name: s.Name, Mount: record.Mount{Kind: s.Driver, Dir: target(s.Name),
			Settings: maps.Clone(s.Settings)}}
		c := nsinit.Mount{Target: m.Mount.Dir}
		switch s.Driver {
		case bind:
			if m.Mount.HostDir, m.Err = e.folder(&s); m.Err == nil {
				c.Source = nsinit.Path(m.Mount.HostDir)
			}
		case tmpfs:
			if v := s.Get("size", ""); v != "" {
				n, _ := unit.ParseSize(v) // checked with the plan
				c.Options = "size=" + strconv.FormatInt(n, 10)
			}
		}
		if m.Err == nil {
			e.config.Mounts = append(e.config.Mounts, c)
		}
		e.mounts = append(e.mounts, m)
	}
}

// folder makes the host's side of a bind mount.
func (e *environment) folder(s *env.Spec) (dir string, err error) {
	if base := s.Get("dir", ""); base != "" {
		var release func() error
		if dir, release, err = leftover.New(base, e.runID); err == nil {
			e.folders = append(e.folders, release)
		}
	} else {
		dir, err = os.MkdirTemp(e.base, "bind-")
	}
	if err == nil {
		// The path is looked up below the old root, where a symbolic link of the host would lead elsewhere.
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", &env.OpenError{Env: e.name + ":" + s.Name, Op: "make folder to bind", Err: err,
			Remedy: "choose a directory you may write to with the setting dir=PATH of the mount"}
	}
	return dir, nil
}

// removeMounts removes the host's side of the mounts.
func (e *environment) removeMounts() error {
	var errs []error
	for _, m := range e.mounts {
		if m.Mount.Kind == bind && m.Mount.HostDir != "" {
			errs = append(errs, leftover.Remove(m.Mount.HostDir))
		}
	}
	for _, release := range e.folders {
		errs = append(errs, release())
	}
	return errors.Join(errs...)
}

// Mounts are the container's mounts.
func (e *environment) Mounts() []env.Mounted { return e.mounts }
