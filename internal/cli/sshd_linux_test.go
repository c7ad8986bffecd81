package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"os"

	"tare/internal/sys/proc"
)

// sshd is a real server on a loopback port with keys of its own.
type sshd struct {
	lab    *lab
	dir    string
	port   int
	daemon *proc.Stream
}

func (l *lab) sshd() *sshd {
	l.Helper()
	needRoot(l)
	need(l, "ssh", "sshd", "ssh-keygen")
	s := &sshd{lab: l, dir: filepath.Join(l.dir, "ssh")}
	for _, d := range []string{s.dir, "/run/sshd"} { // the latter is for its separation of privileges
		if err := os.MkdirAll(d, 0o755); err != nil {
			l.Fatal(err)
		}
	}
	for _, key := range []string{"host_key", "user_key"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			s.file(key)).CombinedOutput(); err != nil {
			l.Fatalf("ssh-keygen: %v %s", err, out)
		}
	}
	public, err := os.ReadFile(s.file("host_key.pub"))
	if err != nil {
		l.Fatal(err)
	}
	program, err := exec.LookPath("sshd")
	if err != nil {
		l.Fatal(err)
	}
	for range 5 { // another may take a port before sshd does
		s.port = freePort(l)
		for name, text := range map[string]string{
			"known_hosts": fmt.Sprintf("[127.0.0.1]:%d %s", s.port, public),
			"ssh_config":  "Host *\n",
			"sshd_config": strings.Join([]string{
				"ListenAddress 127.0.0.1:" + strconv.Itoa(s.port),
				"HostKey " + strconv.Quote(s.file("host_key")), "PidFile none",
				"AuthorizedKeysFile " + strconv.Quote(s.file("user_key.pub")), "StrictModes no",
				"PasswordAuthentication no",
				"KbdInteractiveAuthentication no", "UsePAM no", "PermitRootLogin yes", "UseDNS no",
				// What the user's own shell runs at a login takes time, and may wait for a lock of another login's.
				"SetEnv " + strconv.Quote("HOME="+s.file("")),
			}, "\n") + "\n",
		} {
			l.file("ssh/"+name, text)
		}
		if s.run(program) {
			return s
		}
	}
	l.Fatalf("sshd does not start:\n%s", s.daemon.Diagnose())
	return nil
}

func freePort(l *lab) int {
	l.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// run starts the server and tells whether it listens. It must be called by its full path, with which it starts itself
// again.
func (s *sshd) run(program string) bool {
	s.lab.Helper()
	d, err := proc.Start(proc.Command(context.Background(), program, "-D", "-e", "-f", s.file("sshd_config")))
	if err != nil {
		s.lab.Fatal(err)
	}
	s.daemon = d
	s.lab.Cleanup(func() { d.Close() })
	// Whoever answers at the port, it is sshd when sshd says that it listens.
	for end := time.Now().Add(patience); !bytes.Contains(d.Stderr(),
		[]byte("Server listening on 127.0.0.1 port")); time.Sleep(20 * time.Millisecond) {
		select {
		case <-d.Done():
			return false
		default:
		}
		if time.Now().After(end) {
			s.lab.Fatalf("sshd does not listen:\n%s", d.Diagnose())
		}
	}
	return true
}

func (s *sshd) file(name string) string { return filepath.Join(s.dir, name) }

// spec is the environment that logs in as a user.
func (s *sshd) spec(user string) string {
	return fmt.Sprintf("ssh:%s@127.0.0.1:%d?identity=%s&known_hosts=%s&config=%s", user, s.port, s.file("user_key"),
		s.file("known_hosts"), s.file("ssh_config"))
}

// below returns the server's descendants whose command lines hold the word.
func (s *sshd) below(word string) []int {
	var pids []int
	parents := map[int]bool{s.daemon.Pid(): true}
	all := tasks()
	for range 10 { // generations
		for _, t := range all {
			if parents[t.parent] {
				parents[t.pid] = true
			}
		}
	}
	for _, t := range all {
		if parents[t.pid] && t.pid != s.daemon.Pid() && strings.Contains(t.line, word) {
			pids = append(pids, t.pid)
		}
	}
	return pids
}

// kill ends the server and every connection at once.
func (s *sshd) kill() {
	s.lab.Helper()
	connections := s.below("sshd: ")
	if len(connections) == 0 {
		s.lab.Fatal("no connection to be cut: this test looks in the wrong place")
	}
	for _, pid := range connections {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	s.daemon.Kill()
}
