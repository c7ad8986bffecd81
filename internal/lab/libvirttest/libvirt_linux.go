package libvirttest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/nstest"
	"tare/internal/sys/proc"
	"tare/internal/sys/shell"
)

// Daemon is a libvirtd for tests.
type Daemon struct {
	// URI connects to it from outside its namespaces, too: virsh --connect URI.
	URI string
	// Dir has its files. Other folders of this machine are also the same on both sides.
	Dir string

	space  *nstest.Space
	daemon *proc.Stream
}

var daemons = nstest.Daemons[*Daemon]{Name: "libvirtd", Start: start}

// Share lets all tests of a package use one daemon, which stop ends. TestMain calls it.
func Share() (stop func()) { return daemons.Share() }

// Shared returns a running daemon. If TestMain called Share, all tests of the package share it; otherwise it ends with
// the test.
func Shared(t testing.TB) *Daemon {
	t.Helper()
	return daemons.Shared(t)
}

// New returns a running daemon that ends with the test. It is for tests that kill the daemon.
func New(t testing.TB) *Daemon {
	t.Helper()
	return daemons.New(t)
}

// programs are the programs of a separate daemon with networks.
var programs = []string{"libvirtd", "virsh", "dnsmasq", "qemu-system-x86_64", "nsenter", "ip"}

func start(t testing.TB) *Daemon {
	t.Helper()
	missing := ""
	for _, p := range programs {
		if _, err := proc.LookPath(p); err != nil {
			missing = p + " is not installed"
		}
	}
	if os.Geteuid() != 0 {
		missing = "a separate libvirtd needs root"
	}
	if missing != "" && os.Getenv("TARE_REQUIRE") == "" {
		t.Skip(missing)
	}
	if missing != "" {
		t.Fatalf("%s, and TARE_REQUIRE is set", missing)
	}
	// Not t.TempDir: the path of a Unix socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "tare-libvirtd-")
	if err != nil {
		t.Fatal(err)
	}
	socket := url.URL{Path: dir + "/run/libvirt-sock"}
	d := &Daemon{Dir: dir, URI: "qemu:///system?socket=" + socket.EscapedPath()}
	if err := d.start(); err != nil {
		d.Close()
		t.Fatalf("start libvirtd: %v", err)
	}
	return d
}

// The folders that libvirt's programs use, and what stands for them in the namespaces.
var folders = []struct{ own, libvirts string }{
	{"etc", "/etc/libvirt"}, {"run", "/run/libvirt"}, {"lib", "/var/lib/libvirt"}, {"cache", "/var/cache/libvirt"},
	{"log", "/var/log/libvirt"},
}

// Everybody who reaches the socket may do everything, machines run as root, and nothing of systemd is used: neither
// its cgroups, nor virtlogd, which is a service of its own.
const (
	daemonConf = `auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
`
	qemuConf = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
stdio_handler = "file"
`
)

func (d *Daemon) start() error {
	// A copy of /etc stands for it. A file of it that is mounted over would come back as soon as another program
	// replaces it outside, as useradd does with passwd.
	etc := filepath.Join(d.Dir, "all")
	if _, err := proc.Run(context.Background(), nil, "cp", "-a", "/etc", etc); err != nil {
		return err
	}
	setup := "mount -t tmpfs tmpfs /run && mount --bind " + shell.Quote(etc) + " /etc"
	for _, f := range folders {
		own := filepath.Join(d.Dir, f.own)
		if err := os.Mkdir(own, 0o755); err != nil {
			return err
		}
		setup += fmt.Sprintf(" && mkdir -p %s && mount --bind %s %[1]s", f.libvirts, shell.Quote(own))
	}
	for name, text := range map[string]string{"libvirtd.conf": daemonConf, "qemu.conf": qemuConf} {
		if err := os.WriteFile(filepath.Join(d.Dir, "etc", name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	// libvirtd looks for this user before it reads which one it shall take. Debian makes it with a package that also
	// starts a libvirtd on the machine itself.
	for name, line := range map[string]string{
		"passwd": "libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin\n",
		"group":  "libvirt-qemu:x:64055:\n",
	} {
		own := filepath.Join(etc, name)
		text, err := os.ReadFile(own)
		if err != nil {
			return err
		}
		if err := os.WriteFile(own, append(text, line...), 0o644); err != nil {
			return err
		}
	}
	space, err := nstest.New(setup)
	if err != nil {
		return err
	}
	d.space = space
	return d.Run()
}

// Run starts the daemon, which must not be running, and returns when it answers. After Kill that is like a restart of
// libvirt's service.
func (d *Daemon) Run() error {
	path, err := proc.LookPath("libvirtd")
	if err != nil {
		return err
	}
	log := filepath.Join(d.Dir, "said")
	d.daemon, err = d.space.Start(log, path, "--config", "/etc/libvirt/libvirtd.conf", "--pid-file",
		filepath.Join(d.Dir, "pid"))
	if err != nil {
		return err
	}
	return nstest.Await(d.daemon, log, func(ctx context.Context) error {
		_, err := proc.Run(ctx, nil, "virsh", "--connect", d.URI, "version")
		return err
	})
}

// Inside is the argv that runs words in the network of the daemon, where its machines are reached.
func (d *Daemon) Inside(words ...string) []string { return append(d.space.Network(), words...) }

// callTime bounds one call of virsh.
const callTime = 3 * time.Minute

// Domains are the names of all its machines, running or not, sorted.
func (d *Daemon) Domains() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	out, err := proc.Run(ctx, nil, "virsh", "--connect", d.URI, "list", "--all", "--name")
	names := strings.Fields(string(out))
	slices.Sort(names)
	return names, err
}

// Kill kills the daemon with SIGKILL; its machines go on.
func (d *Daemon) Kill() error { return d.space.Signal(d.daemon, filepath.Join(d.Dir, "pid"), "KILL") }

// Stop stops the daemon like its service would be stopped; its machines go on.
func (d *Daemon) Stop() error { return d.space.Signal(d.daemon, filepath.Join(d.Dir, "pid"), "TERM") }

// Close ends all processes of the daemon's namespaces and removes its files.
func (d *Daemon) Close() error {
	if d.space != nil {
		if err := d.space.Close(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	if d.daemon != nil {
		d.daemon.Close()
	}
	return os.RemoveAll(d.Dir)
}
