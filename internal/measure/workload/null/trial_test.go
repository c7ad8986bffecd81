package null

import (
	"errors"
	"io"
	"math"
	"os"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
)

func TestSpinAndJumpAgree(t *testing.T) {
	for _, n := range []int64{0, 1, 2, 3, 7, 64, 1000, 123_457} {
		for _, x := range []uint64{0, 1, math.MaxUint64} {
			if a, b := spin(x, n), jump(x, n); a != b {
				t.Errorf("%d steps from %d: %#x step by step, %#x at once", n, x, a, b)
			}
		}
	}
}

func TestTrial(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "null")
	b := trialtest.Run(t, kind, map[string]string{"check": "other", "spin": "50"}, 10_000)
	if b.Checks["check"] != "other" || b.Checks["spin"] != "50" {
		t.Errorf("checks %v", b.Checks)
	}
}

func TestFailures(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "null")
	for _, where := range []string{failSetup, failMeasure, failReport, failCleanup} {
		if _, err := trialtest.Try(t, kind, map[string]string{"fail": where}, 1); !errors.Is(err, errRequested) {
			t.Errorf("fail=%s gave %v", where, err)
		}
	}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, errRequested) {
			t.Errorf("fail=panic panics with %v", err)
		}
	}()
	_, _ = trialtest.Try(t, kind, map[string]string{"fail": failPanic}, 1)
	t.Error("fail=panic does not panic")
}

const killVariable = "TARE_TEST_NULL_KILL"

func TestKill(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "null")
	if os.Getenv(killVariable) != "" {
		_, err := trialtest.Try(t, kind, map[string]string{"fail": failKill}, 1)
		t.Fatalf("fail=kill came back with %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// What dies without a word leaves its temporary directory behind: let that be in ours.
	dir := t.TempDir()
	p, err := os.StartProcess(self, []string{self, "-test.run=^TestKill$"}, &os.ProcAttr{
		Env: append(os.Environ(), killVariable+"=1", "TMPDIR="+dir, "TMP="+dir), Files: []*os.File{nil, w, w},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	state, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	// A test that fails exits with 1, one that panics with 2, and both say why.
	if state.Success() || len(said) != 0 {
		t.Errorf("fail=kill ended with %v and %q, want a death without a word", state, said)
	}
}

func TestHang(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "null")
	b := trialtest.Run(t, kind, map[string]string{"hang": "30ms"}, 1)
	if b.Elapsed < 30*time.Millisecond {
		t.Errorf("hang=30ms took %v", b.Elapsed)
	}
}

func TestNoise(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "null")
	p, err := kind.Resolve(map[string]string{"noise": "50"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[float64]bool{}
	for range 20 {
		tr, err := kind.New(p)
		if err != nil {
			t.Fatal(err)
		}
		n := tr.(*trial).noise
		if n < 0 || n > 0.5 {
			t.Errorf("noise of %g, want 0 to 0.5", n)
		}
		seen[n] = true
		b := &workload.Bench{Work: 1000, Seed: 1}
		if err := tr.Measure(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if want := int64(1_000_000 * (1 + n)); tr.(*trial).steps != want {
			t.Errorf("noise %g: %d steps, want %d", n, tr.(*trial).steps, want)
		}
	}
	if len(seen) < 2 {
		t.Error("all trials have the same noise")
	}
}
