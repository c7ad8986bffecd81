package vagrant

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// said is what each provider's own documentation calls the size of a machine, of 2 CPUs and 1 GiB. A provider that
// comes with Debian's Vagrant has a class that reads it, and what that class then knows.
var said = []struct {
	provider     string
	words        []string
	class, knows string
}{
	{"virtualbox", []string{"p.cpus = 2", "p.memory = 1024"}, "VagrantPlugins::ProviderVirtualBox::Config",
		"modifyvm :id --cpus 2; modifyvm :id --memory 1024"},
	{"vmware_desktop", []string{`p.vmx["numvcpus"] = "2"`, `p.vmx["memsize"] = "1024"`}, "", ""},
	{"libvirt", []string{"p.cpus = 2", "p.memory = 1024", `p.memorybacking :source, type: "memfd"`,
		`p.memorybacking :access, mode: "shared"`}, "VagrantPlugins::ProviderLibvirt::Config", "2 1024"},
	{"parallels", []string{"p.cpus = 2", "p.memory = 1024"}, "", ""},
	{"hyperv", []string{"p.cpus = 2", "p.memory = 1024"}, "VagrantPlugins::HyperV::Config", "2 1024"},
	{"docker", []string{"p.image = 'some/box'", "p.has_ssh = true"}, "VagrantPlugins::DockerProvider::Config",
		"some/box true"},
	{"qemu", []string{`p.smp = "2"`, `p.memory = "1024M"`}, "", ""},
}

// readers asks Vagrant what it understood of each Vagrantfile, and for errors in it. `vagrant validate` asks the same,
// but only of a provider that is usable on this system.
const readers = `require "json"
require "vagrant"
all = ARGV.map do |dir|
  name = File.basename(dir).to_sym
  config = Vagrant::Environment.new(cwd: dir, ui_class: Vagrant::UI::Silent).vagrantfile.config
  p = config.vm.get_provider_config(name)
  knows = case name
    when :virtualbox then p.customizations.map { |_, words| words.map(&:inspect).join(" ").delete('"') }.sort.join("; ")
    when :docker then "#{p.image} #{p.has_ssh}"
    when :libvirt, :hyperv then "#{p.cpus} #{p.memory}"
    end
  [name, {class: p.class.name, errors: p._detected_errors + config.vm._detected_errors, knows: knows, box: config.vm.box,
    folders: config.vm.synced_folders}]
end
puts JSON.generate(all: all.to_h, types: Vagrant.plugin("2").manager.synced_folders.keys)
`

// TestVagrantfiles holds the Vagrantfile for each provider against the provider's documentation, and lets Vagrant read
// it.
func TestVagrantfiles(t *testing.T) {
	t.Parallel()
	if _, err := proc.LookPath("vagrant"); err != nil {
		lack(t, "vagrant is not installed")
	}
	options := map[string]map[string]string{
		"nfs": {"vers": "4", "proto": "tcp", "options": "noac,ro"}, "rsync": {"args": "--archive,--delete"},
		"9p": {"options": "cache=mmap"},
	}
	dir := t.TempDir()
	reader := filepath.Join(dir, "read.rb")
	write(t, reader, readers)
	argv := []string{"ruby", reader}
	for _, p := range said {
		s := &scratch{file: filepath.Join(dir, p.provider, "Vagrantfile"), spec: env.Spec{Settings: map[string]string{
			"provider": p.provider, "box": "some/box", "cpus": "2", "memory": "1GiB"}}}
		for _, k := range append([]string{vagrantsChoice}, typeNames()...) {
			s.folders = append(s.folders, syncedFolder{spec: env.Spec{Name: k, Driver: k, Settings: options[k]},
				host: "/h/" + k})
		}
		if err := os.Mkdir(filepath.Dir(s.file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := s.write(); err != nil {
			t.Fatal(err)
		}
		argv = append(argv, filepath.Dir(s.file))
		var words []string
		for line := range strings.Lines(s.vagrantfile()) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "p.") {
				words = append(words, line)
			}
		}
		if !slices.Equal(words, p.words) {
			t.Errorf("%s is told %q, want %q", p.provider, words, p.words)
		}
	}
	var got struct {
		All map[string]struct {
			Class, Knows, Box string
			Errors            []string
			Folders           map[string]struct {
				Type, Hostpath string
				Version        string   `json:"nfs_version"`
				UDP            *bool    `json:"nfs_udp"`
				Mount          []string `json:"mount_options"`
				Args           []string `json:"rsync__args"`
			}
		}
		Types []string
	}
	if err := json.Unmarshal([]byte(must(t, argv...)), &got); err != nil {
		t.Fatal(err)
	}
	libvirt := &tool{dir: filepath.Join(dir, "libvirt"), own: true, set: []string{"VAGRANT_DEFAULT_PROVIDER=libvirt"}}
	if _, err := libvirt.run(t.Context(), "validate"); err == nil || !strings.Contains(err.Error(), "'virtualbox'") {
		t.Errorf("vagrant validate, with folders that libvirt has not: %v", err)
	}
	for _, k := range typeNames() {
		if !slices.Contains(got.Types, k) {
			t.Errorf("Vagrant has no folders of type %s, but %v", k, got.Types)
		}
	}
	for _, p := range said {
		g := got.All[p.provider]
		if p.class != "" && (g.Class != p.class || g.Knows != p.knows || len(g.Errors) > 0) {
			t.Errorf("of %s Vagrant understood %+v", p.provider, g)
		}
		if p.class == "" && strings.HasPrefix(g.Class, "VagrantPlugins") {
			t.Errorf("Vagrant has a class for %s: %s; let it read the Vagrantfile", p.provider, g.Class)
		}
		if p.provider != "docker" && g.Box != "some/box" {
			t.Errorf("%s: the box is %q", p.provider, g.Box)
		}
		for _, k := range append([]string{""}, typeNames()...) {
			name := k
			if k == "" {
				name = vagrantsChoice
			}
			f, ok := g.Folders[guestFolder(name)]
			if !ok || f.Type != k || f.Hostpath != "/h/"+name {
				t.Errorf("%s: folder %s is %+v", p.provider, name, f)
			}
		}
		f := g.Folders[guestFolder("nfs")]
		if f.Version != "4" || f.UDP == nil || *f.UDP || !slices.Equal(f.Mount, []string{"noac", "ro"}) ||
			!slices.Equal(g.Folders[guestFolder("rsync")].Args, []string{"--archive", "--delete"}) ||
			!slices.Equal(g.Folders[guestFolder("9p")].Mount, []string{"cache=mmap"}) {
			t.Errorf("%s: options are %+v", p.provider, g.Folders)
		}
	}
}

