package virtualbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/driver/wired"
	"tare/internal/lab/env"
	"tare/internal/measure/line"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// existingMachine is a machine that tare did not make. It is met on its serial line, and left as it was found.
type existingMachine struct {
	socket string
	facts  record.Facts
	wire   wired.Line
}

// callTime bounds the wait for the agent of a machine that runs already.
const callTime = 30 * time.Second

const serialRemedy = "tare guest media writes what such a machine boots from; its first serial port must be a " +
	"server: VBoxManage modifyvm NAME --uart1 0x3f8 4 --uart-mode1 server /tmp/NAME.serial; a machine with a system " +
	"of its own is reached by ssh=[USER@]HOST[:PORT]"

const listRemedy = "VBoxManage list vms shows the machines of this user; those of another one are seen by " +
	"that user only"

// openExisting opens a machine of the user's, or a linked clone of it.
func (d driver) openExisting(ctx context.Context, o env.Options) (env.Env, error) {
	fail := func(op string, err error, remedy string) (env.Env, error) {
		return nil, &env.OpenError{Env: o.Name, Op: op, Err: err, Remedy: remedy}
	}
	p, err := find("")
	if err != nil {
		return fail("find VirtualBox", err, installRemedy)
	}
	user := &session{product: p}
	if o.Get("clone", none) != none {
		b := d.newBoot(o)
		return b.try(ctx, func(ctx context.Context) (*vm, error) { return b.openClone(ctx, user) })
	}
	for _, k := range slices.Sorted(maps.Keys(o.Settings)) {
		connects := slices.ContainsFunc(sshSettings(), func(d env.Setting) bool { return d.Name == k })
		if !connects {
			return fail("read settings", fmt.Errorf("the machine %s has its settings already, so %s= is not possible",
				o.Arg, k), "leave the setting out, or work in a clone: clone=linked")
		}
		if o.Get(ssh.Address, "") == "" {
			return fail("read settings", fmt.Errorf("%s= is for a machine that ssh reaches", k),
				"say where: ssh=[USER@]HOST[:PORT]")
		}
	}
	return attach(ctx, user, o)
}

func sshSettings() []env.Setting {
	return ssh.MachineSettings("Of a machine of yours", "its serial line")
}

// attach connects to the agent in a machine of the user's that runs. Nothing of the machine is changed.
func attach(ctx context.Context, s *session, o env.Options) (env.Env, error) {
	op, remedy := "find the machine", listRemedy
	fail := func(err error) (env.Env, error) {
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
	facts := existingFacts(s, info)
	facts.Extra["virtualbox.version"] = version
	if address := o.Get(ssh.Address, ""); address != "" {
		return ssh.Enter(ctx, o, address, facts)
	}
	mode, socket, _ := strings.Cut(info["uartmode1"], ",")
	if mode != "server" || socket == "" {
		op, remedy = "connect to the machine", serialRemedy
		return fail(errors.New("its first serial port is not a local socket in server mode"))
	}
	e := &existingMachine{socket: s.hostPath(socket), facts: facts}
	op, remedy = "connect to the agent", serialRemedy
	e.wire.Dial = e.dial
	if err := e.wire.Begin(ctx); err != nil {
		return fail(err)
	}
	e.facts.OS, e.facts.Arch = "linux", "amd64"
	e.facts.Command = []string{s.manage, "showvminfo", o.Arg}
	return e, nil
}

// existingFacts has VirtualBox's facts of a machine, and those of its log.
func existingFacts(s *session, info map[string]string) record.Facts {
	f := record.Facts{Hypervisor: name, Settings: map[string]string{}, Extra: shown(info)}
	f.Threads, _ = strconv.Atoi(info["cpus"])
	memory, _ := strconv.ParseInt(info["memory"], 10, 64)
	f.MemoryBytes = memory << 20
	if log, err := openLog(s.hostPath(info["LogFldr"]) + "/VBox.log"); err == nil {
		l := readLog(log)
		f.Emulated = l.Interpreted
		f.Hypervisor = strings.TrimSpace(name + " " + l.Engine)
		l.tell(f.Extra)
	}
	return f
}

func (e *existingMachine) dial(ctx context.Context) (*line.Conn, error) {
	ctx, cancel := proc.WithTimeout(ctx, callTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", e.socket)
	if err != nil {
		return nil, err
	}
	return line.Dial(ctx, conn)
}

// Agent connects to the agent, which serves one connection after another.
func (e *existingMachine) Agent(ctx context.Context) (env.Stream, error) { return e.wire.Agent(ctx) }

// Facts has VirtualBox's facts of the machine.
func (e *existingMachine) Facts() record.Facts {
	f := e.facts
	f.Settings, f.Extra = maps.Clone(f.Settings), maps.Clone(f.Extra)
	return f
}

// Close closes the connection. The machine goes on.
func (e *existingMachine) Close() error {
	e.wire.Close()
	return nil
}
