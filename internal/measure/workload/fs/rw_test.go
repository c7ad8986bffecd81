package fs

import (
	"bytes"
	"compress/flate"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
)

var small64K = map[string]string{"size": "1MiB", "bs": "4KiB"}

func with(base map[string]string, kv ...string) map[string]string {
	m := maps.Clone(base)
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

// TestRecordWorkloads runs each kind for less than a pass, a whole pass and several, and wants figures and checks that
// do not depend on the amount of work.
func TestRecordWorkloads(t *testing.T) {
	cases := []struct {
		name  string
		given map[string]string
	}{
		{"fs.seqread", small64K},
		{"fs.randread", small64K},
		{"fs.randread", with(small64K, "cache", "as-is")},
		{"fs.randread", with(small64K, "data", "zero")},
		{"fs.randread", map[string]string{"size": "3MiB", "bs": "5000"}},
		{"fs.randread", map[string]string{"size": "600", "bs": "512"}},
		{"fs.randwrite", small64K},
		{"fs.randwrite", with(small64K, "fsync", "end")},
		{"fs.randwrite", with(small64K, "fsync", "datasync-end")},
		{"fs.randwrite", map[string]string{"size": "64KiB", "fsync": "each"}},
		{"fs.randwrite", map[string]string{"size": "64KiB", "fsync": "datasync-each"}},
		{"fs.seqwrite", small64K},
		{"fs.seqwrite", with(small64K, "create", "no")},
		{"fs.seqwrite", with(small64K, "fsync", "end")},
		{"fs.seqwrite", with(small64K, "data", "zero")},
		{"fs.seqwrite", map[string]string{"size": "5MiB", "bs": "2MiB"}},
	}
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name+" "+c.given["bs"]+c.given["fsync"]+c.given["create"]+c.given["data"]+
			c.given["cache"], " ", "_"), func(t *testing.T) {
			dir := t.TempDir()
			k := kind(t, c.name)
			p, err := k.Resolve(c.given)
			if err != nil {
				t.Fatal(err)
			}
			records := p.Int("size") / p.Int("bs")
			var first *workload.Bench
			for _, work := range []int64{1, records, 3*records + 1} {
				b := weigh(t, dir, c.name, work, c.given)
				for _, m := range k.MetricsFor(p) {
					if !(b.Metrics[m.Name] > 0) {
						t.Errorf("work %d: %s = %v", work, m.Name, b.Metrics[m.Name])
					}
				}
				if got, want := b.Metrics["mib_per_second"]*(1<<20),
					b.Metrics["ops_per_second"]*float64(p.Int("bs")); got/want < 0.999 || got/want > 1.001 {
					t.Errorf("%v B/s and %v ops/s of %d B do not agree", got, b.Metrics["ops_per_second"], p.Int("bs"))
				}
				if first == nil {
					first = b
				}
				if !maps.Equal(first.Checks, b.Checks) {
					t.Errorf("checks depend on the work: %v with 1, %v with %d", first.Checks, b.Checks, work)
				}
				if len(b.Warnings) > 0 {
					t.Errorf("warnings: %v", b.Warnings)
				}
			}
			if c.given["create"] != "no" && c.name == "fs.seqwrite" {
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("a created file is left behind: %v", left)
				}
			}
		})
	}
}

func TestPreparedFileIsReusedAndChecked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "records")
	prepared := func() string { return weigh(t, dir, "fs.randread", 10, small64K).State["prepared"] }
	if got := prepared(); got != "new" {
		t.Fatalf("first trial: prepared %q", got)
	}
	if got := prepared(); got != "reused" {
		t.Fatalf("second trial: prepared %q", got)
	}
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	if got := prepared(); got != "new" {
		t.Fatalf("after truncation: prepared %q", got)
	}
	if err := os.WriteFile(path+".ok", []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := prepared(); got != "new" {
		t.Fatalf("after the marker changed: prepared %q", got)
	}
}

// TestDamageIsFound changes one byte of the file behind the workload's back.
func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	weigh(t, dir, "fs.randread", 10, small64K)
	f, err := os.OpenFile(filepath.Join(dir, "records"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{1, 2, 3, 4}, 1<<20-100); err != nil {
		t.Fatal(err)
	}
	f.Close()
	err = drive(trial(t, "fs.randread", small64K), &workload.Bench{Dir: dir, Work: 10, Seed: 7})
	if err == nil || !strings.Contains(err.Error(), "record 255 differs") {
		t.Fatalf("a damaged record gave %v", err)
	}
}

// TestShortReadIsAnError cuts the file while it is open.
func TestShortReadIsAnError(t *testing.T) {
	dir := t.TempDir()
	w := trial(t, "fs.seqread", small64K)
	b := &workload.Bench{Dir: dir, Work: 256, Seed: 7}
	defer w.Cleanup(b)
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "records"), 10000); err != nil {
		t.Fatal(err)
	}
	err := w.Measure(t.Context(), b)
	if err == nil || !strings.Contains(err.Error(), "record 2 ") ||
		!strings.Contains(err.Error(), "1808 of 4096 bytes") {
		t.Fatalf("a short read gave %v", err)
	}
}

