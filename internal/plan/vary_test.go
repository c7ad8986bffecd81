package plan

import (
	"reflect"
	"strings"
	"testing"

	"tare/internal/measure/workload"
)

const varying2 = `
environments: { old: local, new: local, far: "ssh:lab" }
baseline: old
workloads:
  - kind: command
    command: ./old
    prepare: sync
    vary: { new: { command: ./new }, far: { command: ./far, prepare: "" } }
`

func TestVary(t *testing.T) {
	p := mustParse(t, varying2)
	w := &p.Workloads[0]
	for target, want := range map[string]string{"old": "./old sync", "new": "./new sync", "far": "./far "} {
		if on := w.ParamsOn(target); on["command"]+" "+on["prepare"] != want {
			t.Errorf("%s: %v, want %q", target, on, want)
		}
	}
	if w.Params["command"] != "./old" {
		t.Errorf("the parameters were changed: %v", w.Params)
	}
	got, err := Unmarshal("plan.yaml", Marshal(p))
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v\n got %+v\nwant %+v\n%s", err, got, p, Marshal(p))
	}
	if again := mustParse(t, string(Marshal(p))); !reflect.DeepEqual(again, p) {
		t.Errorf("\n got %+v\nwant %+v", again, p)
	}

	less := p.Without(map[string]bool{"far": true}, nil)
	if len(less.Workloads[0].Vary) != 1 || len(w.Vary) != 2 {
		t.Errorf("without far: %v, and the plan itself has %v", less.Workloads[0].Vary, w.Vary)
	}
	chosen, err := FromFlags(p, Flags{Environments: []string{"old", "far"}}, tables())
	if err != nil || len(chosen.Workloads[0].Vary) != 1 || len(w.Vary) != 2 {
		t.Errorf("%v: %+v", err, chosen)
	}

	other := *w
	other.Vary = map[string]workload.Params{"new": {"command": "./newer"}}
	if !SameWork(w, &p.Workloads[0]) || SameWork(w, &other) {
		t.Error("works are not told apart by what varies")
	}
}

func TestVaryMistakes(t *testing.T) {
	for vary, want := range map[string]string{
		"{ neu: { command: x } }":      `vary: there is no target "neu" in the plan; did you mean "new"`,
		"{ new: { metric: x } }":       "metric is the same in every target; these may vary: command, ",
		"{ new: ./new }":               "expected parameters such as { command: ./new }",
		"[new]":                        "expected a mapping of targets to parameters",
		`{ new: { command: "" } }`:     "command is required",
		"{ new: { command: [a, b] } }": "expected a value for command",
	} {
		src := strings.Replace(varying2, "{ new: { command: ./new }, far: { command: ./far, prepare: \"\" } }", vary, 1)
		if _, err := Parse("p.yaml", []byte(src), tables()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", vary, err, want)
		}
	}
	src := strings.NewReplacer("kind: command", "kind: cpu.prime", "command: ./old\n", "max: 7\n",
		"    prepare: sync\n", "").Replace(varying2)
	if _, err := Parse("p.yaml", []byte(src), tables()); err == nil ||
		!strings.Contains(err.Error(), "only those of command may vary") {
		t.Errorf("cpu.prime varies: %v", err)
	}
}
