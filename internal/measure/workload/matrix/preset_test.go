package matrix

import (
	"maps"
	"slices"
	"testing"

	"tare/internal/measure/workload/trialtest"
)

// A preset by itself is the rows of iozone's command line; what is given narrows them, and nothing that was resolved
// becomes more again.
func TestPresetIsItsRows(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "fs.matrix")
	const kib, mib = 1 << 10, 1 << 20
	whole := Rows(AutoMinSize, AutoMaxSize, AutoMinRec, AutoMaxRec, true)
	for _, c := range []struct {
		given map[string]string
		rows  []Row
		ops   int
	}{
		{map[string]string{"preset": "Racb"}, whole, 13},
		{map[string]string{"preset": "Racb", "size": "64MiB"}, Rows(64*mib, 64*mib, AutoMinRec, AutoMaxRec, false), 13},
		{map[string]string{"preset": "Racb", "bs": "16MiB", "data": "zero"},
			Rows(16*mib, 512*mib, 16*mib, 16*mib, false), 13},
		{map[string]string{"preset": "Racb", "size": "1MiB", "bs": "8KiB"}, []Row{{mib, 8 * kib}}, 13},
		{map[string]string{"preset": "direct4k"}, []Row{{64 * mib, 4 * kib}}, 4},
		{map[string]string{"preset": "direct4k", "size": "1GiB"}, []Row{{1024 * mib, 4 * kib}}, 4},
		{map[string]string{"size": "1MiB"}, []Row{{mib, 64 * kib}}, 13},
	} {
		var rows []Row
		for _, each := range k.Expand(c.given) {
			p, err := k.Resolve(each)
			if err != nil {
				t.Fatalf("%v: %v", each, err)
			}
			if again := k.Expand(p); len(again) != 1 || !maps.Equal(again[0], p) {
				t.Fatalf("%v: resolved, it becomes %v", each, again)
			}
			run, err := configOf(p)
			if err != nil {
				t.Fatalf("%v: %v", each, err)
			}
			// A report knows a row by its parameters.
			if told := (Row{p.Int("size"), p.Int("bs")}); run.Row != told || len(run.Ops) != c.ops ||
				p["data"] != max(c.given["data"], autoData) {
				t.Errorf("%v runs %v with %v of %v and says %v", each, run.Row, run.Ops, p["data"], told)
			}
			rows = append(rows, run.Row)
		}
		if !slices.Equal(rows, c.rows) {
			t.Errorf("%v is the rows %v, want %v", c.given, rows, c.rows)
		}
	}
	for _, wrong := range []map[string]string{{"preset": "Racb", "size": "many"}, {"preset": "Racb", "size": "1KiB"},
		{"preset": "direct4k", "bs": "8KiB"}} {
		for _, each := range k.Expand(wrong) {
			p, err := k.Resolve(each)
			if err == nil {
				_, err = k.New(p)
			}
			if err == nil {
				t.Errorf("%v is taken", wrong)
			}
		}
	}
}
