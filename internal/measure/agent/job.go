package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// leaveTime bounds the time from a worker's answer to its end.
const leaveTime = 5 * time.Second

// stuckTime bounds the time until a worker that was killed has ended. A worker that writes to a dead server may never
// end: its kernel waits for the pages in flight and handles no signal. The controller waits longer than this for an
// answer.
const stuckTime = 3 * time.Second

var errStuck = errors.New("killed but still there: it waits in the kernel for a file system or a device that does " +
	"not respond")

// job is a request that a worker is serving.
type job struct {
	*server
	request wire.Frame
	worker  *proc.Stream
	said    chan lastWord
	held    bool             // the controller says when it may begin
	stuck   <-chan time.Time // when a worker that was killed counts as stuck; nil until then
}

// lastWord is the end of a worker's output: its answer, or an error.
type lastWord struct {
	frame wire.Frame
	err   error
}

// work serves a Run or Calibrate request with a fresh worker and answers it, however the worker ends. An error means
// that the controller is gone.
func (a *server) work(ctx context.Context, f wire.Frame) error {
	var job wire.Job
	if err := f.Decode(&job); err != nil {
		return a.refuse(f, "refused", err.Error())
	}
	// Without a directory the worker decides: only kinds that touch files need one.
	dir, noDir, gone := a.cell(ctx, job.Root, job.Cell)
	home := dir
	if job.Root != "" && gone == nil {
		home, _, gone = a.cell(ctx, "", job.Cell) // what needs it says so
	}
	switch {
	case gone != nil:
		return gone
	case noDir == errSilent:
		return a.answer(f, answer{failure: &record.Failure{Kind: "cancelled",
			Message: "the controller ended the trial before it began: " + noDir.Error()}})
	}
	serving, failure, gone := a.ensure(ctx, &f, job)
	switch {
	case gone != nil:
		return gone
	case failure != nil:
		return a.answer(f, answer{failure: failure})
	}
	answer, gone := a.startWorker(ctx, f, job, dir, home)
	if gone != nil {
		return gone
	}
	answer.failure = serving.blame(answer.failure)
	if noDir != nil && answer.failure != nil && answer.failure.Kind == kindNoDir {
		answer.failure.Message = noDir.Error()
		if readOnly(noDir) { // an answer, not an error: workloads that only read can run there
			answer.failure.Kind = kindRefused
		}
	}
	// The agent frees the trial's memory here: after the answer the controller measures round trips, and then the next
	// trial.
	debug.FreeOSMemory()
	return a.answer(f, answer)
}

// cell returns a cell's directory below a root. It may take as long as the controller allows.
func (a *server) cell(ctx context.Context, root, name string) (dir string, err, gone error) {
	var failed error
	err, gone = a.reach(ctx, root, "a trial is being prepared", func(r *workdir) (told func()) {
		made, err := r.cell(name)
		return func() { dir, failed = made, err }
	})
	if err == nil {
		err = failed
	}
	return dir, err, gone
}

// answer is the answer to a job.
type answer struct {
	result  wire.Result // of a Run
	frame   wire.Frame  // of a Calibrate
	failure *record.Failure
}

func (a *server) answer(f wire.Frame, got answer) error {
	switch {
	case f.Type == wire.TypeRun:
		got.result.Error = got.failure
		return a.out.JSON(wire.TypeResult, f.Trial, got.result)
	case got.failure != nil:
		return a.out.JSON(wire.TypeFailure, f.Trial, got.failure)
	}
	return a.out.Write(got.frame)
}

// startWorker starts a worker, waits for its answer, and makes sure that the worker and its children are gone. gone is
// set when the controller is gone.
func (a *server) startWorker(ctx context.Context, f wire.Frame, w wire.Job, dir, home string) (got answer, gone error) {
	// Only the agent ends the worker: at once on request, else after its answer.
	cmd := proc.Command(context.WithoutCancel(ctx),
		append(a.Worker[:len(a.Worker):len(a.Worker)], "--dir", dir, "--home", home)...)
	cmd.WaitDelay = 500 * time.Millisecond
	enter(cmd, a.Root)
	cmd.Env = append(os.Environ(), w.Env...)
	worker, err := proc.Start(cmd)
	if err != nil {
		got.failure = &record.Failure{Kind: "worker-died", Message: err.Error()}
		return got, nil
	}
	defer func() {
		stuck := got.failure != nil && got.failure.Kind == "cancelled" && !over(worker, 0)
		if stuck {
			go worker.Close() // it cannot be ended, and the controller waits
		} else {
			worker.Close()
		}
		if a.Reap {
			endOrphans(func(pid int) bool {
				return stuck && pid == worker.Pid() || a.keeps(pid)
			})
		}
	}()
	j := &job{server: a, request: f, worker: worker, said: make(chan lastWord, 1), held: w.Held}
	go j.relay()
	if err := wire.NewWriter(worker).Write(f); err != nil {
		got.failure = j.died(err)
		return got, nil
	}
	word, cancelled, gone := j.wait(ctx)
	if gone != nil {
		worker.Kill()
		return got, gone
	}
	switch {
	case cancelled:
		// Its pipes may break while the process stays: it closes its files one after the other, and the first one on a
		// dead server blocks it.
		if word.err == errStuck || !overBy(worker, j.stuck) {
			word.err = errStuck
		}
	case !over(worker, leaveTime):
		worker.Kill()
		over(worker, stuckTime)
	}
	switch {
	case cancelled:
		got.failure = &record.Failure{Kind: "cancelled", Message: "the controller ended the trial",
			Evidence: proc.Printable(worker.Stderr())}
		if word.err == errStuck {
			got.failure.Message += "; its worker was " + errStuck.Error()
		}
	case word.err != nil:
		got.failure = j.died(word.err)
	default:
		got = j.read(word.frame)
	}
	return got, nil
}

