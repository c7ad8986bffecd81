package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/lab/vdisk"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// attempts is how often a boot is tried with an accelerator that is known to work or was requested.
const attempts = 2

// Open boots a micro-VM and returns after the first output of its agent.
func (d driver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	v, err := (&boot{Options: o, driver: d, broken: map[string]*env.OpenError{}}).run(ctx)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// run opens it; after a failure nothing is left.
func (b *boot) run(ctx context.Context) (*vm, error) {
	v, err := b.open(ctx)
	if err != nil {
		b.network.close()
		err = errors.Join(err, b.shares.remove(), b.closeScratch(), b.group.Close())
		if b.dir != "" {
			os.RemoveAll(b.dir)
		}
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, &env.OpenError{Env: b.Name, Op: b.op, Err: err, Remedy: b.remedy, Evidence: b.evidence}
	}
	return v, nil
}

// boot is a micro-VM that is being opened.
type boot struct {
	env.Options
	driver
	config config
	guestKernel
	shares  *shares                   // nil before the first boot
	ready   bool                      // everything that a boot needs is prepared
	broken  map[string]*env.OpenError // mounts that QEMU rejected
	version string
	program string
	dir     string // files made for this machine
	facts   map[string]string
	image   *vdisk.Image // the scratch disk; nil if there is none or the caller serves it
	// imageFacts are the facts of image, by names without a prefix.
	imageFacts map[string]string
	retries    []record.Failure
	second     *serverSettings // nil unless the machine serves another one
	network    *network
	group      *limited.Group

	op, remedy string // for the error
	evidence   []byte
}

func (b *boot) open(ctx context.Context) (*vm, error) {
	b.op, b.remedy = "read settings", "tare list environments shows the settings and their values"
	var err error
	if b.config, err = parse(&b.Spec); err != nil {
		return nil, err
	}
	b.config.drivers = b.drivers
	if b.second != nil {
		b.config.drivers = b.second.modules
	}
	if b.Scratch != "" {
		if b.config.image.Name() != "raw" || b.config.image.Device != "" {
			return nil, fmt.Errorf("this scratch disk is served by tare and has no image format; leave out format=%s",
				b.config.image.Format)
		}
		b.config.served, b.config.disk = b.Scratch, max(b.config.disk, limits.LeastDisk)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.find(ctx); err != nil {
		return nil, err
	}
	if err := b.findRoot(ctx); err != nil {
		return nil, err
	}
	if err := b.connect(); err != nil {
		return nil, err
	}
	b.op, b.remedy = "write machine files", "free some space, or set TMPDIR to a folder that has some"
	if b.dir, err = os.MkdirTemp(b.Dir, "vm-"); err != nil {
		return nil, err
	}
	if err := b.limit(); err != nil {
		return nil, err
	}
	return b.accelerate(ctx)
}

// limit makes the control group of QEMU's process. A manager has limits of its own.
func (b *boot) limit() (err error) {
	if b.manager != nil {
		return nil
	}
	if b.group, err = limited.Open(&b.Options, groupSettings(), b.dir); err != nil {
		b.op, b.remedy = "set limits", limited.Remedy(err)
	}
	return err
}

// findProgram finds QEMU's program.
func (b *boot) findProgram(ctx context.Context) (err error) {
	if b.program, err = proc.LookPath(filepath.Join(b.programs, b.config.program)); err != nil {
		return fmt.Errorf("%s is not installed", b.config.program)
	}
	b.version, err = qemuVersion(ctx, b.program)
	b.facts = map[string]string{"qemu.version": b.version}
	return err
}

func (b *boot) initrd() string { return filepath.Join(b.dir, "initrd") }

// disk is the file or address that QEMU opens as the scratch disk.
func (b *boot) disk() string {
	if b.image != nil {
		return b.image.Path
	}
	return b.config.served
}

// makeScratch makes the scratch disk again: a failed boot may have written to it.
func (b *boot) makeScratch(ctx context.Context) error {
	if err := b.closeScratch(); err != nil {
		return err
	}
	var err error
	b.image, b.imageFacts, err = makeDisk(ctx, vdisk.Request{
		Shape: b.config.image, Dir: filepath.Join(b.dir, "scratch"), Name: "scratch", Size: b.config.disk,
		Direct: b.config.cache.direct,
	}, fileSystems()[0])
	return err
}

func (b *boot) closeScratch() error {
	if b.image == nil {
		return nil
	}
	return b.image.Close()
}

// accelerate boots with the requested accelerator, or with the first that really boots.
func (b *boot) accelerate(ctx context.Context) (*vm, error) {
	if b.config.accel != "auto" {
		return b.start(ctx, b.config.accel, attempts)
	}
	memory := openMemory(b.memory)
	failed := map[string]string{}
	for _, accel := range candidates(b.config.arch) {
		key := memory.key(accel, b.config.machine, b.version)
		works, reason := memory.recall(key)
		if works {
			return b.start(ctx, accel, attempts)
		}
		if reason != "" {
			b.facts["accel."+accel] = "not used: " + reason
			continue
		}
		v, err := b.start(ctx, accel, 1)
		if err == nil {
			memory.keep(key, "")
			return v, nil
		}
		if _, ok := errors.AsType[*unpreparedError](err); ok || ctx.Err() != nil {
			return nil, err // no accelerator was tried
		}
		b.Log.Info("accelerator does not boot a guest, the CPU is emulated", "env", b.Name, "accel", accel, "reason",
			err)
		reason = err.Error()
		failed[key] = reason
		b.facts["accel."+accel] = "not used: " + reason
		b.retries = append(b.retries, record.Failure{
			Kind: "accel-fallback",
			Message: fmt.Sprintf("accel=%s did not boot a guest (%v); the CPU is emulated instead. To choose, set "+
				"accel=%s or accel=tcg", accel, err, accel),
			Evidence: proc.Printable(b.evidence),
		})
	}
	v, err := b.start(ctx, "tcg", attempts)
	if err == nil && b.config.cpu == "" && b.config.append == "" && b.config.boot == 0 {
		// Emulation works, so the accelerator is broken and not a setting.
		for key, reason := range failed {
			memory.keep(key, reason)
		}
	}
	return v, err
}

// candidates are the accelerators, other than TCG, that this machine may have for a guest's architecture.
func candidates(arch string) []string {
	if arch != runtime.GOARCH {
		return nil
	}
	switch runtime.GOOS {
	case "linux":
		f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
		if err != nil {
			return nil
		}
		f.Close()
		return []string{"kvm"}
	case "darwin":
		return []string{"hvf"}
	case "windows":
		return []string{"whpx"}
	}
	return nil
}

// start boots at most times times. A failed boot that is retried is recorded with its console.
func (b *boot) start(ctx context.Context, accel string, times int) (*vm, error) {
	for n := 1; ; n++ {
		v, err := b.once(ctx, accel, times == 1)
		if err == nil {
			v.retries = b.retries
			return v, nil
		}
		_, refused := errors.AsType[*refusedError](err)
		if _, unprepared := errors.AsType[*unpreparedError](err); refused || unprepared || ctx.Err() != nil {
			return nil, err
		}
		// A disk that the caller serves does not change. If it cannot be mounted, a retry does not help.
		if b.config.served != "" && bytes.Contains(b.evidence, []byte("mount scratch disk")) {
			return nil, err
		}
		if n >= times {
			if n > 1 {
				err = fmt.Errorf("%w (boot %d of %d; the first: %s)", err, n, times,
					b.retries[len(b.retries)-1].Message)
			}
			return nil, err
		}
		b.packed = true
		b.Log.Warn("boot failed, trying again", "env", b.Name, "accel", accel, "error", err)
		b.retries = append(b.retries, record.Failure{
			Kind: "boot", Message: fmt.Sprintf("boot %d with accel=%s: %v", n, accel, err),
			Evidence: proc.Printable(b.evidence),
		})
	}
}

// deadline is how long a boot may take. It is shorter for an accelerator that is being tried: a working one needs a
// second or two. A boot on a part of a processor takes longer.
func (b *boot) deadline(accel string, trial bool) time.Duration {
	d := b.config.boot
	if d == 0 {
		d = bootVirtual
		if accel == "tcg" {
			d = bootTCG
		}
		d = limited.Patience(b.Spec, d+time.Duration(len(b.Mounts))*bootMount)
	}
	if trial {
		d = min(d, limited.Patience(b.Spec, 12*time.Second))
	}
	return d
}

// once boots once. On failure the evidence is set and nothing runs.
func (b *boot) once(ctx context.Context, accel string, trial bool) (*vm, error) {
	if err := b.config.checkThread(accel); err != nil {
		return nil, &unpreparedError{err}
	}
	if err := b.prepare(ctx); err != nil {
		return nil, &unpreparedError{err}
	}
	if b.config.disk > 0 && b.config.served == "" {
		b.op, b.remedy = "make scratch disk", "use a smaller disk=, or disk=none to work in the guest's memory"
		if err := b.makeScratch(ctx); err != nil {
			return nil, &unpreparedError{err}
		}
	}
	b.op = "boot with accel=" + accel
	b.remedy = "the evidence is the console; accel=tcg works on every machine, boot= sets a longer deadline, " +
		"append=\"loglevel=7\" makes the kernel log more"
	limit := b.deadline(accel, trial)
	began := time.Now()
	v, err := b.launch(ctx, accel, files{
		program: b.program, kernel: b.entry(accel), initrd: b.initrd(), disk: b.disk(),
		// The run's id in the command line marks the processes of this run.
		name: "tare-" + b.RunID, hostname: b.hostname(), extras: b.extras(),
	})
	if err == nil {
		if err = v.awaitAgent(ctx, limit); err == nil {
			err = b.learn(v, accel, time.Since(began))
		}
	}
	if v != nil {
		if err == nil {
			return v, nil
		}
		v.Close()
		b.evidence = v.Diagnose()
	} else {
		err = b.explained(err)
	}
	if _, refused := errors.AsType[*refusedError](err); refused && ctx.Err() == nil {
		if s := b.shares.blamed(string(b.evidence), b.config.bus()); s != nil {
			s.fail("boot", err, "the evidence has the output of QEMU and of the server", b.evidence)
			b.broken[s.spec.Name] = s.err
			return b.once(ctx, accel, trial) // with one mount fewer each time
		}
	}
	return nil, err
}

// entry returns the file that QEMU loads as the kernel. An emulated x86 processor needs seconds to unpack a kernel, and
// ten or more for one compressed with xz, so the host unpacks it. The kernel's addresses are then not randomised
// (KASLR); for figures of an emulated processor that does not matter. A virtual processor boots the image unchanged.
func (b *boot) entry(accel string) string {
	b.facts["kernel.entry"] = ""
	if accel != "tcg" || b.config.arch != "amd64" || b.packed {
		return b.kernel.Image
	}
	path, err := microvm.Unpacked(b.kernels, b.kernel.Image)
	if err != nil {
		b.Log.Info("the guest unpacks its kernel itself", "env", b.Name, "reason", err)
		return b.kernel.Image
	}
	b.facts["kernel.entry"] = "PVH, unpacked by the host, no KASLR"
	return path
}

// hostname makes a host name from the environment's name.
func (b *boot) hostname() string {
	h := strings.Trim(strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, b.Name), "-")
	if h == "" {
		return "tare"
	}
	return h
}

// learn completes the facts of a machine that booted, and reads the disk's real cache mode back from QEMU.
func (b *boot) learn(v *vm, accel string, took time.Duration) error {
	extra := map[string]string{}
	for k, s := range b.facts {
		if s != "" {
			extra[k] = s
		}
	}
	maps.Copy(extra, v.reported)
	extra["accel"] = accel
	extra["boot_ms"] = fmt.Sprint(took.Milliseconds())
	if b.config.shown["boot"] == "" {
		b.config.shown["boot"] = b.deadline(accel, false).String()
	}
	if _, given := b.Settings["accel"]; !given {
		b.config.shown["accel"] = accel
	}
	if _, given := b.Settings["cpu"]; !given {
		b.config.shown["cpu"] = b.config.cpuModel(accel)
	}
	if b.config.disk > 0 {
		modes, err := v.readCaches()
		if err == nil {
			err = checkCache(modes, scratchID, b.config.cache, b.config.shown["cache"])
		}
		if err != nil {
			return err
		}
		extra["disk.cache"] = modes[scratchID].String()
		for k, s := range b.imageFacts {
			extra["disk."+k] = s
		}
	}
	if err := b.learnMounts(v, extra); err != nil {
		return err
	}
	b.learnNetwork(extra)
	maps.Copy(extra, b.group.Facts())
	v.dir, v.image, v.shares, v.reach, v.network = b.dir, b.image, b.shares, reach(b.Spec), b.network
	v.group = b.group
	go func() {
		<-v.qemu.Done() // servers of a dead machine serve nobody
		v.shares.end()
	}()
	v.facts = record.Facts{
		OS: "linux", Arch: b.config.arch, Kernel: b.kernel.Release, Hypervisor: "qemu " + accel,
		Emulated: accel == "tcg",
		Threads:  b.config.cpus, MemoryBytes: b.config.memory, Settings: b.config.shown, Command: v.argv, Extra: extra,
	}
	if b.manager != nil {
		v.facts.Settings = b.manager.Settings(b.config.shown)
		if b.disk() != "" {
			extra["disk.image"] = b.disk() // a manager's command line does not say it
		}
	}
	return nil
}
