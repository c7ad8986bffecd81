package vagrant

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/libvirttest"
	"tare/internal/lab/rootfs"
	"tare/internal/sys/proc"
)

// guestPackages are what the box has: the kernel with all its file systems, and what Vagrant and its folders need.
var guestPackages = []string{"linux-image-amd64", "initramfs-tools", "systemd-sysv", "udev", "openssh-server", "sudo",
	"rsync", "sshfs"}

// bootTime bounds bringing up a machine whose processor is emulated, on a busy machine.
const bootTime = 20 * time.Minute

// makeBox makes a box for libvirt of a Debian root image: a disk that a key opens, its kernel, and a Vagrantfile that
// says how it is started without hardware help.
func makeBox(t *testing.T, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	img, err := rootfs.Build(ctx, rootfs.Options{Packages: guestPackages, Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	raw := filepath.Join(dir, "raw")
	must(t, "cp", "--sparse=always", img.Path, raw)
	if err := os.Chmod(raw, 0o600); err != nil {
		t.Fatal(err)
	}
	kernel := ""
	for word := range strings.FieldsSeq(must(t, "debugfs", "-R", "ls -p /boot", raw)) {
		if f := strings.Split(word, "/"); len(f) > 5 && strings.HasPrefix(f[5], "vmlinuz-") {
			kernel = strings.TrimPrefix(f[5], "vmlinuz-")
		}
	}
	if kernel == "" {
		t.Fatal("the root image has no kernel")
	}
	write(t, filepath.Join(dir, "network"), "[Match]\nName=e*\n[Network]\nDHCP=ipv4\n")
	write(t, filepath.Join(dir, "changes"), fmt.Sprintf(`dump /boot/vmlinuz-%[1]s "%[2]s/vmlinuz"
dump /boot/initrd.img-%[1]s "%[2]s/initrd"
write "%[2]s/network" /etc/systemd/network/80-all.network
symlink /etc/systemd/system/multi-user.target.wants/%[4]s /lib/systemd/system/%[4]s
mkdir /root/.ssh
set_inode_field /root/.ssh mode 040700
write "%[3]s.pub" /root/.ssh/authorized_keys
set_inode_field /root/.ssh/authorized_keys mode 0100600
set_inode_field /root/.ssh/authorized_keys uid 0
`, kernel, dir, key, "systemd-networkd.service"))
	must(t, "debugfs", "-w", "-f", filepath.Join(dir, "changes"), raw)
	must(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, filepath.Join(dir, "box.img"))
	if err := os.Remove(raw); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "metadata.json"),
		fmt.Sprintf(`{"provider":"libvirt","format":"qcow2","virtual_size":%d}`, img.Size>>30))
	write(t, filepath.Join(dir, "Vagrantfile"), `Vagrant.configure("2") do |config|
  config.ssh.username = "root"
  config.ssh.insert_key = false
  config.vm.boot_timeout = 900
  config.vm.provider "libvirt" do |p|
    p.driver = "qemu"
    p.cpu_mode = "maximum"
    p.cpus = 2
    p.memory = 768
    p.graphics_type = "none"
    p.kernel = File.expand_path("../vmlinuz", __FILE__)
    p.initrd = File.expand_path("../initrd", __FILE__)
    p.cmd_line = "root=/dev/vda rw quiet console=ttyS0 mitigations=off"
  end
end
`)
	box := filepath.Join(dir, "it.box")
	pack(t, box, dir, "metadata.json", "Vagrantfile", "vmlinuz", "initrd", "box.img")
	return box
}

