package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/env"
)

// named lists the targets of a plan with what each is compared with.
func named(p *Plan) string {
	var all []string
	for i := range p.Targets {
		e := &p.Targets[i]
		text := e.Name
		if a := p.Against(e.Name); e.Name != p.Baseline {
			text += "/" + a
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func on(p *Plan, label string) string {
	w, ok := p.Workload(label)
	if !ok {
		return "no " + label
	}
	var all []string
	for i := range p.Targets {
		if w.On(p.Targets[i].Name) {
			all = append(all, p.Targets[i].Name)
		}
	}
	return strings.Join(all, " ")
}

const noisy = `
baseline: host
seed: 7
environments: {host: local, box: namespace, vm: qemu, box-2: namespace, vm-2: {from: vm, cpus: 1}}
beside:
  hog: {in: {box: box-2, vm: vm-2}, workload: {kind: cpu.prime, threads: 8}}
  reads: {in: box-2, workload: "fs.randread:size=64MiB", targets: [host, vm]}
workloads:
  - cpu.prime
  - {kind: fs.randread, targets: [vm]}
`

func TestNeighbours(t *testing.T) {
	p := mustParse(t, noisy)
	if got, want := named(p), "host host+reads/host box/host box+hog/box vm/host vm+hog/vm vm+reads/vm box-2/host "+
		"vm-2/host"; got != want {
		t.Errorf("targets %s\nwant    %s", got, want)
	}
	if got, want := on(p, "cpu.prime"), "host host+reads box box+hog vm vm+hog vm+reads"; got != want {
		t.Errorf("cpu.prime in %s\nwant %s", got, want)
	}
	if got, want := on(p, "fs.randread"), "host host+reads vm vm+hog vm+reads"; got != want {
		t.Errorf("fs.randread in %s\nwant %s", got, want)
	}
	if p.Measured("box-2") || p.Measured("vm-2") || !p.Measured("vm+hog") {
		t.Error("what is there for neighbours is measured, or what is disturbed is not")
	}
	e, _ := p.Target("vm+hog")
	if e.Place() != "vm" || e.Opens() || e.IsMount() || e.Text != "qemu" {
		t.Errorf("%+v", e)
	}
	n, ok := p.Neighbour("hog")
	if !ok || n.Label != "cpu.prime threads=8" || n.Params["max"] != "10000" || n.In["vm"] != "vm-2" {
		t.Errorf("%+v", n)
	}
	if n, _ := p.Neighbour("reads"); !reflect.DeepEqual(n.In, map[string]string{"host": "box-2", "vm": "box-2"}) {
		t.Errorf("%+v", n)
	}
}

// A bundle's plan has the neighbours and not the targets that follow from them; it is the same plan again.
func TestNeighboursRoundTrip(t *testing.T) {
	p := mustParse(t, noisy)
	p.Workloads[0].Work = map[string]int64{"host": 5, "box+hog": 4}
	if strings.Contains(string(Marshal(p)), "\"box+hog\":\n") {
		t.Errorf("the file has a target with a neighbour:\n%s", Marshal(p))
	}
	got, err := Unmarshal("plan.yaml", Marshal(p))
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v\n got %+v\nwant %+v\n%s", err, got, p, Marshal(p))
	}
	again, err := Parse("plan.yaml", Marshal(p), tables())
	if err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("%v\n got %+v\nwant %+v", err, again, p)
	}
	over, err := FromFlags(p, Flags{}, tables())
	if err != nil || !reflect.DeepEqual(over, p) {
		t.Errorf("%v\n got %+v\nwant %+v", err, over, p)
	}
}

func TestNeighboursOfFlags(t *testing.T) {
	p, err := FromFlags(nil, Flags{
		Environments: []string{"host", "box=namespace", "other=local"},
		Beside:       []string{"other:cpu.prime:threads=2", "storm=other:fs.randread:size=64MiB,bs=4KiB"},
		Workloads:    []string{"cpu.prime", "fs.randread:size=4MiB"}, Seed: 7,
	}, tables())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := named(p), "host host+cpu.prime/host host+storm/host box/host box+cpu.prime/box box+storm/box "+
		"other/host"; got != want {
		t.Errorf("targets %s\nwant    %s", got, want)
	}
	if p.Measured("other") || !p.Measured("box+storm") {
		t.Errorf("cpu.prime in %s", on(p, "cpu.prime"))
	}
	args, ok := Arguments(p, tables())
	want := "-e host -e box=namespace -e other=local --beside cpu.prime=other:cpu.prime:threads=2 " +
		"--beside storm=other:fs.randread:size=64MiB -w cpu.prime -w fs.randread:size=4MiB --seed 7"
	if got := strings.Join(args, " "); !ok || got != want {
		t.Errorf("%v\n%s\nwant\n%s", ok, got, want)
	}
	if args, ok := Arguments(mustParse(t, noisy), tables()); ok {
		t.Errorf("flags have no words for one neighbour in several places: %q", args)
	}
	// The baseline stays what it is where a neighbour runs in it; it disturbs the others.
	p, err = FromFlags(nil, Flags{Environments: []string{"host", "box=namespace"},
		Beside: []string{"hog=host:cpu.prime"}, Workloads: []string{"cpu.prime"}}, tables())
	if err != nil || named(p) != "host box/host box+hog/box" || !p.Measured("host") {
		t.Errorf("%v %s", err, named(p))
	}
}

// What is selected brings the places of its neighbours, and what is left out takes them with it.
func TestNeighboursOfASelection(t *testing.T) {
	p, err := ParseWithFlags("plan.yaml", []byte(noisy), Flags{Environments: []string{"box"}}, tables())
	if err != nil || named(p) != "box box+hog/box box-2/box" || on(p, "cpu.prime") != "box box+hog" {
		t.Errorf("%v %s: %s", err, named(p), on(p, "cpu.prime"))
	}
	whole := mustParse(t, noisy)
	p, err = FromFlags(whole, Flags{Environments: []string{"vm", "host"}}, tables())
	if err != nil || named(p) != "vm/host vm+hog/vm vm+reads/vm host host+reads/host box-2/host vm-2/host" {
		t.Errorf("%v %s", err, named(p))
	}
	here := tables()
	here.Available = func(s env.Spec, _ *env.Spec) (bool, string) { return s.Driver != "qemu", "no" }
	p, err = Parse("plan.yaml", []byte(noisy+"missing: skip\n"), here)
	if err != nil || named(p) != "host host+reads/host box/host box+hog/box box-2/host" {
		t.Errorf("%v %s", err, named(p))
	}
	p = whole.Without(map[string]bool{"vm-2": true}, nil)
	if got := named(p); got != "host host+reads/host box/host box+hog/box vm/host vm+reads/vm box-2/host" {
		t.Error(got)
	}
	if n, _ := p.Neighbour("hog"); !reflect.DeepEqual(n.In, map[string]string{"box": "box-2"}) ||
		slices.Contains(p.Workloads[1].Targets, "vm+hog") {
		t.Errorf("%+v in %v", n, p.Workloads[1].Targets)
	}
	if n, _ := whole.Neighbour("hog"); len(n.In) != 2 {
		t.Error("the plan itself changed")
	}
}

func TestNeighboursThatCannotBe(t *testing.T) {
	for _, c := range []struct{ beside, want string }{
		{"[hog]", "expected a mapping of names to neighbours"},
		{"{hog: cpu.prime}", "neighbour hog: expected { in: ENVIRONMENT, workload: KIND }, found a value"},
		{"{hog: {in: box-2}}", "write what it does and where"},
		{"{hog: {workload: cpu.prime}}", "write what it does and where"},
		{"{hog: {in: {}, workload: cpu.prime}}", "in is empty"},
		{"{hog: {in: bx-2, workload: cpu.prime}}", `there is no environment "bx-2" in the plan; did you mean "box-2"?`},
		{"{hog: {in: {bx: box-2}, workload: cpu.prime}}", `there is no environment "bx" in the plan`},
		{"{hog: {in: box-2, targets: [bx], workload: cpu.prime}}", `there is no environment "bx" in the plan`},
		{"{hog: {in: box, targets: [box], workload: cpu.prime}}", "an environment does one thing at a time"},
		{"{hog: {in: {box: box}, workload: cpu.prime}}", "an environment does one thing at a time"},
		{"{hog: {in: box-2, workload: cpu.prim}}", `there is no workload "cpu.prim"; did you mean "cpu.prime"?`},
		{"{hog: {in: box-2, workload: {cpu.prime: {thread: 2}}}}", `cpu.prime has no parameter "thread"`},
		{"{hog: {in: box-2, workload: {cpu.prime: {threads: [1, 2]}}}}", "it does one thing"},
		{"{hog: {in: box-2, workload: {kind: cpu.prime, targets: [box]}}}", "a kind and parameters, and nothing else"},
		{"{hog: {in: box-2, work: cpu.prime}}", `there is no key "work"; did you mean "workload"?`},
		{"{hog: {in: {box: box-2}, targets: [box], workload: cpu.prime}}", "leave targets out"},
		{"{\"a+b\": {in: box-2, workload: cpu.prime}}", "is not a name"},
	} {
		src := "environments: {host: local, box: namespace, box-2: namespace}\nbeside: " + c.beside +
			"\nworkloads: [cpu.prime]\n"
		_, err := Parse("plan.yaml", []byte(src), tables())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "plan.yaml:2:") {
			t.Errorf("%s: %v, want %s", c.beside, err, c.want)
		}
	}
	for _, c := range []struct{ flag, want string }{
		{"cpu.prime", "expected [NAME=]ENVIRONMENT:WORKLOAD"},
		{"other:cpu.prim", `did you mean "cpu.prime"?`},
		{"othr:cpu.prime", `there is no environment "othr" in the plan; did you mean "other"?`},
		{"a b=other:cpu.prime", "is not a name"},
	} {
		_, err := FromFlags(nil, Flags{Environments: []string{"host", "other=local"}, Beside: []string{c.flag},
			Workloads: []string{"cpu.prime"}}, tables())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "--beside ") {
			t.Errorf("%s: %v, want %s", c.flag, err, c.want)
		}
	}
	_, err := FromFlags(nil, Flags{Environments: []string{"host"}, Beside: []string{"host:cpu.prime"},
		Workloads: []string{"cpu.prime"}}, tables())
	if err == nil || !strings.Contains(err.Error(), "disturbs nothing: no other environment than host is measured") {
		t.Error(err)
	}
	_, err = FromFlags(nil, Flags{Environments: []string{"host", "other=local"},
		Beside: []string{"other:cpu.prime", "other:cpu.prime:threads=2"}, Workloads: []string{"cpu.prime"}}, tables())
	if err == nil || !strings.Contains(err.Error(), "is given twice; give one of them a name") {
		t.Error(err)
	}
}
