package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// fleetPlan is what the hosts of a fleet do in tests: some seconds of work that nobody has to look at.
func fleetPlan(blocks int) string {
	return fmt.Sprintf(`name: nodes
baseline: host
trial: 50ms
blocks: %d
environments:
  host: local
  same: local
workloads:
  - "null"
`, blocks)
}

// sshHost is a host with a server of its own on another port, which sees some things otherwise than this machine.
type sshHost struct {
	*sshd
	program string
}

// host makes one with the keys of another server, whose clients know it as well.
func (s *sshd) host(name string) *sshHost {
	l := s.lab
	l.Helper()
	program, err := exec.LookPath("sshd")
	if err != nil {
		l.Fatal(err)
	}
	h := &sshHost{sshd: &sshd{lab: l, dir: filepath.Join(l.dir, name), port: freePort(l)}, program: program}
	if err := os.CopyFS(h.dir, os.DirFS(s.dir)); err != nil {
		l.Fatal(err)
	}
	for _, file := range []string{"sshd_config", "known_hosts"} {
		text, err := os.ReadFile(s.file(file))
		if err != nil {
			l.Fatal(err)
		}
		was, is := fmt.Sprintf("127.0.0.1:%d", s.port), fmt.Sprintf("127.0.0.1:%d", h.port)
		if file == "known_hosts" {
			was, is = fmt.Sprintf("[127.0.0.1]:%d ", s.port), fmt.Sprintf("[127.0.0.1]:%d ", h.port)
			known, err := os.OpenFile(s.file(file), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				l.Fatal(err)
			}
			line, _, _ := strings.Cut(string(text), "\n")
			_, err = known.WriteString(strings.ReplaceAll(line, was, is) + "\n")
			if err := known.Close(); err != nil {
				l.Fatal(err)
			}
			if err != nil {
				l.Fatal(err)
			}
			continue
		}
		l.file(name+"/"+file, strings.ReplaceAll(string(text), was, is))
	}
	if err := os.Chmod(h.file("host_key"), 0o600); err != nil {
		l.Fatal(err)
	}
	return h
}

// boot starts the host: script runs as its first process, in namespaces of its own, and becomes the server. It ends,
// and everything that runs there with it, when its daemon is killed, as in a power cut.
func (h *sshHost) boot(script string, args ...string) {
	l := h.lab
	l.Helper()
	argv := append([]string{"unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=KILL",
		"--mount-proc", "sh", "-c", script + ` && exec "$0" -D -e -f "$1"`, h.program, h.file("sshd_config")}, args...)
	h.daemon = l.daemon("sshd of "+filepath.Base(h.dir), "", argv...)
	l.await("the server of "+filepath.Base(h.dir), func() bool {
		return bytes.Contains(h.daemon.Stderr(), []byte("Server listening on 127.0.0.1 port"))
	})
}

// options are the settings by which a fleet's controller reaches hosts of this server and of those made of it.
func (s *sshd) options(dir string) string {
	return fmt.Sprintf("identity=%s&known_hosts=%s&config=%s&dir=%s", s.file("user_key"), s.file("known_hosts"),
		s.file("ssh_config"), dir)
}

// fleet is the command that has the hosts of the inventory carry out a plan, below a folder of theirs.
func (s *sshd) fleet(plan, out, dir string) []string {
	return []string{"fleet", "run", plan, "-o", out, "--hosts", "inventory.ini", "--on", "ssh", "--by", "name",
		"--every", "200ms", "--ssh", s.options(dir)}
}

// inventory writes hosts by their ports.
func (l *lab) inventory(ports map[string]int) {
	l.Helper()
	text := ""
	for name, port := range ports {
		text += name + " ansible_port=" + strconv.Itoa(port) + "\n"
	}
	l.file("inventory.ini", text+"[all:vars]\nansible_host=127.0.0.1\nansible_user=root\n")
}