func typeNames() (names []string) {
	for _, t := range types {
		names = append(names, t.name)
	}
	return names
}

// TestProvidersThatAreNotHere makes a scratch machine with each provider that cannot be had here. The error says why,
// and the remedy what brings it.
func TestProvidersThatAreNotHere(t *testing.T) {
	t.Parallel()
	if _, err := proc.LookPath("vagrant"); err != nil {
		lack(t, "vagrant is not installed")
	}
	for _, c := range []struct{ provider, says, remedy string }{
		{"vmware_desktop", "could not be found", "vagrant plugin install vagrant-vmware-desktop"},
		{"parallels", "could not be found", "vagrant plugin install vagrant-parallels"},
		{"qemu", "could not be found", "vagrant plugin install vagrant-qemu"},
		{"hyperv", "only works on Windows", "provider=NAME"},
	} {
		t.Run(c.provider, func(t *testing.T) {
			t.Parallel()
			spec := env.Spec{Settings: map[string]string{"box": "x", "provider": c.provider, "cpus": "2"}}
			refused(t, spec, c.says, c.remedy)
		})
	}
}

// refused opens a machine that cannot be had.
func refused(t *testing.T, s env.Spec, says, remedy string) {
	t.Helper()
	_, err := opened(options(t, s))
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok || !strings.Contains(x.Error(), says) || !strings.Contains(x.Remedy, remedy) || len(x.Evidence) == 0 {
		t.Fatalf("%v\n%s", err, x.Evidence)
	}
	t.Log(err)
}

// TestPluginsThatAreNotHere is a Vagrant without any.
func TestPluginsThatAreNotHere(t *testing.T) {
	y := docker(t)
	t.Setenv("VAGRANT_NO_PLUGINS", "1")
	refused(t, env.Spec{Settings: map[string]string{"box": "x", "provider": "libvirt"}}, "could not be found",
		"vagrant plugin install vagrant-libvirt")
	o := options(t, y.scratchSpec(), env.Spec{Name: "own", Driver: "default"}, env.Spec{Name: "far", Driver: "sshfs"})
	e := open(t, o)
	all := e.(env.Mounter).Mounts()
	x, ok := errors.AsType[*env.OpenError](all[1].Err)
	if !ok || all[0].Err != nil || !strings.Contains(x.Error(), "no synced folders of type sshfs") ||
		!strings.Contains(x.Remedy, "vagrant plugin install vagrant-sshfs") {
		t.Errorf("%+v", all)
	}
	t.Log(x)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	noNotes(t)
}

// TestNoSuchImage is what a box that is not there is with Docker. TestLibvirt has the other.
func TestNoSuchImage(t *testing.T) {
	y := docker(t)
	refused(t, y.scratchSpec("box=no-such-image"), "Unable to find image 'no-such-image", "docker image ls")
	noNotes(t)
}

// TestVirtualBoxIsTooNew: the VirtualBox that the suite has is newer than Debian's Vagrant knows. VBoxManage is the
// real one; Vagrant asks it for its version and no more.
func TestVirtualBoxIsTooNew(t *testing.T) {
	root := os.Getenv("TARE_VIRTUALBOX_ROOT")
	if root == "" {
		lack(t, "TARE_VIRTUALBOX_ROOT names no root directory with VirtualBox; scripts/deps.sh virtualbox makes one")
	}
	if _, err := proc.LookPath("vagrant"); err != nil || os.Getuid() != 0 {
		lack(t, "vagrant is not installed, or this is not root: %v", err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "VBoxManage")
	// It looks for its own program in /proc.
	write(t, script, `#!/bin/sh
exec unshare --mount --propagation private sh -c 'mount -t proc proc "$0/proc" && mount -t tmpfs tmp "$0/tmp" &&
	HOME=/tmp exec chroot "$0" /usr/lib/virtualbox/VBoxManage "$@"' '`+root+`' "$@"
`)
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if v := must(t, script, "--version"); !strings.HasPrefix(v, "7.") {
		t.Fatalf("VBoxManage --version says %q", v)
	}
	refused(t, env.Spec{Settings: map[string]string{"box": "x", "provider": "virtualbox"}},
		"not supported by this version of Vagrant", "or a newer Vagrant")
}
