package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/sys/proc"
)

// patience bounds every wait. All machines here are emulated, and several run in parallel, so durations mean nothing.
const patience = 5 * time.Minute

func spec(settings ...string) env.Spec {
	s := env.Spec{Name: "vm", Driver: name, Settings: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		s.Settings[settings[i]] = settings[i+1]
	}
	return s
}

// lacking skips a test that needs something that this machine lacks, or fails it if TARE_REQUIRE is set.
func lacking(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// need requires QEMU and a kernel, which is fetched into the user's cache if it is missing.
func need(t testing.TB, arch, flavour string) {
	t.Helper()
	needBeside(t, arch, flavour)
	turn(t)
}

// busy is held by the test whose machines are at work, which is named by working.
var (
	busy    sync.Mutex
	working atomic.Value
)

// turn waits until no other test's machines are at work: they take all processors that there are, and tests beside them
// race against deadlines.
func turn(t testing.TB) {
	name, _, _ := strings.Cut(t.Name(), "/")
	if working.Load() == name {
		return // a test in a test
	}
	busy.Lock()
	working.Store(name)
	t.Cleanup(func() {
		working.Store("")
		busy.Unlock()
	})
}

// needBeside is need for a test that mostly waits for something that does not happen, and so does not mind a neighbour.
func needBeside(t testing.TB, arch, flavour string) {
	t.Helper()
	target, err := targetOf(arch)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{target.program, "mke2fs"} {
		if _, err := proc.LookPath(program); err != nil {
			lacking(t, "%s is not installed", program)
		}
	}
	if _, err := microvm.Find("", arch, flavour); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := microvm.Fetch(ctx, "", arch, flavour); err != nil {
		lacking(t, "%v", err)
	}
}

// repeats leaves out of -short, which is for the race detector, what runs the code of this process as another test
// does: the difference is in the guest, in QEMU's arguments or in what is left of a controller that was killed.
func repeats(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("in this process it is what another test does")
	}
}

var opened atomic.Int64 // openings, so that no run's id is a prefix of another's

// options are the options of an opening. They wait long enough for every boot, except in tests of that.
func options(t testing.TB, s env.Spec, more ...string) env.Options {
	if s.Settings = maps.Clone(s.Settings); s.Settings["boot"] == "" {
		s.Settings["boot"] = "3m"
	}
	return env.Options{
		Spec: s, RunID: fmt.Sprintf("q%d-%03d", os.Getpid(), opened.Add(1)), Dir: t.TempDir(),
		Agents: agenttest.Store(t, more...), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// open boots and does the handshake. A file left in the private folder after Close fails the test.
func open(t testing.TB, d driver, o env.Options) (*vm, *deploy.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := d.Open(ctx, o)
	if err != nil {
		if x, ok := errors.AsType[*env.OpenError](err); ok {
			t.Logf("evidence:\n%s", x.Evidence)
		}
		t.Fatal(err)
	}
	v := e.(*vm)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
			t.Errorf("left in the private folder: %v %v", left, err)
		}
	})
	s, err := deploy.Attach(ctx, v, o.RunID)
	if err != nil {
		t.Fatalf("%v\n%s", err, v.Diagnose())
	}
	t.Cleanup(func() { s.Close() })
	return v, s
}

// fails opens an environment that must not open.
func fails(t *testing.T, d driver, o env.Options) *env.OpenError {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := d.Open(ctx, o)
	if err == nil {
		e.Close()
		t.Fatal("it opened")
	}
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok {
		t.Fatalf("the error is a %T: %v", err, err)
	}
	t.Logf("%v", x)
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left in the private folder: %v %v", left, err)
	}
	return x
}

func nullTrial(t testing.TB, s *deploy.Conn) {
	t.Helper()
	kind, ok := all.Lookup("null")
	if !ok {
		t.Fatal("there is no null workload")
	}
	params, err := kind.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: "null", Params: params, Cell: "c", Seed: 1}, Work: 100_000})
	if err != nil {
		t.Fatalf("trial: %v", err)
	}
	if got.Result.ElapsedNS <= 0 || len(got.Result.Metrics) == 0 {
		t.Errorf("the trial gave %+v", got.Result)
	}
}

