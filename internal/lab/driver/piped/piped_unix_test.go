//go:build unix

package piped

import (
	"bufio"
	"context"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

func TestOneAgentAtATime(t *testing.T) {
	var a Agents
	if d := a.Diagnose(); d != nil {
		t.Errorf("diagnosis of nothing: %q", d)
	}
	start := func() (env.Stream, error) {
		return a.Start(t.Context(), proc.Command(context.Background(), "sh", "-c", "echo here; echo said >&2; cat"))
	}
	first, err := start()
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(first).ReadString('\n'); line != "here\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := start(); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("second agent: %v", err)
	}
	first.Close()
	second, err := start()
	if err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	if !a.Close() || a.Close() {
		t.Error("Close must tell the first call from the second")
	}
	second.Close()
	<-a.Last().Done()
	if d := string(a.Diagnose()); !strings.HasPrefix(d, "said\n[sh: ") {
		t.Errorf("diagnosis %q", d)
	}
	if _, err := start(); err == nil {
		t.Error("a closed environment must start no agent")
	}
}

func TestCancelledStart(t *testing.T) {
	var a Agents
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := a.Start(ctx, proc.Command(context.Background(), "cat")); err == nil {
		s.Close()
		t.Error("a cancelled start must not start")
	}
}
