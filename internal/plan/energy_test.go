package plan

import (
	"reflect"
	"strings"
	"testing"
)

func TestEnergy(t *testing.T) {
	const rest = "\nenvironments: [host]\nworkloads: [cpu.prime]\n"
	for text, want := range map[string]*Energy{
		"name: a": nil, "energy: auto": {From: "auto"}, "energy: rapl": {From: "rapl"},
		"energy: battery": {From: "battery"},
		`energy: { meter: [my-meter, "--at", "a b", ""] }`: {From: "meter", Meter: []string{"my-meter", "--at", "a b", ""}},
	} {
		p, err := Parse("p.yaml", []byte(text+rest), tables())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, err := Unmarshal("again", Marshal(p))
		if err != nil || !reflect.DeepEqual(p.Energy, want) || !reflect.DeepEqual(again.Energy, want) {
			t.Errorf("%s: %+v and %+v, want %+v, %v", text, p.Energy, again.Energy, want, err)
		}
		if want == nil {
			continue
		}
		flagged, err := FromFlags(nil, Flags{Environments: []string{"host"}, Workloads: []string{"cpu.prime"},
			Energy: want.String()}, tables())
		if err != nil || !reflect.DeepEqual(flagged.Energy, want) {
			t.Errorf("--energy %s: %+v, %v", want, flagged, err)
		}
	}
	for text, says := range map[string]string{
		"energy: sun": `found "sun"`, "energy: [rapl]": "found a list", "energy: {}": "is missing",
		"energy: { meter: cat }": "expected a list of words", "energy: { meter: [] }": "is missing",
		`energy: { meter: [""] }`: "is missing", "energy: { command: [a] }": `no key "command"`,
		"energy: { meter: [" + strings.Repeat("a, ", 65) + "b] }": "at most 64",
		"energy: { meter: [[a]] }":                                "expected text",
	} {
		if _, err := Parse("p.yaml", []byte(text+rest), tables()); err == nil ||
			!strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "p.yaml:1") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	for text, says := range map[string]string{"sun": "meter:COMMAND", "meter:": "is missing", "meter:'a": "quote",
		"raple": "rapl"} {
		_, err := FromFlags(nil, Flags{Environments: []string{"host"}, Workloads: []string{"cpu.prime"}, Energy: text},
			tables())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("--energy %s: %v, want %q", text, err, says)
		}
	}
	// What a page shows must not hold the command of a meter, which may open it.
	p, err := FromFlags(nil, Flags{Environments: []string{"host"}, Workloads: []string{"cpu.prime"},
		Energy: "meter:read-plug --password secret"}, tables())
	if err != nil {
		t.Fatal(err)
	}
	if args, ok := Arguments(p, tables()); ok {
		t.Errorf("the command line of a plan with a meter is %q", args)
	}
}