func TestArm64GuestRunsATrial(t *testing.T) {
	repeats(t)
	t.Parallel()
	need(t, "arm64", microvm.Cloud)
	v, s := open(t, driver{}, options(t, spec("arch", "arm64", "accel", "tcg", "cpus", "2", "memory", "512MiB", "disk",
		"64MiB", "boot", "3m"), "linux/arm64"))
	if h := s.Hello(); h.OS != "linux" || h.Arch != "arm64" || h.PID != 1 {
		t.Errorf("the agent is %+v", h)
	}
	if f := v.Facts(); !f.Emulated || f.Arch != "arm64" || f.Extra["accel"] != "tcg" ||
		f.Settings["machine"] != "virt" {
		t.Errorf("facts %+v", f)
	}
	nullTrial(t, s)
	// Its calls are machine code of that processor, and the file is compared with what was written.
	if err := work(t, s, "fs.matrix", "", map[string]string{"size": "1MiB", "bs": "64KiB",
		"compat": "iozone"}); err != nil {
		t.Errorf("iozone's sequence: %v", err)
	}
	t.Logf("boot to first word: %s ms", v.Facts().Extra["boot_ms"])
}

// The kernel is of another release of Debian than the host's, and its image is of another form.
func TestRiscvGuestRunsATrial(t *testing.T) {
	repeats(t)
	t.Parallel()
	need(t, "riscv64", microvm.Generic)
	v, s := open(t, driver{}, options(t, spec("arch", "riscv64", "accel", "tcg", "cpus", "2", "memory", "512MiB",
		"disk", "64MiB", "boot", "3m"), "linux/riscv64"))
	if h := s.Hello(); h.OS != "linux" || h.Arch != "riscv64" || h.PID != 1 {
		t.Errorf("the agent is %+v", h)
	}
	if f := v.Facts(); !f.Emulated || f.Arch != "riscv64" || f.Settings["machine"] != "virt" {
		t.Errorf("facts %+v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if f, err := s.Facts(ctx); err != nil || f.CPU == "" || f.Clock == "" || f.Hypervisor == "" ||
		!strings.Contains(f.WorkFS, "ext4") {
		t.Errorf("the guest's facts %+v, %v", f, err)
	}
	nullTrial(t, s)
	if err := work(t, s, "syscall", "", nil); err != nil { // it spawns machine code of that processor
		t.Errorf("system calls: %v", err)
	}
	if err := work(t, s, "fs.seqwrite", "", map[string]string{"size": "1MiB", "bs": "64KiB",
		"fsync": "end"}); err != nil {
		t.Errorf("a file: %v", err)
	}
	t.Logf("boot to first word: %s ms", v.Facts().Extra["boot_ms"])
}

func TestScratchDiskIsExt4WithTheCacheAskedFor(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	for _, c := range []struct{ cache, nic, want string }{
		{"none", "virtio", "direct=on,no-flush=off,guest-write-cache=on"},
		{"unsafe", "none", "direct=off,no-flush=on,guest-write-cache=on"},
		{"writethrough", "none", "direct=off,no-flush=off,guest-write-cache=off"},
	} {
		t.Run(c.cache, func(t *testing.T) {
			if c.nic == "none" {
				repeats(t)
			}
			o := options(t, spec("arch", "x86_64", "accel", "tcg", "cache", c.cache, "nic", c.nic, "disk", "64MiB",
				"memory", "256MiB", "iothread", onOff(c.cache == "none")))
			o.Peer = true
			v, s := open(t, driver{}, o)
			if got := v.Facts().Extra["disk.cache"]; got != c.want {
				t.Errorf("QEMU says %q, want %q", got, c.want)
			}
			own := false // a thread of the disk's
			times, err := proc.ThreadTimes(v.Pid())
			for thread := range times {
				own = own || thread.Name == "IO scratch-io"
			}
			if err == nil && own != (c.cache == "none") {
				t.Errorf("the disk has a thread of its own: %v; there are %v", own, times)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			f, err := s.Facts(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if f.WorkDir != "/scratch" || !strings.Contains(f.WorkFS, "ext4") {
				t.Errorf("the work directory is %s on %s", f.WorkDir, f.WorkFS)
			}
			if _, err := v.Loopback(); (err == nil) != (c.nic != "none") {
				t.Errorf("nic=%s: the way to the host's loopback: %v", c.nic, err)
			}
			if c.nic != "none" {
				envtest.Network(t, v, s, o.Agents)
			}
		})
	}
}

func TestGuestWithoutADiskWorksInMemory(t *testing.T) {
	repeats(t)
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	// The example in the command line's documentation, with the card for which only the generic kernel has a driver.
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "cpus", "2", "nic", "e1000", "disk", "none", "memory",
		"512MiB"))
	o.Peer = true
	v, s := open(t, driver{}, o)
	if got := v.Facts().Extra["guest.kernel.flavour"]; got == microvm.Cloud {
		t.Errorf("kernel %s has no driver for the card", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f, err := s.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(f.WorkFS, "tmpfs") || f.Threads != 2 {
		t.Errorf("facts from inside: %+v", f)
	}
	nullTrial(t, s)
	envtest.Network(t, v, s, o.Agents)
}

func TestKernelPanicEndsInAnErrorWithTheConsole(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	x := fails(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "append", "rdinit=/nothing", "disk",
		"none")))
	if !strings.Contains(string(x.Evidence), "Kernel panic") || !strings.Contains(x.Error(), "Kernel panic") ||
		x.Remedy == "" {
		t.Errorf("the panic is not told: %v\nevidence:\n%s", x, x.Evidence)
	}
	if !strings.Contains(x.Error(), "boot 2 of 2") {
		t.Errorf("the second boot is not told: %v", x)
	}
}

// wrapper replaces QEMU by a program that hangs and holds its connections open until there is a file "done"; after that
// it starts the real QEMU.
func wrapper(t *testing.T, program string) (dir string) {
	t.Helper()
	qemu, err := proc.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && exec %[1]s --version\n"+
		"if [ ! -e '%[2]s/done' ]; then : >'%[2]s/done'; echo stuck in the firmware; exec sleep 600; fi\n"+
		"exec %[1]s \"$@\"\n", qemu, dir)
	if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBootThatHangsIsTriedAgainAndRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	t.Parallel()
	needBeside(t, "amd64", microvm.Cloud)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "boot", "1m", "disk", "none"))
	v, s := open(t, driver{programs: wrapper(t, "qemu-system-x86_64")}, o)
	nullTrial(t, s)
	r := v.Retries()
	if len(r) != 1 || r[0].Kind != "boot" || !strings.Contains(r[0].Message, "did not answer within 1m0s") ||
		!strings.Contains(r[0].Evidence, "stuck in the firmware") {
		t.Errorf("retries %+v", r)
	}
}

