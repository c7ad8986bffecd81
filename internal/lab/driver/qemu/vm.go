package qemu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/env"
	"tare/internal/lab/vdisk"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// consoleTail is how much of a guest's console is kept, in bytes.
const consoleTail = 128 << 10

// refusedError is a failure that a retry would only repeat: QEMU ended by itself with an error, or never started.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

func (e *refusedError) Unwrap() error { return e.err }

// unpreparedError is a failure before QEMU was started. It says nothing about the accelerator, and a retry would only
// repeat it.
type unpreparedError struct{ err error }

func (e *unpreparedError) Error() string { return e.err.Error() }

func (e *unpreparedError) Unwrap() error { return e.err }

// vm is a running micro-VM.
type vm struct {
	argv   []string
	dir    string
	image  *vdisk.Image // the scratch disk; nil if there is none or the caller serves it
	shares *shares
	reach  error // why the host's loopback cannot be reached; nil if it can
	// network is the network of the card; nil if that is QEMU's user-mode network.
	network *network
	// forwarded are the ports of this machine's loopback that lead to those of the guest, by the latter.
	forwarded map[uint16]uint16
	group     *limited.Group // of QEMU's process; nil without limits
	facts     record.Facts
	// reported are facts of the manager; nil if there is none.
	reported map[string]string
	retries  []record.Failure

	qemu    Process
	console *proc.Tail
	drained chan struct{} // closed when the console has ended
	wire    *port
	ask     func(command string, limit time.Duration, result any) error // QEMU's monitor
	// quit asks QEMU to end, if it can be asked, and release ends the rest of it and its connections.
	quit, release func()

	mu     sync.Mutex
	taken  bool // the agent's stream is in use
	closed bool
}

// Process is QEMU, as a child of tare or of a Manager.
type Process interface {
	// Done is closed when it has ended; Err and How then say how.
	Done() <-chan struct{}
	Err() error
	How() error
	// Stderr is the end of its own output.
	Stderr() []byte
	Pid() int
	// Close ends it, by force if it must.
	Close() error
}

// child is QEMU as a child of tare. Its context ends it.
type child struct {
	*proc.Stream
	end context.CancelFunc
}

func (c child) Close() error {
	c.end()
	return c.Stream.Close()
}

// launch starts QEMU. ctx does not bound its life. After an error nothing runs, but the vm, if there is one, has
// evidence.
func launch(ctx context.Context, c *config, accel string, f files) (v *vm, err error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	v = &vm{console: proc.NewTail(consoleTail), drained: make(chan struct{}), quit: func() {}}
	var channels []*channel
	var conns []net.Conn
	v.release = func() {
		end()
		for _, c := range channels {
			c.close()
		}
		for _, c := range conns {
			c.Close()
		}
	}
	defer func() {
		if err != nil {
			v.stop()
			if v.qemu == nil {
				v = nil
			}
		}
	}()
	cmd := proc.Command(life, f.program)
	for _, arg := range []*string{&f.control, &f.wire} {
		ch, err := newChannel()
		if err != nil {
			return v, err
		}
		channels = append(channels, ch)
		*arg = ch.give(cmd)
	}
	for _, l := range f.links {
		l.give(cmd)
	}
	if f.card != nil {
		f.card.give(cmd)
	}
	v.argv = c.arguments(accel, f)
	cmd.Args = v.argv
	f.group.Join(cmd)
	qemu, err := proc.Start(cmd)
	if err != nil {
		return v, err
	}
	v.qemu = child{qemu, end}
	v.listen(qemu)
	control, err := channels[0].connect(ctx)
	if err != nil {
		return v, err
	}
	conns = append(conns, control)
	monitor := &monitor{conn: control}
	v.ask = monitor.ask
	v.quit = func() { monitor.within(2*time.Second, "quit", time.Second, nil) } // if it is refused, signals follow
	wire, err := channels[1].connect(ctx)
	if err != nil {
		return v, err
	}
	conns = append(conns, wire)
	v.wire = &port{Conn: wire, r: bufio.NewReader(wire), vm: v}
	return v, nil
}

// listen keeps the end of what the guest's console says.
func (v *vm) listen(console io.Reader) {
	go func() {
		io.Copy(v.console, console)
		close(v.drained)
	}()
}

