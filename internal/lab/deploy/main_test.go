package deploy_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/measure/agent"
	"tare/internal/measure/agent/tracer"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/sys/trace"
	"tare/internal/unit"
	"tare/internal/version"
)

// The test binary is also the agent: the real one, with additional kinds that misbehave on purpose.
func TestMain(m *testing.M) {
	if b := os.Getenv("TARE_TEST_BUILD"); b != "" {
		version.Build = b
	}
	if trace.IsRole(os.Args) {
		os.Exit(trace.Main(os.Stdin, os.Stdout))
	}
	if os.Getenv("TARE_TEST_TRACES") != "" {
		agent.Tracing = tracer.New()
	}
	if agent.IsRole(os.Args) {
		os.Exit(agent.Program{Kinds: kinds}.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(agenttest.Main(m))
}

// behaviour is a trial made of functions; a nil one does nothing.
type behaviour struct {
	setup, measure func(context.Context, *workload.Bench) error
	report         func(*workload.Bench) error
	cleanup        func(*workload.Bench) error
}

func (t behaviour) Setup(ctx context.Context, b *workload.Bench) error { return call(t.setup, ctx, b) }
func (t behaviour) Measure(ctx context.Context, b *workload.Bench) error {
	return call(t.measure, ctx, b)
}

func (t behaviour) Cleanup(b *workload.Bench) error {
	if t.cleanup == nil {
		return nil
	}
	return t.cleanup(b)
}

func (t behaviour) Report(b *workload.Bench) error {
	if t.report == nil {
		b.Report("rate", b.Rate(1))
		return nil
	}
	return t.report(b)
}

func call(f func(context.Context, *workload.Bench) error, ctx context.Context, b *workload.Bench) error {
	if f == nil {
		return nil
	}
	return f(ctx, b)
}

func kind(name string, t behaviour) workload.Kind {
	return workload.Kind{
		Name: name, Params: []workload.Param{{Name: "path", Type: workload.Text}},
		Metrics: []unit.Metric{{Name: "rate", Unit: "ops/s", Better: unit.Higher, Timed: true, Primary: true}},
		New:     func(workload.Params) (workload.Trial, error) { return t, nil },
	}
}

// spin uses about a microsecond of CPU time per unit, whatever the clock says.
func spin(_ context.Context, b *workload.Bench) error {
	var sum uint64
	for i := range b.Work * 1000 {
		sum = sum*6364136223846793005 + uint64(i)
	}
	sink.Store(sum)
	return nil
}

var sink atomic.Uint64

// systemKinds are kinds of this operating system's tests.
var systemKinds []workload.Kind

// syncs writes 4 KiB and asks for them to be on disk, for each unit of work.
func syncs(_ context.Context, b *workload.Bench) error {
	f, err := os.OpenFile(filepath.Join(b.Dir, "synced"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range b.Work {
		if _, err := f.WriteAt(make([]byte, 4096), i%64*4096); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

func block(context.Context, *workload.Bench) error { select {} }

// stray leaves a process behind that has left its group, its session and its parents.
func stray(ctx context.Context, b *workload.Bench) error {
	_, err := proc.Run(ctx, nil, "setsid", "sh", "-c",
		`sleep 300 >/dev/null 2>&1 & echo $! >"$0"`, filepath.Join(b.Dir, "stray"))
	if err != nil {
		return err
	}
	pid, err := os.ReadFile(filepath.Join(b.Dir, "stray"))
	b.Check("stray", strings.TrimSpace(string(pid)))
	return err
}

func kinds() []workload.Kind {
	files := kind("t.files", behaviour{
		setup: func(_ context.Context, b *workload.Bench) error {
			b.Note("dir", b.Dir)
			old, _ := os.ReadFile(filepath.Join(b.Dir, "kept"))
			b.Note("found", string(old))
			return os.WriteFile(filepath.Join(b.Dir, "kept"), []byte("from an earlier trial"), 0o600)
		},
	})
	files.Needs.FS = true
	synced := kind("t.synced", behaviour{measure: syncs})
	synced.Needs.FS = true
	huge := kind("t.huge", behaviour{})
	huge.Space = func(workload.Params) int64 { return math.MaxInt64 / 4 }
	bounded := kind("t.bounded", behaviour{measure: spin})
	bounded.MaxWork = 7
	elsewhere := kind("t.elsewhere", behaviour{})
	elsewhere.Needs.OS = []string{"plan9"}
	return append([]workload.Kind{
		files, synced, huge, bounded, elsewhere, served(),
		kind("t.spin", behaviour{measure: spin}),
		kind("t.idle", behaviour{}),
		kind("t.block", behaviour{measure: block}),
		kind("t.sleep", behaviour{measure: func(_ context.Context, b *workload.Bench) error {
			time.Sleep(time.Duration(b.Work) * time.Millisecond)
			return nil
		}}),
		kind("t.stray", behaviour{setup: stray}),
		kind("t.supplied", behaviour{measure: func(_ context.Context, b *workload.Bench) error {
			data, err := os.ReadFile(b.Files["log"])
			b.Check("sum", fmt.Sprintf("%x", sha256.Sum256(data)))
			return err
		}}),
		kind("t.work", behaviour{
			setup: func(_ context.Context, b *workload.Bench) error {
				b.Note("prepared", fmt.Sprint(b.Work))
				return nil
			},
			measure: func(_ context.Context, b *workload.Bench) error {
				b.Note("measured",
					fmt.Sprint(b.Work))
				return nil
			},
			report: func(b *workload.Bench) error {
				b.Note("reported", fmt.Sprint(b.Work))
				b.Report("rate", 1)
				return nil
			},
		}),
		kind("t.samples", behaviour{report: func(b *workload.Bench) error {
			many := make([]float64, 3*workload.MaxSamples)
			for i := range many {
				many[i] = float64(i)
			}
			b.Sample("rate", many)
			b.Sample("few", []float64{1.5, math.SmallestNonzeroFloat64, math.MaxFloat64})
			b.Report("rate", 1)
			return nil
		}}),
		kind("t.panic", behaviour{measure: func(context.Context, *workload.Bench) error { panic("on purpose") }}),
		kind("t.gopanic", behaviour{measure: func(context.Context, *workload.Bench) error {
			go panic("in another goroutine")
			select {}
		}}),
		kind("t.exit", behaviour{measure: func(context.Context, *workload.Bench) error {
			fmt.Fprintln(os.Stderr, "\x1b[2Jlast words")
			os.Exit(7)
			return nil
		}}),
		kind("t.print", behaviour{measure: func(context.Context,
			*workload.Bench) error {
			fmt.Println("stray print")
			return nil
		}}),
		kind("t.setup", behaviour{
			setup:   func(context.Context, *workload.Bench) error { return errors.New("no such thing") },
			cleanup: func(b *workload.Bench) error { return os.WriteFile(filepath.Join(b.Dir, "cleaned"), nil, 0o600) },
		}),
		kind("t.cleanup", behaviour{cleanup: func(*workload.Bench) error { return errors.New("it is stuck") }}),
		kind("t.nan", behaviour{report: func(b *workload.Bench) error { b.Report("rate", math.NaN()); return nil }}),
		kind("t.silent", behaviour{report: func(*workload.Bench) error { return nil }}),
		kind("t.extra", behaviour{report: func(b *workload.Bench) error {
			b.Report("rate", 1)
			b.Report("odd",
				1)
			return nil
		}}),
	}, systemKinds...)
}

// start starts the test binary as an agent below dir.
func start(t *testing.T, dir string) *proc.Stream {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return launch(t, self, "agent", "--dir", dir)
}

// launch starts a command that may or may not be an agent.
func launch(t *testing.T, argv ...string) *proc.Stream {
	t.Helper()
	cmd := proc.Command(t.Context(), argv...)
	// A program built with the race detector sleeps for a second when it ends, unless told not to.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	s, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// connect starts an agent below dir and does the handshake.
func connect(t *testing.T, dir string) (*deploy.Conn, *proc.Stream) {
	t.Helper()
	stream := start(t, dir)
	s, err := deploy.Connect(within(t, patience), stream, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, stream
}

// patience bounds every wait. It is long enough for a busy machine.
const patience = 3 * time.Minute

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func job(kind string) wire.Job { return wire.Job{Kind: kind, Cell: kind} }

// run runs one trial that must succeed.
func run(t *testing.T, s *deploy.Conn, r wire.Run) deploy.Outcome {
	t.Helper()
	o, err := s.Run(within(t, patience), r)
	if err != nil {
		evidence := ""
		if f, ok := errors.AsType[*record.Failure](err); ok {
			evidence = f.Evidence
		}
		t.Fatalf("%s: %v\n%s", r.Kind, err, evidence)
	}
	return o
}

// left lists the files in dir.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// eventually waits for an effect of another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// shaken starts an agent and does the handshake.
func shaken(t testing.TB, path, dir string) *deploy.Conn {
	t.Helper()
	stream, err := proc.Start(proc.Command(t.Context(), path, "agent", "--dir", dir))
	if err != nil {
		t.Fatal(err)
	}
	s, err := deploy.Connect(t.Context(), stream, "test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shake(t testing.TB, path, dir string) {
	t.Helper()
	if err := shaken(t, path, dir).Close(); err != nil {
		t.Fatal(err)
	}
}
