package plan_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	envall "tare/internal/lab/driver/all"
	workall "tare/internal/measure/workload/all"
	"tare/internal/plan"
)

var update = flag.Bool("update", false, "write docs/plan.schema.json")

const schemaFile = "../../docs/plan.schema.json"

func realTables() plan.Tables { return plan.Tables{Drivers: envall.Drivers(), Kinds: workall.Kinds()} }

func TestSchemaIsUpToDate(t *testing.T) {
	want := plan.JSONSchema(realTables())
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/plan.schema.json differs from the tables; run: go test ./internal/plan -run Schema -update")
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plan.JSONSchema(realTables())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("plan.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("plan.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, src []byte) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(src, &v); err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// TestSchemaAgreesWithParse gives the same plans to the schema and to Parse.
func TestSchemaAgreesWithParse(t *testing.T) {
	s := compile(t)
	const work = "workloads: [cpu.prime]\n"
	for src, good := range map[string]bool{
		work: true,
		"environments: {host: local, box: namespace, lab: {driver: ssh, arg: me@lab}, host2: {from: host}}\n" +
			work: true,
		"environments: [host, box=namespace]\n" +
			work: true,
		"mode: full\ntrial: 2s\nbudget: 1h30m\nmargin: 2%\nprecision: 0.01\nblocks: 20\n" +
			work: true,
		"workloads:\n  - cpu.prime: {max: 20000}\n  - {kind: cpu.prime, threads: 2, label: x}\n" +
			"  - cpu.prime:max=5000\n": true,
		"slurm: {partition: batch, account: 12, time: 2h, memory: all, sbatch: [--nice=5]}\n" + work: true,
		"slurm: {memory: 8GiB, sbatch: --nice=5}\n" + work:                                           true,
		"slurm: batch\n" + work:                              false,
		"slurm: {partiton: batch}\n" + work:                  false,
		"slurm: {qos: a b}\n" + work:                         false,
		"slurm: {time: 30}\n" + work:                         false,
		"slurm: {sbatch: [[a]]}\n" + work:                    false,
		"workloads: []\n":                                    false,
		"name: x\n":                                          false,
		"blcoks: 20\n" + work:                                false,
		"mode: quik\n" + work:                                false,
		"trial: 3\n" + work:                                  false,
		"margin: 3\n" + work:                                 false,
		"blocks: many\n" + work:                              false,
		"blocks: 1000000\n" + work:                           false,
		"looks: 10\n" + work:                                 false,
		"workloads: [cpu.pirme]\n":                           false,
		"workloads: [{kind: cpu.prime, mxa: 3}]\n":           false,
		"workloads: [{cpu.prime: {max: true}}]\n":            false,
		"workloads: [{label: x}]\n":                          false,
		"environments: {'-x': local}\n" + work:               false,
		"environments: {a: {driver: qmeu}}\n" + work:         false,
		"environments: {a: {driver: local, xx: 1}}\n" + work: false,
		"environments: {a: [1]}\n" + work:                    false,
	} {
		err := validate(t, s, []byte(src))
		if (err == nil) != good {
			t.Errorf("schema: valid is %v, want %v: %v\n%s", err == nil, good, err, src)
		}
		if _, err := plan.Parse("p", []byte(src), realTables()); (err == nil) != good {
			t.Errorf("Parse: valid is %v, want %v: %v\n%s", err == nil, good, err, src)
		}
	}
}

func TestExample(t *testing.T) {
	s := compile(t)
	for _, available := range [][]string{nil, {"host"}, {"host", "box=namespace", "vm=nosuchdriver", "host"}} {
		src := plan.Example(realTables(), available)
		p, err := plan.Parse("plan.yaml", src, realTables())
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		if len(p.Workloads) < 3 {
			t.Errorf("the example has %d workloads\n%s", len(p.Workloads), src)
		}
		if err := validate(t, s, src); err != nil {
			t.Errorf("%v\n%s", err, src)
		}
		for i, line := range strings.Split(string(src), "\n") {
			if len(line) > 120 {
				t.Errorf("line %d has %d bytes: %s", i+1, len(line), line)
			}
		}
		if err := validate(t, s, plan.Marshal(p)); err != nil {
			t.Errorf("the resolved plan: %v\n%s", err, plan.Marshal(p))
		}
	}
}

// TestNoReservedParameter holds that every parameter can be given beside kind and label.
func TestNoReservedParameter(t *testing.T) {
	reserved := map[string]bool{"kind": true, "label": true, "targets": true, "trial": true, "work": true,
		"params": true}
	for _, k := range workall.Kinds() {
		for _, p := range k.Params {
			if reserved[p.Name] {
				t.Errorf("%s: parameter %s cannot be written beside kind; rename it", k.Name, p.Name)
			}
		}
	}
	for _, d := range envall.Drivers().All() {
		for _, s := range d.Settings {
			if s.Name == "driver" || s.Name == "arg" || s.Name == "from" || s.Name == "spec" {
				t.Errorf("%s: setting %s cannot be written in a plan; rename it", d.Name, s.Name)
			}
		}
	}
}