// awaitAgent waits for the first output of the agent in the guest.
func (v *vm) awaitAgent(ctx context.Context, limit time.Duration) error {
	patience, cancel := proc.WithTimeout(ctx, limit)
	defer cancel()
	given := make(chan struct{})
	stop := context.AfterFunc(patience, func() {
		v.wire.SetReadDeadline(time.Unix(1, 0))
		close(given)
	})
	_, err := v.wire.r.Peek(1)
	if !stop() {
		<-given // otherwise it would interrupt a later read
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return v.wire.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the agent did not answer within %v%s", limit, v.lastWords())
	}
	// The connection ended, so QEMU is ending or has ended.
	select {
	case <-v.qemu.Done():
	case <-time.After(10 * time.Second):
		return fmt.Errorf("the guest closed the connection before the agent answered%s", v.lastWords())
	}
	<-v.drained
	if e := v.qemu.Err(); e != nil {
		why, _, _ := strings.Cut(strings.TrimSpace(proc.Printable(v.qemu.Stderr())), "\n")
		return &refusedError{fmt.Errorf("QEMU failed to start: %s (%w)", why, e)}
	}
	return fmt.Errorf("the guest ended before the agent answered%s", v.lastWords())
}

// lastWords is the console's most informative line, for an error: the kernel's panic or a message of tare if there is
// one, else the last line.
func (v *vm) lastWords() string {
	last := proc.Telling(v.console.Bytes())
	if last == "" {
		return "; its console is empty"
	}
	return "; the last line of its console: " + last
}

// Agent attaches to the agent that is the guest's first process. There is one per boot.
func (v *vm) Agent(ctx context.Context) (env.Stream, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.closed:
		return nil, errors.New("attach to agent: the micro-VM is closed")
	case v.taken:
		return nil, errors.New("attach to agent: it is the micro-VM's first process and can be used only " +
			"once; open the environment again")
	}
	v.taken = true
	return v.wire, nil
}

// Facts is QEMU's command line and what QEMU reported.
func (v *vm) Facts() record.Facts {
	f := v.facts
	f.Settings, f.Extra, f.Command = maps.Clone(f.Settings), maps.Clone(f.Extra), slices.Clone(f.Command)
	return f
}

// Disk is the map of the scratch disk when it was made. A raw image has none.
func (v *vm) Disk() *record.DiskMap {
	if v.image == nil || v.image.Format == "raw" {
		return nil
	}
	return v.image.Picture()
}

// Retries are the boots that failed before this one.
func (v *vm) Retries() []record.Failure { return v.retries }

// Mounts are the machine's mounts; the host's side is done.
func (v *vm) Mounts() []env.Mounted { return v.shares.mounted() }

// Processes implements env.HostProcesses.
func (v *vm) Processes() []int { return []int{v.Pid()} }

// Servers implements env.HostServers.
func (v *vm) Servers() (all []int) {
	if v.network != nil {
		all = kernelThreads("/proc", fmt.Sprintf("vhost-%d", v.Pid()))
	}
	for _, s := range v.shares.alive() {
		if s.Served == nil || s.Pid == nil {
			continue
		}
		if pid := s.Pid(); pid > 0 {
			all = append(all, proc.Family(pid)...)
		}
	}
	return all
}

// Pid is QEMU's process id.
func (v *vm) Pid() int { return v.qemu.Pid() }

// Diagnose returns the end of the console and QEMU's own output.
func (v *vm) Diagnose() []byte {
	out := v.console.Bytes()
	if s := v.qemu.Stderr(); len(s) > 0 {
		out = append(append(out, "\n[QEMU] "...), s...)
	}
	select {
	case <-v.qemu.Done():
		how := "ended"
		if err := v.qemu.Err(); err != nil {
			how = err.Error()
		}
		out = append(out, "\n[QEMU] "+how+"\n"...)
	default:
		if len(out) == 0 {
			out = []byte("[QEMU] is running, and the guest's console is empty\n")
		}
	}
	return out
}

// Close ends QEMU, then the servers of its mounts, and removes all files. The disk is deleted, so the guest need not
// shut down.
func (v *vm) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	v.stop()
	if v.dir == "" {
		return nil
	}
	v.network.close()
	err := errors.Join(v.shares.remove(), v.group.Close())
	if v.image != nil {
		err = errors.Join(err, v.image.Close())
	}
	if e := os.RemoveAll(v.dir); e != nil {
		err = errors.Join(err, fmt.Errorf("remove micro-VM files: %w", e))
	}
	return err
}

// stop ends QEMU: it is asked to, and then it must (see proc).
func (v *vm) stop() {
	if v.qemu != nil {
		v.quit()
		select {
		case <-v.qemu.Done():
		case <-time.After(2 * time.Second):
		}
		v.qemu.Close()
		<-v.drained
	}
	v.release()
}

// port is the host's end of the wire.
type port struct {
	net.Conn
	r  *bufio.Reader
	vm *vm
}

// Read reads the agent's output from its first byte, which awaitAgent only peeked at.
func (p *port) Read(b []byte) (int, error) { return p.r.Read(b) }

// CloseWrite closes the connection: a virtio-serial port cannot be closed in one direction only. The agent sees the end
// of its input and powers the machine off.
func (p *port) CloseWrite() error { return p.Conn.Close() }

// Diagnose returns the machine's evidence.
func (p *port) Diagnose() []byte { return p.vm.Diagnose() }
