package qemu

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/mount"
	"tare/internal/sys/proc"
)

// Manager runs QEMU in the place of tare, as libvirt does. Package qemu prepares the machine: its kernel, its disks,
// and
// the servers of its mounts. An error that is an *env.OpenError brings its own operation, remedy and evidence.
type Manager interface {
	// Find checks whether machines of an architecture (GOARCH) can be started. It returns a version, the key of the
	// known accelerators in the cache, and facts.
	Find(ctx context.Context, arch string) (version string, facts map[string]string, err error)
	// Start starts a machine. ctx bounds the start only.
	Start(ctx context.Context, m *Machine) (*Running, error)
	// Settings replaces the settings that this package shows by those that the manager's users know.
	Settings(shown map[string]string) map[string]string
}

// ManagedOptions adapt the opening of managed micro-VMs.
type ManagedOptions struct {
	Memory string // the file that records which accelerators work; "" means the user's
	Packed bool   // boot the kernel's own image even if the CPU is emulated: firmware can start no other
	// Drivers are the kernel modules that the guest needs besides those for disks by virtio.
	Drivers []string
}

// Managed opens micro-VMs that a manager runs.
func Managed(m Manager, o ManagedOptions) env.Driver {
	return driver{manager: m, memory: o.Memory, packed: o.Packed, drivers: o.Drivers}
}

// Machine is a machine that is ready to be started.
type Machine struct {
	RunID  string
	Name   string // unique, of letters, digits, dots, dashes and underscores: it has the run's id
	Dir    string // private to the machine; it exists
	Arch   string // GOARCH
	Accel  string // "kvm" or "tcg"
	Board  string // QEMU's machine: "q35", "pc", "virt"
	CPU    string // QEMU's model, with its features after commas
	CPUs   int
	Memory int64 // bytes

	Kernel, Initrd, Append string

	NIC     string // "none", "virtio" or "e1000", on QEMU's user-mode network
	Shared  bool   // the memory must be shareable with other processes
	Disks   []Disk
	Folders []mount.Folder
}

// AliasPrefix begins the names by which QEMU knows a manager's devices: it is followed by a disk's ID.
const AliasPrefix = "ua-"

// Disk is a virtual disk of a Machine.
type Disk struct {
	ID, Serial, Path string
	Driver           string // QEMU's name of the format: "raw", "qcow2", "vpc"
	Device           bool   // Path is a block device
	Cache            string // QEMU's cache mode
	AIO              string // "threads", "native", "io_uring"
	Discard          string // "ignore" or "unmap"
	ReadOnly         bool
}

// Running is a machine that a manager has started.
type Running struct {
	Process Process
	Wire    net.Conn  // of the agent
	Console io.Reader // it ends with the machine
	Command []string  // that started it
	Facts   map[string]string
	// Ask asks QEMU's monitor.
	Ask func(command string, limit time.Duration, result any) error
	// Quit asks for the machine's end. Release ends all that is left besides the process.
	Quit, Release func()
}

// manage starts a machine by its manager.
func manage(ctx context.Context, m Manager, machine *Machine) (*vm, error) {
	r, err := m.Start(ctx, machine)
	if err != nil {
		return nil, &refusedError{err}
	}
	v := &vm{
		argv: r.Command, qemu: r.Process, console: proc.NewTail(consoleTail), drained: make(chan struct{}), ask: r.Ask,
		quit: r.Quit, release: r.Release,
	}
	v.wire = &port{Conn: r.Wire, r: bufio.NewReader(r.Wire), vm: v}
	v.reported = r.Facts
	v.listen(r.Console)
	return v, nil
}

// launch starts the machine, as the child of tare or of its manager.
func (b *boot) launch(ctx context.Context, accel string, f files) (*vm, error) {
	if b.manager != nil {
		return manage(ctx, b.manager, b.machine(accel, f))
	}
	return launch(ctx, &b.config, accel, f)
}

// machine is the machine for a manager.
func (b *boot) machine(accel string, f files) *Machine {
	c := &b.config
	m := &Machine{
		RunID: b.RunID, Name: f.name + "-" + b.hostname(), Dir: b.dir, Arch: c.arch, Accel: accel, Board: c.machine,
		CPU: c.cpuModel(accel), CPUs: c.cpus, Memory: c.memory, Kernel: f.kernel, Initrd: f.initrd,
		Append: c.kernelArguments(accel, f), NIC: c.card(f.network), Shared: f.shared, Folders: f.folders,
	}
	if c.disk > 0 {
		m.Disks = append(m.Disks, c.scratch(f.disk).managed())
	}
	if c.root.path != "" {
		m.Disks = append(m.Disks, Disk{ID: rootID, Serial: rootSerial, Path: c.root.path, Driver: c.root.format,
			Cache: "writeback", AIO: "threads", Discard: "ignore", ReadOnly: true})
	}
	for _, d := range f.drives {
		m.Disks = append(m.Disks, d.managed())
	}
	return m
}

func (d drive) managed() Disk {
	x := Disk{ID: d.id, Serial: d.serial, Path: d.path, Driver: d.shape.Driver, Device: d.shape.Protocol() != "file",
		AIO: d.aio, Discard: d.discard, ReadOnly: d.shape.ReadOnly}
	for name, mode := range cacheModes {
		if mode == d.cache {
			x.Cache = name
		}
	}
	return x
}

// find finds QEMU, or the manager that has it.
func (b *boot) find(ctx context.Context) (err error) {
	b.op, b.remedy = "find QEMU", b.config.remedy()
	if b.manager != nil {
		b.version, b.facts, err = b.manager.Find(ctx, b.config.arch)
		return b.explained(err)
	}
	return b.findProgram(ctx)
}

// explained takes what a manager's error says besides its message.
func (b *boot) explained(err error) error {
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok {
		return err
	}
	b.op, b.remedy, b.evidence = x.Op, x.Remedy, x.Evidence
	if _, refused := errors.AsType[*refusedError](err); refused {
		return &refusedError{x.Err}
	}
	return x.Err
}

// errManaged is the error of a mount that needs more of QEMU than a manager offers.
var errManaged = errors.New("this kind of server needs a private link between two machines, which only the driver " +
	"qemu makes")
