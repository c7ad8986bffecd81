package all

import (
	"slices"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// TestEachKindDeclaresWhatLasts holds every kind to a declaration, also for parameters of an older tare, and to metrics
// that it has.
func TestEachKindDeclaresWhatLasts(t *testing.T) {
	for _, k := range Kinds() {
		if k.Lasts == nil {
			t.Errorf("%s does not say what it makes that is meant to last: give it Lasts, or workload.NothingLasts",
				k.Name)
			continue
		}
		l := k.Lasts(nil)
		if slices.Equal(l.Metrics, workload.AllMetrics) {
			continue
		}
		for _, name := range l.Metrics {
			known := false
			for _, m := range k.Metrics {
				known = known || m.Name == name
			}
			if !known {
				t.Errorf("%s has no metric %s", k.Name, name)
			}
		}
	}
}

// TestLasts checks what some kinds declare for their parameters.
func TestLasts(t *testing.T) {
	for _, c := range []struct {
		kind  string
		p     workload.Params
		flush workload.Flush
		place workload.Place
	}{
		{"fs.seqwrite", workload.Params{"fsync": "none"}, workload.FlushLater, workload.InTarget},
		{"fs.randwrite", workload.Params{"fsync": "full-each"}, workload.FlushEach, workload.InTarget},
		{"fs.mixed", workload.Params{"fsync": "datasync-end"}, workload.FlushAtEnd, workload.InTarget},
		{"fs.matrix", workload.Params{"preset": "direct4k"}, workload.FlushAtEnd, workload.InTarget},
		{"fs.matrix", workload.Params{"ops": "read fread"}, workload.NoWrites, workload.InTarget},
		{"fs.smallfiles", workload.Params{"fsync": "false"}, workload.FlushNever, workload.InTarget},
		{"dev.unpack", nil, workload.FlushNever, workload.InTarget},
		{"dev.journal", workload.Params{"fsync": "true"}, workload.FlushEach, workload.InTarget},
		{"restore", workload.Params{"load": "none"}, workload.FlushAtEnd, workload.InTarget},
		{"command", nil, workload.FlushByUser, workload.InTarget},
		{"sql.oltp", workload.Params{"mix": "point"}, workload.NoWrites, workload.InTarget},
		{"sql.oltp", workload.Params{"mix": "read-write"}, workload.FlushByServer, workload.InTarget},
		{"sql.oltp", workload.Params{"mix": "write-only", "address": "/run/sock"}, workload.FlushByServer,
			workload.Elsewhere},
		{"sql.replay", workload.Params{"writes": "true", "address": "10.0.0.5:3306"}, workload.FlushByServer,
			workload.Elsewhere},
		{"sql.replay", workload.Params{"writes": "false"}, workload.NoWrites, workload.InTarget},
		{"http.load", workload.Params{"method": "GET", "url": "stack:/"}, workload.NoWrites, workload.InTarget},
		{"http.load", workload.Params{"method": "POST"}, workload.NoWrites, workload.InTarget},
		{"http.load", workload.Params{"method": "POST", "url": "stack-nginx:/"}, workload.FlushByServer,
			workload.InHome},
		{"http.load", workload.Params{"method": "PUT", "urls": "3 stack:/a 1 stack:/b"}, workload.FlushByServer,
			workload.InHome},
		{"http.load", workload.Params{"method": "DELETE", "urls": "file:/list"}, workload.FlushByServer,
			workload.Elsewhere},
		{"http.replay", workload.Params{"writes": "true", "url": "http://shop.example"}, workload.FlushByServer,
			workload.Elsewhere},
	} {
		k, _ := Lookup(c.kind)
		if l := k.Lasts(c.p); l.Flush != c.flush || l.Place != c.place {
			t.Errorf("%s %v: %+v, want %v in %v", c.kind, c.p, l, c.flush, c.place)
		}
	}
}

// TestEachKindIsWhatItSays holds what kinds say of themselves to their parameters and metrics.
func TestEachKindIsWhatItSays(t *testing.T) {
	families := []string{workload.FamilyCPU, workload.FamilyMemory, workload.FamilyKernel, workload.FamilyFiles,
		workload.FamilyNetwork, workload.FamilyWeb, workload.FamilyDatabase, workload.FamilyLaunch,
		workload.FamilyCommand, workload.FamilyTest}
	for _, k := range Kinds() {
		if !slices.Contains(families, k.Family) {
			t.Errorf("%s is of the family %q, which package workload does not have", k.Name, k.Family)
		}
		params := []string{k.Is.Lanes, k.Is.PageSize}
		if k.Is.Command {
			params = append(params, "command")
		}
		if k.Is.Link == workload.RoundTrips {
			params = append(params, "connections")
		}
		if k.Is.Link == workload.StreamRate {
			params = append(params, "streams", "direction")
		}
		if k.Is.Moves != nil || k.Is.Columns != nil {
			params = append(params, "bs")
		}
		for _, name := range params {
			if name != "" && !slices.ContainsFunc(k.Params, func(p workload.Param) bool { return p.Name == name }) {
				t.Errorf("%s has no parameter %s", k.Name, name)
			}
		}
		for name := range k.Is.Columns {
			if !slices.ContainsFunc(k.Metrics, func(m unit.Metric) bool { return m.Name == name && !m.Primary }) {
				t.Errorf("%s has no metric %s beside the one that decides", k.Name, name)
			}
		}
		if Named(k.Name).Name != k.Name {
			t.Errorf("%s is not found by its name", k.Name)
		}
	}
}

// TestNamed asks for kinds that are no longer there.
func TestNamed(t *testing.T) {
	for _, c := range []struct {
		name, family          string
		server                workload.Server
		files, parallel, page bool
	}{
		{"fs.touch", workload.FamilyFiles, workload.NoServer, true, false, false},
		{"dev.link", workload.FamilyFiles, workload.NoServer, true, false, false},
		{"memory.scan", workload.FamilyMemory, workload.NoServer, false, false, false},
		{"net.latency", workload.FamilyNetwork, workload.NoServer, false, false, false},
		{"web.page", workload.FamilyWeb, workload.NoServer, false, false, false},
		{"http.page", workload.FamilyWeb, workload.WebServer, false, true, true},
		{"sql.dump", workload.FamilyDatabase, workload.DatabaseServer, false, true, false},
		{"cpu.sum", "", workload.NoServer, false, false, false},
		{"web", "", workload.NoServer, false, false, false},
		{"", "", workload.NoServer, false, false, false},
	} {
		k := Named(c.name)
		if k.Name != c.name || k.Family != c.family || k.Is.Server != c.server || k.Is.Files != c.files ||
			k.Is.Parallel != c.parallel || (k.Is.Awaited == workload.AwaitedPage) != c.page ||
			k.Is.Awaited > workload.AwaitedPage || k.Lasts(nil).Flush != workload.NoWrites {
			t.Errorf("%q: family %q, is %+v", c.name, k.Family, k.Is)
		}
	}
}
