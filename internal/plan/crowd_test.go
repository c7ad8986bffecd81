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
		four + "workloads: [{kind: load, from: c1+c2}]":                               "web,web2 web",
		four + "baseline: c1\nworkloads: [{kind: load, from: c1*3+c2}]":               "web,web2 web",
		four + "workloads: [{kind: load, from: c1+c2+web2}]":                          "web web",
		four + "workloads: [{kind: load, from: c1+c2, url: 'http://x/'}]":             "web web",
		four + "workloads: [{kind: load, from: web+web2+c1+c2, url: 'http://x/'}]":    "web web",
		four + "workloads: [{kind: load, from: c1, url: 'http://x/', targets: [c1]}]": "web,c1 web",
		four + "workloads: [{kind: load, from: c1+c2, url: 'stack-varnish:@front'}]":  "web,web2 web",
		four + "workloads: [{kind: load, from: c1, url: 'stack:/', targets: [web, c1]}]": "c1 cannot offer the load " +
			"and serve",
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

// TestBaselineOfCrowds has the plan's baseline offer load in all of its work, or in some of it. One that was named
// stays.
func TestBaselineOfCrowds(t *testing.T) {
	const envs = "environments: {host: local, web: local, web2: local}\n"
	for src, want := range map[string]string{
		envs + "workloads: [{kind: load, from: host}, {kind: peered, from: host}]":                 "web",
		envs + "workloads: [{kind: load, from: host}, {kind: cpu.prime}]":                          "host",
		envs + "workloads: [{kind: load, from: host}, {kind: load, from: host, url: 'http://x/'}]": "web",
		envs + "baseline: host\nworkloads: [{kind: load, from: host}]":                             "host",
		envs + "workloads: [{kind: load, from: host}, {kind: peered, from: host, baseline: web2}]": "host",
		envs + "workloads: [{kind: load, from: web2}, {kind: load, from: web2, url: 'http://x/'}]": "host",
		envs + "workloads: [{kind: load, from: host, targets: [web2]}, {kind: load, from: host, " +
			"targets: [web2], url: 'stack:/'}]": "web2",
	} {
		p, err := Parse("plan.yaml", []byte(src), crowdTables())
		if err != nil || p.Baseline != want {
			t.Errorf("%s\n%v, want %s", src, err, want)
			continue
		}
		again, err := Unmarshal("plan.yaml", Marshal(p))
		if err != nil || again.Baseline != want || again.Base(&again.Workloads[0]) != p.Base(&p.Workloads[0]) {
			t.Errorf("%s\nresolved: %+v, %v", src, again, err)
		}
	}
}

// TestSelectionWithoutTheCrowd selects environments of a plan: work whose load comes from one that is not among them is
// gone, and so is work that is left with its baseline alone.
func TestSelectionWithoutTheCrowd(t *testing.T) {
	const src = "environments: {host: local, web: local, web2: local}\nbaseline: host\nworkloads:\n" +
		"  - {kind: load, from: host, targets: [web, web2], baseline: web, label: a}\n" +
		"  - {kind: load, from: host, targets: [web2], baseline: web2, label: b}\n" +
		"  - {kind: cpu.prime, label: c}\n"
	for selected, want := range map[string]string{"host web web2": "a b c", "web web2": "c", "host web": "c",
		"host web2": "b c", "web2": "c"} {
		p, err := ParseWithFlags("plan.yaml", []byte(src), Flags{Environments: strings.Fields(selected)}, crowdTables())
		if err != nil {
			t.Errorf("%s: %v", selected, err)
			continue
		}
		var labels []string
		for i := range p.Workloads {
			labels = append(labels, p.Workloads[i].Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("%s leaves %q, want %q", selected, got, want)
		}
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
