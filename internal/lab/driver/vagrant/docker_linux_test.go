package vagrant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/sys/proc"
)

// patience bounds every wait. It is long enough for a busy machine.
const patience = 5 * time.Minute

// lack fails the test in CI, and skips it elsewhere.
func lack(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// yard is what all tests with the provider docker share: a daemon, an image in which sshd runs, and what every
// Vagrantfile says of reaching it.
type yard struct {
	daemon *dockertest.Daemon
	common string // a Vagrantfile
}

var theYard struct {
	sync.Once
	*yard
}

// docker makes the yard once.
func docker(t testing.TB) *yard {
	t.Helper()
	for _, p := range []string{"vagrant", "sshd", "ssh-keygen", "busybox", "ldd", "tar"} {
		if _, err := proc.LookPath(p); err != nil {
			lack(t, "%s is not installed", p)
		}
	}
	d := dockertest.Shared(t)
	theYard.Do(func() {
		os.Setenv("DOCKER_HOST", d.Host)
		dir, err := os.MkdirTemp(os.Getenv("HOME"), "yard")
		if err != nil {
			t.Fatal(err)
		}
		key := filepath.Join(dir, "key")
		must(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
		dockertest.Import(t, d.Client(), "sshd", sshImage(t, dir))
		must(t, append(d.Client(), "network", "create", "lab")...)
		y := &yard{daemon: d, common: filepath.Join(dir, "Common")}
		write(t, y.common, fmt.Sprintf(`Vagrant.configure("2") do |config|
  config.vm.guest = :linux
  config.ssh.username = "root"
  config.ssh.private_key_path = '%s'
  config.ssh.insert_key = false
  config.ssh.shell = "sh"
  config.ssh.sudo_command = "%%c"
  config.vm.allow_fstab_modification = false
  config.ssh.proxy_command = "%s busybox nc %%h %%p"
  config.vm.provider "docker" do |d|
    d.create_args = ["--network=lab"]
    d.cmd = ["/bin/sh", "-c", "chmod 600 /etc/ssh/host_key && exec /usr/sbin/sshd -D -e"]
  end
end
`, key, strings.Join(d.OnHost(), " ")))
		theYard.yard = y
	})
	if theYard.yard == nil {
		t.Fatal("the container of the tests could not be made")
	}
	return theYard.yard
}

// sshImage is an image with this machine's sshd, shell and tar with their libraries, and busybox, whose own shell would
// call its own tar, which leaves nothing out.
func sshImage(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	files := map[string][]byte{}
	programs := []string{"/bin/sh"}
	for _, name := range []string{"sshd", "tar"} {
		p, _ := proc.LookPath(name)
		programs = append(programs, p)
	}
	more, _ := filepath.Glob("/usr/lib/openssh/sshd-*") // since OpenSSH 9.8
	for _, p := range append(programs, more...) {
		files[p] = read(p)
		for _, word := range strings.Fields(must(t, "ldd", p)) {
			if strings.HasPrefix(word, "/") {
				files[word] = read(word)
			}
		}
	}
	busybox, _ := proc.LookPath("busybox")
	for _, applet := range []string{"cat", "mkdir", "rm", "chmod", "chown", "uname", "echo", "test", "sleep",
		"ls", "printf", "true", "id", "touch", "grep", "head", "which", "mv", "ln"} {
		files["/bin/"+applet] = read(busybox)
	}
	host := filepath.Join(dir, "host_key")
	must(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", host)
	files["/etc/ssh/host_key"] = read(host)
	files["/etc/ssh/sshd_config"] = []byte("HostKey /etc/ssh/host_key\nAuthorizedKeysFile /etc/ssh/keys\n" +
		"StrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n")
	files["/etc/ssh/keys"] = read(filepath.Join(dir, "key.pub"))
	files["/etc/passwd"] = []byte("root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n")
	files["/etc/group"] = []byte("root:x:0:\nnogroup:x:65534:\n")
	for _, folder := range []string{"/run/sshd", "/root", "/tmp", "/var/tmp", "/var/empty"} {
		files[folder+"/.keep"] = nil
	}
	return files
}

func must(t testing.TB, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := proc.Run(ctx, nil, argv...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// project makes a project whose Vagrantfile says what is common and more.
func (y *yard) project(t testing.TB, more string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "Vagrantfile"),
		"load '"+y.common+"'\nVagrant.configure(\"2\") do |config|\n"+more+"end\n")
	return dir
}

// oneMachine is a machine with two folders of its own.
const oneMachine = `  config.vm.synced_folder ".", "/vagrant"
  config.vm.synced_folder "src", "/srv/src"
  config.vm.provider("docker") { |d| d.image, d.has_ssh = "sshd", true }
`

// vagrant runs Vagrant in a project.
func vagrant(t testing.TB, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := (&tool{dir: dir}).run(ctx, args...)
	if err != nil {
		c, _ := errors.AsType[*callError](err)
		t.Fatalf("%v\n%s", err, c.said)
	}
	return string(out)
}

// up brings a project up until the test ends.
func up(t testing.TB, dir string, args ...string) {
	t.Helper()
	t.Cleanup(func() { vagrant(t, dir, "destroy", "--force") })
	began := time.Now()
	vagrant(t, dir, append([]string{"up", "--provider", "docker"}, args...)...)
	t.Logf("vagrant up took %v", time.Since(began).Round(100*time.Millisecond))
}

// containers are the daemon's containers.
func (y *yard) containers(t testing.TB) []string {
	t.Helper()
	all, err := y.daemon.Containers()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func options(t testing.TB, s env.Spec, mounts ...env.Spec) env.Options {
	s.Name, s.Driver = "m", "vagrant"
	return env.Options{Spec: s, Mounts: mounts, RunID: fmt.Sprintf("t%d", time.Now().UnixNano()), Dir: t.TempDir(),
		Agents: agenttest.Store(t), Log: slog.New(slog.DiscardHandler)}
}

// open opens a machine until the test ends.
func open(t testing.TB, o env.Options) env.Env {
	t.Helper()
	e, err := opened(o)
	if err != nil {
		x, _ := errors.AsType[*env.OpenError](err)
		t.Fatalf("%v\n%s", err, x.Evidence)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func opened(o env.Options) (env.Env, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return driver{}.Open(ctx, o)
}

// TestDockerContract is the contract of all drivers, with a project's machine that is up.
func TestDockerContract(t *testing.T) {
	t.Parallel() // with the test of libvirt
	y := docker(t)
	dir := y.project(t, oneMachine)
	up(t, dir)
	spec := env.Spec{Driver: "vagrant", Arg: dir}
	envtest.Run(t, driver{}, envtest.Options{
		Spec: spec,
		Impossible: []env.Spec{
			{Driver: "vagrant", Arg: "/nowhere-at-all"},
			{Driver: "vagrant", Arg: dir, Settings: map[string]string{"machine": "nobody"}},
			{Driver: "vagrant", Arg: dir, Settings: map[string]string{"provider": "virtualbox"}},
		},
		Mounts: []env.Spec{{Name: "vagrant", Driver: synced, Arg: "/vagrant"},
			{Name: "src", Driver: synced, Arg: "/srv/src"}, {Name: "root", Driver: "dir", Arg: "/var"}},
		Broken:      []env.Spec{{Name: "none", Driver: synced, Arg: "/nowhere"}},
		CancelAfter: []time.Duration{0, 300 * time.Millisecond, 2 * time.Second},
		Patience:    patience,
		Leaks: func(t testing.TB, runID string) (left []string) {
			out := must(t, append(y.daemon.Client(), "exec", container(t, y), "ls", "-a", "/var/tmp", "/tmp",
				"/srv/src")...)
			for name := range strings.FieldsSeq(out) {
				if strings.Contains(name, runID) {
					left = append(left, "in the container: "+name)
				}
			}
			return left
		},
	})
	if len(y.containers(t)) != 1 {
		t.Errorf("containers %v", y.containers(t))
	}
}

func container(t testing.TB, y *yard) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(y.containers(t)[0], "/"), " ")
	return name
}
