//go:build amd64 || arm64

package trace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callerCalls is how many calls that do nothing the caller makes.
const callerCalls = 20_000

// beCaller says which thread it is, waits for a line, and says how long its calls took, in ns.
func beCaller() {
	runtime.LockOSThread()
	fmt.Println(unix.Gettid())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if os.Getenv("TARE_TRACE_FILTER") != "" {
		if err := filterCalls(); err != nil {
			fmt.Println(err)
			return
		}
	}
	began := time.Now()
	for range callerCalls {
		unix.Getppid()
	}
	fmt.Println(time.Since(began).Nanoseconds())
}

// filterCalls has this thread stop at getppid, for its tracer (SECCOMP_RET_TRACE).
func filterCalls() error {
	const (
		retTrace, retAllow = 0x7ff00000, 0x7fff0000
		load, equal, ret   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{{Code: load}, {Code: equal, K: unix.SYS_GETPPID, Jf: 1}, {Code: ret, K: retTrace},
		{Code: ret, K: retAllow}}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// BenchmarkStops is how many calls that do nothing a thread makes in a second: not traced; stopped at the entry and the
// exit of each, as this package does it; stopped at both by a seccomp filter of its own; and by the filter at the entry
// alone, which tells neither bytes nor errors.
func BenchmarkStops(b *testing.B) {
	for _, c := range []struct {
		name                  string
		traced, filter, exits bool
	}{
		{"untraced", false, false, false}, {"entry-and-exit", true, false, true},
		{"seccomp-entry-and-exit", true, true, true}, {"seccomp-entry", true, true, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			best := time.Hour // of several, because the machine may do other things meanwhile
			for b.Loop() {
				for range 5 {
					took, stops := callsStopped(b, c.traced, c.filter, c.exits)
					want := 0
					if c.traced {
						want = callerCalls
					}
					if c.traced && c.exits {
						want *= 2
					}
					if stops < want || want == 0 && stops > 0 {
						b.Fatalf("it stopped %d times, want %d", stops, want)
					}
					best = min(best, took)
				}
			}
			b.ReportMetric(float64(best.Nanoseconds())/callerCalls, "ns/call")
			b.ReportMetric(callerCalls/best.Seconds(), "calls/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// callsStopped is how long a caller took for its calls, and how often it was stopped at one.
func callsStopped(b *testing.B, traced, filter, exits bool) (took time.Duration, stops int) {
	b.Helper()
	caller := role("caller")
	if filter {
		caller.Env = append(caller.Env, "TARE_TRACE_FILTER=1")
	}
	in, err := caller.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := caller.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := caller.Start(); err != nil {
		b.Fatal(err)
	}
	said := bufio.NewScanner(out)
	number := func() int {
		said.Scan()
		n, err := strconv.Atoi(strings.TrimSpace(said.Text()))
		if err != nil {
			b.Fatalf("the caller said %q", said.Text())
		}
		return n
	}
	tid := number()
	begun, over := make(chan error, 1), make(chan int, 1)
	if traced {
		go followCalls(tid, filter, exits, begun, over)
		if err := <-begun; err != nil {
			b.Fatal(err)
		}
	}
	fmt.Fprintln(in)
	took = time.Duration(number())
	caller.Process.Kill()
	if traced {
		stops = <-over
	}
	_ = caller.Wait() // its thread's tracer may have collected it
	return took, stops
}

// followCalls stops a thread until it ends, and tells how often.
func followCalls(tid int, filter, exits bool, begun chan<- error, over chan<- int) {
	runtime.LockOSThread() // ends with this
	const seccompEvent = 7
	options := unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACESECCOMP
	if _, err := ptrace(unix.PTRACE_SEIZE, tid, 0, uintptr(options)); err != nil {
		begun <- err
		return
	}
	normal := unix.PTRACE_CONT
	if !filter { // it begins to stop at calls when it has been stopped once
		normal = unix.PTRACE_SYSCALL
		var status unix.WaitStatus
		_, err := ptrace(unix.PTRACE_INTERRUPT, tid, 0, 0)
		if err == nil {
			_, err = unix.Wait4(tid, &status, unix.WALL, nil)
		}
		if err == nil {
			_, err = ptrace(normal, tid, 0, 0)
		}
		if err != nil {
			begun <- err
			return
		}
	}
	begun <- nil
	stops := 0
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(tid, &status, unix.WALL, nil); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil || !status.Stopped() {
			over <- stops
			return
		}
		var info callInfo
		request, signal, event := normal, status.StopSignal(), int(status)>>16
		switch {
		case signal == unix.SIGTRAP|0x80, event == seccompEvent:
			_, _ = ptrace(unix.PTRACE_GET_SYSCALL_INFO, tid, unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)))
			stops++
			if event == seccompEvent && exits {
				request = unix.PTRACE_SYSCALL
			}
			signal = 0
		case event != 0:
			signal = 0
		}
		_, _ = ptrace(request, tid, 0, uintptr(signal)) // it may have been killed meanwhile
	}
}
