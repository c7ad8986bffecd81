package agent

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"time"

	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// kindServiceDied is the kind of failure of a trial whose service has ended.
const kindServiceDied = "service-died"

const (
	// lastWords limits the wait for a service to report its end after a trial has failed.
	lastWords = 2 * time.Second
	// leaveService limits the wait for all services to stop at the end of the session.
	leaveService = 20 * time.Second
)

// services are the processes that trials work against. They live until the agent leaves.
type services map[serviceKey]*service

// serviceKey identifies a service: the directory that work is done below, and the service's own key.
type serviceKey struct{ root, key string }

// service is one of them. Its fields belong to the agent's loop, except word.
type service struct {
	process *proc.Stream // nil while it does not run
	serving wire.Serving
	died    chan struct{}   // closed when its output has ended
	word    *record.Failure // its last message; valid after died is closed
}

// serve tells whether a process is a service's.
func (all services) serve(pid int) bool {
	for _, s := range all {
		if s.process != nil && s.process.Pid() == pid {
			return true
		}
	}
	return false
}

// ensure starts the job's service if it is not running, and adds its endpoint to the request f. If the service has died
// since the last trial, this trial fails with the reason, and the next one starts the service again.
func (a *server) ensure(ctx context.Context, f *wire.Frame, job wire.Job) (s *service, failure *record.Failure,
	gone error) {
	if job.Service == "" {
		return nil, nil, nil
	}
	key := serviceKey{job.Root, job.Service}
	if s = a.services[key]; s == nil {
		s = &service{}
		a.services[key] = s
	}
	if s.process != nil && s.over(0) {
		failure = s.end("; it had ended before the trial began")
		a.reap()
		return s, failure, nil
	}
	if s.process == nil {
		if failure, gone = a.startService(ctx, s, job); failure != nil || gone != nil {
			return s, failure, gone
		}
	}
	job.Serving = new(s.serving)
	s.serving.Trials++
	return s, failureOf(tell(f, job.Serving)), nil
}

// tell adds a service's endpoint to a request.
func tell(f *wire.Frame, serving *wire.Serving) error {
	var request map[string]json.RawMessage
	err := json.Unmarshal(f.Payload, &request)
	if err == nil {
		request["serving"], err = json.Marshal(serving)
	}
	if err == nil {
		f.Payload, err = json.Marshal(request)
	}
	return err
}

func failureOf(err error) *record.Failure {
	if err == nil {
		return nil
	}
	return &record.Failure{Kind: kindRefused, Message: err.Error()}
}

// startService starts a service and waits until it can be used. The controller limits the time by a Cancel.
func (a *server) startService(ctx context.Context, s *service, job wire.Job) (failure *record.Failure, gone error) {
	name := "service " + job.Service
	dir, noDir, gone := a.cell(ctx, job.Root, name)
	home := dir
	if job.Root != "" && gone == nil {
		home, _, gone = a.cell(ctx, "", name)
	}
	switch {
	case gone != nil:
		return nil, gone
	case noDir == errSilent:
		return &record.Failure{Kind: kindGone, Message: "the controller ended the trial before it began: " +
			noDir.Error()}, nil
	}
	cmd := proc.Command(context.WithoutCancel(ctx),
		append(a.Service[:len(a.Service):len(a.Service)], "--dir", dir, "--home", home)...)
	proc.GentleDeath(cmd) // if the agent is killed, the service still stops what it has started
	enter(cmd, a.Root)
	cmd.Env = append(os.Environ(), job.Env...)
	if err := s.start(cmd); err != nil {
		return &record.Failure{Kind: kindServiceDied, Message: err.Error()}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	var served bool
	go func() {
		defer close(done)
		served = s.await(ctx, job)
	}()
	if gone := a.attend(done, cancel, "a service is being started"); gone != nil {
		s.kill()
		return nil, gone
	}
	switch {
	case served:
		s.serving.Starts++
		s.serving.Trials = 0
		return nil, nil
	case ctx.Err() != nil:
		s.kill()
		failure = &record.Failure{Kind: kindGone, Message: "the controller ended the trial while its service was " +
			"being started"}
	default:
		failure = s.end("")
		if noDir != nil && failure.Kind == kindNoDir {
			failure.Message = noDir.Error()
		}
	}
	a.reap()
	return failure, nil
}

// start starts a service's process. The kernel sends it a signal when the thread that started it ends, so the thread is
// kept until the process has ended.
func (s *service) start(cmd *proc.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		process, err := proc.Start(cmd)
		s.process = process
		started <- err
		if err == nil {
			<-process.Done()
		}
	}()
	return <-started
}