// pack writes files of a folder to an archive.
func pack(t *testing.T, archive, dir string, names ...string) {
	t.Helper()
	out, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(out)
	for _, n := range names {
		f, err := os.Open(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		info, _ := f.Stat()
		err = w.WriteHeader(&tar.Header{Name: n, Mode: 0o644, Size: info.Size()})
		if err == nil {
			_, err = io.Copy(w, f)
		}
		f.Close()
		os.Remove(f.Name())
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLibvirt makes one machine of a real box with a real libvirtd, with a folder of every type that can be had here,
// and does everything with it, because its boot takes minutes: folders that Vagrant refuses, a libvirtd that is gone in
// the middle, and cleaning up afterwards.
func TestLibvirt(t *testing.T) {
	if testing.Short() {
		t.Skip("boots an emulated machine")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the box of this test is for amd64")
	}
	for _, p := range []string{"vagrant", "debugfs", "qemu-img", "ssh-keygen", "busybox"} {
		if _, err := proc.LookPath(p); err != nil {
			lack(t, "%s is not installed", p)
		}
	}
	t.Parallel() // with the contract, which leaves a processor idle
	d := libvirttest.New(t)
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	must(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	began := time.Now()
	box := makeBox(t, key)
	vagrant(t, dir, "box", "add", "--name", "tare-test", box)
	if err := os.Remove(box); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vagrant(t, dir, "box", "remove", "--force", "tare-test") })
	t.Logf("the box took %v", time.Since(began).Round(time.Second))
	common := filepath.Join(dir, "Common")
	write(t, common, fmt.Sprintf(`Vagrant.configure("2") do |config|
  config.ssh.private_key_path = '%s'
  config.ssh.proxy_command = "%s busybox nc %%h %%p"
  config.vm.provider "libvirt" do |p|
    p.uri = '%s'
    p.management_network_mode = "open"
  end
end
`, key, strings.Join(d.Inside(), " "), d.URI))

	spec := func(box string) env.Spec {
		return env.Spec{Settings: map[string]string{"box": box, "provider": "libvirt", "vagrantfile": common}}
	}
	t.Run("NoSuchBox", func(t *testing.T) {
		_, err := opened(options(t, spec("tare/none-such")))
		x, ok := errors.AsType[*env.OpenError](err)
		if !ok || !strings.Contains(x.Remedy, "vagrant box") {
			t.Errorf("%v\n%s", err, x.Evidence)
		}
		t.Log(err)
		noNotes(t)
	})

	t.Run("Validate", func(t *testing.T) {
		s := &scratch{spec: spec("tare-test"), file: filepath.Join(t.TempDir(), "Vagrantfile")}
		for _, k := range []string{vagrantsChoice, "9p", "virtiofs", "rsync", "sshfs"} {
			s.folders = append(s.folders, syncedFolder{spec: env.Spec{Name: k, Driver: k}, host: dir})
		}
		write(t, s.file, s.vagrantfile())
		vagrant(t, filepath.Dir(s.file), "validate")
	})

	began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	var mounts []env.Spec
	for _, kind := range []string{"9p", "virtiofs", "rsync", "sshfs", "nfs", "smb", "virtualbox"} {
		mounts = append(mounts, env.Spec{Name: kind, Driver: kind})
	}
	o := options(t, spec("tare-test"), mounts...)
	e, err := driver{}.Open(ctx, o)
	if err != nil {
		x, _ := errors.AsType[*env.OpenError](err)
		t.Fatalf("%v\n%s", err, x.Evidence)
	}
	defer e.Close()
	t.Logf("opened after %v", time.Since(began).Round(time.Second))
	conn, err := deploy.Attach(ctx, e, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if f := e.Facts(); f.Settings["provider"] != "libvirt" || f.Extra["vagrant.box"] != "tare-test" {
		t.Errorf("facts %+v", f)
	}
	for _, m := range e.(env.Mounter).Mounts() {
		if m.Err != nil {
			t.Logf("%s: %v", m.Name, m.Err)
			if x, ok := errors.AsType[*env.OpenError](m.Err); !ok || x.Remedy == "" && len(x.Evidence) == 0 {
				t.Errorf("%s: neither a remedy nor evidence", m.Name)
			}
			if m.Name == "9p" || m.Name == "rsync" || m.Name == "sshfs" {
				t.Errorf("%s cannot be had", m.Name)
			}
			continue
		}
		facts, err := conn.FactsAt(ctx, m.Mount.Dir)
		if err != nil || facts.Extra["work_dir.error"] != "" {
			t.Errorf("%s: %v %s", m.Name, err, facts.Extra["work_dir.error"])
			continue
		}
		t.Logf("%-8s %s", m.Name, facts.WorkFS)
	}
	conn.Close()

	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	err = e.Close()
	if x, ok := errors.AsType[*env.OpenError](err); !ok || !strings.Contains(x.Remedy, "tare clean") {
		t.Errorf("closed without libvirtd: %v", err)
	}
	t.Log(err)
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	if names, err := d.Domains(); err != nil || len(names) != 1 || !strings.Contains(names[0], o.RunID) {
		t.Errorf("domains %v, %v", names, err)
	}
	if err := e.Close(); err != nil { // it may be called again
		t.Error(err)
	}
	if names, err := d.Domains(); err != nil || len(names) != 0 {
		t.Errorf("domains %v, %v", names, err)
	}
	noNotes(t)
}
