package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"tare/internal/measure/guestabi"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/sysinfo"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Options say how an agent works.
type Options struct {
	// Dir is an existing directory below which the agent makes its own; empty means the system's for temporary files.
	Dir string
	// Worker is the command line of a worker; empty means this program with the role "worker". Service is the command
	// line of a service, Peer that of a peer.
	Worker, Service, Peer []string
	// Reap says that every child of this process was left by a worker and may be killed and collected once the worker
	// is gone. For PID 1 this is always true.
	Reap bool
	// Mounts says that the system is the agent's own, so that it may mount folders for the controller.
	Mounts bool
	// Root is the root directory of workers, on Linux; empty means the agent's. /proc and the work directories must be
	// at the same paths there.
	Root string
}

// tidyTime bounds the removal of the agent's directory at its end: a dead network mount must not block it.
const tidyTime = 30 * time.Second

// welcomeTime bounds the wait of an agent for the controller's answer to its Hello.
const welcomeTime = 2 * time.Minute

// Serve is the agent: it announces itself on out, serves the requests from in, and returns after a Bye, at the end of
// in, or when ctx is done, with its worker ended and its directory removed. The error says why it could not serve or
// tidy up; the end of the input is not an error.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) (err error) {
	a := &server{Options: o, out: wire.NewWriter(out), requests: make(chan request, 1), workdirs: map[string]*workdir{},
		services: services{}}
	// The agent's own heap is a few frames; it must stay small compared to the workload's memory.
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(12 << 20)
	a.Reap = a.Reap || os.Getpid() == 1
	a.mounts.in(a.Root)
	self, err := self()
	if err != nil {
		return fmt.Errorf("find the agent's own executable: %w", err)
	}
	if len(a.Worker) == 0 {
		a.Worker = []string{self, roleWorker}
	}
	if len(a.Service) == 0 {
		a.Service = []string{self, roleService}
	}
	if len(a.Peer) == 0 {
		a.Peer = []string{self, netpeer.Role}
	}
	defer func() {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		a.endServices(tidy)
		if Tracing != nil {
			Tracing.Close()
		}
		if a.other != nil {
			a.other.Close()
		}
		err = errors.Join(err, a.probes.close(tidy))
		for _, r := range a.workdirs {
			if e := r.removeAll(tidy); e != nil {
				err = errors.Join(err, e)
			}
		}
		a.unmountAll()
		if a.leaving {
			a.out.Mark(wire.TypeBye, a.byeTrial)
		}
	}()
	if err := a.out.Announce(); err != nil {
		return err
	}
	if err := a.out.JSON(wire.TypeHello, 0, wire.NewHello()); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go a.read(wire.NewReader(in), ended)
	// Podman attaches an agent's input after starting it: if the client dies in between, the input gets neither data
	// nor an end.
	greeting := time.AfterFunc(welcomeTime, a.unwelcome)
	defer greeting.Stop()
	for {
		f, err := a.next(ctx)
		greeting.Stop()
		if err != nil {
			return endOfInput(ctx, err)
		}
		if err := a.serve(ctx, f); err != nil {
			return endOfInput(ctx, err)
		}
		if a.leaving {
			return nil
		}
	}
}

