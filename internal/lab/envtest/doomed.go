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

// Doomed is a copy of the test's own executable that is going to be killed.
type Doomed struct {
	kill  func() error
	ended chan struct{}
	after time.Duration
}

// Doom starts one with some variables besides the test's own, and waits until it prints a line that reached accepts. It
// fails the test where the process ends before, and ends it with the test, or when patience does.
func Doom(t *testing.T, patience time.Duration, vars []string, reached func(line string) bool) *Doomed {
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
	d := &Doomed{kill: cmd.Process.Kill, ended: make(chan struct{}), after: patience}
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
		t.Fatalf("it ended before it was to be killed:\n%s", said.Bytes())
	}
	return d
}

// Kill kills it with SIGKILL and waits until nothing holds its pipes.
func (d *Doomed) Kill(t *testing.T) {
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
