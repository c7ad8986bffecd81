package vmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/driver/wired"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/measure/line"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// pipe is where a machine's serial line is: a Unix socket, or a named pipe of Windows. VMware makes it.
type pipe struct {
	path    string
	release func() error
}

// maxBase bounds the path of the folder for sockets, whose own paths have at most 107 bytes.
const maxBase = 24

func newPipe(runID string) (pipe, error) {
	if windows() {
		return pipe{`\\.\pipe\tare-` + runID, func() error { return nil }}, nil
	}
	dir, release, err := leftover.New(leftover.Short(maxBase), runID)
	return pipe{filepath.Join(dir, "wire"), release}, err
}

func (p pipe) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if windows() {
		return os.OpenFile(p.path, os.O_RDWR, 0)
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", p.path)
}

// vm is a machine that tare made.
type vm struct {
	vmrun
	vmx, dir string
	pipe     pipe
	facts    record.Facts
	mounts   []machineMount
	keeper   *proc.Stream // stops the machine if tare is killed; nil on Windows
	started  bool
	wire     wired.Line

	mu     sync.Mutex
	closed bool
}

// keepScript stops the machine when its input ends before it was told to leave: tare was killed then. VMware's own
// process does not belong to tare and would go on. The signal that announces tare's death may come once for each of its
// threads, so it is ignored.
const keepScript = `trap "" TERM INT HUP
read -r word || "$@" >/dev/null 2>&1`

// start starts the machine.
func (v *vm) start(ctx context.Context) error {
	if !windows() {
		cmd := proc.Command(context.WithoutCancel(ctx), append([]string{"sh", "-c", keepScript, "tare-keeper"},
			v.argv("stop", v.vmx, "hard")...)...)
		proc.GentleDeath(cmd)
		var err error
		if v.keeper, err = proc.Start(cmd); err != nil {
			return err
		}
	}
	v.started = true
	_, err := v.run(ctx, v.startWords()...)
	return err
}

// connect waits for the guest's call on the serial line.
func (v *vm) connect(ctx context.Context, limit time.Duration) (*line.Conn, error) {
	patience, cancel := proc.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		conn, err := v.pipe.dial(patience)
		if err == nil {
			c, err := line.Dial(patience, conn)
			switch {
			case err == nil:
				return c, nil
			case ctx.Err() != nil:
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("the agent did not answer within %v: %w", limit, err)
		}
		last = err
		select {
		case <-time.After(20 * time.Millisecond):
			continue
		case <-patience.Done():
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("VMware made no serial line within %v: %w", limit, last)
	}
}

// Agent connects to the agent in the guest, which serves one connection after another.
func (v *vm) Agent(ctx context.Context) (env.Stream, error) { return v.wire.Agent(ctx) }

// Facts has VMware's facts of the machine.
func (v *vm) Facts() record.Facts {
	f := v.facts
	f.Settings, f.Extra, f.Command = maps.Clone(f.Settings), maps.Clone(f.Extra), slices.Clone(f.Command)
	return f
}

// Mounts are the machine's mounts; the host's side is done.
func (v *vm) Mounts() []env.Mounted {
	var all []env.Mounted
	for _, m := range v.mounts {
		all = append(all, m.Mounted)
	}
	return all
}

// logSize bounds the read parts of VMware's log, in bytes: its beginning for facts, its end for evidence.
const logSize = 64 << 10

// log is the beginning of VMware's log of the machine.
func (v *vm) log() string {
	f, err := os.Open(filepath.Join(v.dir, "vmware.log"))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, logSize))
	return proc.Printable(b)
}

// Diagnose returns the end of VMware's log.
func (v *vm) Diagnose() []byte {
	f, err := os.Open(filepath.Join(v.dir, "vmware.log"))
	if err != nil {
		return []byte("[vmware.log] there is none\n")
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logSize/2 {
		f.Seek(-logSize/2, io.SeekEnd)
	}
	b, _ := io.ReadAll(io.LimitReader(f, logSize/2))
	return append([]byte("[vmware.log] "), proc.Printable(b)...)
}

var productRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`Log for (VMware [A-Za-z]+(?: Pro| Player| Fusion)?) pid=\d+ version=([0-9.]+) ` +
		`build=build-(\d+)`)
})

// parseLog reads facts from the beginning of vmware.log.
func parseLog(text string) map[string]string {
	f := map[string]string{}
	if m := productRE().FindStringSubmatch(text); m != nil {
		f["vmware.product"], f["vmware.version"], f["vmware.build"] = m[1], m[2], m[3]
	}
	for line := range strings.Lines(text) {
		for said, fact := range map[string]string{"Monitor Mode: ": "vmware.monitor",
			"virtual exec: ": "vmware.virtual_exec"} {
			if _, rest, ok := strings.Cut(line, said); ok {
				f[fact] = proc.Line(rest)[:min(len(proc.Line(rest)), 100)]
			}
		}
	}
	return f
}

// stopTime bounds the wait for the product to let go of a stopped machine's files.
const stopTime = 30 * time.Second

// Close stops the machine at once and removes all its files: its disk is deleted, so the guest need not shut down.
func (v *vm) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	v.wire.Close()
	var errs []error
	if v.started {
		_, err := v.run(context.Background(), "stop", v.vmx, "hard")
		if err != nil && !off(err) {
			errs = append(errs, fmt.Errorf("stop the machine: %w", err))
		}
		// A machine that crashed leaves its lock.
		for end := time.Now().Add(stopTime); err == nil && len(locked(v.vmx)) > 0 && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if v.keeper != nil {
		if len(errs) == 0 {
			io.WriteString(v.keeper, "leave\n")
		}
		v.keeper.Close()
	}
	errs = append(errs, v.pipe.release())
	if err := os.RemoveAll(v.dir); err != nil {
		errs = append(errs, fmt.Errorf("remove the machine's files: %w", err))
	}
	return errors.Join(errs...)
}
