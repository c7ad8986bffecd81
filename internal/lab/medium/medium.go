// Package medium writes a medium that boots tare's agent in any virtual machine: a distribution's kernel, and an
// initramfs with the agent as the first process, which waits for a controller on a serial port.
//
// It is opinionated about asking nothing of the hypervisor: no kernel arguments, no guest additions, no network. One
// image boots under BIOS and UEFI, as a CD and as a disk. What is on it comes from packages of the distribution: the
// loader for BIOS is ISOLINUX, which reads its two files and does nothing else; UEFI runs the kernel itself, with its
// arguments and its initramfs in the same file.
package medium

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/measure/guestabi"
	"tare/internal/sys/proc"
)

// Options are the settings of a medium.
type Options struct {
	// Format is one of Formats; empty means that of the path's ending.
	Format string
	// Kernel is the guest's kernel, for amd64. Its zero value means the first that microvm.Find knows below Cache and
	// that has Modules.
	Kernel microvm.Kernel
	Cache  string // of kernels; empty means the user's
	// Agents gives the agent.
	Agents env.Agents
	// Port is the guest's serial port for the wire; empty means the first: ttyS0. Baud is its speed; 0 means 115200.
	// With Common, a virtio-serial port that is called guestabi.Port goes before it.
	Port string
	Baud int
	// Hostname is the guest's; empty means "tare".
	Hostname string
	// Scratch is the serial number, or the device (/dev/NAME), of a disk with an ext4 for files of workloads; empty
	// means that they are in the guest's memory.
	Scratch string
	// Modules are kernel modules without which the guest does not start.
	Modules []string
	// Common adds what the kernel has of the modules for storage and the wire in common virtual machines.
	Common bool
	Files  []microvm.File // more files; see microvm.Programs
	// Interpreted adds kernel arguments that shorten the boot of a guest whose processor is interpreted. Some change
	// figures of a real one, and its clock.
	Interpreted bool
	Args        []string // more kernel arguments; they come last
}

// Contents describes a medium that was written.
type Contents struct {
	Kernel microvm.Kernel
	Args   string            // the kernel's command line
	Facts  map[string]string // for record.Facts.Extra
}

// Formats are the formats of a medium. iso and raw are the same.
func Formats() []string { return []string{"iso", "raw", "qcow2", "vdi", "vmdk", "vhdx"} }

// Common are the modules of the storage that common hypervisors have: QEMU, VirtualBox, VMware, Hyper-V, Xen; and of
// virtio-serial ports.
func Common() []string {
	return []string{"virtio_pci", "virtio_console", "virtio_blk", "virtio_scsi", "ata_piix", "ahci", "nvme", "mptspi",
		"mptsas", "vmw_pvscsi", "hv_storvsc", "xen_blkfront", "sd_mod", "ext4"}
}

// interpreted are the arguments for Options.Interpreted. They leave out what takes a processor that runs ten million
// instructions a second most of its boot: checks of its own ciphers, tables for tracing and BPF, changes of its own
// code. Of 630 million instructions of the cloud kernel's boot the search for weak functions in ftrace's tables took 90
// million, the changes of its own code 80 million, and the reading of BTF 60 million (by QEMU's -icount).
const interpreted = "mitigations=off nokaslr tsc=reliable no_timer_check ipv6.disable=1 noreplace-smp audit=0 " +
	"initcall_blacklist=crypto_kdf108_init,trace_eval_init,trace_eval_sync,init_kprobe_trace," +
	"load_system_certificate_list,slab_sysfs_init,cubictcp_register,tracer_init_tracefs,event_trace_init," +
	"init_blk_tracer,bpf_tcp_ca_kfunc_init,bpf_prog_test_run_init,kfunc_init,bpf_rstat_kfunc_init," +
	"bpf_key_sig_kfuncs_init,btf_module_init,ftrace_check_for_weak_functions"

// Write makes a medium at path, where nothing may be yet.
func Write(ctx context.Context, path string, o Options) (Contents, error) {
	w, err := write(ctx, path, o)
	if err != nil {
		return Contents{}, fmt.Errorf("write boot medium: %w", err)
	}
	return w, nil
}

