package cli

import (
	"slices"
	"strings"
	"testing"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	kinds "tare/internal/measure/workload/all"
)

func TestScan(t *testing.T) {
	for text, want := range map[string]string{
		"1..4": "1 2 3 4", "0..1..0.25": "0.00 0.25 0.50 0.75 1.00", "8..8": "8", "-1..1": "-1 0 1", "1..8..3": "1 4 7",
	} {
		if got, err := scan(text); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "1,8", "a..b", "8..1", "1..8..0", "1..8..-1", "1..1000000", "1..2..3..4",
		"NaN..1", "0..Inf", "1..2..1e-300"} {
		if got, err := scan(text); err == nil {
			t.Errorf("%q gives %v", text, got)
		}
	}
}

func TestSplitList(t *testing.T) {
	for text, want := range map[string][]string{"a,b": {"a", "b"}, `a\,b,c\\`: {"a,b", `c\`}, "": {""},
		"on,": {"on", ""}} {
		if got, err := split(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	if _, err := split("a,b,a"); err == nil {
		t.Error("a value that is given twice is no error")
	}
}

func TestUniqueNames(t *testing.T) {
	texts := []string{"./old", "./old", "origin/feature x", "", "..", "Größe", strings.Repeat("x", 60),
		strings.Repeat("x", 70)}
	names := unique(texts)
	for i, n := range names {
		if err := env.CheckName(n); err != nil || slices.Contains(names[:i], n) {
			t.Errorf("%q is called %q: %v", texts[i], n, err)
		}
	}
	if names[0] != "old" || names[1] != "old-2" || names[2] != "origin-feature-x" {
		t.Errorf("%q", names)
	}
}

// toldVariants are the names of variants and what each is.
func toldVariants(all []variant) string {
	var out []string
	for _, v := range all {
		out = append(out, v.spec.Name+": "+v.params["command"]+" ["+strings.ReplaceAll(v.params["env"], "\n", " ")+"]")
	}
	return strings.Join(out, "\n")
}

func TestVariants(t *testing.T) {
	host := env.Spec{Driver: "local"}
	for name, c := range map[string]struct {
		flags abFlags
		lines []string
		want  string
	}{
		"programs":  {abFlags{}, []string{"./old -x", "./new -x"}, "old: ./old -x []\nnew: ./new -x []"},
		"lines":     {abFlags{}, []string{"sleep 1", "sleep 2"}, "sleep-1: sleep 1 []\nsleep-2: sleep 2 []"},
		"itself":    {abFlags{}, []string{"true", "true"}, "true: true []\ntrue-2: true []"},
		"names":     {abFlags{names: []string{"a", "b"}}, []string{"x 1", "x 2"}, "a: x 1 []\nb: x 2 []"},
		"list":      {abFlags{lists: []string{"n=1,2"}}, []string{"x {n}"}, "n-1: x 1 []\nn-2: x 2 []"},
		"scan":      {abFlags{scans: []string{"n=1..2"}}, []string{"x {n}"}, "n-1: x 1 []\nn-2: x 2 []"},
		"variable":  {abFlags{vars: []string{"GC=on,off"}}, []string{"x"}, "GC-on: x [GC=on]\nGC-off: x [GC=off]"},
		"one value": {abFlags{vars: []string{"A=1"}}, []string{"x", "y"}, "x: x [A=1]\ny: y [A=1]"},
		"everything": {abFlags{lists: []string{"n=1,2"}, vars: []string{"V=a", "W=b"}}, []string{"x {n}", "y"},
			"x.n-1: x 1 [V=a W=b]\nx.n-2: x 2 [V=a W=b]\ny.n-1: y [V=a W=b]\ny.n-2: y [V=a W=b]"},
	} {
		all, err := c.flags.variants(c.lines, nil, host)
		if err != nil || toldVariants(all) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, toldVariants(all), c.want)
		}
	}
	for want, c := range map[string]struct {
		flags abFlags
		lines []string
	}{
		"nothing that it could be compared with": {abFlags{}, []string{"x"}},
		"-n is given 3 times, for 2 variants":    {abFlags{names: []string{"a", "b", "c"}}, []string{"x", "y"}},
		"--prepare is given 2 times, for 3":      {abFlags{prepare: []string{"a", "b"}}, []string{"x", "y", "z"}},
		"no command has {n}":                     {abFlags{lists: []string{"n=1,2"}}, []string{"x n"}},
		"write NAME=VALUES in one word":          {abFlags{lists: []string{"n"}}, []string{"x {n}"}},
		"more than 24 variants":                  {abFlags{scans: []string{"n=1..20", "m=1..2"}}, []string{"{n}{m}"}},
		"-P n=1,8: expected MIN..MAX":            {abFlags{scans: []string{"n=1,8"}}, []string{"x {n}"}},
		"--env-var GC: write NAME=VALUE":         {abFlags{vars: []string{"GC"}}, []string{"x"}},
	} {
		if all, err := c.flags.variants(c.lines, nil, host); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\n%s", want, err, toldVariants(all))
		}
	}
}

// TestRevisionsVaryFastest holds what checkOut relies on.
func TestRevisionsVaryFastest(t *testing.T) {
	a := abFlags{git: true, lists: []string{"n=1,2"}}
	all, err := a.variants([]string{"./x {n}"}, []string{"main", "HEAD"}, env.Spec{Driver: "local"})
	if err != nil || len(all) != 4 || all[0].spec.Name != "n-1.main" || all[1].spec.Name != "n-1.HEAD" {
		t.Errorf("%v\n%s", err, toldVariants(all))
	}
}

// TestSetupOfVariants: one for all, or one for each command, with the values in it.
func TestSetupOfVariants(t *testing.T) {
	setups := func(a abFlags, lines ...string) string {
		t.Helper()
		all, err := a.variants(lines, nil, env.Spec{Driver: "local"})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range all {
			out = append(out, v.params["setup"])
		}
		return strings.Join(out, ", ")
	}
	for want, got := range map[string]string{
		"make, make":         setups(abFlags{setup: []string{"make"}}, "./a", "./b"),
		"make a, make b":     setups(abFlags{setup: []string{"make a", "make b"}}, "./a", "./b"),
		"make -O1, make -O2": setups(abFlags{setup: []string{"make -O{n}"}, lists: []string{"n=1,2"}}, "./x"),
		", ":                 setups(abFlags{}, "./a", "./b"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	a := abFlags{setup: []string{"a", "b"}}
	if _, err := a.variants([]string{"x", "y", "z"}, nil, env.Spec{}); err == nil ||
		!strings.Contains(err.Error(), "--setup is given 2 times, for 3 commands") {
		t.Error(err)
	}
}

func TestPlanOfVariants(t *testing.T) {
	cmd := &abCommand{app: &app{catalog: catalog{drivers: drivers.Drivers(), kinds: kinds.Kinds()}},
		flags: abFlags{vars: []string{"GC=,off"}, shell: "none", timeout: 1e9}}
	all, err := cmd.flags.variants([]string{"env"}, nil, env.Spec{Driver: "local"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := cmd.plan(all)
	if err != nil {
		t.Fatal(err)
	}
	w := &p.Workloads[0]
	if p.Baseline != all[0].spec.Name || len(p.Targets) != 2 || p.Trial != abTrial ||
		w.ParamsOn(p.Targets[0].Name)["env"] != "GC=" || w.ParamsOn(p.Targets[1].Name)["env"] != "GC=off" {
		t.Errorf("%+v", p)
	}
}

// TestLooksOfSuites: a case that stands alone among all can be told apart, and --blocks has its say.
func TestLooksOfSuites(t *testing.T) {
	for _, c := range []struct{ count, blocks, variants, want int }{
		{3, 0, 2, 10}, {100, 0, 2, 15}, {1000, 0, 2, 19}, {100, 0, 3, 16}, {100, 7, 2, 7},
	} {
		a := abFlags{count: c.count}
		if got := a.looks(c.blocks, c.variants, 0.05); !slices.Equal(got, []int{c.want}) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