// await sends a new process its job and waits for its answer. It tells whether the service can be used.
func (s *service) await(ctx context.Context, job wire.Job) bool {
	s.died, s.word = make(chan struct{}), nil
	if err := wire.NewWriter(s.process).JSON(wire.TypeService, 0, job); err != nil {
		close(s.died)
		return false
	}
	first := make(chan bool, 1)
	go s.listen(first)
	select {
	case ok := <-first:
		return ok
	case <-ctx.Done():
		return false
	}
}

// listen reads a service's messages until its output ends. It reports on first whether the service can be used.
func (s *service) listen(first chan<- bool) {
	defer close(s.died)
	in, served := wire.NewReader(s.process), false
	for {
		f, err := in.Read()
		switch {
		case err != nil:
			if !served {
				first <- false
			}
			return
		case f.Type == wire.TypeService && !served:
			starts := s.serving.Starts
			s.serving = wire.Serving{}
			err = f.Decode(&s.serving)
			s.serving.Starts = starts
			served = err == nil
			first <- served
		case f.Type == wire.TypeFailure:
			s.word = &record.Failure{}
			if f.Decode(s.word) != nil {
				s.word = nil
			}
		}
	}
}

// over tells whether it has ended, now or within some time.
func (s *service) over(within time.Duration) bool {
	select {
	case <-s.died:
		return true
	default:
	}
	select {
	case <-s.died:
		return true
	case <-time.After(within):
		return false
	}
}

// blame replaces a trial's failure by the end of its service, if that has ended. The service may be nil.
func (s *service) blame(f *record.Failure) *record.Failure {
	if s == nil || f == nil || f.Kind == kindRefused || f.Kind == kindGone || !s.over(lastWords) {
		return f
	}
	return s.end("; the trial failed with: " + f.Message)
}

// end closes the process of a service that has ended, and returns how it ended, with more added to the message.
func (s *service) end(more string) *record.Failure {
	process := s.process
	s.process = nil
	f := s.word
	if f == nil {
		f = &record.Failure{Kind: kindServiceDied, Evidence: proc.Printable(process.Diagnose()),
			Message: "the service that the trials work against has ended"}
		select {
		case <-process.Done():
			f.Message += ": " + process.How().Error()
		default:
		}
	}
	process.Close()
	f.Message += more
	return f
}

// kill ends a service at once.
func (s *service) kill() {
	s.process.Kill()
	s.process.Close()
	s.process = nil
}

// keeps tells whether a process outlives the trials: a mount's, a service, the peer of other environments or the one
// that traces.
func (a *server) keeps(pid int) bool {
	return a.mounts.serves(pid) || a.services.serve(pid) || a.other != nil && a.other.Pid() == pid ||
		Tracing != nil && Tracing.Pid() == pid
}

// reap ends what a service left running. No worker is alive.
func (a *server) reap() {
	if a.Reap {
		endOrphans(a.keeps)
	}
}

// endServices stops all services at the same time and waits for them.
func (a *server) endServices(ctx context.Context) {
	if len(a.services) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveService)
	defer cancel()
	for _, s := range a.services {
		if s.process != nil {
			s.process.CloseWrite()
		}
	}
	for _, s := range a.services {
		if s.process == nil {
			continue
		}
		select {
		case <-s.process.Done():
		case <-ctx.Done():
		}
		s.process.Close()
		s.process = nil
	}
	a.reap()
}
