package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// server is a real sshd on a port of the loopback, with its own keys.
type server struct {
	dir    string
	port   int
	daemon *proc.Stream
}

// startServer starts sshd with additional lines of configuration.
func startServer(t *testing.T, config ...string) *server {
	t.Helper()
	sshd, err := proc.LookPath("sshd")
	if err == nil {
		_, err = proc.LookPath("ssh")
	}
	if err != nil || os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("this test needs root, ssh and sshd (apt-get install openssh-server): %v", err)
		}
		t.Skipf("needs root, ssh and sshd (apt-get install openssh-server): %v", err)
	}
	s := &server{dir: t.TempDir()}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd's directory for privilege separation
		t.Fatal(err)
	}
	for _, key := range []string{"host_key", "user_key"} {
		if _, err := proc.Run(t.Context(), nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			s.file(key)); err != nil {
			t.Fatal(err)
		}
	}
	s.write(t, "authorized_keys", string(s.read(t, "user_key.pub")))
	s.write(t, "ssh_config", "Host *\n")
	for range 5 { // another may take a port before sshd does
		s.port = freePort(t)
		s.trust(t, "host_key.pub")
		s.write(t, "sshd_config", strings.Join(append([]string{
			"ListenAddress 127.0.0.1:" + strconv.Itoa(s.port),
			"HostKey " + strconv.Quote(s.file("host_key")), "PidFile none",
			"AuthorizedKeysFile " + strconv.Quote(s.file("authorized_keys")), "StrictModes no",
			"PasswordAuthentication no",
			"KbdInteractiveAuthentication no", "UsePAM no", "PermitRootLogin yes", "LogLevel INFO", "UseDNS no",
			// What the user's own shell runs at a login takes time, and may wait for a lock of another login's.
			"SetEnv " + strconv.Quote("HOME="+s.file("")),
		}, config...), "\n")+"\n")
		if s.run(t, sshd) {
			return s
		}
	}
	t.Fatalf("sshd does not start:\n%s", s.daemon.Diagnose())
	return nil
}

// patience bounds every wait. It is long enough for a busy machine.
const patience = 3 * time.Minute

// run starts the daemon and tells whether it listens. It must be called by its full path, because it starts itself
// again by that.
func (s *server) run(t *testing.T, sshd string) bool {
	t.Helper()
	d, err := proc.Start(proc.Command(context.Background(), sshd, "-D", "-e", "-f", s.file("sshd_config")))
	if err != nil {
		t.Fatal(err)
	}
	s.daemon = d
	t.Cleanup(func() {
		d.Close()
		if t.Failed() {
			said := d.Stderr()
			t.Logf("sshd said at the end:\n%s", said[max(0, len(said)-2000):])
		}
	})
	// Another program may answer at the port; only sshd's own message says that sshd listens.
	for end := time.Now().Add(patience); !bytes.Contains(d.Stderr(),
		[]byte("Server listening on 127.0.0.1 port")); time.Sleep(20 * time.Millisecond) {
		select {
		case <-d.Done():
			return false
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("sshd does not listen:\n%s", d.Diagnose())
		}
	}
	return true
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// deafPort is a port on which no program listens, or can listen, during the test.
func deafPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return at.(*unix.SockaddrInet4).Port
}

func (s *server) file(name string) string { return filepath.Join(s.dir, name) }

func (s *server) read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(s.file(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s *server) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// trust makes the public key in a file the only known one for the server.
func (s *server) trust(t *testing.T, key string) {
	t.Helper()
	s.write(t, "known_hosts", fmt.Sprintf("[127.0.0.1]:%d %s", s.port, s.read(t, key)))
}

// spec is the environment on this server, with some settings changed.
func (s *server) spec(settings ...string) env.Spec {
	all := map[string]string{"identity": s.file("user_key"), "known_hosts": s.file("known_hosts"),
		"config": s.file("ssh_config")}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = settings[i+1]
	}
	return env.Spec{Name: "far", Driver: "ssh", Arg: "root@127.0.0.1:" + strconv.Itoa(s.port), Settings: all}
}

