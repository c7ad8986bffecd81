package all

import (
	"slices"
	"testing"

	"tare/internal/measure/workload"
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
