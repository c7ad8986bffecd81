package libvirt

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/cpio"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/libvirttest"
	"tare/internal/lab/medium"
	"tare/internal/lab/microvm"
	"tare/internal/sys/proc"
)

// network is one with leases. It exists in the daemon's own namespace only.
const network = `<network><name>lab</name><bridge name="virbr8"/><ip address="192.168.178.1" netmask="255.255.255.0">
<dhcp><range start="192.168.178.2" end="192.168.178.9"/></dhcp></ip></network>`

// guestInit is the first process of a guest with an SSH server and a lease: all that a domain of a user's has to have.
const guestInit = `#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run/sshd /var/tmp /tmp
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mkdir -p /dev/pts
/bin/busybox mount -t devpts devpts /dev/pts
/bin/busybox --install -s /bin
for m in /modules/*.ko; do insmod $m; done
for n in 1 2 3 4 5 6 7 8 9; do [ -e /sys/class/net/eth0 ] && break; sleep 1; done
ifconfig eth0 up
udhcpc -i eth0 -n -q -s /lease
/usr/sbin/sshd -D -e -f /etc/sshd_config
poweroff -f
`

// writeGuest writes the initramfs of such a guest.
func writeGuest(t *testing.T, dest string, k microvm.Kernel, files map[string]string) {
	t.Helper()
	index, err := microvm.ReadIndex(k.Modules)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := index.Resolve("virtio_pci", "virtio_net")
	if err != nil {
		t.Fatal(err)
	}
	records := []cpio.Record{cpio.CharDev("dev/console", 0o600, 5, 1), cpio.StaticFile("init", guestInit, 0o755)}
	for i, m := range modules {
		b, err := microvm.ReadModule(filepath.Join(k.Modules, m))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, cpio.StaticFile(fmt.Sprintf("modules/%02d.ko", i), string(b), 0o600))
	}
	programs, err := microvm.Programs("amd64", "/usr/sbin/sshd")
	if err != nil {
		t.Fatal(err)
	}
	busybox, err := proc.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"bin/busybox": busybox} {
		files[to] = string(read(t, from))
	}
	for _, f := range programs {
		files[strings.TrimPrefix(f.Path, "/")] = string(read(t, f.Path))
	}
	var made []string
	for name, text := range files {
		for i, r := range name {
			if r == '/' && !slices.Contains(made, name[:i]) {
				made = append(made, name[:i])
			}
		}
		mode := uint64(0o600)
		if !strings.HasPrefix(name, "etc/") && !strings.HasPrefix(name, "root/") {
			mode = 0o755
		}
		records = append(records, cpio.StaticFile(name, text, mode))
	}
	dirs := []cpio.Record{cpio.Directory("dev", 0o755), cpio.Directory("modules", 0o755)}
	slices.Sort(made)
	for _, d := range made {
		dirs = append(dirs, cpio.Directory(d, 0o755))
	}
	f, err := os.Create(dest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := cpio.Newc.Writer(f)
	if err := cpio.WriteRecords(w, append(dirs, records...)); err != nil {
		t.Fatal(err)
	}
	if err := cpio.WriteTrailer(w); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAttach enters a domain that runs, by the address that libvirt knows, and leaves it as it was.
func TestAttach(t *testing.T) {
	if testing.Short() {
		t.Skip("a guest with an SSH server is booted")
	}
	t.Parallel()
	d := libvirttest.Shared(t)
	kernel(t, microvm.Cloud)
	kernels, err := microvm.Find("", "amd64", microvm.Cloud)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, key := range []string{"host", "user"} {
		if _, err := proc.Run(t.Context(), nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(dir, key)); err != nil {
			t.Fatal(err)
		}
	}
	image, err := microvm.Unpacked("", kernels[0].Image)
	if err != nil {
		t.Fatal(err)
	}
	initrd := filepath.Join(dir, "initrd")
	writeGuest(t, initrd, kernels[0], map[string]string{
		"etc/host_key": string(read(t, filepath.Join(dir, "host"))), "root/keys": string(read(t, filepath.Join(dir,
			"user.pub"))),
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n",
		"etc/group":  "root:x:0:\nnogroup:x:65534:\n", "etc/shells": "/bin/sh\n",
		"etc/nsswitch.conf": "passwd: files\n",
		"etc/sshd_config": "HostKey /etc/host_key\nAuthorizedKeysFile /root/keys\nStrictModes no\nUsePAM no\n" +
			"PermitRootLogin yes\nPidFile none\nUseDNS no\n",
		"lease": "#!/bin/sh\n[ \"$1\" = bound ] && ifconfig $interface $ip netmask $subnet\nexit 0\n",
	})
	virshTest(t, d, network, "net-create", "/dev/stdin")
	defer virshTest(t, d, "", "net-destroy", "lab")
	console := filepath.Join(dir, "console")
	virshTest(t, d, el("domain", "type", "qemu").with(txt("name", "web"), txt("memory", "256", "unit", "MiB"),
		txt("vcpu", "1"), el("os").with(txt("type", "hvm", "machine", "q35"), txt("kernel", image), txt("initrd",
			initrd),
			txt("cmdline", "console=ttyS0 quiet panic=-1 no_timer_check random.trust_cpu=on")),
		el("features").with(el("acpi"), el("apic")), el("cpu", "mode", "maximum"),
		el("devices").with(el("serial", "type", "file").with(el("source", "path", console)),
			el("interface", "type", "network").with(el("source", "network", "lab"), el("model", "type",
				"virtio")))).String(),
		"create", "/dev/stdin")
	defer virshTest(t, d, "", "destroy", "web")
	for end := time.Now().Add(patience); !strings.Contains(string(read(t, console)), "Server listening on"); {
		if time.Sleep(100 * time.Millisecond); time.Now().After(end) {
			t.Fatalf("the guest has no SSH server:\n%s", read(t, console))
		}
	}
	// The daemon's network is not this machine's.
	for name, text := range map[string]string{
		"config":      "Host *\n  ProxyCommand " + strings.Join(d.Inside("busybox", "nc", "%h", "%p"), " ") + "\n",
		"known_hosts": "* " + string(read(t, filepath.Join(dir, "host.pub"))),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := spec(d, "user", "root", "config", filepath.Join(dir, "config"), "known_hosts", filepath.Join(dir,
		"known_hosts"),
		"identity", filepath.Join(dir, "user"))
	s.Arg = "web"
	if got := has(t.Context(), s); !got.OK {
		t.Error(got.Detail)
	}
	o := options(t, s)
	e, err := testDriver(t, d).Open(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\nconsole:\n%s", err, read(t, console))
	}
	defer e.Close()
	f := e.Facts()
	if !strings.HasPrefix(f.Settings["ssh"], "192.168.178.") || f.Extra["domain.name"] != "web" || f.Threads != 1 ||
		f.MemoryBytes != 256<<20 || !f.Emulated || f.Extra["domain.nic.0"] != "virtio network=network" {
		t.Errorf("facts: %+v", f)
	}
	conn, err := deploy.Attach(t.Context(), e, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if err := trial(t, conn); err != nil {
		t.Error(err)
	}
	if _, ok := e.(env.Mounter); !ok {
		t.Error("directories of the domain cannot be named as mounts")
	}
	conn.Close()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if out := virshTest(t, d, "", "domstate", "web"); strings.TrimSpace(out) != "running" {
		t.Errorf("the domain is %s", out)
	}
}

// TestAttachBySerial enters domains that boot tare's medium, by the serial port that libvirt says, and leaves them as
// they were: the agent waits for the next one.
func TestAttachBySerial(t *testing.T) {
	if testing.Short() {
		t.Skip("domains are booted from a CD")
	}
	t.Parallel()
	d := libvirttest.Shared(t)
	kernel(t, microvm.Cloud)
	kernels, err := microvm.Find("", "amd64", microvm.Cloud)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	iso := filepath.Join(dir, "medium.iso")
	if _, err := medium.Write(t.Context(), iso, medium.Options{Agents: agenttest.Store(t, "linux/amd64"),
		Kernel: kernels[0], Interpreted: true}); err != nil {
		t.Fatal(err)
	}
	ports := map[string]*node{
		"unix": el("serial", "type", "unix").with(el("source", "mode", "bind", "path", filepath.Join(dir, "line"))),
		"pty":  el("serial", "type", "pty"),
	}
	for kind, port := range ports {
		virshTest(t, d, el("domain", "type", "qemu").with(txt("name", kind), txt("memory", "256", "unit", "MiB"),
			txt("vcpu", "1"), el("os").with(txt("type", "hvm", "machine", "q35"), el("boot", "dev", "cdrom")),
			el("features").with(el("acpi"), el("apic")), el("cpu", "mode", "maximum"), el("devices").with(port,
				el("disk", "type", "file", "device", "cdrom").with(el("source", "file", iso),
					el("target", "dev", "sda", "bus", "sata"), el("readonly")))).String(), "create", "/dev/stdin")
		defer virshTest(t, d, "", "destroy", kind)
	}
	for kind := range ports {
		s := spec(d, "serial", "0", "wait", "5m")
		s.Arg = kind
		for range 2 { // the second one finds the agent that the first one left
			o := options(t, s)
			e, err := testDriver(t, d).Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			f := e.Facts()
			if !strings.HasPrefix(f.Extra["domain.serial.0"], kind) || f.Settings["serial"] != "0" || !f.Emulated ||
				f.Threads != 1 || f.Extra["line.kind"] == "" {
				t.Errorf("facts: %+v", f)
			}
			conn, err := deploy.Attach(t.Context(), e, o.RunID)
			if err != nil {
				t.Fatal(err)
			}
			if err := trial(t, conn); err != nil {
				t.Error(err)
			}
			conn.Close()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if out := virshTest(t, d, "", "domstate", kind); strings.TrimSpace(out) != "running" {
			t.Errorf("the domain is %s", out)
		}
	}
}
