package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
)

func labels(p *Plan) []string {
	var out []string
	for _, w := range p.Workloads {
		out = append(out, w.Label)
	}
	return out
}

func TestRangesAndListsOfParametersGiveAWorkloadEach(t *testing.T) {
	src := `
environments: [host]
workloads:
  - fs.randread:size=16KiB,bs=4KiB..64KiB
  - {kind: fs.randread, bs: [4KiB, 1MiB], size: [64KiB, 2MiB], direct: yes}
  - {kind: fs.randread, label: w, bs: 4KiB..8KiB}
`
	p, err := Parse("p.yaml", []byte(src), tables())
	if err != nil {
		t.Fatal(err)
	}
	// A record that is larger than its file is left out.
	want := []string{
		"fs.randread size=16KiB", "fs.randread size=16KiB bs=8KiB", "fs.randread size=16KiB bs=16KiB",
		"fs.randread size=64KiB direct=true", "fs.randread size=2MiB direct=true",
		"fs.randread size=2MiB bs=1MiB direct=true",
		"w bs=4KiB", "w bs=8KiB",
	}
	if got := labels(p); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for src, want := range map[string]string{
		"fs.randread:size=4KiB,bs=8KiB..64KiB":    "larger than",
		"fs.randread:bs=64KiB..4KiB":              "bs",
		"{kind: fs.randread, bs: [4KiB, nine]}":   "nine",
		"{kind: fs.randread, bs: [], size: 1MiB}": "bs",
	} {
		if _, err := Parse("p.yaml", []byte("workloads:\n  - "+src), tables()); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", src, err, want)
		}
	}
}

// A kind may know a name for several sets of parameters. Resolved, they stay what they are.
func TestNameThatMeansSeveralWorkloads(t *testing.T) {
	ts := tables()
	ts.Kinds[1].Params = append(ts.Kinds[1].Params, workload.Param{Name: "preset", Type: workload.Text})
	ts.Kinds[1].Expand = func(given map[string]string) []map[string]string {
		if given["preset"] != "three" || given["bs"] != "" {
			return []map[string]string{given}
		}
		var all []map[string]string
		for _, bs := range []string{"4KiB", "8KiB", "1MiB"} {
			each := maps.Clone(given)
			each["bs"] = bs
			all = append(all, each)
		}
		return all
	}
	// 1 MiB does not fit
	want := []string{"fs.randread size=64KiB preset=three", "fs.randread size=64KiB bs=8KiB preset=three"}
	for _, src := range []string{
		"fs.randread:preset=three,size=64KiB",
		"{fs.randread: {preset: three, size: 64KiB}}",
		"{kind: fs.randread, size: [64KiB], preset: three}",
	} {
		p, err := Parse("p.yaml", []byte("environments: [host]\nworkloads:\n  - "+src), ts)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		again, err := Parse("plan.yaml", Marshal(p), ts)
		if err != nil {
			t.Fatalf("%s, resolved: %v", src, err)
		}
		if got := labels(p); !slices.Equal(got, want) || !slices.Equal(labels(again), want) {
			t.Errorf("%s gives %q and then %q, want %q", src, got, labels(again), want)
		}
	}
}

// A list must not be left out because there are too many combinations.
func TestTooManyCombinationsAreRefused(t *testing.T) {
	var sizes, records []string
	for i := range 21 {
		sizes, records = append(sizes, fmt.Sprintf("%dMiB", i+10)), append(records, fmt.Sprintf("%dKiB", 4*i+4))
	}
	for _, src := range []string{
		"{kind: fs.randread, size: [" + strings.Join(sizes, ", ") + "], bs: [" + strings.Join(records, ", ") + "]}",
		"fs.randread:size=1B..1TiB,bs=1B..1TiB",
	} {
		_, err := Parse("p.yaml", []byte("environments: [host]\nworkloads:\n  - "+src), tables())
		if err == nil || !strings.Contains(err.Error(), "at most 400 fit a plan") {
			t.Errorf("%.60s... gives %v", src, err)
		}
	}
}

func mountTables() Tables {
	t := tables()
	t.Kinds[1].Needs.FS = true
	infos := t.Drivers.All()
	vm := infos[slices.IndexFunc(infos, func(i env.Info) bool { return i.Name == "qemu" })]
	vm.Name = "machine"
	vm.Mounts = []env.MountKind{
		{Name: "9p", Settings: []env.Setting{{Name: "cache", Check: env.OneOf("none", "loose")}}},
		{Name: "dir", ArgDoc: "DIR", ArgNeeds: true},
	}
	t.Drivers = env.NewRegistry(append(slices.Clone(infos), vm)...)
	return t
}

