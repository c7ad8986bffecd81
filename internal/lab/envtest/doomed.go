package envtest

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// Victim is a process of the test's own executable that will be killed.
type Victim struct {
	kill  func() error
	ended chan struct{}
	after time.Duration
}

// Doom starts one with additional environment variables, and waits until it prints a line that reached accepts. It
// fails the test if the process ends before that. It ends the process with the test, or after patience.
func Doom(t *testing.T, patience time.Duration, vars []string, reached func(line string) bool) *Victim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := proc.Command(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), vars...)
	said := proc.NewTail(32 << 10)
	cmd.Stderr = said
	r, w := io.Pipe()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &Victim{kill: cmd.Process.Kill, ended: make(chan struct{}), after: patience}
	go func() {
		cmd.Wait()
		w.Close()
		close(d.ended)
	}()
	there := false
	for lines := bufio.NewScanner(r); !there && lines.Scan(); {
		there = reached(strings.TrimSpace(lines.Text()))
	}
	go io.Copy(io.Discard, r)
	if !there {
		<-d.ended
		t.Fatalf("the process ended before the test killed it:\n%s", said.Bytes())
	}
	return d
}

// Kill sends SIGKILL and waits until nothing holds the process's pipes open.
func (d *Victim) Kill(t *testing.T) {
	t.Helper()
	if err := d.kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.ended:
	case <-time.After(d.after):
		t.Fatal("the killed process's pipes are held open")
	}
}
