package plan

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
)

func TestFlagsAlone(t *testing.T) {
	p, err := FromFlags(nil, Flags{
		Environments: []string{"host", "box=namespace", "vm=qemu?accel=tcg&cpus=2&memory=1GiB"},
		Workloads: []string{"cpu.prime:max=20000", "fs.randread:size=64MiB,bs=4KiB",
			`command:prepare=a\,b,command=x=1, y="2"`, `command:label=c d,prepare="q,\"r",command=true`},
		Seed: 9, Blocks: 20,
	}, tables())
	if err != nil {
		t.Fatal(err)
	}
	if p.Baseline != "host" || p.Seed != 9 || len(p.Targets) != 3 || p.MaxBlocks() != 20 || p.Mode != Quick {
		t.Errorf("%+v", p)
	}
	if w := p.Workloads[1]; w.Label != "fs.randread size=64MiB" || w.Params["bs"] != "4KiB" {
		t.Errorf("%+v", w)
	}
	if w := p.Workloads[2]; w.Params["prepare"] != "a,b" || w.Params["command"] != `x=1, y="2"` {
		t.Errorf("%+v", w)
	}
	if w := p.Workloads[3]; w.Params["prepare"] != `q,"r` || w.Label != "c d" {
		t.Errorf("%+v", w)
	}
}

