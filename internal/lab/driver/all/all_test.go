package all

import (
	"slices"
	"testing"

	"tare/internal/lab/env"
)

// Those who know only a kind's name are told what is true in all drivers.
func TestKindsOfOneNameAreAlike(t *testing.T) {
	for _, d := range Known().All() {
		for _, k := range d.Mounts {
			if got := Known().KindOf(k.Name); got.Disk != k.Disk || got.Sync != k.Sync {
				t.Errorf("%s of %s: disk %v, copy %v; elsewhere disk %v, copy %v", k.Name, d.Name, k.Disk, k.Sync,
					got.Disk, got.Sync)
			}
		}
	}
}

// What no driver says is assumed of no driver, so that bundles of older releases are judged as they were.
func TestNothingIsAssumed(t *testing.T) {
	r := Known()
	if n := r.Nature("no-such-driver"); n != (env.Nature{}) {
		t.Errorf("an unknown driver is %+v", n)
	}
	if k := r.KindOf("no-such-kind"); k.Disk || k.Sync || k.Shared {
		t.Errorf("an unknown kind of mount is %+v", k)
	}
	if s := r.SettingOf("no-such-driver", "user"); s.Names != env.NamesNothing {
		t.Errorf("an unknown driver's setting names %v", s.Names)
	}
}

// TestNatures holds what the judges of older bundles rely on.
func TestNatures(t *testing.T) {
	with := func(has func(env.Info) bool) (names []string) {
		for _, d := range Known().All() {
			if has(d) {
				names = append(names, d.Name)
			}
		}
		return names
	}
	for what, x := range map[string]struct {
		has  func(env.Info) bool
		want []string
	}{
		"the machine itself": {func(d env.Info) bool { return d.Nature.Host }, []string{"local"}},
		"of its kernel": {func(d env.Info) bool { return d.Nature.Kernel == env.KernelHost },
			[]string{"local", "namespace"}},
		"maybe of its kernel": {func(d env.Info) bool { return d.Nature.Kernel == env.KernelMaybe },
			[]string{"docker", "podman"}},
		"files on its disk": {func(d env.Info) bool { return d.Nature.Files == env.FilesHost },
			[]string{"local", "namespace", "command"}},
		"files in QEMU": {func(d env.Info) bool { return d.Nature.Files == env.FilesQEMU },
			[]string{"qemu", "libvirt"}},
		"files in VirtualBox": {func(d env.Info) bool { return d.Nature.Files == env.FilesVirtualBox },
			[]string{"virtualbox"}},
		"named by tare": {func(d env.Info) bool { return d.Nature.HostName }, []string{"namespace", "qemu"}},
		"of an image": {func(d env.Info) bool { return d.Nature.Arg == env.NamesImage },
			[]string{"docker", "podman"}},
		"at an address": {func(d env.Info) bool { return d.Nature.Arg == env.NamesAddress },
			[]string{"ssh"}},
		"behind a command line": {func(d env.Info) bool { return d.Nature.Arg == env.NamesArgv },
			[]string{"command"}},
		"called by its owner": {func(d env.Info) bool { return d.Nature.Arg == env.NamesInstance },
			[]string{"lima", "wsl", "multipass", "incus", "kubectl"}},
		"of a run that names no": {func(d env.Info) bool { return d.Here != "" },
			[]string{"namespace", "docker", "qemu"}},
		"with a speedup": {func(d env.Info) bool { return d.Nature.Speedup != "" }, []string{"virtualbox"}},
		"with a disk": {func(d env.Info) bool {
			return slices.ContainsFunc(d.Mounts, func(k env.MountKind) bool { return k.Disk })
		}, []string{"qemu", "libvirt", "virtualbox"}},
		"with directories that are here": {func(d env.Info) bool {
			return slices.ContainsFunc(d.Mounts, func(k env.MountKind) bool { return k.ArgHere })
		}, []string{"local"}},
	} {
		if got := with(x.has); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", what, got, x.want)
		}
	}
}
