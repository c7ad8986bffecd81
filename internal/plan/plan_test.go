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
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

type closed struct{ env.Driver }

// tables are small tables of the shape of the real ones; the real ones are used in tables_test.go.
func tables() Tables {
	number := func(v string) error {
		if v == "" || strings.Trim(v, "0123456789") != "" {
			return fmt.Errorf("%q is not a whole number", v)
		}
		return nil
	}
	return Tables{
		Drivers: env.NewRegistry(
			env.Info{Name: "local", Doc: "the host", Driver: closed{}},
			env.Info{Name: "namespace", Doc: "built-in container", Driver: closed{}},
			env.Info{Name: "qemu", Doc: "micro-VM", Driver: closed{}, Settings: []env.Setting{
				{Name: "accel", Default: "auto"}, {Name: "cpus", Check: number}, {Name: "nic"}, {Name: "memory"}}},
			env.Info{Name: "ssh", Doc: "a machine", ArgDoc: "HOST", ArgNeeds: true, Driver: closed{},
				Settings: []env.Setting{{Name: "port", Check: number}}},
		),
		Kinds: []workload.Kind{
			{Name: "cpu.prime", Doc: "primes", Metrics: []unit.Metric{{Name: "eps", Primary: true}},
				Params: []workload.Param{
					{Name: "max", Type: workload.Int, Default: "10000", Min: 4, Max: 1 << 30},
					{Name: "threads", Type: workload.Int, Default: "1", Min: 1, Max: 64}}},
			{Name: "fs.randread", Doc: "reads", Params: []workload.Param{
				{Name: "size", Type: workload.Size, Default: "256MiB", Min: 4096, Max: 1 << 40},
				{Name: "bs", Type: workload.Size, Default: "4KiB", Min: 512, Max: 1 << 30},
				{Name: "direct", Type: workload.Bool, Default: "no"}},
				New: func(p workload.Params) (workload.Trial, error) {
					if p.Int("bs") > p.Int("size") {
						return nil, errors.New("fs.randread: bs is larger than size") // as most kinds say it
					}
					return nil, nil
				}},
			{Name: "command", Doc: "yours", Is: workload.Traits{Command: true}, Params: []workload.Param{
				{Name: "command", Type: workload.Text, Required: true, Doc: "a shell line"},
				{Name: "prepare", Type: workload.Text}}},
		},
	}
}

func mustParse(t *testing.T, src string) *Plan {
	t.Helper()
	p, err := Parse("plan.yaml", []byte(src), tables())
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, src)
	}
	return p
}

const full = `
name: folders
question: what does a share cost?
baseline: host
seed: 7
mode: quick
trial: 300ms
budget: 10m
sessions: 1
blocks: 20
margin: 2%
tail_margin: 0.05
precision: 1 %
environments:
  host: local
  box: namespace
  vm: qemu?accel=tcg&cpus=2
  vm-e1000: { from: vm, nic: e1000 }
  plain: { from: vm-e1000, cpus: ~, memory: 010 }
  lab: { driver: ssh, arg: user@lab, port: 2222 }
workloads:
  - cpu.prime
  - cpu.prime: { max: 20_000, threads: 2 }
  - { kind: fs.randread, label: cold reads, size: 64MiB, bs: 4KiB, targets: [vm], trial: 1s }
  - fs.randread:size=1GiB,direct=yes
  - kind: command
    params:
      command: |
        echo "a,b" \
        	&& true
  - { kind: command, command: 1e3 }
`

func TestParse(t *testing.T) {
	p := mustParse(t, full)
	if p.Name != "folders" || p.Seed != 7 || p.Budget != 10*time.Minute || p.Margin != 0.02 || p.TailMargin != 0.05 ||
		p.Precision != 0.01 {
		t.Errorf("scalars: %+v", p)
	}
	if !slices.Equal(p.Looks, []int{12, 15, 20}) && p.Looks[len(p.Looks)-1] != 20 {
		t.Errorf("looks are %v", p.Looks)
	}
	specs := map[string]string{}
	for _, e := range p.Targets {
		specs[e.Name] = e.Text
	}
	want := map[string]string{
		"host": "local", "box": "namespace", "vm": "qemu?accel=tcg&cpus=2",
		"vm-e1000": "qemu?accel=tcg&cpus=2&nic=e1000",
		"plain":    "qemu?accel=tcg&memory=010&nic=e1000", "lab": "ssh:user@lab?port=2222",
	}
	if !reflect.DeepEqual(specs, want) {
		t.Errorf("environments are %v, want %v", specs, want)
	}
	var labels []string
	for _, w := range p.Workloads {
		labels = append(labels, w.Label)
	}
	wantLabels := []string{"cpu.prime", "cpu.prime max=20000 threads=2", "cold reads",
		"fs.randread size=1GiB direct=true",
		`command command="echo \"a,b\" \\\n\t&& true\n"`, "command command=1e3"}
	if !reflect.DeepEqual(labels, wantLabels) {
		t.Errorf("labels are %q, want %q", labels, wantLabels)
	}
	if w := p.Workloads[2]; !slices.Equal(w.Targets, []string{"host", "vm"}) || w.Trial != time.Second ||
		w.Params["size"] != "64MiB" {
		t.Errorf("third workload is %+v", w)
	}
}

