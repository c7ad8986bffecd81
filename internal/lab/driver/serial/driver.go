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
	"maps"
	"strconv"
	"sync"
	"time"

	"tare/internal/lab/driver/wired"
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
			{Name: "baud", Default: strconv.Itoa(defaultBaud), Doc: "Speed of a serial device.", Check: checkBaud},
			{Name: "wait", Default: "1m", Doc: "How long to wait for the guest, which may still boot.",
				Check: checkWait},
			{Name: "emulated", Default: "no", Doc: "yes: the guest's processor is emulated or interpreted, and its " +
				"figures are marked; QEMU's emulator tells by itself.",
				Check: env.OneOf("no", "yes")},
			{Name: "remote", Default: "no", Doc: "yes: the TCP port may be on another machine; whoever reaches it " +
				"can read and change everything.", Check: env.OneOf("no", "yes")},
		},
		Driver: driver{},
		Alone:  func(env.Spec) error { return env.OneLine() },
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
	e.Dial = e.dial
	if err := e.Begin(ctx); err != nil {
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
	wired.Line
	place    place
	wait     time.Duration
	settings map[string]string

	mu    sync.Mutex
	facts map[string]string // of the line when it was last opened
}

// dial opens the line and a session.
func (e *environment) dial(ctx context.Context) (*line.Conn, error) {
	rw, err := e.place.open(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.wait, fmt.Errorf("no guest within %v: %w", e.wait,
		context.DeadlineExceeded))
	defer cancel()
	c, err := line.Dial(ctx, rw)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.facts = c.Facts()
	return c, nil
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

// Close ends the session and leaves the guest as it is.
func (e *environment) Close() error {
	e.Line.Close()
	return nil
}