func TestFlagsOverFile(t *testing.T) {
	base := mustParse(t, "environments: [host, box=namespace]\nworkloads:\n  - cpu.prime\n"+
		"  - {kind: fs.randread, targets: [box], work: {box: 5}}\nseed: 3\nmargin: 3%\n")
	before := Marshal(base)
	budget := time.Hour
	lay := func(f Flags) *Plan {
		t.Helper()
		p, err := FromFlags(base, f, tables())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := lay(Flags{}); !reflect.DeepEqual(p, base) {
		t.Errorf("no flags change the plan:\n got %+v\nwant %+v", p, base)
	}
	if p := lay(Flags{Set: []string{"fs.randread:bs=8KiB", "cpu.prime:max=30000"}}); p.Workloads[1].Params["bs"] !=
		"8KiB" || p.Workloads[0].Params["max"] != "30000" || p.Workloads[0].Label == base.Workloads[0].Label ||
		p.Workloads[1].Work != nil {
		t.Errorf("--set: %+v", p.Workloads)
	}
	automatic := base.Workloads[0].Label
	if p := lay(Flags{Set: []string{automatic + ":max=30000", automatic + ":max=40000"}}); p.Workloads[0].
		Params["max"] != "40000" {
		t.Errorf("--set by an automatic label, twice: %+v", p.Workloads)
	}
	if p := lay(Flags{Workloads: []string{"cpu.prime:label=a b"}, Set: []string{"a b:max=30000"}}); p.Workloads[2].
		Params["max"] != "30000" || p.Workloads[2].Label != "a b" || p.Workloads[0].Params["max"] == "30000" {
		t.Errorf("--set by label: %+v", p.Workloads)
	}
	if p := lay(Flags{Mode: Full, Budget: &budget}); p.Trial != time.Second ||
		!slices.Equal(p.Looks, DefaultLooks(Full)) || p.Budget != budget || p.Margin != 0.03 || p.Seed != 3 {
		t.Errorf("--full: %+v", p)
	}
	if p := lay(Flags{Environments: []string{"lab=ssh:me@lab", "box=qemu"}}); strings.Join(names(p),
		" ") != "host box lab" || p.Targets[1].Text != "qemu" {
		t.Errorf("added and replaced: %+v", p.Targets)
	}
	if p := lay(Flags{Environments: []string{"box"}}); strings.Join(names(p), " ") != "box" || p.Baseline != "box" {
		t.Errorf("selected: %+v baseline %s", p.Targets, p.Baseline)
	}
	if p := lay(Flags{Environments: []string{"host"}}); len(p.Workloads) != 2 && len(p.Workloads) != 1 {
		t.Errorf("selected: %+v", p.Workloads)
	} else if len(p.Workloads) == 2 && p.Workloads[1].Work != nil {
		t.Errorf("work of an environment that is gone: %+v", p.Workloads[1])
	}
	if p := lay(Flags{Workloads: []string{"fs.randread"}}); len(p.Workloads) != 1 || p.Workloads[0].Work["box"] != 5 {
		t.Errorf("selected: %+v", p.Workloads)
	}
	if p := lay(Flags{Workloads: []string{"cpu.prime:threads=2"}, Baseline: "box"}); len(p.Workloads) != 3 ||
		p.Baseline != "box" {
		t.Errorf("added: %+v", p.Workloads)
	}
	if string(Marshal(base)) != string(before) {
		t.Error("the base was changed")
	}
	// What the file says of looks stays, whatever the mode.
	base = mustParse(t, "environments: [host, box=namespace]\nworkloads: [cpu.prime]\nlooks: [12, 24]\ntrial: 400ms\n")
	if p := lay(Flags{Mode: Full}); !slices.Equal(p.Looks, []int{12, 24}) || p.Trial != 400*time.Millisecond {
		t.Errorf("looks %v trial %v", p.Looks, p.Trial)
	}
}

func TestParseWithFlags(t *testing.T) {
	read := func(src string, f Flags) *Plan {
		t.Helper()
		p, err := ParseWithFlags("plan.yaml", []byte(src), f, tables())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// The file names no environments: those of the flags are all there are.
	p := read("workloads: [cpu.prime]\n", Flags{Environments: []string{"vm=qemu", "box=namespace"}, Mode: Full})
	if strings.Join(names(p), " ") != "vm box" || p.Baseline != "vm" || p.Trial != time.Second || p.MaxBlocks() != 60 {
		t.Errorf("%+v", p)
	}
	// What the file says stays, even where it says the other mode's default.
	p = read("trial: 300ms\nlooks: [10, 15, 20, 30]\nenvironments: [host, box=namespace]\n"+
		"workloads: [cpu.prime, fs.randread:bs=8KiB]\n",
		Flags{Mode: Full, Workloads: []string{"fs.randread bs=8KiB"}, Environments: []string{"box", "host"}})
	if p.Trial != 300*time.Millisecond || p.MaxBlocks() != 30 || len(p.Workloads) != 1 ||
		strings.Join(names(p), " ") != "box host" || p.Baseline != "host" {
		t.Errorf("%+v", p)
	}
	for _, c := range []struct {
		src, want string
		f         Flags
	}{
		{"workloads: [cpu.prime]\nbaseline: box\n", `plan.yaml:2:11: baseline: there is no target "box" in the plan`,
			Flags{Environments: []string{"host"}}},
		{"workloads: [cpu.prime]\nenvironments: [host, qemu]\nblocks: 20\n", `--blocks: 3 blocks cannot reach`,
			Flags{Blocks: 3}},
		{"workloads: [cpu.prime]\nenvironments: [host, qemu]\nblocks: 3\n", `plan.yaml:3:9: 3 blocks cannot reach`,
			Flags{Seed: 1}},
		{"workloads:\n  - cpu.prime\n",
			`-w cpu.prime:max=10000: workload "cpu.prime" is given twice (the first is in line 2)`,
			Flags{Workloads: []string{"cpu.prime:max=10000"}}},
	} {
		_, err := ParseWithFlags("plan.yaml", []byte(c.src), c.f, tables())
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q with %+v:\n got %v\nwant %s", c.src, c.f, err, c.want)
		}
	}
}

func names(p *Plan) []string {
	var out []string
	for _, e := range p.Targets {
		out = append(out, e.Name)
	}
	return out
}

func TestFlagMistakes(t *testing.T) {
	long := time.Duration(1 << 62)
	for _, c := range []struct {
		f    Flags
		want string
	}{
		{Flags{Workloads: []string{"cpu.pirme"}},
			`-w cpu.pirme: there is no workload "cpu.pirme"; did you mean "cpu.prime"?`},
		{Flags{Workloads: []string{"cpu.prime:mxa=3"}},
			`-w cpu.prime:mxa=3: cpu.prime has no parameter "mxa"; did you mean "max"?`},
		{Flags{Workloads: []string{"cpu.prime:max"}}, `-w cpu.prime:max: cpu.prime: "max" is not key=value`},
		{Flags{Workloads: []string{"cpu.prime:max=1,max=2"}},
			`-w cpu.prime:max=1,max=2: cpu.prime: max is given twice`},
		{Flags{Workloads: []string{`cpu.prime:max="5`}},
			`-w cpu.prime:max="5: cpu.prime: max: the quote is not closed`},
		{Flags{Workloads: []string{`cpu.prime:max="5"6`}},
			`-w cpu.prime:max="5"6: cpu.prime: max: expected a comma after the closing quote, found "6"`},
		{Flags{Workloads: []string{"fs.randread:bs=8KiB,size=4KiB"}},
			`-w fs.randread:bs=8KiB,size=4KiB: fs.randread: bs is larger than size`},
		{Flags{Workloads: []string{"cpu.prime", "cpu.prime"}}, `-w cpu.prime: workload "cpu.prime" is given twice`},
		{Flags{Workloads: []string{"cpu.prime"}, Environments: []string{"hots"}},
			`-e hots: environment hots: there is no driver "hots"; did you mean "host"?`},
		{Flags{Workloads: []string{"cpu.prime"}, Environments: []string{"vm=qemu?accel=tcg", "vm2=vm?nic=e1000"}},
			`-e vm2=vm?nic=e1000: environment vm2: there is no driver "vm", but an environment has that name; to derive from it, write vm2: { from: vm, ... } in a plan file`},
		{Flags{Workloads: []string{"cpu.prime"}, Environments: []string{"vm=qmeu"}},
			`-e vm=qmeu: environment vm: there is no driver "qmeu"`},
		{Flags{Workloads: []string{"cpu.prime"}, Environments: []string{"vm=qemu?x"}},
			`-e vm=qemu?x: environment "vm=qemu?x": "x" is not key=value`},
		{Flags{Workloads: []string{"cpu.prime"}, Environments: []string{"host", "host"}},
			`-e host: environment host is given twice`},
		{Flags{Workloads: []string{"cpu.prime"}, Environments: []string{"host", "vm:9p", "vm=qemu"}},
			`-e vm:9p: the plan has no mount of that name; -m vm:9p adds one`},
		{Flags{Workloads: []string{"cpu.prime"}, Environments: []string{"host", "qmu:9p"}},
			`-e qmu:9p: environment qmu: there is no driver "qmu"`},
		{Flags{Workloads: []string{"cpu.prime"}, Baseline: "box"},
			`-b box: baseline: there is no target "box" in the plan`},
		{Flags{Workloads: []string{"cpu.prime"}, Environments: []string{"host", "qemu"}, Blocks: 3},
			`--blocks: 3 blocks cannot reach a verdict: 6 are needed`},
		{Flags{Workloads: []string{"cpu.prime"}, Blocks: -3}, `--blocks: expected a whole number`},
		{Flags{Workloads: []string{"cpu.prime"}, Budget: &long}, `--budget: `},
		{Flags{Workloads: []string{"cpu.prime"}, Set: []string{"cpu.pirme:max=3"}},
			`--set cpu.pirme:max=3: expected WORKLOAD:key=value with a kind or a label of the plan's workloads; did you ` +
				`mean "cpu.prime"?`},
		{Flags{Workloads: []string{"cpu.prime"}, Set: []string{"cpu.prime"}},
			`--set cpu.prime: expected WORKLOAD:key=value with a kind or a label of the plan's workloads`},
		{Flags{Workloads: []string{"cpu.prime"}, Set: []string{"cpu.prime:mxa=3"}},
			`--set cpu.prime:mxa=3: cpu.prime has no parameter "mxa"; did you mean "max"?`},
		{Flags{Workloads: []string{"cpu.prime"}, Set: []string{"cpu.prime:max"}},
			`--set cpu.prime:max: "max" is not key=value`},
		{Flags{Workloads: []string{"cpu.prime"}, Set: []string{"cpu.prime:"}},
			`--set cpu.prime:: expected key=value after cpu.prime:`},
		{Flags{Workloads: []string{"fs.randread:bs=4KiB,size=4MiB"}, Set: []string{"fs.randread:bs=8MiB"}},
			`--set fs.randread:bs=8MiB: bs is larger than size`},
		{Flags{}, `-w: name at least one workload`},
	} {
		_, err := FromFlags(nil, c.f, tables())
		list, ok := errors.AsType[Errors](err)
		if !ok || !strings.HasPrefix(list[0].Error(), c.want) {
			t.Errorf("%+v:\n got %v\nwant %s", c.f, err, c.want)
		}
	}
}

// TestAttainable holds the rule of method.md: the first look of any plan that is accepted can pass for all its cells.
func TestAttainable(t *testing.T) {
	for _, n := range []int{1, 2, 10, 60, 300} {
		var b strings.Builder
		b.WriteString("environments: [host, box=namespace, vm=qemu]\nworkloads:\n")
		for i := range n {
			b.WriteString("  - {kind: cpu.prime, label: w" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) +
				string(rune('a'+i/26)) + "}\n")
		}
		p := mustParse(t, b.String())
		m := 2 * n
		if got := p.cells(); got != m {
			t.Fatalf("%d cells, want %d", got, m)
		}
		// 2^-n is the smallest p value of n blocks, on each side.
		if smallest := 2.0 / float64(uint64(1)<<p.Looks[0]); smallest*float64(m) > p.LookAlpha {
			t.Errorf("%d cells: %d blocks can reach p=%.2g only, the level is %.3g/%d", m, p.Looks[0], smallest,
				p.LookAlpha, m)
		}
		if p.MaxBlocks() != 30 || !slices.IsSorted(p.Looks) {
			t.Errorf("%d cells: looks %v", m, p.Looks)
		}
	}
}

