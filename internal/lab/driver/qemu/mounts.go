package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/lab/microvm"
	"tare/internal/lab/mount"
	"tare/internal/record"
)

// share is one of Options.Mounts on its way into the machine.
type share struct {
	spec       env.Spec
	target     string // the user's name for it: "vm:9p"
	readyMount        // without a Served if err is set
	err        *env.OpenError
}

// shares are the mounts of one boot, in the order of Options.Mounts.
type shares struct {
	list    []*share
	dir     string // private, with a short path
	release func() error
	once    sync.Once
	err     error
}

// maxBase bounds the path of the folder for private directories. A socket's path has at most 107 bytes, and this folder
// contains a directory for this run, in it one for the mount, and in it the socket.
const maxBase = 24

// serveMounts starts what the mounts need. A mount that fails is marked and does not stop the others. The error is only
// that of the directory for all mounts, or of ctx. broken are mounts that QEMU rejected at an earlier boot.
func (d driver) serveMounts(ctx context.Context, o env.Options, broken map[string]*env.OpenError) (*shares, error) {
	ss := &shares{release: func() error { return nil }}
	if len(o.Mounts) == 0 {
		return ss, nil
	}
	var err error
	// A separate directory, not below Options.Dir, whose path may be too long. `tare clean` finds it, too.
	if ss.dir, ss.release, err = leftover.New(leftover.Short(maxBase), o.RunID); err != nil {
		return nil, err
	}
	for i, spec := range o.Mounts {
		s := &share{spec: spec, target: o.Name + ":" + spec.Name, err: broken[spec.Name]}
		ss.list = append(ss.list, s)
		if s.err != nil {
			continue
		}
		s.readyMount, err = d.serveMount(ctx, o, mount.Request{
			Spec: spec, RunID: o.RunID, Log: o.Log, Dir: filepath.Join(ss.dir, fmt.Sprint(i)),
			Folder: filepath.Join(ss.dir, fmt.Sprint(i), "folder"),
			Link:   i,
		})
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), ss.end(), ss.release())
		}
		if err != nil {
			s.readyMount = readyMount{}
			x, ok := errors.AsType[*env.OpenError](err)
			if !ok {
				x = &env.OpenError{Env: spec.Name, Op: "serve " + spec.Driver, Err: err}
			}
			x.Env = s.target
			s.err = x
		}
	}
	return ss, nil
}

// serveMount starts what one mount needs. Its folder is empty, in the mount's own directory.
func (d driver) serveMount(ctx context.Context, o env.Options, r mount.Request) (readyMount, error) {
	for _, k := range mountKinds() {
		if k.Name == r.Driver && k.CheckAll != nil {
			if err := k.CheckAll(o.Spec, r.Spec); err != nil { // a plan of another build may not have been checked
				return readyMount{}, &env.OpenError{Env: r.Name, Op: "read settings of mount", Err: err,
					Remedy: "tare list mounts shows the settings and their values"}
			}
		}
	}
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return readyMount{}, err
	}
	r.Dir = filepath.Join(r.Dir, "s")
	if err := os.Mkdir(r.Dir, 0o700); err != nil {
		return readyMount{}, err
	}
	if slices.ContainsFunc(ownKinds(), func(k env.MountKind) bool { return k.Name == r.Driver }) {
		return serveOwn(ctx, r, r.Link)
	}
	if mount.ServedByVM(r.Spec) {
		if d.manager != nil {
			return readyMount{}, errManaged
		}
		return d.serveByVM(ctx, o, r)
	}
	s, err := mount.Serve(ctx, r)
	if err != nil || s.Tap == nil {
		return readyMount{Served: s}, err
	}
	if d.manager != nil {
		return readyMount{}, errors.Join(errManaged, s.Close())
	}
	return readyMount{Served: s, tap: newTapLink(s.Order.Link.Hardware, s.Tap)}, nil
}

// alive are the mounts that have not failed so far.
func (ss *shares) alive() []*share {
	return slices.DeleteFunc(slices.Clone(ss.list), func(s *share) bool { return s.err != nil })
}

// fail marks a mount as failed and ends its server.
func (s *share) fail(op string, err error, remedy string, evidence []byte) {
	if s.Served != nil {
		if s.Diagnose != nil {
			if said := s.Diagnose(); len(said) > 0 {
				evidence = append(append(slices.Clone(evidence), "\n[server] "...), said...)
			}
		}
		err = errors.Join(err, s.Close())
	}
	s.err = &env.OpenError{Env: s.target, Op: op, Err: err, Remedy: remedy, Evidence: evidence}
	s.readyMount = readyMount{}
}