func TestAutoProvesAnAcceleratorByBooting(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	d := driver{memory: filepath.Join(t.TempDir(), "accel.json")}
	plain := func(s env.Spec) env.Options {
		o := options(t, s)
		delete(o.Settings, "boot") // a failure with a setting says nothing about the accelerator
		return o
	}
	v, s := open(t, d, plain(spec("arch", "x86_64", "accel", "auto", "disk", "none")))
	nullTrial(t, s)
	f := v.Facts()
	there := candidates("amd64")
	t.Logf("candidates %v, used %s, retries %+v", there, f.Extra["accel"], v.Retries())
	if f.Emulated != (f.Extra["accel"] == "tcg") || f.Settings["accel"] != "auto" {
		t.Errorf("facts %+v", f)
	}
	if !f.Emulated {
		if !slices.Contains(there, f.Extra["accel"]) || len(v.Retries()) > 0 {
			t.Errorf("it used %s after %v", f.Extra["accel"], v.Retries())
		}
		return
	}
	if len(v.Retries()) != len(there) {
		t.Fatalf("%d accelerators seemed to be there, %d fallbacks are recorded", len(there), len(v.Retries()))
	}
	for i, r := range v.Retries() {
		if r.Kind != "accel-fallback" || !strings.Contains(r.Message, "accel="+there[i]) || r.Evidence == "" {
			t.Errorf("fallback %+v", r)
		}
	}
	s.Close()
	v.Close()
	// The second time the result is known: nothing is tried, and the facts say why.
	again, _ := open(t, d, plain(spec("arch", "x86_64", "disk", "none")))
	f = again.Facts()
	if len(again.Retries()) > 0 || !f.Emulated || f.Settings["accel"] != "tcg" {
		t.Errorf("the second opening: retries %v, facts %+v", again.Retries(), f)
	}
	for _, a := range there {
		if !strings.Contains(f.Extra["accel."+a], "not used") {
			t.Errorf("the facts do not say why %s is not used: %v", a, f.Extra)
		}
	}
}

func TestWhatIsMissingIsNamedWithItsRemedy(t *testing.T) {
	need(t, "amd64", microvm.Cloud)
	s := spec("arch", "x86_64", "accel", "tcg")
	if x := fails(t, driver{kernels: t.TempDir()},
		options(t, spec("arch", "arm64", "accel", "tcg"), "linux/arm64")); !hostIs("arm64") &&
		!strings.HasSuffix(x.Remedy, "tare guest fetch --arch arm64") {
		t.Errorf("no kernel: %v", x)
	}
	if x := fails(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "nic", "e1000", "kernel",
		microvm.Cloud))); !strings.Contains(x.Error(), "e1000") || !strings.Contains(x.Remedy, "--flavour generic") {
		t.Errorf("no driver: %v", x)
	}
	if x := fails(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "cpu", "no-such-model", "disk",
		"none"))); !strings.Contains(x.Error(), "QEMU failed to start") ||
		!strings.Contains(string(x.Evidence), "no-such-model") {
		t.Errorf("no such CPU: %v", x)
	}
	if x := fails(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "disk",
		"16TiB"))); !strings.Contains(x.Error(), "free") {
		t.Errorf("no room: %v", x)
	}
	// An accelerator that seems to exist is not blamed for it, and hides nothing.
	d := driver{kernels: t.TempDir(), memory: filepath.Join(t.TempDir(), "accel.json")}
	if x := fails(t, d, options(t, spec("arch", "x86_64", "accel", "auto", "kernel",
		microvm.Cloud))); !strings.Contains(x.Remedy, "tare guest fetch") {
		t.Errorf("no kernel, any accelerator: %v", x)
	}
	o := options(t, s)
	t.Setenv("PATH", t.TempDir())
	if x := fails(t, driver{}, o); !strings.Contains(x.Error(), "not installed") ||
		!strings.Contains(x.Remedy, "apt-get install qemu-system-x86") {
		t.Errorf("no QEMU: %v", x)
	}
}

