package qemu

import (
	"context"
	"os"
	"strings"
	"testing"

	"tare/internal/lab/microvm"
)

// rustDaemon names a Rust virtiofsd for the tests. Debian has one since release 13; for 12, scripts/deps.sh virtiofsd
// downloads it.
const rustDaemon = "TARE_VIRTIOFSD"

// TestRustVirtiofsdServesAGuest mounts what the Rust daemon serves, with the settings that the C one lacks.
func TestRustVirtiofsdServesAGuest(t *testing.T) {
	repeats(t)
	t.Parallel()
	path := os.Getenv(rustDaemon)
	if path == "" {
		lacking(t, "no Rust virtiofsd: scripts/deps.sh virtiofsd prints the path of one, to be named with %s=PATH",
			rustDaemon)
	}
	need(t, "amd64", microvm.Cloud)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "none", "kernel", microvm.Cloud, "boot", "3m"))
	o.Mounts = mountSpecs(t, "auto=virtiofs?daemon="+path, "never=virtiofs?cache=never&sandbox=none&daemon="+path,
		"locks=virtiofs?posix_lock=on&daemon="+path)
	v, s := open(t, driver{}, o)
	for _, name := range []string{"auto", "never"} {
		m := mounted(t, v, name)
		if m.Err != nil {
			t.Errorf("%s: %v", name, m.Err)
			continue
		}
		if !strings.Contains(m.Mount.Server, "(Rust)") {
			t.Errorf("it is served by %q", m.Mount.Server)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := s.Mount(ctx, m.Order)
		cancel()
		if err != nil || got.Type != "virtiofs" {
			t.Fatalf("%s: %+v %v\nserver: %s", name, got, err, diagnose(m.Diagnose))
		}
		if err := work(t, s, "fs.smallfiles", m.Mount.Dir, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "never" {
			// Files of such a mount cannot be mapped into memory, so nobody can check what is in the page cache. A cell
			// that needs a cold cache reports that.
			err := work(t, s, "fs.randread", m.Mount.Dir, map[string]string{"size": "1MiB", "cache": "guest-cold"})
			if err == nil || !strings.Contains(err.Error(), "the system does not report") ||
				!strings.Contains(err.Error(), "use cache=as-is") {
				t.Errorf("%s: guest-cold: %v", name, err)
			}
		} else if r := trial(t, s, m.Mount.Dir, "guest-cold"); r.Error != nil || r.State["resident_before"] != "0.0%" {
			t.Errorf("%s: %v %+v", name, r.State, r.Error)
		}
	}
	if m := mounted(t, v, "locks"); m.Err == nil || !strings.Contains(m.Err.Error(), "daemon=c") {
		t.Errorf("a setting that only the C daemon has: %v", m.Err)
	}
}
