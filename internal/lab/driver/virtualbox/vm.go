package virtualbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"tare/internal/lab/driver/wired"
	"tare/internal/lab/env"
	"tare/internal/lab/hostcache"
	"tare/internal/measure/line"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// vm is a running machine that tare made.
type vm struct {
	*machine
	dir     string // of the environment
	facts   record.Facts
	retries []record.Failure
	mounts  []env.Mounted
	images  []string // files of a clone's disks, those of the machine that it was cloned from included

	end     context.CancelFunc
	process *proc.Stream // VBoxHeadless
	resumed bool         // it has gone on from a saved state
	reach   error        // why the guest does not reach this machine's loopback

	wire wired.Line

	mu     sync.Mutex
	closed bool
}

func newVM(m *machine, dir string) *vm {
	v := &vm{machine: m, dir: dir}
	v.wire.Hypervisor = v.Diagnose
	v.wire.Dial = func(ctx context.Context) (*line.Conn, error) { return v.connect(ctx, time.Minute) }
	return v
}

// start starts the machine's process. ctx does not bound its life.
func (v *vm) start(ctx context.Context, engine string) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	v.end = end
	argv := []string{filepath.Join(v.folder(), "VBoxHeadless")}
	if engine == interpreter && !driverLoaded() {
		argv = []string{python, "-c", launcher, v.folder()}
	}
	os.Remove(v.log()) // a log from before a state was saved tells nothing of this start
	var err error
	v.process, err = proc.Start(v.command(life, append(argv, "--startvm", v.name, "--vrde", "off")...))
	return err
}

// kill ends the machine's process at once, as a crash of the host would.
func (v *vm) kill() {
	if v.process == nil {
		return
	}
	if pids := v.Processes(); len(pids) > 1 { // else nsenter's death would leave its child to the namespace
		if p, err := os.FindProcess(pids[1]); err == nil {
			p.Kill()
		}
	}
	v.process.Kill()
	<-v.process.Done()
	v.process.Close()
	v.end()
}

// connect waits for the guest's call on the serial line.
func (v *vm) connect(ctx context.Context, limit time.Duration) (*line.Conn, error) {
	patience, cancel := proc.WithTimeout(ctx, limit)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	waiting, give := context.WithCancelCause(patience)
	defer give(nil)
	var heard error // with what the guest's console said last
	process := v.process
	go func() {
		select {
		case <-process.Done():
			give(errEnded)
		case <-stop:
		}
	}()
	for {
		conn, err := (&net.Dialer{}).DialContext(waiting, "unix", v.socket())
		if err == nil {
			if v.resumed {
				// The machine's end may be mute until a byte has come, and Dial first listens for some seconds.
				_, _ = conn.Write([]byte(line.Nudge)) // Dial reports the fault
			}
			var c *line.Conn
			if c, err = line.Dial(waiting, conn); err == nil {
				return c, nil
			}
			// VirtualBox takes one connection at a time, and may not have noticed the end of the one before: it closes
			// this one, with a reset if it has not read what was written.
			if !slices.ContainsFunc([]error{io.ErrUnexpectedEOF, io.EOF, syscall.ECONNRESET, syscall.EPIPE},
				func(is error) bool { return errors.Is(err, is) }) {
				return nil, v.silent(ctx, waiting, limit, err)
			}
			if dead, ok := errors.AsType[*line.DeadError](err); ok && len(dead.Evidence()) > 0 {
				heard = err
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-waiting.Done():
			return nil, v.silent(ctx, waiting, limit, cmp.Or(heard, err))
		}
	}
}

var errEnded = errors.New("VirtualBox's process ended")

// silent says why no agent answered.
func (v *vm) silent(ctx, waiting context.Context, limit time.Duration, said error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(context.Cause(waiting), errEnded):
		err := v.died()
		if _, ok := errors.AsType[*line.DeadError](said); ok {
			err = fmt.Errorf("%w: the guest switched itself off or started again; %w", err, said)
		}
		return err
	case said != nil:
		return fmt.Errorf("the agent did not answer within %v: %w", limit, said)
	}
	return fmt.Errorf("the agent did not answer within %v", limit)
}

// died says why VirtualBox's process ended.
func (v *vm) died() error {
	if l := v.readLog(); l.Failed != "" {
		return fmt.Errorf("%w: %s", errEnded, l.Failed)
	}
	said := proc.Telling(v.process.Stderr())
	if said == "" {
		return errEnded
	}
	return fmt.Errorf("%w: %s", errEnded, said)
}

// Agent connects to the agent in the guest, which serves one connection after another.
func (v *vm) Agent(ctx context.Context) (env.Stream, error) { return v.wire.Agent(ctx) }

// Facts has VirtualBox's and the host's facts of the machine.
func (v *vm) Facts() record.Facts {
	f := v.facts
	f.Settings, f.Extra, f.Command = maps.Clone(f.Settings), maps.Clone(f.Extra), slices.Clone(f.Command)
	return f
}

// Retries are the openings that failed before this one.
func (v *vm) Retries() []record.Failure { return v.retries }

// Mounts are the machine's mounts; the host's side is done.
func (v *vm) Mounts() []env.Mounted { return v.mounts }

// Processes returns the machine's process, and before it that which entered the namespaces.
func (v *vm) Processes() []int {
	if v.process == nil {
		return nil
	}
	pids := []int{v.process.Pid()}
	if v.root != "" {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pids[0], pids[0]))
		for _, word := range strings.Fields(string(children)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// logTail is how much of VBox.log is evidence, in bytes.
const logTail = 32 << 10

// Diagnose returns the end of VBox.log and what the machine's process printed.
func (v *vm) Diagnose() []byte {
	var out []byte
	if text, err := openLog(v.log()); err == nil {
		out = append([]byte("[VBox.log] "), text[max(0, len(text)-logTail):]...)
	}
	if p := v.process; p != nil {
		if said := p.Stderr(); len(said) > 0 {
			out = append(append(out, "\n[VBoxHeadless] "...), said...)
		}
	}
	return out
}

func (m *machine) log() string {
	return filepath.Join(m.machines, m.name, "Logs", "VBox.log")
}

func (m *machine) readLog() logFacts {
	text, err := openLog(m.log())
	if err != nil {
		return logFacts{}
	}
	return readLog(text)
}

// socket is where the serial line is.
func (m *machine) socket() string { return filepath.Join(m.session.dir, wireName) }

// Close ends the machine at once and removes everything of it: its disks are deleted, so the guest need not shut down.
func (v *vm) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	v.wire.Close()
	v.kill()
	err := v.session.close()
	if v.dir != "" {
		if e := os.RemoveAll(v.dir); e != nil {
			err = errors.Join(err, fmt.Errorf("remove the machine's files: %w", e))
		}
	}
	return err
}

// DropHostCaches drops the machine's disks and shared folders from the host's page cache. With hostiocache=off that has
// only the pages from the making of the disk.
func (v *vm) DropHostCaches(ctx context.Context) error {
	places := slices.Clone(v.images)
	for _, d := range v.disks {
		places = append(places, d.data)
	}
	for _, m := range v.mounts {
		if m.Mount.HostDir != "" {
			places = append(places, m.Mount.HostDir)
		}
	}
	return hostcache.Drop(ctx, places)
}
