//go:build amd64 || arm64

package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is also the agent, its worker, the worker's child, and the process that traces.
func TestMain(m *testing.M) {
	if IsRole(os.Args) {
		os.Exit(Main(os.Stdin, os.Stdout))
	}
	switch os.Getenv("TARE_TRACE_ROLE") {
	case "agent":
		beAgent()
	case "worker":
		beWorker()
	case "child":
		for range childCalls {
			unix.Getppid()
		}
	case "caller":
		beCaller()
	case "nobody":
		_, err := OpenBPF()
		fmt.Println(err)
	default:
		os.Exit(m.Run())
	}
}

const (
	missing    = 1000 // files that are not there
	late       = 10   // of them, after the worker's thread has asked what it used
	reads      = 300
	readBytes  = 100
	childCalls = 77
	noise      = 50 // calls before and after the timed part
	pages      = 200
	nap        = 20 * time.Millisecond
)

func role(name string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TARE_TRACE_ROLE="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

// beAgent starts a worker for each line of its input.
func beAgent() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		worker := role("worker")
		if lines.Text() == "fails" {
			worker.Env = append(worker.Env, "TARE_TRACE_FAILS=1")
		}
		out, err := worker.StdoutPipe()
		if err == nil {
			err = worker.Start()
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		io.Copy(io.Discard, out)
		worker.Wait()
		fmt.Println("done")
	}
}

// beWorker does what a worker does, and work whose calls are known.
func beWorker() {
	runtime.LockOSThread()
	mark := func(kind byte) { unix.Write(1, []byte{0, 0, 0, 0, kind, 0, 0, 0, 0, 7}) }
	others := func() {
		for range noise {
			unix.Getpgid(0)
		}
	}
	others()
	mark(markBegin)
	others()
	if os.Getenv("TARE_TRACE_FAILS") != "" {
		return
	}
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	work()
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	unix.Getrusage(unix.RUSAGE_CHILDREN, &u)
	others()
	mark(markEnd)
	others()
}

func work() {
	miss := func(n int) {
		for range n {
			unix.Faccessat(unix.AT_FDCWD, "/nosuch", unix.R_OK, 0)
		}
	}
	miss(missing)
	if f, err := os.Open("/proc/self/exe"); err == nil {
		b := make([]byte, readBytes)
		for range reads {
			unix.Preadv(int(f.Fd()), [][]byte{b}, 0)
		}
		f.Close()
	}
	role("child").Run()
	sleep := unix.NsecToTimespec(int64(nap))
	unix.Ppoll(nil, &sleep, nil)
	if b, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE); err == nil {
		unix.Madvise(b, unix.MADV_NOHUGEPAGE)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
	}
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	miss(late)
}

// agent is a running one.
type agent struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{t: t, cmd: role("agent")}
	in, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		a.cmd.Process.Kill()
		a.cmd.Wait()
	})
	a.in, a.out = in, bufio.NewScanner(out)
	return a
}

func (a *agent) trial(how string) {
	a.t.Helper()
	fmt.Fprintln(a.in, how)
	if !a.out.Scan() || a.out.Text() != "done" {
		a.t.Fatalf("the agent said %q", a.out.Text())
	}
}

func (a *agent) pid() int { return a.cmd.Process.Pid }

// client speaks to the process that traces.
type client struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
}

