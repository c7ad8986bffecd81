package fs

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/uring"
)

// needRing skips a test where this kernel or container has no io_uring.
func needRing(t *testing.T) {
	t.Helper()
	r, err := uring.New(0, 1, 512)
	if err == nil {
		err = r.Close()
	}
	if err == nil {
		return
	}
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf("%v, and TARE_REQUIRE is set", err)
	}
	t.Skip(err)
}

// TestEnginesAndThreads does the same work in every way and wants the same evidence: what is in the files does not
// depend on how it got there.
func TestEnginesAndThreads(t *testing.T) {
	ways := []map[string]string{
		{"threads": "3"},
		{"threads": "4", "files": "own"},
		{"latency": "yes"},
		{"threads": "2", "latency": "yes"},
		{"engine": "mmap"},
		{"engine": "mmap", "threads": "2", "latency": "yes"},
		{"engine": "io_uring"},
		{"engine": "io_uring", "qd": "32"},
		{"engine": "io_uring", "qd": "7", "threads": "3", "latency": "yes"},
		{"engine": "io_uring", "qd": "8", "threads": "2", "files": "own"},
		{"engine": "auto", "qd": "4"},
	}
	amounts := []int64{77, 1000, 1, 256}
	if testing.Short() {
		amounts = amounts[:2]
	}
	for _, kindName := range []string{"fs.seqread", "fs.randread", "fs.randwrite", "fs.seqwrite", "fs.mixed"} {
		base := map[string]string{"size": "1MiB", "bs": "4KiB"}
		if strings.HasSuffix(kindName, "write") || kindName == "fs.mixed" {
			base["fsync"] = "end"
		}
		want := weigh(t, t.TempDir(), kindName, 300, base).Checks
		for _, way := range ways {
			given := with(base)
			maps.Copy(given, way)
			if given["engine"] == "io_uring" || given["engine"] == "auto" {
				needRing(t)
			}
			if kindName == "fs.seqwrite" && given["threads"] != "" && given["files"] != "own" {
				given["create"] = "no"
			}
			dir := t.TempDir()
			k := kind(t, kindName)
			p, err := k.Resolve(given)
			if err != nil {
				t.Fatal(err)
			}
			for _, work := range amounts {
				b := weigh(t, dir, kindName, work, given)
				for _, m := range k.MetricsFor(p) {
					v, ok := b.Metrics[m.Name]
					// there may be none of them
					split := strings.HasPrefix(m.Name, "read_") || strings.HasPrefix(m.Name, "write_")
					if !ok || !(v > 0) && !(split && work == 1) {
						t.Errorf("%s %v work %d: %s = %v", kindName, way, work, m.Name, v)
					}
				}
				if len(b.Metrics) != len(k.MetricsFor(p)) {
					t.Errorf("%s %v: %d metrics reported and %d declared", kindName, way, len(b.Metrics),
						len(k.MetricsFor(p)))
				}
				if kindName != "fs.seqwrite" && !maps.Equal(b.Checks, want) {
					t.Errorf("%s %v work %d: checks %v, want %v", kindName, way, work, b.Checks, want)
				}
				if b.Checks["record_bytes"] == "" || b.Checks["data"] == "" {
					t.Errorf("%s %v: no evidence: %v", kindName, way, b.Checks)
				}
			}
		}
	}
}

// TestLanesCoverTheFile counts what each thread writes: every record once a pass, by one thread.
func TestLanesCoverTheFile(t *testing.T) {
	w := trial(t, "fs.randwrite", map[string]string{"size": "1MiB", "bs": "4KiB", "threads": "3"}).(*rw)
	b := &workload.Bench{Dir: t.TempDir(), Work: 256, Seed: 7}
	defer w.Cleanup(b)
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]int{}
	for i, l := range w.lanes {
		for range l.records {
			r := l.first + l.order.Next()
			if by, twice := seen[r]; twice {
				t.Fatalf("record %d belongs to threads %d and %d", r, by, i)
			}
			seen[r] = i
		}
	}
	if len(seen) != 256 {
		t.Errorf("the threads cover %d of 256 records", len(seen))
	}
}

// TestMixIsTheSameEverywhere pins the sequence of reads and writes: the kind's figures are comparable for as long as it
// stays the same.
func TestMixIsTheSameEverywhere(t *testing.T) {
	a, b, other := mixer{state: 7}, mixer{state: 7}, mixer{state: 8}
	reads, differ := 0, false
	for range 100_000 {
		x := a.reads(70)
		if x != b.reads(70) {
			t.Fatal("the same seed gives another sequence")
		}
		differ = differ || x != other.reads(70)
		if x {
			reads++
		}
	}
	if reads < 69_500 || reads > 70_500 { // five standard deviations
		t.Errorf("%d of 100000 operations read, want 70 %%", reads)
	}
	if !differ {
		t.Error("another seed gives the same sequence")
	}
}

func TestParametersThatDoNotGoTogether(t *testing.T) {
	for _, c := range []struct {
		kind, want string
		given      map[string]string
	}{
		{"fs.randread", "use engine=io_uring", map[string]string{"qd": "32"}},
		{"fs.randread", "use engine=io_uring", map[string]string{"qd": "2", "engine": "mmap"}},
		{"fs.randread", "uses the page cache", map[string]string{"engine": "mmap", "direct": "yes"}},
		{"fs.randread", "too few", map[string]string{"engine": "io_uring", "qd": "32", "size": "64KiB"}},
		{"fs.randread", "too few", map[string]string{"threads": "5", "size": "16KiB"}},
		{"fs.randwrite", "has no effect", map[string]string{"engine": "io_uring", "qd": "2", "fsync": "each"}},
		{"fs.seqwrite", "files=own", map[string]string{"threads": "2"}},
	} {
		k := kind(t, c.kind)
		p, err := k.Resolve(c.given)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.New(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v gave %v, want %q", c.kind, c.given, err, c.want)
		}
	}
}