// endOfInput tells the controller's normal end from a protocol error.
func endOfInput(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

type request struct {
	frame wire.Frame
	err   error
}

// server is an agent at work. Its fields belong to the goroutine of Serve, except out, which may be written by all.
type server struct {
	Options
	out      *wire.Writer
	requests chan request
	runID    string
	workdirs map[string]*workdir // by Job.Root; "" is the agent's own choice
	mounts   mounts
	probes   probes
	services services
	other    *proc.Stream // a peer; nil if none was asked for
	places   string       // its addresses
	welcome  bool
	leaving  bool
	byeTrial uint32
}

// read passes on the controller's frames until the input ends or Serve returns.
func (a *server) read(r *wire.Reader, ended <-chan struct{}) {
	for {
		f, err := r.Read()
		select {
		case a.requests <- request{f, err}:
		case <-ended:
			return
		}
		if err != nil {
			return
		}
	}
}

// unwelcome ends the wait for a welcome.
func (a *server) unwelcome() {
	a.requests <- request{err: fmt.Errorf("handshake: no controller answered within %v: %w", welcomeTime, io.EOF)}
}

func (a *server) next(ctx context.Context) (wire.Frame, error) {
	select {
	case r := <-a.requests:
		return r.frame, r.err
	case <-ctx.Done():
		return wire.Frame{}, ctx.Err()
	}
}

// serve answers one request. An error means that the controller is gone.
func (a *server) serve(ctx context.Context, f wire.Frame) error {
	if !a.welcome && f.Type != wire.TypeBye {
		return a.greet(f)
	}
	switch f.Type {
	case wire.TypePing:
		return a.pong(f)
	case wire.TypeFacts:
		return a.facts(ctx, f)
	case wire.TypeRun, wire.TypeCalibrate:
		return a.work(ctx, f)
	case wire.TypeRelease:
		return a.release(ctx, f)
	case wire.TypeMount:
		return a.mount(ctx, f)
	case wire.TypeProbe:
		return a.probe(ctx, f)
	case wire.TypeLedger:
		return a.ledger(ctx, f)
	case wire.TypeFile:
		return a.file(ctx, f)
	case wire.TypePeer:
		return a.peer(ctx, f)
	case wire.TypeTrace:
		if Tracing != nil {
			return a.trace(f)
		}
	case wire.TypeCancel, wire.TypeBegin, wire.TypeEnd:
		return nil // it crossed with the result of its trial
	case wire.TypeBye:
		a.leaving, a.byeTrial = true, f.Trial
		return nil
	}
	return a.refuse(f, "refused", fmt.Sprintf("an agent does not serve a %s frame", f.Type))
}

// greet takes the controller's answer to Hello and makes the agent's directory.
func (a *server) greet(f wire.Frame) error {
	var w wire.Welcome
	if f.Type != wire.TypeWelcome {
		return errors.Join(a.refuse(f, "refused", fmt.Sprintf("expected a welcome, got a %s frame", f.Type)),
			fmt.Errorf("handshake: expected a welcome, got a %s frame", f.Type))
	}
	err := f.Decode(&w)
	if err == nil {
		err = wire.CheckPeer("controller", w.Protocol, w.Build)
	}
	if err != nil {
		return errors.Join(a.refuse(f, "refused", err.Error()), fmt.Errorf("handshake: %w", err))
	}
	a.welcome = true
	a.runID = w.RunID
	a.workdirs[""] = newWorkdir(a.Dir, a.runID)
	return nil
}

func (a *server) pong(f wire.Frame) error {
	return a.out.JSON(wire.TypePong, f.Trial, wire.Pong{MonoNS: wire.Now(), WallNS: time.Now().UnixNano()})
}

func (a *server) facts(ctx context.Context, f wire.Frame) error {
	var of wire.FactsOf
	if len(f.Payload) > 0 {
		if err := f.Decode(&of); err != nil {
			return a.refuse(f, "refused", err.Error())
		}
	}
	defer debug.FreeOSMemory()
	// Collect keeps its deadline unless a file system hangs; the agent does not wait longer.
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var fs record.Facts
	err, gone := a.reach(ctx, of.Root, "facts are being collected", func(wd *workdir) (told func()) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		found := sysinfo.Collect(ctx, wd.base)
		if a.Root != "" {
			found.Distro = distro(a.Root)
		}
		if wd.err != nil {
			if found.Extra == nil {
				found.Extra = map[string]string{}
			}
			found.Extra["work_dir.error"] = wd.err.Error()
			if readOnly(wd.err) {
				found.Extra["work_dir.read_only"] = "true"
			}
		}
		return func() { fs = found }
	})
	switch {
	case gone != nil:
		return gone
	case err != nil:
		return a.refuse(f, "facts", err.Error())
	}
	return a.out.JSON(wire.TypeFacts, f.Trial, fs)
}

func (a *server) release(ctx context.Context, f wire.Frame) error {
	var r wire.Release
	if err := f.Decode(&r); err != nil {
		return a.refuse(f, "refused", err.Error())
	}
	for _, root := range slices.Compact([]string{r.Root, ""}) {
		if a.workdirs[root] == nil {
			continue
		}
		var failed error
		err, gone := a.reach(ctx, root, "files are being removed", func(wd *workdir) (told func()) {
			err := wd.release(ctx, r.Cell)
			return func() { failed = err }
		})
		if gone != nil {
			return gone
		}
		if err = errors.Join(failed, err); err != nil {
			return a.refuse(f, "release", err.Error())
		}
	}
	return a.out.Mark(wire.TypeRelease, f.Trial)
}

// mount mounts a folder for the controller.
func (a *server) mount(ctx context.Context, f wire.Frame) error {
	var m guestabi.Mount
	if err := f.Decode(&m); err != nil {
		return a.refuse(f, "refused", err.Error())
	}
	if !a.Mounts {
		return a.refuse(f, "refused", "this system is not the agent's own, so the agent cannot mount folders here")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := wire.Now()
	var got wire.Mounted
	var failure *record.Failure
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, failure = a.mounts.add(ctx, &m)
	}()
	if gone := a.attend(done, cancel, "a folder is being mounted"); gone != nil {
		return gone
	}
	if failure != nil {
		return a.out.JSON(wire.TypeFailure, f.Trial, failure)
	}
	got.TookNS = wire.Now() - began
	return a.out.JSON(wire.TypeMount, f.Trial, got)
}

func (a *server) unmountAll() { a.mounts.close() }

func (a *server) refuse(f wire.Frame, kind, message string) error {
	return a.out.JSON(wire.TypeFailure, f.Trial, record.Failure{Kind: kind, Message: message})
}
