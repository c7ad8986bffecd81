package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/sys/proc"
	"tare/internal/version"
)

// simulated plays tare on a host: it answers what the controller's scripts ask, works for a while by sleeping, and
// leaves a result. Each time it works is a line in the folder of starts. As tare does, it works only if nobody else
// does in the folder of the part: a controller may be stopped between its order and the answer, and give the order
// again.
const simulated = `#!/bin/sh
case "$1 $2" in
"agent --version") echo "tare-agent 0 build %s $(uname -s | tr A-Z a-z)/%s" ;;
"fleet shard")
	mkdir part.lock 2>/dev/null || exit 1
	echo $$ >pid
	while [ $# -gt 1 ]; do [ "$1" = --host ] && echo started >>"%s/$2"; shift; done
	sleep %d
	cp "%s" part.new && mv part.new part.tare
	;;
"fleet held") kill -0 "$(cat pid)" 2>/dev/null ;;
esac
`

// TestManyHostsBySSH has many simulated hosts behind a real sshd carry out their parts, with the real client, while the
// controller is stopped and started. None is begun twice and none is lost. It logs what the controller costs:
//
//	TARE_FLEET_HOSTS=1000 TARE_FLEET_SECONDS=180 go test ./internal/run/dispatch -run ManyHostsBySSH -v -timeout 30m
func TestManyHostsBySSH(t *testing.T) {
	hosts, seconds, every, atOnce := 12, 1, 500*time.Millisecond, 12
	if testing.Short() {
		hosts = 4
	}
	if n, err := strconv.Atoi(os.Getenv("TARE_FLEET_HOSTS")); err == nil {
		hosts, seconds, every, atOnce = n, 180, 20*time.Second, 32 // what tare fleet run does
	}
	if n, err := strconv.Atoi(os.Getenv("TARE_FLEET_SECONDS")); err == nil {
		seconds = n
	}
	s := startSSHD(t)
	dir, there, starts := t.TempDir(), t.TempDir(), t.TempDir()
	program := filepath.Join(s.dir, "tare")
	// What is fetched has to be a bundle.
	sample, err := filepath.Abs("../../../testdata/bundles/mounts.tare")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(simulated, version.Build, runtime.GOARCH, starts, seconds, sample)
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	c := Config{Dir: dir, Name: "ssh", ID: "many", Plan: "p", AtOnce: atOnce, Together: 16, Every: every,
		Patience: 5 * time.Minute, Prepare: func(string, *State) error { return nil }}
	e := &SSH{ID: "many", Dir: dir, Plan: []byte("plan\n"), Parts: hosts, Specs: map[int]env.Spec{},
		Tare: map[deploy.Platform]string{{OS: "linux", Arch: runtime.GOARCH}: program}}
	for i := range hosts {
		c.Hosts = append(c.Hosts, fmt.Sprintf("n%04d", i))
		e.Specs[i+1] = env.Spec{Driver: "ssh", Arg: "127.0.0.1", Settings: map[string]string{"user": "root",
			"port": strconv.Itoa(s.port), "identity": s.file("user_key"), "known_hosts": s.file("known_hosts"),
			"config": s.file("ssh_config"), "dir": there}}
	}
	c.Engine = e
	clients := watchClients(t)
	before, began := usage(t), time.Now()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak of memory begins anew
	for calls := 1; ; calls++ {
		ctx, cancel := context.WithCancel(t.Context())
		waiting, done := 0, 0
		c.Tell = func(p Part) {
			switch p.Phase {
			case Waiting:
				waiting++
			case Done:
				done++
			}
			if calls == 1 && waiting >= min(hosts, atOnce)/2 || calls == 2 && done >= hosts/4 {
				cancel()
			}
		}
		state, err := Run(ctx, c)
		stopped := ctx.Err() != nil
		cancel()
		if err != nil && stopped && calls < 4 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range state.Parts {
			if p := &state.Parts[i]; p.Phase != Done {
				t.Errorf("%s is %s after %d tries: %s", p.Host, p.Phase, p.Tries, p.Detail)
			}
		}
		break
	}
	took, used := time.Since(began), usage(t)-before
	for _, h := range c.Hosts {
		said, err := os.ReadFile(filepath.Join(starts, h))
		if n := bytes.Count(said, []byte("started")); err != nil || n != 1 {
			t.Errorf("%s began %d times, %v", h, n, err)
		}
	}
	if left, err := os.ReadDir(there); err != nil || len(left) > 0 {
		t.Errorf("left on the hosts: %d folders, %v", len(left), err)
	}
	own, child := peak(t, "self"), clients()
	t.Logf("%d hosts, %d at once, each at work for %d s: %.0f s in all", hosts, atOnce, seconds, took.Seconds())
	t.Logf("controller with its ssh: %.1f s of processor time, %.0f %% of one core", used, 100*used/took.Seconds())
	t.Logf("controller: at most %d MB, and each of up to %d ssh at a time at most %d MB", own, atATime, child)
	if child == 0 {
		t.Error("no ssh was seen")
	}
	if own+atATime*child > 300 {
		t.Errorf("it had %d MB and %d for each of %d ssh, more than 300 MB", own, child, atATime)
	}
}