// over tells whether a worker has ended, now or within some time.
func over(worker *proc.Stream, within time.Duration) bool { return overBy(worker, time.After(within)) }

// overBy tells whether a worker has ended, now or before end.
func overBy(worker *proc.Stream, end <-chan time.Time) bool {
	select {
	case <-worker.Done():
		return true
	default:
	}
	select {
	case <-worker.Done():
		return true
	case <-end:
		return false
	}
}

// relay passes on the worker's marks and samples and keeps its answer. It returns Begin to the worker after sending it
// on, which tells the worker to start the clock: while it measures, no other process has work to do.
func (j *job) relay() {
	in, back := wire.NewReader(j.worker), wire.NewWriter(j.worker)
	for {
		f, err := in.Read()
		if err == nil && f.Trial != j.request.Trial {
			err = fmt.Errorf("the worker sent a message about trial %d instead of %d", f.Trial, j.request.Trial)
		}
		if err != nil {
			j.said <- lastWord{err: err}
			return
		}
		switch f.Type {
		case wire.TypeBegin:
			// On a slow line the mark would leave beside the work, late if there is one processor.
			err = errors.Join(j.out.Write(f), j.out.Flush())
			if !j.held {
				err = errors.Join(err, back.Write(f))
			}
		case wire.TypeEnd:
			f.Payload = wire.Stamp()
			err = j.out.Write(f)
		case wire.TypeSamples:
			err = j.out.Write(f)
		default:
			j.said <- lastWord{frame: f}
			return
		}
		if err != nil {
			j.said <- lastWord{err: err}
			return
		}
	}
}

// wait returns the worker's answer. Meanwhile it serves the controller's Cancel, and answers pings.
func (j *job) wait(ctx context.Context) (word lastWord, cancelled bool, gone error) {
	ended := j.worker.Done()
	for {
		if cancelled && j.stuck == nil {
			j.stuck = time.After(stuckTime)
		}
		select {
		case word = <-j.said:
			return word, cancelled, nil
		case <-j.stuck:
			return lastWord{err: errStuck}, cancelled, nil
		case <-ended:
			// Its answer may still be in the pipe; relay ends with it.
			ended = nil
		case r := <-j.requests:
			if r.err != nil {
				return word, cancelled, r.err
			}
			switch r.frame.Type {
			case wire.TypePing:
				gone = j.pong(r.frame)
			case wire.TypeBegin, wire.TypeEnd:
				j.pass(r.frame)
			case wire.TypeCancel:
				cancelled = true
				j.worker.Kill()
			case wire.TypeBye:
				cancelled = true
				j.leaving, j.byeTrial = true, r.frame.Trial
				j.worker.Kill()
			default:
				gone = j.refuse(r.frame, "refused", "a trial is running; an agent serves one request at a time")
			}
			if gone != nil {
				return word, cancelled, gone
			}
		case <-ctx.Done():
			return word, cancelled, ctx.Err()
		}
	}
}

// longestHold bounds how long a mark is kept until it is due.
const longestHold = time.Second

// pass hands a mark of the controller's on to the worker when it is due. That a worker has ended which cannot take it,
// its pipe's other end tells.
func (j *job) pass(f wire.Frame) {
	if at, ok := wire.Stamped(f.Payload); ok {
		time.Sleep(min(time.Duration(at-wire.Now()), longestHold))
	}
	_ = wire.NewWriter(j.worker).Write(f)
}

// read decodes a worker's answer, to add its standard error to a failure.
func (j *job) read(f wire.Frame) (got answer) {
	switch {
	case f.Type == wire.TypeResult && j.request.Type == wire.TypeRun:
		if err := f.Decode(&got.result); err != nil {
			return answer{failure: j.died(err)}
		}
		got.failure = got.result.Error
	case f.Type == wire.TypeCalibrated && j.request.Type == wire.TypeCalibrate:
		got.frame = f
	case f.Type == wire.TypeFailure:
		got.failure = &record.Failure{}
		if err := f.Decode(got.failure); err != nil {
			return answer{failure: j.died(err)}
		}
	default:
		return answer{failure: j.died(fmt.Errorf("it answered a %s frame with a %s frame", j.request.Type, f.Type))}
	}
	if got.failure != nil && got.failure.Evidence == "" {
		got.failure.Evidence = proc.Printable(j.worker.Stderr())
	}
	return got
}

// goPanic matches the first line of a Go panic.
var goPanic = regexp.MustCompile(`(?m)^panic: (.*)$`)

// died is the failure of a worker that did not answer: how it ended, and the end of its standard error.
func (j *job) died(cause error) *record.Failure {
	var how string
	select {
	case <-j.worker.Done():
		how = "exit status 0"
		if err := j.worker.Err(); err != nil {
			how = err.Error()
		}
	case <-time.After(leaveTime): // its pipes break a moment before it is collected
		j.worker.Kill()
		how = cause.Error()
	}
	stderr := proc.Printable(j.worker.Stderr())
	f := &record.Failure{Kind: "worker-died", Message: "the worker ended during its work: " + how,
		Evidence: stderr}
	if m := goPanic.FindStringSubmatch(stderr); m != nil {
		f.Kind, f.Message = "panic", "the workload panicked: "+strings.TrimSpace(m[1])
	} else if strings.Contains(how, "signal: killed") {
		f.Message += " (if nobody killed it, the system ran out of memory)"
	}
	return f
}
