package matrix

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
)

// TestMatrix runs rows of many shapes and wants a figure for each operation, samples that bracket it, and no file left.
func TestMatrix(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "fs.matrix")
	for _, given := range []map[string]string{
		{"size": "1MiB", "bs": "4KiB"},
		{"size": "64KiB", "bs": "512"},
		{"size": "3000", "bs": "600", "ops": "write read fwrite fread"},
		{"size": "2MiB", "bs": "64KiB", "fsync": "yes", "close": "yes"},
		{"size": "2MiB", "bs": "64KiB", "data": "zero"},
		{"size": "2MiB", "bs": "64KiB", "data": "iozone"},
		{"size": "2MiB", "bs": "2MiB", "ops": "rewrite+reread+frewrite+freread"},
		{"size": "1MiB", "bs": "16KiB", "ops": "strideread"},
		{"size": "1MiB", "bs": "16KiB", "compat": "iozone"},
		{"size": "256KiB", "bs": "64KiB", "compat": "iozone", "data": "random", "close": "yes"},
		{"size": "1MiB", "preset": "Racb", "bs": "8KiB"},
	} {
		b := trialtest.Run(t, k, given, 7)
		p, _ := k.Resolve(given)
		var sum float64
		for _, m := range k.MetricsFor(p) {
			if m.Primary {
				continue
			}
			s := b.Samples[m.Name]
			if p.Int("size") >= leastBytes && len(s) == 0 ||
				len(s) > 1 && p.Int("size") >= leastBytes &&
					(slices.Min(s) > b.Metrics[m.Name]*1.001 || slices.Max(s) < b.Metrics[m.Name]*0.999) {
				t.Errorf("%v: %s is %v and its samples are %v", given, m.Name, b.Metrics[m.Name], s)
			}
			sum += float64(p.Int("size")/p.Int("bs")*p.Int("bs")) / 1024 / b.Metrics[m.Name]
		}
		if r := sum / b.Metrics[rowSeconds]; r < 0.999 || r > 1.001 {
			t.Errorf("%v: the operations take %v s and the row %v s", given, sum, b.Metrics[rowSeconds])
		}
		if len(b.Warnings) > 0 {
			t.Errorf("%v: warnings %v", given, b.Warnings)
		}
	}
}

// honest returns the configuration of a row as tare measures it by default.
func honest(r Row) Config {
	return Config{Row: r, Ops: AllOps(), Data: fileio.Random, Samples: defaultSamples, Seed: 1}
}

// drive does a row as a trial of so many passes and returns what it left.
func drive(t *testing.T, c Config, dir string, passes int64) (*workload.Bench, error) {
	t.Helper()
	b := &workload.Bench{Dir: dir, Work: passes, Seed: 1}
	return b, workload.Drive(t.Context(), &trial{config: c}, b)
}

// TestSamples wants at least the samples asked for in each cell of each shape of row, and not a pass more than they
// need.
func TestSamples(t *testing.T) {
	for _, r := range []Row{{64 << 10, 4 << 10}, {64 << 10, 64 << 10}, {1 << 20, 4 << 10}, {4 << 20, 64 << 10},
		{4 << 20, 2 << 20}, {4 << 20, 4 << 20}} {
		for _, ended := range []bool{false, true} {
			c := honest(r)
			c.Close = ended
			b, err := drive(t, c, t.TempDir(), c.Passes())
			if err != nil {
				t.Fatal(err)
			}
			done := c.Done(b.Samples, nil)
			if len(done.Cells) != int(numOps) {
				t.Fatalf("%v: %d cells", r, len(done.Cells))
			}
			each := 0 // samples of a pass, where passes are not samples together
			if s := c.shape(); s.segments > 0 {
				each = int(s.segments)
			}
			for _, cell := range done.Cells {
				if cell.Op == StrideRead && c.Records() < minStrided {
					if cell.Mark != NoStride || len(cell.Samples) != 0 {
						t.Errorf("%v: a degenerate stride read has %+v", r, cell)
					}
					continue
				}
				if cell.Mark == Ticks { // a machine may be slow to tell the time
					t.Logf("%v %s: %s", r, cell.Op, cell.Why)
					continue
				}
				if n := len(cell.Samples); n < c.Samples || n > c.Samples+max(0, each-1) ||
					slices.Min(cell.Samples) <= 0 {
					t.Errorf("%v %s: samples %v, mark %q; asked for %d, %d in a pass", r, cell.Op, cell.Samples,
						cell.Mark, c.Samples, each)
				}
			}
			if r == (Row{4 << 20, 64 << 10}) && !ended && c.Passes() != 1 {
				t.Errorf("%v: %d passes", r, c.Passes())
			}
		}
	}
}

