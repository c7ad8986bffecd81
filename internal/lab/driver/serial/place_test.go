package serial

import (
	"strings"
	"testing"

	"tare/internal/lab/env"
)

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		arg       string
		remote    bool
		kind, bad string
	}{
		{arg: "/run/vm.sock"},
		{arg: "tcp:127.0.0.1:4000", kind: kindTCP},
		{arg: "tcp:[::1]:4000", kind: kindTCP},
		{arg: "tcp:localhost:4000", kind: kindTCP},
		{arg: "tcp:10.0.0.1:4000", bad: "remote=yes"},
		{arg: "tcp:vm.example:4000", bad: "remote=yes"},
		{arg: "tcp:vm.example:4000", remote: true, kind: kindTCP},
		{arg: "tcp:4000", bad: "not HOST:PORT"},
		{arg: "tcp::4000", bad: "not HOST:PORT"},
		{arg: `\\.\pipe\vm`, kind: kindPipe},
		{arg: "", bad: "missing"},
	} {
		p, err := parse(c.arg, c.remote)
		if c.bad == "" && (err != nil || p.kind != c.kind) || c.bad != "" && (err == nil ||
			!strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%s: %+v %v", c.arg, p, err)
		}
	}
}

func TestSettings(t *testing.T) {
	r := env.NewRegistry(Infos()...)
	for text, good := range map[string]bool{
		"vm=serial:/run/s?baud=9600&wait=90s": true, "vm=serial:/run/s?baud=fast": false,
		"vm=serial:/run/s?baud=3": false, "vm=serial:/run/s?wait=2h": false, "vm=serial:/run/s?remote=maybe": false,
		"vm=serial": false,
	} {
		s, err := env.ParseSpec(text)
		if err == nil {
			err = r.Check(s)
		}
		if (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("tcp:127.0.0.1:4000")
	f.Fuzz(func(t *testing.T, arg string) {
		p, err := parse(arg, false)
		if err == nil && p.kind == kindTCP && !strings.Contains(arg, ":") {
			t.Errorf("%q: %+v", arg, p)
		}
	})
}
