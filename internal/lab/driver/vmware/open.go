package vmware

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/medium"
	"tare/internal/lab/microvm"
	"tare/internal/lab/vdisk"
	"tare/internal/measure/guestabi"
	"tare/internal/measure/line"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// boot is a machine that is being opened.
type boot struct {
	env.Options
	driver
	config  config
	vmrun   vmrun
	version string
	dir     string // the machine's files
	kernel  microvm.Kernel
	loaded  []string // kernel modules that the guest loads
	extra   map[string]string
	mounts  []machineMount
	vm      *vm

	op, remedy string // for the error
	evidence   []byte
}

const spaceRemedy = "free some space, or set TMPDIR to a folder that has some"

// Open makes a machine, or enters one that runs, and returns when its agent has called.
func (d driver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	if o.Arg != "" {
		return attach(ctx, o)
	}
	b := &boot{Options: o, driver: d, extra: map[string]string{}}
	err := b.open(ctx)
	if err == nil {
		return b.vm, nil
	}
	if r := remedy(err); r != "" {
		b.remedy = r
	}
	if b.vm != nil {
		b.evidence = append(b.evidence, b.vm.Diagnose()...)
		err = errors.Join(err, b.vm.Close())
	} else if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return nil, &env.OpenError{Env: o.Name, Op: b.op, Err: err, Remedy: b.remedy, Evidence: b.evidence}
}