func TestContract(t *testing.T) {
	s := startServer(t)
	nobody := s.spec("port", strconv.Itoa(deafPort(t)))
	envtest.Run(t, driver{}, envtest.Options{
		Spec: s.spec(),
		Mounts: []env.Spec{{Name: "here", Driver: "dir", Arg: t.TempDir()},
			{Name: "shm", Driver: "dir", Arg: "/dev/shm"}},
		Broken: []env.Spec{{Name: "no", Driver: "dir", Arg: "/nowhere-at-all"},
			{Name: "relative", Driver: "dir", Arg: "x"}},
		Impossible: []env.Spec{
			nobody, s.spec("dir", "/proc"), s.spec("identity", "/nowhere/key"), s.spec("user", "tare-no-such-user"),
			{Name: "x", Driver: "ssh", Arg: "-oProxyCommand=id"},
		},
	})
}

// Login scripts that print to standard output are common. The login shell here is not a POSIX shell.
func TestContractNoisyLogin(t *testing.T) {
	s := startServer(t)
	s.write(t, "noisy", "#!/bin/sh\nprintf 'Welcome!\\r\\n\\033[31mLinux x86_64 i686\\033[0m\\n'\n"+
		"head -c 3000 /dev/zero; echo\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n")
	if err := os.Chmod(s.file("noisy"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(t, "authorized_keys", `command="'`+s.file("noisy")+`'" `+string(s.read(t, "user_key.pub")))
	envtest.Run(t, driver{}, envtest.Options{Spec: s.spec(), Impossible: []env.Spec{s.spec("dir", "/nowhere-at-all")}})
}

func (s *server) options(t *testing.T, spec env.Spec) env.Options {
	return env.Options{Spec: spec, RunID: fmt.Sprintf("ssh%d-%d", os.Getpid(), time.Now().UnixNano()%1e6),
		Dir: t.TempDir(), Agents: agenttest.Store(t)}
}

// refused opens the environment and expects an error with these words.
func (s *server) refused(t *testing.T, spec env.Spec, meaning, remedy, evidence string) {
	t.Helper()
	e, err := driver{}.Open(t.Context(), s.options(t, spec))
	if err == nil {
		e.Close()
		t.Fatal("it opened")
	}
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if !strings.Contains(x.Err.Error(), meaning) || !strings.Contains(x.Remedy, remedy) ||
		!bytes.Contains(x.Evidence, []byte(evidence)) {
		t.Errorf("error %v\nremedy %s\nevidence %s\nwant %q, %q and %q", x.Err, x.Remedy, x.Evidence, meaning, remedy,
			evidence)
	}
}

func TestHostKeys(t *testing.T) {
	s := startServer(t)
	s.write(t, "known_hosts", "")
	s.refused(t, s.spec(), "the host key of 127.0.0.1 is not known", "compare the fingerprint",
		"Host key verification failed")
	e, err := driver{}.Open(t.Context(), s.options(t, s.spec("host_key", "new")))
	if err != nil {
		t.Fatalf("accept a new key: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.Contains(s.read(t, "known_hosts"), []byte("ssh-ed25519")) {
		t.Error("the accepted key was not kept")
	}
	s.trust(t, "user_key.pub")
	for _, policy := range []string{"known", "new"} {
		s.refused(t, s.spec("host_key", policy), "is not the one known", "ssh-keygen -R '[127.0.0.1]:",
			"IDENTIFICATION HAS CHANGED")
	}
	// A configuration that disables the check has no effect.
	s.write(t, "ssh_config", "Host *\n StrictHostKeyChecking no\n")
	s.refused(t, s.spec(), "is not the one known", "", "IDENTIFICATION HAS CHANGED")
}

func TestRefusals(t *testing.T) {
	s := startServer(t)
	s.refused(t, s.spec("port", strconv.Itoa(deafPort(t))), "no SSH server listens", "start sshd", "Connection refused")
	s.refused(t, s.spec("identity", s.file("host_key")), "does not accept this user", "identity=FILE",
		"Permission denied (publickey)")
	s.refused(t, s.spec("dir", "/proc"), "", "dir=PATH", "tare: no directory can take the agent, tried: /proc")
	s.write(t, "ssh_config", "NoSuchOption yes\n")
	s.refused(t, s.spec(), "does not know an option", "correct the file", "nosuchoption")
}

// mountTmpfs mounts a small file system for faults; only this test uses it.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := proc.Run(t.Context(), nil, "mount", "-t", "tmpfs", "-o", options, "tare-test", dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

func TestUnfitDirectories(t *testing.T) {
	s := startServer(t)
	noexec, small, readOnly := mountTmpfs(t, "size=64m,noexec"), mountTmpfs(t, "size=1m"), mountTmpfs(t, "size=1m,ro")
	s.refused(t, s.spec("dir", noexec), "", "noexec", "no program may run in "+noexec)
	s.refused(t, s.spec("dir", small), "", "free some space", "No space left on device")
	s.refused(t, s.spec("dir", readOnly), "", "dir=PATH", "Read-only file system")
	for _, dir := range []string{noexec, small} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v %v", dir, left, err)
		}
	}
}

func TestFactsTellTheConnection(t *testing.T) {
	s := startServer(t)
	e, err := driver{}.Open(t.Context(), s.options(t, s.spec()))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	f := e.Facts()
	if f.Extra["ssh.port"] != strconv.Itoa(s.port) || f.Extra["ssh.user"] != "root" ||
		f.Extra["ssh.hostname"] != "127.0.0.1" {
		t.Errorf("facts %v", f.Extra)
	}
}

// Network work reaches the peer where it listens for this host.
func TestNetworkOverSSH(t *testing.T) {
	s := startServer(t)
	o := s.options(t, s.spec("peer", "127.0.0.2"))
	e, conn := envtest.Open(t, driver{}, o)
	envtest.Network(t, e, conn, o.Agents)
	for v, want := range map[string]string{"far": "not a numeric address", "0.0.0.0": "not a numeric address"} {
		if err := checkPeer(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("peer=%s: %v", v, err)
		}
	}
	if err := reach(s.spec()); err == nil || !strings.Contains(err.Error(), "use peer=ADDRESS") {
		t.Errorf("without a way: %v", err)
	}
}

// The server is killed during a trial, with all connections.
func TestServerKilledMidTrial(t *testing.T) {
	s := startServer(t)
	o := s.options(t, s.spec())
	e, conn := envtest.Open(t, driver{}, o)
	done := make(chan error, 1)
	go func() {
		_, err := conn.Run(context.Background(),
			wire.Run{Job: wire.Job{Kind: "null",
				Params: map[string]string{"spin": "1000", "noise": "0", "fail": "none", "hang": "0s", "check": ""},
				Cell:   "c"}, Work: 1 << 45})
		done <- err
	}()
	time.Sleep(500 * time.Millisecond)
	// First the processes of the connections: they are not in the daemon's process group.
	for _, pid := range children(t, s.daemon.Pid()) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	s.daemon.Close()
	select {
	case err := <-done:
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != deploy.Died || !strings.Contains(f.Evidence, "127.0.0.1") {
			t.Errorf("%T %+v", err, err)
		}
	case <-time.After(patience):
		t.Fatal("the trial did not end with the connection")
	}
	conn.Close()
	if err := e.Close(); err == nil || !strings.Contains(err.Error(), "at the remote side") {
		t.Errorf("Close must say that it could not look after the far side: %v", err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		left, _ := filepath.Glob("/var/tmp/*" + o.RunID + "*")
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("left behind: %v", left)
		}
	}
}

// children lists a process's children.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, n)
	}
	if len(pids) == 0 {
		t.Fatalf("process %d has no children: the connection is not where this test looks", pid)
	}
	return pids
}
