package qemu

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/lab/mount"
	"tare/internal/lab/vdisk"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// The kinds of mounts that need no server.
const (
	kindTmpfs = "tmpfs"
	kindDisk  = "disk"
)

// mountKinds lists the mounts of a micro-VM.
func mountKinds() []env.MountKind { return append(ownKinds(), networkedMounts(mount.Kinds())...) }

func ownKinds() []env.MountKind {
	var fsNames []string
	for _, f := range fileSystems() {
		fsNames = append(fsNames, f.name)
	}
	image := imageSettings()
	for i := range image {
		if image[i].Name == settingDiscard { // the scratch disk is mounted without discards
			image[i].Try = []string{"ignore", "unmap"}
		}
	}
	return []env.MountKind{
		{
			Name: kindTmpfs, Doc: "The guest's memory (tmpfs): nothing is stored, and fsync does nothing.",
			CheckAll: checkTmpfs,
			Settings: []env.Setting{
				{Name: "size", Default: "50%",
					Doc: "Its largest size, such as 256MiB, or a share of the guest's memory.", Check: checkTmpfsSize},
			},
		},
		{
			Name: kindDisk, Disk: true,
			Doc: "Another virtual disk, in any format of QEMU, with its own file system, made on the host by the " +
				"usual programs.",
			Settings: append([]env.Setting{
				{Name: "size", Default: "1GiB", Doc: "The disk's size; xfs needs 300MiB, btrfs 128MiB.",
					Check: limits.CheckDisk},
				{Name: "fs", Default: "ext4", Doc: "The file system: ext4, xfs or btrfs.",
					Check: env.OneOf(fsNames...)},
				{Name: "cache", Default: "writeback", Doc: "The disk's cache on the host: none, writeback, " +
					"writethrough, directsync or unsafe, which ignores flushes.", Check: env.OneOf(cacheNames()...),
					Try: []string{"writeback", "none", "writethrough", "directsync"}},
				{Name: "aio", Default: "threads",
					Doc: "How QEMU reads and writes it: threads, native or io_uring; native needs cache=none or " +
						"directsync.", Check: env.OneOf("threads", "native", "io_uring"),
					Try: []string{"threads", "native", "io_uring"}},
				{Name: "options", Default: "",
					Doc:   "Mount options in the guest, with commas between: noatime,commit=30.",
					Check: env.CheckMountOptions},
			}, image...),
		},
	}
}

var tmpfsShareRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[1-9][0-9]?%$`) })

func checkTmpfsSize(v string) error {
	if tmpfsShareRE().MatchString(v) {
		return nil
	}
	n, err := unit.ParseSize(v)
	if err != nil || n < 1<<20 || n > limits.MostMemory {
		return fmt.Errorf("%q is neither a share from 1%% to 99%% nor a size of at least 1MiB", v)
	}
	return nil
}

// checkTmpfs rejects a file system in memory that is larger than the machine's memory. The kernel accepts such a size,
// and filling it would crash the machine.
func checkTmpfs(in, s env.Spec) error {
	size, err := unit.ParseSize(s.Get("size", ""))
	memory, err2 := limits.ParseMemory(in.Get("memory", defaultMemory))
	if err != nil || err2 != nil || size <= memory {
		return nil
	}
	return fmt.Errorf("size=%s is more than the machine's memory of %s; use a smaller size, or set memory=",
		s.Get("size", ""), unit.FormatSize(memory))
}

// readyMount is a mount whose host side is ready.
type readyMount struct {
	*mount.Served
	id     string       // QEMU's name of the disk; "" for all other kinds
	serial string       // the disk's serial number, by which the guest finds it
	image  *vdisk.Image // nil for all other kinds
	cache  cacheMode
	drive  *drive    // the disk; nil for all other kinds
	second *secondVM // the machine that serves it; nil for all other kinds
	tap    *link     // link to the host's own server in its namespaces; nil for all other kinds
}

// serveOwn makes a mount that needs no server.
func serveOwn(ctx context.Context, r mount.Request, number int) (readyMount, error) {
	shown, err := env.ResolveMount(ownKinds(), &r.Spec)
	if err != nil {
		return readyMount{}, &env.OpenError{Env: r.Name, Op: "read settings of mount", Err: err,
			Remedy: "tare list mounts shows the settings and their values"}
	}
	s := readyMount{Served: &mount.Served{
		Mount:    record.Mount{Kind: r.Driver, Dir: path.Join(guestabi.Mounts, r.Name), Settings: shown},
		Diagnose: func() []byte { return nil },
		Close:    func() error { return nil },
	}}
	s.Order = &guestabi.Mount{Name: r.Name, Dir: s.Mount.Dir}
	if r.Driver == kindTmpfs {
		size := shown["size"]
		if n, err := unit.ParseSize(size); err == nil {
			size = fmt.Sprint(n)
		}
		s.Order.Type, s.Order.Source, s.Order.Options = "tmpfs", "tmpfs", "mode=0755,size="+size
		return s, nil
	}
	err = s.makeDisk(ctx, r, number)
	return s, err
}

func (s *readyMount) makeDisk(ctx context.Context, r mount.Request, number int) error {
	shown := s.Mount.Settings
	size, _ := limits.ParseDisk(shown["size"])
	fs, _ := fileSystemOf(shown["fs"])
	s.cache = cacheModes[shown["cache"]]
	fail := func(err error, remedy string) error {
		return &env.OpenError{Env: r.Name, Op: "make disk", Err: err, Remedy: remedy}
	}
	shape, err := parseImage(given(&r.Spec), s.cache, shown["aio"], shown)
	switch {
	case err != nil:
		return fail(err, "tare list mounts shows the settings and their values")
	case size < fs.min:
		return fail(fmt.Errorf("%s needs a disk of at least %s", fs.name, unit.FormatSize(fs.min)),
			"use size="+unit.FormatSize(fs.min))
	case r.Settings["size"] != "" && shape.Device != "" && shape.Device != vdisk.LoopDevice:
		return fail(fmt.Errorf("device=%s has its own size", shape.Device), "leave out size=")
	}
	if err := fs.checkFill(&shape, size); err != nil {
		return fail(err, "tare list mounts shows the settings and their values")
	}
	program, err := proc.LookPath(fs.program)
	if err != nil {
		return fail(fmt.Errorf("%s is not installed", fs.program), "install it: apt-get install "+fs.pkg)
	}
	s.image, s.Mount.Facts, err = makeDisk(ctx, vdisk.Request{Shape: shape, Dir: filepath.Join(r.Dir, "image"),
		Name: "disk", Size: size, Direct: s.cache.direct}, fs)
	if err != nil {
		return fail(err, "free some space, use a smaller size=, or set TMPDIR to a folder that has some")
	}
	s.Mount.Facts = prefixed("disk.", s.Mount.Facts)
	s.id, s.serial = fmt.Sprintf("disk%d", number), fmt.Sprintf("tare-disk-%d", number)
	s.Mount.Command = append([]string{program}, fs.args...)
	s.drive = &drive{
		id: s.id, serial: s.serial, path: s.image.Path, shape: shape, cache: s.cache, aio: shown["aio"],
		discard: shown[settingDiscard],
	}
	s.Devices = s.drive.arguments("pci")
	s.Modules = []string{"virtio_blk", fs.name}
	s.Order.Type, s.Order.Source, s.Order.Options = fs.name, guestabi.Disks+s.serial,
		mountOptions(shown["options"], shape, shown[settingDiscard])
	s.Close = s.image.Close
	return nil
}
