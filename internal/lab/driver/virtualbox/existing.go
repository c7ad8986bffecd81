package virtualbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	"tare/internal/lab/driver/wired"
	"tare/internal/lab/env"
	"tare/internal/measure/line"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// existing is a machine that tare did not make. It is met on its serial line only, and left as it was found.
type existing struct {
	socket string
	facts  record.Facts
	wire   wired.Line
}

// callTime bounds the wait for the agent of a machine that runs already.
const callTime = 30 * time.Second

const serialRemedy = "tare guest media writes what such a machine boots from; its first serial port must be a " +
	"server: VBoxManage modifyvm NAME --uart1 0x3f8 4 --uart-mode1 server /tmp/NAME.serial"

// attach connects to the agent in a machine of the user's that runs. Nothing of the machine is changed.
func attach(ctx context.Context, s *session, o env.Options) (_ *existing, err error) {
	op, remedy := "find the machine", "VBoxManage list vms shows the machines of this user"
	fail := func(err error) (*existing, error) {
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		x := &env.OpenError{Env: o.Name, Op: op, Err: err, Remedy: remedy}
		if e, ok := errors.AsType[*proc.ExitError](err); ok {
			x.Evidence = []byte(e.Stderr)
		}
		if e, ok := errors.AsType[*line.DeadError](err); ok {
			x.Evidence = e.Evidence()
		}
		return nil, x
	}
	if len(o.Mounts) > 0 {
		op, remedy = "read settings", "leave out the mounts, or let tare make a machine: -e vb=virtualbox"
		return fail(errors.New("a machine that tare did not make gets no disks and folders"))
	}
	version, err := s.version(ctx)
	if err != nil {
		remedy = installRemedy
		return fail(err)
	}
	info, err := s.info(ctx, o.Arg)
	if err != nil {
		return fail(err)
	}
	if state := info["VMState"]; state != "running" {
		op, remedy = "connect to the machine", "start it first: VBoxManage startvm "+o.Arg+" --type headless"
		return fail(fmt.Errorf("it is not running, but %s", strings.ReplaceAll(state, "poweroff", "powered off")))
	}
	mode, socket, _ := strings.Cut(info["uartmode1"], ",")
	if mode != "server" || socket == "" {
		op, remedy = "connect to the machine", serialRemedy
		return fail(errors.New("its first serial port is no server of a local socket"))
	}
	e := &existing{socket: s.hostPath(socket)}
	op, remedy = "connect to the agent", serialRemedy
	e.wire.Dial = e.dial
	if err := e.wire.Begin(ctx); err != nil {
		return fail(err)
	}
	e.facts = record.Facts{OS: "linux", Arch: "amd64", Hypervisor: name, Settings: maps.Clone(o.Settings),
		Command: []string{s.manage, "showvminfo", o.Arg}, Extra: map[string]string{"virtualbox.version": version}}
	if e.facts.Settings == nil {
		e.facts.Settings = map[string]string{}
	}
	maps.Copy(e.facts.Extra, shown(info))
	if log, err := openLog(s.hostPath(info["LogFldr"]) + "/VBox.log"); err == nil {
		l := readLog(log)
		e.facts.Emulated = l.Interpreted
		e.facts.Hypervisor = strings.TrimSpace(name + " " + l.Engine)
		l.tell(e.facts.Extra)
	}
	return e, nil
}

func (e *existing) dial(ctx context.Context) (*line.Conn, error) {
	ctx, cancel := proc.WithPatience(ctx, callTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", e.socket)
	if err != nil {
		return nil, err
	}
	return line.Dial(ctx, conn)
}

// Agent connects to the agent, which serves one connection after another.
func (e *existing) Agent(ctx context.Context) (env.Stream, error) { return e.wire.Agent(ctx) }

// Facts is what VirtualBox says of the machine.
func (e *existing) Facts() record.Facts {
	f := e.facts
	f.Settings, f.Extra = maps.Clone(f.Settings), maps.Clone(f.Extra)
	return f
}

// Close closes the connection. The machine goes on.
func (e *existing) Close() error {
	e.wire.Close()
	return nil
}
