package envtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tare/internal/lab/env"
)

// mounts opens the environment with all mounts at once: each works, each broken one fails alone with a reason, and
// nothing is left.
func (s *suite) mounts(t *testing.T) {
	specs := append(append([]env.Spec(nil), s.Mounts...), s.Broken...)
	if len(specs) == 0 {
		t.Skip("this test of the driver names no mounts")
	}
	o := s.options(t, s.Spec)
	o.Mounts = specs
	e := s.open(t, o)
	m, ok := e.(env.Mounter)
	if !ok {
		t.Fatal("the environment has no mounts")
	}
	conn := s.connect(t, e, o.RunID)
	ctx, cancel := context.WithTimeout(t.Context(), 2*s.Patience)
	defer cancel()
	all := m.Mounts()
	if len(all) != len(specs) {
		t.Fatalf("%d mounts were requested, and there are %d", len(specs), len(all))
	}
	seen := map[string]bool{}
	for i, got := range all {
		if got.Name != specs[i].Name || got.Mount.Kind != specs[i].Driver {
			t.Errorf("mount %d is %s of kind %s, want %s of kind %s", i, got.Name, got.Mount.Kind, specs[i].Name,
				specs[i].Driver)
		}
		if i >= len(s.Mounts) {
			x, ok := errors.AsType[*env.OpenError](got.Err)
			switch {
			case got.Err == nil && got.Order != nil:
				_, err := conn.Mount(ctx, got.Order)
				ok = err != nil
			case got.Err == nil:
				facts, err := conn.FactsAt(ctx, got.Mount.Dir)
				ok = err == nil && facts.Extra["work_dir.error"] != ""
			}
			if got.Err != nil && ok && x.Remedy == "" && len(x.Evidence) == 0 {
				t.Errorf("%s failed without a remedy or evidence: %v", got.Name, got.Err)
			}
			if !ok {
				t.Errorf("%s is broken, but returned %v", got.Name, got.Err)
			}
			continue
		}
		if got.Err != nil {
			t.Errorf("%s: %v", got.Name, got.Err)
			continue
		}
		if got.Order != nil {
			if _, err := conn.Mount(ctx, got.Order); err != nil {
				t.Errorf("%s: %v", got.Name, err)
				continue
			}
		}
		if seen[got.Mount.Dir] {
			t.Errorf("%s has the same directory as another mount: %s", got.Name, got.Mount.Dir)
		}
		seen[got.Mount.Dir] = true
		facts, err := conn.FactsAt(ctx, got.Mount.Dir)
		if err != nil || facts.WorkFS == "" || facts.Extra["work_dir.error"] != "" {
			t.Errorf("%s: facts %v %q %v", got.Name, err, facts.WorkFS, facts.Extra)
			continue
		}
		t.Logf("%-12s %s", got.Name, facts.WorkFS)
		r := files()
		r.Root = got.Mount.Dir
		s.trial(t, conn, r)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	var hosts []string
	for _, got := range all {
		if got.Mount.HostDir != "" && got.Err == nil {
			hosts = append(hosts, got.Mount.HostDir)
		}
	}
	left := func() (out []string) {
		for _, h := range hosts {
			names, _ := filepath.Glob(filepath.Join(h, "tare-*"))
			out = append(out, names...)
		}
		return out
	}
	if l := left(); len(l) > 0 {
		t.Errorf("the agent left %q", l)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	s.noLeaks(t, o)
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo")
	if bytes.Contains(mountinfo, []byte(o.RunID)) {
		t.Errorf("something is still mounted:\n%s", mountinfo)
	}
}
