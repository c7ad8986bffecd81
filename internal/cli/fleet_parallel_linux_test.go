package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFleetByParallel has a real GNU parallel run the line of docs/fleet.md on three hosts behind a real sshd, and once
// more: what is finished is not measured again.
func TestFleetByParallel(t *testing.T) {
	l := newLab(t)
	need(l, "parallel")
	s := l.sshd()
	page, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(page), "\n| GNU parallel")
	_, row, _ = strings.Cut(row, "`")
	line, _, _ := strings.Cut(row, "`")
	for was, is := range map[string]string{
		"ssh {} ":          "ssh -F config {} cd " + l.dir + ` "'&&'" `, // && is for the shell there
		"tare fleet shard": tareBinary + " fleet shard -q --lock lock --host {}",
		"/40":              "/3",
	} {
		if strings.Count(line, was) != 1 {
			t.Fatalf("the page's line for GNU parallel is %q, without %q", line, was)
		}
		line = strings.Replace(line, was, is, 1)
	}
	l.file("config", fmt.Sprintf("Host *\nHostName 127.0.0.1\nPort %d\nUser root\nBatchMode yes\nIdentitiesOnly yes\n"+
		"IdentityFile %s\nUserKnownHostsFile %s\nStrictHostKeyChecking yes\n", s.port, s.file("user_key"),
		s.file("known_hosts")))
	l.file("hosts", "n1\nn2\nn3\n")
	l.file("nodes.yaml", fleetPlan(10))
	run := func() string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		cmd.Dir, cmd.Env = l.dir, append(l.env, "HOME="+l.dir, "PARALLEL_HOME="+filepath.Join(l.dir, "parallel"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	run()
	if out := run(); strings.Count(out, " of 3 is finished") != 3 {
		t.Errorf("what is finished was not found to be:\n%s", out)
	}
	args := []string{"fleet", "collect", "nodes", "--by", "name"}
	for k := 1; k <= 3; k++ {
		part := fmt.Sprintf("tare-part-%d-of-3", k)
		args = append(args, part)
		l.settled(l.runID(part), true)
	}
	if o := l.do(args...); o.code != 0 || !strings.Contains(o.out+o.err, "3 of 3 hosts, 0 refused") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
}
