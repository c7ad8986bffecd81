package collect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// TestManyHosts reads, judges and reports a large fleet. What a host takes in memory is bounded, and the report stays
// one that can be read:
//
//	TARE_FLEET_HOSTS=10000 go test ./internal/run/collect -run ManyHosts -v
func TestManyHosts(t *testing.T) {
	n, cells := 2000, 3
	if k, err := strconv.Atoi(os.Getenv("TARE_FLEET_HOSTS")); err == nil {
		n = k
	}
	dir := largeFleet(t, n, cells)
	a, err := Load(t.Context(), dir, options(t))
	if err != nil {
		t.Fatal(err)
	}
	r := fleet.Judge(a)
	var live runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&live)
	runtime.KeepAlive(a)
	if len(r.Hosts) != n || len(r.Cells) != cells {
		t.Fatalf("%d hosts, %d cells", len(r.Hosts), len(r.Cells))
	}
	var out bytes.Buffer
	if err := fleet.Text(&out, r, fleet.Options{}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines > 150 ||
		!strings.Contains(out.String(), fmt.Sprintf("counted: all %d hosts", n)) {
		t.Errorf("%d lines:\n%.2000s", lines, out.String())
	}
	mib := float64(live.HeapAlloc) / (1 << 20)
	t.Logf("%d hosts with %d cells: %.0f MiB", n, cells, mib)
	if each := mib * 1024 / float64(n); each > 60 {
		t.Errorf("%.0f KiB for each host", each)
	}
	// None of them is there any more: each is named, and none makes the report longer.
	if err := os.RemoveAll(filepath.Join(dir, hostsDir)); err != nil {
		t.Fatal(err)
	}
	if a, err = Load(t.Context(), dir, options(t)); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := fleet.Text(&out, fleet.Judge(a), fleet.Options{}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); len(a.Refused) != n || lines > 150 {
		t.Errorf("%d of %d are refused, in %d lines:\n%.2000s", len(a.Refused), n, lines, out.String())
	}
}

// TestManyBundles packs the bundles of many hosts, made of one that was measured, and collects them: all count. To see
// what that costs with many of a real run, name its folder, and one for the bundles, into which they are only written:
//
//	TARE_FLEET_BUNDLE=RUN TARE_FLEET_HOSTS=1000 TARE_FLEET_INTO=DIR go test ./internal/run/collect -run ManyBundles
func TestManyBundles(t *testing.T) {
	of, n, into := filepath.Join("..", "..", "..", "testdata", "bundles", "demo"), 3, os.Getenv("TARE_FLEET_INTO")
	if into != "" {
		of = cmp.Or(os.Getenv("TARE_FLEET_BUNDLE"), of)
		n = 1000
		if k, err := strconv.Atoi(os.Getenv("TARE_FLEET_HOSTS")); err == nil {
			n = k
		}
		packClones(t, of, n, into)
		return
	}
	into = t.TempDir()
	packClones(t, of, n, into)
	a, err := Add(t.Context(), filepath.Join(t.TempDir(), "fleet"), []string{into}, options(t))
	if err != nil {
		t.Fatal(err)
	}
	collected(t, a, n)
	r := fleet.Judge(a)
	if len(r.Cells) == 0 {
		t.Error("they say nothing")
	}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Primary && c.Hosts != n {
			t.Errorf("%s in %s: %d hosts have a figure, want %d", c.Workload, c.Target, c.Hosts, n)
		}
	}
}

// packClones packs into a folder what n hosts would have measured: the trials of the bundle in a folder, as long on
// each as its own speed makes them.
func packClones(t *testing.T, of string, n int, into string) {
	t.Helper()
	b, err := bundle.Open(of)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := b.Load()
	if err != nil {
		t.Fatal(err)
	}
	rates := map[string]bool{} // metrics of which more is better
	for _, w := range b.Plan.Workloads {
		k, ok := kindOf(w.Kind)
		if !ok {
			t.Fatalf("there is no work of the kind %s", w.Kind)
		}
		for _, m := range k.MetricsFor(w.Params) {
			rates[m.Name] = m.Better == unit.Higher
		}
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		t.Fatal(err)
	}
	scratch, rng := t.TempDir(), rand.New(rand.NewPCG(uint64(n), 1))
	for k := 1; k <= n; k++ {
		slower := math.Exp(0.03 * rng.NormFloat64())
		if err := packClone(b, trials, rates, k, n, slower, filepath.Join(scratch, "clone"), into); err != nil {
			t.Fatal(err)
		}
	}
}

func packClone(b *bundle.Bundle, trials []record.Trial, rates map[string]bool, k, n int, slower float64, scratch,
	into string) error {
	w, err := bundle.Create(scratch, fmt.Sprintf("run-%d", k), b.Plan)
	if err != nil {
		return err
	}
	defer w.Close()
	name := fmt.Sprintf("node%d", k)
	err = errors.Join(w.Mark(&bundle.Shard{Plan: plan.Identity(b.Plan), Number: k, Of: n, Host: name,
		Machine: fmt.Sprintf("%032x", k)}), w.Environments(b.Environments))
	for i := range trials {
		t := trials[i]
		t.AgentNS, t.ControllerNS = int64(float64(t.AgentNS)*slower), int64(float64(t.ControllerNS)*slower)
		t.Metrics = maps.Clone(t.Metrics)
		for metric := range t.Metrics {
			if rates[metric] {
				t.Metrics[metric] /= slower
			} else {
				t.Metrics[metric] *= slower
			}
		}
		if err == nil {
			err = w.Append(&t)
		}
	}
	return errors.Join(err, w.Finish(bundle.Finished, b.Manifest.Seconds),
		bundle.Pack(scratch, filepath.Join(into, name+bundle.Ext)), os.RemoveAll(scratch))
}
