package durability

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/driver/libvirt"
	"tare/internal/lab/driver/qemu"
	"tare/internal/lab/env"
	"tare/internal/lab/libvirttest"
	"tare/internal/measure/workload/durability"
	"tare/internal/record"
	"tare/internal/sys/nbd"
	"tare/internal/sys/proc"
)

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m)) }

// vmOptions are for a real machine, or end the test where none can be had.
func vmOptions(t *testing.T, cache string) Options {
	t.Helper()
	if testing.Short() {
		t.Skip("a machine is booted")
	}
	info := qemu.Infos()[0]
	need(t, probed(t, info), bridged())
	return pullOptions(t, info, env.Spec{Name: "vm", Driver: "qemu",
		Settings: map[string]string{"accel": "tcg", "memory": "256MiB", "cpus": "1", "cache": cache}})
}

// need ends a test where one of the reasons is not empty.
func need(t *testing.T, reasons ...string) {
	t.Helper()
	for _, why := range reasons {
		if why != "" && os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(why)
		} else if why != "" {
			t.Skip(why)
		}
	}
}

// probed says why a driver does not work here.
func probed(t *testing.T, info env.Info) string {
	if status := info.Probe(t.Context()); !status.OK {
		return status.Detail + "; " + status.Remedy
	}
	return ""
}

// bridged says why no disk can be shown as a file.
func bridged() string {
	if _, err := proc.LookPath(bridgeProgram); err != nil {
		return bridgeProgram + " is not installed"
	} else if _, err := os.Stat("/dev/fuse"); err != nil {
		return "there is no /dev/fuse"
	}
	return ""
}

// pullOptions cut the power of a machine once.
func pullOptions(t *testing.T, info env.Info, spec env.Spec) Options {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-cut-") // t.TempDir's is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return Options{
		Info: info, Spec: spec, By: ByDisk, Faults: []nbd.Fault{nbd.Drop}, Agents: agenttest.Store(t),
		RunID: "test-cut", Dir: dir,
		Log:     slog.New(slog.DiscardHandler),
		Classes: durability.Classes(), Seed: 11, Cuts: 1, Control: 1,
	}
}

// opened opens an environment until the test's end, and attaches to its agent.
func opened(t *testing.T, d env.Driver, o env.Options) (env.Env, *deploy.Conn) {
	t.Helper()
	v, err := d.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	s, err := deploy.Attach(t.Context(), v, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return v, s
}

func pull(t *testing.T, o Options) *Result {
	t.Helper()
	o.Told = func(p *CutResult) {
		t.Logf("%s %s %s: %d acknowledged, %d lost, %d pending, %.1f s", p.Target, p.Settings, p.Cut.Fault,
			p.Acknowledged, len(p.Losses), p.Cut.Pending, p.Took)
	}
	ledger, err := CreateLedger(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Pull(t.Context(), o, ledger)
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Close(); err != nil {
		t.Error(err)
	}
	return r
}

// TestPull pulls the plug of real machines: one that passes flushes on and one that ignores them, torn writes for the
// first. A full run is `tare durability -e vm=qemu?cache=none --cuts 20`.
func TestPull(t *testing.T) {
	o := vmOptions(t, "none")
	o.Faults = []nbd.Fault{nbd.Tear}
	r := pull(t, o)
	if !r.Power || !r.Sound || r.Verdict.Verdict != record.NotDisproved || r.Verdict.Class != ClassFlushes {
		t.Errorf("cache=none: power %v, sound %v, %+v", r.Power, r.Sound, r.Verdict)
	}
	for _, row := range r.Rows {
		if row.Acknowledged == 0 || row.Lost != 0 {
			t.Errorf("cache=none: %+v", row)
		}
	}
}

// TestPullByLibvirt pulls the plug of a machine that libvirt ignores the flushes of, after its process was killed.
func TestPullByLibvirt(t *testing.T) {
	o := vmOptions(t, "unsafe")
	// The disk is a file by FUSE, which libvirtd must see in its own mount namespace.
	if err := errors.Join(unix.Mount(o.Dir, o.Dir, "", unix.MS_BIND, ""),
		unix.Mount("", o.Dir, "", unix.MS_SHARED, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(o.Dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := libvirttest.New(t)
	o.Info = libvirt.Infos()[0]
	o.Spec = env.Spec{Name: "lv", Driver: "libvirt", Settings: map[string]string{"uri": d.URI, "type": "qemu",
		"memory": "256MiB", "cpus": "1", "cache": "unsafe"}}
	o.By = ByKill
	r := pull(t, o)
	if !r.Power || !r.Sound || r.Verdict.Verdict != record.Disproved || len(r.Verdict.Settings) != 1 {
		t.Errorf("cache=unsafe: power %v, sound %v, %+v", r.Power, r.Sound, r.Verdict)
	}
}
