package vagrant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	dirs "tare/internal/lab/driver/folder"
	"tare/internal/lab/env"
)

// scratch is the project of a machine that tare makes.
type scratch struct {
	file    string // the Vagrantfile
	spec    env.Spec
	folders []syncedFolder
}

// syncedFolder is a synced folder of a scratch machine.
type syncedFolder struct {
	spec env.Spec
	host string // on this machine
	err  error  // why it was left out
}

// guestFolder is where a scratch machine has a synced folder.
func guestFolder(name string) string { return "/tare-mounts/" + name }

// makeScratch makes the project of a scratch machine.
func (m *machine) makeScratch(context.Context) error {
	o := &m.opts
	fail := func(op string, err error, remedy string) error { return explained(o.Name, op, err, remedy) }
	if o.Get("machine", "") != "" || o.Get("up", "") != "" {
		return fail("read settings", errors.New("machine= and up= are for the machines of a project"),
			"leave them out with box=")
	}
	if p := o.Get("provider", ""); (p == "" || p == "docker") && o.Get("cpus", "")+o.Get("memory", "") != "" {
		return fail("read settings", errors.New("cpus= and memory= need a provider= other than docker, because each "+
			"provider configures them differently"), "set provider=NAME; for Docker set limits with create_args, in "+
			"the file of vagrantfile=")
	}
	n, err := newNote(o.RunID, "")
	if err != nil {
		return fail("make the project of a scratch machine", err, "")
	}
	n.Provider = o.Get("provider", "")
	m.note, m.name = n, "default"
	m.project = &project{root: n.dir, data: filepath.Join(n.dir, dataFolder)}
	m.tool = &tool{dir: n.dir, own: true}
	m.scratch = &scratch{file: filepath.Join(n.dir, "Vagrantfile"), spec: o.Spec}
	for _, s := range o.Mounts {
		if s.Driver == dirs.Dir {
			continue
		}
		f := syncedFolder{spec: s}
		if f.host, err = os.MkdirTemp(o.Dir, "folder-"); err == nil {
			// The guest's user may be another one; the folder above keeps others out.
			err = os.Chmod(f.host, 0o777)
		}
		if err != nil {
			return fail("make a folder to share", err, "")
		}
		m.scratch.folders = append(m.scratch.folders, f)
	}
	if err := m.scratch.write(); err != nil {
		return fail("write the Vagrantfile", err, "")
	}
	return nil
}

// write writes the Vagrantfile with all folders that were not left out.
func (s *scratch) write() error {
	return os.WriteFile(s.file, []byte(s.vagrantfile()), 0o600)
}

// vagrantfile is a Vagrantfile of one machine, which nothing provisions.
func (s *scratch) vagrantfile() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if f := s.spec.Get("vagrantfile", ""); f != "" {
		if abs, err := filepath.Abs(f); err == nil {
			f = abs
		}
		line("load %s", ruby(f))
	}
	line(`Vagrant.configure("2") do |config|`)
	line(`  config.vm.synced_folder ".", "/vagrant", disabled: true`)
	provider, box := s.spec.Get("provider", ""), s.spec.Get("box", "")
	if provider != "docker" {
		line("  config.vm.box = %s", ruby(box))
		line("  config.vm.box_check_update = false")
	}
	if provider != "" {
		line("  config.vm.provider %s do |p|", ruby(provider))
		for _, l := range providerLines(&s.spec) {
			line("    %s", l)
		}
		if provider == "libvirt" && slices.ContainsFunc(s.folders, func(f syncedFolder) bool {
			return f.spec.Driver == "virtiofs"
		}) {
			// virtiofsd reads the guest's memory.
			line(`    p.memorybacking :source, type: "memfd"`)
			line(`    p.memorybacking :access, mode: "shared"`)
		}
		line("  end")
	}
	for _, f := range s.folders {
		if f.err == nil {
			line("  config.vm.synced_folder %s, %s%s", ruby(f.host), ruby(guestFolder(f.spec.Name)),
				folderOptions(&f.spec))
		}
	}
	line("end")
	return b.String()
}

// providerLines say the size of the machine as its provider wants it.
func providerLines(s *env.Spec) (lines []string) {
	provider, cpus, memory := s.Get("provider", ""), s.Get("cpus", ""), mebibytes(s.Get("memory", ""))
	say := func(given bool, format string, args ...any) {
		if given {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	switch provider {
	case "docker":
		say(true, "p.image = %s", ruby(s.Get("box", "")))
		say(true, "p.has_ssh = true")
	case "vmware_desktop":
		say(cpus != "", `p.vmx["numvcpus"] = "%s"`, cpus)
		say(memory != 0, `p.vmx["memsize"] = "%d"`, memory)
	case "qemu":
		say(cpus != "", `p.smp = "%s"`, cpus)
		say(memory != 0, `p.memory = "%dM"`, memory)
	default:
		say(cpus != "", "p.cpus = %s", cpus)
		say(memory != 0, "p.memory = %d", memory)
	}
	return lines
}

// folderOptions are the options of a synced folder, as Vagrant's own documentation has them.
func folderOptions(s *env.Spec) string {
	var b strings.Builder
	if s.Driver != vagrantsChoice {
		fmt.Fprintf(&b, ", type: %s", ruby(s.Driver))
	}
	if s.Driver == "nfs" {
		if v := s.Get("vers", ""); v != "" {
			fmt.Fprintf(&b, ", nfs_version: %s", ruby(v))
		}
		if v := s.Get("proto", ""); v != "" {
			fmt.Fprintf(&b, ", nfs_udp: %t", v == "udp")
		}
	}
	for _, list := range []struct{ setting, key string }{{"options", "mount_options"}, {"args", "rsync__args"}} {
		if v := s.Get(list.setting, ""); v != "" {
			var parts []string
			for p := range strings.SplitSeq(v, ",") {
				parts = append(parts, ruby(p))
			}
			fmt.Fprintf(&b, ", %s: [%s]", list.key, strings.Join(parts, ", "))
		}
	}
	return b.String()
}

// ruby is a string of Ruby's that nothing is replaced in.
func ruby(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
