package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

const (
	// mostData bounds the bytes that perf records of one span.
	mostData = 128 << 20
	// answerTime bounds the wait for an answer of perf that is due.
	answerTime = 20 * time.Second
)

// Recorder records one span after the other. It is not safe for concurrent use.
type Recorder struct {
	ctx     context.Context
	program string
	record  *proc.Stream
	control *os.File
	data    chan recorded
}

type recorded struct {
	data []byte
	err  error
}

// Open finds perf. The error names the missing part. ctx is that of the whole run.
func Open(ctx context.Context) (*Recorder, error) {
	program, err := proc.LookPath("perf")
	if err != nil {
		return nil, errors.New("perf is not installed; Debian has it in linux-perf, others in perf or linux-tools")
	}
	// On some systems a script of that name says which package the running kernel wants.
	out, err := proc.RunCmd(command(ctx, program, "--version"), nil)
	if err != nil || !bytes.HasPrefix(out, []byte("perf")) {
		return nil, fmt.Errorf("perf does not run here: %w", errors.Join(err, fmt.Errorf("%.100q", out)))
	}
	return &Recorder{ctx: ctx, program: program}, nil
}

// command makes a command that reads no settings of the user's and speaks no other language.
func command(ctx context.Context, argv ...string) *proc.Cmd {
	cmd := proc.Command(ctx, argv...)
	cmd.Env = append(os.Environ(), "PERF_CONFIG=/dev/null", "LC_ALL=C", "PAGER=cat")
	return cmd
}

// Now is the time by the clock that samples are stamped with, in ns.
func Now() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}

// Start begins to sample processes, with all that they start from now on. It returns when that has begun.
func (r *Recorder) Start(pids []int) error {
	if r.record != nil {
		return errors.New("perf records already")
	}
	if len(pids) == 0 {
		return errors.New("there is no process to sample")
	}
	list := make([]string, len(pids))
	for i, p := range pids {
		list[i] = strconv.Itoa(p)
	}
	theirs, control, err := os.Pipe()
	if err != nil {
		return err
	}
	answers, answer, err := os.Pipe()
	if err != nil {
		return errors.Join(err, theirs.Close(), control.Close())
	}
	defer answers.Close()
	// Nothing is kept in the user's cache of programs, and no file is made.
	cmd := command(r.ctx, r.program, "record", "--quiet", "--no-buildid", "--no-buildid-cache", "--output", "-",
		"--event", "cpu-clock", "--freq", strconv.Itoa(Rate), "-g", "--clockid", "CLOCK_MONOTONIC", "--delay=-1",
		"--control", "fd:3,4", "--pid", strings.Join(list, ","))
	cmd.ExtraFiles = []*os.File{theirs, answer}
	s, err := proc.Start(cmd)
	theirs.Close()
	answer.Close()
	if err != nil {
		return errors.Join(err, control.Close())
	}
	r.record, r.control = s, control
	r.data = make(chan recorded, 1)
	go func(to chan<- recorded) {
		data, err := io.ReadAll(io.LimitReader(s, mostData+1))
		if len(data) > mostData {
			err = fmt.Errorf("perf recorded more than %d MiB", mostData>>20)
			_ = s.Kill()
		}
		to <- recorded{data, err}
	}(r.data)
	if _, err = control.WriteString("enable\n"); err == nil {
		_ = answers.SetReadDeadline(time.Now().Add(answerTime))
		word := make([]byte, 4)
		_, err = io.ReadFull(answers, word)
	}
	if err != nil {
		why := r.said(s)
		r.end()
		return fmt.Errorf("perf record does not begin (%w)%s", err, why)
	}
	return nil
}

// said is the last that perf said, for a message.
func (r *Recorder) said(s *proc.Stream) string {
	lines := strings.Split(strings.TrimSpace(proc.Printable(s.Diagnose())), "\n")
	text := ""
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "[") {
			text = l
			break // the first names the cause, what follows is advice
		}
	}
	if text == "" {
		return ""
	}
	return ": " + text[:min(len(text), 200)]
}

// Stop ends what Start began and returns the samples from one time to another, as Now tells it; to <= 0 means all after
// from.
func (r *Recorder) Stop(from, to int64) (*Profile, error) {
	if r.record == nil {
		return nil, errors.New("perf records nothing")
	}
	s := r.record
	defer r.end()
	if err := s.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("end perf record: %w", err)
	}
	var got recorded
	select {
	case got = <-r.data:
	case <-time.After(answerTime):
		return nil, errors.New("perf record does not end")
	}
	if got.err != nil {
		return nil, got.err
	}
	if len(got.data) == 0 {
		return nil, fmt.Errorf("perf recorded nothing%s", r.said(s))
	}
	return r.script(got.data, from, to)
}

// script has the records turned into text.
func (r *Recorder) script(data []byte, from, to int64) (*Profile, error) {
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Minute)
	defer cancel()
	s, err := proc.Start(command(ctx, r.program, "script", "--input", "-", "--ns", "--no-inline", "--fields",
		"comm,pid,tid,time,ip,sym,dso"))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	go func() {
		_, _ = s.Write(data) // if it stops to read, what it printed says why
		_ = s.CloseWrite()
	}()
	p, err := Parse(s, from, to)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, r.said(s))
	}
	return p, nil
}

// end ends perf in any case.
func (r *Recorder) end() {
	if r.record == nil {
		return
	}
	r.control.Close()
	_ = r.record.Close()
	r.record, r.control = nil, nil
}

// Close ends what still runs.
func (r *Recorder) Close() error {
	r.end()
	return nil
}
