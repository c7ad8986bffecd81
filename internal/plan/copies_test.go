package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

const dense = `
seed: 7
environments: {host: local, box: namespace}
copies: {max: 6, floor: 80%, targets: [box]}
workloads: [cpu.prime, {kind: fs.randread, targets: [host]}]
`

func TestCopies(t *testing.T) {
	p := mustParse(t, dense)
	if got, want := named(p), "host box/host box@2/box box@4/box box@6/box"; got != want {
		t.Errorf("targets %s\nwant    %s", got, want)
	}
	if got, want := on(p, "cpu.prime"), "host box box@2 box@4 box@6"; got != want {
		t.Errorf("cpu.prime in %s\nwant %s", got, want)
	}
	if got := on(p, "fs.randread"); got != "host" {
		t.Errorf("fs.randread in %s", got)
	}
	e, _ := p.Target("box@4")
	if e.Place() != "box" || e.Opens() || e.IsMount() || e.Copies != 4 || e.Text != "namespace" {
		t.Errorf("%+v", e)
	}
	if p.Copies.Floor != 0.8 {
		t.Errorf("floor %g", p.Copies.Floor)
	}
	p = mustParse(t, strings.Replace(dense, "{max: 6, floor: 80%, targets: [box]}", "2", 1))
	if got, want := named(p), "host host@2/host box/host box@2/box"; got != want || p.Copies.Floor != DefaultFloor {
		t.Errorf("targets %s\nwant    %s", got, want)
	}
}

// A bundle's plan has the copies and not the targets that follow from them; it is the same plan again.
func TestCopiesRoundTrip(t *testing.T) {
	p := mustParse(t, dense)
	p.Workloads[0].Work = map[string]int64{"host": 10, "box": 10, "box@2": 10}
	text := Marshal(p)
	if strings.Contains(string(text), "box@4\":") {
		t.Errorf("the file has a target of copies:\n%s", text)
	}
	again, err := Unmarshal("plan.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if named(again) != named(p) || !reflect.DeepEqual(again.Copies, p.Copies) ||
		!reflect.DeepEqual(again.Workloads, p.Workloads) || Identity(again) != Identity(p) {
		t.Errorf("%+v\n%+v", again, p)
	}
	if over, err := FromFlags(again, Flags{Environments: []string{"box"}}, tables()); err != nil ||
		named(over) != "box box@2/box box@4/box box@6/box" {
		t.Errorf("selected: %v, %v", over, err)
	}
	alone := p.Without(map[string]bool{"box": true}, nil)
	if alone.Copies != nil || named(alone) != "host" {
		t.Errorf("without the box: %s, %+v", named(alone), alone.Copies)
	}
}

func TestCopiesOfFlags(t *testing.T) {
	for _, x := range []struct {
		text  string
		steps []int
	}{{"2", []int{2}}, {"8", []int{2, 4, 8}}, {"1,3", []int{3}}, {"2,3,6", []int{2, 3, 6}}} {
		p, err := FromFlags(nil, Flags{Environments: []string{"host", "box=namespace"},
			Workloads: []string{"cpu.prime"},
			Copies:    x.text, Floor: "70%", Seed: 7}, tables())
		if err != nil {
			t.Fatalf("%s: %v", x.text, err)
		}
		if !slices.Equal(p.Copies.Steps, x.steps) || p.Copies.Floor != 0.7 || len(p.Copies.Targets) != 2 {
			t.Errorf("%s gives %+v", x.text, p.Copies)
		}
		args, ok := Arguments(p, tables())
		if i := slices.Index(args, "--copies"); !ok || i < 0 || args[i+1] != x.text || !slices.Contains(args, "0.7") {
			t.Errorf("%s: arguments %q, %v", x.text, args, ok)
		}
	}
}

func TestCopiesThatCannotBe(t *testing.T) {
	for _, x := range []struct{ copies, want string }{
		{"1", "expected a whole number from 2 to 256"},
		{"[2, 4]", "expected a number such as 8, or { max: 8, floor: 50% }, found a list"},
		{"{steps: [4, 2]}", "the numbers of copies must ascend: 2 comes after 4"},
		{"{steps: [1]}", "one copy is measured in any case"},
		{"{most: 3}", `copies: there is no key "most"`},
		{"{max: 4, floor: 2}", "expected a share"},
		{"{max: 4, targets: [bix]}", `copies: there is no environment "bix" in the plan; did you mean`},
	} {
		text := "environments: {host: local, box: namespace}\ncopies: " + x.copies + "\nworkloads: [cpu.prime]\n"
		if _, err := Parse("plan.yaml", []byte(text), tables()); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v\nwant %s", x.copies, err, x.want)
		}
	}
	both := "environments: {host: local, box: namespace, other: local}\ncopies: 2\n" +
		"beside: {hog: {in: other, workload: cpu.prime}}\nworkloads: [cpu.prime]\n"
	if _, err := Parse("plan.yaml", []byte(both), tables()); err == nil ||
		!strings.Contains(err.Error(), "copies or neighbours") {
		t.Errorf("both: %v", err)
	}
	if _, err := FromFlags(nil, Flags{Workloads: []string{"cpu.prime"}, Floor: "0.5"}, tables()); err == nil ||
		!strings.Contains(err.Error(), "works only with --copies") {
		t.Errorf("a floor of nothing: %v", err)
	}
	for _, text := range []string{"1", "0", "x", "2,2", "4,2", "300", "2,,4"} {
		if _, err := FromFlags(nil, Flags{Workloads: []string{"cpu.prime"}, Copies: text}, tables()); err == nil ||
			!strings.Contains(err.Error(), "--copies "+text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
