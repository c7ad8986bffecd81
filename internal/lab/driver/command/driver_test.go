package command

import (
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m, Infos()) }

// The command lines according to the programs' manuals; the programs do not run here.
func TestPresetCommandLines(t *testing.T) {
	r := env.NewRegistry(Infos()...)
	for text, want := range map[string]string{
		"a=lima:default":  "limactl shell --workdir / default uname -s",
		"a=wsl:Debian":    "wsl.exe --distribution Debian --cd / --exec uname -s",
		"a=multipass:vm1": "multipass exec --no-map-working-directory vm1 -- uname -s",
		"a=incus:r:c1":    "incus exec -T r:c1 -- uname -s",
		"a=kubectl:pod-1": "kubectl exec --stdin pod-1 -- uname -s",
		"a=kubectl:p?namespace=n&container=c&context=x": "kubectl --context x --namespace n exec --stdin p " +
			"--container c -- uname -s",
	} {
		spec, err := env.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Check(spec); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		info, _ := r.Lookup(spec.Driver)
		got := join(info.Driver.(presetDriver).argv(spec.Arg, &spec))("uname", "-s")
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestPresetRefusesOptionsAsNames(t *testing.T) {
	for _, name := range []string{"", "-x", "--rm", "a b", "a;b", "$(x)"} {
		if checkInstance(name) == nil {
			t.Errorf("%q is accepted as a name", name)
		}
	}
}

func TestProbesAnswer(t *testing.T) {
	for _, i := range Infos() {
		s := i.Probe(t.Context())
		if s.Detail == "" || !s.OK && s.Remedy == "" {
			t.Errorf("%s: %+v", i.Name, s)
		}
	}
}
