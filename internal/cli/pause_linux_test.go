package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/bundle"
	"tare/internal/record"
)

// stands tells whether a process is stopped.
func stands(pid int) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "T")
}

// Ctrl-Z in the middle of a trial, and fg a few seconds later: the agent works on, and the controller's clock tells of
// the pause and not of the trial. The block is done again.
func TestStoppedInATrial(t *testing.T) {
	l := newLab(t)
	l.plan("box: local", `- "null": {hang: 400ms}`)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	// A worker that is seen may have ended before the signal comes. One that is there after it is in a trial: nobody
	// begins another. Else it is done again, and that is a stop as well.
	stops := 0
	for inTrial := false; !inTrial; {
		p.until("worker", func() bool { return len(p.below(aWorker)) > 0 })
		l.kill(p.cmd.Process.Pid, syscall.SIGSTOP)
		stops++
		p.until("stop", func() bool { return stands(p.cmd.Process.Pid) })
		if inTrial = len(p.below(aWorker)) > 0; inTrial {
			time.Sleep(4 * time.Second)
		}
		l.kill(p.cmd.Process.Pid, syscall.SIGCONT)
	}
	o := p.end()
	if o.code != 0 ||
		!regexp.MustCompile(`block \d+ of null hang=400ms discarded: tare itself was stopped for \d+ s during a block`).MatchString(o.err) {
		t.Errorf("exit code %d:\n%s", o.code, o.err)
	}
	d := l.read("out")
	for _, c := range d.Cells {
		if c.Primary && c.Blocks != 10 {
			t.Errorf("%s has %d blocks, want ten that are whole", c.Target, c.Blocks)
		}
	}
	b, err := os.ReadFile(filepath.Join(l.dir, "out", bundle.TrialsFile))
	if err != nil {
		t.Fatal(err)
	}
	// A block that another machine on the same hardware spoilt may be discarded, too.
	stopped, longest := []int{}, record.Trial{}
	for line := range strings.Lines(string(b)) {
		var tr record.Trial
		if err := json.Unmarshal([]byte(line), &tr); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(tr.Discarded, "tare itself was stopped") {
			stopped = append(stopped, tr.Block)
		}
		if tr.ControllerNS > longest.ControllerNS {
			longest = tr
		}
	}
	if len(stopped) < 1 || len(stopped) > stops || d.Run.Discarded < 1 {
		t.Errorf("%d blocks are discarded, blocks %v for %d stops", d.Run.Discarded, stopped, stops)
	}
	if longest.ControllerNS > 3e9 && !slices.Contains(stopped, longest.Block) {
		t.Errorf("block %d has a trial of %d ns by the controller's clock and %d by the agent's, and blocks %v are "+
			"discarded", longest.Block, longest.ControllerNS, longest.AgentNS, stopped)
	}
	if o := l.do("verify", "out"); o.code != 0 {
		t.Errorf("verify: %s%s", o.out, o.err)
	}
	l.gone("out")
}
