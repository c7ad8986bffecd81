package cli_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFullRunKilledBetweenItsSessions: a full run opens the environments several times where that is affordable, which
// depends on this machine and is said. Killed in its course it goes on in the same number of sessions, and nothing of
// any of them is left.
func TestFullRunKilledBetweenItsSessions(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"Interrupted": syscall.SIGINT, "Killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			needRoot(t)
			l.plan("box: namespace", `- "null": {hang: 50ms}`)
			p := l.start("run", "plan.yaml", "--full", "--blocks", "25", "-o", "out")
			p.trials("out", 31) // three warm-ups and five blocks of four are a session
			l.kill(p.cmd.Process.Pid, sig)
			<-p.done
			first := p.err.String()
			l.settled(filepath.Base(l.dir), false)
			const so = "so they are opened 5 times, with 5 blocks each"
			const not = "they stay open, and verdicts are of one boot"
			several := strings.Contains(first, so)
			if several == strings.Contains(first, not) {
				t.Fatalf("it is not said how often the environments are opened:\n%s", first)
			}
			o := l.do("run", "--resume", "out")
			if o.code != 0 {
				t.Fatalf("resumed: exit code %d: %s%s", o.code, o.out, o.err)
			}
			if several && !strings.Contains(o.err, "5 blocks each in each of 5 sessions") {
				t.Errorf("the forecast has other sessions:\n%s", o.err)
			}
			several = several || strings.Contains(o.err, so) // before its first look a run asks again
			d := l.read("out")
			want := 1
			if several {
				want = 5
			}
			if d.Run.Sessions != want || several != strings.HasPrefix(d.Run.Scope, "across 5 boots") {
				t.Errorf("%d sessions, want %d: %q", d.Run.Sessions, want, d.Run.Scope)
			}
			for _, c := range d.Cells {
				if c.Primary && (several && (c.Blocks < 25 || c.ThisBoot) || c.Blocks < 10) {
					t.Errorf("%d blocks, of this boot: %v: %+v", c.Blocks, c.ThisBoot, c)
				}
			}
			if o := l.do("clean"); o.code != 0 {
				t.Errorf("clean: exit code %d: %s", o.code, o.err)
			}
			l.gone("out")
		})
	}
}