// TestLostWriteIsFound writes through one file and lets another take its place before verification, as a storage that
// drops writes would.
func TestLostWriteIsFound(t *testing.T) {
	dir := t.TempDir()
	w := trial(t, "fs.randwrite", small64K)
	b := &workload.Bench{Dir: dir, Work: 300, Seed: 7}
	defer w.Cleanup(b)
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "records"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Measure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b.Elapsed = 1
	if err := os.WriteFile(filepath.Join(dir, "records"), before, 0o600); err != nil {
		t.Fatal(err)
	}
	err = w.(workload.Reporter).Report(b)
	if err == nil || !strings.Contains(err.Error(), "the write was lost") {
		t.Fatalf("lost writes gave %v", err)
	}
}

func TestDataDoesNotCompressAndNoPageRepeats(t *testing.T) {
	dir := t.TempDir()
	weigh(t, dir, "fs.randread", 1, map[string]string{"size": "8MiB"})
	data, err := os.ReadFile(filepath.Join(dir, "records"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, _ := flate.NewWriter(&packed, flate.BestSpeed)
	z.Write(data)
	z.Close()
	if packed.Len() < len(data)*99/100 {
		t.Errorf("%d bytes compress to %d", len(data), packed.Len())
	}
	seen := map[string]bool{}
	for o := 0; o < len(data); o += 4096 {
		page := string(data[o : o+4096])
		if seen[page] {
			t.Fatalf("the page at %d repeats an earlier one", o)
		}
		seen[page] = true
	}
}

// TestMeasureDoesNotAllocate holds the package to its promise: what little allocates is per trial, not per operation.
func TestMeasureDoesNotAllocate(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"fs.randread": {"size": "1MiB"}, "fs.randwrite": {"size": "1MiB"}, "fs.smallfiles": nil,
	} {
		w := trial(t, name, given)
		b := &workload.Bench{Dir: t.TempDir(), Work: 2000, Seed: 7}
		if err := w.Setup(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		allocations := func(work int64) float64 {
			b.Work = work
			return testing.AllocsPerRun(1, func() {
				if r, ok := w.(*rw); ok {
					r.lanes[0].done = 0
				}
				if err := w.Measure(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			})
		}
		few, many := allocations(250), allocations(1250)
		// The thread takes some 20. The runtime allocates as well, more so on a busy machine, so the fewest of some
		// tries count. One for each of the 1,000 operations more would be far above the bound of 60.
		for try := 0; try < 5 && (few > 60 || many > few+60); try++ {
			few, many = min(few, allocations(250)), min(many, allocations(1250))
		}
		if few > 60 || many > few+60 {
			t.Errorf("%s: %v allocations in 250 operations, %v in 1250", name, few, many)
		}
		if err := w.Cleanup(b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParametersAreChecked(t *testing.T) {
	k := kind(t, "fs.randread")
	p, err := k.Resolve(map[string]string{"size": "4KiB", "bs": "64KiB"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.New(p); err == nil {
		t.Error("records larger than the file are accepted")
	}
	if _, err := k.Resolve(map[string]string{"fsync": "end"}); err == nil {
		t.Error("a read takes fsync")
	}
	if _, err := k.Resolve(map[string]string{"bs": "16"}); err == nil {
		t.Error("bs=16 is accepted")
	}
	for _, k := range Kinds() {
		p, err := k.Resolve(nil)
		if err != nil {
			t.Errorf("%s: the defaults do not resolve: %v", k.Name, err)
		}
		// the agent resolves what the plan resolved
		if again, err := k.Resolve(p); err != nil || !maps.Equal(again, p) {
			t.Errorf("%s: the resolved defaults resolve to %v, %v", k.Name, again, err)
		}
		if k.Space(p) < 1<<20 || k.Doc == "" || k.WorkUnit == "" {
			t.Errorf("%s: incomplete row", k.Name)
		}
		n := 0
		for _, m := range k.Metrics {
			if m.Primary {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s has %d primary metrics", k.Name, n)
		}
	}
}

// The state says in which pages the records lie, and where the system gives huge ones to those who ask only, these
// lie in ordinary ones. Whether it gives any to those who ask depends on how much memory lies in one piece.
func TestBufferPagesAreSaid(t *testing.T) {
	mode, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	for _, name := range []string{"fs.randread", "fs.seqwrite"} {
		for _, pages := range []string{"ordinary", "huge"} {
			given := map[string]string{"size": "4MiB", "bs": "1MiB", "pages": pages}
			b := weigh(t, t.TempDir(), name, 4, given)
			// Where memory is in pieces there are no huge ones for a while. And the kernel may join the buffer's
			// mapping with one that another trial of this process has left beside it, whose pages count then. A
			// worker has one trial.
			may := pages == "huge" || strings.Contains(string(mode), "[madvise]")
			for end := time.Now().Add(time.Minute); may && b.State["buffer_pages"] != pages &&
				time.Now().Before(end); {
				runtime.GC()
				b = weigh(t, t.TempDir(), name, 4, given)
			}
			if got := b.State["buffer_pages"]; got == "" {
				t.Errorf("%s pages=%s: the state says nothing of it: %v", name, pages, b.State)
			} else if strings.Contains(string(mode), "[madvise]") && pages == "ordinary" && got != pages {
				t.Errorf("%s pages=%s: the state says %q", name, pages, got)
			}
		}
	}
}
