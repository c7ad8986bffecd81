// Package proc runs child processes. No other package in tare does.
//
// It is opinionated about how they end. Every child leads its own process group. When its context is done, the group
// gets SIGTERM; a child that does not end within the grace is killed with the rest of its group. Pipes are abandoned
// after that, because a grandchild that inherited them and left the group would otherwise block Wait for ever
// (golang/go#23019). On Linux a child also dies with tare itself, so that a killed controller leaves nothing running.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// Cmd is os/exec's Cmd; packages outside proc use this name so that only proc imports os/exec.
type Cmd = exec.Cmd

// Grace is how long a child has between SIGTERM and SIGKILL.
const Grace = 5 * time.Second

// MaxOutput bounds the output that Run keeps of each of a child's streams, in bytes.
const MaxOutput = 16 << 20

// Command prepares argv to run under ctx with the termination ladder described in the package comment. argv is never
// seen by a shell. The caller may set the fields of the command before starting it with RunCmd or Start.
func Command(ctx context.Context, argv ...string) *Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = Grace
	prepare(cmd)
	return cmd
}

// LookPath finds a program, also in the sbin folders, which a user's PATH often lacks.
func LookPath(name string) (string, error) {
	p, err := exec.LookPath(name)
	if err == nil || strings.ContainsRune(name, '/') {
		return p, err
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if p, e := exec.LookPath(dir + "/" + name); e == nil {
			return p, nil
		}
	}
	return "", err
}

// Run runs argv to its end with the given standard input (nil for none) and returns its standard output. When it ends
// with another code than 0, the error is an *ExitError with the end of its standard error.
func Run(ctx context.Context, stdin io.Reader, argv ...string) ([]byte, error) {
	return RunCmd(Command(ctx, argv...), stdin)
}

// RunCmd is Run for a command made with Command.
func RunCmd(cmd *Cmd, stdin io.Reader) ([]byte, error) {
	out, errOut := &limitedBuffer{}, NewTail(32<<10)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, out, errOut
	err := runToEnd(cmd)
	if err == nil {
		return out.buf.Bytes(), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is not installed: %w", cmd.Args[0], err)
	}
	x := &ExitError{Argv: cmd.Args, Code: -1, Stderr: Printable(errOut.Bytes()), Err: err}
	if cmd.ProcessState != nil {
		x.Code = cmd.ProcessState.ExitCode()
	}
	return out.buf.Bytes(), x
}

// Wait runs a command made with Command, with the streams its fields name, to its end.
func Wait(cmd *Cmd) error { return runToEnd(cmd) }

// runToEnd is cmd.Run, except that a child stopped by its context takes its whole process group with it.
func runToEnd(cmd *Cmd) error {
	var stopped atomic.Bool
	if stop := cmd.Cancel; stop != nil {
		cmd.Cancel = func() error {
			stopped.Store(true)
			return stop()
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return wait(cmd, stopped.Load)
}

// ExitError is the error of a child that failed, with the end of its output.
type ExitError struct {
	Argv   []string
	Code   int    // exit code; -1 when it never ran or was ended by a signal
	Stderr string // last 32 KiB, control characters neutralised
	Err    error
}

func (e *ExitError) Error() string {
	msg := strings.TrimSpace(e.Stderr)
	if i := strings.LastIndexByte(msg, '\n'); i >= 0 && len(msg) > 400 {
		msg = strings.TrimSpace(msg[i:])
	}
	if msg == "" {
		return fmt.Sprintf("%s: %v", e.Argv[0], e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.Argv[0], e.Err, msg)
}

func (e *ExitError) Unwrap() error { return e.Err }

// limitedBuffer keeps the first MaxOutput bytes and drops the rest.
type limitedBuffer struct{ buf bytes.Buffer }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if room := MaxOutput - l.buf.Len(); room > 0 {
		l.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
