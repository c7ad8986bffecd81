package virtualbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/medium"
	"tare/internal/lab/microvm"
	"tare/internal/measure/guestabi"
	"tare/internal/measure/line"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// python runs the launcher.
const python = "/usr/bin/python3"

// Open makes a machine and returns when its agent has called.
func (d driver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	if o.Arg != "" {
		return d.openExisting(ctx, o)
	}
	b := d.newBoot(o)
	return b.try(ctx, b.open)
}

func (d driver) newBoot(o env.Options) *boot {
	return &boot{Options: o, driver: d, extra: map[string]string{}}
}

// try opens the machine in one way. If that fails, it undoes all that was made.
func (b *boot) try(ctx context.Context, open func(context.Context) (*vm, error)) (env.Env, error) {
	v, err := open(ctx)
	if err == nil {
		return v, nil
	}
	if b.vm != nil {
		if b.evidence == nil {
			b.evidence = b.vm.Diagnose()
			if dead, ok := errors.AsType[*line.DeadError](err); ok {
				b.evidence = slices.Concat([]byte("[console] "), dead.Evidence(), []byte("\n"), b.evidence)
			}
		}
		err = errors.Join(err, b.vm.Close())
	} else {
		if b.session != nil {
			err = errors.Join(err, b.session.close())
		}
		if b.dir != "" {
			err = errors.Join(err, os.RemoveAll(b.dir))
		}
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	if x, ok := errors.AsType[*proc.ExitError](err); ok && b.evidence == nil {
		b.evidence = []byte(x.Stderr)
	}
	return nil, &env.OpenError{Env: b.Name, Op: b.op, Err: err, Remedy: b.remedy, Evidence: b.evidence}
}

// boot is a machine that is being opened.
type boot struct {
	env.Options
	driver
	config  config
	session *session
	dir     string // files made for this machine
	version string
	kernel  microvm.Kernel
	written medium.Contents
	mounts  []machineMount
	// servedSize is that of the disk that the caller serves, in bytes of the guest's.
	servedSize int64
	// allDisks is for method disks.
	allDisks []*disk
	vm       *vm
	extra    map[string]string
	retries  []record.Failure

	op, remedy string // for the error
	evidence   []byte
}

const spaceRemedy = "free some space, or set TMPDIR to a folder that has some"

func (b *boot) open(ctx context.Context) (*vm, error) {
	b.op, b.remedy = "read settings", "tare list environments shows the settings and their values"
	var err error
	if b.config, err = parse(&b.Spec); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.sizeServed(); err != nil {
		return nil, err
	}
	b.op, b.remedy = "find VirtualBox", installRemedy
	p, err := find(b.config.root)
	if err != nil {
		return nil, err
	}
	if err := b.canStart(p); err != nil {
		return nil, err
	}
	b.op, b.remedy = "make the machine's files", spaceRemedy
	if b.dir, err = os.MkdirTemp(b.Dir, "vbox-"); err != nil {
		return nil, err
	}
	if err := b.makeFolders(); err != nil {
		return nil, err
	}
	b.op, b.remedy = "start VirtualBox's service", "root= needs a root user, and util-linux (unshare, nsenter)"
	if b.session, err = p.open(ctx, b.RunID, b.places()...); err != nil {
		return nil, err
	}
	if b.version, err = b.session.version(ctx); err != nil {
		b.remedy = installRemedy
		return nil, err
	}
	b.extra["virtualbox.version"] = b.version
	b.op, b.remedy = "choose kernel", microvm.Remedy("amd64", b.flavour())
	if err := b.chooseKernel(); err != nil {
		return nil, err
	}
	b.op, b.remedy = "write the boot medium", spaceRemedy
	if err := b.writeMedium(ctx); err != nil {
		return nil, err
	}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	return b.vm, b.learn()
}

// canStart says what a machine needs that is not here.
func (b *boot) canStart(p product) error {
	switch {
	case b.config.fallback:
		b.extra["engine.hwvirt"] = "not used: " + noDriver + "; " + driverRemedy
	case b.config.engine != interpreter && !driverLoaded():
		b.op, b.remedy = "find the kernel driver", driverRemedy
		return errors.New(noDriver)
	}
	if b.config.engine == interpreter && !driverLoaded() && !exists(p.outside(python)) {
		b.op, b.remedy = "find Python", "install it: apt-get install python3"
		return fmt.Errorf("there is no %s, and without VirtualBox's kernel driver tare starts the machine with it",
			p.outside(python))
	}
	return nil
}

func (b *boot) flavour() string {
	if b.config.kernel == microvm.Generic {
		return microvm.Generic
	}
	return ""
}

// modules are the kernel modules that the machine and its mounts need.
func (b *boot) modules() []string {
	var names []string
	for _, d := range b.disks() {
		names = append(names, controllerOf(d.controller).modules...)
		names = append(names, "ext4")
	}
	// One state is enough for machines with and without folders, where their modules are given.
	if len(b.shares()) > 0 || b.config.modules != "" {
		names = append(names, "vboxguest", "vboxsf")
	}
	if b.config.nicMode == nat {
		names = append(names, cards()[b.config.nic]...)
	}
	return names
}

// chooseKernel takes the first kernel that has what the machine needs.
func (b *boot) chooseKernel() error {
	which := b.config.kernel
	if which == "auto" {
		which = ""
	}
	kernels, err := microvm.Find(b.kernels, "amd64", which)
	if err != nil {
		return err
	}
	var lacking error
	for _, k := range kernels {
		if b.config.modules != "" {
			if k, err = k.With(b.config.modules, filepath.Join(b.dir, "modules-"+k.Flavour)); err != nil {
				lacking = errors.Join(lacking, err)
				continue
			}
		}
		index, err := microvm.ReadIndex(k.Modules)
		if err == nil {
			_, err = index.Resolve(b.modules()...)
		}
		if err == nil {
			b.kernel = k
			return nil
		}
		lacking = errors.Join(lacking, fmt.Errorf("kernel %s (%s): %w", k.Release, k.Flavour, err))
	}
	b.remedy = microvm.Remedy("amd64", microvm.Generic) + "; it has more drivers"
	return lacking
}

func (b *boot) iso() string { return filepath.Join(b.dir, "medium.iso") }

// writeMedium writes the DVD that the machine boots from.
func (b *boot) writeMedium(ctx context.Context) (err error) {
	o := medium.Options{Format: "iso", Kernel: b.kernel, Cache: b.kernels, Agents: b.Agents, Modules: b.modules(),
		Interpreted: b.config.engine == interpreter}
	if d := b.scratch(); d != nil {
		o.Scratch = guestabi.ByLabel + d.label
	}
	if b.config.reach == nil {
		o.Args = append(o.Args, guestabi.NetworkArg)
	}
	b.written, err = medium.Write(ctx, b.iso(), o)
	maps.Copy(b.extra, b.written.Facts)
	return err
}

// run makes the disks and the machine, and starts it: from a saved state, or by a boot.
func (b *boot) run(ctx context.Context) error {
	b.op, b.remedy = "place disks", "use another controller= for some of them"
	if err := number(b.disks()); err != nil {
		return err
	}
	saved, err := b.findSaved()
	if err != nil {
		return err
	}
	if saved.there() {
		began := time.Now()
		err := b.resume(ctx, saved)
		if err == nil {
			b.extra["resume_ms"] = fmt.Sprint(time.Since(began).Milliseconds())
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		b.Log.Warn("saved state not resumed, booting", "env", b.Name, "error", err)
		b.retries = append(b.retries, record.Failure{Kind: "resume", Message: err.Error(),
			Evidence: proc.Printable(b.vm.Diagnose())})
		if err := errors.Join(b.discard(ctx), saved.remove()); err != nil {
			return err
		}
	}
	if err := b.boot(ctx); err != nil {
		return err
	}
	if saved.wanted() {
		if err := b.save(ctx, saved); err != nil {
			return err
		}
	}
	return nil
}

// assemble makes the disks and the machine.
func (b *boot) assemble(ctx context.Context) error {
	b.op, b.remedy = "make disk", "use a smaller disk=, "+spaceRemedy
	for _, d := range b.disks() {
		if d.path != "" {
			continue // it was made before
		}
		err := error(nil)
		if d.given != "" {
			err = d.found(b.session, d.given, b.dir)
		} else {
			err = d.make(ctx, b.session, b.dir)
		}
		if err != nil {
			return err
		}
	}
	b.op, b.remedy = "make the machine", "the evidence is VBoxManage's output"
	m := &machine{session: b.session, name: "tare-" + b.RunID + "-" + filepath.Base(b.dir), iso: b.iso(),
		disks:    b.disks(),
		machines: filepath.Join(b.dir, "machines")}
	b.vm = newVM(m, b.dir)
	b.vm.reach = b.config.reach
	var err error
	b.vm.facts.Command, err = m.register(ctx, &b.config, b.major(), b.shares())
	return err
}

// boot boots the machine and waits for its agent.
func (b *boot) boot(ctx context.Context) error {
	if err := b.assemble(ctx); err != nil {
		return err
	}
	began := time.Now()
	b.op, b.remedy = "boot", "the evidence has the guest's console and VirtualBox's log; boot= sets a longer deadline"
	if err := b.vm.start(ctx, b.config.engine); err != nil {
		return err
	}
	c, err := b.vm.connect(ctx, b.config.boot)
	if err != nil {
		return err
	}
	b.vm.wire.Keep(c)
	b.booted(began)
	return nil
}

// booted records how long the boot took, and how much of a processor, which counts where other programs run, too.
func (b *boot) booted(began time.Time) {
	b.extra["boot_ms"] = fmt.Sprint(time.Since(began).Milliseconds())
	pids := b.vm.Processes()
	if cpu, _, err := proc.Usage(pids[len(pids)-1]); err == nil {
		b.extra["boot_cpu_ms"] = fmt.Sprint(cpu.Milliseconds())
	}
}

// learn completes the facts of a machine that runs.
func (b *boot) learn() error {
	l := b.vm.readLog()
	l.tell(b.extra)
	if b.config.engine == interpreter && !driverLoaded() {
		b.extra["virtualbox.launcher"] = launcherFact
	}
	for _, d := range b.disks() {
		if d == b.scratch() || d.given != "" {
			b.extra["disk.image"], b.extra["disk.controller"] = d.data, d.controller
		}
	}
	for k, s := range b.extra {
		if s == "" {
			delete(b.extra, k)
		}
	}
	info, err := b.session.info(context.Background(), b.vm.name)
	if err != nil {
		return err
	}
	maps.Copy(b.extra, shown(info))
	interpreted := l.Interpreted || b.config.engine == interpreter
	b.vm.retries, b.vm.mounts = b.retries, b.mountedAll()
	b.vm.facts = record.Facts{
		OS: "linux", Arch: "amd64", Kernel: b.kernel.Release, Hypervisor: strings.TrimSpace("virtualbox " + l.Engine),
		Emulated: interpreted, Threads: b.config.cpus, MemoryBytes: b.config.memory, Settings: b.config.shown,
		Command: b.vm.facts.Command, Extra: b.extra,
	}
	return nil
}

// shown are the effective settings in what VBoxManage shows of a machine, as facts.
func shown(info map[string]string) map[string]string {
	facts := map[string]string{}
	for _, k := range []string{"memory", "cpus", "chipset", "firmware", "paravirtprovider", "effparavirtprovider",
		"hwvirtex", "nestedpaging", "largepages", "nic1", "nictype1", "vmprocpriority"} {
		if s, ok := info[k]; ok {
			facts["virtualbox.machine."+k] = s
		}
	}
	return facts
}

func (b *boot) major() int {
	major, _, _ := parseVersion(b.version)
	return major
}