func write(ctx context.Context, path string, o Options) (w Contents, err error) {
	format, err := formatOf(path, o.Format)
	if err != nil {
		return w, err
	}
	if _, err := os.Lstat(path); err == nil {
		return w, fmt.Errorf("%s is there already", path)
	}
	tools, err := findTools(format)
	if err != nil {
		return w, err
	}
	c := microvm.Contents{Files: o.Files, Unsigned: o.Interpreted}
	if c.Kernel, c.Modules, c.Extra, err = o.kernel(); err != nil {
		return w, err
	}
	if c.Agent, err = o.Agents.Path("linux", "amd64"); err != nil {
		return w, err
	}
	if err := microvm.CheckAgent(c.Agent); err != nil {
		return w, err
	}
	w = Contents{Kernel: c.Kernel, Args: o.arguments()}
	if len(w.Args) > 2000 {
		return w, fmt.Errorf("the kernel's command line has %d characters; it may have 2000", len(w.Args))
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".tare-medium-")
	if err != nil {
		return w, err
	}
	defer os.RemoveAll(dir)
	initrd := filepath.Join(dir, "initrd")
	done, err := microvm.Initramfs(initrd, c)
	if err != nil {
		return w, err
	}
	image := filepath.Join(dir, "image")
	p := bootFiles{c.Kernel.Image, c.Kernel.Image, initrd, w.Args}
	how := ""
	if o.Interpreted {
		if bare, err := microvm.Bare(o.Cache, p.kernel); err == nil { // else it boots more slowly
			p.bios, how = bare, "under BIOS unpacked by the host, no KASLR"
		}
	}
	if err := tools.build(ctx, dir, p, image); err != nil {
		return w, err
	}
	if format != "iso" && format != "raw" {
		converted := filepath.Join(dir, "converted")
		if _, err := proc.Run(ctx, nil, tools.convert, "convert", "-f", "raw", "-O", format, image,
			converted); err != nil {
			return w, err
		}
		image = converted
	}
	if err := os.Chmod(image, 0o644); err != nil { // a hypervisor's own user may have to read it
		return w, err
	}
	w.Facts = map[string]string{
		"guest.kernel.package": c.Kernel.Package, "guest.kernel.flavour": c.Kernel.Flavour,
		"guest.kernel.arguments": w.Args, "guest.initramfs.sha256": done.SHA256,
		"guest.initramfs.bytes": fmt.Sprint(done.Bytes), "medium.format": format,
	}
	if how != "" {
		w.Facts["guest.kernel.entry"] = how
	}
	return w, os.Rename(image, path)
}

func formatOf(path, format string) (string, error) {
	if format == "" {
		format = strings.TrimPrefix(filepath.Ext(path), ".")
		if format == "img" {
			format = "raw"
		}
	}
	if !slices.Contains(Formats(), format) {
		return "", fmt.Errorf("a medium has one of the formats %s, not %q", strings.Join(Formats(), ", "), format)
	}
	return format, nil
}

// kernel chooses the kernel and its modules: those without which the guest does not start, and the others.
func (o *Options) kernel() (k microvm.Kernel, modules, extra []string, err error) {
	kernels := []microvm.Kernel{o.Kernel}
	if o.Kernel.Image == "" {
		if kernels, err = microvm.Find(o.Cache, "amd64", ""); err != nil {
			return k, nil, nil, fmt.Errorf("%w; %s", err, microvm.Remedy("amd64", ""))
		}
	}
	var lacking error
	for _, k = range kernels {
		if modules, extra, err = o.modules(k); err == nil {
			return k, modules, extra, nil
		}
		lacking = errors.Join(lacking, fmt.Errorf("kernel %s (%s): %w", k.Release, k.Flavour, err))
	}
	if _, missing := errors.AsType[*microvm.MissingError](lacking); missing {
		lacking = fmt.Errorf("%w; %s; it has more drivers", lacking, microvm.Remedy("amd64", microvm.Generic))
	}
	return k, nil, nil, lacking
}

func (o *Options) modules(k microvm.Kernel) (modules, extra []string, err error) {
	if k.Arch != "amd64" {
		return nil, nil, fmt.Errorf("it is for %s, and media are for amd64", k.Arch)
	}
	if k.Modules == "" {
		return nil, nil, nil // only the boot can tell whether the drivers are built in
	}
	index, err := microvm.ReadIndex(k.Modules)
	if err != nil {
		return nil, nil, err
	}
	wanted := slices.Clone(o.Modules)
	if o.Scratch != "" {
		wanted = append(wanted, "ext4")
	}
	if modules, err = index.Resolve(wanted...); err != nil {
		return nil, nil, err
	}
	more := index.Companions(wanted...) // such as the checksums of ext4, of which any will do
	if o.Common {
		more = slices.Concat(more, index.Companions(Common()...), Common())
	}
	for _, name := range more {
		files, err := index.Resolve(name)
		if err != nil {
			continue // this kernel does not have it
		}
		for _, f := range files {
			if !slices.Contains(modules, f) && !slices.Contains(extra, f) {
				extra = append(extra, f)
			}
		}
	}
	return modules, extra, nil
}

// arguments is the kernel's command line. The kernel prints to the screen and to the wire, where it is noise and
// evidence; the last console is that of the agent's own messages.
func (o *Options) arguments() string {
	port := cmp.Or(o.Port, "ttyS0") + "," + strconv.Itoa(cmp.Or(o.Baud, 115200))
	a := []string{"console=tty0", "console=" + port, "quiet", "panic=-1", "rdinit=" + guestabi.Init,
		"random.trust_cpu=on", "random.trust_bootloader=on", "cryptomgr.notests",
		guestabi.PortArg + "=" + port, guestabi.HostnameArg + "=" + cmp.Or(o.Hostname, "tare")}
	if o.Scratch != "" {
		a = append(a, guestabi.ScratchArg+"="+o.Scratch)
	}
	if o.Interpreted {
		a = append(a, interpreted)
	}
	return strings.Join(append(a, o.Args...), " ")
}