// TestDamageIsFound changes one byte in the middle of a page, which no stamp covers.
func TestDamageIsFound(t *testing.T) {
	c := honest(Row{1 << 20, 4 << 10})
	c.Ops = []Op{Write, Read}
	w, err := newRow(c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.operate(t.Context(), Write); err != nil {
		t.Fatal(err)
	}
	if err := w.verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	spoil(t, w.path, 1<<19+1234)
	failed(t, w.verify(t.Context()), "measure", "returned other data")
	// A record in the place of another is found while it is read.
	f, err := os.OpenFile(w.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	f.ReadAt(page, 4096)
	f.WriteAt(page, 0)
	failed(t, w.operate(t.Context(), Read), "measure", "record 0", "was read back as record 1")
}

// TestLostWriteIsFound puts an old version of a record in the place of the new one.
func TestLostWriteIsFound(t *testing.T) {
	for _, r := range []int64{0, 17} {
		c := honest(Row{1 << 20, 4 << 10})
		c.Ops = []Op{Write, Rewrite, RecRewrite}
		w, err := newRow(c, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.operate(t.Context(), Write); err != nil {
			t.Fatal(err)
		}
		old := make([]byte, c.Rec)
		f, err := os.OpenFile(w.path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.ReadAt(old, r*c.Rec)
		if err := errors.Join(w.operate(t.Context(), Rewrite), w.operate(t.Context(), RecRewrite),
			w.verify(t.Context())); err != nil {
			t.Fatal(err)
		}
		f.WriteAt(old, r*c.Rec)
		failed(t, w.verify(t.Context()), "measure", "a write was lost")
	}
}

func spoil(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := []byte{0}
	f.ReadAt(b, at)
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// failed wants a failure of a kind whose message has all the words.
func failed(t *testing.T, err error, kind string, words ...string) {
	t.Helper()
	var f *record.Failure
	if !errors.As(err, &f) || f.Kind != kind {
		t.Fatalf("got %v, want a failure of kind %s", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(f.Message, word) {
			t.Errorf("the message %q lacks %q", f.Message, word)
		}
	}
}

// TestConfig holds the refusals of what makes no sense.
func TestConfig(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "fs.matrix")
	for want, given := range map[string]map[string]string{
		"larger than size":            {"size": "4KiB", "bs": "8KiB"},
		"there is no operation":       {"ops": "wirte"},
		"did you mean \"write\"":      {"ops": "wirte"},
		"leave out cache=cold":        {"direct": "yes", "cache": "cold"},
		"or compat":                   {"compat": "iozone", "cache": "cold"},
		"is mostly sequential":        {"size": "64KiB", "bs": "4KiB", "ops": "strideread"},
		"stdio cannot use direct I/O": {"direct": "yes", "ops": "fwrite fread"},
		"preset=direct4k means bs=":   {"preset": "direct4k", "bs": "8KiB"},
	} {
		p, err := k.Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v gives %v, want %q in it", given, err, want)
		}
	}
	p, err := k.Resolve(map[string]string{"preset": "direct4k", "size": "128MiB"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := configOf(p)
	if err != nil {
		t.Fatal(err)
	}
	if c.Size != 128<<20 || c.Rec != 4<<10 || !c.Direct || !c.Fsync || c.Close ||
		!slices.Equal(c.Ops, []Op{Write, Rewrite, RandRead, RandWrite}) {
		t.Errorf("direct4k with 128 MiB is %+v", c)
	}
	for name, want := range defaults {
		if p, _ := k.Resolve(nil); p[name] != want {
			t.Errorf("the default of %s is %q and presets take it for %q", name, p[name], want)
		}
	}
}

// TestStdioLeavesDirect wants a table of direct I/O without stdio, and says so only by leaving it out.
func TestStdioLeavesDirect(t *testing.T) {
	c := honest(Row{1 << 20, 4 << 10})
	c.Direct = true
	if got := c.meaningful(); slices.Contains(got, Fwrite) || slices.Contains(got, Freread) || len(got) != 9 {
		t.Errorf("direct rows do %v", got)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	tr := &trial{config: honest(Row{1 << 20, 4 << 10})}
	if err := workload.Drive(ctx, tr, &workload.Bench{Dir: dir, Work: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNoRoom(t *testing.T) {
	_, err := drive(t, honest(Row{1 << 49, 1 << 20}), t.TempDir(), 1)
	if err == nil || !strings.Contains(err.Error(), "use a smaller size") {
		t.Errorf("a file of 512 TiB gives %v", err)
	}
}

// TestStdio holds fwrite's rule to bytes: whatever was put comes out in order, in calls of one record.
func TestStdio(t *testing.T) {
	for n := range 6 {
		path := filepath.Join(t.TempDir(), "f")
		h, err := fileio.Open(path, fileio.Mode{Write: true, Create: true})
		if err != nil {
			t.Fatal(err)
		}
		s := &stdio{h: h, buf: make([]byte, 8)}
		want := ""
		for i := range n {
			p := strings.Repeat(string(rune('a'+i)), 8)
			want += p
			if err := s.put([]byte(p)); err != nil {
				t.Fatal(err)
			}
		}
		held := 0
		if n > 0 && n%2 == 0 {
			held = 8
		}
		if st, _ := os.Stat(path); st.Size() != int64(len(want)-held) {
			t.Errorf("after %d records the file has %d bytes, and the buffer should hold %d", n, st.Size(), held)
		}
		if err := errors.Join(s.flush(), s.flush(), h.Close()); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("%d records: %q", n, got)
		}
	}
}

// TestInjected wants extra passes to show as cost: tare's own positive control.
func TestInjected(t *testing.T) {
	c := honest(Row{1 << 20, 64 << 10})
	tr := &trial{config: c}
	b := &workload.Bench{Dir: t.TempDir(), Work: 20, Seed: 1}
	if err := tr.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := tr.Measure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rate := 20 * 1024 / tr.row.cells[Read].Time.Seconds() // 20 passes of 1,024 KiB
	b.Work = 10                                           // half of what was done is reported
	if err := errors.Join(tr.Report(b), tr.Cleanup(b)); err != nil {
		t.Fatal(err)
	}
	if r := rate / b.Metrics["read"]; r < 1.999 || r > 2.001 {
		t.Errorf("twice the work is reported as %v times the cost", r)
	}
}

// TestResolvedTwice wants resolved parameters to resolve to themselves: the plan resolves them, and the worker again.
func TestResolvedTwice(t *testing.T) {
	for _, k := range Kinds() {
		p, err := k.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := k.Resolve(p); err != nil || !maps.Equal(again, p) {
			t.Errorf("%s: %v, again %v, %v", k.Name, p, again, err)
		}
	}
}

func TestKindIsComplete(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "fs.matrix")
	p, err := k.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(k.MetricsFor(p)); got != int(numOps)+1 {
		t.Errorf("%d metrics", got)
	}
	if k.Space(p) < 64<<20 {
		t.Errorf("%d bytes of space for a file of 64 MiB", k.Space(p))
	}
	if runtime.GOOS == "linux" && clockStep() > 10e6 {
		t.Errorf("the clock's step is %v", clockStep())
	}
}
