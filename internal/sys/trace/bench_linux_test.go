//go:build amd64 || arm64

package trace

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkCall is the cost of a system call that does nothing: with nothing traced, beside a process that is traced,
// and traced by BPF.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name   string
		traced bool
		pid    int
	}{{"untraced", false, 0}, {"beside", true, 1 << 30}, {"bpf", true, os.Getpid()}} {
		b.Run(c.name, func(b *testing.B) {
			if c.traced {
				defer traceSelf(b, c.pid)()
			}
			for b.Loop() {
				unix.Getppid()
			}
		})
	}
}

// BenchmarkSlowdown is how many times as long work takes by BPF that makes half a million calls a second: 2 µs for
// each, most of them in user code.
func BenchmarkSlowdown(b *testing.B) {
	const each, calls = 2 * time.Microsecond, 500
	runtime.LockOSThread()
	spins := 0
	round := func() time.Duration {
		began := time.Now()
		for range calls {
			unix.Getppid()
			for i := range spins {
				sink += i
			}
		}
		return time.Since(began)
	}
	best := func(n int) time.Duration { // of several, because the machine may do other things meanwhile
		fastest := round()
		for range n {
			fastest = min(fastest, round())
		}
		return fastest
	}
	bare := best(1000)
	for spins = 1000; ; { // the first guess is far off, because a longer loop is a faster one
		better := int(float64(spins) * float64(calls*each-bare) / float64(best(1000)-bare))
		if better > spins*9/10 && better < spins*11/10 {
			break
		}
		spins = better
	}
	for b.Loop() {
		plain, traced := best(500), time.Hour
		for range 5 { // in turn, because the machine may do other things meanwhile
			end := traceSelf(b, os.Getpid())
			traced = min(traced, best(500))
			end()
			plain = min(plain, best(500))
		}
		b.ReportMetric(traced.Seconds()/plain.Seconds(), "x-untraced")
		b.ReportMetric(calls/plain.Seconds(), "calls/s")
	}
	b.ReportMetric(0, "ns/op")
}

var sink int

// traceSelf traces a process until the returned function is called.
func traceSelf(b *testing.B, pid int) func() {
	b.Helper()
	t, err := OpenBPF()
	if err != nil {
		b.Skip(err)
	}
	if err := t.Start(Roots{Serving: []int{pid}}, false); err != nil {
		b.Fatal(err)
	}
	if err := t.Mark(true); err != nil {
		b.Fatal(err)
	}
	return func() {
		if _, err := t.Stop(); err != nil {
			b.Error(err)
		}
		if err := t.Close(); err != nil {
			b.Error(err)
		}
	}
}
