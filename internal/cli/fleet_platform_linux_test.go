package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFleetOfOtherPlatforms has a host that says it is another platform. It is named with what to do, keeps no other
// waiting, and is measured once there is a program for it. That host is this machine: only its uname is another.
func TestFleetOfOtherPlatforms(t *testing.T) {
	l := newLab(t)
	s := l.sshd()
	program, err := exec.LookPath("sshd")
	if err != nil {
		t.Fatal(err)
	}
	bin := l.folder("bin")
	l.file("bin/uname", "#!/bin/sh\necho FreeBSD "+map[string]string{"amd64": "amd64", "arm64": "arm64",
		"riscv64": "riscv64"}[runtime.GOARCH]+"\n")
	if err := os.Chmod(filepath.Join(bin, "uname"), 0o755); err != nil {
		t.Fatal(err)
	}
	other := &sshd{lab: l, dir: s.dir, port: freePort(l)}
	config, err := os.ReadFile(s.file("sshd_config"))
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile(s.file("known_hosts"))
	if err != nil {
		t.Fatal(err)
	}
	address := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	text := strings.ReplaceAll(string(config), address(s.port), address(other.port))
	// Of several such lines sshd reads the first one only.
	l.file("ssh/sshd_config", strings.Replace(text, "SetEnv ", "SetEnv PATH="+bin+":/usr/bin:/bin ", 1))
	l.file("ssh/known_hosts", string(known)+strings.ReplaceAll(string(known), fmt.Sprintf("]:%d ", s.port),
		fmt.Sprintf("]:%d ", other.port)))
	if !other.run(program) {
		t.Fatal("the second sshd does not start")
	}
	there := l.folder("there")
	l.file("inventory.ini", fmt.Sprintf("same ansible_port=%d\nother ansible_port=%d\n[all:vars]\n"+
		"ansible_host=127.0.0.1\nansible_user=root\n", s.port, other.port))
	l.file("plan.yaml", "name: nodes\nbaseline: host\ntrial: 20ms\nblocks: 10\nenvironments:\n  host: local\n"+
		"  same: local\nworkloads:\n  - \"null\"\n")
	args := s.fleet("plan.yaml", "nodes", there)
	o := l.do(args...)
	said := strings.Join(strings.Fields(o.err), " ")
	if want := "failed other: there is no tare for this host: the host is freebsd/" + runtime.GOARCH; o.code != 0 ||
		!strings.Contains(said, want) || !strings.Contains(said, "--tare freebsd/"+runtime.GOARCH+"=FILE") ||
		!strings.Contains(o.out, "counted: 1 of 2 hosts") {
		t.Fatalf("exit code %d, want %q:\n%s%s", o.code, want, o.err, o.out)
	}
	// A program that cannot be for the host is found before it is sent.
	foreign := map[string]string{"amd64": "arm64", "arm64": "amd64", "riscv64": "amd64"}[runtime.GOARCH]
	o = l.do(append(args, "--tare", "linux/"+foreign+"="+tareBinary)...)
	if o.code != 2 || !strings.Contains(o.err, "it is for "+runtime.GOARCH) {
		t.Errorf("a program for another processor: exit code %d:\n%s", o.code, o.err)
	}
	o = l.do(append(args, "--tare", "freebsd/"+runtime.GOARCH+"="+tareBinary)...)
	if o.code != 0 || !strings.Contains(o.out, "counted: all 2 hosts") {
		t.Errorf("with a program for it: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	if left, err := os.ReadDir(there); err != nil || len(left) > 0 {
		t.Errorf("left on the hosts: %v %v", left, err)
	}
}
