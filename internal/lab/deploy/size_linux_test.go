package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
)

// The goals for the agent: small to push, small compared with what it measures, and without activity while it has no
// request.
func TestAgentIsSmallAndStill(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the agent")
	}
	path := agenttest.Build(t, runtime.GOOS, runtime.GOARCH)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzipped(t, path)
	stream := launch(t, path, "agent", "--dir", t.TempDir())
	s, err := deploy.Connect(within(t, patience), stream, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Facts(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	// Calibration and trial each use a worker.
	prime := wire.Job{Kind: "cpu.prime", Cell: "c"}
	c, err := s.Calibrate(within(t, patience), wire.Calibrate{Job: prime, TargetNS: int64(20 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	o := run(t, s, wire.Run{Job: prime, Work: c.Work})
	if o.Result.ElapsedNS <= 0 || len(o.Result.Metrics) == 0 {
		t.Errorf("the real trial gave %+v", o.Result)
	}
	resident := status(t, stream.Pid(), "VmRSS") << 10
	const idle = 2 * time.Second
	var used time.Duration
	// The Go runtime returns memory in the background, on a busy machine late. An agent that is really active stays so.
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := onCPU(t, stream.Pid())
		time.Sleep(idle)
		if used = onCPU(t, stream.Pid()) - before; used < idle/1000 {
			break
		}
	}
	t.Logf("agent: %.2f MB stripped, %.2f MB gzipped, %.1f MB resident between trials, %v of CPU in %v of waiting",
		float64(info.Size())/1e6, float64(packed)/1e6, float64(resident)/1e6, used, idle)
	if info.Size() > 10e6 || packed > 4e6 {
		t.Errorf("%d bytes stripped (goal 10 MB), %d gzipped (goal 4 MB)", info.Size(), packed)
	}
	if resident >= 24e6 {
		t.Errorf("%d bytes resident (goal 24 MB)", resident)
	}
	if used >= idle/1000 {
		t.Errorf("%v of CPU in %v (goal 0.1 %%)", used, idle)
	}
}

// gzipped returns the size of the agent as a release has it: gzip -9 -n packs it (Makefile), a little tighter than Go's
// package does.
func gzipped(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var n count
	cmd := exec.CommandContext(t.Context(), "gzip", "-9", "-n", "-c")
	cmd.Stdin, cmd.Stdout = f, &n
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return int64(n)
}

type count int64

func (c *count) Write(p []byte) (int, error) { *c += count(len(p)); return len(p), nil }

// status returns a field of /proc/PID/status in its own unit.
func status(t *testing.T, pid int, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("/proc/%d/status has no %s", pid, field)
	return 0
}

// onCPU is the time that all threads of a process have run.
func onCPU(t *testing.T, pid int) (total time.Duration) {
	t.Helper()
	threads, err := proc.ThreadTimes(pid)
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	for _, ran := range threads {
		total += ran
	}
	return total
}

// BenchmarkHandshake measures from the start of an agent to its welcome, and its end.
func BenchmarkHandshake(b *testing.B) {
	path := agenttest.Build(b, runtime.GOOS, runtime.GOARCH)
	dir := b.TempDir()
	for b.Loop() {
		shake(b, path, dir)
	}
}

// BenchmarkEmptyTrial measures one trial without work: the overhead of a trial.
func BenchmarkEmptyTrial(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	s := shaken(b, self, b.TempDir())
	defer s.Close()
	for b.Loop() {
		if _, err := s.Run(b.Context(), wire.Run{Job: job("t.idle"), Work: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