func openClient(t *testing.T, way string) *client {
	t.Helper()
	c := &client{cmd: exec.Command("/proc/self/exe", Role)}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	c.in, c.out = json.NewEncoder(in), json.NewDecoder(out)
	if _, err := c.ask(Request{Op: OpOpen, Way: way}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *client) Start(r Roots, _ bool) error {
	_, err := c.ask(Request{Op: OpStart, Roots: r})
	return err
}

func (c *client) ask(q Request) (a Answer, err error) {
	if err = c.in.Encode(q); err == nil {
		err = c.out.Decode(&a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

func (c *client) Mark(bool) error { return nil }

func (c *client) Stop() (*Trace, error) {
	a, err := c.ask(Request{Op: OpStop})
	return a.Trace, err
}

func (c *client) Close() error { return nil }

// openWay opens one of the ways, or ends the test where the machine does not allow it.
func openWay(t *testing.T, way string) Tracer {
	t.Helper()
	if way == "ptrace" {
		return openClient(t, WayPtrace)
	}
	b, err := OpenBPF()
	if err != nil && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func callOf(t *Trace, name string) Call {
	for _, c := range t.Work {
		if c.Name == name {
			return c
		}
	}
	return Call{}
}

func TestTimedPartIsCounted(t *testing.T) {
	for _, way := range []string{"bpf", "ptrace"} {
		t.Run(way, func(t *testing.T) {
			tracer, a := openWay(t, way), startAgent(t)
			a.trial("") // an agent that has worked before
			for range 2 {
				if err := tracer.Start(Roots{Agent: a.pid()}, true); err != nil {
					t.Fatal(err)
				}
				a.trial("")
				got, err := tracer.Stop()
				if err != nil {
					t.Fatal(err)
				}
				checkTrace(t, way, got)
				notTraced(t, a.pid())
			}
		})
	}
}

func checkTrace(t *testing.T, way string, got *Trace) {
	t.Helper()
	if !got.Seen || got.Timed != (way == "bpf") {
		t.Errorf("seen %v, timed %v", got.Seen, got.Timed)
	}
	access := callOf(got, "faccessat")
	if access.Count != missing+late || access.Errors != missing+late || access.Errnos["ENOENT"] != missing+late {
		t.Errorf("of %d calls for missing files: %+v", missing+late, access)
	}
	read := callOf(got, "preadv")
	if read.Count != reads || read.Bytes != reads*readBytes || read.Errors != 0 {
		t.Errorf("of %d reads: %+v", reads, read)
	}
	if c := callOf(got, "getppid"); c.Count != childCalls {
		t.Errorf("of the child's %d calls: %+v", childCalls, c)
	}
	if c := callOf(got, "getpgid"); c.Count != 0 {
		t.Errorf("calls beside the timed part: %+v", c)
	}
	if c := callOf(got, "exit_group"); c.Count == 0 { // of the child, and of one that os/exec tries
		t.Errorf("the child's end: %+v", c)
	}
	if way != "bpf" {
		return
	}
	sleep := callOf(got, "ppoll")
	if sleep.Count != 1 || sleep.WaitNS < int64(nap) || sleep.NS < sleep.WaitNS || sleep.Idle < int64(nap)/2 ||
		sleep.Idle > sleep.WaitNS {
		t.Errorf("a sleep of %v: %+v", nap, sleep)
	}
	for _, c := range slices.Concat(got.Work, got.Client) {
		if c.Idle > c.WaitNS || c.WaitNS+c.Ready > c.NS {
			t.Errorf("more waiting than time: %+v", c)
		}
	}
	if access.NS <= 0 || got.CPU.OnNS < access.NS-access.WaitNS-access.Ready || got.CPU.Voluntary == 0 {
		t.Errorf("%+v, of which %+v", got.CPU, access)
	}
	if runtime.GOARCH == "amd64" && got.CPU.Faults < pages {
		t.Errorf("%d page faults of more than %d", got.CPU.Faults, pages)
	}
}

// notTraced waits until nobody traces a process any more.
func notTraced(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nTracerPid:\t0\n") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is still traced", pid)
		}
	}
}

func TestTrialThatFails(t *testing.T) {
	for _, way := range []string{"bpf", "ptrace"} {
		t.Run(way, func(t *testing.T) {
			tracer, a := openWay(t, way), startAgent(t)
			if err := tracer.Start(Roots{Agent: a.pid()}, true); err != nil {
				t.Fatal(err)
			}
			a.trial("fails")
			got, err := tracer.Stop()
			if err != nil || got.Seen || len(got.Work) > 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestNoAgent(t *testing.T) {
	c := openClient(t, WayPtrace)
	if err := c.Start(Roots{Agent: 1 << 30}, true); err == nil ||
		!strings.Contains(err.Error(), "the threads of the agent") {
		t.Errorf("a process that there is not: %v", err)
	}
	// It goes on.
	a := startAgent(t)
	if err := c.Start(Roots{Agent: a.pid()}, true); err != nil {
		t.Fatal(err)
	}
	a.trial("")
	if got, err := c.Stop(); err != nil || !got.Seen {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAnotherProcessTraces has BPF's programs loaded by another process, as in a virtual machine, and asks it for what
// it does not do.
func TestAnotherProcessTraces(t *testing.T) {
	openWay(t, WayBPF) // or skip
	c, a := openClient(t, WayBPF), startAgent(t)
	for _, q := range []Request{{Op: "sing"}, {Op: OpOpen, Way: "magic"}, {Op: OpStart, Roots: Roots{Agent: a.pid()}},
		{Op: OpStop}} {
		if _, err := c.ask(q); err == nil {
			t.Errorf("%+v was served", q)
		}
	}
	if _, err := c.ask(Request{Op: OpOpen, Way: WayBPF}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Start(Roots{Agent: a.pid()}, true); err != nil {
			t.Fatal(err)
		}
		a.trial("")
		got, err := c.Stop()
		if err != nil {
			t.Fatal(err)
		}
		checkTrace(t, WayBPF, got)
	}
	if _, err := c.ask(Request{Op: OpOpen, Way: WayPtrace}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stop(); err == nil {
		t.Error("a trace ended that had not begun")
	}
}

// TestKilledTracer holds that an agent works on when what traces it is killed in the middle.
func TestKilledTracer(t *testing.T) {
	c, a := openClient(t, WayPtrace), startAgent(t)
	if err := c.Start(Roots{Agent: a.pid()}, true); err != nil {
		t.Fatal(err)
	}
	c.cmd.Process.Kill()
	a.trial("")
	notTraced(t, a.pid())
}

// TestMarkedByTracer traces a process that marks nothing, such as a hypervisor.
func TestMarkedByTracer(t *testing.T) {
	tracer, a := openWay(t, "bpf"), startAgent(t)
	if err := tracer.Start(Roots{Serving: []int{a.pid(), 1 << 30}}, false); err != nil {
		t.Fatal(err)
	}
	a.trial("")
	if err := tracer.Mark(true); err != nil {
		t.Fatal(err)
	}
	a.trial("")
	if err := tracer.Mark(false); err != nil {
		t.Fatal(err)
	}
	a.trial("")
	got, err := tracer.Stop()
	if err != nil || !got.Seen || len(got.Work) > 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, c := range got.Serving {
		if c.Name == "getppid" && c.Count == childCalls {
			return
		}
	}
	t.Errorf("the calls of one trial of three: %+v", got.Serving)
}

func TestNotPermitted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	cmd := role("nobody")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	out, err := cmd.Output()
	said := string(out)
	if err != nil || !strings.Contains(said, "run tare as root") && !strings.Contains(said, "PID namespace") {
		t.Errorf("%q, %v", said, err)
	}
}

func TestNames(t *testing.T) {
	for name, nr := range map[string]int{"read": unix.SYS_READ, "write": unix.SYS_WRITE, "futex": unix.SYS_FUTEX,
		"openat": unix.SYS_OPENAT, "statx": unix.SYS_STATX, "io_uring_enter": unix.SYS_IO_URING_ENTER,
		"clone3": unix.SYS_CLONE3, "exit_group": unix.SYS_EXIT_GROUP, "getdents64": unix.SYS_GETDENTS64,
		"renameat2": unix.SYS_RENAMEAT2, "openat2": unix.SYS_OPENAT2, "call 500": 500} {
		if got := Name(nr); got != name {
			t.Errorf("%d is called %s, want %s", nr, got, name)
		}
	}
	all := map[string]bool{"vfork": true} // on amd64 only, as some others
	for nr := range mostCalls {
		all[Name(nr)] = true
	}
	for _, name := range waiting {
		if !all[name] && runtime.GOARCH == "amd64" {
			t.Errorf("there is no call %s", name)
		}
	}
}

func FuzzSymbols(f *testing.F) {
	f.Add("ffffffff81000000 T _stext\nffffffff81000100 t schedule\nffffffff81000200 t do_wait.part.0\t[module]\n")
	f.Add("0000000000000000 T hidden\nx y\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := parseSymbols(strings.NewReader(text))
		s.frames([]uint64{1, 0xffffffff81000250, 1 << 63, 0, 5})
	})
}

func TestFrames(t *testing.T) {
	s := parseSymbols(strings.NewReader(`0000000000000100 T entry_SYSCALL_64_after_hwframe
0000000000000200 T do_syscall_64
0000000000000300 t pipe_read.part.0
0000000000000400 T schedule
0000000000000500 D data
0000000000000600 t bpf_prog_x	[bpf]
`))
	got := strings.Join(s.frames([]uint64{0x601, 0x401, 0x310, 0x201, 0x101, 0, 0x300}), " ")
	if got != "pipe_read" {
		t.Errorf("%q", got)
	}
	if hidden := parseSymbols(strings.NewReader("0000000000000000 T a\n")); len(hidden.frames([]uint64{1})) > 0 {
		t.Error("functions whose addresses are hidden have names")
	}
}
