package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/judge/costper"
	"tare/internal/judge/verdict"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/schedule"
)

// restateArgs are the flags as a user types them.
func restateArgs(t *testing.T, args ...string) *costOptions {
	t.Helper()
	n := &costOptions{}
	c := &cobra.Command{Use: "x"}
	n.flag(c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return n
}

func twoTargets() (*verdict.Result, *plan.Plan) {
	p := &plan.Plan{Baseline: "host", Targets: []plan.Target{{Name: "host"}, {Name: "vm"}},
		Workloads: []plan.Workload{{Label: "make", Kind: "command", Params: workload.Params{"command": "make"}}}}
	facts := record.Facts{Cores: 2, Threads: 2, MHz: 2000}
	return &verdict.Result{
		Run: verdict.Run{Baseline: "host", Scope: "on this boot"},
		Targets: []verdict.Target{{Target: record.Target{Name: "host", Inside: facts}},
			{Target: record.Target{Name: "vm", Inside: facts}}},
		Cells: []verdict.Cell{{Workload: "make", Kind: "command", Family: "command", Metric: "seconds", Unit: "s",
			Better: "lower", Primary: true,
			Target: "vm", Baseline: "host", Center: 50, BaselineCenter: 100,
			Ratio: record.Ratio{Center: 0.5, Low: 0.4, High: 0.6, Level: 0.95, Blocks: 10, Verdict: record.Different}}},
	}, p
}

func TestRestateMistakesAreUsage(t *testing.T) {
	_, p := twoTargets()
	for args, want := range map[string]string{
		"--per=joy":                         "no unit \"joy\"",
		"--per=cores":                       "did you mean \"core\"",
		"--unequal-topology":                "goes with --per",
		"--watts=vm":                        "--watts",
		"--watts=guest=35":                  "no target \"guest\"",
		"--price=vm=1":                      "h, day, month or year",
		"--hourly=60":                       "goes with --worth",
		"--uses-per-day=3":                  "goes with --worth",
		"--worth=much":                      "--worth",
		"--worth=140 --hourly=a":            "--hourly",
		"--worth=140 --worth-from=tomorrow": "2026-11-21",
		"--worth-workload=make":             "goes with --worth",
		"--per=joules":                      "there are: core-ghz, core, ghz",
		"--worth=140":                       "--uses-per-day",
		"--worth=0 --uses-per-day=3":        "price must be above 0",
		"--worth=1USD --uses-per-day=3 --hourly=6EUR":          "one currency",
		"--worth=140 --uses-per-day=3 --worth-workload=nosuch": "no workload \"nosuch\"",
	} {
		err := restateArgs(t, strings.Fields(args)...).check(p)
		if _, usage := errors.AsType[usageError](err); !usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q as a mistake in the command line", args, err, want)
		}
	}
}

func TestRestateSays(t *testing.T) {
	r, p := twoTargets()
	say := func(args ...string) (string, error) {
		n := restateArgs(t, args...)
		if err := n.check(p); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := n.compute(r, p).say(&out, 200)
		return out.String(), err
	}
	if got, err := say(); got != "" || err != nil {
		t.Errorf("without a question: %q, %v", got, err)
	}
	got, err := say("--per", "price", "--price", "host=0.10/h", "--price", "vm=0.4/h", "--worth", "140USD",
		"--uses-per-day", "10", "--hourly", "60USD", "--worth-from", "2026-11-21")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0.4 per hour / 0.1 per hour = 2.000 [1.600, 2.400]",
		"vm saves 50 [40, 60] s in each use of make against host (95 %, on this boot)",
		"on 2026-12-07 [2026-12-04, 2026-12-11]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	// What can be answered is, before the error tells what cannot.
	got, err = say("--per", "watt-hour", "--worth", "140", "--uses-per-day", "1")
	if err == nil || !strings.Contains(err.Error(), "--watts vm=35") || !strings.Contains(got, "Worth") {
		t.Errorf("%q, %v", got, err)
	}
}

// stubOpener opens nothing; what matters here is the record that passes through.
type stubOpener struct{ err error }

func (s stubOpener) Open(_ context.Context, e *plan.Target, mounts []*plan.Target, _ int) (schedule.Target, error) {
	t := schedule.Target{Record: record.Environment{Target: record.Target{Name: e.Name}}}
	for _, m := range mounts {
		t.Mounts = append(t.Mounts,
			schedule.MountTarget{Record: record.Environment{Target: record.Target{Name: m.Name}}})
	}
	return t, s.err
}

func TestPriceAndPowerAreRecorded(t *testing.T) {
	p := &plan.Plan{Targets: []plan.Target{{Name: "vm"}, {Name: "vm:nfs", Of: "vm"}}}
	n := restateArgs(t, "--watts", "vm=35", "--price", "vm:nfs=40EUR/month")
	if err := n.check(p); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no kernel")
	got, err := n.record(stubOpener{broken}).Open(t.Context(), &p.Targets[0], []*plan.Target{&p.Targets[1]}, 1)
	if !errors.Is(err, broken) || got.Record.Outside.Extra[costper.Watts] != "35" ||
		got.Mounts[0].Record.Outside.Extra[costper.Currency] != "EUR" {
		t.Errorf("%+v, %v", got, err)
	}
	if o := restateArgs(t).record(stubOpener{}); o != (stubOpener{}) {
		t.Error("with nothing to record the opener is wrapped")
	}
}

