package study_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	kinds "tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/plan/study"
)

// parse reads a study as on a machine that has everything.
func parse(t *testing.T, s study.Study) *plan.Plan {
	t.Helper()
	p, err := plan.Parse("study "+s.Name, s.Plan, plan.Tables{Drivers: drivers.Drivers(), Kinds: kinds.Kinds()})
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return p
}

// TestEveryStudyIsAPlan reads each with the real drivers, mounts and kinds.
func TestEveryStudyIsAPlan(t *testing.T) {
	if len(study.All()) == 0 {
		t.Fatal("there are no studies")
	}
	for _, s := range study.All() {
		p := parse(t, s)
		if p.Name != s.Name {
			t.Errorf("study %s calls itself %q", s.Name, p.Name)
		}
		if s.Question == "" || p.Question != s.Question {
			t.Errorf("%s: the question is %q in the list and %q in the plan", s.Name, s.Question, p.Question)
		}
		if got, ok := study.Lookup(s.Name); !ok || string(got.Plan) != string(s.Plan) {
			t.Errorf("%s is not found by its name", s.Name)
		}
		if len(p.Targets) < 2 || len(p.Workloads) == 0 {
			t.Errorf("%s compares %d environments by %d workloads", s.Name, len(p.Targets), len(p.Workloads))
		}
	}
	if _, ok := study.Lookup("no such study"); ok {
		t.Error("a study that is not there was found")
	}
	if !slices.IsSorted(study.Names()) {
		t.Errorf("the names are not in order: %v", study.Names())
	}
}

// mostRecords bounds the records that one unit of work moves: ten seconds at a millisecond for each, as in a folder of
// an emulated machine.
const mostRecords = 10_000

// TestUnitsAreSmall: a target that is a hundred times slower gets fewer units of work, but never less than one.
func TestUnitsAreSmall(t *testing.T) {
	for _, s := range study.All() {
		for _, w := range parse(t, s).Workloads {
			p := w.Params
			passes := int64(0)
			switch w.Kind {
			case "fs.dd":
				passes = 2
			case "fs.matrix":
				passes = int64(len(strings.Fields(p["ops"])))
				if p["ops"] == "all" {
					passes = 13
				}
			default:
				continue
			}
			if n := passes * (p.Int("size") / p.Int("bs")); n > mostRecords {
				t.Errorf("%s: one unit of %s is %d records: a trial in a slow folder takes minutes", s.Name, w.Label, n)
			}
		}
	}
}

// TestFoldersTriesTheWorkaround: the study's advice is measured beside what it is to beat, with the same work.
func TestFoldersTriesTheWorkaround(t *testing.T) {
	s, ok := study.Lookup("folders")
	if !ok {
		t.Fatal("there is no study folders")
	}
	var plain, aside []plan.Workload
	for _, w := range parse(t, s).Workloads {
		switch {
		case w.Kind == "dev.compile" && w.Params["workaround"] == "true":
			aside = append(aside, w)
		case w.Kind == "dev.compile":
			plain = append(plain, w)
		}
	}
	if len(plain) != 1 || len(aside) != 1 || plain[0].Params["units"] != aside[0].Params["units"] {
		t.Errorf("the study builds in place %v and by the workaround %v", plain, aside)
	}
}

// TestDisksComparesImagesAndNothingElse: the disks differ in their image alone, and there are enough kinds of it to
// call it a study.
func TestDisksComparesImagesAndNothingElse(t *testing.T) {
	s, ok := study.Lookup("disks")
	if !ok {
		t.Fatal("there is no study disks")
	}
	p := parse(t, s)
	about := map[string]bool{"format": true, "subformat": true, "state": true, "device": true, "disk_type": true}
	kinds := map[string]bool{}
	var states []string
	filled, ours := 0, 0
	for _, e := range p.Targets {
		if e.Spec.Driver == "vagrant" {
			continue // the project's machine is taken as it is
		}
		size := e.Spec.Settings["size"]
		if !e.IsMount() {
			size = e.Spec.Settings["disk"]
		}
		// QEMU alone has a word for it: VirtualBox bypasses the host's page cache unless it is told otherwise.
		cache := map[bool]string{true: "none"}[e.Place() == "vm"]
		if size != "256MiB" || e.Spec.Settings["cache"] != cache {
			t.Errorf("%s has %s and cache=%s", e.Name, size, e.Spec.Settings["cache"])
		}
		if e.Place() == "vm" {
			ours++
		}
		kind, _, _ := strings.Cut(e.Place(), "-") // the product
		kind += " "
		for k, v := range e.Spec.Settings {
			switch {
			case about[k]:
			case k == "disk" || k == "size" || k == "cache":
				continue
			case k == "fill" && v == "16MiB" || k == "fill_data" && v == "half": // the same in all
				filled++
				continue
			default:
				t.Errorf("%s has %s=%s, which is not about its image", e.Name, k, v)
			}
		}
		for _, k := range []string{"format", "subformat", "state", "device", "disk_type"} {
			kind += e.Spec.Settings[k] + " "
		}
		if kinds[kind] {
			t.Errorf("%s comes twice: %s", e.Name, kind)
		}
		kinds[kind] = true
		states = append(states, e.Spec.Settings["state"])
	}
	if filled != 2*ours {
		t.Errorf("%d settings fill %d disks", filled, ours)
	}
	if len(kinds) < 8 || !slices.Contains(states, "aged") || !slices.Contains(states, "compacted") {
		t.Errorf("there are %d kinds in the states %v", len(kinds), states)
	}
	if !slices.ContainsFunc(p.Workloads, func(w plan.Workload) bool {
		return w.Kind == "restore" &&
			w.Params["load"] == "none"
	}) {
		t.Error("the original's restore is missing")
	}
}

