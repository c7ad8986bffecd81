// Package trace counts the system calls of the processes of a trial while the trial's clock runs: their number, time,
// bytes, errors and waits.
//
// There are two ways. Programs in the kernel (BPF) count there and slow the work down least. Where these are not
// allowed, the processes are stopped at each call (ptrace), which costs several microseconds for each stop: then
// counts, bytes and errors are told, and no times. Either may be done by a process of its own (Main).
//
// A trial's worker says when the timed part begins: it writes a mark (wire.TypeBegin) to the agent, then asks twice for
// its usage (getrusage), and the clock starts. It asks again when the clock has stopped, and writes wire.TypeEnd. Both
// ways see these calls, so that nothing is counted but the timed part, and nothing has to be told to the worker.
package trace

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Trace has the counts of one trial's timed part.
type Trace struct {
	// Work are the calls of the processes that do the trial; Serving those of others that work for it: services of the
	// agent, the hypervisor, servers of mounts. Sorted by name.
	Work []Call `json:"work"`
	// Client are those calls by which the threads of the worker's own process, which is tare's, wake each other and
	// wait for each other. They are no part of Work.
	Client  []Call `json:"client,omitempty"`
	Serving []Call `json:"serving,omitempty"`
	// Seen says that the timed part was seen to begin and to end.
	Seen bool `json:"seen"`
	// Timed says that times were measured. If not, all that follows and all times are 0.
	Timed bool `json:"timed"`
	// Missed is how many events the kernel kept from its programs, because they were at work on that processor: calls
	// whose begin it missed look like user code.
	Missed int64   `json:"missed,omitempty"`
	CPU    CPU     `json:"cpu"`
	Stack  []Stack `json:"stacks,omitempty"` // where the processes that do the trial waited, the longest first
}

// Call is a system call.
type Call struct {
	Name   string `json:"name"`
	Count  int64  `json:"count"` // that returned in the timed part, or ended their thread
	NS     int64  `json:"ns"`    // from entry to return, as far as it is timed; 0 if times are not measured
	WaitNS int64  `json:"wait"`  // of NS, asleep
	Ready  int64  `json:"ready"` // of NS, in ns, ready to run while another ran
	// Idle is the time in which all threads of the work were asleep, until one of them went on that slept in this call:
	// the work waited for that. It is part of WaitNS, of whichever thread.
	Idle   int64 `json:"idle"`
	Bytes  int64 `json:"bytes"`  // of calls that return a number of bytes; else 0
	Errors int64 `json:"errors"` // calls that failed; one that is begun again after a signal is none
	// Errnos has the failures by their error: "ENOENT".
	Errnos map[string]int64 `json:"errnos,omitempty"`
}

// CPU has the scheduler's counts of the threads that do the trial. Times are in ns.
type CPU struct {
	OnNS        int64 `json:"on"`          // on a processor
	ReadyNS     int64 `json:"ready"`       // outside of calls: ready to run while another ran
	FaultNS     int64 `json:"fault"`       // outside of calls: all asleep, until a page fault was served
	Faults      int64 `json:"faults"`      // page faults of user code; -1 if this kernel does not tell
	Voluntary   int64 `json:"voluntary"`   // context switches to sleep
	Involuntary int64 `json:"involuntary"` // and for others to run
	Exits       int64 `json:"exits"`       // exits of virtual processors of what serves the trial; -1 if not told
}

// Stack is a place in the kernel where threads that do the trial slept.
type Stack struct {
	Call   string   `json:"call"`   // the call; "" outside of calls
	Frames []string `json:"frames"` // the functions, the innermost first
	NS     int64    `json:"ns"`
	Count  int64    `json:"count"`
}

// Roots are the processes from which a trace sets out, by their ids in the tracer's own namespace.
type Roots struct {
	// Agent starts the worker. It is not traced itself; the processes that it starts are, with their descendants. 0
	// where no agent is on this machine.
	Agent int `json:"agent,omitempty"`
	// Services are processes that the agent has started before: what serves the trial.
	Services []int `json:"services,omitempty"`
	// Serving are others that serve the trial.
	Serving []int `json:"serving,omitempty"`
}

