package deploy_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tare/internal/measure/wire"
)

func TestTrialIsTimedTwiceAndTidiedUp(t *testing.T) {
	dir := t.TempDir()
	s, _ := connect(t, dir)
	if h := s.Hello(); h.PID == os.Getpid() || h.PID == 0 {
		t.Errorf("the agent says its process is %d", h.PID)
	}
	o := run(t, s, wire.Run{Job: job("t.sleep"), Work: 50})
	inside, outside := o.Result.ElapsedNS, o.ControllerNS
	t.Logf("inside %d ns, outside %d ns, slack %d ns, round trip %d +- %d ns, setup %d ns", inside, outside,
		o.Result.SlackNS, o.RTTNS, o.RTTSpreadNS, o.SetupNS)
	// The sleep cannot be shorter than requested. How much longer it is, and how far apart the marks arrive, depends on
	// the machine: a busy one may take half a minute, and if it reads both marks late, the time between them is zero.
	if inside < 50e6 {
		t.Errorf("50 ms of sleep took %d ns", inside)
	}
	if d := outside - inside; d < -inside-1e9 || d > 30e9 {
		t.Errorf("the controller's clock says %d ns, the agent's %d ns", outside, inside)
	}
	if o.RTTNS <= 0 || o.SetupNS <= 0 || o.Result.SlackNS <= 0 {
		t.Errorf("round trip %d, setup %d, slack %d ns: none can be nothing", o.RTTNS, o.SetupNS, o.Result.SlackNS)
	}
	if _, err := strconv.Atoi(o.Result.State["overhead_ns"]); err != nil {
		t.Errorf("overhead_ns is %q", o.Result.State["overhead_ns"])
	}
	// A sleep gives up the CPU at least once.
	if n, err := strconv.Atoi(o.Result.State["switches_voluntary"]); err != nil || n < 1 {
		t.Errorf("switches_voluntary is %q", o.Result.State["switches_voluntary"])
	}
	if n := left(t, dir); len(n) != 1 || !strings.HasPrefix(n[0], "tare-test-") {
		t.Errorf("the agent works in %q, want one directory tare-test-*", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := left(t, dir); len(n) != 0 {
		t.Errorf("left behind: %q", n)
	}
}

func TestCellsKeepTheirDirectoryUntilReleased(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	first := run(t, s, wire.Run{Job: job("t.files"), Work: 1})
	second := run(t, s, wire.Run{Job: job("t.files"), Work: 1})
	if got := second.Result.State["found"]; got != "from an earlier trial" || first.Result.State["found"] != "" {
		t.Errorf("the first trial found %q, the second %q", first.Result.State["found"], got)
	}
	dir := second.Result.State["dir"]
	if other := run(t, s, wire.Run{Job: wire.Job{Kind: "t.files", Cell: "../../t files"},
		Work: 1}); other.Result.State["dir"] == dir || filepath.Dir(other.Result.State["dir"]) != filepath.Dir(dir) {
		t.Errorf("cells work in %s and %s", dir, other.Result.State["dir"])
	}
	if err := s.Release(within(t, patience), "t.files"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("after its release the cell's directory: %v", err)
	}
	if got := run(t, s, wire.Run{Job: job("t.files"), Work: 1}).Result.State["found"]; got != "" {
		t.Errorf("after the release a trial found %q", got)
	}
}