// TestSessionsAreTheUnit: with several sessions blocks are not what is counted. Below ten Student t judges, which can
// pass any correction; from ten on the signed-rank test needs as many sessions as it would need blocks.
func TestSessionsAreTheUnit(t *testing.T) {
	source := func(sessions, cells int, more string) string {
		return fmt.Sprintf("environments: [host, box=namespace]\nsessions: %d\n%sworkloads:\n%s", sessions, more,
			strings.Join(slices.Collect(func(yield func(string) bool) {
				for i := range cells {
					if !yield(fmt.Sprintf("  - {kind: cpu.prime, label: w%d}", i)) {
						return
					}
				}
			}), "\n")+"\n")
	}
	for _, c := range []struct {
		sessions, cells int
		more            string
		blocks          int
		want            string // of the error
	}{
		{5, 1, "looks: [5]\n", 5, ""},
		{2, 60, "", 10, ""},
		{9, 33, "", 10, ""},
		{5, 2, "looks: [3, 20]\n", 3, ""},
		{5, 2, "blocks: 4\n", 4, ""},
		{10, 1, "", 10, ""},
		{10, 12, "", 10, ""},
		{10, 33, "", 0, "plan.yaml:2:11: 10 sessions cannot reach a verdict: 11 are needed for 33 cells at level " +
			"0.05 (2^-n <= 0.05 / (2 x 33)); ask for 11 sessions"},
		{11, 33, "", 10, ""},
	} {
		p, err := Parse("plan.yaml", []byte(source(c.sessions, c.cells, c.more)), tables())
		if c.want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%d sessions, %d cells: %v, want %s", c.sessions, c.cells, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%d sessions, %d cells, %q: %v", c.sessions, c.cells, c.more, err)
			continue
		}
		if p.MaxBlocks() != c.blocks || len(p.Looks) != 1 || p.LookAlpha != p.Alpha {
			t.Errorf("%d sessions, %d cells, %q: %d blocks, looks %v at %g", c.sessions, c.cells, c.more, p.MaxBlocks(),
				p.Looks, p.LookAlpha)
		}
		if again, err := FromFlags(p, Flags{Mode: Full}, tables()); err != nil || again.Trial != time.Second ||
			again.MaxBlocks() != c.blocks {
			t.Errorf("laid over by --full: %+v, %v", again, err)
		}
	}
	if p := (&Plan{Sessions: 3, Looks: []int{10, 15}}); p.MaxBlocks() != 10 {
		t.Errorf("a bundle's plan with looks and sessions gets %d blocks", p.MaxBlocks())
	}
}