// TestWhatIsSaidKeepsToTheWidth asks both questions on terminals of two widths.
func TestWhatIsSaidKeepsToTheWidth(t *testing.T) {
	for _, width := range []int{80, 40} {
		n := restateArgs(t, "--per=core-ghz", "--worth=140EUR", "--uses-per-day=3", "--hourly=60EUR",
			"--worth-from=2026-11-21")
		if err := n.parse(); err != nil {
			t.Fatal(err)
		}
		r, p := twoTargets()
		var out bytes.Buffer
		if err := n.compute(r, p).say(&out, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if len([]rune(line)) > width+1 {
				t.Errorf("more than %d columns: %s", width, line)
			}
		}
		whole := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{"Costs per core-GHz vm make against host:",
			"Worth vm saves 50 [40, 60] s in each use of make against host (95 %, on this boot).",
			"are saved after 168 [140, 210] uses: on 2027-01-15"} {
			if !strings.Contains(whole, want) {
				t.Errorf("%q is not in:\n%s", want, &out)
			}
		}
	}
}

// TestReportOfTheReplayOf2014 asks `tare report` for the study's figures per core-GHz (docs/studies.md, database). The
// run with hyper-threading is refused; the like-for-like one gives 1.77 where 1.98 was published.
func TestReportOfTheReplayOf2014(t *testing.T) {
	type machine struct {
		name    string
		threads int // on 4 cores
		mhz     float64
		seconds float64
	}
	vms := []machine{{"vm-e7", 4, 2670, 194*60 + 14}, {"vm-e5", 4, 2700, 152*60 + 53}}
	bareHT, bare := machine{"bare-ht", 8, 2270, 115*60 + 25}, machine{"bare", 4, 2270, 128*60 + 43}
	report := func(args []string, machines ...machine) (int, string) {
		p := &plan.Plan{Schema: 1, Baseline: machines[0].name, Seed: 7, Mode: plan.Quick, Trial: time.Second,
			Sessions: 1, Looks: []int{10}, Alpha: 0.05, LookAlpha: 0.03, Margin: 0.02, TailMargin: 0.05,
			Precision: 0.01, Workloads: []plan.Workload{{Label: "replay", Kind: "command",
				Params: workload.Params{"command": "replay"}}}}
		var envs []record.Environment
		for _, m := range machines {
			p.Targets = append(p.Targets, plan.Target{Name: m.name, Spec: env.Spec{Name: m.name, Driver: "local"},
				Text: "local"})
			envs = append(envs, record.Environment{Session: 1, Target: record.Target{Name: m.name, Spec: "local",
				Inside: record.Facts{OS: "linux", Cores: 4, Threads: m.threads, MHz: m.mhz}}})
		}
		dir := filepath.Join(t.TempDir(), "replay")
		w, err := bundle.Create(dir, "0c86ada23d25", p)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Environments(envs); err != nil {
			t.Fatal(err)
		}
		for block := 1; block <= 10; block++ {
			for i, m := range append(machines, machines[0]) {
				tr := record.Trial{Session: 1, Block: block, Workload: "replay", Target: m.name, Position: i, Work: 1,
					Start: time.Unix(1e9, 0).UTC(), AgentNS: int64(m.seconds * 1e9),
					ControllerNS: int64(m.seconds * 1e9),
					Figures:      record.Figures{Metrics: map[string]float64{"seconds": m.seconds}}}
				if i == len(machines) {
					tr.Slot = record.NullSlot
				}
				if err := w.Append(&tr); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Finish(bundle.Finished, 3); err != nil {
			t.Fatal(err)
		}
		code, out, said := reported(t, append([]string{dir, "--per", "core-ghz"}, args...))
		return code, strings.Join(strings.Fields(string(out)+string(said)), " ")
	}
	code, said := report(nil, bareHT, vms[0], vms[1])
	if code != exitFailed || !strings.Contains(said,
		"vm-e7 has 4 cores / 4 threads and bare-ht 4 cores / 8 threads") || strings.Contains(said, "1.98") {
		t.Errorf("exit code %d: %s", code, said)
	}
	code, said = report(nil, bare, vms[0], vms[1])
	for _, want := range []string{"vm-e7 replay against bare: 1.509",
		"(4 cores x 2.67 GHz) / (4 cores x 2.27 GHz) = 1.77", "(4 cores x 2.7 GHz) / (4 cores x 2.27 GHz) = 1.41"} {
		if code != exitOK || !strings.Contains(said, want) {
			t.Errorf("exit code %d, %q is not in: %s", code, want, said)
		}
	}
	// Told to, it mixes them, and says so.
	code, said = report([]string{"--unequal-topology"}, bareHT, vms[0])
	if code != exitOK || !strings.Contains(said, "unequal topology, as requested") {
		t.Errorf("exit code %d: %s", code, said)
	}
}
