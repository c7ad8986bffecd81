package qemu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/lab/mount"
	"tare/internal/sys/proc"
)

// wantMount is a requested mount and how the guest's kernel must show it.
type wantMount struct {
	text    string // of the specification
	kind    string // type of file system
	options []string
}

// refused, instead of a type, means that the mount must fail and the error must say why.
const refused = "refused"

func allMounts() []wantMount {
	return []wantMount{
		{"mem=tmpfs?size=64MiB", "tmpfs", []string{"size=65536k"}},
		{"e=disk?size=64MiB&options=noatime,commit=7&cache=none", "ext4", []string{"noatime", "commit=7"}},
		{"x=disk?fs=xfs&size=300MiB", "xfs", nil},
		{"b=disk?fs=btrfs&size=128MiB&cache=unsafe", "btrfs", nil},
		{"p=9p", "9p", []string{"trans=virtio", "msize=512000", "access=client"}},
		{"p2=9p?msize=65536&cache=mmap&security_model=mapped-xattr", "9p", []string{"msize=65536", "mmap"}},
		{"v=virtiofs", "virtiofs", nil},
		{"v2=virtiofs?cache=never&xattr=on", "virtiofs", nil},
		{"n3=nfs?vers=3", "nfs", []string{"vers=3", "proto=tcp"}},
		{"n4=nfs?rsize=65536", "nfs4", []string{"vers=4.2", "proto=tcp", "rsize=65536"}},
		{"s=smb", "cifs", nil},
		{"f=sshfs", "fuse.sshfs", nil},
		{"r=rsync", "", nil},
		{"udp=nfs?vers=3&proto=udp", refused, nil}, // Debian's kernels lack it
	}
}

// TestAllMountsInOneMachine boots once with every kind of mount. Each side must see what the other one wrote.
func TestAllMountsInOneMachine(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "kernel", microvm.Generic, "boot", "3m"))
	wants := allMounts()
	var texts []string
	for _, w := range wants {
		texts = append(texts, w.text)
	}
	o.Mounts = mountSpecs(t, texts...)
	v, s := open(t, driver{}, o)
	t.Logf("boot to first word: %s ms, initramfs %s bytes, %s programs of %s bytes", v.Facts().Extra["boot_ms"],
		v.Facts().Extra["guest.initramfs.bytes"], v.Facts().Extra["guest.programs.files"],
		v.Facts().Extra["guest.programs.bytes"])
	var kinds []string
	for i, w := range wants {
		m := v.Mounts()[i]
		kinds = append(kinds, m.Mount.Kind)
		t.Run(m.Name, func(t *testing.T) {
			if w.kind == refused {
				if !errors.Is(m.Err, mount.ErrNFSUDP) || m.Order != nil {
					t.Errorf("it gives %v", m.Err)
				}
				return
			}
			if m.Err != nil {
				t.Fatal(m.Err)
			}
			const sub = "from the host"
			if m.Mount.HostDir != "" {
				if err := os.MkdirAll(filepath.Join(m.Mount.HostDir, sub), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			got, err := s.Mount(ctx, m.Order)
			if err != nil {
				t.Fatalf("%v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
			}
			t.Logf("%s: %+v", m.Mount.Server, got)
			if w.kind != "" && got.Type != w.kind {
				t.Errorf("it is %s, not %s", got.Type, w.kind)
			}
			for _, o := range w.options {
				if !slices.Contains(strings.Split(got.Options, ","), o) {
					t.Errorf("option %s is not among %s", o, got.Options)
				}
			}
			if m.Mount.HostDir == "" {
				if err := work(t, s, "fs.smallfiles", m.Mount.Dir, nil); err != nil {
					t.Error(err)
				}
				return
			}
			// The host's folder must exist, because work is done in it.
			if err := work(t, s, "fs.randread", filepath.Join(m.Mount.Dir, sub),
				map[string]string{"size": "1MiB"}); err != nil {
				t.Fatalf("work where the host made a folder: %v\nserver: %s", err, diagnose(m.Diagnose))
			}
			written := int64(0)
			filepath.WalkDir(filepath.Join(m.Mount.HostDir, sub), func(name string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					if info, err := d.Info(); err == nil {
						written += info.Size()
					}
				}
				return nil
			})
			if isSync(m.Mount.Kind) {
				if written != 0 {
					t.Errorf("what is synchronised one way came back: %d bytes", written)
				}
			} else if written < 1<<20 {
				t.Errorf("the host sees %d bytes of the file that the guest reads", written)
			}
		})
	}
	for _, k := range mountKinds() {
		if !slices.Contains(kinds, k.Name) {
			t.Errorf("no mount of kind %s was tried", k.Name)
		}
	}
	checkServers(t, v)
	if err := v.DropHostCaches(t.Context()); err != nil {
		t.Errorf("with the guest idle: %v", err)
	}
	room := v.shares.dir
	s.Close()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if left := staying(func() []string { return processes(t, o.RunID) }); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
	if _, err := os.Lstat(room); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", room, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), room) {
		t.Errorf("something is mounted below %s on the host (%v):\n%s", room, err, mounts)
	}
}

// checkServers holds that the processes behind the mounts are known by name, and what they have used.
func checkServers(t *testing.T, v *vm) {
	t.Helper()
	used := map[string]time.Duration{}
	for _, pid := range v.Servers() {
		name, _, _ := strings.Cut(proc.Name(pid), "[")
		d, ok := proc.CPUTime(pid)
		if !ok {
			t.Errorf("the CPU time of %s is not known", name)
		}
		used[name] += d
	}
	t.Logf("the servers have used %v", used)
	for _, name := range []string{"virtiofsd", "ganesha.nfsd", "smbd", "sshd", "rsync"} {
		if used[name] <= 0 {
			t.Errorf("%s has used nothing: %v", name, used)
		}
	}
}

func isSync(kind string) bool {
	return slices.ContainsFunc(mount.Kinds(), func(k env.MountKind) bool { return k.Name == kind && k.Sync })
}

func diagnose(f func() []byte) string {
	if f == nil {
		return ""
	}
	return string(f())
}
