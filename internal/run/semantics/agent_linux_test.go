package semantics

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/measure/fileops"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m)) }

// agent starts the real agent, which works below dir.
func agent(t *testing.T, dir string) (*deploy.Conn, *proc.Stream) {
	t.Helper()
	stream, err := proc.Start(proc.Command(t.Context(), agenttest.Build(t, runtime.GOOS, runtime.GOARCH), "agent",
		"--dir", dir))
	if err != nil {
		t.Fatal(err)
	}
	s, err := deploy.Connect(t.Context(), stream, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, stream
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
}

func TestCardsByARealAgent(t *testing.T) {
	home, shared := t.TempDir(), t.TempDir()
	s, _ := agent(t, home)
	list, err := For(t.Context(), s, &env.Mounted{Name: "m",
		Mount: record.Mount{Dir: shared, HostDir: shared, Type: "ext4"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	card := byName(t, list)
	want(t, card, yes, "symlink", "flock-across", "fcntl-across", "inotify-from-host", "inotify-to-host",
		"mmap-from-host", "o-excl-across", "close-to-open")
	if len(card) != len(lines(true)) {
		t.Errorf("%d of %d lines", len(card), len(lines(true)))
	}
	if !testing.Short() {
		own, err := For(t.Context(), s, &env.Mounted{}, 0)
		if err != nil || len(own) != len(lines(false)) {
			t.Errorf("of the agent's own directory %d of %d lines, %v", len(own), len(lines(false)), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	empty(t, home)
	empty(t, shared)
}

// TestAgentsOutliveWhatIsGivenUp gives up a wait that the agent is in: it must answer at once, and serve on.
func TestAgentsOutliveWhatIsGivenUp(t *testing.T) {
	s, _ := agent(t, t.TempDir())
	in := remote{s}
	must := func(r fileops.Request) fileops.Reply {
		t.Helper()
		reply, err := in.Do(t.Context(), r)
		if err != nil || reply.Fault != nil {
			t.Fatalf("%s: %v, %v", r.Op, err, reply.Fault)
		}
		return reply
	}
	if _, err := in.Do(t.Context(), fileops.Request{Op: fileops.Nop}); err == nil {
		t.Error("an operation without a directory was served")
	}
	must(fileops.Request{Op: fileops.Begin})
	a := &actor{side: in, ctx: within(t, 100*time.Millisecond)}
	began := time.Now()
	a.do(fileops.Request{Op: fileops.Wait, Name: []byte("never"), Until: fileops.UntilThere, TimeoutNS: 50e9})
	if d := time.Since(began); d > 30*time.Second || a.err == nil {
		t.Errorf("giving up took %v, %v", d, a.err)
	}
	must(fileops.Request{Op: fileops.Put, Name: []byte("after"), Data: []byte("x")})
	for _, bad := range []string{`{"op":"put","name":"Li4vYQ=="}`, `{"op":"format"}`, `[]`} {
		_, err := s.Probe(t.Context(), json.RawMessage(bad))
		if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	must(fileops.Request{Op: fileops.End})
}

// TestNothingStaysWhenTheControllerDies ends the agent's input in the middle of a card.
func TestNothingStaysWhenTheControllerDies(t *testing.T) {
	home := t.TempDir()
	s, stream := agent(t, home)
	in := remote{s}
	for _, r := range []fileops.Request{
		{Op: fileops.Begin}, {Op: fileops.Fill, Name: []byte("d"), Count: 300},
		{Op: fileops.Open, Name: []byte("d/0/1"), Flags: fileops.ForWriting}, {Op: fileops.Watch},
	} {
		if reply, err := in.Do(t.Context(), r); err != nil || reply.Fault != nil {
			t.Fatalf("%s: %v, %v", r.Op, err, reply.Fault)
		}
	}
	answered := make(chan error, 1)
	go func() {
		_, err := in.Do(within(t, 2*time.Minute),
			fileops.Request{Op: fileops.Wait, Name: []byte("never"), Until: fileops.UntilThere,
				TimeoutNS: fileops.MaxTime})
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("what never comes was waited for, and came: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if made, err := os.ReadDir(home); err != nil || len(made) == 0 {
		t.Fatalf("the agent made nothing that could stay: %v", err)
	}
	if err := stream.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	// Long before the wait would have ended by itself.
	select {
	case <-stream.Done():
	case <-time.After(fileops.MaxTime / 2):
		t.Fatal("the agent stays")
	}
	<-answered // the connection is closed next, and serves one request at a time
	empty(t, home)
}

// TestCopiesConverge has a real rsync copy a folder to where the agent keeps its own files, and deletes what the
// original has not.
func TestCopiesConverge(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand files are copied again and again")
	}
	needs(t, "rsync")
	original, copied := t.TempDir(), t.TempDir()
	s, _ := agent(t, copied)
	trial := filepath.Join(copied, "tare-test-of-the-agent")
	if err := os.Mkdir(trial, 0o700); err != nil {
		t.Fatal(err)
	}
	in := remote{s}
	m := &env.Mounted{Name: "m", Mount: record.Mount{Dir: copied, HostDir: original}}
	order := again(rsyncOrder(original, copied))
	if !strings.HasPrefix(order.Command[1], "--filter=") {
		t.Errorf("%q", order.Command)
	}
	// Time enough for what the slowest of a hundred changes foretells of ten thousand, which on a busy machine is far
	// too much.
	list, err := converge(t.Context(), in, m, Options{Budget: 15 * time.Minute, Sync: copier(order.Command)})
	if err != nil {
		t.Fatal(err)
	}
	card := byName(t, list)
	for _, n := range []string{"sync-scan", "sync-1", "sync-100", "sync-10000"} {
		p := card[n]
		if p.Seconds <= 0 || p.Seconds > 60 || !strings.Contains(p.Detail, "p50 ") ||
			!strings.Contains(p.Detail, "max ") {
			t.Errorf("%+v", p)
		}
		t.Logf("%s: %s (%s)", n, p.Answer, p.Detail)
	}
	if p := card["sync-scan"]; !strings.Contains(p.Detail, "of a folder of 10000 files") {
		t.Errorf("the scan is of another folder than the changes: %s", p.Detail)
	}
	if few, many := card["sync-1"], card["sync-10000"]; many.Seconds <= few.Seconds {
		t.Errorf("10,000 changes take %s, one takes %s", many.Answer, few.Answer)
	}
	if _, err := os.Stat(trial); err != nil {
		t.Errorf("the agent's files were deleted: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(copied, "tare-card-*")); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	empty(t, original)

	// A copy that does not become like its original must not be timed as if it had.
	stale, err := converge(t.Context(), in, m, Options{Budget: 10 * time.Second, Sync: onlyOnce(copier(order.Command))})
	if err != nil {
		t.Fatal(err)
	}
	card = byName(t, stale)
	want(t, card, untested, "sync-scan", "sync-1", "sync-100", "sync-10000")
	if d := card["sync-1"].Detail; !strings.Contains(d, "0 of 250 files") {
		t.Errorf("detail %q", d)
	}
}
