package env

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestParseSpec(t *testing.T) {
	type m = map[string]string
	for text, want := range map[string]Spec{
		"host":                 {Name: "host", Driver: "local"},
		"a=host":               {Name: "a", Driver: "local"},
		"qemu":                 {Name: "qemu", Driver: "qemu"},
		"host?dir=/var/tmp":    {Name: "host", Driver: "local", Settings: m{"dir": "/var/tmp"}},
		"box=docker:debian:12": {Name: "box", Driver: "docker", Arg: "debian:12"},
		"docker:r.example/a=b@sha256:00?cpus=2": {Name: "docker", Driver: "docker", Arg: "r.example/a=b@sha256:00",
			Settings: m{"cpus": "2"}},
		"vm=qemu?accel=tcg&cpus=2&nic=e1000": {Name: "vm", Driver: "qemu",
			Settings: m{"accel": "tcg", "cpus": "2", "nic": "e1000"}},
		"vm=qemu?cpu=max,+avx2":            {Name: "vm", Driver: "qemu", Settings: m{"cpu": "max,+avx2"}},
		"c=command?argv=ssh -p 22 h%26k ?": {Name: "c", Driver: "command", Settings: m{"argv": "ssh -p 22 h&k ?"}},
		"c=ssh:me@[::1]:22%3f":             {Name: "c", Driver: "ssh", Arg: "me@[::1]:22?"},
		"c=docker:?x=":                     {Name: "c", Driver: "docker", Settings: m{"x": ""}},
	} {
		got, err := ParseSpec(text)
		if err != nil || !same(got, want) {
			t.Errorf("ParseSpec(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for text, hint := range map[string]string{
		"":                             "has no driver",
		"x=":                           "has no driver",
		"=qemu":                        "is not a name",
		"x y=qemu":                     "is not a name",
		strings.Repeat("n", 41) + "=q": "is not a name",
		"x=do cker":                    "driver",
		"x=qemu?cpus":                  "is not key=value",
		"x=qemu?=2":                    "is not key=value",
		"x=qemu?a=1&&b=2":              "is not key=value",
		"x=qemu?a=1&a=2":               "a is given twice",
		"x=qemu?a=%zz":                 "bad %XX escape",
		"x=ssh:%":                      "bad %XX escape",
		"x=ssh:a%00b":                  "control character",
		"x=ssh:a%1b[2J":                "control character",
		"x=ssh:a%ff":                   "not UTF-8",
	} {
		if got, err := ParseSpec(text); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("ParseSpec(%q) = %+v, %v; want an error with %q", text, got, err, hint)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add("vm=qemu?accel=tcg&cpus=2&nic=e1000")
	f.Add("c=ssh:me@[::1]:22%3f?options=a%3db%26c&dir=/x+y z")
	f.Add("host?d=%E2%82%AC%25")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			return
		}
		again, err := ParseSpec(s.Name + "=" + s.String())
		if err != nil || !same(s, again) {
			t.Fatalf("%q is %+v; its text %q is %+v, %v", text, s, s.String(), again, err)
		}
		if again.String() != s.String() {
			t.Fatalf("%q is not canonical: %q", s.String(), again.String())
		}
	})
}

func same(a, b Spec) bool {
	return a.Name == b.Name && a.Driver == b.Driver && a.Arg == b.Arg && maps.Equal(a.Settings, b.Settings)
}

// nowhere is a driver for tests of the registry, which never open it.
type nowhere struct{}

func (nowhere) Open(context.Context, Options) (Env, error) { return nil, errors.New("nowhere to go") }

func testRegistry() *Registry {
	return NewRegistry(
		Info{Name: "qemu", Driver: nowhere{}, Settings: []Setting{
			{Name: "accel"}, {Name: "cpus", Check: func(v string) error {
				if v != "2" {
					return errors.New("must be 2")
				}
				return nil
			}}}},
		Info{Name: "docker", Driver: nowhere{}, ArgDoc: "IMAGE", ArgNeeds: true},
	)
}

func TestRegistryCheck(t *testing.T) {
	r := testRegistry()
	for text, want := range map[string]string{
		"vm=qemu?accel=kvm&cpus=2": "",
		"b=docker:x":               "",
		"hots":                     `environment hots: there is no driver "hots"; did you mean "host"?`,
		"vm=zzzzzz":                `environment vm: there is no driver "zzzzzz"; there are: host, qemu, docker`,
		"vm=qmu":                   `environment vm: there is no driver "qmu"; did you mean "qemu"?`,
		"vm=qemu:arg":              `environment vm: driver qemu takes no argument, got "arg"`,
		"vm=qemu?acel=kvm":         `environment vm: driver qemu has no setting "acel"; did you mean "accel"?`,
		"vm=qemu?cpus=3":           `environment vm: setting cpus: must be 2`,
		"b=docker":                 `environment b: driver docker needs an argument: docker:IMAGE`,
	} {
		s, err := ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := r.Check(s); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Check(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestRegistryPanicsOnDuplicate(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a duplicate driver must panic")
		}
	}()
	NewRegistry(Info{Name: "a", Driver: nowhere{}}, Info{Name: "a", Driver: nowhere{}})
}
