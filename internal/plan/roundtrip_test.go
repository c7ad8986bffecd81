package plan

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
)

func TestRoundTrip(t *testing.T) {
	p := mustParse(t, full)
	p.Workloads[0].Work = map[string]int64{"host": 123456789012, "vm": 1}
	p.Workloads[1].Params["max"] = "~"
	for _, text := range []string{"010", "1e3", "yes", "null", "~", "", " lead", "trail ", "a: b", "# c", "'q' \"d\"",
		"back\\slash", "tab\tnl\ncr\r", "\x00\x1b[31m\x7f", "é 日本 \U0001f4a9 \u2028", "{a}", "&a *b", "%25", "-"} {
		p.Name, p.Question, p.Workloads[4].Params["command"] = text, text, text
		got, err := Unmarshal("plan.yaml", Marshal(p))
		if err != nil {
			t.Fatalf("%q: %v\n%s", text, err, Marshal(p))
		}
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("%q:\n got %+v\nwant %+v\n%s", text, got, p, Marshal(p))
		}
	}
}

// TestResolvedIsAPlan holds that the file in a bundle can be run again: Parse reads it to the same plan.
func TestResolvedIsAPlan(t *testing.T) {
	p := mustParse(t, full)
	got, err := Parse("plan.yaml", Marshal(p), tables())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, p) {
		t.Errorf("\n got %+v\nwant %+v", got, p)
	}
}

// TestUnmarshalKnowsNoTables holds that a bundle with kinds and drivers this build does not have can be read.
func TestUnmarshalKnowsNoTables(t *testing.T) {
	p := mustParse(t, full)
	p.Workloads[0].Kind, p.Workloads[0].Label = "quantum.fold", "quantum.fold"
	p.Targets[0].Spec = env.Spec{Name: "host", Driver: "hal9000", Arg: "a?b%c"}
	p.Targets[0].Text = p.Targets[0].Spec.String()
	got, err := Unmarshal("plan.yaml", Marshal(p))
	if err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, p)
	}
}

func TestUnmarshalIncomplete(t *testing.T) {
	whole := string(Marshal(mustParse(t, full)))
	for _, key := range []string{"seed", "looks", "look_alpha", "margin", "environments", "baseline"} {
		var kept []string
		skip := false
		for _, line := range strings.Split(whole, "\n") {
			if !strings.HasPrefix(line, " ") {
				skip = strings.HasPrefix(line, key+":")
			}
			if !skip {
				kept = append(kept, line)
			}
		}
		_, err := Unmarshal("plan.yaml", []byte(strings.Join(kept, "\n")))
		if _, ok := errors.AsType[Errors](err); !ok ||
			!strings.Contains(err.Error(), key) && !strings.Contains(err.Error(), "environment") {
			t.Errorf("without %s: %v", key, err)
		}
	}
}

func TestUnmarshalHandEdited(t *testing.T) {
	src := `# edited by a person
schema: 1
baseline: host
seed: 5
mode: full
trial: 2s
sessions: 2
looks:
  - 10
  - 20
alpha: 5%
look_alpha: 0.03
margin: 2%
tail_margin: 5%
precision: 1%
environments:
  host: local
  vm: {driver: qemu, cpus: 2}
workloads:
  - {label: primes, kind: cpu.prime, max: 20000}
`
	p, err := Unmarshal("plan.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	want := &Plan{Schema: 1, Baseline: "host", Seed: 5, Mode: Full, Trial: 2 * time.Second, Sessions: 2,
		Looks: []int{10, 20},
		Alpha: 0.05, LookAlpha: 0.03, Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Targets: []Target{{Name: "host", Spec: env.Spec{Name: "host", Driver: "local"}, Text: "local"},
			{Name: "vm", Spec: env.Spec{Name: "vm", Driver: "qemu", Settings: map[string]string{"cpus": "2"}},
				Text: "qemu?cpus=2"}},
		Workloads: []Workload{{Label: "primes", Kind: "cpu.prime", Params: workload.Params{"max": "20000"}}}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("\n got %+v\nwant %+v", p, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(noisy))
	f.Add(Marshal(&Plan{Schema: 1, Looks: []int{10}, Workloads: []Workload{{Label: "x", Kind: "y"}}}))
	f.Add(Example(tables(), []string{"host", "vm=qemu"}))
	f.Add([]byte("a: &a [*a]\nworkloads: *a\n"))
	f.Add([]byte(jobs + work))
	f.Add([]byte("workloads:\n  - ? [a]\n    : b\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Parse("p", src, tables())
		if err != nil {
			if list, ok := errors.AsType[Errors](err); !ok || len(list) == 0 || len(list) > MaxErrors {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		again, err := Unmarshal("p", Marshal(p))
		if err != nil {
			t.Fatalf("%v\n%s", err, Marshal(p))
		}
		if !reflect.DeepEqual(p, again) {
			t.Fatalf("\n got %+v\nwant %+v\n%s", again, p, Marshal(p))
		}
	})
}

func FuzzUnmarshal(f *testing.F) {
	p, err := Parse("p", []byte(full), tables())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(Marshal(p))
	if p, err = Parse("p", []byte(noisy), tables()); err != nil {
		f.Fatal(err)
	}
	f.Add(Marshal(p))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Unmarshal("p", src)
		if err != nil {
			return
		}
		if p.MaxBlocks() < 1 {
			t.Fatalf("a plan without blocks was accepted:\n%s", src)
		}
		again, err := Unmarshal("p", Marshal(p))
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%v\n got %+v\nwant %+v\n%s", err, again, p, Marshal(p))
		}
	})
}

// TestCardsAreAskedForAgain holds that a repeated run makes the cards that the first one made.
func TestCardsAreAskedForAgain(t *testing.T) {
	p := mustParse(t, "cards: yes\nenvironments: [host, box=namespace]\nworkloads: [cpu.prime]\n")
	again, err := Unmarshal("plan.yaml", Marshal(p))
	if err != nil || !p.Cards || !again.Cards {
		t.Errorf("written with %v, read with %v: %v", p.Cards, again, err)
	}
}

// TestScreenStaysInThePlan: how many candidates go on decides the course of a run, so a bundle has it.
func TestScreenStaysInThePlan(t *testing.T) {
	const src = "screen: 4\nenvironments: {host: local, vm: qemu}\nworkloads: [cpu.prime]\n"
	p := mustParse(t, src)
	again, err := Unmarshal("plan.yaml", Marshal(p))
	if err != nil || p.Screen != 4 || again.Screen != 4 {
		t.Errorf("%d, then %d, %v", p.Screen, again.Screen, err)
	}
	for _, bad := range []string{"screen: 0\n", "screen: -1\n", "screen: 1000\n", "screen: many\n",
		"sessions: 12\nscreen: 4\n"} {
		if _, err := Parse("plan.yaml", []byte(bad+src[len("screen: 4\n"):]), tables()); err == nil ||
			!strings.Contains(err.Error(), "plan.yaml:") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