func TestMountsAreTargets(t *testing.T) {
	src := `
baseline: vm:9p
environments:
  host: local
  vm: machine
  vm:9p:
  vm:loose: 9p?cache=loose
  vm:long: {kind: dir, arg: /srv/a b}
workloads: [cpu.prime, fs.randread]
`
	p, err := Parse("p.yaml", []byte(src), mountTables())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Target{
		{Name: "host", Text: "local"}, {Name: "vm", Text: "machine"}, {Name: "vm:9p", Of: "vm", Text: "9p"},
		{Name: "vm:loose", Of: "vm", Text: "9p?cache=loose"}, {Name: "vm:long", Of: "vm", Text: "dir:/srv/a b"},
	} {
		if got := p.Targets[i]; got.Name != want.Name || got.Of != want.Of || got.Text != want.Text {
			t.Errorf("environment %d is %+v, want %+v", i, got, want)
		}
	}
	if w := p.Workloads[0]; w.On("vm:loose") || !w.On("vm") {
		t.Errorf("a workload without files runs in %q", w.Targets)
	}
	if w := p.Workloads[1]; !w.On("vm:loose") || !w.On("host") {
		t.Errorf("a workload with files runs in %q", w.Targets)
	}
	again, err := Unmarshal("plan.yaml", Marshal(p))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(Marshal(again)); got != string(Marshal(p)) || again.Targets[3].Of != "vm" ||
		len(again.Mounts("vm")) != 3 {
		t.Errorf("a resolved plan changes when it is read:\n%s", got)
	}
}

func TestMountsOfTheCommandLine(t *testing.T) {
	p, err := FromFlags(nil, Flags{Environments: []string{"host", "vm=machine"},
		Mounts: []string{"vm:9p", "vm:l=9p?cache=loose"}, Workloads: []string{"fs.randread"}}, mountTables())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Mounts("vm")); n != 2 || p.Targets[3].Name != "vm:l" {
		t.Errorf("%+v", p.Targets)
	}
	both, err := FromFlags(p, Flags{Environments: []string{"host", "vm", "vm:l"}}, mountTables())
	if err != nil || strings.Join(names(both), " ") != "host vm vm:l" {
		t.Errorf("an environment and a mount in it are selected: %v, %v", both, err)
	}
	only, err := FromFlags(p, Flags{Environments: []string{"vm:l", "host"}}, mountTables())
	if err != nil {
		t.Fatal(err)
	}
	if len(only.Targets) != 3 || only.Targets[1].Name != "vm" {
		t.Errorf("a selected mount does not bring its environment: %+v", only.Targets)
	}
	for text, want := range map[string]string{
		"9p": "has no environment", "box:9p": "no such environment", "vm:8p": `did you mean "9p"`,
		"vm:x=9p?cache=lose": `did you mean "loose"`,
		"vm:x=dir":           "needs an argument", "host:9p": "has no mounts", "vm:9p:x": "takes no argument",
		"vm:x=9p?size=1": "no setting",
	} {
		_, err := FromFlags(nil, Flags{Environments: []string{"host", "vm=machine"}, Mounts: []string{text},
			Workloads: []string{"fs.randread"}}, mountTables())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-m %s gives %v, want %q", text, err, want)
		}
	}
	bad := Flags{Environments: []string{"host", "vm=machine"}, Mounts: []string{"vm:9p"},
		Workloads: []string{"cpu.prime"}}
	if p, err := FromFlags(nil, bad, mountTables()); err != nil || p.Workloads[0].On("vm:9p") {
		t.Errorf("%v", err)
	}
}

// TestAMountOfThePlanIsSelected: a bare name after -m is the plan's own mount, not another one of that kind.
func TestAMountOfThePlanIsSelected(t *testing.T) {
	base, err := Parse("p.yaml", []byte(`
environments:
  host: local
  vm: machine
  vm:9p: {kind: 9p, cache: loose, against: vm}
  vm:other: {kind: 9p, against: vm:9p}
workloads: [fs.randread]
`), mountTables())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		environments, mounts         []string
		targets, name, text, against string
	}{
		{[]string{"host", "vm"}, []string{"vm:9p"}, "host vm vm:9p", "vm:9p", "9p?cache=loose", "vm"},
		{[]string{"host", "vm"}, []string{"vm:other"}, "host vm vm:other", "vm:other", "9p", "host"},
		{[]string{"host", "vm"}, []string{"vm:9p", "vm:other"}, "host vm vm:9p vm:other", "vm:other", "9p", "vm:9p"},
		{[]string{"host", "vm"}, []string{"vm:9p=9p"}, "host vm vm:9p", "vm:9p", "9p", "host"},
		{nil, []string{"vm:9p"}, "host vm vm:9p vm:other", "vm:9p", "9p?cache=loose", "vm"},
	} {
		p, err := FromFlags(base, Flags{Environments: c.environments, Mounts: c.mounts}, mountTables())
		if err != nil {
			t.Errorf("-m %v: %v", c.mounts, err)
			continue
		}
		e, _ := p.Target(c.name)
		if got := strings.Join(names(p), " "); got != c.targets || e.Text != c.text ||
			p.Against(c.name) != c.against {
			t.Errorf("-m %v: %s, %+v against %s", c.mounts, got, e, p.Against(c.name))
		}
	}
}

