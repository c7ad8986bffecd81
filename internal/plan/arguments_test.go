package plan_test

import (
	"slices"
	"strings"
	"testing"

	"tare/internal/plan"
)

// TestArguments holds that the arguments of a plan make the same plan again, and that there are none for a plan that a
// command line cannot say.
func TestArguments(t *testing.T) {
	for _, c := range []struct {
		name, plan, want string // want is "" where the command line has no words for it
	}{
		{"shortest", "environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\nseed: 7\n",
			"-e host -e box=namespace -w cpu.prime --seed 7"},
		{"settings", "baseline: box\nenvironments: {host: {driver: local, dir: /var/tmp}, box: namespace,\n" +
			"  vm: {driver: qemu, cpus: 2}, other: {from: vm, cache: unsafe}}\n" +
			"workloads: [\"fs.randread:size=8MiB,bs=16KiB\"]\nseed: 9\nmode: full\nbudget: 10m\nblocks: 15\n",
			"-e host?dir=/var/tmp -e box=namespace -e vm=qemu?cpus=2 -e other=qemu?cache=unsafe&cpus=2 -b box " +
				"-w fs.randread:size=8MiB,bs=16KiB --full --blocks 15 --budget 10m0s --seed 9"},
		{"mounts", "environments: {vm: qemu, \"vm:9p\": 9p, \"vm:loose\": {kind: 9p, cache: loose}}\n" +
			"workloads: [fs.smallfiles, cpu.prime]\nseed: 7\n",
			"-e vm=qemu -m vm:9p -m vm:loose=9p?cache=loose -w fs.smallfiles -w cpu.prime --seed 7"},
		{"labels and trials", "environments: {host: local, box: namespace}\ntrial: 60ms\nseed: 7\nworkloads:\n" +
			"  - {kind: cpu.prime, label: \"a, b\"}\n  - {kind: cpu.prime, max: 2000, trial: 1s}\n",
			`-e host -e box=namespace -w cpu.prime:label=a\, b,trial=60ms -w cpu.prime:max=2000,trial=1s --seed 7`},
		{"a command", "environments: {host: local, box: namespace}\nseed: 7\nworkloads:\n" +
			"  - {kind: command, command: \"make -j2, x=1\", exit: 2}\n",
			"-e host -e box=namespace -w command:exit=2,command=make -j2, x=1 --seed 7"},
		{"several sessions", "environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\nseed: 7\n" +
			"sessions: 3\n", "-e host -e box=namespace -w cpu.prime --sessions 3 --seed 7"},
		{"full", "environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\nseed: 7\nmode: full\n",
			"-e host -e box=namespace -w cpu.prime --full --seed 7"},
		{"full, in one session", "environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\nseed: 7\n" +
			"mode: full\nsessions: 1\n", "-e host -e box=namespace -w cpu.prime --full --sessions 1 --seed 7"},
		{"full, and six were affordable", "environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\n" +
			"seed: 7\nmode: full\nsessions: 6\nmost_sessions: 6\nlooks: [10, 15, 20, 30, 45, 60]\n",
			"-e host -e box=namespace -w cpu.prime --full --seed 7"},
		{"sessions that no flag says", "environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\n" +
			"seed: 7\nmost_sessions: 6\n", ""},
		{"looks of its own", "environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\nseed: 7\n" +
			"looks: [12, 13]\n", ""},
		{"a margin", "environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\nseed: 7\nmargin: 5%\n", ""},
		{"targets", "environments: {host: local, box: namespace, vm: qemu}\nseed: 7\n" +
			"workloads: [{kind: cpu.prime, targets: box}]\n", ""},
		{"a line's end", "environments: {host: local, box: namespace}\nseed: 7\nworkloads:\n" +
			"  - {kind: command, command: \"a\\nb\"}\n", ""},
	} {
		p, err := plan.Parse(c.name, []byte(c.plan), realTables())
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Workloads { // a bundle's plan has it
			p.Workloads[i].Work = map[string]int64{p.Baseline: 5}
		}
		args, ok := plan.Arguments(p, realTables())
		if got := strings.Join(args, " "); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, ok, got, c.want)
		}
	}
	p, err := plan.Parse("x", []byte("environments: {host: local, box: namespace}\nworkloads: [cpu.prime]\n"),
		realTables())
	if err != nil {
		t.Fatal(err)
	}
	p.Cards = true
	if args, ok := plan.Arguments(p, realTables()); !ok || !slices.Contains(args, "--cards") {
		t.Errorf("cards: %q, %v", args, ok)
	}
	p.Workloads[0].Kind = "cpu.unheard"
	if args, ok := plan.Arguments(p, realTables()); ok {
		t.Errorf("a kind that this build does not have: %q", args)
	}
}