func (b *boot) open(ctx context.Context) error {
	b.op, b.remedy = "read settings", "tare list environments shows the settings and their values"
	var err error
	if b.config, err = parse(&b.Spec); err != nil {
		return err
	}
	if b.Scratch != "" {
		return errors.New("VMware cannot open a disk that tare serves; test power cuts with the driver qemu")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.op, b.remedy = "find VMware", installRemedy
	b.vmrun.product = b.config.product
	if b.vmrun.path, err = findVmrun(b.config.vmrun); err != nil {
		return err
	}
	if b.version, err = b.vmrun.version(ctx); err != nil {
		return err
	}
	b.op, b.remedy = "make the machine's files", spaceRemedy
	if b.dir, err = os.MkdirTemp(b.Dir, "vmware-"); err != nil {
		return err
	}
	if !pathRE().MatchString(b.dir) {
		b.remedy = "set TMPDIR to a folder with a plain name"
		return fmt.Errorf("VMware cannot read the name of the folder %q", b.dir)
	}
	if err := b.makeMounts(); err != nil {
		return err
	}
	b.op, b.remedy = "choose kernel", microvm.Remedy("amd64", microvm.Generic)+"; it has more drivers"
	if err := b.chooseKernel(); err != nil {
		return err
	}
	b.op, b.remedy = "write the boot medium", spaceRemedy
	if err := b.writeMedium(ctx); err != nil {
		return err
	}
	b.op, b.remedy = "make disk", "use a smaller disk=, "+spaceRemedy
	if err := b.makeDisk(ctx); err != nil {
		return err
	}
	return b.start(ctx)
}

// modules are the kernel modules that the machine and its mounts need.
func (b *boot) modules() (names []string) {
	if b.config.disk > 0 {
		names = append(names, controllerOf(b.config.controller).modules...)
		names = append(names, "ext4")
	}
	for _, m := range b.mounts {
		if m.folder != "" {
			names = append(names, "fuse")
		}
	}
	switch b.config.nic {
	case none:
	case "e1000e":
		names = append(names, "e1000e")
	default:
		names = append(names, b.config.nic)
	}
	return names
}

// chooseKernel takes the first kernel that has what the machine needs.
func (b *boot) chooseKernel() error {
	kernels, err := microvm.Find(b.kernels, "amd64", b.config.kernel)
	if err != nil {
		return err
	}
	var lacking error
	for _, k := range kernels {
		index, err := microvm.ReadIndex(k.Modules)
		if err == nil {
			_, err = index.Resolve(b.modules()...)
		}
		if err == nil {
			b.kernel, b.loaded = k, b.modules()
			return nil
		}
		lacking = errors.Join(lacking, fmt.Errorf("kernel %s (%s): %w", k.Release, k.Flavour, err))
	}
	return lacking
}

// scratchLabel is the label of the scratch disk's file system, by which the guest finds it.
const scratchLabel = "tare-scratch"

func (b *boot) file(name string) string { return filepath.Join(b.dir, name) }

// mediumFile is the medium that the machine boots from.
func (b *boot) mediumFile() string { return "medium." + b.config.medium }

func (b *boot) writeMedium(ctx context.Context) error {
	o := medium.Options{Format: b.config.medium, Kernel: b.kernel, Agents: b.Agents, Hostname: "tare",
		Modules: b.loaded}
	if b.config.disk > 0 {
		o.Scratch = guestabi.ByLabel + scratchLabel
	}
	if b.config.append != "" {
		o.Args = []string{b.config.append}
	}
	files, err := b.programs()
	if err != nil {
		return err
	}
	o.Files = files
	written, err := medium.Write(ctx, b.file(b.mediumFile()), o)
	maps.Copy(b.extra, written.Facts)
	return err
}

// diskFile is the machine's disk.
const diskFile = "scratch.vmdk"

// makeDisk makes the disk with an empty file system. Nothing is left to the guest to initialise: it would disturb
// trials.
func (b *boot) makeDisk(ctx context.Context) error {
	if b.config.disk == 0 {
		return nil
	}
	if free, err := vdisk.FreeSpace(b.dir); err == nil && free >= 0 && free < b.config.disk+64<<20 {
		return fmt.Errorf("%s has too little space for a disk of %s", b.dir, b.config.shown["disk"])
	}
	raw := b.file("scratch.img")
	f, err := os.OpenFile(raw, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(b.config.disk), f.Close()); err != nil {
		return err
	}
	ctx, cancel := proc.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	subformat := map[string]string{"dynamic": "monolithicSparse", "static": "monolithicFlat"}[b.config.diskType]
	for _, argv := range [][]string{
		{"mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-L", scratchLabel, "-E",
			"lazy_itable_init=0,lazy_journal_init=0,nodiscard", raw},
		// The adapter type is that of all SCSI disks; VMware's later controllers take any.
		{"qemu-img", "convert", "-f", "raw", "-O", "vmdk", "-o", "adapter_type=lsilogic,subformat=" + subformat, raw,
			b.file(diskFile)},
	} {
		program, err := proc.LookPath(argv[0])
		if err != nil {
			b.remedy = "apt-get install e2fsprogs qemu-utils, or disk=none to work in the guest's memory"
			return fmt.Errorf("%s is not installed", argv[0])
		}
		if _, err := proc.Run(ctx, nil, append([]string{program}, argv[1:]...)...); err != nil {
			return err
		}
	}
	b.extra["disk.image"] = b.file(diskFile)
	if b.config.diskType == "static" {
		b.extra["disk.image"] = b.file("scratch-flat.vmdk")
	}
	return os.Remove(raw)
}

// start starts the machine and waits for its agent.
func (b *boot) start(ctx context.Context) error {
	b.op, b.remedy = "make the machine", spaceRemedy
	pipe, err := newPipe(b.RunID)
	if err != nil {
		return err
	}
	f := files{name: "tare-" + b.RunID + "-" + b.Name, medium: b.mediumFile(), pipe: pipe.path}
	if b.config.disk > 0 {
		f.disk = diskFile
	}
	for _, m := range b.mounts {
		if m.folder != "" {
			f.folders = append(f.folders, sharedFolder{m.share, m.folder})
		}
	}
	vmx := b.file("tare.vmx")
	v := &vm{vmrun: b.vmrun, vmx: vmx, dir: b.dir, pipe: pipe, mounts: b.mounts}
	v.wire.Hypervisor = v.Diagnose
	v.wire.Dial = func(ctx context.Context) (*line.Conn, error) { return v.connect(ctx, time.Minute) }
	b.vm = v
	if err := os.WriteFile(vmx, []byte(b.config.vmxText(f)), 0o600); err != nil {
		return err
	}
	began := time.Now()
	b.op, b.remedy = "start the machine", "the evidence has VMware's log"
	if err := b.vm.start(ctx); err != nil {
		if l := locked(vmx); len(l) > 0 {
			err = fmt.Errorf("%w; its files are locked: %v", err, l)
		}
		return err
	}
	b.op, b.remedy = "boot", "the evidence has the guest's console and VMware's log; boot= sets a longer deadline"
	c, err := v.connect(ctx, b.config.boot)
	if err != nil {
		return err
	}
	v.wire.Keep(c)
	b.extra["boot_ms"] = fmt.Sprint(time.Since(began).Milliseconds())
	b.extra["vmrun.version"] = b.version
	maps.Copy(b.extra, parseLog(b.vm.log()))
	b.vm.facts = record.Facts{
		OS: "linux", Arch: "amd64", Kernel: b.kernel.Release, Hypervisor: "vmware " + b.config.product,
		Threads: b.config.cpus, MemoryBytes: b.config.memory, Settings: b.config.shown,
		Command: b.vmrun.argv(b.vm.startWords()...), Extra: b.extra,
	}
	return nil
}

// startWords start the machine without a window.
func (v *vm) startWords() []string { return []string{"start", v.vmx, "nogui"} }

// windows tells whether pipes have the names of Windows.
func windows() bool { return runtime.GOOS == "windows" }