// TestProductsAreNamed: the studies of machines and folders ask about the products that people name, where they are.
func TestProductsAreNamed(t *testing.T) {
	for _, name := range []string{"hypervisors", "folders", "filesystems", "disks"} {
		s, _ := study.Lookup(name)
		p := parse(t, s)
		for product, driver := range map[string]string{"vb": "virtualbox", "vw": "vmware", "vagrant": "vagrant"} {
			e, ok := p.Target(product)
			if !ok || e.Spec.Driver != driver {
				t.Errorf("%s has no %s", name, product)
				continue
			}
			if !slices.ContainsFunc(p.Workloads, func(w plan.Workload) bool { return w.On(product) }) {
				t.Errorf("%s measures nothing in %s", name, product)
			}
		}
	}
}

// TestSitesAreComparedAmongThemselves: the host has no site, so it takes no part where sites are measured, and one on a
// mount is compared with the one beside it.
func TestSitesAreComparedAmongThemselves(t *testing.T) {
	s, _ := study.Lookup("hypervisors")
	p := parse(t, s)
	rows, way := 0, map[string]bool{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		site, from := strings.HasPrefix(w.Params["url"], "stack"), w.Params["from"]
		if !site && from == "" {
			continue
		}
		// One client is beside the servers, in each of the sites. The other is on the host: it reaches environments,
		// and what the way to them costs is measured from there.
		targets, bases := 9, []string{"box-site", "vm-site", "docker-site"}
		if from != "" {
			targets, bases = 3, bases[:1]
			way[w.Kind] = true
		}
		rows++
		if w.On(p.Baseline) || p.Base(w) != "box-site" || len(w.Targets) != targets ||
			!slices.Equal(p.Bases(w), bases) || from != "" && from != p.Baseline {
			t.Errorf("%s: targets %q, bases %q", w.Label, w.Targets, p.Bases(w))
		}
		for _, name := range w.Targets {
			e, _ := p.Target(name)
			beside := e.Of
			if beside == "" {
				beside = "box-site"
			}
			if e.Name != "box-site" && p.AgainstIn(w, name) != beside {
				t.Errorf("%s: %s is compared with %s", w.Label, name, p.AgainstIn(w, name))
			}
		}
		if w.Kind == "http.load" && w.Params["match"] == "" {
			t.Errorf("%s takes an error page for a page", w.Label)
		}
	}
	if !maps.Equal(way, map[string]bool{"http.load": true, "net.rr": true, "net.stream": true}) {
		t.Errorf("from the host there is %v", way)
	}
	if rows < 3 {
		t.Errorf("there are %d rows for sites", rows)
	}
}

// TestDisksOnEachMount: the original's 4 KiB went to each of its mounts, past the caches, so here they go to every
// mount of the machines that have no site of their own.
func TestDisksOnEachMount(t *testing.T) {
	s, _ := study.Lookup("hypervisors")
	p := parse(t, s)
	rows := 0
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if w.Params["direct"] != "true" {
			continue
		}
		rows++
		for j := range p.Targets {
			e := &p.Targets[j]
			// vm-e1000 is there for its card.
			if !e.IsMount() || strings.HasSuffix(e.Of, "-site") || e.Of == "vm-e1000" {
				continue
			}
			if !w.On(e.Name) || p.AgainstIn(w, e.Name) != e.Of {
				t.Errorf("%s: %s takes part: %v, against %s", w.Label, e.Name, w.On(e.Name), p.AgainstIn(w, e.Name))
			}
		}
	}
	if rows != 2 {
		t.Errorf("there are %d rows past the caches", rows)
	}
}