func TestAMountIsComparedWithItsEnvironment(t *testing.T) {
	src := `
environments:
  host: local
  vm: machine
  vm:9p: {kind: 9p, against: vm}
  vm:loose: {from: vm:9p, cache: loose, against: vm}
workloads: [{kind: fs.randread, targets: [vm:9p]}, fs.randread:bs=8KiB]
`
	p, err := Parse("p.yaml", []byte(src), mountTables())
	if err != nil {
		t.Fatal(err)
	}
	if p.Against("vm:9p") != "vm" || p.Against("vm") != "host" || p.Targets[3].Text != "9p?cache=loose" {
		t.Errorf("%+v", p.Targets)
	}
	if got := p.Bases(&p.Workloads[0]); !slices.Equal(got, []string{"host", "vm"}) {
		t.Errorf("bases %q", got)
	}
	if !p.Workloads[0].On("vm") {
		t.Error("a workload leaves out what its target is compared with")
	}
	if again, err := Unmarshal("p", Marshal(p)); err != nil || again.Against("vm:loose") != "vm" {
		t.Errorf("%v", err)
	}
	chain := strings.Replace(src, "9p, against: vm}", "9p, against: vm:loose}", 1)
	if p, err = Parse("p.yaml", []byte(chain), mountTables()); err != nil ||
		!slices.Equal(p.Bases(&p.Workloads[0]), []string{"host", "vm:loose", "vm"}) {
		t.Errorf("%v, bases %q", err, p.Bases(&p.Workloads[0]))
	}
	for text, bad := range map[string]string{
		"no target \"vn\"":      strings.Replace(src, "against: vm}", "against: vn}", 1),
		"leads to the baseline": strings.Replace(chain, "loose, against: vm}", "loose, against: vm:9p}", 1)} {
		if _, err := Parse("p.yaml", []byte(bad), mountTables()); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestWorkloadHasABaseline: where the plan's baseline cannot do the work, another target takes its place, in the
// plan as in what is left of it.
func TestWorkloadHasABaseline(t *testing.T) {
	const src = `environments:
  host: local
  box: machine
  vm: {driver: machine, against: box}
  vm:9p: {kind: 9p, against: vm}
workloads:
  - {kind: fs.randread, baseline: box, targets: [vm:9p]}
  - {kind: command, command: "true", targets: [box]}
`
	p, err := Parse("p.yaml", []byte(src), mountTables())
	if err != nil {
		t.Fatal(err)
	}
	w := &p.Workloads[0]
	for range 2 {
		if !slices.Equal(w.Targets, []string{"box", "vm", "vm:9p"}) ||
			!slices.Equal(p.Bases(w), []string{"box", "vm"}) ||
			p.AgainstIn(w, "vm:9p") != "vm" || p.AgainstIn(w, "vm") != "box" || p.AgainstIn(w, "box") != "box" ||
			p.AgainstIn(&p.Workloads[1], "box") != "host" || p.cells() != 3 {
			t.Errorf("targets %q, bases %q, %d cells", w.Targets, p.Bases(w), p.cells())
		}
		if p, err = Unmarshal("p", Marshal(p)); err != nil {
			t.Fatal(err)
		}
		w = &p.Workloads[0]
	}
	if _, err := Parse("p.yaml", []byte(strings.Replace(src, "baseline: box", "baseline: bux", 1)),
		mountTables()); err == nil || !strings.Contains(err.Error(), `there is no target "bux"`) {
		t.Errorf("a baseline that there is not: %v", err)
	}
	// Without box, the next one takes its place.
	q, err := ParseWithFlags("p.yaml", []byte(src),
		Flags{Environments: []string{"host", "vm", "vm:9p"}}, mountTables())
	if err != nil || len(q.Workloads) != 1 || q.Workloads[0].Baseline != "vm" {
		t.Errorf("without box: %+v, %v", q, err)
	}
	if q := p.Without(map[string]bool{"box": true}, nil); q.Workloads[0].Baseline != "vm" {
		t.Errorf("without box: %+v", q.Workloads)
	}
}
