package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/leftover"
	"tare/internal/lab/microvm"
)

// victimVar makes this test's executable the controller that will be killed; the value says what it opens.
const victimVar = "TARE_QEMU_TEST_VICTIM"

type order struct {
	Spec   env.Spec
	Mounts []env.Spec
	RunID  string
	Dir    string
	Agent  string
	// Network is whether only the network of the spec is to be made, without a machine.
	Network bool
}

// agentFile is a store with one agent.
type agentFile string

func (a agentFile) Path(string, string) (string, error) { return string(a), nil }

// victim opens a machine with mounts and waits to be killed.
func victim() int {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(victimVar)), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if o.Network {
		return networkVictim(o)
	}
	e, err := driver{}.Open(context.Background(), env.Options{
		Spec: o.Spec, Mounts: o.Mounts, RunID: o.RunID, Dir: o.Dir, Agents: agentFile(o.Agent),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, m := range e.(env.Mounter).Mounts() {
		if m.Err != nil {
			fmt.Fprintln(os.Stderr, m.Err)
			return 1
		}
	}
	fmt.Println("open", e.(*vm).shares.dir+networkSpaces(e.(*vm)))
	time.Sleep(10 * time.Minute)
	return 1
}

// killedMounts are the mounts with server programs of their own.
func killedMounts(t *testing.T) []env.Spec {
	return mountSpecs(t, "9p", "virtiofs", "nfs", "smb", "sshfs", "rsync")
}

func TestKilledControllerLeavesOnlyWhatCleanFinds(t *testing.T) {
	repeats(t)
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	agent, err := agenttest.Store(t).Path("linux", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	o := order{
		Spec:   spec("arch", "x86_64", "accel", "tcg", "disk", "none", "kernel", microvm.Generic),
		Mounts: killedMounts(t),
		RunID:  fmt.Sprintf("killed%d", os.Getpid()), Dir: t.TempDir(), Agent: agent,
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	// A separate folder, because a parallel test may clean up.
	temp, err := os.MkdirTemp("/tmp", "tare-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	var room string
	doomed := envtest.Doom(t, patience, []string{victimVar + "=" + string(text), "TMPDIR=" + temp},
		func(line string) (ok bool) {
			room, ok = strings.CutPrefix(line, "open ")
			return ok
		})
	before := processes(t, room)
	if len(before) < 2 { // QEMU, and at least one server
		t.Errorf("running are only %q: the search for them does not work", before)
	}
	doomed.Kill(t)
	if left := staying(func() []string { return processes(t, o.RunID) }); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), room) {
		t.Errorf("something is mounted below %s (%v)", room, err)
	}
	base := filepath.Dir(room)
	if base != temp {
		t.Errorf("it worked in %s, not in %s", base, temp)
	}
	if found := leftover.Find(base); !slices.Contains(found, room) {
		t.Errorf("tare clean would not find %s among %v", room, found)
	}
	if err := leftover.Remove(room); err != nil {
		t.Error(err)
	}
}