// end ends the servers. The guest must have ended before: the file systems of a running guest would fail.
func (ss *shares) end() error {
	ss.once.Do(func() {
		for _, s := range slices.Backward(ss.list) {
			if s.Served != nil {
				if err := s.Close(); err != nil {
					ss.err = errors.Join(ss.err, fmt.Errorf("end mount %s: %w", s.target, err))
				}
			}
		}
	})
	return ss.err
}

// remove ends the servers and removes all files.
func (ss *shares) remove() error {
	if ss == nil {
		return nil
	}
	return errors.Join(ss.end(), ss.release())
}

// needs returns the modules that a mount needs, and those that are optional.
func (s *share) needs(c *config) (required, optional []string) {
	required = slices.Clone(s.Modules)
	if s.Network && c.nic == "none" {
		required = append(required, "virtio_net")
	}
	return required, s.Optional
}

// programs finds the programs that the mounts need in the guest.
func (ss *shares) programs(arch string) []microvm.File {
	all := map[string]microvm.File{}
	for _, s := range ss.alive() {
		files, err := microvm.Programs(arch, s.Programs...)
		if err != nil {
			s.fail("copy programs", err, "", nil)
			continue
		}
		for _, f := range files {
			all[f.Path] = f
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b microvm.File) int { return cmp.Compare(a.Path, b.Path) })
}

// extras are the machine's needs for the mounts.
func (ss *shares) extras() extras {
	var x extras
	for _, s := range ss.alive() {
		x.devices = append(x.devices, s.Devices...)
		if s.drive != nil {
			x.drives = append(x.drives, *s.drive)
		}
		if s.Share != nil {
			x.folders = append(x.folders, *s.Share)
		}
		x.shared = x.shared || s.SharedMemory
		x.network = x.network || s.Network
		switch {
		case s.second != nil:
			x.links = append(x.links, s.second.link)
		case s.tap != nil:
			x.links = append(x.links, s.tap)
		}
		if s.serial != "" {
			x.serials = append(x.serials, s.serial)
		}
	}
	return x
}

// blamed returns the mount whose device QEMU rejected, if QEMU's message shows that: it quotes the faulty option.
func (ss *shares) blamed(said, bus string) *share {
	for _, s := range ss.alive() {
		if slices.ContainsFunc(onBus(s.Devices, bus),
			func(a string) bool { return !strings.HasPrefix(a, "-") && strings.Contains(said, a) }) {
			return s
		}
	}
	return nil
}

// mounted is the report of the mounts to the controller.
func (ss *shares) mounted() []env.Mounted {
	var all []env.Mounted
	for _, s := range ss.list {
		m := env.Mounted{Name: s.spec.Name, Mount: record.Mount{Kind: s.spec.Driver}}
		if s.err != nil {
			m.Err = s.err
		} else {
			m.Mount, m.Order, m.Diagnose = s.Mount, s.Order, s.Diagnose
			if s.Life != nil {
				m.Ended, m.Why = s.Life()
			}
			if s.image != nil {
				m.Disk = s.image.Picture()
			}
		}
		all = append(all, m)
	}
	return all
}

// learnMounts reads back the machine's settings for its mounts. If a disk's cache mode differs from the requested one,
// that mount fails, not the machine.
func (b *boot) learnMounts(v *vm, extra map[string]string) error {
	x := b.shares.extras()
	if x.shared {
		extra["memory.backend"] = "memfd, shared"
	}
	if x.network {
		extra["nic.mounts"] = b.config.card(true) + ", reaches the host"
	}
	if len(x.serials) == 0 {
		return nil
	}
	modes, err := v.readCaches()
	if err != nil {
		return err
	}
	for _, s := range b.shares.alive() {
		if s.serial == "" {
			continue
		}
		if err := checkCache(modes, s.id, s.cache, s.Mount.Settings["cache"]); err != nil {
			s.fail("read back disk", err, "", nil)
			continue
		}
		extra["mount."+s.spec.Name+".cache"] = s.cache.String()
		if s.Mount.Facts != nil {
			s.Mount.Facts["disk.cache"] = modes[s.id].String() // same form as for the machine's own disk
		}
	}
	return nil
}
