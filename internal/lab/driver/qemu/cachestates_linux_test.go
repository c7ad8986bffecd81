package qemu

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/hostcache"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
)

// trial runs random reads of a file and returns the result.
func trial(t *testing.T, s *deploy.Conn, root, cache string) wire.Result {
	t.Helper()
	kind, _ := all.Lookup("fs.randread")
	params, err := kind.Resolve(map[string]string{"size": "1MiB", "cache": cache})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: kind.Name, Params: params, Cell: "c", Seed: 1, Root: root},
		Work: 16})
	if err != nil {
		t.Errorf("cache=%s: %v", cache, err)
	}
	return got.Result
}

// hostResident is how many bytes of a folder's files are in the host's page cache.
func hostResident(t *testing.T, dir string) (bytes int64, files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := hostcache.Resident(f)
		bytes, files = bytes+n, files+1
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes, files
}

// TestCacheStatesOfRealShares reaches each cache state on mounts with real servers. A state counts only if it was
// verified: in the guest by its kernel, on the host by mincore(2). If it cannot be verified, there is a warning.
func TestCacheStatesOfRealShares(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "kernel", microvm.Generic, "boot", "3m"))
	o.Mounts = mountSpecs(t, "none=9p", "loose=9p?cache=loose", "v=virtiofs", "n=nfs?actimeo=2", "s=smb",
		"vm=nfs?server=vm&actimeo=2&disk=64MiB")
	v, s := open(t, driver{}, o)
	warned := func(r wire.Result, code string) bool {
		return slices.ContainsFunc(r.Warnings, func(w record.Warning) bool { return w.Code == code })
	}
	for _, m := range v.Mounts() {
		t.Run(m.Name, func(t *testing.T) {
			if m.Err != nil {
				t.Fatal(m.Err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := s.Mount(ctx, m.Order); err != nil {
				t.Fatal(err)
			}
			dir := m.Mount.Dir
			warm := trial(t, s, dir, "warm")
			switch {
			case warm.Error != nil:
				t.Errorf("warm: %v", warm.Error)
			case m.Name == "none", m.Name == "v":
				// 9p without a cache keeps nothing, virtiofs with cache=auto keeps nothing after the file was closed,
				// and a figure without a warm cache is not reported as warm.
				if !warned(warm, "not-resident") || warm.State["resident_before"] != "0.0%" {
					t.Errorf("warm: %v %+v", warm.State, warm.Warnings)
				}
			case warm.State["resident_before"] != "100.0%":
				t.Errorf("warm: %v %+v", warm.State, warm.Warnings)
			}
			if r := trial(t, s, dir, "guest-cold"); r.Error != nil || r.State["resident_before"] != "0.0%" ||
				r.State["cache_dropped_by"] == "" {
				t.Errorf("guest-cold: %v %+v", r.State, r.Error)
			}
			if err := v.DropHostCaches(ctx); err != nil {
				t.Errorf("drop the host's caches: %v", err)
			}
			if m.Mount.HostDir != "" {
				if n, files := hostResident(t, m.Mount.HostDir); n != 0 || files == 0 {
					t.Errorf("after the drop %d bytes of %d files are in the host's page cache", n, files)
				}
			}
			if r := trial(t, s, dir, "cold"); r.Error != nil || r.State["resident_before"] != "0.0%" ||
				r.State["host_cache"] == "" {
				t.Errorf("cold: %v %+v", r.State, r.Error)
			}
			if m.Mount.HostDir != "" {
				if n, _ := hostResident(t, m.Mount.HostDir); n == 0 {
					t.Error("a cold trial read nothing on the host")
				}
			}
			began := time.Now()
			r := trial(t, s, dir, "attr-expired")
			if r.Error != nil {
				t.Fatalf("attr-expired: %v", r.Error)
			}
			life := map[string]time.Duration{"n": 2 * time.Second, "vm": 2 * time.Second, "s": time.Second}[m.Name]
			if life == 0 {
				if !warned(r, "cache-unverified") || r.State["attribute_lifetime"] != "unknown" {
					t.Errorf("attr-expired where the mount does not tell: %v %+v", r.State, r.Warnings)
				}
			} else if r.State["attribute_lifetime"] != life.String() || warned(r, "cache-unverified") ||
				time.Since(began) < life {
				t.Errorf("attr-expired after %v: %v %+v", time.Since(began), r.State, r.Warnings)
			}
			if !strings.HasSuffix(r.State["attribute_wait"], "s") {
				t.Errorf("attr-expired: %v", r.State)
			}
		})
	}
}
