package plan

import (
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/workload"
)

// crowdTables have a load on a server of the target's or of the user's, and work whose other end is a peer.
func crowdTables() Tables {
	t := reachTables()
	from := workload.FromParams()
	t.Kinds = append(t.Kinds,
		workload.Kind{Name: "load", Params: []workload.Param{from, {Name: "url", Type: workload.Text}}},
		workload.Kind{Name: "base", Params: []workload.Param{from, {Name: "address", Type: workload.Text}}},
		workload.Kind{Name: "peered", Needs: workload.Needs{Peer: true}, Params: []workload.Param{from,
			{Name: "to", Type: workload.Text, Sparse: true}},
			Peerless: func(p workload.Params) bool { return p[workload.FromParam] != "" }})
	return t
}

func TestCrowds(t *testing.T) {
	const four = "environments: {web: local, web2: local, c1: local, c2: local}\n"
	for src, want := range map[string]string{ // the targets and their baseline, or a part of the error
		four + "workloads: [{kind: load, from: c1+c2}]":                                    "web,web2 web",
		four + "baseline: c1\nworkloads: [{kind: load, from: c1*3+c2}]":                    "web,web2 web",
		four + "workloads: [{kind: load, from: c1+c2+web2}]":                               "web web",
		four + "workloads: [{kind: load, from: c1+c2, url: 'http://x/'}]":                  "web web",
		four + "workloads: [{kind: load, from: web+web2+c1+c2, url: 'http://x/'}]":         "web web",
		four + "workloads: [{kind: load, from: c1, url: 'http://x/', targets: [c1]}]":      "web,c1 web",
		four + "workloads: [{kind: base, from: c1+c2}]":                                    "web,web2 web",
		four + "workloads: [{kind: base, from: c1+c2, address: '10.0.0.5:3306'}]":          "web web",
		four + "workloads: [{kind: base, from: web+web2+c1+c2}]":                           "there with address=",
		four + "workloads: [{kind: peered, from: c1+c2}]":                                  "web,web2 web",
		"environments: {box: 'ssh:a', c1: 'ssh:b'}\nworkloads: [{kind: peered, from: c1}]": "box box",
		"environments: {a: local}\nworkloads: [{kind: load, from: a, url: 'http://x/'}]":   "a a",
		four + "workloads: [{kind: load, from: web+web2+c1+c2}]":                           "none is left",
		four + "workloads: [{kind: load, from: c3}]":                                       `no environment "c3" in the plan`,
		four + "workloads: [{kind: load, from: c1+c1}]":                                    "c1 is named twice",
		four + "workloads: [{kind: load, from: c1*0}]":                                     "a whole number",
		four + "workloads: [{kind: load, from: c1++c2}]":                                   "names are separated by +",
		four + "workloads: [{kind: load, from: c1, targets: [web, c1]}]": "c1 cannot offer the load and " +
			"serve",
		four + "workloads: [{kind: peered, from: c1, to: web}]": "leave out server and to",
		four + "beside: {hog: {in: c1, workload: cpu.prime}}\nworkloads: [{kind: load, from: c1}]": "the " +
			"neighbour hog works in c1",
	} {
		p, err := Parse("plan.yaml", []byte(src), crowdTables())
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s\n%v, want %q", src, err, want)
			}
			continue
		}
		w := &p.Workloads[0]
		targets := w.Targets
		if targets == nil {
			targets = []string{p.Targets[0].Name}
		}
		if got := strings.Join(targets, ",") + " " + p.Base(w); got != want {
			t.Errorf("%s\n%s, want %s", src, got, want)
		}
		if p.Alone(w) != (len(targets) == 1) {
			t.Errorf("%s: alone is %v", src, p.Alone(w))
		}
		// A resolved plan means the same.
		again, err := Unmarshal("plan.yaml", Marshal(p))
		if err != nil {
			t.Errorf("%s\nresolved: %v", src, err)
			continue
		}
		if x := &again.Workloads[0]; !slices.Equal(x.Targets, w.Targets) || again.Base(x) != p.Base(w) {
			t.Errorf("%s\nresolved: %q %s, want %q %s", src, x.Targets, again.Base(x), w.Targets, p.Base(w))
		}
	}
}

func TestCrowdsHelp(t *testing.T) {
	p, err := Parse("plan.yaml", []byte("environments: {web: local, c1: local, c2: local}\n"+
		"workloads: [{kind: load, from: c1+c2}, {kind: cpu.prime, targets: [web, c2]}]"), crowdTables())
	if err != nil {
		t.Fatal(err)
	}
	if !p.Helps("c1") || p.Helps("c2") || p.Helps("web") || !p.Offers("c2") || p.Offers("web") {
		t.Error("what is measured and what helps is mistaken")
	}
	if q := p.Without(map[string]bool{"c1": true}, nil); len(q.Workloads) != 1 || q.Workloads[0].Kind != "cpu.prime" {
		t.Errorf("without one of its hosts there is %+v", q.Workloads)
	}
	if q := p.Without(map[string]bool{"nobody": true}, nil); len(q.Workloads) != 2 {
		t.Errorf("nothing left out, there is %+v", q.Workloads)
	}
}

func FuzzParseFrom(f *testing.F) {
	f.Add("a+b*2+c")
	f.Add("a**2+")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := workload.ParseFrom(text)
		if err != nil || text == "" {
			return
		}
		if len(all) == 0 || len(all) > workload.MostHosts {
			t.Errorf("%q gives %d", text, len(all))
		}
		for _, s := range all {
			if s.Name == "" || s.Weight < 1 {
				t.Errorf("%q gives %+v", text, s)
			}
		}
	})
}