func FuzzSplitPairs(f *testing.F) {
	for _, s := range []string{`a=b,c=d`, `a="x,y",b=\,\\`, `command=a,b="`, `=`, `a="\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		pairs, err := splitPairs(s)
		if err != nil {
			return
		}
		var b strings.Builder
		for i, kv := range pairs {
			if i > 0 {
				b.WriteByte(',')
			}
			value := strings.NewReplacer(`\`, `\\`, `,`, `\,`, `"`, `\"`).Replace(kv[1])
			if kv[0] == "command" {
				value = kv[1]
			}
			b.WriteString(kv[0] + "=" + value)
		}
		again, err := splitPairs(b.String())
		if err != nil || !reflect.DeepEqual(again, pairs) {
			t.Fatalf("%q is %q, written %q, read %q, %v", s, pairs, b.String(), again, err)
		}
	})
}

// TestFlagsOwnFolders: an environment that has mounts by itself brings them, and the plan's question is asked of them.
func TestFlagsOwnFolders(t *testing.T) {
	const study = "environments: {host: local, vm: qemu, 'vm:9p': {kind: 9p, against: vm}}\nworkloads:\n" +
		"  - {kind: fs.randread, targets: [host, vm, 'vm:9p']}\n  - {kind: cpu.prime, targets: [host, vm]}\n" +
		"  - {kind: command, command: x}\n"
	tables := tables()
	shared := env.MountKind{Name: "9p"}
	tables.Drivers = env.NewRegistry(append(tables.Drivers.All(), env.Info{Name: "project", Driver: closed{},
		Mounts: []env.MountKind{shared}})...)
	for i, d := range tables.Drivers.All() {
		if d.Name == "qemu" {
			tables.Drivers.All()[i].Mounts = []env.MountKind{shared}
		}
	}
	for i := range tables.Kinds {
		tables.Kinds[i].Needs.FS = tables.Kinds[i].Name != "cpu.prime"
	}
	tables.Declared = func(s env.Spec) ([]env.Spec, error) {
		if s.Driver != "project" {
			return nil, nil
		}
		if s.Settings["bad"] != "" {
			return nil, errors.New("no project")
		}
		return []env.Spec{{Name: "a", Driver: "9p"}, {Name: "b", Driver: "9p"}}, nil
	}
	for i, d := range tables.Drivers.All() {
		if d.Name == "project" {
			tables.Drivers.All()[i].Settings = []env.Setting{{Name: "bad"}}
		}
	}
	for _, c := range []struct {
		f    Flags
		want string // targets; then those of each workload that is not everywhere
	}{
		{Flags{Environments: []string{"p=project"}}, "p p:a p:b"},
		{Flags{Environments: []string{"host", "p=project"}}, "host p p:a p:b; cpu.prime: host"},
		{Flags{Environments: []string{"p=project"}, Mounts: []string{"p:x=9p"}},
			"host vm vm:9p p p:x; fs.randread: host vm vm:9p; cpu.prime: host vm"},
		{Flags{Environments: []string{"vm"}}, "vm"},
		// One that the plan names itself, by its bare name.
		{Flags{Environments: []string{"own"}}, "own own:a own:b"},
		{Flags{Environments: []string{"host", "own"}}, "host own own:a own:b; cpu.prime: host"},
	} {
		text := study
		if slices.Contains(c.f.Environments, "own") {
			text = strings.NewReplacer("vm: qemu,", "vm: qemu, own: project,", "'vm:9p']",
				"'vm:9p', own]").Replace(study)
		}
		p, err := ParseWithFlags("plan.yaml", []byte(text), c.f, tables)
		if err != nil {
			t.Errorf("%+v: %v", c.f, err)
			continue
		}
		var names []string
		for _, e := range p.Targets {
			names = append(names, e.Name)
			if e.Name == "p:a" && e.Against != "p" && p.Baseline != "p" {
				t.Errorf("%+v: p:a is compared with %q", c.f, e.Against)
			}
		}
		got := strings.Join(names, " ")
		for _, w := range p.Workloads {
			if len(w.Targets) > 0 {
				got += "; " + w.Kind + ": " + strings.Join(w.Targets, " ")
			}
		}
		if got != c.want {
			t.Errorf("%+v: %s\nwant %s", c.f, got, c.want)
		}
	}
	if _, err := ParseWithFlags("plan.yaml", []byte(study), Flags{Environments: []string{"p=project?bad=1"}},
		tables); err == nil || !strings.Contains(err.Error(), "no project") {
		t.Errorf("an error is %v", err)
	}
}