// Tracer traces one trial after the other. It is not safe for concurrent use.
type Tracer interface {
	// Start begins. If marked, the worker's own marks say when the timed part is; else Mark does.
	Start(r Roots, marked bool) error
	// Mark says that the timed part begins now, or ends.
	Mark(begins bool) error
	// Stop ends the tracing that Start began, and returns the trace.
	Stop() (*Trace, error)
	Close() error
}

// The ways to trace.
const (
	WayBPF    = "bpf"    // programs in the kernel: OpenBPF
	WayPtrace = "ptrace" // each call stops the process: OpenPtrace
)

const (
	// mostCalls bounds the numbers of system calls that are told apart. The last few stand for other things.
	mostCalls = 512
	rowExits  = 509 // exits of virtual processors
	rowCPU    = 510 // the counts of threads as a whole
	rowNoCall = 511 // outside of calls
	// segments is the number of parts of a trial that are told apart: a new one begins each time the worker's thread
	// asks for its usage. Calls after the last time are no part of the work.
	segments = 4
)

// The phases of a trial.
const (
	phaseBefore = iota // the worker has not said that it begins
	phaseBegun         // it has, and reads its counters
	phaseOn            // the clock runs
	phaseOver
)

// The frames by which the worker tells of its timed part: what package wire writes for TypeBegin and TypeEnd.
const (
	markLength = 10
	markBegin  = 9
	markEnd    = 10
)

// row has the counts of a call. Its layout is that of the programs in the kernel.
type row struct{ Count, NS, Blocked, Bytes, Errors, Ready, Idle uint64 }

type rows [mostCalls]row

func (r *row) add(o *row) {
	r.Count, r.NS, r.Blocked = r.Count+o.Count, r.NS+o.NS, r.Blocked+o.Blocked
	r.Bytes, r.Errors, r.Ready, r.Idle = r.Bytes+o.Bytes, r.Errors+o.Errors, r.Ready+o.Ready, r.Idle+o.Idle
}

// merge adds the segments that are parts of the work, after segment is the number of the last one.
func merge(all *[segments]rows, segment int) *rows {
	sum := all[0]
	last := segment - 1 // what follows the last one reads counters
	if segment >= segments-1 {
		last = segments - 1 // more were asked for than are told apart
	}
	for s := 1; s <= last; s++ {
		for i := range sum {
			sum[i].add(&all[s][i])
		}
	}
	return &sum
}

// schedules tells whether the threads of a Go program wake each other and wait for each other by a call: the calls of
// tare's own worker are not the work. No kind of work makes these calls itself, but for its naps.
func schedules(nr int) bool {
	switch Name(nr) {
	case "futex", "nanosleep", "sched_yield", "tgkill", "rt_sigreturn":
		return true
	}
	return false
}

// apart adds the rows of the worker's own process to those of its children, without the calls by which its threads are
// scheduled, which it returns.
func apart(work, own *rows) (client *rows) {
	client = &rows{}
	for nr := range own {
		to := work
		if schedules(nr) {
			to = client
		}
		to[nr].add(&own[nr])
	}
	return client
}

