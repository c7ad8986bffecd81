package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ptraceTracer traces by stopping processes at each call.
type ptraceTracer struct {
	over chan ptraceResult // nil: nothing was started
}

type ptraceResult struct {
	trace *Trace
	err   error
}

// OpenPtrace opens this way to trace. It is for a process that does nothing else (Main): a parent that traces its
// child, as the controller would the agent, takes each stop for the child's end.
func OpenPtrace() (Tracer, error) { return &ptraceTracer{}, nil }

// Start implements Tracer.
func (p *ptraceTracer) Start(r Roots, marked bool) error {
	if r.Agent == 0 || !marked {
		return errors.New("ptrace follows the workers of an agent on this machine, and there is none")
	}
	begun, over := make(chan error, 2), make(chan ptraceResult, 1)
	go func() {
		// The kernel takes requests from the thread that traces only. It ends with this, and lets go of all that it
		// still traces.
		runtime.LockOSThread()
		t, err := stopAtCalls(r.Agent, func() { begun <- nil })
		begun <- err
		over <- ptraceResult{t, err}
	}()
	if err := <-begun; err != nil {
		return err
	}
	p.over = over
	return nil
}

// Mark implements Tracer.
func (p *ptraceTracer) Mark(bool) error { return errors.ErrUnsupported }

// Stop implements Tracer. It returns when the worker has ended.
func (p *ptraceTracer) Stop() (*Trace, error) {
	if p.over == nil {
		return nil, errNothing
	}
	s := <-p.over
	p.over = nil
	return s.trace, s.err
}

// Close implements Tracer.
func (p *ptraceTracer) Close() error { return nil }

// stopper follows the children of an agent and stops them at each call.
type stopper struct {
	agent   int
	tasks   map[int]*task
	phase   int
	segment int
	main    int // the worker's thread that does the trial
	group   int // the worker
	rows    [segments]rows
	errnos  map[[2]int]int64
}

// task is a thread that is traced.
type task struct {
	group int // as in the programs for the kernel
	in    bool
	nr    int
}

const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC

// stopAtCalls traces one trial.
func stopAtCalls(agent int, ready func()) (t *Trace, err error) {
	s := &stopper{agent: agent, tasks: map[int]*task{}, errnos: map[[2]int]int64{}}
	defer func() { err = errors.Join(err, s.letGo()) }()
	if err := s.seize(); err != nil {
		return nil, err
	}
	ready()
	for over := false; !over; {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			over = true // the agent has ended, too
		case err != nil:
			return nil, fmt.Errorf("wait for a process that is traced: %w", err)
		default:
			over = s.stopped(pid, status)
		}
	}
	sum := merge(&s.rows, s.segment)
	return &Trace{Work: calls(sum, s.errnos), Seen: s.phase == phaseOver, CPU: CPU{Faults: -1, Exits: -1}}, nil
}

// seize begins to follow the agent's threads. They are stopped only when they make threads or processes.
func (s *stopper) seize() error {
	for fresh := true; fresh; {
		fresh = false
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.agent))
		if err != nil {
			return fmt.Errorf("list the threads of the agent: %w", err)
		}
		for _, e := range entries {
			tid, err := strconv.Atoi(e.Name())
			if err != nil || s.tasks[tid] != nil {
				continue
			}
			switch _, err := ptrace(unix.PTRACE_SEIZE, tid, 0, traceOptions); {
			case errors.Is(err, unix.ESRCH):
			case errors.Is(err, unix.EPERM):
				return fmt.Errorf("trace the agent (ptrace): not permitted, or another program traces it; run tare " +
					"as root, or allow it with `sysctl kernel.yama.ptrace_scope=0`")
			case err != nil:
				return fmt.Errorf("trace the agent (ptrace): %w", err)
			default:
				s.tasks[tid], fresh = &task{}, true
			}
		}
	}
	return nil
}

func ptrace(request, pid int, address, data uintptr) (uintptr, error) {
	n, _, e := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), address, data, 0, 0)
	if e != 0 {
		return 0, e
	}
	return n, nil
}

// stopped deals with a thread that has stopped or ended. It tells whether the trial is over.
func (s *stopper) stopped(pid int, status unix.WaitStatus) (over bool) {
	t := s.tasks[pid]
	if !status.Stopped() {
		if t != nil && t.in && s.phase == phaseOn { // the call that ended it
			s.rows[s.segment][t.nr].Count++
		}
		delete(s.tasks, pid)
		return pid == s.group || pid == s.agent
	}
	if t == nil {
		t = s.adopt(pid)
	}
	signal, event := status.StopSignal(), int(status)>>16
	switch {
	case signal == unix.SIGTRAP|0x80:
		s.call(pid, t)
		signal = 0
	case event == unix.PTRACE_EVENT_STOP:
		switch signal {
		case unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
			_, _ = ptrace(unix.PTRACE_LISTEN, pid, 0, 0) // it stays stopped, as it would without a tracer
			return false
		}
		signal = 0
	case event != 0:
		signal = 0
	}
	request := unix.PTRACE_SYSCALL
	if t.group == 0 {
		request = unix.PTRACE_CONT
	}
	_, _ = ptrace(request, pid, 0, uintptr(signal)) // it may have been killed meanwhile
	return false
}