// usage is the processor time of this process and of its children that have ended, s. The server's is not in it.
func usage(t *testing.T) (seconds float64) {
	t.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		seconds += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	return seconds
}

// peak is the most memory that a process had, MB; 0 if it is gone.
func peak(t *testing.T, pid string) (mb int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, _ := strconv.Atoi(f[1])
			mb = kib * 1024 / 1_000_000
		}
	}
	return mb
}

// watchClients looks at the ssh that this process starts, until the function that it returns is called, which returns
// the most memory that one of them had, MB. What the kernel says of children that ended has the memory of whoever
// started them.
func watchClients(t *testing.T) (most func() int) {
	t.Helper()
	stop, all := make(chan struct{}), make(chan int)
	go func() {
		mb := 0
		for {
			select {
			case <-stop:
				all <- mb
				return
			case <-time.After(20 * time.Millisecond):
			}
			for _, pid := range proc.Children(os.Getpid()) {
				if proc.Name(pid) == "ssh" {
					mb = max(mb, peak(t, strconv.Itoa(pid)))
				}
			}
		}
	}()
	return func() int { close(stop); return <-all }
}

// sshd is a real server on a port of the loopback.
type sshd struct {
	dir  string
	port int
}

func (s *sshd) file(name string) string { return filepath.Join(s.dir, name) }

// startSSHD starts a server with keys of its own.
func startSSHD(t *testing.T) *sshd {
	t.Helper()
	program, err := exec.LookPath("sshd")
	for _, name := range []string{"ssh", "ssh-keygen"} {
		if _, e := exec.LookPath(name); e != nil {
			err = e
		}
	}
	if err != nil || os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("this test needs root, ssh and sshd: %v", err)
		}
		t.Skipf("needs root, ssh and sshd: %v", err)
	}
	s := &sshd{dir: t.TempDir()}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // its folder for the separation of privileges
		t.Fatal(err)
	}
	for _, key := range []string{"host_key", "user_key"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			s.file(key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v %s", err, out)
		}
	}
	public, err := os.ReadFile(s.file("host_key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // another may take a port before sshd does
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.port = l.Addr().(*net.TCPAddr).Port
		l.Close()
		for name, text := range map[string]string{
			"known_hosts": fmt.Sprintf("[127.0.0.1]:%d %s", s.port, public), "ssh_config": "Host *\n",
			"sshd_config": fmt.Sprintf("ListenAddress 127.0.0.1:%d\nHostKey %s\nPidFile none\nAuthorizedKeysFile %s\n"+
				"StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"+
				"PermitRootLogin yes\nUseDNS no\nMaxStartups 1000\n", s.port, s.file("host_key"),
				s.file("user_key.pub")),
		} {
			if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		daemon, err := proc.Start(proc.Command(context.Background(), program, "-D", "-e", "-f", s.file("sshd_config")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { daemon.Close() })
		for !bytes.Contains(daemon.Stderr(), []byte("Server listening on 127.0.0.1 port")) {
			select {
			case <-daemon.Done():
			case <-time.After(20 * time.Millisecond):
				continue
			case <-t.Context().Done():
				t.Fatal("sshd does not listen")
			}
			break
		}
		select {
		case <-daemon.Done():
			continue
		default:
			return s
		}
	}
	t.Fatal("sshd does not start")
	return nil
}