func TestDefaults(t *testing.T) {
	p := mustParse(t, "workloads: [cpu.prime]\nenvironments: {box: namespace, host: }\nmode: full\n")
	if p.Baseline != "host" || p.Trial != time.Second || p.Seed == 0 || p.Schema != Schema || p.Sessions != 1 {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(p.Looks, DefaultLooks(Full)) || p.LookAlpha <= 0 || p.LookAlpha >= p.Alpha {
		t.Errorf("looks %v at %v", p.Looks, p.LookAlpha)
	}
	q := mustParse(t, "workloads: [cpu.prime]\n")
	if len(q.Targets) != 1 || q.Targets[0].Text != "local" {
		t.Errorf("a plan without environments measures %+v", q.Targets)
	}
	here := tables()
	here.Here = func() []string { return []string{"host", "box=namespace"} }
	q, err := Parse("plan.yaml", []byte("workloads: [cpu.prime]\n"), here)
	if err != nil || len(q.Targets) != 2 {
		t.Errorf("Here was not asked: %+v, %v", q, err)
	}
}

// TestBeginnings holds that what may stand before a document is no part of the plan.
func TestBeginnings(t *testing.T) {
	for _, begin := range []string{"\ufeff", "%YAML 1.2\n---\n", "\ufeff# mine\r\n%YAML 1.1\r\n---\r\n",
		"%YAML 1.2\n%TAG ! tag:example.com,2000:\n\n# mine\n---\n", "---\n"} {
		got, err := Parse("plan.yaml", []byte(begin+"workloads: [cpu.prime]\nblocks: 11\nbaseline: nowhere\n"),
			tables())
		line := 3 + strings.Count(begin, "\n")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("plan.yaml:%d:", line)) {
			t.Errorf("%q: %+v, %v; want an error in line %d", begin, got, err, line)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"there is no key", "workloads: [cpu.prime]\nblcoks: 20\n",
			`plan.yaml:2:1: there is no key "blcoks"; did you mean "blocks"?`},
		{"not a key", "workloads: [cpu.prime]\nblocks\n", `plan.yaml:2:1: this line is not KEY: VALUE`},
		{"UTF-16", "\xff\xfew\x00", `plan.yaml:1:1: this is UTF-16 text`},
		{"directive alone", "%YAML 1.2\nworkloads: [cpu.prime]\n", `plan.yaml:1:1: `},
		{"far key", "workloads: [cpu.prime]\nxyzzy: 20\n",
			`plan.yaml:2:1: there is no key "xyzzy"; there are: schema, name`},
		{"wrong type", "workloads: [cpu.prime]\nblocks: many\n",
			`plan.yaml:2:9: expected a whole number from 1 to 500, found "many"`},
		{"octal", "workloads: [cpu.prime]\nblocks: 0x20\n",
			`plan.yaml:2:9: expected a whole number from 1 to 500, found "0x20"`},
		{"list for number", "workloads: [cpu.prime]\nblocks: [1]\n",
			`plan.yaml:2:9: expected a whole number from 1 to 500, found a list`},
		{"mode", "workloads: [cpu.prime]\nmode: quik\n",
			`plan.yaml:2:7: mode "quik" is neither quick nor full; did you mean "quick"?`},
		{"duration", "workloads: [cpu.prime]\ntrial: 3\n",
			`plan.yaml:2:8: expected a duration such as 300ms, 10m or 1h30m, found "3"; did you mean "3s"?`},
		{"duration range", "workloads: [cpu.prime]\ntrial: 3ns\n",
			`plan.yaml:2:8: 3ns is out of range: expected a duration from 1ms to 1h0m0s`},
		{"share", "workloads: [cpu.prime]\nmargin: 2\n",
			`plan.yaml:2:9: expected a share such as 2% or 0.02, more than 0 and at most 100%, found "2"; did you mean "2%"?`},
		{"nan", "workloads: [cpu.prime]\nmargin: nan\n", `plan.yaml:2:9: expected a share`},
		{"looks", "workloads: [cpu.prime]\nlooks: [10, 10]\n", `plan.yaml:2:13: looks must ascend: 10 comes after 10`},
		{"workload", "workloads:\n  - cpu.pirme\n",
			`plan.yaml:2:5: there is no workload "cpu.pirme"; did you mean "cpu.prime"?`},
		{"workload form", "workloads:\n  - cpu.pirme: {max: 5}\n",
			`plan.yaml:2:5: there is no workload "cpu.pirme"; did you mean "cpu.prime"?`},
		{"no kind", "workloads:\n  - {label: x, max: 5}\n", `plan.yaml:2:5: this workload has no kind`},
		{"param", "workloads:\n  - cpu.prime: { maxx: 5 }\n",
			`plan.yaml:2:18: cpu.prime has no parameter "maxx"; did you mean "max"?`},
		{"param value", "workloads:\n  - cpu.prime: { max: 1e3 }\n",
			`plan.yaml:2:23: cpu.prime: max: "1e3" is not a whole number`},
		{"param range", "workloads:\n  - cpu.prime: { threads: 99 }\n",
			`plan.yaml:2:27: cpu.prime: threads: must be between 1 and 64`},
		{"param list", "workloads:\n  - cpu.prime: { threads: {a: 2} }\n",
			`plan.yaml:2:27: expected a value for threads, found a mapping`},
		{"size", "workloads:\n  - {kind: fs.randread, size: 9999999PiB}\n",
			`plan.yaml:2:31: fs.randread: size: "9999999PiB" is larger than any device`},
		{"together", "workloads:\n  - {kind: fs.randread, size: 4KiB, bs: 8KiB}\n",
			`plan.yaml:2:5: fs.randread: bs is larger than size`},
		{"null as a word", "workloads:\n  - cpu.prime: { max: null }\n",
			`plan.yaml:2:23: expected a value for max, found nothing, which is what null means in YAML; write "null" for the word`},
		{"nothing", "workloads:\n  - cpu.prime: { max: ~ }\n",
			`plan.yaml:2:23: expected a value for max, found nothing`},
		{"required", "workloads:\n  - command\n",
			`plan.yaml:2:5: command: command is required: a shell line; write command:command=...`},
		{"driver", "workloads: [cpu.prime]\nenvironments:\n  vm: qmeu\n",
			`plan.yaml:3:7: environment vm: there is no driver "qmeu"; did you mean "qemu"?`},
		{"setting", "workloads: [cpu.prime]\nenvironments:\n  vm: {driver: qemu, acel: tcg}\n",
			`plan.yaml:3:22: environment vm: driver qemu has no setting "acel"; did you mean "accel"?`},
		{"setting value", "workloads: [cpu.prime]\nenvironments:\n  vm: {driver: qemu, cpus: two}\n",
			`plan.yaml:3:28: environment vm: setting cpus: "two" is not a whole number`},
		{"argument", "workloads: [cpu.prime]\nenvironments:\n  lab: ssh\n",
			`plan.yaml:3:8: environment lab: driver ssh needs an argument: ssh:HOST`},
		{"name", "workloads: [cpu.prime]\nenvironments:\n  '-x': local\n", `plan.yaml:3:3: "-x" is not a name`},
		{"no driver", "workloads: [cpu.prime]\nenvironments:\n  vm: {cpus: 2}\n",
			`plan.yaml:3:7: environment vm has no driver`},
		{"parent", "workloads: [cpu.prime]\nenvironments:\n  vm: qemu\n  b: {from: vn}\n",
			`plan.yaml:4:13: environment b derives from "vn": there is no such environment in the plan; did you mean "vm"?`},
		{"cycle", "workloads: [cpu.prime]\nenvironments:\n  a: {from: b}\n  b: {from: a}\n",
			`plan.yaml:3:13: environment a derives from itself through b`},
		{"twice", "workloads: [cpu.prime]\nenvironments: [host, host]\n",
			`plan.yaml:2:22: environment host is given twice`},
		{"baseline", "workloads: [cpu.prime]\nbaseline: hsot\n",
			`plan.yaml:2:11: baseline: there is no target "hsot" in the plan; did you mean "host"?`},
		{"target", "workloads:\n  - {kind: cpu.prime, targets: [vm]}\n",
			`plan.yaml:2:32: targets: there is no target "vm" in the plan; there are: host`},
		{"label", "workloads:\n  - cpu.prime\n  - cpu.prime\n",
			`plan.yaml:3:5: workload "cpu.prime" is given twice (the first is in line 2); give one of them another label`},
		{"bad label", "workloads:\n  - {kind: cpu.prime, label: \"a\\u001b[31m\"}\n",
			`plan.yaml:2:30: a label has printable characters only`},
		{"attain", "workloads: [cpu.prime]\nenvironments: [host, qemu]\nblocks: 4\n",
			`plan.yaml:3:9: 4 blocks cannot reach a verdict: 6 are needed for 1 cell at level 0.05 per look (2^-n <= 0.05 / (2 x 1)); allow 6 blocks`},
		{"future", "schema: 2\nworkloads: [cpu.prime]\n",
			`plan.yaml:1:9: this plan has schema 2, but this tare reads only up to 1`},
		{"empty", "# nothing\n", `plan.yaml:1:1: the plan is empty`},
		{"no workloads", "name: x\n", `plan.yaml:1:1: workloads is missing`},
		{"scalar", "hello\n", `plan.yaml:1:1: a plan is a mapping`},
		{"syntax", "workloads: [cpu.prime\nname: \"x\n", `plan.yaml:`},
		{"duplicate key", "name: a\nname: b\nworkloads: [cpu.prime]\n", `plan.yaml:2:1: `},
		{"tab", "workloads:\n\t- cpu.prime\n", `plan.yaml:2:1: this line is indented with a tab`},
		{"control", "name: a\x1b[31m\nworkloads: [cpu.prime]\n", `plan.yaml:1:8: control character '\x1b'`},
		{"utf8", "name: \xff\n", `plan.yaml:1:7: this is not UTF-8`},
		{"tag", "name: !!str a\nworkloads: [cpu.prime]\n", `plan.yaml:1:7: tag !!str`},
		{"merge", "x: &x {max: 5}\nworkloads:\n  - cpu.prime:\n      <<: *x\n", `plan.yaml:4:7: << is not supported`},
		{"alias", "name: *x\nworkloads: [cpu.prime]\n", `plan.yaml:1:7: `},
		{"two documents", "workloads: [cpu.prime]\n---\nname: b\n", `plan.yaml:`},
		{"deep", "name: " + strings.Repeat("[", 50_000), `plan.yaml:1:31: the plan is nested too deeply`},
		{"deep list", "name:\n  " + strings.Repeat("- ", 50_000), `plan.yaml:2:51: the plan is nested too deeply`},
		{"huge", "# " + strings.Repeat("x", MaxFile),
			`plan.yaml:1:1: the plan has 1048578 bytes; a plan has at most 1048576`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Parse("plan.yaml", []byte(c.src), tables())
			list, ok := errors.AsType[Errors](err)
			if !ok || p != nil {
				t.Fatalf("Parse gave %+v and %T %v, want Errors", p, err, err)
			}
			if !strings.HasPrefix(list[0].Error(), c.want) {
				t.Errorf("first mistake:\n got %s\nwant %s", list[0], c.want)
			}
		})
	}
}

