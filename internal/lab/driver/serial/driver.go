// Package serial attaches to a guest that was booted from tare's medium, over its serial port: by a Unix socket, a TCP
// port, a pair of pipes or a serial device. So every hypervisor that gives a guest a serial port is an environment.
//
// It is opinionated about leaving the guest alone: tare did not start it and does not end it. The guest waits for the
// next controller.
package serial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"sync"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/medium"
	"tare/internal/measure/line"
	"tare/internal/record"
)

const name = "serial"

// The settings' defaults.
const (
	defaultBaud = 115200
	defaultWait = time.Minute
)

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name: name,
		Doc: "A virtual or real machine that runs already, booted from the medium of tare guest media, over its " +
			"serial port.",
		ArgDoc: "PLACE", ArgNeeds: true,
		Settings: []env.Setting{
			{Name: "baud", Default: strconv.Itoa(defaultBaud), Doc: "Speed of a serial device; sockets and pipes " +
				"have none.", Check: checkBaud},
			{Name: "wait", Default: "1m", Doc: "How long to wait for the guest, which may still boot.",
				Check: checkWait},
			{Name: "emulated", Default: "no", Doc: "yes: the guest's processor is emulated or interpreted in " +
				"software, and its figures are marked. A guest of QEMU's emulator tells by itself.",
				Check: env.OneOf("no", "yes")},
			{Name: "remote", Default: "no", Doc: "yes: the TCP port may be on another machine, although whoever " +
				"can reach it can read and change everything on the line.", Check: env.OneOf("no", "yes")},
		},
		Driver: driver{},
		Probe: func(ctx context.Context) env.Status {
			s := env.Status{OK: true, Detail: "needs a guest that was booted from tare guest media"}
			if m := medium.Probe(ctx); !m.OK { // it may have been written elsewhere
				s.Detail += "; to write one here: " + m.Remedy
			}
			return s
		},
		Has: func(_ context.Context, s env.Spec) env.Status {
			p, err := parse(s.Arg, s.Get("remote", "no") == "yes")
			if err == nil {
				err = p.there()
			}
			if err != nil {
				return env.Status{Detail: err.Error(), Remedy: remedy}
			}
			return env.Status{OK: true, Detail: p.kind}
		},
		OpenTime: func(s env.Spec) time.Duration { return wait(&s) + 30*time.Second },
	}}
}

func checkBaud(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < 50 || n > 10e6 {
		return fmt.Errorf("%q is not a speed in baud, such as 115200", v)
	}
	return nil
}

func checkWait(v string) error {
	if d, err := time.ParseDuration(v); err != nil || d < time.Second || d > time.Hour {
		return fmt.Errorf("%q is not a time from 1s to 1h", v)
	}
	return nil
}

func wait(s *env.Spec) time.Duration {
	if d, err := time.ParseDuration(s.Get("wait", "")); err == nil {
		return d
	}
	return defaultWait
}

const remedy = "start the virtual machine with a serial port that is connected to this place, as " +
	"docs/environments.md shows"

type driver struct{}

// Open connects to the line and waits for the guest's call.
func (driver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	fail := func(op string, err error, remedy string) (env.Env, error) {
		x := &env.OpenError{Env: o.Name, Op: op, Err: err, Remedy: remedy}
		if dead, ok := errors.AsType[*line.DeadError](err); ok {
			x.Evidence = dead.Evidence()
		}
		return nil, x
	}
	if err := ctx.Err(); err != nil {
		return fail("open", err, "")
	}
	p, err := parse(o.Arg, o.Get("remote", "no") == "yes")
	if err != nil {
		return fail("read settings", err, "write serial:/run/vm.sock, serial:/dev/ttyUSB0 or serial:tcp:127.0.0.1:4000")
	}
	p.baud, _ = strconv.Atoi(o.Get("baud", strconv.Itoa(defaultBaud))) // it was checked
	e := &environment{place: p, wait: wait(&o.Spec), settings: maps.Clone(o.Settings)}
	if err := e.connect(ctx); err != nil {
		if _, dead := errors.AsType[*line.DeadError](err); dead {
			return fail("wait for the guest", err, "boot the guest from the medium of tare guest media, with its "+
				"first serial port connected to "+p.text+"; wait= sets a longer time")
		}
		return fail("open the serial line", err, remedy)
	}
	return e, nil
}

// environment is a guest at the other end of a line.
type environment struct {
	place    place
	wait     time.Duration
	settings map[string]string
	facts    map[string]string // of the line when it was opened

	mu     sync.Mutex
	ready  *line.Conn // opened and not handed out yet
	last   *stream
	closed bool
}

// connect opens the line and a session. mu is held, or nobody else has e.
func (e *environment) connect(ctx context.Context) error {
	rw, err := e.place.open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.wait, fmt.Errorf("no guest within %v: %w", e.wait,
		context.DeadlineExceeded))
	defer cancel()
	if e.ready, err = line.Dial(ctx, rw); err != nil {
		return err
	}
	e.facts = e.ready.Facts()
	return nil
}

// stream is a session that an agent uses.
type stream struct {
	*line.Conn
	once  sync.Once
	ended chan struct{}
	err   error
}

func (s *stream) Close() error {
	s.once.Do(func() {
		s.err = s.Conn.Close()
		close(s.ended)
	})
	return s.err
}

// Agent returns the session that Open began, and later ones after it.
func (e *environment) Agent(ctx context.Context) (env.Stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("attach to agent: the environment is closed")
	}
	if e.last != nil {
		select {
		case <-e.last.ended:
		default:
			return nil, errors.New("attach to agent: another one is attached; close its stream first")
		}
	}
	if e.ready == nil {
		if err := e.connect(ctx); err != nil {
			return nil, fmt.Errorf("attach to agent: %w", err)
		}
	}
	e.last = &stream{Conn: e.ready, ended: make(chan struct{})}
	e.ready = nil
	return e.last, nil
}

// Facts are those of the line. Everything else is known in the guest only.
func (e *environment) Facts() record.Facts {
	e.mu.Lock()
	defer e.mu.Unlock()
	extra := maps.Clone(e.facts)
	extra["line.kind"] = e.place.kind
	return record.Facts{
		Settings: maps.Clone(e.settings), Extra: extra, Command: []string{name + ":" + e.place.text},
		Emulated: e.settings["emulated"] == "yes",
	}
}

// Diagnose returns the guest's console, as far as it was on the line.
func (e *environment) Diagnose() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		return nil
	}
	return e.last.Diagnose()
}

// Close ends the session and leaves the guest as it is.
func (e *environment) Close() (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.ready != nil {
		err = e.ready.Close()
		e.ready = nil
	}
	if e.last != nil {
		err = errors.Join(err, e.last.Close())
	}
	if errors.Is(err, io.ErrClosedPipe) {
		err = nil // the other end was closed before
	}
	return err
}
