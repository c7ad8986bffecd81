package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/bundle"
	"tare/internal/record"
)

// Ctrl-Z in the middle of a trial, and fg a few seconds later: the agent works on, and the controller's clock tells of the
// pause and not of the trial. The block is done again.
func TestStoppedInATrial(t *testing.T) {
	l := newLab(t)
	l.plan("box: local", `- "null": {hang: 400ms}`)
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 8)
	p.until("worker", func() bool { return len(p.below(aWorker)) > 0 })
	l.kill(p.cmd.Process.Pid, syscall.SIGSTOP)
	time.Sleep(4 * time.Second)
	l.kill(p.cmd.Process.Pid, syscall.SIGCONT)
	o := p.end()
	if o.code != 0 || !regexp.MustCompile(`block \d+ of null hang=400ms discarded: tare itself was stopped for \d+ s during a block`).MatchString(o.err) {
		t.Errorf("exit code %d:\n%s", o.code, o.err)
	}
	d := l.read("out")
	if d.Run.Discarded != 1 {
		t.Errorf("%d blocks discarded", d.Run.Discarded)
	}
	for _, c := range d.Cells {
		if c.Primary && c.Blocks != 10 {
			t.Errorf("%s has %d blocks, want ten that are whole", c.Target, c.Blocks)
		}
	}
	b, err := os.ReadFile(filepath.Join(l.dir, "out", bundle.TrialsFile))
	if err != nil {
		t.Fatal(err)
	}
	discarded, longest := 0, record.Trial{}
	for line := range strings.Lines(string(b)) {
		var tr record.Trial
		if err := json.Unmarshal([]byte(line), &tr); err != nil {
			t.Fatal(err)
		}
		if tr.Discarded != "" {
			discarded = tr.Block
		}
		if tr.ControllerNS > longest.ControllerNS {
			longest = tr
		}
	}
	if longest.ControllerNS > 3e9 && longest.Block != discarded {
		t.Errorf("block %d has a trial of %d ns by the controller's clock and %d by the agent's, and block %d is discarded", longest.Block, longest.ControllerNS, longest.AgentNS, discarded)
	}
	if o := l.do("verify", "out"); o.code != 0 {
		t.Errorf("verify: %s%s", o.out, o.err)
	}
	l.gone("out")
}