func TestManyMistakes(t *testing.T) {
	src := "mode: quik\nenvironments:\n  vm: qmeu\nworkloads:\n"
	for i := range 20 {
		src += fmt.Sprintf("  - cpu.prime: { threads: %d, mxa: 3 }\n", 100+i)
	}
	_, err := Parse("p.yaml", []byte(src), tables())
	list, ok := errors.AsType[Errors](err)
	if !ok || len(list) != MaxErrors {
		t.Fatalf("%d mistakes of type %T, want %d", len(list), err, MaxErrors)
	}
	if list[0].Line != 1 || list[1].Line != 3 || list[2].Line != 5 || list[3].Line != 5 {
		t.Errorf("not in the order of the file:\n%v", err)
	}
	if !strings.Contains(list[9].Message, "and 32 more") {
		t.Errorf("the last one does not count the rest: %s", list[9])
	}
}

// TestAliasBomb holds that a small file cannot unfold into a large plan.
func TestAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	b.WriteString("workloads: *a8\n")
	start := time.Now()
	_, err := Parse("p.yaml", []byte(b.String()), tables())
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestAlias(t *testing.T) {
	p := mustParse(t, "environments: [host]\nname: &n cpu.prime\nworkloads: [*n]\n")
	if p.Workloads[0].Kind != "cpu.prime" {
		t.Errorf("%+v", p.Workloads)
	}
}