func hostIs(arch string) bool { return defaultArch() == arch }

func TestThereIsOneAgentForEachBoot(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	v, s := open(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "none")))
	if _, err := v.Agent(t.Context()); err == nil {
		t.Error("a second agent was given out")
	}
	// When the agent ends, the machine powers off: nobody has to kill it.
	if err := s.Close(); err != nil {
		t.Errorf("close session: %v", err)
	}
	select {
	case <-v.qemu.Done():
		if err := v.qemu.Err(); err != nil {
			t.Errorf("QEMU ended with %v\n%s", err, v.Diagnose())
		}
	case <-time.After(patience):
		t.Errorf("the machine runs on without its agent\n%s", v.Diagnose())
	}
}

// BenchmarkBoot boots micro-VMs under TCG and reports the median time from the start to the handshake.
func BenchmarkBoot(b *testing.B) {
	for _, c := range []struct{ arch, machine, flavour string }{
		{"amd64", "q35", microvm.Cloud}, {"amd64", "microvm", microvm.Cloud}, {"amd64", "q35", microvm.Generic},
		{"arm64", "virt", microvm.Cloud},
	} {
		b.Run(c.arch+"/"+c.machine+"/"+c.flavour, func(b *testing.B) {
			need(b, c.arch, c.flavour)
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				v, s := open(b, driver{}, options(b,
					spec("arch", archName(c.arch), "accel", "tcg", "machine", c.machine, "kernel", c.flavour),
					"linux/"+c.arch))
				took = append(took, time.Since(began))
				s.Close()
				v.Close()
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds(), "s/boot(median)")
			b.ReportMetric(took[len(took)-1].Seconds(), "s/boot(max)")
		})
	}
}

// With earlyprintk the kernel spends so much time on the console that microvm's only timer cannot calibrate the TSC.
// Without the frequency on the command line, all of twelve boots hung there.
func TestMicrovmBootsWithoutATimerToCalibrateBy(t *testing.T) {
	repeats(t)
	need(t, "amd64", microvm.Cloud)
	if hostTSC() == 0 {
		t.Skip("the frequency of QEMU's counter is known on x86 hosts only")
	}
	_, s := open(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "machine", "microvm", "disk", "none",
		"boot", "3m", "append", "earlyprintk=ttyS0")))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first := sharpest(t, ctx, s)
	// On a busy machine a reading takes long and is less exact; then a longer time is measured, in which that matters
	// less.
	var pace, doubt float64
	for doubt = 1; doubt > 0.002 && ctx.Err() == nil; {
		time.Sleep(2 * time.Second)
		last := sharpest(t, ctx, s)
		pace = float64(last.AgentNS-first.AgentNS) / float64(last.ControllerNS-first.ControllerNS)
		doubt = float64(first.RTTNS+last.RTTNS) / 2 / float64(last.ControllerNS-first.ControllerNS)
		if last.RTTNS < first.RTTNS/2 {
			first = last
		}
	}
	// The guest's clock must run at the controller's rate; at a difference of 1 % a trial is rejected.
	t.Logf("the guest's clock goes at %.5f of the controller's, give or take %.5f", pace, doubt)
	if math.Abs(pace-1) > 0.005+doubt {
		t.Errorf("the guest's clock goes at %.5f of the controller's, give or take %.5f", pace, doubt)
	}
}

// sharpest returns the readings of both clocks with the smallest uncertainty.
func sharpest(t *testing.T, ctx context.Context, s *deploy.Conn) deploy.ClockPair {
	t.Helper()
	rtt, err := s.Ping(ctx, 20)
	if err != nil {
		t.Fatal(err)
	}
	return slices.MinFunc(rtt.Pairs, func(a, b deploy.ClockPair) int { return cmp.Compare(a.RTTNS, b.RTTNS) })
}
