package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"tare/internal/lab/microvm"
	"tare/internal/lab/mount"
)

// guestKernel is a kernel with the modules that a guest loads.
type guestKernel struct {
	kernel  microvm.Kernel
	modules []string // files in the order of loading; the machine does not work without them
	extra   []string // files loaded after those, for mounts
	lacking map[*share]error
}

// chooseKernel chooses the first kernel that has the drivers that the machine needs. If several have, it chooses the
// first with drivers for the most mounts. The other mounts are marked as failed.
func (b *boot) chooseKernel() error {
	which := b.config.kernel
	if which == "auto" {
		which = ""
	}
	if slices.Contains(microvm.Flavours(), which) {
		b.remedy = microvm.Remedy(b.config.arch, which)
	}
	kernels, err := microvm.Find(b.kernels, b.config.arch, which)
	if err != nil {
		return err
	}
	var best *guestKernel
	var lacking error
	for _, k := range kernels {
		c, err := b.consider(k)
		if err != nil {
			lacking = errors.Join(lacking, fmt.Errorf("kernel %s (%s): %w", k.Release, k.Flavour, err))
			continue
		}
		if best == nil || len(c.lacking) < len(best.lacking) {
			best = c
		}
		if len(best.lacking) == 0 {
			break
		}
	}
	if best == nil {
		b.remedy = microvm.Remedy(b.config.arch, microvm.Generic) + "; it has more drivers"
		return lacking
	}
	b.guestKernel = *best
	for s, err := range best.lacking {
		remedy := microvm.Remedy(b.config.arch, microvm.Generic) + "; it has more drivers"
		if errors.Is(err, mount.ErrNFSUDP) {
			remedy = "" // the error has a remedy, and no distribution's kernel has it
		}
		s.fail("choose kernel", fmt.Errorf("kernel %s (%s): %w", best.kernel.Release, best.kernel.Flavour, err), remedy,
			nil)
	}
	return nil
}

// consider finds the modules that a kernel would load. The error says what the machine itself lacks with it.
func (b *boot) consider(k microvm.Kernel) (*guestKernel, error) {
	c := &guestKernel{kernel: k, lacking: map[*share]error{}}
	if err := b.checkConfig(c); err != nil {
		return nil, err
	}
	if k.Modules == "" {
		return c, nil // only the boot can tell whether the drivers are built in
	}
	index, err := microvm.ReadIndex(k.Modules)
	if err != nil {
		return nil, err
	}
	base, optional := b.config.modules()
	base = append(base, there(index, optional)...)
	if c.modules, err = index.Resolve(base...); err != nil {
		return nil, err
	}
	var wanted []string
	for _, s := range b.shares.alive() {
		if c.lacking[s] != nil {
			continue
		}
		required, optional := s.needs(&b.config)
		if _, err := index.Resolve(required...); err != nil {
			c.lacking[s] = err
			continue
		}
		wanted = append(append(wanted, required...), there(index, optional)...)
	}
	all, err := index.Resolve(slices.Concat(base, index.Companions(wanted...), wanted)...)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if !slices.Contains(c.modules, m) {
			c.extra = append(c.extra, m)
		}
	}
	return c, nil
}

// checkConfig marks the mounts that the kernel's build configuration rules out, whatever modules it has.
func (b *boot) checkConfig(c *guestKernel) error {
	alive := b.shares.alive()
	if len(alive) == 0 {
		return nil
	}
	config, err := c.kernel.ReadConfig()
	if err != nil {
		return err
	}
	for _, s := range alive {
		if err := mount.CheckKernel(s.spec, config); err != nil {
			c.lacking[s] = err
		}
	}
	return nil
}

// there returns those modules that a kernel has, with all their dependencies.
func there(index *microvm.Index, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		_, err := index.Resolve(n)
		return err != nil
	})
}

// prepare starts the mounts' servers, chooses the kernel and writes the initramfs. Without mounts it does so once. With
// mounts it does so for each boot, because a server ends with its machine.
func (b *boot) prepare(ctx context.Context) error {
	if b.ready && len(b.Mounts) == 0 {
		return nil
	}
	var err error
	b.op, b.remedy = "prepare mounts", "free some space, or set TMPDIR to a folder that has some"
	if err := b.shares.remove(); err != nil {
		return err
	}
	if b.shares, err = b.serveMounts(ctx, b.Options, b.broken); err != nil {
		return err
	}
	b.op, b.remedy = "choose kernel", microvm.Remedy(b.config.arch, "")
	if err := b.chooseKernel(); err != nil {
		return err
	}
	b.op, b.remedy = "choose agent", "build tare with make build, which includes the agents of all platforms"
	agent, err := b.Agents.Path("linux", b.config.arch)
	if err != nil {
		return err
	}
	if err := microvm.CheckAgent(agent); err != nil {
		return err
	}
	files := b.shares.programs(b.config.arch)
	b.op, b.remedy = "write machine files", "free some space, or set TMPDIR to a folder that has some"
	if err := os.RemoveAll(b.initrd()); err != nil {
		return err
	}
	done, err := microvm.Initramfs(b.initrd(), microvm.Contents{
		Agent: agent, Kernel: b.kernel, Modules: b.modules, Extra: b.extra, Files: files,
	})
	if err != nil {
		return err
	}
	b.facts["guest.kernel.package"], b.facts["guest.kernel.flavour"] = b.kernel.Package, b.kernel.Flavour
	b.facts["guest.initramfs.sha256"], b.facts["guest.initramfs.bytes"] = done.SHA256, fmt.Sprint(done.Bytes)
	var copied int64
	for _, f := range files {
		copied += f.Size
	}
	if len(files) > 0 {
		b.facts["guest.programs.files"], b.facts["guest.programs.bytes"] = fmt.Sprint(len(files)), fmt.Sprint(copied)
	}
	b.ready = true
	return nil
}
