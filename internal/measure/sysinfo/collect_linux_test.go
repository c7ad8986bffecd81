package sysinfo

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

// plant makes a tree of files; a value that begins with "->" is a symbolic link.
func plant(t *testing.T, files map[string]string) tree {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(content, "->"); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree(root)
}

func gather(t *testing.T, root tree, vm, dir string) *collector {
	t.Helper()
	c := &collector{vm: vm}
	c.Extra = map[string]string{}
	c.linux(t.Context(), root)
	c.mount(root, dir)
	return c
}

func TestAVirtualMachineDescribesItself(t *testing.T) {
	c := gather(t, plant(t, map[string]string{
		"proc/cpuinfo":                x86,
		"proc/meminfo":                "MemTotal: 1048576 kB\nSwapTotal: 0 kB\n",
		"etc/os-release":              `PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"`,
		"sys/class/dmi/id/sys_vendor": "QEMU\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "performance\n",
		"sys/devices/system/cpu/vulnerabilities/meltdown":                 "Mitigation: PTI\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                      "always [madvise] never\n",
		"proc/self/mountinfo": "22 1 8:1 / / rw,relatime - ext4 " +
			"/dev/sda1 rw\n",
		"sys/devices/pci/block/sda/queue/scheduler":   "none [mq-deadline]\n",
		"sys/devices/pci/block/sda/queue/rotational":  "1\n",
		"sys/devices/pci/block/sda/queue/write_cache": "write back\n",
		"sys/devices/pci/block/sda/sda1/partition":    "1\n",
		"sys/dev/block/8:1":                           "->../../devices/pci/block/sda/sda1",
	}), "kvm", "/var/tmp/x")
	if c.vm != "kvm" || c.container != "" {
		t.Errorf("hypervisor %q, container %q: a firmware that only says QEMU must not hide KVM", c.vm, c.container)
	}
	if c.CPU != "Intel(R) Xeon(R) CPU @ 2.20GHz" || c.Cores != 2 || c.MemoryBytes != 1<<30 || c.Clock != "kvm-clock" ||
		c.Distro != "Debian GNU/Linux 12 (bookworm)" || c.WorkFS != "ext4 (rw,relatime)" {
		t.Errorf("%+v", c.Facts)
	}
	for name, want := range map[string]string{
		"cpu.governor": "performance", "cpu.mitigations.meltdown": "Mitigation: PTI", "memory.thp": "madvise",
		"memory.swap_bytes": "0",
		"work.source":       "/dev/sda1", "work.disk.name": "sda", "work.disk.scheduler": "mq-deadline",
		"work.disk.rotational": "1", "work.disk.write_cache": "write back",
	} {
		if got := c.Extra[name]; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestContainersAndLimits(t *testing.T) {
	c := gather(t, plant(t, map[string]string{
		".dockerenv":                              "",
		"proc/self/cgroup":                        "0::/a/b\n",
		"sys/fs/cgroup/a/b/cpu.max":               "max 100000\n",
		"sys/fs/cgroup/a/cpu.max":                 "50000 100000\n",
		"sys/fs/cgroup/a/b/memory.max":            "2097152\n",
		"sys/fs/cgroup/a/memory.max":              "1048576\n",
		"sys/fs/cgroup/a/b/cpuset.cpus.effective": "0-1\n",
	}), "", "/")
	if c.container != "docker" || c.Extra["cgroup.cpus"] != "0.5" || c.Extra["cgroup.memory_bytes"] != "1048576" ||
		c.Extra["cgroup.cpuset"] != "0-1" {
		t.Errorf("container %q, %v", c.container, c.Extra)
	}
	c = gather(t, plant(t, map[string]string{
		"proc/self/cgroup": "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n",
		"proc/1/cgroup":    "4:memory:/docker/x\n",
		"sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us":         "150000\n",
		"sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us":        "100000\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712\n",
		"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "4194304\n",
	}), "", "/")
	if c.container != "docker" || c.Extra["cgroup.cpus"] != "1.5" || c.Extra["cgroup.memory_bytes"] != "4194304" {
		t.Errorf("cgroup 1: container %q, %v", c.container, c.Extra)
	}
	for want, files := range map[string]map[string]string{
		"podman":         {"run/.containerenv": ""},
		"systemd-nspawn": {"run/systemd/container": "systemd-nspawn\n"},
		"lxc":            {"proc/1/environ": "HOME=/\x00container=lxc\x00"},
		"":               {"proc/1/environ": "HOME=/\x00"},
	} {
		if got := containerOf(plant(t, files)); got != want {
			t.Errorf("%v: got %q, want %q", files, got, want)
		}
	}
}

// What is collected of this machine is checked against other tools' word.
func TestCollectHere(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	f := Collect(t.Context(), dir)
	t.Logf("collected in %v: %+v", time.Since(began), f)
	say := func(argv ...string) string {
		out, err := proc.Run(t.Context(), nil, argv...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if want := say("uname", "-r"); f.Kernel != want {
		t.Errorf("kernel %q, uname says %q", f.Kernel, want)
	}
	if want := say("findmnt", "-n", "-o", "FSTYPE", "-T", dir); !strings.HasPrefix(f.WorkFS, want+" (") {
		t.Errorf("work directory on %q, findmnt says %q", f.WorkFS, want)
	}
	if f.OS != runtime.GOOS || f.CPU == "" || f.Threads < 1 || f.MemoryBytes < 1<<20 || f.Distro == "" ||
		f.WorkDir != dir {
		t.Errorf("incomplete: %+v", f)
	}
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil || f.MemoryBytes > int64(s.Totalram)*int64(s.Unit)+1<<20 ||
		f.MemoryBytes < int64(s.Totalram)*int64(s.Unit)-1<<20 {
		t.Errorf("memory %d, sysinfo says %d, %v", f.MemoryBytes, int64(s.Totalram)*int64(s.Unit), err)
	}
}

func TestThreadsFollowAffinity(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with its mask
	var one unix.CPUSet
	var was unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if was.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &was)
	if f := Collect(t.Context(), ""); f.Threads != 1 {
		t.Errorf("%d threads on one CPU", f.Threads)
	}
}

func TestWatcherComparesReadings(t *testing.T) {
	root := plant(t, map[string]string{
		"proc/loadavg":      "1.50 1 1 3/100 5\n",
		"proc/pressure/cpu": "some avg10=0 total=1000000\n",
		"proc/pressure/io":  "some avg10=0 total=500\n",
		"proc/stat":         "cpu 100 0 0 800 0 0 0 100\n",
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count":    "5\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count": "2\n",
	})
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(string(root), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := &Watcher{read: root.counter()}
	w.last = w.read()
	write("proc/stat", "cpu 150 0 0 825 0 0 0 125\n")
	write("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "8\n")
	write("proc/pressure/cpu", "some avg10=0 total=999999999\n")
	g := w.Look(context.Background(), 0)
	if g.Load1 != 1.5 || g.Running != 2 || g.Steal != 0.25 || g.Throttle != 3 || g.MemSome != -1 || g.IOSome != 0 ||
		g.CPUSome != 1 {
		t.Errorf("%+v", g)
	}
	if g = w.Look(context.Background(), time.Millisecond); g.Steal != 0 || g.Throttle != 0 || g.CPUSome != 0 {
		t.Errorf("nothing has changed, and yet %+v", g)
	}
}

// TestTicks: a tick that is stolen is a share of the time that is asked about, and not of a moment.
func TestTicks(t *testing.T) {
	now := counters{steal: 10, cpuTotal: 1000, throttle: 3}
	w := &Watcher{read: func() counters { return now }}
	from := w.Ticks()
	now = counters{steal: 12, cpuTotal: 1200, throttle: 5}
	w.Look(t.Context(), 0)
	if steal, throttled := w.Ticks().Since(from); steal != 0.01 || throttled != 2 {
		t.Errorf("2 of 200 ticks were stolen and it throttled twice: %g, %d", steal, throttled)
	}
	now = unknown()
	if steal, throttled := w.Ticks().Since(from); steal != 0 || throttled != 0 {
		t.Errorf("nothing is known: %g, %d", steal, throttled)
	}
	if steal, _ := from.Since(Ticks{Stolen: -1, Total: 5}); steal != 0 {
		t.Errorf("nothing was known: %g", steal)
	}
	if steal, throttled := (Ticks{Total: 5}).Since(from); steal != 0 || throttled != 0 {
		t.Errorf("the counters went back: %g, %d", steal, throttled)
	}
}

func TestWatcherHere(t *testing.T) {
	w := NewWatcher()
	began := time.Now()
	g := w.Look(t.Context(), 20*time.Millisecond)
	t.Logf("%+v in %v", g, time.Since(began))
	if g.Load1 < 0 || g.Running < 0 || g.Steal < 0 || g.Steal > 1 || time.Since(began) < 20*time.Millisecond {
		t.Errorf("%+v", g)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w.Look(ctx, time.Hour); time.Since(began) > 2*time.Minute {
		t.Error("a look outlived its context")
	}
}

func BenchmarkLook(b *testing.B) {
	w := NewWatcher()
	for b.Loop() {
		w.Look(b.Context(), 0)
	}
}
