package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/clock"
)

// killGrace is the time between SIGTERM and SIGKILL for a command that is stopped early.
const killGrace = 2 * time.Second

// runner runs one command line again and again. It belongs to one locked thread.
type runner struct {
	what    string // "command", "setup", "prepare": for messages
	line    string // as the user wrote it
	path    string
	argv    []string
	dir     string
	env     []string
	input   string // path of the standard input; empty for none
	timeout time.Duration
	leave   bool // processes that it leaves running are kept: prepare may start a server
	null    *os.File
	stderr  *sink
	attr    *procAttr // of the last run, reused if its files are
}

// outcome is one run.
type outcome struct {
	usage
	wall   time.Duration // from just before the start to just after the end
	output []byte        // standard output, when it was asked for
	lost   int64         // bytes of output beyond what is kept
}

// newRunner prepares to run a command line. Close it.
func newRunner(what, shell, line string, base runner) (*runner, error) {
	argv, err := commandLine(shell, line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	r := base
	r.what, r.line, r.argv = what, line, argv
	if r.path, err = findProgram(argv[0]); err != nil {
		hint := ""
		if shell != shellNone {
			hint = "; use shell=none to run without a shell"
		}
		return nil, fmt.Errorf("%s: %w%s", what, err, hint)
	}
	if r.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if r.stderr, err = newSink(keepLast); err != nil {
		r.null.Close()
		return nil, err
	}
	return &r, nil
}

func (r *runner) close() {
	r.stderr.finish()
	r.null.Close()
}

// run runs the command once and returns when it has ended. Output is kept only when capture is set.
func (r *runner) run(ctx context.Context, capture bool) (o outcome, err error) {
	files := [3]*os.File{r.null, r.null, r.stderr.w}
	if r.input != "" {
		if files[0], err = os.Open(r.input); err != nil {
			return o, fmt.Errorf("open the command's input: %w", err)
		}
		defer files[0].Close()
	}
	var out *sink
	if capture {
		if out, err = newSink(keepFirst); err != nil {
			return o, err
		}
		files[1] = out.w
	}
	attr := r.attr
	if attr == nil || capture || r.input != "" {
		attr = newAttr(r.dir, r.env, files)
		r.attr = attr
	}
	o, err = r.timed(ctx, attr)
	if out != nil {
		o.output, o.lost = out.finish()
	}
	return o, err
}

// timed is the timed part. Two guards stop the command when its time or the trial is over.
func (r *runner) timed(ctx context.Context, attr *procAttr) (o outcome, err error) {
	if err := ctx.Err(); err != nil {
		return o, err
	}
	// The kernel ends the child when the thread that started it ends; a thread that a goroutine is locked to stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var running atomic.Pointer[process]
	var late atomic.Bool
	end := func() {
		if p := running.Load(); p != nil {
			p.terminate()
			time.AfterFunc(killGrace, func() {
				if running.Load() == p {
					p.kill()
				}
			})
		}
	}
	timer := time.AfterFunc(r.timeout, func() { late.Store(true); end() })
	defer timer.Stop()
	defer context.AfterFunc(ctx, end)()

	begin := clock.Now()
	p, err := start(r.path, r.argv, attr)
	if err != nil {
		return o, fmt.Errorf("start %s: %w", r.path, err)
	}
	running.Store(&p)
	if late.Load() || ctx.Err() != nil { // the guard fired before the process existed
		end()
	}
	o.usage, err = p.wait()
	o.wall = clock.Since(begin)

	running.Store(nil)
	if !r.leave {
		p.kill() // processes left running would disturb the next run
	}
	switch {
	case err != nil:
		return o, err
	case late.Load():
		return o, r.failure(fmt.Sprintf("%s did not end within %v and was stopped; set a longer timeout", r.what,
			r.timeout))
	}
	return o, ctx.Err()
}

// ended checks how a run ended.
func (r *runner) ended(o *outcome, code int) error {
	switch {
	case o.signal != "":
		return r.failure(fmt.Sprintf("%s was killed by a signal: %s", r.what, o.signal))
	case o.code != code && code >= 0:
		msg := fmt.Sprintf("%s ended with exit code %d, expected %d", r.what, o.code, code)
		switch r.what {
		case "setup":
			msg += "; setup must succeed before anything is timed: fix it, or let it exit with 0"
		case "command":
			msg += fmt.Sprintf("; fix the command, or set exit=%d if this is a successful run", o.code)
			if name := swallowed(r.line); name != "" {
				msg += fmt.Sprintf("; %s= was taken as part of the command: with -w, everything after command= is "+
					"the command, so write %[1]s= before it", name)
			}
		}
		f := r.failure(msg)
		if f.Evidence == "" {
			f.Evidence = printable(tail(o.output))
		}
		return f
	}
	return nil
}

// swallowed returns the first parameter of this kind in a command line, else "": with -w, a parameter after command=
// becomes part of the command.
func swallowed(line string) string {
	_, rest, _ := strings.Cut(line, ",")
	for _, part := range strings.Split(rest, ",") {
		name, _, set := strings.Cut(part, "=")
		if set && slices.ContainsFunc(Kinds()[0].Params, func(p workload.Param) bool { return p.Name == name }) {
			return name
		}
	}
	return ""
}

func tail(p []byte) []byte { return p[max(0, len(p)-maxTail):] }

// failure makes a failure with the end of the standard error as evidence. The runner runs nothing after it.
func (r *runner) failure(msg string) *record.Failure {
	said, _ := r.stderr.finish()
	return &record.Failure{Kind: "measure", Message: fmt.Sprintf("%s: %s", abbreviate(r.line), msg),
		Evidence: printable(said)}
}

// abbreviate gives the first line of a command, for messages.
func abbreviate(line string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(line), "\n")
	if runes := []rune(line); len(runes) > 80 {
		line, more, rest = string(runes[:80]), true, "..."
	}
	if more && rest != "" {
		line += " ..."
	}
	return printable([]byte(line))
}

// once runs an untimed command line, which must succeed.
func once(ctx context.Context, what, shell, line string, base runner) error {
	base.leave = true
	r, err := newRunner(what, shell, line, base)
	if err != nil {
		return err
	}
	defer r.close()
	o, err := r.run(ctx, false)
	if err == nil {
		err = r.ended(&o, 0)
	}
	if f := (*record.Failure)(nil); errors.As(err, &f) {
		f.Kind = "setup"
	}
	r.stderr.now = err == nil // a server that it has started keeps the pipe open
	return err
}