// TestNeighboursOfEachKind: each kind of environment has the same neighbours, in others of its kind, and is compared
// with itself alone; where its driver has a limit, a neighbour has it, whose name says so.
func TestNeighboursOfEachKind(t *testing.T) {
	s, _ := study.Lookup("neighbours")
	p := parse(t, s)
	victims := map[string]int{}
	for i := range p.Targets {
		e := &p.Targets[i]
		if e.Beside == "" {
			continue
		}
		victims[e.Like]++
		n, _ := p.Neighbour(e.Beside)
		place, ok := p.Target(n.In[e.Like])
		if !ok || place.Spec.Driver != e.Spec.Driver || p.Measured(place.Name) || p.Against(e.Name) != e.Like {
			t.Errorf("%s has its neighbour in %+v and is compared with %s", e.Name, place, p.Against(e.Name))
		}
		limited := len(place.Spec.Settings) > len(e.Spec.Settings)
		if limited != strings.Contains(n.Name, "-") {
			t.Errorf("%s: %s", e.Name, place.Text)
		}
	}
	if want := map[string]int{"host": 7, "box": 9, "docker": 8, "podman": 8, "vm": 9}; !maps.Equal(victims, want) ||
		len(p.Beside) != 9 {
		t.Errorf("victims %v, want %v, %d neighbours", victims, want, len(p.Beside))
	}
}

// TestNeighboursWithoutControlGroups: where no limits can be set, the neighbours without them are there all the same,
// and each that is lost is told.
func TestNeighboursWithoutControlGroups(t *testing.T) {
	s, _ := study.Lookup("neighbours")
	var out []string
	p, err := plan.Parse("study "+s.Name, s.Plan, plan.Tables{
		Drivers: drivers.Drivers(), Kinds: kinds.Kinds(),
		Available: func(e env.Spec, _ *env.Spec) (bool, string) {
			ours := e.Driver == "namespace" || e.Driver == "qemu"
			return !ours || len(e.Settings) == 0, "control groups cannot be made"
		},
		LeftOut: func(target, why string) { out = append(out, target+": "+why) },
	})
	if err != nil {
		t.Fatal(err)
	}
	victims := map[string]int{}
	for _, e := range p.Targets {
		if e.Beside != "" {
			victims[e.Like]++
		}
	}
	if want := map[string]int{"host": 7, "box": 5, "docker": 8, "podman": 8, "vm": 5}; !maps.Equal(victims, want) {
		t.Errorf("victims %v, want %v", victims, want)
	}
	if len(out) != 8 || !slices.Contains(out, "box-throttled: control groups cannot be made") {
		t.Errorf("left out: %v", out)
	}
}

// TestStudiesGoOnWithWhatIsHere: a study is a plan also where most of what it names is missing, and says what it leaves
// out.
func TestStudiesGoOnWithWhatIsHere(t *testing.T) {
	for name, here := range map[string][]string{"host and namespace": {"local", "namespace"},
		"machines": {"local", "qemu"}, "others": {"local", "ssh"}} {
		for _, s := range study.All() {
			full := parse(t, s)
			var out []string
			available := func(e env.Spec, _ *env.Spec) (bool, string) {
				return slices.Contains(here, e.Driver),
					"it is not here"
			}
			p, err := plan.Parse("study "+s.Name, s.Plan, plan.Tables{
				Drivers: drivers.Drivers(), Kinds: kinds.Kinds(), Available: available,
				LeftOut: func(target, _ string) { out = append(out, target) },
			})
			if err != nil {
				if !slices.ContainsFunc(full.Targets,
					func(e plan.Target) bool { return !e.IsMount() && slices.Contains(here, e.Spec.Driver) }) {
					continue // nothing of it is here at all
				}
				t.Errorf("%s, %s: %v", name, s.Name, err)
				continue
			}
			// Those with a neighbour follow from the others.
			alone := func(p *plan.Plan) (n int) {
				for i := range p.Targets {
					if p.Targets[i].Beside == "" {
						n++
					}
				}
				return n
			}
			if alone(p)+len(out) != alone(full) {
				t.Errorf("%s, %s: %d of %d targets are there and %d left out", name, s.Name, alone(p), alone(full),
					len(out))
			}
			for _, e := range p.Targets {
				if slices.Contains(out, e.Against) {
					t.Errorf("%s, %s: %s is compared with %s, which is not here", name, s.Name, e.Name, e.Against)
				}
			}
		}
	}
}