// calls makes calls of rows. errnos are by number of the call and of the error.
func calls(r *rows, errnos map[[2]int]int64) []Call {
	var out []Call
	for nr := range rowExits {
		x := &r[nr]
		if x.Count == 0 && x.Idle == 0 {
			continue
		}
		c := Call{Name: Name(nr), Count: int64(x.Count), NS: int64(x.NS), WaitNS: int64(x.Blocked),
			Ready: int64(x.Ready), Idle: int64(x.Idle), Errors: int64(x.Errors)}
		if movesBytes(c.Name) {
			c.Bytes = int64(x.Bytes)
		}
		for key, n := range errnos {
			switch {
			case key[0] != nr:
			case key[1] >= restarts:
				c.Errors -= n
			default:
				if c.Errnos == nil {
					c.Errnos = map[string]int64{}
				}
				c.Errnos[errnoName(key[1])] += n
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Call) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// restarts are the errors from here on that the kernel uses itself, to begin a call again after a signal.
const restarts = 512

var names = sync.OnceValue(func() map[int]string {
	all, next := map[int]string{}, 0
	for word := range strings.FieldsSeq(callNames) {
		if n, err := strconv.Atoi(word); err == nil {
			next = n
			continue
		}
		all[next] = word
		next++
	}
	return all
})

// Name is the name of a system call of this architecture.
func Name(nr int) string {
	if n := names()[nr]; n != "" {
		return n
	}
	return "call " + strconv.Itoa(nr)
}

// movesBytes tells whether a call returns how many bytes it moved.
func movesBytes(name string) bool {
	switch name {
	case "read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2",
		"sendto", "recvfrom", "sendmsg", "recvmsg", "sendfile", "splice", "tee", "vmsplice", "copy_file_range",
		"getdents", "getdents64", "process_vm_readv", "process_vm_writev", "getrandom":
		return true
	}
	return false
}

// Waits tells whether a call is for waiting: for another thread or process, for an event, for a time. Being asleep in
// it says that others have something to do, and is no cost of the call.
func Waits(name string) bool {
	return slices.Contains(waiting, name)
}

var waiting = []string{
	"clone", "clone3", "vfork", // for a child that uses its parent's memory to begin its program
	"clock_nanosleep", "epoll_pwait", "epoll_pwait2", "epoll_wait", "futex", "futex_wait", "futex_waitv",
	"io_getevents", "io_pgetevents", "io_uring_enter", "msgrcv", "mq_timedreceive", "nanosleep", "pause", "poll",
	"ppoll", "pselect6", "restart_syscall", "rt_sigsuspend", "rt_sigtimedwait", "select", "semop", "semtimedop",
	"wait4", "waitid",
}

// Sum adds traces of the same work.
func Sum(all []*Trace) *Trace {
	sum := &Trace{Seen: true, Timed: true}
	work, client, serving, stacks := map[string]*Call{}, map[string]*Call{}, map[string]*Call{}, map[string]*Stack{}
	for _, t := range all {
		sum.Seen, sum.Timed = sum.Seen && t.Seen, sum.Timed && t.Timed
		addCalls(work, t.Work)
		addCalls(client, t.Client)
		sum.Missed += t.Missed
		addCalls(serving, t.Serving)
		sum.CPU.add(&t.CPU)
		for _, s := range t.Stack {
			key := s.Call + "\n" + strings.Join(s.Frames, "\n")
			if stacks[key] == nil {
				stacks[key] = &Stack{Call: s.Call, Frames: s.Frames}
			}
			stacks[key].NS += s.NS
			stacks[key].Count += s.Count
		}
	}
	sum.Work, sum.Client, sum.Serving = sortedCalls(work), sortedCalls(client), sortedCalls(serving)
	for _, key := range slices.Sorted(maps.Keys(stacks)) {
		sum.Stack = append(sum.Stack, *stacks[key])
	}
	slices.SortStableFunc(sum.Stack, func(a, b Stack) int { return cmp.Compare(b.NS, a.NS) })
	return sum
}

func addCalls(to map[string]*Call, from []Call) {
	for i := range from {
		f := &from[i]
		t := to[f.Name]
		if t == nil {
			t = &Call{Name: f.Name}
			to[f.Name] = t
		}
		t.Count, t.NS, t.WaitNS, t.Ready = t.Count+f.Count, t.NS+f.NS, t.WaitNS+f.WaitNS, t.Ready+f.Ready
		t.Bytes, t.Errors, t.Idle = t.Bytes+f.Bytes, t.Errors+f.Errors, t.Idle+f.Idle
		for name, n := range f.Errnos {
			if t.Errnos == nil {
				t.Errnos = map[string]int64{}
			}
			t.Errnos[name] += n
		}
	}
}

func sortedCalls(by map[string]*Call) []Call {
	var out []Call
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out
}

func (c *CPU) add(o *CPU) {
	c.OnNS, c.ReadyNS, c.FaultNS = c.OnNS+o.OnNS, c.ReadyNS+o.ReadyNS, c.FaultNS+o.FaultNS
	c.Voluntary, c.Involuntary = c.Voluntary+o.Voluntary, c.Involuntary+o.Involuntary
	if c.Faults = c.Faults + o.Faults; o.Faults < 0 {
		c.Faults = -1
	}
	if c.Exits = c.Exits + o.Exits; o.Exits < 0 {
		c.Exits = -1
	}
}