// TestCutFileUnderMapping shortens a file under its mapping: the fault is an error of the trial, not the worker's end.
func TestCutFileUnderMapping(t *testing.T) {
	for _, threads := range []string{"1", "2"} {
		dir := t.TempDir()
		w := trial(t, "fs.seqread", with(small64K, "engine", "mmap", "threads", threads))
		b := &workload.Bench{Dir: dir, Work: 512, Seed: 7}
		if err := w.Setup(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, "records"), 8192); err != nil {
			t.Fatal(err)
		}
		if err := w.Measure(t.Context(), b); err == nil || !strings.Contains(err.Error(), "was truncated") {
			t.Errorf("%s threads: a cut file gave %v", threads, err)
		}
		if err := w.Cleanup(b); err != nil {
			t.Error(err)
		}
	}
}

// TestRingFindsShortAndDamagedReads cuts and damages a file that is read through io_uring.
func TestRingFindsShortAndDamagedReads(t *testing.T) {
	needRing(t)
	given := with(small64K, "engine", "io_uring", "qd", "16")
	for _, damage := range []struct {
		want string
		do   func(path string) error
	}{
		{"of 4096 bytes", func(path string) error { return os.Truncate(path, 10000) }},
		{"differs from what was written", func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{1, 2, 3}, 1<<20-50)
			return errors.Join(err, f.Close())
		}},
	} {
		dir := t.TempDir()
		w := trial(t, "fs.seqread", given)
		b := &workload.Bench{Dir: dir, Work: 256, Seed: 7}
		if err := w.Setup(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := damage.do(filepath.Join(dir, "records")); err != nil {
			t.Fatal(err)
		}
		err := w.Measure(t.Context(), b)
		if err == nil {
			b.Elapsed = 1
			err = w.(workload.Reporter).Report(b)
		}
		if err == nil || !strings.Contains(err.Error(), damage.want) {
			t.Errorf("got %v, want %q", err, damage.want)
		}
		if err := w.Cleanup(b); err != nil {
			t.Error(err)
		}
	}
}

// TestColdStatesAreBounded: the second pass over a file is not cold.
func TestColdStatesAreBounded(t *testing.T) {
	k := kind(t, "fs.randread")
	for cache, want := range map[string]int64{"warm": 0, "as-is": 0, "guest-cold": 512, "cold": 512} {
		p, err := k.Resolve(map[string]string{"size": "1MiB", "threads": "2", "files": "own", "cache": cache})
		if err != nil {
			t.Fatal(err)
		}
		if got := k.WorkLimit(p); got != want {
			t.Errorf("cache=%s: at most %d operations, want %d", cache, got, want)
		}
		if HostCold(p) != (cache == "cold") {
			t.Errorf("cache=%s: HostCold is %v", cache, HostCold(p))
		}
	}
}

func TestAttributeLife(t *testing.T) {
	for _, c := range []struct {
		kind, options, want string
		known               bool
	}{
		{"nfs4", "rw,vers=4.2,rsize=1048576", "1m0s", true},
		{"nfs", "rw,acregmin=1,acregmax=5,acdirmin=30", "5s", true},
		{"nfs4", "rw,noac", "0s", true},
		{"cifs", "rw,actimeo=3", "3s", true},
		{"cifs", "rw", "1s", true},
		{"fuse.sshfs", "rw,user_id=0", "0s", false},
		{"nfs", "rw,acregmax=x", "1m0s", true},
	} {
		life, known := attributeLife(c.kind, c.options)
		if life.String() != c.want || known != c.known {
			t.Errorf("%s %s: %v, %v", c.kind, c.options, life, known)
		}
	}
}

// TestPercentilesAreOrdered holds the figures of one trial against each other and against its rate.
func TestPercentilesAreOrdered(t *testing.T) {
	b := weigh(t, t.TempDir(), "fs.mixed", 20_000, map[string]string{"size": "1MiB", "latency": "yes"})
	m := b.Metrics
	if !(m["p50_us"] <= m["p90_us"] && m["p90_us"] <= m["p99_us"] && m["p99_us"] <= m["p999_us"] &&
		m["p999_us"] <= m["max_us"]) {
		t.Errorf("percentiles are not in order: %v", m)
	}
	if mean := 1e6 / m["ops_per_second"]; m["p50_us"] > 2*mean || m["max_us"] > b.Elapsed.Seconds()*1e6 {
		t.Errorf("the median does not fit the rate of one per %v us: %v", mean, m)
	}
	if b.State["clock_ns"] == "" || b.State["latencies"] != "20000" || len(b.Warnings) != 0 {
		t.Errorf("state %v, warnings %v", b.State, b.Warnings)
	}
	if few := weigh(t, t.TempDir(), "fs.randread", 50,
		map[string]string{"size": "1MiB", "latency": "yes"}); len(few.Warnings) != 1 ||
		few.Warnings[0].Code != "few-latencies" {
		t.Errorf("50 latencies give %v", few.Warnings)
	}
}

// isFailure reads the failure's kind.
func isFailure(err error, kind string) bool {
	var f *record.Failure
	return errors.As(err, &f) && f.Kind == kind
}