// TestBoundedTime feeds the reader files within its size limit that are made to be slow.
func TestBoundedTime(t *testing.T) {
	for name, src := range map[string]string{
		"keys":    strings.Repeat("a: b\n", MaxFile/5),
		"entries": "workloads:\n" + strings.Repeat("- a\n", MaxFile/4-10),
		"text":    "name: \"" + strings.Repeat("\\n", MaxFile/2-10) + "\"",
		"indent":  "a:" + strings.Repeat(" ", MaxFile-10) + "b",
		"lines":   strings.Repeat("\n", MaxFile),
		"flow":    "a: [" + strings.Repeat("[],", MaxFile/3-10),
		"colons":  strings.Repeat(": ", MaxFile/2-1),
		"quests":  strings.Repeat("? ", MaxFile/2-1),
		"anchors": strings.Repeat("&a ", MaxFile/3-1),
		"nested":  nestedMaps(MaxFile),
	} {
		start := time.Now()
		if _, err := Parse("p.yaml", []byte(src), tables()); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

func nestedMaps(size int) string {
	var b strings.Builder
	for i := 0; b.Len()+i+4 < size; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// TestSeveralSessions: a full run is left to find out how often it opens the environments, unless somebody said so, and
// there is a way to write down what it found.
func TestSeveralSessions(t *testing.T) {
	const two = "environments: [host, box=namespace]\nworkloads: [cpu.prime]\n"
	for _, c := range []struct {
		src            string
		most, sessions int
		blocks         int // in each of the most sessions
	}{
		{"mode: full\n" + two, 6, 1, 10},
		{two, 0, 1, 0},
		{"mode: full\nsessions: 1\n" + two, 0, 1, 0},
		{"mode: full\nsessions: 3\n" + two, 0, 3, 0},
		{"mode: full\nmost_sessions: 1\n" + two, 0, 1, 0},
		{"mode: full\nmost_sessions: 9\n" + two, 9, 1, 6},
		{"mode: full\nblocks: 24\n" + two, 0, 1, 0},
		{"mode: full\nblocks: 26\n" + two, 5, 1, 5},
		{"mode: full\nblocks: 90\n" + two, 6, 1, 15},
		{"mostly", 6, 1, 5},
	} {
		src := strings.Replace(c.src, "mostly", "most_sessions: 6\n"+two, 1)
		p := mustParse(t, src)
		if p.MostSessions != c.most || p.Sessions != c.sessions || p.LeftOpen() != (c.most > 0) {
			t.Errorf("%d or at most %d sessions, want %d or %d:\n%s", p.Sessions, p.MostSessions, c.sessions, c.most,
				src)
			continue
		}
		if c.most == 0 {
			continue
		}
		if p.MaxBlocks() != p.Looks[len(p.Looks)-1] || p.BlocksIn(c.most) != c.blocks {
			t.Errorf("%d blocks in one session, %d in each of %d, want %d:\n%s", p.MaxBlocks(), p.BlocksIn(c.most),
				c.most, c.blocks, src)
		}
		// What the run finds stays what it was asked for, and is read again from its bundle and as a plan.
		found := clone(p)
		found.Sessions = c.most
		if Identity(&found) != Identity(p) {
			t.Errorf("the identity changes:\n%s", src)
		}
		back, err := Unmarshal("plan.yaml", Marshal(&found))
		if err != nil || back.LeftOpen() || back.Sessions != c.most || back.MaxBlocks() != c.blocks {
			t.Errorf("%v %+v", err, back)
		}
		again := mustParse(t, string(Marshal(&found)))
		if again.Sessions != c.most || again.MaxBlocks() != c.blocks {
			t.Errorf("as a plan: %+v", again)
		}
		if quick, err := FromFlags(&found, Flags{Mode: Quick}, tables()); c.most == 6 && found.Mode == Full &&
			(err != nil || quick.Sessions != 1 || quick.MostSessions != 0) {
			t.Errorf("laid over by --quick: %v %+v", err, quick)
		}
		if once, err := FromFlags(p, Flags{Sessions: 1}, tables()); err != nil || once.LeftOpen() {
			t.Errorf("laid over by --sessions 1: %v %+v", err, once)
		}
	}
	for src, want := range map[string]string{
		"sessions: 3\nmost_sessions: 6\n": "plan.yaml:2:16: sessions already says how often environments are " +
			"opened (3)",
		"most_sessions: 7\n": "plan.yaml:1:16: 7 sessions would share 30 blocks: each needs 5; " +
			"allow 35 blocks",
		"most_sessions: 0\n": "plan.yaml:1:16: expected a whole number from 1 to 100",
	} {
		if _, err := Parse("plan.yaml", []byte(src+two), tables()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", src, err, want)
		}
	}
	if _, err := FromFlags(nil, Flags{Workloads: []string{"cpu.prime"}, Sessions: 101}, tables()); err == nil ||
		!strings.Contains(err.Error(), "--sessions") {
		t.Errorf("--sessions 101: %v", err)
	}
}
