package libvirt

import (
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/libvirttest"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
)

// patience bounds every wait. It is long enough for a busy machine.
const patience = 3 * time.Minute

var openings atomic.Int64 // so that no run's id is a prefix of another's

// spec is an environment at a daemon.
func spec(d *libvirttest.Daemon, settings ...string) env.Spec {
	s := env.Spec{Name: "vm", Driver: name, Settings: map[string]string{"uri": d.URI}}
	for i := 0; i < len(settings); i += 2 {
		s.Settings[settings[i]] = settings[i+1]
	}
	return s
}

// testDriver keeps nothing in the user's folders.
func testDriver(t *testing.T, d *libvirttest.Daemon) driver {
	return driver{memory: t.TempDir() + "/accel", logs: d.Dir + "/log/qemu"}
}

// small are the settings of a micro-VM that is cheap to boot.
var small = []string{"type", "qemu", "memory", "256MiB", "disk", "64MiB", "boot", "3m", "cpus", "1"}

// kernel requires a kernel for guests, which is fetched into the user's cache if it is missing.
func kernel(t *testing.T, flavour string) {
	t.Helper()
	if _, err := microvm.Find("", "amd64", flavour); err == nil {
		return
	}
	if _, err := microvm.Fetch(t.Context(), "", "amd64", flavour); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func mountSpec(t *testing.T, text string) env.Spec {
	t.Helper()
	_, s, err := env.ParseMount("vm:" + text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite takes a minute")
	}
	t.Parallel() // the agents are in the machines, so the suite finds its own
	d := libvirttest.Shared(t)
	kernel(t, microvm.Generic)
	kernel(t, microvm.Cloud)
	envtest.Run(t, testDriver(t, d), envtest.Options{
		Spec: spec(d, append(slices.Clone(small), "format", "qcow2", "cache", "none", "io", "native", "nic",
			"virtio")...),
		OS: "linux", Arch: "amd64", Attached: true,
		CancelAfter: []time.Duration{0, 50 * time.Millisecond, time.Second},
		Mounts: []env.Spec{mountSpec(t, "disk?size=64MiB&format=vdi&cache=unsafe"), mountSpec(t, "9p?msize=64KiB"),
			mountSpec(t, "virtiofs"), mountSpec(t, "tmpfs")},
		Broken: []env.Spec{mountSpec(t, "xfs=disk?size=32MiB&fs=xfs")},
		Kill: func(t testing.TB, e env.Env, _ wire.Hello) {
			if err := syscall.Kill(e.(env.HostProcesses).Processes()[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		Leaks: func(t testing.TB, runID string) []string {
			names, err := d.Domains()
			if err != nil {
				t.Fatal(err)
			}
			return slices.DeleteFunc(names, func(n string) bool { return !strings.Contains(n, runID) })
		},
		Impossible: []env.Spec{
			spec(d, "cache", "writeback", "io", "native"),
			spec(d, "kernel", "/etc/hostname", "type", "qemu", "disk", "none"),
			spec(d, "type", "qemu", "disk", "none", "cpu", "no-such-model"),
			{Name: "vm", Driver: name, Settings: map[string]string{"uri": "qemu:///system?socket=/nonexistent"}},
			{Name: "vm", Driver: name, Arg: "no-such-domain", Settings: map[string]string{"uri": d.URI}},
		},
	})
}