// adopt finds out whose a new thread is.
func (s *stopper) adopt(pid int) *task {
	t := &task{group: pid}
	lead, parent := family(pid)
	switch {
	case lead != pid && s.tasks[lead] != nil:
		t.group = s.tasks[lead].group
	case lead != pid && lead == s.agent:
		t.group = 0
	case s.tasks[parent] != nil && s.tasks[parent].group != 0:
		t.group = s.tasks[parent].group
	}
	s.tasks[pid] = t
	return t
}

// family is a thread's process and that one's parent.
func family(pid int) (lead, parent int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return pid, 0
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "Tgid:"); ok {
			lead, _ = strconv.Atoi(strings.TrimSpace(v))
		} else if v, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, _ = strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return lead, parent
}

// callInfo is the kernel's struct ptrace_syscall_info (linux/ptrace.h).
type callInfo struct {
	Op    uint8
	_     [3]uint8
	_     uint32
	_     [2]uint64
	Value uint64 // on entry the call's number, on exit its result
	Rest  [6]uint64
	_     uint64
}

// call deals with a thread at the entry or the exit of a call.
func (s *stopper) call(pid int, t *task) {
	var info callInfo
	n, err := ptrace(unix.PTRACE_GET_SYSCALL_INFO, pid, unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)))
	if err != nil || n < 32 {
		return
	}
	switch info.Op {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		t.in, t.nr = info.Value < rowExits, int(info.Value%mostCalls)
		switch {
		case info.Value == unix.SYS_WRITE && info.Rest[2] == markLength:
			s.mark(pid, t, uintptr(info.Rest[1]))
		case info.Value == unix.SYS_GETRUSAGE && pid == s.main && int32(info.Rest[0]) == unix.RUSAGE_SELF:
			s.usage(t)
		}
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		if !t.in {
			return
		}
		t.in = false
		if s.phase != phaseOn {
			return
		}
		r := &s.rows[s.segment][t.nr]
		r.Count++
		if v := int64(info.Value); v >= 0 {
			r.Bytes += uint64(v)
		} else if v >= -mostError {
			r.Errors++
			s.errnos[[2]int{t.nr, int(-v)}]++
		}
	}
}

// mostError is the largest number of an error that a call returns.
const mostError = 4095

// usage follows the worker's thread, which calls getrusage when the clock starts and when it has stopped.
func (s *stopper) usage(t *task) {
	switch s.phase {
	case phaseBegun:
		s.phase, t.in = phaseOn, false
	case phaseOn:
		s.segment, t.in = min(s.segment+1, segments-1), false
	}
}

// mark notes the begin or the end of the timed part, if the written bytes are a mark.
func (s *stopper) mark(pid int, t *task, at uintptr) {
	var frame [markLength]byte
	local := []unix.Iovec{{Base: &frame[0]}}
	local[0].SetLen(len(frame))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: len(frame)}}, 0)
	if err != nil || n != len(frame) || binary.BigEndian.Uint32(frame[:]) != 0 || frame[5] != 0 {
		return
	}
	switch {
	case frame[4] == markBegin && s.phase == phaseBefore:
		s.phase, s.main, s.group = phaseBegun, pid, t.group
	case frame[4] == markEnd && s.phase == phaseOn && pid == s.main:
		s.phase = phaseOver
	}
}

// letGoTime bounds the wait for threads that are to be let go.
const letGoTime = 3 * time.Second

// letGo lets go of all that is still traced. What does not stop in time goes on all the same: it is let go when this
// process ends.
func (s *stopper) letGo() error {
	for pid := range s.tasks {
		if _, err := ptrace(unix.PTRACE_INTERRUPT, pid, 0, 0); errors.Is(err, unix.ESRCH) {
			delete(s.tasks, pid)
		}
	}
	for end := time.Now().Add(letGoTime); len(s.tasks) > 0; {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("let go of the agent: %d of its threads do not stop", len(s.tasks))
		case err != nil || pid == 0:
			time.Sleep(time.Millisecond)
			continue
		}
		if status.Stopped() {
			signal := status.StopSignal()
			if int(status)>>16 != 0 || signal == unix.SIGTRAP|0x80 {
				signal = 0
			}
			_, _ = ptrace(unix.PTRACE_DETACH, pid, 0, uintptr(signal))
		}
		delete(s.tasks, pid)
	}
	return nil
}
